"""Sums begin at 0, so that terms which are all -0 sum to 0: as IEEE 754 adds, and as numpy's sums and matmul do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores

LEVELS = ("tile", "instruction")
MACHINES = ("edge-8", "mesh-16", "tpu-v3")
SHAPES = [(1, 1), (1, 3), (5, 1), (2, 130), (40, 3), (9, 17, 8), (3, 1, 300), (2, 7, 1, 5)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("channels", [1, 2, 3, 16])
def test_sums_of_negative_zeros(machine: str, channels: int) -> None:
    x = -np.ones((1, channels, 4, 4), np.float32)
    w = np.zeros((2, channels, 1, 1), np.float32)
    b = ts.GraphBuilder("zeros")
    b.output(b.conv2d(b.input("x", x.shape), b.input("w", w.shape)), "y")
    b.output(b.input("l", (5, channels)) @ b.input("r", (channels, 3)), "z")
    values = {"x": x, "w": w, "l": -np.ones((5, channels), np.float32), "r": np.zeros((channels, 3), np.float32)}
    program = ts.compile(b.build(), few_cores(machine))
    for level in LEVELS:
        found = ts.execute(program, values, level=level)
        assert not any(np.signbit(found[name]).any() for name in "yz"), level


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("level", LEVELS)
def test_what_divides_by_such_a_sum_is_right(machine: str, level: str) -> None:
    b = ts.GraphBuilder("divided")
    x, w = -np.ones((1, 1, 4, 4), np.float32), np.zeros((2, 1, 1, 1), np.float32)
    b.output(b.apply("reciprocal", b.conv2d(b.input("x", x.shape), b.input("w", w.shape))), "y")
    program = ts.compile(b.build(), few_cores(machine))
    assert (ts.execute(program, [x, w], level=level)["y"] == np.inf).all()
    assert ts.verify(program, [x, w], level=level).ok


def axes_of(rank: int) -> list[list[int]]:
    """All sets of axes but none."""
    return [[i for i in range(rank) if bits >> i & 1] for bits in range(1, 1 << rank)]


def divides_by_zero(machine: str, x: Any, build: Callable[[ts.GraphBuilder, Any], list[Any]]) -> None:
    """What `build` sums of x is 0 without a sign at both levels, and so is what is computed of it right behind."""
    b = ts.GraphBuilder("sums", dtype="f64" if x.dtype == np.float64 else "f32")
    for i, total in enumerate(build(b, b.input("x", x.shape))):
        b.output(total, f"y{i}")
        b.output(b.apply("reciprocal", total), f"z{i}")
    program = ts.compile(b.build(), few_cores(machine))
    for level in LEVELS:
        found = ts.execute(program, [x], level=level)
        for name, value in found.items():
            want = np.inf if name[0] == "z" else 0.0
            assert (value == want).all() and not np.signbit(value).any(), (level, name)
        assert ts.verify(program, [x], level=level).ok, level


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reductions(machine: str, shape: tuple[int, ...], dtype: type) -> None:
    """Over lanes, over rows of a register, over steps and several of them, and extents of 1."""
    x = np.full(shape, -0.0, dtype)
    divides_by_zero(machine, x, lambda b, t: [t.sum(axes) for axes in axes_of(len(shape))])


@pytest.mark.parametrize("machine", MACHINES)
def test_means_windows_and_running_sums(machine: str) -> None:
    x = np.full((2, 3, 6, 20), -0.0, np.float32)
    divides_by_zero(machine, x, lambda b, t: [t.mean([1]), t.mean([3]), t.mean(), b.pool2d(t, 2, combiner="add")])
    divides_by_zero(machine, x, lambda b, t: [b.op("cumulative", t, dim=dim, combiner="add") for dim in range(4)])
    divides_by_zero(machine, x, lambda b, t: [b.op("cumulative", t, dim=3, combiner="add").sum([0, 1])])


@pytest.mark.singly
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("window", [1, 2, 3])
def test_products_on_the_vector_unit(machine: str, window: int) -> None:
    """A depthwise convolution, a product of vectors, rows times one vector."""
    x = np.full((1, 6, 7, 9), -1.0, np.float32)

    def build(b: ts.GraphBuilder, t: Any) -> list[Any]:
        w = b.weight("w", data=np.zeros((6, 1, window, window), np.float32))
        column = b.weight("v", data=np.zeros((9, 1), np.float32))
        return [b.conv2d(t, w, groups=6), (t * b.scalar(0.0)).sum([1, 3]), t @ column]

    divides_by_zero(machine, x, build)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_softmax_and_products_of_negative_zeros_are_those_of_the_reference(machine: str) -> None:
    x = np.full((5, 33), -0.0, np.float32)
    b = ts.GraphBuilder("signs")
    t = b.input("x", x.shape)
    b.output(t.softmax(-1), "rows")
    b.output(t.softmax(0), "columns")
    b.output(b.op("reduce", t, combiner="multiply", dims=[1], keep_dims=False), "products")
    program = ts.compile(b.build(), few_cores(machine))
    tile, found = (ts.execute(program, [x], level=level) for level in LEVELS)
    for name in found:
        np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(tile[name]), name)
    assert np.signbit(found["products"]).all()  # of 33 terms
    assert ts.verify(program, [x], level="instruction").ok
