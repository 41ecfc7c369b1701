"""Tiles of kernels that move data: whatever is legal moves the same data, what is not is refused, tuning uses them."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import tilesim as ts
from support.lowering_cases import CASES
from tilesim.mapping import VectorKernel, kernels

WORDS = ("gather", "embedding", "pad", "reverse", "concat", "transpose", "slice", "broadcast", "copy", "bitcast")
WORDS += ("dynamic_slice", "dynamic_update", "scatter", "sort", "top_k", "reshape")
OWN = ("scatter add", "scatter maximum")  # rows that meet on chip, in tiles that the kernel chooses
MOVEMENT = [name for name in CASES if name.split(" ")[0].rstrip(",") in WORDS and name not in OWN]


def movement(graph: ts.Graph, machine: ts.Machine) -> list[VectorKernel]:
    return [
        kernel
        for kernel in kernels(graph, machine)
        if isinstance(kernel, VectorKernel) and re.split("[ ,:]", kernel.info["kernel"])[0] in WORDS
    ]


@pytest.mark.parametrize("name", MOVEMENT)
def test_any_legal_tiles_move_the_same(name: str) -> None:
    rng = random.Random(name)
    graph = CASES[name]()
    tried = 0
    for preset in ("edge-8", "tpu-v3"):
        machine = ts.Machine.load(preset)
        found = movement(graph, machine)
        for kernel in found:
            for _ in range(3):
                whole = kernel.info["whole"] or [False] * len(kernel.sizes)
                tiles = [
                    e if w else max(1, e // rng.choice([1, 2, 3, 7])) for e, w in zip(kernel.sizes, whole, strict=True)
                ]
                nest = {"tiles": tiles, "lane": kernel.info["lanes"][0], "depth": rng.choice([1, 2, 3])}
                assert kernel.legal(nest)[0], kernel.legal(nest)
                program = ts.compile(graph, machine, mapping={kernel.operation: nest})
                report = ts.verify(program)
                assert report.ok, (nest, report)
                tried += 1
                if len(found) == 1:
                    assert kernel.cost(nest)["bound_cycles"] <= ts.simulate(program).cycles, nest
    assert tried >= 3, "the kernel has a mapping"


def transpose() -> ts.Graph:
    b = ts.GraphBuilder("transpose", dtype="f32")
    b.output(b.op("transpose", b.input("x", (96, 500, 20)), permutation=[2, 0, 1], name="turn"), "y")
    return b.build()


def test_tiles_have_an_effect() -> None:
    graph, machine = transpose(), ts.Machine.load("edge-8")
    (kernel,) = movement(graph, machine)
    narrow = {"tiles": [1, 1, 500], "lane": 2, "depth": 2}
    cycles = {
        how: ts.simulate(ts.compile(graph, machine, mapping={"turn": nest})).cycles
        for how, nest in {"narrow": narrow, "one buffer": {**narrow, "depth": 1}, "usual": kernel.nest}.items()
    }
    assert cycles["one buffer"] > cycles["narrow"] > cycles["usual"] == ts.simulate(graph, machine).cycles


def test_tuned_and_from_a_table() -> None:
    graph = transpose()
    study = ts.tune(graph, "edge-8", budget=24)
    (row,) = study.operations
    assert row["operation"] == "turn" and study.result is not None and study.baseline is not None
    usual = ts.simulate(ts.compile(graph, "edge-8", mapping="heuristic"))
    assert study.result.cycles <= study.baseline.cycles < usual.cycles, "the usual tiles are one rule for all"
    assert all(one["cycles"] is None or one["bound"] <= one["cycles"] for one in study.rows)
    assert ts.verify(ts.compile(graph, "edge-8", mapping=study.best)).ok
    table = ts.mapping.MappingTable({"turn": {"tiles": {"0": 1, "1": 8}, "depth": 3}})
    ts.compile(graph, "edge-8", mapping=table)
    assert table.hits == ["turn"]


def test_what_is_refused() -> None:
    graph = CASES["sort"]()
    with pytest.raises(ts.UserError, match="axis 1 cannot be split"):
        ts.compile(graph, "edge-8", mapping={"op": {"tiles": [3, 35], "lane": 1, "depth": 2}})
    with pytest.raises(ts.UserError, match="bytes of scratchpad"):
        big = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "16 KiB"})
        ts.compile(transpose(), big, mapping={"turn": {"tiles": [20, 96, 500], "lane": 2, "depth": 2}})
    wrong: dict[str, Any] = {"tiles": [1, 1, 500], "lane": 0, "depth": 2}
    with pytest.raises(ts.UserError, match="over the lanes"):
        ts.compile(transpose(), "edge-8", mapping={"turn": wrong})


def turned(shape: tuple[int, ...], order: list[int]) -> ts.Graph:
    b = ts.GraphBuilder("turned", dtype="f32")
    b.output(b.op("transpose", b.input("x", shape), permutation=order, name="turn"), "y")
    return b.build()


def padded() -> ts.Graph:
    b = ts.GraphBuilder("padded", dtype="f32")
    b.output(b.op("pad", b.input("x", (2, 64, 56, 56)), low=[0, 0, 1, 1], high=[0, 0, 1, 1], name="pad"), "y")
    return b.build()


MOVED = {
    "three axes": lambda: turned((96, 500, 20), [2, 0, 1]),
    "matrix": lambda: turned((1000, 333), [1, 0]),
    "channels last": lambda: turned((8, 64, 28, 28), [0, 2, 3, 1]),
    "heads": lambda: turned((4, 128, 12, 64), [0, 2, 1, 3]),
    "pad": padded,
}


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "gemmini-16"])
@pytest.mark.parametrize("name", MOVED)
def test_cost_chooses_for_them(name: str, machine: str) -> None:
    """Walking the tiles comes close to the engine, and what is chosen by it is not slower and moves the same."""
    graph = MOVED[name]()
    (kernel,) = (kernel for kernel in kernels(graph, machine) if isinstance(kernel, VectorKernel))
    usual = ts.simulate(ts.compile(graph, machine)).cycles
    chosen = ts.compile(graph, machine, mapping="cost")
    assert ts.simulate(chosen).cycles <= 1.02 * usual
    assert abs(kernel.problem.walk(kernel.nest) / usual - 1) < 0.03
    assert ts.verify(chosen).ok


@pytest.mark.parametrize(
    "name", [name for name in MOVEMENT if name.startswith(("gather", "embedding", "dynamic_slice"))]
)
def test_cost_chooses_for_gathers(name: str) -> None:
    graph = CASES[name]()
    for machine in ("edge-8", "tpu-v3"):
        chosen = ts.compile(graph, machine, mapping="cost")
        assert ts.simulate(chosen).cycles <= 1.05 * ts.simulate(ts.compile(graph, machine)).cycles
        assert ts.verify(chosen).ok


@pytest.mark.parametrize("padding", [-1, 2])
def test_rows_of_a_table_are_priced_as_they_come(padding: int) -> None:
    """Ids of two axes: a transfer for each of the first, of as many rows as the second has in the tile. A row that is
    padding waits for its id in the vector unit too, by a load that the price leaves out."""
    b = ts.GraphBuilder("rows", dtype="f32")
    rows = b.op("embedding", b.input("x", [5, 20]), b.input("ids", [7, 9], "i32"), padding_index=padding)
    b.output(rows, "y")
    graph, machine = b.build(), ts.Machine.load("tpu-v3")
    (kernel,) = movement(graph, machine)
    for tiles in ([7, 9, 20], [4, 9, 20], [7, 5, 20], [7, 3, 20]):
        nest = {"tiles": tiles, "lane": kernel.info["lanes"][0], "depth": 2}
        taken = ts.simulate(ts.compile(graph, machine, mapping={kernel.operation: nest})).cycles
        assert abs(kernel.cost(nest)["cycles"] / taken - 1) < (0.15 if padding < 0 else 0.2), (
            nest,
            taken,
            kernel.cost(nest),
        )


def test_copies_through_one_queue_are_priced_exactly() -> None:
    """One request in flight, loads and stores on one channel: which goes first where both are ready decides each."""
    machine = ts.Machine.load("gemmini-16")
    for rows, columns in [(128, 400), (64, 100), (500, 64)]:
        b = ts.GraphBuilder("turned", dtype="i8")
        b.output(b.op("reverse", b.input("x", [rows, columns]), dims=[0]), "y")
        graph = b.build()
        (kernel,) = movement(graph, machine)
        for tile in (4, 16):
            for depth in (1, 2, 3, 4):
                nest = {"tiles": [tile, columns], "lane": kernel.info["lanes"][0], "depth": depth}
                taken = ts.simulate(ts.compile(graph, machine, mapping={kernel.operation: nest})).cycles
                assert abs(kernel.cost(nest)["cycles"] - taken) <= 0.01 * taken, (rows, columns, nest, taken)


def test_cost_finds_faster_tiles() -> None:
    """Slivers of a row that is not whole bursts cost two bursts each; tiles that keep several rows cost fewer."""
    graph = MOVED["three axes"]()
    usual, chosen = (ts.simulate(ts.compile(graph, "edge-8", mapping=how)).cycles for how in ("heuristic", "cost"))
    assert chosen < 0.7 * usual
