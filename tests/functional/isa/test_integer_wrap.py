"""Integers that leave the range of their type, and what stands between that and who asks for the number: all levels
against numpy, whose integers wrap."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts

KINDS = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}
OTHER = {"i8": "u8", "u8": "i8", "i16": "u16", "u16": "i16"}
LEVELS = ("tile", "instruction", "live")
ROWS, COLUMNS = 2, 37

Both = tuple[Callable[..., Any], Callable[..., Any]]  # in a graph, by numpy

# from x, and w of 32 bits
LEAVES: dict[str, Both] = {
    "product": (lambda b, x, w, d: b.apply("multiply", x, x), lambda x, w, t: x * x),
    "sum": (lambda b, x, w, d: b.apply("add", x, x), lambda x, w, t: x + x),
    "difference": (lambda b, x, w, d: b.apply("subtract", b.scalar(3, d), x), lambda x, w, t: t(3) - x),
    "negative": (lambda b, x, w, d: b.apply("negate", x), lambda x, w, t: -x),
    "other sign": (
        lambda b, x, w, d: b.op("convert", b.apply("bitwise_not", b.op("convert", x, dtype=OTHER[d])), dtype=d),
        lambda x, w, t: ~x,
    ),
    "narrowed": (lambda b, x, w, d: b.op("convert", w, dtype=d), lambda x, w, t: w.astype(t)),
}
# v on, with y of its type and a condition
HANDS_ON: dict[str, Both] = {
    "select": (lambda b, v, y, c: b.apply("select", c, v, y), lambda v, y, c: np.where(c, v, y)),
    "bitwise_or": (lambda b, v, y, c: b.apply("bitwise_or", v, y), lambda v, y, c: v | y),
    "bitwise_and": (lambda b, v, y, c: b.apply("bitwise_and", v, y), lambda v, y, c: v & y),
    "bitwise_xor": (lambda b, v, y, c: b.apply("bitwise_xor", v, y), lambda v, y, c: v ^ y),
    "bitwise_not": (lambda b, v, y, c: b.apply("bitwise_not", v), lambda v, y, c: ~v),
    "floor": (lambda b, v, y, c: b.apply("floor", v), lambda v, y, c: v),
    "ceil": (lambda b, v, y, c: b.apply("ceil", v), lambda v, y, c: v),
    "trunc": (lambda b, v, y, c: b.apply("trunc", v), lambda v, y, c: v),
    "round_even": (lambda b, v, y, c: b.apply("round_even", v), lambda v, y, c: v),
    "floor of select": (
        lambda b, v, y, c: b.apply("floor", b.apply("select", c, y, v)),
        lambda v, y, c: np.where(c, y, v),
    ),
}
ASKS: dict[str, Both] = {
    "maximum": (lambda b, v, y: b.apply("maximum", v, y), np.maximum),
    "minimum": (lambda b, v, y: b.apply("minimum", v, y), np.minimum),
    "clamp": (
        lambda b, v, y: b.apply("clamp", b.scalar(5, v.dtype), v, b.scalar(90, v.dtype)),
        lambda v, y: np.clip(v, 5, 90),
    ),
    "less": (lambda b, v, y: b.apply("less", v, y), np.less),
    "greater": (lambda b, v, y: b.apply("greater", v, y), np.greater),
    "relu": (lambda b, v, y: b.apply("relu", v), lambda v, y: np.maximum(v, v.dtype.type(0))),
    "argmax": (
        lambda b, v, y: b.op("reduce", v, combiner="argmax", dims=(1,), keep_dims=False),
        lambda v, y: v.argmax(1),
    ),
    "largest": (
        lambda b, v, y: b.op("reduce", v, combiner="maximum", dims=(1,), keep_dims=False),
        lambda v, y: v.max(1),
    ),
    "f32": (lambda b, v, y: b.op("convert", v, dtype="f32"), lambda v, y: v.astype(np.float32)),
}


def numbers(dtype: str, seed: int) -> Any:
    kind: Any = np.dtype(KINDS.get(dtype, np.int32))
    ends = np.iinfo(kind)
    values = np.random.default_rng(seed).integers(ends.min, ends.max, (ROWS, COLUMNS), dtype=kind, endpoint=True)
    values.flat[:6] = ends.max, ends.min, ends.max - 1, ends.min + 1, 0, 1
    return values


@pytest.mark.few(2)
@pytest.mark.parametrize("asks", ASKS)
def test_wrapped_where_the_number_is_asked_for(asks: str) -> None:
    shift = list(ASKS).index(asks)
    for i, hands_on in itertools.product(range(3), HANDS_ON):
        at = i * 2 + list(HANDS_ON).index(hands_on) + shift
        leaves, dtype = list(LEAVES)[at % len(LEAVES)], list(KINDS)[(at // 2 + i) % len(KINDS)]
        x, y, w = numbers(dtype, 1), numbers(dtype, 2), numbers("i32", 3)
        c = np.random.default_rng(4).random((ROWS, COLUMNS)) < 0.7
        b = ts.GraphBuilder("wrap")
        nodes = [b.input(n, v.shape, d) for n, v, d in (("x", x, dtype), ("y", y, dtype), ("w", w, "i32"))]
        flags = b.input("c", c.shape, "bool")
        v = HANDS_ON[hands_on][0](b, LEAVES[leaves][0](b, nodes[0], nodes[2], dtype), nodes[1], flags)
        b.output(ASKS[asks][0](b, v, nodes[1]), "z")
        program = ts.compile(b.build(), "edge-8")
        wanted = ASKS[asks][1](HANDS_ON[hands_on][1](LEAVES[leaves][1](x, w, KINDS[dtype]), y, c), y)
        for level in LEVELS:
            found = ts.execute(program, {"x": x, "y": y, "w": w, "c": c}, level=level)["z"]
            np.testing.assert_array_equal(found, wanted, err_msg=f"{leaves}, {hands_on}, {dtype}, {level}")
