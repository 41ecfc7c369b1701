"""Domains of operations against the reference kernels; FLOPs and compulsory bytes by hand."""

import math
from typing import Any

import numpy as np
import pytest

from tilesim import _core, workloads
from tilesim.graph import Graph, GraphBuilder

# --- domains against the reference kernels ---


def positions(axis: dict[str, Any], index: np.ndarray) -> np.ndarray:
    """Position on one tensor axis for every point of the nest; -1 where the fill is read."""
    raw = np.full(index.shape[1], axis["constant"])
    for dim, coefficient in axis["terms"]:
        raw = raw + coefficient * index[dim]
    return np.where((raw >= 0) & (raw % axis["divisor"] == 0), raw // axis["divisor"], -1)


def read(array: np.ndarray, axes: Any, index: np.ndarray, fill: float) -> np.ndarray:
    inside = np.ones(index.shape[1], bool)
    where = []
    for extent, axis in zip(array.shape, axes, strict=True):
        at = positions(axis, index)
        outside = (at < 0) | (at >= extent)
        assert axis["may_leave"] or axis["divisor"] > 1 or not outside.any()
        inside &= ~outside
        where.append(np.where(outside, 0, at))
    return np.where(inside, array[tuple(where)], fill)


def by_domain(graph: Graph, operation: str, operands: list[np.ndarray], combine: str, fill: float = 0.0) -> np.ndarray:
    """The operation computed from its domain alone: operands multiplied, then combined over the reduced dims."""
    nest = graph.core.domain(operation)
    index = (
        np.stack([grid.ravel() for grid in np.indices(nest["extents"])]) if nest["extents"] else np.zeros((0, 1), int)
    )
    value = np.ones(index.shape[1])
    for array, axes in zip(operands, nest["operands"], strict=True):
        value = value * read(np.asarray(array, np.float64), axes, index, fill)
    shape = graph.outputs[0]["shape"]
    combiner = np.add if combine == "add" else np.maximum
    result = np.full(shape, 0.0 if combine == "add" else -np.inf)
    at = tuple(positions(axis, index) for axis in nest["results"][0])
    combiner.at(result, at, value)
    return result


CONVOLUTIONS = [
    {"x": (2, 3, 7, 6), "w": (4, 3, 3, 2)},
    {"x": (1, 2, 9, 8), "w": (3, 2, 3, 3), "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"x": (1, 2, 9, 8), "w": (3, 2, 2, 3), "window_dilation": [3, 2], "pads": [-1, 1, 2, -2]},
    {"x": (1, 2, 4, 5), "w": (3, 2, 3, 3), "input_dilation": [2, 3], "pads": [2, 2, 1, 2]},
    {"x": (2, 6, 5, 5), "w": (4, 3, 3, 3), "groups": 2, "pads": [1, 1, 1, 1]},
    {"x": (4, 3, 5, 5), "w": (6, 3, 2, 2), "batch_groups": 2},
    {"x": (2, 5, 4, 3), "w": (2, 2, 3, 4), "x_labels": "NWHC", "w_labels": "HWIO", "y_labels": "CWHN"},
    {"x": (2, 3, 8), "w": (4, 3, 3), "x_labels": "NCW", "w_labels": "OIW", "y_labels": "NCW", "strides": [2]},
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_domain_of_a_convolution(case: dict[str, Any]) -> None:
    attributes = {"x_labels": "NCHW", "w_labels": "OIHW", "y_labels": "NCHW"} | case
    b = GraphBuilder()
    x, w = b.input("x", attributes.pop("x")), b.input("w", attributes.pop("w"))
    b.output(b.op("convolution", x, w, name="op", **attributes))
    graph = b.build()
    inputs = _core.random_inputs(graph.core, 3)
    np.testing.assert_allclose(by_domain(graph, "op", inputs, "add"), _core.evaluate(graph.core, inputs)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((3, 4), (4, 5), {"a_contract": [1], "b_contract": [0]}),
        ((2, 3, 4), (5, 4, 2), {"a_batch": [0], "b_batch": [2], "a_contract": [2], "b_contract": [1]}),
        ((2, 3, 4, 5), (4, 2, 6), {"a_contract": [0, 2], "b_contract": [1, 0]}),
        ((3,), (4,), {}),
    ],
)
def test_domain_of_a_contraction(a: tuple[int, ...], b: tuple[int, ...], attributes: dict[str, Any]) -> None:
    builder = GraphBuilder()
    builder.output(builder.op("contract", builder.input("a", a), builder.input("b", b), name="op", **attributes))
    graph = builder.build()
    inputs = _core.random_inputs(graph.core, 3)
    np.testing.assert_allclose(by_domain(graph, "op", inputs, "add"), _core.evaluate(graph.core, inputs)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "attributes", "combine", "fill"),
    [
        ("reduce", {"dims": [0, 2], "combiner": "add"}, "add", 0),
        ("reduce", {"dims": [1], "combiner": "maximum", "keep_dims": True}, "maximum", 0),
        ("window_reduce", {"window": [1, 3, 2], "strides": [1, 2, 1], "combiner": "add"}, "add", 0),
        (
            "window_reduce",
            {"window": [2, 2, 3], "pads": [0, 1, 1, 0, 2, 0], "window_dilation": [1, 2, 1], "combiner": "maximum"},
            "maximum",
            -math.inf,
        ),
        ("transpose", {"permutation": [2, 0, 1]}, "add", 0),
        ("slice", {"start": [0, 1, 2], "limit": [3, 4, 6], "stride": [2, 1, 3]}, "add", 0),
        ("reverse", {"dims": [0, 2]}, "add", 0),
        ("pad", {"low": [1, 0, -2], "high": [0, 2, 1], "interior": [0, 2, 1], "mode": "constant"}, "add", 0),
        ("broadcast", {"shape": [3, 2, 4, 6], "dims": [0, 2, 3]}, "add", 0),
        ("copy", {}, "add", 0),
    ],
)
def test_domain_of_other_kinds(kind: str, attributes: dict[str, Any], combine: str, fill: float) -> None:
    b = GraphBuilder()
    b.output(b.op(kind, b.input("x", (3, 4, 6)), name="op", **attributes))
    graph = b.build()
    inputs = _core.random_inputs(graph.core, 5)
    np.testing.assert_allclose(
        by_domain(graph, "op", inputs, combine, fill), _core.evaluate(graph.core, inputs)[0], atol=1e-5
    )


def test_domain_of_broadcasting_operands() -> None:
    b = GraphBuilder()
    b.output(b.apply("multiply", b.input("x", (3, 1, 4)), b.input("y", (5, 1)), name="op"))
    graph = b.build()
    inputs = _core.random_inputs(graph.core, 5)
    np.testing.assert_allclose(by_domain(graph, "op", inputs, "add"), _core.evaluate(graph.core, inputs)[0], atol=1e-6)
    assert graph.core.domain("op")["operands"][1][1]["terms"] == []


def test_domains_that_are_not_affine() -> None:
    b = GraphBuilder()
    table, ids = b.input("table", (7, 3)), b.input("ids", (2,), "i32")
    b.output(b.op("embedding", table, ids, name="op"))
    domain = b.build().core.domain("op")
    assert domain["operands"][0] is None and domain["operands"][1] is not None


# --- costs by hand ---


def test_flops_by_hand() -> None:
    assert workloads.matmul(3, 5, 7).flops()["matrix"] == 2 * 3 * 5 * 7
    assert workloads.matmul(3, 5, 7, batch=4).flops()["matrix"] == 2 * 3 * 5 * 7 * 4
    conv = workloads.conv2d(2, 6, 9, 9, 8, 3, padding=1, groups=2).flops()
    assert conv["matrix"] == 2 * (2 * 8 * 9 * 9) * 3 * 3 * 3
    softmax = workloads.softmax(4, 10).flops()
    assert (softmax["simple"], softmax["divide"], softmax["transcendental"]) == (3 * 40, 40, 40)
    attention = workloads.attention(2, 3, 5, 8, keys=7).flops()
    assert attention["matrix"] == 2 * 2 * (2 * 3 * 5 * 7 * 8)
    assert workloads.elementwise("fma", 6).flops()["multiply"] == 12


def test_compulsory_bytes_by_hand() -> None:
    assert workloads.matmul(3, 5, 7).compulsory_bytes() == 4 * (21 + 35 + 15)
    assert workloads.matmul(3, 5, 7, dtype="bf16").compulsory_bytes() == 2 * (21 + 35 + 15)
    # a 1×1 convolution of stride 2 reads every second row and column
    assert workloads.conv2d(1, 4, 8, 8, 6, 1, stride=2).compulsory_bytes() == 4 * (4 * 16 + 24 + 6 * 16)
    # kernel 3, stride 3 over 10: positions 0 to 8
    assert workloads.conv2d(1, 1, 10, 10, 1, 3, stride=3).compulsory_bytes() == 4 * (81 + 9 + 9)
    b = GraphBuilder()
    ids = b.input("ids", (5,), "i32")
    b.output(b.op("embedding", b.weight("table", (1000, 4)), ids))
    assert b.build().compulsory_bytes() == 5 * 4 + 5 * 4 * 4 + 5 * 4 * 4


def test_an_aliased_update_moves_the_written_part_only() -> None:
    b = GraphBuilder()
    cache, new, at = b.input("cache", (100, 8)), b.input("new", (1, 8)), b.input("at", (), "i32")
    b.output(b.op("dynamic_update", cache, new, at, at, name="op"))
    b.alias(0, 0)
    graph = b.build()
    assert graph.compulsory_bytes() == 2 * 32  # the position steers a transfer: no engine moves it to the chip
    assert graph.operations()[0]["bytes"] == 2 * 32
    assert graph.core.aliases == [(0, 0)]


def test_a_called_function_counts_once_per_call() -> None:
    b = GraphBuilder()
    layer = b.function("layer")
    x = layer.input("x", (2, 4))
    layer.output(layer.matmul(x, layer.input("w", (4, 4))))
    y = b.input("y", (2, 4))
    for i in range(3):
        y = b.call(layer, y, b.weight(f"w{i}", (4, 4)))
    b.output(y)
    graph = b.build()
    assert graph.flops()["matrix"] == 3 * 2 * 2 * 4 * 4
    assert graph.compulsory_bytes() == 4 * (3 * 16 + 8 + 8)
    inputs = _core.random_inputs(graph.core, 0)
    before = _core.evaluate(graph.core, inputs)[0]
    assert graph.inline_calls() == 3
    graph.check()
    assert graph.remove_dead_code() == 0 and graph.functions == ["main"]
    np.testing.assert_array_equal(_core.evaluate(graph.core, inputs)[0], before)


@pytest.mark.parametrize("before", ["transpose", "reshape", "slice", "broadcast"])
def test_what_only_moves_needs_what_is_read_behind_it(before: str) -> None:
    """A part of a moved input is a part of the input."""
    b = GraphBuilder()
    x = b.input("x", (64, 64))
    moved = {
        "transpose": lambda: b.op("transpose", x, permutation=[1, 0]),
        "reshape": lambda: b.op("reshape", x, shape=[32, 128]),
        "slice": lambda: b.op("slice", x, start=[0, 0], limit=[32, 64]),
        "broadcast": lambda: b.broadcast(x, (4, 64, 64)),
    }[before]()
    start, limit = [0] * len(moved.shape), [1] * (len(moved.shape) - 1) + [8]
    b.output(b.op("slice", moved, start=start, limit=limit))
    most = 2 * 8 * 4
    assert 8 * 4 < b.build().compulsory_bytes() <= most
