"""Work grows with what there is to do: with the operations, not with their square, and not with extents."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
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


def star(n: int) -> ts.Graph:
    """One value that all operations read; as many outputs."""
    b = ts.GraphBuilder("star")
    x = b.input("x", [SIDE, SIDE])
    for i in range(n):
        b.output(b.apply("add", x, b.scalar(float(i))), f"y{i}")
    return b.build()


def sums(n: int) -> ts.Graph:
    """As many inputs, summed: one kernel of many operands."""
    b = ts.GraphBuilder("sums")
    x = b.input("x", [SIDE, SIDE])
    for i in range(n):
        x = b.apply("add", x, b.input(f"x{i}", [SIDE, SIDE]))
    b.output(x, "y")
    return b.build()


def equals(n: int) -> ts.Graph:
    """Operations that are all the same, and what reads each of them."""
    b = ts.GraphBuilder("equals")
    x = b.input("x", [SIDE, SIDE])
    b.output(b.concat([b.apply("tanh", x) for _ in range(n)], axis=0), "y")
    return b.build()


def pairs(n: int) -> ts.Graph:
    """Quantized again with the scale that they were dequantized by: each pair is its input. Between them a change."""
    b = ts.GraphBuilder("pairs")
    x, scale = b.input("x", [SIDE, SIDE], "i8"), b.scalar(0.5)
    for _ in range(n):
        wide = b.apply("multiply", b.op("convert", x, dtype="f32"), scale)
        whole = b.apply("round_even", b.apply("divide", wide, scale))
        x = b.apply("negate", b.op("convert", whole, dtype="i8", overflow="saturate"))
    b.output(x, "y")
    return b.build()


def seconds(call: Callable[[], Any]) -> float:
    """Processor time of the process."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def grows_in_proportion(large: Callable[[], Any], small: Callable[[], Any], beside: float = 0.05) -> bool:
    """Whether four times the work takes less than eight times as long, in one of three tries: others work beside it."""
    return any(seconds(large) < 8 * seconds(small) + beside for _ in range(3))


@pytest.mark.parametrize(
    ("make", "few"),
    [(chain, 1000), (products, 100), (rows, 100), (views, 1000), (star, 200), (sums, 300), (equals, 1500)],
)
def test_compile_grows_with_the_operations(make: Callable[[int], ts.Graph], few: int) -> None:
    small, large = make(few), make(4 * few)
    assert grows_in_proportion(lambda: ts.compile(large, "edge-8"), lambda: ts.compile(small, "edge-8"))


@pytest.mark.parametrize("what", ["save", "load", "coverage", "report", "count"])
def test_what_is_done_with_programs_grows_with_them(what: str, tmp_path: Path) -> None:
    def work(n: int) -> Callable[[], Any]:
        program = ts.compile(products(n), "edge-8")
        path = tmp_path / f"{n}.tsim"
        program.save(path)
        calls: dict[str, Callable[[], Any]] = {
            "save": lambda: program.save(path),
            "load": lambda: ts.Program.load(path),
            "coverage": lambda: ts.coverage(program.graph, "edge-8"),
            "report": lambda: ts.simulate(program).to_html(tmp_path / "page.html", advice=False),
            "count": lambda: ts.Program.load(path).operations,
        }
        return calls[what]

    assert grows_in_proportion(work(200), work(50))


def test_recognition_grows_with_the_pairs_that_are_their_inputs() -> None:
    def recognised(n: int) -> Callable[[], Any]:
        graph = pairs(n)

        def call() -> None:
            copy = graph.copy()
            copy.optimize("quantized_pairs")
            assert sum(op["kind"] == "elementwise" for op in copy.operations()) == n, "a pair was left"

        return call

    assert grows_in_proportion(recognised(800), recognised(200))


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


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize("place", range(3))
def test_an_extent_costs_no_time(machine: str, place: int) -> None:
    """A product with one extent of 2^34 + 3 compiles in about the time of one with 2^17 + 3."""

    def compiled(long: int) -> Callable[[], Any]:
        extents = [64, 200, 128]
        extents[place] = long
        graph = ts.workloads.matmul(*extents)
        return lambda: ts.compile(graph, machine)

    assert grows_in_proportion(compiled(2**34 + 3), compiled(2**17 + 3), 0.5)  # in proportion: 131,072 times


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3", "chiplet-2"])
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("stride", [1, 2])
def test_an_extent_of_a_convolution_costs_no_time(machine: str, place: int, stride: int) -> None:
    """Images, channels, rows, columns or filters of 2^40, in about the time of 2^14."""
    if machine == "mesh-16" and place == 4:
        pytest.xfail("from 2^24 filters on a kernel takes more of the scratchpad than its nest was priced with")

    def compiled(long: int) -> Callable[[], Any]:
        extents = [1, 8, 56, 64, 8]
        extents[place] = long
        graph = ts.workloads.conv2d(*extents, stride=stride)
        return lambda: ts.compile(graph, machine)

    assert grows_in_proportion(compiled(2**40), compiled(2**14), 0.5)  # in proportion: 67,108,864 times
