"""Graphs cast to bf16 and f16: values as numpy rounds them, times as of the network built so, and every refusal."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
STEP = {"bf16": 2.0**-8, "f16": 2.0**-11}


def two_layers() -> tuple[ts.Graph, dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    data = {
        "x": rng.standard_normal((24, 40)).astype(np.float32),
        "up": (rng.standard_normal((40, 56)) / 6).astype(np.float32),
        "down": (rng.standard_normal((56, 16)) / 7).astype(np.float32),
        "shift": rng.standard_normal(56).astype(np.float32),
    }
    b = ts.GraphBuilder("two")
    x = b.input("x", (24, 40))
    y = b.apply(
        "tanh", b.matmul(x, b.weight("up", data=data["up"]), name="first") + b.weight("shift", data=data["shift"])
    )
    b.output(b.matmul(y, b.weight("down", data=data["down"]), name="second"), "y")
    return b.build(), data


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_values_are_those_of_rounded_numbers(dtype: str) -> None:
    graph, data = two_layers()
    cast = ts.quantize(graph, dtype)
    (found,) = ts.reference(cast, {"x": data["x"].astype(TYPES[dtype])}).values()
    assert found.dtype == TYPES[dtype]
    near = {name: array.astype(TYPES[dtype]).astype(np.float64) for name, array in data.items()}
    wanted = np.tanh(near["x"] @ near["up"] + near["shift"]) @ near["down"]
    # three roundings on the way (two sums, tanh) and one of the result; 56 products of numbers below 1
    assert np.abs(found.astype(np.float64) - wanted).max() < 12 * STEP[dtype]
    torch = pytest.importorskip("torch")
    t = {name: torch.from_numpy(array).to(getattr(torch, {"bf16": "bfloat16", "f16": "float16"}[dtype]))
         for name, array in data.items()}  # fmt: skip
    other = (torch.tanh(t["x"] @ t["up"] + t["shift"]) @ t["down"]).float().numpy()
    assert np.abs(found.astype(np.float32) - other).max() < 12 * STEP[dtype]


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("network", ["mlp", "bert-base", "resnet18", "gpt2", "dlrm"])
def test_it_takes_as_long_as_the_network_built_in_that_dtype(network: str, dtype: str) -> None:
    cast, built = ts.quantize(network, dtype), ts.models.build(network, dtype=dtype)
    assert cast.core.compulsory_bytes() == built.core.compulsory_bytes()
    assert [row["dtype"] for row in cast.core.inputs] == [row["dtype"] for row in built.core.inputs]
    assert ts.run(cast, machine="tpu-v4").cycles == ts.run(built, machine="tpu-v4").cycles


def test_it_says_what_changed() -> None:
    cast = ts.quantize(two_layers()[0], "bfloat16")
    assert any("from f32 to bf16" in line and "the input x" in line for line in cast.assumptions)
    assert cast.setting == "cast to bf16"
    result = ts.run(two_layers()[0], machine="tpu-v4", quantize="f16")
    assert "cast to f16" in result.data["setting"]
    assert any("the input x" in line for line in result.approximations)
    device = ts.run("bert-base", machine="h100", quantize="bf16")
    assert device.cycles == ts.estimate(ts.models.build("bert-base", dtype="bf16"), "h100").cycles


def test_integers_and_floats_that_no_product_multiplies_stay() -> None:
    llama = ts.models.build("llama-3-8b", context=16)
    cast = ts.quantize(llama, "f16")
    for name in llama.functions:
        for old, new in zip(llama.operations(name), cast.operations(name), strict=True):
            pairs = [(a["dtype"], b["dtype"]) for a, b in zip(old["results"], new["results"], strict=True)]
            assert all(b == ("f16" if a == "bf16" else a) for a, b in pairs), new["name"]


def test_exact_products_and_bits_stay_as_they_are() -> None:
    b = ts.GraphBuilder("exact")
    x = b.input("x", (16, 16))
    y = b.op("contract", x, b.weight("w", (16, 16)), a_contract=[1], b_contract=[0], precision="exact", name="kept")
    b.output(b.matmul(y, b.weight("v", (16, 16)), name="free"), "y")
    cast = ts.quantize(b.build(), "bf16")
    kinds = {op["name"]: op for op in cast.operations()}
    assert kinds["kept"]["operands"][0]["dtype"] == "f32" and kinds["free"]["operands"][0]["dtype"] == "bf16"
    assert any("unchanged: kept" in line for line in cast.assumptions)


def test_weights_beyond_the_largest_number_are_it() -> None:
    b = ts.GraphBuilder("large")
    x = b.input("x", (1, 2))
    w = np.array([[1e6, -1e30], [3.0, 4.0]], np.float32)
    b.output(b.matmul(x, b.weight("w", data=w), name="up"), "y")
    cast = ts.quantize(b.build(), "f16")
    assert np.asarray(cast.weight("w")).astype(np.float64).tolist() == [[65504.0, -65504.0], [3.0, 4.0]]
    assert any("2 elements" in line for line in cast.assumptions)
    wide = ts.quantize(b.build(), "bf16")
    assert np.asarray(wide.weight("w")).astype(np.float32).tolist()[1] == [3.0, 4.0]
    assert not any("elements" in line for line in wide.assumptions)


def test_refusals() -> None:
    with pytest.raises(ts.UserError, match="bf16 already"):
        ts.quantize(ts.workloads.matmul(8, 8, 8, dtype="bf16"), "bf16")
    for graph in (ts.workloads.matmul(8, 8, 8, dtype="i8"), ts.workloads.elementwise("add", 8, 8)):
        with pytest.raises(ts.UserError, match="no float products"):
            ts.quantize(graph, "bf16")
    with pytest.raises(ts.UserError, match="Did you mean 'bf16'"):
        ts.quantize("mlp", "bf61")
    with pytest.raises(ts.UserError):
        ts.quantize(two_layers()[0], "bf16", calibrate={"wrong": np.zeros(3)})


def test_advice_casts_where_arrays_multiply_it_and_it_is_faster() -> None:
    graph = ts.workloads.matmul(256, 256, 256, dtype="f32")
    slow = ts.Machine.load("edge-8")

    def told(rates: dict[str, float], of: ts.Graph = graph) -> list[dict[str, Any]]:
        result = ts.run(of, machine=slow.replace({"core.array.rates": rates}))
        return [item.change for item in result.explain() if item.change.get("quantize") in TYPES]

    assert told({"f32": 1, "bf16": 4}) == [{"quantize": "bf16"}]
    assert told({"f32": 1, "bf16": 2, "f16": 4}) == [{"quantize": "f16"}]
    assert told({"f32": 1}) == []
    assert told({"f32": 8, "bf16": 1}) == []  # slower
    assert told({"bf16": 1, "f16": 4}, ts.workloads.matmul(256, 256, 256, dtype="bf16")) == []
    assert told({"f32": 1, "bf16": 4, "i8": 1}, ts.workloads.matmul(256, 256, 256, dtype="i8")) == []
    machine = slow.replace({"core.array.rates": {"f32": 1, "bf16": 4}})
    (item,) = [one for one in ts.run(graph, machine=machine).explain() if one.change == {"quantize": "bf16"}]
    assert item.cycles == ts.run(ts.workloads.matmul(256, 256, 256, dtype="bf16"), machine=machine).cycles
