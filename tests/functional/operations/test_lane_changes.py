"""Where elements change lanes between memory and a tile, the cross-lane unit permutes it: the values and the time."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tilesim as ts
from support.program_checks import unnoticed_mutants


def moved(kind: str, of: list[int], dtype: str = "f32", /, **attributes: object) -> ts.Graph:
    b = ts.GraphBuilder(kind, dtype="f32")
    b.output(b.op(kind, b.input("x", of, dtype), **attributes), "y")
    return b.build()


def joined(first: int, second: int) -> ts.Graph:
    b = ts.GraphBuilder("joined", dtype="f32")
    b.output(b.concat([b.input("x", [16, first]), b.input("z", [16, second])], 1), "y")
    return b.build()


def added(transposed: bool, rows: int = 128, columns: int = 384) -> ts.Graph:
    b = ts.GraphBuilder("added", dtype="f32")
    x = b.input("x", [columns, rows] if transposed else [rows, columns])
    x = b.op("transpose", x, permutation=[1, 0]) if transposed else x
    b.output(x + b.input("z", [rows, columns]), "y")
    return b.build()


def scaled_rows() -> ts.Graph:
    b = ts.GraphBuilder("scaled", dtype="f32")
    b.output(b.input("x", [40, 300]) * b.input("scale", [40, 1]), "y")
    return b.build()


def running(dim: int, transposed: bool = False) -> ts.Graph:
    b = ts.GraphBuilder("running", dtype="f32")
    x = b.input("x", [128, 384])
    y = b.op("cumulative", x, dim=dim, combiner="add")
    b.output(b.op("transpose", y, permutation=[1, 0]) if transposed else y, "y")
    return b.build()


#: graph, and whether elements change lanes on a machine with dense memory, and on one with layout tiles
CASES: dict[str, tuple[Callable[[], ts.Graph], bool, bool]] = {
    "transpose": (lambda: moved("transpose", [128, 384], permutation=[1, 0]), True, True),
    "transpose bf16": (lambda: moved("transpose", [128, 384], "bf16", permutation=[1, 0]), True, True),
    "minor axis stays": (lambda: moved("transpose", [3, 24, 260], permutation=[1, 0, 2]), False, False),
    "minor axis goes first": (lambda: moved("transpose", [8, 128, 256], permutation=[2, 0, 1]), True, True),
    "mirrored lanes": (lambda: moved("reverse", [24, 300], dims=[1]), True, True),
    "mirrored rows": (lambda: moved("reverse", [24, 300], dims=[0]), False, False),
    "odd slice": (lambda: moved("slice", [24, 300], start=[0, 1], limit=[24, 300]), False, True),
    "slice at a row of lanes": (lambda: moved("slice", [24, 300], start=[3, 128], limit=[24, 300]), False, False),
    "odd concat": (lambda: joined(100, 50), False, True),
    "whole concat": (lambda: joined(128, 50), False, False),
    "lanes to rows": (lambda: moved("reshape", [16, 320], shape=[16, 10, 32]), False, True),
    "whole rows of lanes": (lambda: moved("reshape", [16, 512], shape=[16, 4, 128]), False, False),
    "transposed operand": (lambda: added(True), True, True),
    "plain operands": (lambda: added(False), False, False),
    "one value per row": (scaled_rows, True, True),
    "running sum": (lambda: running(1), False, False),
    "running sum, transposed": (lambda: running(0, True), True, True),
    "spread over lanes": (
        lambda: moved("broadcast", [24], shape=[24, 300], dims=[0]),
        True,
        True,
    ),
    "spread over rows": (lambda: moved("broadcast", [300], shape=[24, 300], dims=[1]), False, False),
}


@pytest.mark.parametrize("preset", ["edge-8", "tpu-v3"])
@pytest.mark.parametrize("name", CASES)
def test_permuted_where_lanes_change(name: str, preset: str) -> None:
    build, dense, tiled = CASES[name]
    program = ts.compile(build(), preset, mapping="heuristic")  # the search may find the other lane axis faster
    report = ts.verify(program)
    assert report.ok, report
    ts.execute(program, find_races=True)
    changes = tiled if preset == "tpu-v3" else dense
    assert ('"permute"' in program.core.to_json()) == changes
    assert sum("cross-lane unit" in note for note in program.notes) == changes


@pytest.mark.parametrize("name", ["transpose", "transposed operand", "one value per row", "running sum, transposed"])
def test_every_wait_is_needed(name: str) -> None:
    assert not unnoticed_mutants(ts.compile(CASES[name][0](), "edge-8"))


@pytest.mark.parametrize("preset", ["edge-8", "tpu-v3", "mesh-16", "gemmini-16"])
def test_a_transpose_passes_the_unit_once(preset: str) -> None:
    machine = ts.Machine.load(preset)
    result = ts.simulate(ts.compile(moved("transpose", [512, 1024], permutation=[1, 0]), machine))
    busy = [unit["cycles"]["busy"] for unit in result.data["units"] if unit["kind"] == "cross_lane"]
    lanes = machine.get("core.vector.lanes")
    # elements apart from each other: one for each lane and cycle; then registers of them to where the tile was
    least, back = 512 * 1024 / lanes, 512 * 1024 / lanes / machine.get("core.vector.sublanes")
    assert least <= sum(busy) <= 1.05 * (least + back) + 4096  # each tile rounds up
    assert result.cycles >= least / machine.get("core.count")


def test_the_slot_is_permuted_in_place() -> None:
    """One buffer: loaded as memory has it, permuted, stored as memory wants it."""
    document = json.loads(ts.compile(moved("transpose", [128, 384], permutation=[1, 0]), "edge-8").core.to_json())
    (slot,) = [row for row in _below(document, "elements") if row["name"] == "x"]
    (permute,) = [row["permute"] for row in _below(document, "permute")]
    assert permute["in"]["slot"] == permute["out"]["slot"] == slot["name"]


def _below(node: object, key: str) -> list[dict]:
    if isinstance(node, list):
        return [found for inner in node for found in _below(inner, key)]
    if not isinstance(node, dict):
        return []
    own = [node] if key in node else []
    return own + [found for inner in node.values() for found in _below(inner, key)]
