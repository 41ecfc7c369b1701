"""Shapes with very short, odd and very long dimensions, for every kind of operation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import tilesim as ts

from .lowering_cases import single

DIMENSIONS = (1, 2, 3, 7, 127, 128, 129, 1000, 1 << 20)
LARGEST = 1 << 31  # elements of one tensor: beyond, tensors exceed what the machines' memories hold

Build = Callable[[], ts.Graph]


def _matmul(m: int, n: int, k: int) -> Build:
    return single("contract", [[m, k], [k, n]], a_contract=[1], b_contract=[0])


def _conv(n: int, c: int, h: int, o: int, taps: int, groups: int = 1) -> Build:
    return single(
        "convolution", [[n, c, h], [o, c // groups, taps]], x_labels="NCW", w_labels="OIW", y_labels="NCW",
        pads=[taps // 2, taps // 2], groups=groups,
    )  # fmt: skip


def _rows(a: int, b: int, indices: int) -> Build:
    return single(
        "gather", [[a, b], ([indices, 1], "i32")], index_vector_dim=1, offset_dims=[1], collapsed_slice_dims=[0],
        start_index_map=[0], slice_sizes=[1, b],
    )  # fmt: skip


def _points(a: int, b: int, indices: int) -> Build:
    return single(
        "gather", [[a, b], ([indices, 2], "i32")], index_vector_dim=1, offset_dims=[], collapsed_slice_dims=[0, 1],
        start_index_map=[0, 1], slice_sizes=[1, 1],
    )  # fmt: skip


def _pair(kind: str, **attributes: Any) -> Callable[[int, int], Build]:
    return lambda a, b: single(kind, [[a, b]], **attributes)


PAIRS: dict[str, Callable[[int, int], Build]] = {
    "elementwise": lambda a, b: single("elementwise", [[a, b], [b]], function="add"),
    "convert": _pair("convert", dtype="bf16"),
    "reduce rows": _pair("reduce", dims=[1], combiner="add"),
    "reduce columns": _pair("reduce", dims=[0], combiner="maximum"),
    "mean of all": _pair("reduce", dims=[0, 1], combiner="mean"),
    "argmax rows": _pair("reduce", dims=[1], combiner="argmax"),
    "argmin columns": _pair("reduce", dims=[0], combiner="argmin"),
    "cumulative rows": _pair("cumulative", dim=1, combiner="add"),
    "cumulative columns": _pair("cumulative", dim=0, combiner="maximum", reverse=True),
    "window": lambda a, b: single(
        "window_reduce", [[a, b]], window=[1, min(b, 1000)], strides=[1, 2], combiner="maximum"
    ),
    "softmax rows": _pair("softmax", dim=1),
    "softmax columns": _pair("softmax", dim=0),
    "layer norm": lambda a, b: single("normalize", [[a, b], [b], [b]], mode="layer", dims=[1], epsilon=1e-5),
    "transpose": _pair("transpose", permutation=[1, 0]),
    "reshape": lambda a, b: single("reshape", [[a, b]], shape=[b, a]),
    "reverse": _pair("reverse", dims=[0, 1]),
    "slice": lambda a, b: single("slice", [[a, b]], start=[0, 0], limit=[a, b], stride=[1, 2]),
    "broadcast": lambda a, b: single("broadcast", [[a]], shape=[a, b], dims=[0]),
    "concat": lambda a, b: single("concat", [[a, b], [a, 3]], dim=1),
    "pad": _pair("pad", low=[1, 2], high=[0, 3]),
    "pad interior": _pair("pad", low=[1, -1], high=[0, 3], interior=[1, 1]),
    "pad edge": _pair("pad", low=[1, 2], high=[0, 3], mode="edge"),
    "pad reflect": lambda a, b: single("pad", [[a, b]], low=[a, 2 * b], high=[0, 3], mode="reflect"),
    "dynamic_slice": lambda a, b: single(
        "dynamic_slice", [[a, b], ([], "i32"), ([], "i32")], sizes=[-(-a // 2), -(-b // 2)]
    ),
    "dynamic_update": lambda a, b: single("dynamic_update", [[a, b], [1, -(-b // 2)], ([], "i32"), ([], "i32")]),
    "embedding": lambda a, b: single("embedding", [[1000, a], ([b], "i32")], padding_index=1),
    "gather rows": lambda a, b: _rows(1000, a, b),
    "gather points": lambda a, b: _points(a, 1000, b),
    "iota": lambda a, b: single("iota", [], shape=[a, b], dtype="i32", dim=1),
}
TRIPLES: dict[str, Callable[[int, int, int], Build]] = {
    "contract": _matmul,
    "convolution": lambda a, b, c: _conv(1, a, b, c, 3),
    "taps": lambda a, b, c: _conv(1, 2, a, b, min(a, c)),
    "depthwise": lambda a, b, c: _conv(min(c, 7), a, b, a, 3, groups=a),
}


def elements(graph: ts.Graph) -> int:
    """Of the largest input or output."""
    largest = 1
    for row in (*graph.core.inputs, *graph.core.outputs):
        count = 1
        for extent in row["shape"]:
            count *= extent
        largest = max(largest, count)
    return largest


def dimension_cases() -> Iterator[tuple[str, tuple[int, ...], Build]]:
    """Name, dimensions and graph of every combination."""
    for name, make in PAIRS.items():
        for a, b in itertools.product(DIMENSIONS, repeat=2):
            yield name, (a, b), make(a, b)
    for name, make3 in TRIPLES.items():
        for a, b, c in itertools.product(DIMENSIONS, repeat=3):
            yield name, (a, b, c), make3(a, b, c)
