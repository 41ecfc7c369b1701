"""Elementwise functions of integers: all values of narrow dtypes, edges of wide ones; reference and tiled.

What is right is computed here in Python's integers, wrapped to the dtype; what JAX and torch give is asked of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts

NUMPY: dict[str, Any] = {
    "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip


def width(dtype: str) -> int:
    return int(dtype[1:])


def wrap(value: int, dtype: str) -> int:
    value &= (1 << width(dtype)) - 1
    return value - (1 << width(dtype)) if dtype[0] == "i" and value >> (width(dtype) - 1) else value


def edges(dtype: str) -> list[int]:
    bits = width(dtype)
    if bits <= 8:
        return [wrap(value, dtype) for value in range(1 << bits)]
    near = [0, 1, 2, 3, 5, 7, bits - 1, bits, bits + 1, 100]
    high = [1 << (bits - 2), (1 << (bits - 1)) - 1, (1 << (bits - 1)) - 2, (1 << bits) - 1, 1 << (bits - 1)]
    return sorted({wrap(sign * value, dtype) for value in near + high for sign in (1, -1)})


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a: int, b: int) -> int:
    return pow(a, b, 1 << 64) if b >= 0 else {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


def shifted_left(a: int, b: int, bits: int) -> int:
    return a << b if 0 <= b < bits else 0


def shifted_right(a: int, b: int, bits: int) -> int:
    return a >> b if 0 <= b < bits else (-1 if a < 0 else 0)


UNARY: dict[str, Callable[[int, str], int]] = {
    "identity": lambda a, d: a,
    "negate": lambda a, d: -a,
    "abs": lambda a, d: abs(a),
    "sign": lambda a, d: (a > 0) - (a < 0),
    "floor": lambda a, d: a,
    "bitwise_not": lambda a, d: ~a,
    "popcount": lambda a, d: (a & ((1 << width(d)) - 1)).bit_count(),
    "relu": lambda a, d: max(a, 0),
    "logical_not": lambda a, d: a == 0,
    "is_finite": lambda a, d: True,
    "is_nan": lambda a, d: False,
}
BINARY: dict[str, Callable[[int, int, str], int]] = {
    "add": lambda a, b, d: a + b, "subtract": lambda a, b, d: a - b, "multiply": lambda a, b, d: a * b,
    "divide": lambda a, b, d: truncated(a, b), "remainder": lambda a, b, d: a - b * truncated(a, b),
    "floor_divide": lambda a, b, d: a // b, "power": lambda a, b, d: power(a, b),
    "maximum": lambda a, b, d: max(a, b), "minimum": lambda a, b, d: min(a, b),
    "logical_and": lambda a, b, d: bool(a and b), "logical_or": lambda a, b, d: bool(a or b),
    "logical_xor": lambda a, b, d: bool(a) != bool(b), "bitwise_and": lambda a, b, d: a & b,
    "bitwise_or": lambda a, b, d: a | b, "bitwise_xor": lambda a, b, d: a ^ b,
    "shift_left": lambda a, b, d: shifted_left(a, b, width(d)),
    "shift_right": lambda a, b, d: shifted_right(a, b, width(d)), "equal": lambda a, b, d: a == b,
    "not_equal": lambda a, b, d: a != b, "less": lambda a, b, d: a < b, "less_equal": lambda a, b, d: a <= b,
    "greater": lambda a, b, d: a > b, "greater_equal": lambda a, b, d: a >= b,
}  # fmt: skip
DIVIDES = ("divide", "remainder", "floor_divide")


def check(functions: dict[str, Any], dtype: str, columns: list[list[int]]) -> None:
    """Each function on its rows, all in one graph; divisors are not 0."""
    b = ts.GraphBuilder("functions")
    wide = np.uint64 if dtype == "u64" else np.int64
    arrays = [np.array(column, wide).astype(NUMPY[dtype]) for column in columns]
    inputs = [b.input(f"x{i}", array.shape, dtype) for i, array in enumerate(arrays)]
    for name in functions:
        b.output(b.op("elementwise", *inputs, function=name), f"y_{name}")
    graph = b.build()
    got = {"reference": ts.reference(graph, arrays)}
    try:
        got["tiled"] = ts.execute(ts.compile(graph, "edge-8"), arrays)
    except ts.Unsupported as error:
        assert dtype == "u64" and "signed" in str(error)
    for name, function in functions.items():
        wanted = [int(function(*row, dtype)) for row in zip(*columns, strict=True)]
        for where, outputs in got.items():
            mine = outputs[f"y_{name}"]
            right = wanted if mine.dtype == np.bool_ else [wrap(value, dtype) for value in wanted]
            wrong = [
                (row, int(value), expected)
                for row, value, expected in zip(zip(*columns, strict=True), mine.tolist(), right, strict=True)
                if int(value) != expected
            ]
            assert not wrong, (where, dtype, name, wrong[:5])


@pytest.mark.parametrize("dtype", NUMPY)
def test_functions_of_one_operand(dtype: str) -> None:
    check(UNARY, dtype, [edges(dtype)])
    for name, function in UNARY.items():  # alone, where u64 is ordered by nothing
        check({name: function}, dtype, [edges(dtype)])


@pytest.mark.parametrize("dtype", NUMPY)
def test_functions_of_two_operands(dtype: str) -> None:
    values = edges(dtype) if width(dtype) != 8 else sorted({wrap(v, dtype) for v in (*range(-9, 10), *range(120, 136))})
    pairs = [list(column) for column in zip(*itertools.product(values, values), strict=True)]
    for name, function in BINARY.items():
        columns = pairs
        if name in DIVIDES:
            columns = [list(column) for column in zip(*[p for p in zip(*pairs, strict=True) if p[1]], strict=True)]
        check({name: function}, dtype, columns)


@pytest.mark.parametrize("dtype", NUMPY)
def test_functions_of_three_operands(dtype: str) -> None:
    values = [wrap(value, dtype) for value in (0, 1, -1, 5, (1 << (width(dtype) - 1)) - 1, 1 << (width(dtype) - 1))]
    rows = [list(column) for column in zip(*itertools.product(values, repeat=3), strict=True)]
    check({"fma": lambda a, b, c, d: a * b + c}, dtype, rows)
    check({"clamp": lambda low, x, high, d: min(max(low, x), high)}, dtype, rows)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "minimum", "bitwise_xor", "equal"])
def test_functions_of_bool(name: str) -> None:
    """1 + 1 is true: what follows sees a bool, no 2."""
    b = ts.GraphBuilder("bools")
    x, y = b.input("x", [4], "bool"), b.input("y", [4], "bool")
    z = b.op("elementwise", x, y, function=name)
    b.output(b.op("elementwise", z, x, function="equal"), "same")
    b.output(b.op("convert", z, dtype="i32"), "number")
    left, right = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    graph = b.build()
    wanted = np.array([bool(BINARY[name](int(p), int(q), "i8")) for p, q in zip(left, right, strict=True)])
    for outputs in (ts.reference(graph, [left, right]), ts.execute(ts.compile(graph, "edge-8"), [left, right])):
        np.testing.assert_array_equal(outputs["number"], wanted)
        np.testing.assert_array_equal(outputs["same"], wanted == left)


@pytest.mark.parametrize("name", DIVIDES)
def test_division_by_zero_is_an_error(name: str) -> None:
    b = ts.GraphBuilder("zero")
    b.output(b.op("elementwise", b.input("x", [3], "i32"), b.input("y", [3], "i32"), function=name), "y")
    graph, inputs = b.build(), [np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int32)]
    for run in (lambda: ts.reference(graph, inputs), lambda: ts.execute(ts.compile(graph, "edge-8"), inputs)):
        with pytest.raises(ts.UserError, match=r"(?i)division by zero"):
            run()


def test_integers_that_are_no_doubles_stay_exact() -> None:
    b = ts.GraphBuilder("large")
    one = b.weight("one", data=np.array(2**53 + 1, np.int64), trainable=False)
    b.output(b.apply("add", b.input("x", [2], "i64"), one), "y")
    x = np.array([0, 2**60], np.int64)
    np.testing.assert_array_equal(ts.execute(ts.compile(b.build(), "edge-8"), [x])["y"], x + 2**53 + 1)
