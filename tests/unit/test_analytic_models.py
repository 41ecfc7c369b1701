"""Attention, convolution, vector operations, estimates of graphs, crossover: by hand and against plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jsonschema
import numpy as np
import pytest

import tilesim as ts
from tilesim.analytic import attention, conv, vector
from tilesim.analytic.operations import flat_operations
from tilesim.analytic.suites import compare_suite, suite, suite_names


def test_visible_pairs_against_a_loop() -> None:
    for queries, keys, window, causal in itertools.product(
        (1, 2, 5, 9), (1, 5, 9, 20), (0, 1, 3, 8, 30), (True, False)
    ):
        if queries > keys:
            continue
        count = 0
        for i, j in itertools.product(range(queries), range(keys)):
            last = keys - queries + i if causal else keys - 1
            first = last - window + 1 if window and causal else 0
            count += first <= j <= last
        if window and not causal:
            count = queries * min(window, keys)
        assert attention.visible_pairs(queries, keys, window, causal) == count, (queries, keys, window, causal)


def test_long_prefill_is_bound_by_its_products() -> None:
    device = ts.Device.load("h100")
    seconds = attention.attention_seconds(device, batch=4, queries=16384, heads=32, depth=128)
    flops = 4 * 4 * 32 * 128 * 16384 * 16385 / 2
    assert 0.3 < flops / seconds / 989.4e12 < 0.9
    full = attention.attention_seconds(device, batch=4, queries=16384, heads=32, depth=128, causal=False)
    assert full / seconds == pytest.approx(2, rel=0.1)
    windowed = attention.attention_seconds(device, batch=4, queries=16384, heads=32, depth=128, window=1024)
    assert windowed < seconds / 3  # a seventh of the keys; launches, writes and reads of the tensors stay


def test_long_decode_is_bound_by_the_cache() -> None:
    shape = {"batch": 32, "queries": 1, "keys": 32768, "heads": 32, "key_heads": 8, "depth": 128}
    seconds = attention.attention_seconds("h100", **shape)
    moved = 2 * 32 * 8 * 32768 * 128 * 2
    assert 0.4 < moved / seconds / 3.35e12 <= 1
    faster = attention.attention_seconds("h200", **shape)
    assert faster < seconds
    assert attention.attention_seconds("h100", **{**shape, "key_heads": 32}) > 3 * seconds
    assert attention.attention_seconds("h100", **{**shape, "window": 256}) < seconds / 5


def test_convolution_is_a_product_or_winograd() -> None:
    found = conv.estimator_of("t4", "fp32")
    shape = [np.array([float(x)]) for x in (32, 256, 256, 28, 3, 1, 1)]
    ways = conv.conv_terms(found, conv.ConvCases(*shape))
    assert ways["total"] == pytest.approx(
        min(ways[key] for key in ("direct", "winograd2", "winograd4")) + ways["layout"]
    )
    strided = conv.conv_terms(found, conv.ConvCases(*shape[:5], np.array([2.0]), shape[6]))
    assert np.isinf(strided["winograd4"])
    flops = 2 * 32 * 256 * 256 * 9 * 28 * 28
    assert ways["direct"] >= flops / 8.1e12
    with pytest.raises(ts.UserError, match="kernel"):
        conv.conv_seconds("t4", 1, 3, 2, 8, kernel=5)


def test_vector_operations_gain_from_bandwidth() -> None:
    t4 = ts.Device.load("t4")
    wide = t4.replace(levels=[*t4.levels[:-1], ts.analytic.Level("DRAM", 1 << 34, 640e9)])
    for op in ("add", "softmax"):
        assert vector.vector_seconds(wide, op, 20000, 4096) < vector.vector_seconds(t4, op, 20000, 4096)


def test_vector_operations_move_their_tensors() -> None:
    rows, width = 20000, 4096
    for op, streams in (("add", 3), ("addu", 2), ("relu", 2), ("softmax", 2), ("ln", 2)):
        seconds = float(vector.vector_seconds("t4", op, rows, width))
        rate = streams * 4 * rows * width / seconds
        assert 0.4 * 320e9 < rate <= 320e9, op
    assert vector.vector_seconds("t4", "add", 1, 1) == pytest.approx(2.6e-5, rel=0.1)
    with pytest.raises(ts.UserError, match="gelu"):
        vector.vector_seconds("t4", "gelo", 1, 1)


@pytest.mark.parametrize(
    "device", ["h100", "t4", "tpu-v4-datasheet", "xeon-8480", "phone-neon", "tpu-v3", "tpu-v4-chip", "gemmini-16"]
)
def test_an_estimate_is_a_result(device: str) -> None:
    graph = ts.models.build("bert-base", sequence=64)
    if device == "gemmini-16":
        graph = ts.workloads.matmul(64, 64, 64, dtype="i8")
    result = ts.estimate(graph, device)
    assert result.data["source"] == "closed form"
    assert result.seconds >= ts.roofline(graph, device).seconds
    assert sum(row["share"] for row in result.table().rows) == pytest.approx(1)
    assert sum(result.shares().values()) == pytest.approx(1)
    assert result.approximations
    jsonschema.validate(result.data, ts.Result.schema())
    again = ts.Result.load(save(result))
    assert again.cycles == result.cycles
    assert all(advice.gain >= 1 for advice in result.explain())


def save(result: ts.Result) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".json", delete=False) as file:
        result.save(file.name)
        return file.name


def test_flops_and_bytes_are_those_of_the_graph() -> None:
    graph = ts.models.build("resnet18")
    result = ts.estimate(graph, "a100")
    products = sum(op["flops"]["matrix"] for op in flat_operations(graph))
    assert 2 * result.data["multiply_adds"] == pytest.approx(products + 0, rel=0.02)
    assert products == pytest.approx(graph.core.flops()["matrix"])


def test_a_dtype_that_a_device_lacks_names_the_operation() -> None:
    with pytest.raises(ts.Unsupported, match=r"matmul.*8-bit floats"):
        ts.estimate(ts.workloads.matmul(64, 64, 64, dtype="bf16"), "t4", scheme="fp8")


def test_crossover_is_strict_and_sure_only_far_from_even() -> None:
    answer = ts.crossover("h100", dtype="fp8", against="bf16")
    for row in answer.rows:
        assert row["helps"] == (row["ms"] < row["baseline_ms"])
        assert (row["probability"] > 0.5) == row["helps"]
    assert answer.threshold() is not None
    small, large = answer.rows[0], answer.rows[-1]
    assert not small["helps"] and small["bound"] in ("cast", "launch")
    assert large["helps"] and large["probability"] > 0.9


def test_crossover_answers_for_what_a_device_lacks_or_emulates() -> None:
    lacking = ts.crossover("t4", dtype="fp8")
    assert not lacking.possible and "Turing" in lacking.summary() and lacking.threshold() is None
    for name in ("t4", "v100"):
        emulated = ts.crossover(name, dtype="bf16", against="fp32")
        assert "emulated" in emulated.summary()
        assert not any(row["helps"] for row in emulated.rows if row["m"] >= 512)
    summary = ts.crossover("t4")
    assert summary.against == "fp16"
    assert {row["scheme"] for row in summary.table().rows} >= {"fp32", "bf16", "fp8", "int8", "int4_wo"}
    assert len(summary.best()) == 9
    with pytest.raises(ts.UserError, match="extents"):
        ts.crossover("h100", dtype="fp8", shapes=[(1, 2)])


def test_best_scheme_of_a_model() -> None:
    graph = ts.models.build("gpt2", sequence=8)
    *products, whole, mixed = ts.analytic.best_schemes(graph, "h100").rows
    names = ("bf16", "fp8", "int8_wo", "int4_wo")
    assert (whole["operation"], mixed["operation"]) == ("all", "mixed")
    assert {row["best"] for row in products} <= set(names)
    for row in [*products, whole]:
        assert row[row["best"]] == min(row[name] for name in names)
        assert row["speedup"] == pytest.approx(row["bf16"] / row[row["best"]])
        assert (row["probability"] is None) == (row["best"] == "bf16")
        assert row["probability"] is None or 0.5 <= row["probability"] <= 1
    saved = sum(row["bf16"] - row[row["best"]] for row in products)
    assert mixed["ms"] == pytest.approx(whole["bf16"] - saved)
    assert mixed["ms"] <= min(whole[name] for name in names) * 1.0001
    assert whole["bf16"] == pytest.approx(ts.estimate(graph, "h100", scheme="bf16").milliseconds)
    (*_, old, _) = ts.analytic.best_schemes(
        graph, "t4", ("fp16", "fp8")
    ).rows  # a scheme that the device lacks is left out
    assert old["fp16"] > 0 and "fp8" not in old


def test_suites() -> None:
    assert suite_names() == ["llm", "vision", "scaling", "all"]
    table = compare_suite("all", ["desktop-avx512", "npu-systolic", "t4"])
    assert len(table) == 3 * len(suite("all"))
    assert all((row["ms"] is None) == bool(row["reason"]) for row in table.rows)
    with pytest.raises(ts.UserError, match="vision"):
        suite("visions")


class TestDefectsOfAnEarlierSimulator:
    """What re-running mlsim showed, each as a question that is answered right here."""

    def test_memory_reaches_the_time(self) -> None:
        cpu = ts.estimate(ts.workloads.elementwise("relu", 256, 56, 56), "desktop-avx512")
        assert cpu.milliseconds >= 256 * 56 * 56 * 8 / 50e9 * 1e3
        npu = ts.estimate(ts.workloads.elementwise("gelu_tanh", 512, 16384, dtype="bf16"), "npu-systolic")
        assert npu.milliseconds >= 512 * 16384 * 4 / 900e9 * 1e3
        assert cpu.terms().rows[0]["bound"] == "memory"

    def test_the_cost_of_a_cast_is_of_the_order_of_its_bytes(self) -> None:
        from tilesim.analytic import gemm

        terms = gemm.estimator("h100", "fp8").terms(4096, 4096, 4096)
        assert terms["cast"] < terms["total"] / 2
        assert terms["cast"] >= 4096 * 4096 * 3 / 5120 / 1.83e9 / 8

    def test_two_bytes_wide_types_differ_where_the_hardware_does(self) -> None:
        half = ts.crossover("t4", dtype="fp16", against="fp32").rows[-1]["speedup"]
        brain = ts.crossover("t4", dtype="bf16", against="fp32").rows[-1]["speedup"]
        assert half > 2 and brain < 1

    def test_bytes_are_those_of_the_dtype_that_is_asked_about(self) -> None:
        for dtype, width in (("f32", 4), ("bf16", 2), ("i8", 1)):
            assert flat_operations(ts.workloads.elementwise("add", 64, 64, dtype=dtype))[0]["bytes"] == 3 * 4096 * width

    def test_the_slope_of_the_roofline_is_the_memory(self) -> None:
        bound = ts.roofline(ts.workloads.elementwise("add", 1 << 12, 1 << 12), "t4")
        assert bound.seconds == pytest.approx(3 * 4 * 2**24 / 320e9)
        ridges = {(row["dtype"], row["level"]): row["ridge"] for row in bound.ceilings().rows}
        assert ridges["f16", "DRAM"] == pytest.approx(65e12 / 320e9)
        assert ridges["f16", "L2"] < ridges["f16", "DRAM"]

    def test_four_bits_are_half_a_byte(self) -> None:
        from tilesim.analytic.schemes import scheme

        assert scheme("int4_wo").weight_bytes == 0.5
        assert ts.Device.load("desktop-avx512").rate("i4").how == "emulated"

    def test_shapes_matter_beyond_their_flops(self) -> None:
        from tilesim.analytic import gemm

        found = gemm.estimator("h100", "bf16")
        square, thin = found.seconds(2048, 2048, 2048), found.seconds(16, 2048, 2048 * 128)
        assert thin > 5 * square  # equal FLOPs
        a100 = gemm.estimator(
            "a100", "bf16"
        )  # 4 x 27 tiles of 128 x 128 fill its 108 units once; one row more does not fit
        assert a100.seconds(513, 128 * 27, 8192) > 1.15 * a100.seconds(512, 128 * 27, 8192)

    def test_the_launch_does_not_scale(self) -> None:
        from tilesim.analytic import gemm

        found = gemm.estimator("t4", "fp32", source="mlsim")
        assert found.seconds(32, 32, 32) == pytest.approx(found.entry.constants["launch"] / 1.59e9, rel=0.2)

    def test_stride_and_padding_count(self) -> None:
        one = ts.estimate(ts.workloads.conv2d(8, 64, 56, 56, 64, 3, padding=1), "t4").seconds
        two = ts.estimate(ts.workloads.conv2d(8, 64, 56, 56, 64, 3, stride=2, padding=1), "t4").seconds
        assert two < one
        assert math.isfinite(two)

    def test_nothing_was_fitted_on_the_rows_of_its_table_and_the_clock_is_the_boards(self) -> None:
        from tilesim.analytic.families import family

        assert ts.Device.load("t4").clock_hz == 1.59e9
        entries = [entry for entry in family("turing").entries if entry.engine == "mlsim"]
        assert {entry.scheme for entry in entries} == {"fp32", "fp16", "bf16", "int8"}
        assert all(not text.startswith("fitted") for entry in entries for text in entry.provenance.values())

    def test_more_than_squares_on_one_gpu_was_compared(self) -> None:
        from tilesim.analytic.families import family

        families = [family(name) for name in ("ampere", "hopper", "ada", "turing")]
        fitted = {entry.operation for kin in families for entry in kin.entries if entry.rows}
        assert {"gemm", "prefill", "decode", "conv", "vector"} <= fitted

    def test_what_is_used_again_is_found_in_the_cache(self) -> None:
        from tilesim.analytic import gemm

        many = gemm.estimator("h100", "bf16")  # six sets of weights in turn, 200 MB
        one = gemm.estimator("h100", "bf16", engine="DeepBench")  # one, which stays in the 50 MB cache
        assert many.entry.constants == one.entry.constants
        assert one.seconds(1, 4096, 4096) < 0.95 * many.seconds(1, 4096, 4096)


@pytest.mark.parametrize(("device", "scheme"), [("a100", "fp32"), ("a100", "tf32"), ("t4", "fp16"), ("h100", "bf16")])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_float_scheme_holds_for_products_of_activations(device: str, scheme: str, dtype: str) -> None:
    """Two products cost no less than one and, less what starts them, no more than twice one; never below the peak."""
    one, two = (
        ts.estimate(ts.workloads.matmul(1024, 1024, 2048, dtype=dtype, batch=batch), device, scheme=scheme)
        for batch in (None, 2)
    )
    assert one.seconds < two.seconds < 2.5 * one.seconds
    arithmetic = {"fp32": "f32", "fp16": "f16"}.get(scheme, scheme)
    assert two.seconds >= 2 * 2 * 1024 * 1024 * 2048 / ts.Device.load(device).rate(arithmetic).flops_per_second


def test_schemes_of_weights_leave_products_of_activations_in_the_16_bits_that_the_device_has() -> None:
    graph = ts.workloads.matmul(1024, 1024, 1024, dtype="f32", batch=2)
    for device, half in (("t4", "fp16"), ("h100", "bf16")):
        quantized, plain = (ts.estimate(graph, device, scheme=name).seconds for name in ("int8_wo", half))
        assert quantized == plain


@pytest.mark.parametrize("scheme", ["fp32", "fp16"])
def test_attention_follows_the_scheme(scheme: str) -> None:
    graphs = [ts.workloads.attention(1, 16, 512, 64, dtype=dtype) for dtype in ("f32", "f16")]
    seconds = [ts.estimate(graph, "a100", scheme=scheme).seconds for graph in graphs]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.02)


def test_suites_are_what_they_are_called() -> None:
    """Operations of products from the extents that the names say, by hand."""
    rows, width = 512, 4096
    by_hand = {
        "query, key, value": 2 * rows * 3 * width * width,
        "output": 2 * rows * width * width,
        "feed-forward up": 2 * rows * 4 * width * width,
        "feed-forward down": 2 * rows * 4 * width * width,
        "decode: query, key, value": 2 * 3 * width * width,
        "decode: feed-forward up": 2 * 4 * width * width,
        "stem 7x7": 2 * 112 * 112 * 64 * 3 * 7 * 7,
        "3x3 64": 2 * 56 * 56 * 64 * 64 * 9,
        "1x1 64-256": 2 * 56 * 56 * 64 * 256,
        "3x3 256-128": 2 * 28 * 28 * 256 * 128 * 9,
        **{f"{size} cubed": 2 * size**3 for size in (32, 128, 512, 2048, 8192)},
    }
    graphs = {name: graph for names in ("llm", "vision", "scaling") for name, graph in suite(names).items()}
    assert {name: graphs[name].flops()["matrix"] for name in by_hand} == by_hand
    shapes = {name: {tuple(row["shape"]) for row in graph.inputs} for name, graph in graphs.items()}
    assert (32000, width) in shapes["embedding"]
    assert shapes["relu"] == {(256, 56, 56)} and shapes["gelu"] == {(rows, 4 * width)}
    assert shapes["attention"] == {(1, 32, rows, 128)}
    assert shapes["decode: attention"] == {(1, 32, 1, 128), (1, 32, rows, 128)}
    assert shapes["decode: attention, grouped"] == {(16, 32, 1, 128), (16, 8, 8192, 128)}
    assert shapes["long attention, grouped, window"] == {(1, 32, 8192, 128), (1, 8, 8192, 128)}


@pytest.mark.parametrize("taps", [1, 3])
def test_inserted_zeros_of_a_strided_gradient_are_multiplied_on_tpus_alone(taps: int) -> None:
    """Of a stride of 2 a quarter of the places of a filter meets an element."""

    def seconds(device: str, rows: int, **options: Any) -> float:
        b = ts.GraphBuilder("g", dtype="f16")
        x, w = b.input("x", (64, rows, rows, 512)), b.input("w", (taps, taps, 512, 512))
        labels = {"x_labels": "NHWC", "w_labels": "HWIO", "y_labels": "NHWC"}
        b.output(b.op("convolution", x, w, **labels, **options), "y")
        return float(ts.estimate(b.build(), device).seconds)

    low = taps // 2
    wide = {"pads": [low, low + 1] * 2, "input_dilation": [2, 2]}
    plain = {"pads": [low, low] * 2}
    assert seconds("tpu-v3", 28, **wide) == pytest.approx(seconds("tpu-v3", 56, **plain))
    forward = seconds("a100", 56, **plain, strides=[2, 2])
    assert 0.7 * forward < seconds("a100", 28, **wide) < 1.1 * forward
