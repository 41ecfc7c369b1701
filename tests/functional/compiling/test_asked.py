"""What results are asked on odd machines: names that tell them apart, hosts, devices, quantized graphs."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.base.screen import fitted_all


def test_a_lowering_is_no_other_machine() -> None:
    """Without its profile and barrier the machine is the same one; a setting that a user changes is told."""
    result = ts.run("mlp", lowering="best")
    assert result.data["machine"] == "tpu-v3" and result.lowering == "best"
    assert ts.run("mlp", machine="gemmini-16", quantize="i8").data["machine"] == "gemmini-16"
    changed = ts.Machine.load("tpu-v3").replace({"core.kernel_barrier": False})
    assert changed.label == "tpu-v3, core.kernel_barrier false"


def test_an_option_that_was_not_given_is_called_default() -> None:
    words = ts.compare(ts.run("mlp"), ts.run("mlp", fuse="none")).headline()
    assert words.startswith("b (fuse none) against a (fuse default)")


def test_a_quantized_graph_is_told_from_its_own() -> None:
    words = ts.compare(ts.run("mlp", machine="edge-8"), ts.run("mlp", machine="edge-8", quantize="i8")).headline()
    assert words.startswith("b (f32, batch 1, quantized to i8) against a (f32, batch 1)")


def test_one_setting_has_one_value() -> None:
    with pytest.raises(ts.UserError, match=r"core.array.count: duplicate setting.*core.arrays and core.array"):
        ts.Machine.load("tpu-v3").replace({"core.arrays": 4, "core.array.count": 3})


def test_what_a_host_runs_is_no_fault_and_can_be_asked() -> None:
    """The host's times are closed forms: they are not held to the machine's peaks."""
    result = ts.run("mlp", machine="gemmini-16", fallback="host")
    assert result.checks == []
    why = result.why("layers.0")
    assert why.terms.rows and "layers.0" in str(why)


@pytest.mark.parametrize(("dtype", "peak"), [("f32", 66.9e12), ("bf16", 989.4e12)])
def test_a_device_is_asked_for_the_peak_of_the_dtype(dtype: str, peak: float) -> None:
    """NVIDIA's datasheet: 66.9 TFLOP/s in f32, 989.4 in bf16; a product of 4096 takes at least 2 * 4096³ of them."""
    why = ts.run(f"matmul:4096,4096,4096,{dtype}", machine="h100").why("matmul")
    assert why.roofline["peak_flops_per_second"] == pytest.approx(peak, rel=1e-3)
    assert why.bound_seconds == pytest.approx(2 * 4096**3 / peak, rel=1e-3)


@pytest.mark.parametrize(("scheme", "bits"), [("i8", 8), ("fp8", 8), ("w4a16", 4.125)])
def test_a_device_multiplies_what_its_kernels_have(scheme: str, bits: float) -> None:
    """Fewer bytes by what the weights of 2 · 4096² elements lose; groups of 128 add a scale of 16 bits."""
    b = ts.GraphBuilder("two")
    x = b.input("x", (1, 4096), "bf16")
    b.output(b.linear(b.linear(x, 4096, bias=False, name="up"), 4096, bias=False, name="down"), "y")
    wide, narrow = ts.run(b.build(), machine="h100"), ts.run(b.build(), machine="h100", quantize=scheme)
    assert wide.memory_bytes - narrow.memory_bytes == pytest.approx(2 * 4096**2 * (16 - bits) / 8, rel=1e-3)
    assert narrow.seconds < wide.seconds
    assert f"quantized to {scheme}" in narrow.summary()
    with pytest.raises(ts.UserError, match=r"quantize: unknown quantization.*i9.*allowed: i8, fp8, w4a16"):
        ts.run(b.build(), machine="h100", quantize="i9")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("scheme", ["i8", "fp8", "w4a16"])
def test_weights_that_no_narrow_number_stands_for(scheme: str, value: float) -> None:
    w = np.ones((8, 8), np.float32)
    w[3, 4] = value
    b = ts.GraphBuilder("odd")
    b.output(b.matmul(b.input("x", (4, 8)), b.weight("w", data=w)), "y")
    with pytest.raises(ts.UserError, match=r"w: narrow dtypes hold neither NaN nor infinity \(got 1 of 64 elements"):
        ts.quantize(b.build(), scheme)


def test_a_metric_that_does_not_travel() -> None:
    with (
        ts.executors.processes(1) as pool,
        pytest.raises(ts.UserError, match=r"cannot be pickled.*<lambda>"),
    ):
        ts.sweep("mlp", "edge-8", {"core.array.rows": [4, 8]}, executor=pool, metrics=[lambda result: result.cycles])


def test_short_names_differ_where_names_do() -> None:
    names = ["encoder.layer.*.output.dense ×12", "encoder.layer.*.attention.output.dense ×12", "pooler.dense"]
    assert len(set(fitted_all(names, 24))) == 3
    assert all(len(one) <= 24 for one in fitted_all(names, 24))
    assert fitted_all(["a" * 40, "a" * 40], 10) == ["aaaa…aaaaa"] * 2


def test_short_names_of_settings_are_near() -> None:
    with pytest.raises(ts.UserError, match=r"unknown setting.*Did you mean 'core.arrays'"):
        ts.Machine.load("tpu-v3").replace({"core.arrayz": 4})
    with pytest.raises(ts.UserError, match=r"Did you mean 'layers.0'"):
        ts.run("mlp").why("LAYERS.0")


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (ts.models.mlp, {"batch": 3}, "f32, batch 3"),
        (ts.models.mlp, {"batch": 1200, "dtype": "bfloat16"}, "bf16, batch 1,200"),
        (ts.models.gpt2, {"sequence": 16}, "16 tokens"),
        (ts.models.qwen2_5_1_5b, {"context": 40, "phase": "decode"}, "bf16, batch 1, decode at 40"),
    ],
)
def test_networks_say_how_they_were_built(make: Any, settings: dict[str, Any], said: str) -> None:
    """By function as by name, and pickled functions are found again."""
    graph = make(**settings)
    assert graph.setting.endswith(said)
    assert pickle.loads(pickle.dumps(make)) is make
    if make is ts.models.mlp:
        assert f", {said}," in ts.run(graph, machine="edge-8").summary()
        assert ts.models.build("mlp", **settings).setting == graph.setting


def test_a_result_keeps_its_setting_in_the_core() -> None:
    """The core reads what the file says and writes it again; the hash of times does not change with it."""
    result = ts.run(ts.models.mlp(batch=2), machine="edge-8")
    core = _core.Result.from_json(json.dumps(result.data))
    assert json.loads(core.to_json())["setting"] == "f32, batch 2" == result.data["setting"]
    other = _core.Result.from_json(json.dumps(result.data | {"setting": "<b>another</b>"}))
    assert other.timing_hash() == core.timing_hash() == result.timing_hash()
    with pytest.raises(ts.UserError):
        _core.Result.from_json(json.dumps(result.data | {"setting": 3}))


def test_a_hash_is_of_times_alone() -> None:
    """What a network was built with, and errors against f32, stand beside the times."""
    named = ts.run("mlp", machine="edge-8", accuracy=True)
    assert named.data["setting"] and named.data["accuracy"]
    assert named.timing_hash() == ts.run("mlp", machine="edge-8").timing_hash()
    plain = ts.Result({key: value for key, value in named.data.items() if key not in ("setting", "accuracy")})
    assert plain.timing_hash() == named.timing_hash()
