"""Devices: files, labels, checks, the view of a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilesim as ts


@pytest.mark.parametrize("name", ts.Device.names())
def test_shipped_device(name: str) -> None:
    device = ts.Device.load(name)
    again = ts.Device.load(device.to_dict())
    assert again.to_dict() == device.to_dict()
    assert device.memory.bytes > device.shared.bytes
    for level in device.levels:
        assert f"levels.{level.name}" in device.sources, level
    for key in ("units", "clock_hz", "matrix", "vector", "launch_seconds", "power_watts"):
        assert device.sources[key]
    for dtype, rate in device.matrix.items():
        assert (rate.flops_per_second > 0) == (rate.how != "absent"), dtype
        assert rate.reason or rate.how == "native", dtype
    for near, far in zip(device.levels, device.levels[1:], strict=False):
        assert near.bytes_per_second >= far.bytes_per_second


def test_every_device_of_the_tables_is_shipped() -> None:
    labels = {
        "A100-SXM4-80GB": "a100", "L40S": "l40s", "B200-SXM": "b200", "H100-SXM-80GB": "h100", "H200-SXM": "h200",
        "RTX-PRO-6000": "rtx-pro-6000", "Arc-Pro-B60": "b60", "T4": "t4", "Tesla V100": "v100",
    }  # fmt: skip
    for label, name in labels.items():
        assert ts.Device.load(label).name == name


@pytest.mark.parametrize(
    ("names", "bf16", "f8", "memory", "rate"),
    [  # TFLOP/s dense, GB, GB/s of the data sheets
        (("a40", "A40"), 149.7, 0, 51.5, 696), (("a10", "A10"), 125, 0, 25.8, 600),
        (("a6000", "RTX A6000", "rtx-a6000"), 154.8, 0, 51.5, 768), (("gh200", "GH200"), 989.4, 1978.9, 103.1, 4000),
        (("h20", "H20"), 148, 296, 103.1, 4000), (("b300", "B300-SXM"), 2250, 4500, 288, 8000),
        (("gb200", "GB200"), 2500, 5000, 186, 8000), (("mi250", "Instinct MI250"), 362.1, 0, 137.4, 3276.8),
        (("mi325x", "MI325X"), 1307.4, 2614.9, 274.9, 6000), (("gaudi3", "Gaudi 3"), 1835, 1835, 128, 3700),
        (("trainium2", "trn2"), 667, 1299, 103.1, 2900), (("tpu-v7", "Ironwood", "TPU7x"), 2307, 4614, 206.2, 7380),
    ],
)  # fmt: skip
def test_devices_that_people_name_first(
    names: tuple[str, ...], bf16: float, f8: float, memory: float, rate: float
) -> None:
    for name in names:
        device = ts.Device.load(name)
        assert device.rate("bf16").flops_per_second == pytest.approx(bf16 * 1e12)
        assert device.rate("f8e4m3fn").flops_per_second == pytest.approx(f8 * 1e12)
        assert device.memory.bytes == pytest.approx(memory * 1e9, rel=2e-3)
        assert device.memory.bytes_per_second == pytest.approx(rate * 1e9)
        assert "not calibrated" in device.description
    found = ts.estimate(ts.workloads.matmul(4096, 4096, 4096, dtype="bf16"), names[0])
    assert 2 * 4096**3 / (bf16 * 1e12) <= found.seconds <= 5 * 2 * 4096**3 / (bf16 * 1e12)


def test_rates_that_a_device_lacks_are_answers() -> None:
    t4 = ts.Device.load("t4")
    assert t4.rate("f8e4m3fn").how == "absent"
    assert t4.rate("bfloat16").how == "emulated"
    assert t4.rate("tf32").how == "absent"
    assert t4.rate("float16").flops_per_second == 65e12


def test_presets_of_a_published_simulator_are_kept() -> None:
    """mlsim's desktop CPU, NPU and mobile presets: levels in KiB and GB/s, peaks; its T4 clock of 1.0 GHz is not."""
    desktop, npu, phone = (ts.Device.load(name) for name in ("desktop-avx512", "npu-systolic", "phone-neon"))
    assert [level.bytes_per_second for level in desktop.levels] == [2000e9, 800e9, 300e9, 50e9]
    assert desktop.matrix["f32"].flops_per_second == pytest.approx(0.896e12)
    assert npu.matrix["f32"].flops_per_second == pytest.approx(163.84e12)
    assert [level.bytes for level in npu.levels] == [256 << 10, 8 << 20, 16 << 30]
    assert phone.matrix["f32"].flops_per_second == pytest.approx(0.0768e12)
    assert ts.Device.load("t4").clock_hz == pytest.approx(1.59e9)
    names = {
        "cpu_avx512": "desktop-avx512",
        "npu_systolic": "npu-systolic",
        "mobile_neon": "phone-neon",
        "gpu_t4": "t4",
    }
    assert {name: ts.Device.load(name).name for name in names} == names


@pytest.mark.parametrize("name", ts.Device.names())
def test_a_shipped_device_holds_specifications_only(name: str) -> None:
    """No constant of a model and no fit: those belong to families and to named profiles."""
    from tilesim.analytic.constants import CONSTANTS

    device = ts.Device.load(name)
    assert not set(device.to_dict()) & set(CONSTANTS)
    assert not any("fitted" in text or "calibrat" in text for text in device.sources.values())
    for key in ("units", "clock_hz", "matrix", *(f"levels.{level.name}" for level in device.levels)):
        assert device.sources.get(key), key


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"levels": []}, ["levels"]),
        ({"units": -1}, ["units", "positive"]),
        ({"units": "many"}, ["units", "number"]),
        ({"clock_ghz": 1}, ["clock_ghz", "clock_hz"]),
        ({"kind": "gpus"}, ["gpu"]),
        ({"matrix": {}}, ["matrix"]),
        ({"matrix": {"f33": 1e12}}, ["f33"]),
        ({"matrix": {"f32": {"flops_per_second": 1e12, "how": "nativ"}}}, ["native"]),
        ({"levels": [{"name": "DRAM", "bytes": 1, "bytes_per_second": float("nan")}]}, ["bytes_per_second"]),
        ({"levels": [{"name": "DRAM", "byte": 1}]}, ["byte"]),
    ],
)
def test_mistakes_in_a_device(change: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ts.UserError) as caught:
        ts.Device.load({**ts.Device.load("t4").to_dict(), **change})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"units": []}, "units"),
        ({"units": [{"name": "a", "counts": 3}]}, "units[0]"),
        ({"labels": "gpu"}, "labels"),
        ({"labels": ["a", 3]}, "labels[1]"),
        ({"clocks": [1e9]}, "clocks"),
        ({"clocks": {"boost": -1e9}}, "clocks.boost"),
        ({"matrix": [1e12]}, "matrix"),
        ({"vector": [1e12]}, "vector"),
        ({"levels": [3]}, "levels[0]"),
        ({"sources": {"units": 1}}, "sources.units"),
        ({"name": 3}, "name"),
        ({"family": None}, "family"),
        ({"shared_level": 1}, "shared_level"),
    ],
)
def test_values_of_another_kind(change: dict[str, object], place: str) -> None:
    with pytest.raises(ts.UserError) as caught:
        ts.Device.load({**ts.Device.load("t4").to_dict(), **change})
    assert caught.value.place == f"device.{place}"


def test_mistakes_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    for text, word in (("{", "JSON"), ("{}", "tilesim.device"), (json.dumps({"schema": "tilesim.machine"}), "machine")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ts.UserError, match=word):
            ts.Device.load(path)
    with pytest.raises(ts.UserError, match="no such file"):
        ts.Device.load(tmp_path / "missing.json")
    with pytest.raises(ts.UserError, match="h100"):
        ts.Device.load("h1000")


def test_written_by_hand() -> None:
    device = ts.Device(
        [ts.analytic.Level("scratchpad", 1 << 20, 1e12), {"name": "DRAM", "bytes": 1 << 30, "bytes_per_second": 1e11}],
        units=4,
        matrix={"f32": 1e12, "bf16": ts.analytic.Rate(2e12)},
    )
    assert device.shared.name == "scratchpad"
    assert device.rate("bf16").flops_per_second == 2e12
    assert device.replace(units=8).units == 8


def test_several_sorts_of_units() -> None:
    level = {"name": "DRAM", "bytes": 1 << 30, "bytes_per_second": 1e11}
    lanes = {"name": "lanes", "count": 16, "matrix": {"f32": 1e12, "bf16": 1e12}, "vector": {"f32": 1e12}}
    arrays = {"name": "array", "count": 2, "matrix": {"bf16": 8e12}}
    device = ts.Device(levels=[level], units=[lanes, arrays])
    assert (device.units, device.unit) == (2, "array")
    assert device.rate("bf16").flops_per_second == 8e12
    assert device.rate("f32").flops_per_second == 1e12
    turned = ts.Device(levels=[level], units=[arrays, lanes])
    assert (turned.units, turned.unit, turned.rate("bf16")) == (2, "array", device.rate("bf16"))
    own = ts.Device(levels=[level], units=[lanes, arrays], matrix={"bf16": 3e12})
    assert own.rate("bf16").flops_per_second == 3e12, "what is given for the whole device counts"
    assert own.vector == device.vector and own.vector["f32"].flops_per_second == 1e12
    assert not ts.Device(levels=[level], units=[arrays]).vector
    with pytest.raises(ts.UserError, match="cout"):
        ts.Device(levels=[level], units=[{"cout": 2}])


@pytest.mark.parametrize("name", ts.Machine.names())
def test_view_of_a_machine(name: str) -> None:
    machine = ts.Machine.load(name)
    device = ts.Device.from_machine(machine)
    view = machine.core.device()
    assert device.memory.bytes_per_second == view["memory_bytes_per_second"]
    for dtype, rate in view["matrix_flops_per_second"].items():
        assert device.rate(dtype).flops_per_second == rate


def test_power_states() -> None:
    t4 = ts.Device.load("t4")
    base = ts.Device.load("t4@base")
    ratio = 585 / 1590
    assert base.rate("f16").flops_per_second == pytest.approx(65e12 * ratio)
    assert base.vector_rate() == pytest.approx(8.1e12 * ratio)
    assert base.shared.bytes_per_second == pytest.approx(t4.shared.bytes_per_second * ratio)
    assert base.memory.bytes_per_second == t4.memory.bytes_per_second
    assert t4.at("585 MHz").to_dict() == t4.at(585e6).to_dict() == base.to_dict()
    assert t4.at("boost").clock_hz == t4.clock_hz
    assert ts.Device.load("a100@boost").clock_hz == 1.41e9
    large, one_row = (4096, 4096, 4096), (1, 8192, 8192)
    from tilesim.analytic.gemm import gemm_seconds

    fast, slow, capped = (
        [float(gemm_seconds(device, *shape, dtype="fp16", source="mlsim")) for shape in (large, one_row)]
        for device in (t4, base, t4.at("50W"))
    )
    assert 2 < slow[0] / fast[0] < 1 / ratio + 0.1 and capped[0] > 1.2 * fast[0]  # arithmetic follows the clock
    assert slow[1] < 1.1 * fast[1] and capped[1] == pytest.approx(fast[1])  # DRAM does not
    for state, word in (("bse", "base"), ("-1GHz", "positive"), ("", "base"), ("many W", "power limit")):
        with pytest.raises(ts.UserError, match=word):
            t4.at(state)
    with pytest.raises(ts.UserError, match="clocks"):
        ts.Device.load({**t4.to_dict(), "clocks": {"base": "slow"}})


def test_estimates_are_above_their_bounds():
    """On every device, for the dtypes that it has: f32 products round their operands where the units are narrower."""
    for dtype in ("f32", "bf16"):
        graph = ts.workloads.matmul(1024, 1024, 1024, dtype=dtype)
        for name in ts.Device.names():
            device = ts.Device.load(name)
            if device.rate(dtype).how != "absent":
                assert ts.estimate(graph, device).seconds >= ts.lower_bound(graph, device).seconds, (name, dtype)
