"""Work grows with what there is to do: with the operations, not with their square, and not with extents."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts

SIDE = 16


def chain(n: int) -> ts.Graph:
    """Elementwise operations one behind the other: one kernel."""
    b = ts.GraphBuilder("chain")
    x = b.input("x", [SIDE, SIDE])
    for i in range(n):
        x = b.apply(("tanh", "exp")[i % 2], x)
    b.output(x, "y")
    return b.build()


def products(n: int) -> ts.Graph:
    """Products one behind the other."""
    b = ts.GraphBuilder("products")
    x, w = b.input("x", [SIDE, SIDE]), b.weight("w", [SIDE, SIDE])
    for _ in range(n):
        x = b.matmul(x, w)
    b.output(x, "y")
    return b.build()


def rows(n: int) -> ts.Graph:
    """Reductions that depend on each other, and what reads both."""
    b = ts.GraphBuilder("rows")
    x = b.input("x", [SIDE, SIDE])
    for _ in range(n // 2):
        x = b.apply("add", x, b.op("reduce", x, dims=[1], combiner="maximum", keep_dims=True))
    b.output(x, "y")
    return b.build()


def views(n: int) -> ts.Graph:
    """Views of views, and one reader."""
    b = ts.GraphBuilder("views")
    x = b.input("x", [SIDE, SIDE])
    for _ in range(n):
        x = b.op("transpose", x, permutation=[1, 0])
    b.output(b.apply("tanh", x), "y")
    return b.build()


def seconds(call: Callable[[], Any]) -> float:
    """Processor time of the process, the shortest of two calls."""
    spent = []
    for _ in range(2):
        begin = time.process_time()
        call()
        spent.append(time.process_time() - begin)
    return min(spent)


@pytest.mark.parametrize(("make", "few"), [(chain, 1500), (products, 100), (rows, 300), (views, 1500)])
def test_compile_grows_with_the_operations(make: Callable[[int], ts.Graph], few: int) -> None:
    small, large = make(few), make(4 * few)
    assert seconds(lambda: ts.compile(large, "edge-8")) < 8 * seconds(lambda: ts.compile(small, "edge-8")) + 0.05


def test_equal_halves_of_a_reduction_are_no_tree() -> None:
    """Sixty doublings before a reduction have 2^60 ways to an input, and sixty operations."""
    b = ts.GraphBuilder("doubled")
    x = b.input("x", [SIDE, SIDE])
    for _ in range(60):
        x = b.apply("add", x, x)
    b.output(b.apply("subtract", x, b.op("reduce", x, dims=[1], combiner="maximum", keep_dims=True)), "y")
    assert ts.verify(ts.compile(b.build(), "edge-8")).ok


def test_movement_between_two_kernels_ends_no_kernel_in_itself() -> None:
    """What joins a kernel must not read, behind a concat, what that kernel makes."""
    b = ts.GraphBuilder("loop")
    a, c = b.apply("tanh", b.input("a", [4, 64])), b.apply("tanh", b.input("c", [8, 64]))
    half = b.op("slice", c, start=[0, 0], limit=[4, 64])
    b.output(b.apply("add", c, b.concat([a, half], axis=0)), "y")
    assert ts.verify(ts.compile(b.build(), "edge-8")).ok


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize("place", range(3))
def test_an_extent_costs_no_time(machine: str, place: int) -> None:
    """A product with one extent of 2^34 + 3 compiles in about the time of one with 2^17 + 3."""

    def compiled(long: int) -> Callable[[], Any]:
        extents = [64, 200, 128]
        extents[place] = long
        graph = ts.workloads.matmul(*extents)
        return lambda: ts.compile(graph, machine)

    assert seconds(compiled(2**34 + 3)) < 8 * seconds(compiled(2**17 + 3)) + 0.5  # in proportion: 131,072 times
