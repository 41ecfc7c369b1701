"""What a newcomer writes first: names in another spelling, sizes of a workload, settings by half a name; each is taken
as meant or refused with the way to go, and what is printed says what it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.command import tilesim
from tilesim.base import figures
from tilesim.base.table import Table
from tilesim.machine.device import folded

SPELLINGS = ("TPU-V3", "tpu_v3", "tpuv3", "TPU v3", "tpu-v3 ", "Tpu.V3", "TPU-v4", "tpu_v4", "TPU-v3@1 GHz")
CALLS: dict[str, Any] = {
    "run": lambda name: ts.run("mlp", machine=name),
    "estimate": lambda name: ts.estimate("mlp", name),
    "roofline": lambda name: ts.roofline("mlp", name),
    "lower_bound": lambda name: ts.lower_bound("mlp", name),
    "compile": lambda name: ts.compile("mlp", name),
    "sweep": lambda name: ts.sweep("mlp", name, {"core.arrays": [1]}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_machine_in_another_spelling_gives_no_other_number(call: str, name: str) -> None:
    with pytest.raises(ts.UserError) as caught:
        CALLS[call](name)
    machine = f"tpu-v{re.findall('[34]', name)[0]}"
    assert machine in caught.value.suggestion
    if call in ("run", "estimate", "roofline", "lower_bound"):  # which take devices too
        assert f"{machine}-datasheet is estimated" in caught.value.suggestion


def test_no_machine_is_taken_for_a_device_or_the_other_way() -> None:
    devices = {folded(name) for name in ts.Device.names()}
    for name in ts.Machine.names():
        assert ts.run("matmul:8,8,8,i8", machine=name, fallback="host").data["source"] == "engine"
        assert folded(name) not in devices  # exact names never collide
        for other in {name.upper(), name.replace("-", "_"), f" {name}", name.replace("-", "")} - {name}:
            with pytest.raises(ts.UserError, match=re.escape(name)):
                ts.run("mlp", machine=other)


def test_labels_stay_names_of_devices() -> None:
    assert ts.Device.load("TPU-v3").name == ts.Device.named("TPUv3").name == "tpu-v3-datasheet"
    assert ts.run("mlp", machine="A100-SXM4-80GB").data["machine"] == "a100"
    out = tilesim("roofline", "mlp", "--device", "TPU-v3")
    assert out.returncode == 0 and "tpu-v3-datasheet" in out.stdout
    for command in (("run", "mlp"), ("roofline", "mlp"), ("compare", "mlp", "--machine", "t4")):
        refused = tilesim(*command, "--machine", "TPU-v3")
        assert refused.returncode == 2 and "tpu-v3" in refused.stderr and "Traceback" not in refused.stderr


def test_machine_and_device_are_one_option() -> None:
    assert "estimated" in tilesim("roofline", "mlp", "--machine", "h100").stdout
    assert (
        tilesim("run", "mlp", "--device", "t4", "--quiet").stdout
        == tilesim("run", "mlp", "--machine", "t4", "--quiet").stdout
    )
    assert tilesim("roofline", "mlp", "--machine", "h100", "--device", "t4").returncode == 2


@pytest.mark.parametrize("target", ["tpu-v3", "t4"])
def test_an_estimate_says_that_it_is_one(target: str, tmp_path: Path) -> None:
    estimate, simulated = ts.estimate("mlp", target), ts.run("mlp", machine="tpu-v3")
    estimate.save(tmp_path / "a.json")
    for one in (estimate, ts.Result.load(tmp_path / "a.json")):
        assert one.estimated and f"estimated {estimate.cycles:,} cycles" in one.summary()
        assert "estimated" in repr(one) and "simulated" not in repr(one)
    assert not simulated.estimated and "estimated" not in repr(simulated) + simulated.summary()
    assert any("estimated" in name for name in ts.compare(estimate, simulated).names)
    estimate.to_html(tmp_path / "a.html", advice=False)
    page = (tmp_path / "a.html").read_text()
    assert "estimated by closed forms" in page and "estimated, at " in page


def test_a_roofline_of_what_cannot_run_is_refused() -> None:
    with pytest.raises(ts.Unsupported, match=r"attention\.self\.query") as caught:
        ts.roofline("bert-base", "gemmini-16")
    assert "--quantize i8" in caught.value.suggestion and "f32" in str(caught.value) and "i8" in caught.value.allowed
    with pytest.raises(ts.Unsupported, match="--quantize i8"):
        ts.estimate("resnet18", "gemmini-16")
    out = tilesim("roofline", "resnet18", "--machine", "gemmini-16")
    assert out.returncode == 2 and "--quantize i8" in out.stderr
    narrow = tilesim("roofline", "resnet18", "--machine", "gemmini-16", "--quantize", "i8")
    assert narrow.returncode == 0 and "quantized to i8" in narrow.stdout


def test_a_quantized_roofline_is_that_of_integers() -> None:
    # one array of 16 x 16 at 1 GHz: 512 GFLOP/s; resnet18 has 1.814e9 multiply-adds
    bound = ts.roofline(ts.quantize("resnet18", "i8"), "gemmini-16")
    assert bound.compute_seconds == pytest.approx(2 * 1.814e9 / 512e9, rel=1e-3)
    assert all(row["ceiling_tflops"] > 0 for row in bound.table())


@pytest.mark.parametrize("target", ["tpu-v3", "tpu-v4-datasheet"])
def test_run_takes_the_sizes_of_a_named_workload(target: str) -> None:
    given = {"context": 64, "phase": "decode", "batch": 2, "dtype": "f32"}
    mine = ts.run("gpt2", machine=target, **given)
    assert mine.cycles == ts.run(ts.models.build("gpt2", **given), machine=target).cycles
    assert "f32, batch 2, decode at 64" in mine.summary()
    assert ts.run("bert-base", sequence=16).cycles == ts.run("bert-base", context=16).cycles


def test_sizes_that_a_workload_does_not_take_are_refused() -> None:
    for wrong in ({"batch": 0}, {"batch": True}, {"context": 3}, {"phase": "decode"}, {"phase": 3}, {"dtype": "int7"},
                  {"dtype": object()}, {"context": 3, "sequence": 3}, {"batch": "two"}):  # fmt: skip
        with pytest.raises(ts.UserError):
            ts.run("mlp", **wrong)
    with pytest.raises(ts.UserError, match=r"ts\.models\.build\(name, batch=4\)"):
        ts.run(ts.models.mlp(), batch=4)
    for call in (ts.compile, ts.estimate, ts.roofline, ts.sweep, ts.tune):
        with pytest.raises((ts.UserError, TypeError), match=r"ts\.models\.build\(.*context=4\)"):
            call("gpt2", "tpu-v3", context=4)
    with pytest.raises(TypeError, match="Did you mean 'sequence'"):
        ts.models.bert_base(context=4)
    with pytest.raises(TypeError, match="Did you mean 'context'"):
        ts.models.llama_3_8b(sequence=4)


def test_a_network_of_floats_in_integers_names_quantization() -> None:
    for name in ("resnet18", "bert-base"):
        with pytest.raises(ts.UserError, match="--quantize i8"):
            ts.run(name, dtype="int8")
    assert "--quantize i8" in tilesim("run", "resnet18", "--dtype", "int8").stderr


def open_model(path: Path) -> Path:
    onnx = pytest.importorskip("onnx")
    h, floats = onnx.helper, onnx.TensorProto.FLOAT
    ends = [h.make_tensor_value_info(name, floats, ["N", 32]) for name in ("x", "y")]
    graph = h.make_graph([h.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)]), path)
    return path


def test_an_open_batch_is_given_by_its_name_and_said(tmp_path: Path) -> None:
    path = open_model(tmp_path / "dyn.onnx")
    for graph in (ts.from_onnx(path, batch=4), ts.from_onnx(path, sizes={"N": 4}),
                  ts.from_onnx(path, sizes={"N": 4}, batch=9)):  # fmt: skip
        assert graph.inputs[0]["shape"] == (4, 32)
    assert "N = 4" in ts.run(str(path), batch=4).summary()
    assert "N = 1" in ts.run(str(path)).summary()
    assert "N = 1" in tilesim("run", str(path), "--quiet").stdout
    with pytest.raises(ts.UserError, match="batch"):
        ts.from_onnx(path, batch=0)


def test_a_fixed_model_takes_no_batch(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(open_model(tmp_path / "a.onnx"))
    for one in (*model.graph.input, *model.graph.output):
        one.type.tensor_type.shape.dim[0].dim_value = 3
    with pytest.raises(ts.UserError, match="fixed"):
        ts.from_onnx(model, batch=4)
    assert ts.from_onnx(model).setting == ""


def test_sizes_that_somebody_chose_come_back_as_written() -> None:
    said = {"16 KB": "16 kB", "256 KB": "256 kB", "16 MB": "16 MB", "32 MB": "32 MB", "1.5 MB": "1.5 MB",
            "16 KiB": "16 KiB", "1 MiB": "1 MiB", "250 KiB": "256 kB", "96 MiB": "96 MiB"}  # fmt: skip
    table = ts.sweep("mlp", "tpu-v3", {"core.scratchpad.bytes": list(said)[:-2]}, metrics=["cycles"])
    for row, text in zip(table.rows, said.values(), strict=False):
        assert table.shown("core.scratchpad.bytes", row["core.scratchpad.bytes"]) == text
    for written, text in said.items():
        machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": written})
        assert machine.label == f"edge-8, core.scratchpad.bytes {text}"
    for number in (1, 1023, 1024, 1000, 999_999, 10**12, 2**40, 2**40 + 1, 3 * 2**33):
        amount, unit = figures.exact_size(number).replace(",", "").split(" ")
        scale = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
        scale |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
        assert float(amount) * scale[unit] == pytest.approx(number, rel=1e-14)


def test_there_is_one_minus_and_none_before_a_zero() -> None:
    assert figures.percent(-0.00001) == "0.0 %" and figures.percent(-1.352) == "−135.2 %"
    assert figures.digits(-2.5) == "−2.50" and figures.count(-0.4) == "0" and figures.count(-1200) == "−1,200"
    assert figures.part_of(896, 1408, "cycles") == "896 of 1,408 cycles"
    assert figures.part_of(120_000, 162_000, "cycles") == "120 of 162 thousand cycles"
    assert figures.part_of(896, 14_080, "cycles") == "896 of 14,080 cycles"
    assert figures.amount_of(9582, "cycles") == "9,582 cycles"


def test_shares_of_a_difference_are_parts_or_are_not_shown() -> None:
    b = ts.GraphBuilder("two")
    x = b.input("x", (256, 256))
    y = b.matmul(x, b.weight("w", (256, 256)), name="product")
    b.output(y.softmax(-1), "y")
    first = ts.run(b.build())
    second = ts.Result({**first.data, "operations": [dict(row) for row in first.data["operations"]]})
    one, two = sorted(second.data["operations"], key=lambda row: -row["exclusive"])[:2]
    one["exclusive"] += 100
    two["exclusive"] -= 80
    second.data["cycles"] += 20
    text = ts.compare(first, second).text()
    assert "share" not in text and "change" in text and not re.search(r"(?<![\w(])-\d", text)
    one["exclusive"] += 200
    two["exclusive"] += 80
    second.data["cycles"] += 280
    assert "share" in ts.compare(first, second).text()


def test_tables_of_python_fold_layers_and_fit() -> None:
    result = ts.run("resnet18")
    lines = str(result.table()).splitlines()
    assert len(lines) < len(result.table()) and max(map(len, lines)) <= 120
    folded_cycles = [int(re.split(r"\s{2,}", line)[2].replace(",", "")) for line in lines[1:]]
    assert sum(folded_cycles) == sum(row["cycles"] for row in result.table())
    assert "e+" not in str(ts.roofline("bert-base", "tpu-v3").table())


def test_a_long_fused_group_does_not_blow_a_verification() -> None:
    b = ts.GraphBuilder("chain")
    x = b.input("x", (8, 8))
    for index in range(60):
        x = b.apply("add", x, x, name=f"a_rather_long_name_of_one_addition_{index}")
    b.output(x, "y")
    found = ts.verify(ts.compile(b.build(), "edge-8"))
    assert max(map(len, repr(found).splitlines())) <= 120 and repr(found).startswith("equal within the bound")
    assert max(map(len, str(found.table()).splitlines())) <= 120


def test_a_table_writes_numbers_as_people_do() -> None:
    text = str(Table([{"a": None, "b": 118_000_000.0, "c": 33_497_088, "d": 2018, "e": True, "f": 0.05}]))
    assert text.splitlines()[1].split() == ["–", "118,000,000", "33,497,088", "2018", "True", "0.05"]


def test_half_a_setting_is_named_whole() -> None:
    machine = ts.Machine.load("tpu-v3")
    with pytest.raises(TypeError, match=re.escape("replace({'core.clock': '1.2 GHz'})")):
        machine.replace(clock="1.2 GHz")  # type: ignore[call-arg]
    with pytest.raises(ts.UserError, match=r"Did you mean 'core\.clock'"):
        machine.replace({"clock": "1.2 GHz"})
    with pytest.raises(ts.UserError, match=r"core\.arrays"):
        machine.replace({"core.arrays": "4"})
    with pytest.raises(ts.UserError, match=r"core\.scratchpad\.bytes"):
        ts.sweep("mlp", machine, {"core.scratchpad": ["16 MB"]})


def test_wrong_values_name_the_right_ones(tmp_path: Path) -> None:
    with pytest.raises(ts.UserError, match='Write fuse="none"'):
        ts.run("mlp", fuse=False)
    with pytest.raises(ts.UserError, match='Write fuse="all"'):
        ts.run("mlp", fuse=True)
    with pytest.raises(ts.UserError, match="empty") as caught:
        ts.run("")
    assert "directory" not in str(caught.value)
    program = ts.compile("mlp", "tpu-v3")
    for name in ("p.tsim", "p.json"):
        program.save(tmp_path / name)
        with pytest.raises(ts.UserError, match=r"ts\.Program\.load"):
            ts.Result.load(tmp_path / name)
    with pytest.raises(ts.UserError, match=r"\.json or \.tsim"):
        program.save(tmp_path / "p.bin")
    assert ts.run(str(tmp_path / "p.json")).cycles == ts.simulate(program).cycles
    assert ts.simulate(str(tmp_path / "p.json")).cycles == ts.simulate(program).cycles


@pytest.mark.parametrize(
    "words",
    [
        *(("run", "mlp", f"--{one}", "") for one in ("report", "json", "timeline", "baseline", "machine", "set")),
        *(("compare", "mlp", "mlp", f"--{one}", "") for one in ("html", "json")),
        ("tune", "mlp", "--save", ""),
        ("roofline", "mlp", "--html="),
        ("open", "r.json", "-o", ""),
        ("machine", "new", "m.toml", "--from", "tpu-v3", "--name", ""),
    ],
)
def test_an_empty_option_is_not_dropped(words: tuple[str, ...]) -> None:
    told = tilesim(*words)
    option = next(word for word in words if word.startswith("-") and word != "--from").rstrip("=")
    assert told.returncode == 2 and "empty value" in told.stderr and not told.stdout
    assert {"-o": "--output"}.get(option, option) in told.stderr


def test_a_page_without_advice_has_none(tmp_path: Path) -> None:
    """What --no-advice leaves out is not on the page either; without the option it is."""
    pages = {}
    for word in ("--advice", "--no-advice"):
        assert tilesim("run", "mlp", "--quiet", word, "--report", str(tmp_path / "p.html")).returncode == 0
        pages[word] = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "memory.bandwidth = " in pages["--advice"] and "memory.bandwidth = " not in pages["--no-advice"]
    assert "Not requested" in pages["--no-advice"]


@pytest.mark.parametrize(
    ("call", "missing"),
    [(lambda: ts.compare(), "a"), (lambda: ts.run(), "model"), (lambda: ts.sweep("mlp"), "machine"),
     (lambda: ts.Machine.load(), "source"), (lambda: ts.Graph.load(), "path")],
)  # fmt: skip
def test_a_missing_argument_is_named(call: Any, missing: str) -> None:
    with pytest.raises(ts.UserError, match=f": {missing}: an argument is missing") as caught:
        call()
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *(
            ("nope", ""),
            ("xyz", ""),
            ("rnu", "run"),
            ("urn", "run"),
            ("un", "run"),
            ("opne", "open"),
            ("opens", "open"),
        ),
        *(("comapre", "compare"), ("oofline", "roofline")),
    ],
)
def test_commands_that_are_near_are_named(word: str, meant: str) -> None:
    told = tilesim(word).stderr
    assert (f"Did you mean '{meant}'" in told) if meant else "Did you mean" not in told


def test_a_roofline_names_its_time_as_people_do() -> None:
    bound = ts.roofline("mlp", "h100")
    assert f"at least {figures.duration(bound.seconds)}, " in repr(bound)
