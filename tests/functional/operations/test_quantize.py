"""ts.quantize: values as numpy computes them, weights that stay recipes, and every way to be refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from tilesim.models.decoder import DecoderConfig, decoder
from tilesim.models.mamba import MambaConfig, mamba
from tilesim.models.transformer import TextConfig, bert

RNG = np.random.default_rng(5)
TINY = TextConfig("tiny", 2, 64, 4, 100, 32)


def linear(m: int = 9, k: int = 48, n: int = 20, transposed: bool = False) -> tuple[ts.Graph, dict[str, np.ndarray]]:
    """x · wᵀ + b with given numbers."""
    data = {
        "x": RNG.standard_normal((m, k)).astype(np.float32),
        "w": RNG.standard_normal((n, k)).astype(np.float32),
        "b": RNG.standard_normal(n).astype(np.float32),
    }
    b = ts.GraphBuilder("linear")
    x, bias = b.input("x", (m, k)), b.weight("b", data=data["b"])
    if transposed:
        y = b.matmul(x, b.weight("w", data=np.ascontiguousarray(data["w"].T)), bias, name="fc")
    else:
        y = b.project(x, b.weight("w", data=data["w"]), bias, name="fc")
    b.output(y, "y")
    return b.build(), data


def codes(values: np.ndarray, peak: np.ndarray | np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Integers from -127 to 127, and what one of them stands for."""
    scale = (peak / np.float32(127)).astype(np.float32)
    return np.clip(np.rint(values / scale), -127, 127).astype(np.int8), scale


@pytest.mark.parametrize("machine", ["gemmini-16", "edge-8"])
@pytest.mark.parametrize("transposed", [False, True])
def test_linear_in_integers_bit_by_bit(machine, transposed):
    graph, data = linear(transposed=transposed)
    quantized = ts.quantize(graph, "i8", {"x": data["x"]})
    w, w_scale = codes(data["w"], np.abs(data["w"]).max(1, keepdims=True))
    peak = np.abs(data["x"]).max()
    x_scale = np.float32(float(peak) / 127)
    x = np.clip(np.rint(data["x"] * np.float32(1 / (float(peak) / 127))), -128, 127).astype(np.int8)
    sums = x.astype(np.int32) @ w.T.astype(np.int32)
    wanted = sums.astype(np.float32) * (x_scale * w_scale[:, 0]) + data["b"]
    program = ts.compile(quantized, machine)
    products = [op for op in program.graph.operations() if op["kind"] == "contract"]
    assert [x["dtype"] for op in products for x in op["operands"]] == ["i8", "i8"]
    np.testing.assert_array_equal(ts.execute(program, data["x"])["y"], wanted)
    error = np.abs(wanted - (data["x"] @ data["w"].T + data["b"])).max()
    assert 0 < error < 0.02 * np.abs(wanted).max()
    assert graph.weights()["w"]["dtype"] == "f32" and quantized.weights()["w"]["dtype"] == "i8"


def test_whole_numbers_are_exact_with_scales_of_one():
    b = ts.GraphBuilder("whole")
    w, kernel = RNG.integers(-9, 9, (6, 4 * 25)), RNG.integers(-9, 9, (4, 3, 2, 2))
    y = b.conv2d(b.input("x", (2, 3, 6, 6)), b.weight("k", data=kernel.astype(np.float32)), name="conv")
    y = b.project(y.reshape(2, 100), b.weight("w", data=w.astype(np.float32)), name="fc")
    b.output(y, "y")
    graph = b.build()
    x = RNG.integers(0, 2, (2, 3, 6, 6)).astype(np.float32)
    taps = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    hidden = np.clip(np.einsum("nchwij,ocij->nohw", taps, kernel), -128, 127)
    program = ts.compile(ts.quantize(graph), "gemmini-16")
    np.testing.assert_array_equal(ts.execute(program, x)["y"], hidden.reshape(2, 100) @ w.T)


@pytest.mark.parametrize(("dtype", "bound"), [("i8", 0.05), ("fp8", 0.1), ("w4a16", 0.3)])
def test_a_small_bert_keeps_its_values(dtype, bound):
    graph = bert(TINY, batch=2, sequence=16)
    data = [
        {
            "input_ids": RNG.integers(0, 100, (2, 16)).astype(np.int32),
            "token_type_ids": RNG.integers(0, 2, (2, 16)).astype(np.int32),
        }
        for _ in range(2)
    ]
    quantized = ts.quantize(graph, dtype, data)
    program = ts.compile(quantized, "edge-8")
    found, wanted = ts.execute(program, data[0]), ts.reference(graph, data[0])
    for name, values in wanted.items():
        a, b = found[name].astype(np.float64).ravel(), values.astype(np.float64).ravel()
        assert 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b) < bound
        assert not np.array_equal(a, b)
    assert ts.verify(program, data[0]).ok
    rows = ts.analytic.accuracy(program, graph, data[0]).data["rows"]
    assert len(rows) == 2
    if dtype == "i8":  # every layer has scales of its own, and attention is two products of integers
        names = quantized.weights()
        assert {f"encoder.layer.{i}.intermediate.dense.factor" for i in range(2)} <= set(names)
        assert ts.simulate(ts.compile(quantized, "gemmini-16")).cycles > 0


@pytest.mark.parametrize(("dtype", "kind"), [("i8", np.int8), ("fp8", ml_dtypes.float8_e4m3fn)])
def test_random_weights_stay_recipes_with_the_codes_of_their_numbers(dtype, kind):
    graph = ts.models.build("mlp")
    x = {row["name"]: RNG.standard_normal(row["shape"]).astype(np.float32) for row in graph.inputs}
    quantized = ts.quantize(graph, dtype, x)
    name = next(name for name in graph.weights() if name.endswith("weight"))
    row = quantized.weights()[name]
    assert row["source"] == "random"
    largest, bound = {"i8": 127, "fp8": 448}[dtype], graph.weights()[name]["scale"]
    exact = graph.weight(name).astype(np.float64) * (largest / bound)
    wanted = (np.rint(exact) if dtype == "i8" else exact).astype(kind)
    got = quantized.weight(name)
    assert got.dtype == kind and (got != wanted).mean() < 1e-4  # the last bit of f32 decides at halves
    assert np.abs(got.astype(float) - wanted.astype(float)).max() <= (1 if dtype == "i8" else 32)


def test_large_networks_hold_no_elements():
    quantized = ts.quantize(ts.models.build("llama-3-70b", context=128), "w4a16")
    held = [np.prod(row["shape"]) for row in quantized.weights().values() if row["source"] == "data"]
    assert max(held) < 1 << 20 and sum(held) < 1 << 22
    assert sum(row["dtype"] == "i4" for row in quantized.weights().values()) == 80 * 7 + 1


@pytest.mark.parametrize("depth", [128, 300, 40])
def test_four_bits_by_group(depth):
    graph, data = linear(k=depth)
    quantized = ts.quantize(graph, "w4a16")
    w, groups = data["w"], -(-depth // 128)
    padded = np.pad(w, ((0, 0), (0, groups * 128 - depth))).reshape(20, groups, 128)
    scales = (np.abs(padded).max(2) / np.float32(7)).astype(ml_dtypes.bfloat16)
    spread = np.repeat(scales.astype(np.float32), 128, 1)[:, :depth]
    q = np.clip(np.rint(w / spread), -7, 7)
    np.testing.assert_array_equal(quantized.weight("w").astype(int), q.astype(int))
    real = (q * spread).astype(ml_dtypes.bfloat16).astype(np.float64)
    x = data["x"].astype(ml_dtypes.bfloat16).astype(np.float64)
    found = ts.execute(ts.compile(quantized, "tpu-v3"), data["x"])["y"]
    np.testing.assert_allclose(found, x @ real.T + data["b"], rtol=1e-4, atol=1e-3)


def test_tied_embeddings_are_one_table():
    b = ts.GraphBuilder("tied")
    table = RNG.standard_normal((30, 16)).astype(np.float32)
    ids, tokens = b.input("ids", (5,), "i32"), b.weight("table", data=table)
    b.output(b.project(b.op("embedding", tokens, ids, name="words"), tokens, name="head"), "y")
    graph, ids_of = b.build(), RNG.integers(0, 30, 5).astype(np.int32)
    quantized = ts.quantize(graph, "i8", ids_of)
    assert quantized.weights()["table"]["dtype"] == "i8"
    wanted = table[ids_of] @ table.T
    assert np.abs(ts.reference(quantized, ids_of)["y"] - wanted).max() < 0.03 * np.abs(wanted).max()
    assert ts.verify(ts.compile(quantized, "gemmini-16")).ok
    assert ts.quantize(graph, "fp8").weights()["table"]["dtype"] == "f8e4m3fn"
    with pytest.raises(ts.UserError, match="no products"):
        ts.quantize(graph, "w4a16")  # its only weight is looked up in as well


def test_in_one_step_with_its_errors():
    assert ts.run("mlp", machine="gemmini-16", quantize="i8").cycles > 0
    small = ts.simulate(ts.compile(ts.quantize("mlp"), "gemmini-16"))
    assert any("scales of 1" in line for line in small.approximations)
    result = ts.run("mlp", machine="gemmini-16", quantize="i8", accuracy=True)  # calibrated, against mlp in f32
    assert 0 < result.accuracy.relative_error < 0.05


def test_what_loops_run_keeps_wide_activations_where_nothing_was_observed():
    graph = mamba(MambaConfig("tiny", 50, 32, 2, 64, 8), batch=1, context=6, phase="prefill", dtype="f32")
    ids = RNG.integers(0, 50, (1, 6)).astype(np.int32)
    quantized = ts.quantize(graph, "i8", ids)
    inside = [op for name in quantized.functions if "scan" in name for op in quantized.operations(name)]
    products = [op for op in inside if op["kind"] == "contract"]
    assert products and all(x["dtype"] == "f32" for op in products for x in op["operands"])
    assert "in loops and branches" in quantized.assumptions[-1]
    found, wanted = ts.reference(quantized, ids)["logits"], ts.reference(graph, ids)["logits"]
    assert 0 < np.abs(found - wanted).mean() < 0.05 * np.abs(wanted).max()
    assert ts.simulate(ts.compile(ts.quantize(graph, "i8"), "gemmini-16")).cycles > 0


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_networks_of_16_bits_are_products_of_integers_too(dtype):
    config = DecoderConfig("tiny", 100, 64, 2, 4, 2, 16, 128, 10000.0, 64)
    graph = ts.quantize(decoder(config, 1, 16, "prefill", dtype), "i8")
    program = ts.compile(graph, "gemmini-16")
    rows = [op for name in program.graph.functions for op in program.graph.operations(name)]
    products = [op for op in rows if op["kind"] == "contract"]
    assert products and {x["dtype"] for op in products for x in op["operands"]} == {"i8"}
    assert ts.simulate(program).cycles > 0


@pytest.mark.parametrize("machine", ["gemmini-16", "edge-8", "tpu-v3"])
def test_experts_that_rows_choose(machine):
    b = ts.GraphBuilder("experts")
    x, w = RNG.standard_normal((12, 40)).astype(np.float32), RNG.standard_normal((3, 40, 24)).astype(np.float32)
    sizes, given = np.array([5, 0, 7], np.int32), b.input("x", (12, 40))
    b.output(b.op("ragged_contract", given, b.weight("w", data=w), b.input("sizes", (3,), "i32"), name="mix"), "y")
    inputs = {"x": x, "sizes": sizes}
    quantized = ts.quantize(b.build(), "i8", inputs)
    x8, x_scale = codes(x, np.abs(x).max())
    w8, w_scale = codes(w, np.abs(w).max())
    groups = np.repeat(np.arange(3), sizes)
    sums = np.einsum("mk,mkn->mn", x8.astype(np.int64), w8.astype(np.int64)[groups])
    program = ts.compile(quantized, machine)
    found = ts.execute(program, inputs)["y"]
    wanted = sums * float(x_scale) * float(w_scale)
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if machine != "tpu-v3" else 1e-2, atol=1e-4)
    assert ts.verify(program, inputs).ok and ts.simulate(program).cycles > 0


def test_refusals():
    with pytest.raises(ts.UserError, match="no products to quantize"):
        ts.quantize(ts.workloads.softmax(4, 4))
    with pytest.raises(ts.UserError, match="unknown quantization") as caught:
        ts.quantize(ts.workloads.matmul(4, 4, 4), "fp9")
    assert "i8, fp8, w4a16" in str(caught.value)
    graph, data = linear()
    with pytest.raises(ts.UserError, match="quantized already"):
        ts.quantize(ts.quantize(graph))
    with pytest.raises(ts.UserError, match="missing calibration data"):
        ts.quantize(graph, "i8", [])
    with pytest.raises(ts.UserError, match="wrong inputs"):
        ts.quantize(graph, "i8", {"z": data["x"]})
    with pytest.raises(ts.UserError, match="not finite"):
        ts.quantize(graph, "i8", {"x": np.full_like(data["x"], np.inf)})
    zeros = ts.quantize(graph, "i8", {"x": 0 * data["x"]})
    np.testing.assert_array_equal(ts.reference(zeros, 0 * data["x"])["y"], np.broadcast_to(data["b"], (9, 20)))


def test_attention_where_arrays_multiply_f16_alone():
    shape = (1, 2, 9, 16)
    b = ts.GraphBuilder("attention", dtype="f16")
    q, k, v = (b.input(name, shape) for name in "qkv")
    b.output(b.attention(q, k, v, name="attention"), "y")
    graph, given = b.build(), {name: RNG.standard_normal(shape).astype(np.float16) for name in "qkv"}
    program = ts.compile(graph, "dstc")
    wide = {name: values.astype(np.float64) for name, values in given.items()}
    scores = wide["q"] @ wide["k"].swapaxes(-1, -2) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ wide["v"]
    np.testing.assert_allclose(ts.execute(program, given)["y"].astype(np.float64), wanted, atol=4e-3)
    assert ts.verify(program, given).ok
    assert any("probabilities are rounded to f16" in line for line in ts.simulate(program).approximations)
    assert ts.compile(graph, "tpu-v3").graph == graph
