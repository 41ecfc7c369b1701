"""How many statements a program executes, counted by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tilesim as ts
from tilesim.program.statements import operations

LOAD: dict[str, Any] = {"load": "a"}


def loop(extent: int | str, *body: dict[str, Any]) -> dict[str, Any]:
    return {"for": "i", "extent": extent, "do": list(body)}


def branch(tensor: str, then: int, other: int = 0) -> dict[str, Any]:
    made = {"if": f"read({tensor}, i) > 0", "then": [LOAD] * then}
    return {**made, "else": [LOAD] * other} if other else made


#: what is typical of the tensors that branches read: a quarter, all and none of the elements are not zero
TENSORS = [
    {"name": "quarter", "typical": {"values": [0, 0, 7, 0, 0, -1, 0, 0]}},
    {"name": "all", "typical": {"values": [1, 2, 3]}},
    {"name": "none", "typical": {"values": [0, 0]}},
    {"name": "data"},
]


@pytest.mark.parametrize(
    ("statements", "count"),
    [
        ([], 0),
        ([LOAD, LOAD], 2),
        ([loop(5, LOAD, LOAD), LOAD], 11),
        ([loop(3, loop(4, LOAD), LOAD)], 15),
        ([loop("rows", LOAD, LOAD)], 2),
        ([{"call": "f"}, loop(4, {"call": "f"})], 5 * 7),
        ([{"call": "g"}], 2 * 7 + 1),
        ([branch("quarter", 8)], 2),
        ([branch("quarter", 5)], 2),  # 1.25 is rounded up
        ([branch("quarter", 6, 6)], 3),
        ([branch("all", 6)], 6),
        ([branch("none", 6)], 1),  # the branch itself
        ([branch("data", 6)], 6),
        ([loop(10, branch("quarter", 8))], 20),
        ([{"if": "i < 3", "then": [LOAD, LOAD]}], 2),
    ],
)
def test_by_hand(statements: list[dict[str, Any]], count: int) -> None:
    functions = [
        {"name": "f", "do": [loop(3, LOAD, LOAD), LOAD]},
        {"name": "g", "do": [{"call": "f"}, {"call": "f"}, LOAD]},
    ]
    assert operations({"do": statements, "functions": functions, "tensors": TENSORS}) == count


def test_of_a_compiled_product() -> None:
    """A kernel per tile of the result: more tiles, more statements, at least a load and a store each."""
    machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "16 KiB"})
    programs = [ts.compile(ts.workloads.matmul(m, 64, 64), machine) for m in (64, 512, 4096)]
    counts = [operations(json.loads(program.core.to_json())) for program in programs]
    assert counts[0] < counts[1] < counts[2]
    assert counts[2] - counts[1] == pytest.approx(8 * (counts[1] - counts[0]), rel=0.25)
