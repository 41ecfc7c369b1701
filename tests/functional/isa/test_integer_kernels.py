"""Vector kernels of integers, flags and numbers of 64 bits in whole programs, against numpy; all computes have one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

KINDS = {"i8": np.int8, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u32": np.uint32}


def numbers(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    kind = np.dtype(KINDS[dtype])
    ends = np.iinfo(kind)
    values = np.random.default_rng(seed).integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)
    values.flat[:3] = ends.min, ends.max, 0
    return values


def executed(graph: ts.Graph, machine: str, *operands: Any) -> list[Any]:
    """By kernels alone."""
    program = ts.compile(graph, machine)
    result = ts.levels(program)
    assert [row["limit"] for row in result.computes if row["instruction"] is None] == []
    return list(ts.execute(program, operands, level="instruction").values())


@pytest.mark.parametrize("machine", ["mesh-16", "edge-8"])
@pytest.mark.parametrize("dtype", KINDS)
def test_arithmetic(dtype: str, machine: str) -> None:
    x, y = numbers(dtype, (7, 33), 1), numbers(dtype, (7, 33), 2)
    low = KINDS[dtype](7)
    b = ts.GraphBuilder("arithmetic")
    a, c = b.input("x", x.shape, dtype), b.input("y", y.shape, dtype)
    seven = b.scalar(7, dtype)
    sums = b.apply("add", b.apply("multiply", a, c), seven)
    b.output(sums, "sums")
    b.output(b.apply("floor_divide", sums, seven), "quotients")
    b.output(b.apply("less", a, c), "less")
    b.output(b.apply("maximum", a, c), "largest")
    b.output(b.apply("bitwise_xor", a, b.apply("bitwise_not", c)), "bits")
    found = executed(b.build(), machine, x, y)
    wanted = x * y + low
    for one, want in zip(found, (wanted, wanted // low, x < y, np.maximum(x, y), x ^ ~y), strict=True):
        np.testing.assert_array_equal(one, want)


@pytest.mark.parametrize("dtype", KINDS)
def test_reductions(dtype: str) -> None:
    x = numbers(dtype, (9, 40), 3)
    b = ts.GraphBuilder("reductions")
    a = b.input("x", x.shape, dtype)
    for combiner in ("add", "maximum", "minimum"):
        b.output(b.op("reduce", a, combiner=combiner, dims=(1,), keep_dims=False), combiner)
    over = b.apply("greater", a, b.scalar(3, dtype))
    for combiner in ("logical_or", "logical_and"):
        b.output(b.op("reduce", over, combiner=combiner, dims=(0,), keep_dims=False), combiner)
    found = executed(b.build(), "edge-8", x)
    wanted = (x.sum(1, dtype=x.dtype), x.max(1), x.min(1), (x > 3).any(0), (x > 3).all(0))
    for one, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, want)


def test_places_and_flags() -> None:
    """What networks do to token numbers: masks, one-hot rows, the place of the largest."""
    tokens = np.random.default_rng(4).integers(0, 12, (3, 10))
    scores = np.random.default_rng(5).normal(size=(3, 50)).astype(np.float32)
    b = ts.GraphBuilder("tokens")
    t, s = b.input("tokens", tokens.shape, "i64"), b.input("scores", scores.shape)
    b.output(b.apply("not_equal", t, b.scalar(0, "i64")).convert("f32"), "mask")
    b.output(b.apply("remainder", b.apply("multiply", t, b.scalar(31, "i64")), b.scalar(5, "i64")), "bucket")
    b.output(b.op("reduce", s, combiner="argmax", dims=(1,), keep_dims=False), "best")
    found = executed(b.build(), "edge-8", tokens, scores)
    for one, want in zip(found, (tokens != 0, tokens * 31 % 5, scores.argmax(1)), strict=True):
        np.testing.assert_array_equal(one, want)


def test_division_by_zero_says_so() -> None:
    b = ts.GraphBuilder("division")
    x, y = b.input("x", (4, 9), "i32"), b.input("y", (4, 9), "i32")
    b.output(b.apply("floor_divide", x, y), "z")
    divisors = np.ones((4, 9), np.int32)
    divisors[3, 8] = 0
    program = ts.compile(b.build(), "edge-8")
    np.testing.assert_array_equal(
        ts.execute(program, (np.full((4, 9), -7, np.int32), divisors | 2), level="instruction")["z"],
        np.full((4, 9), -7, np.int32) // (divisors | 2),
    )
    with pytest.raises(ts.UserError, match="division by zero"):
        ts.execute(program, (divisors, divisors), level="instruction")
