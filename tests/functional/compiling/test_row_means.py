"""A mean that every element of its row reads is divided once per row, where its sum lies."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import tilesim as ts
from support.program_checks import unnoticed_mutants


def normalization(rows: int, columns: int) -> ts.Graph:
    b = ts.GraphBuilder("norm")
    b.output(b.layer_norm(b.input("x", [rows, columns])), "y")
    return b.build()


def divisions(program: ts.Program) -> list[Any]:
    """Extents along the rows of the computes that divide."""
    found: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            vector = value.get("vector")
            if isinstance(vector, dict) and any(node.get("function") == "divide" for node in vector["nodes"]):
                found.append(vector["extents"][-1])
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                visit(part)

    visit(json.loads(program.core.to_json()))
    return found


@pytest.mark.parametrize(("rows", "columns"), [(1, 300), (7, 129), (40, 1)])
@pytest.mark.parametrize("machine", ["gemmini-16", "mesh-16"])
def test_each_row_is_divided_once(machine: str, rows: int, columns: int) -> None:
    program = ts.compile(normalization(rows, columns), machine)
    assert divisions(program) == [1, 1]  # of mean and variance
    assert ts.verify(program).ok


@pytest.mark.parametrize("capacity", ["64 KiB", "2 KiB"])
def test_whole_rows_and_rows_that_stream(capacity: str) -> None:
    machine = ts.Machine.load("gemmini-16").replace({"core.scratchpad.bytes": capacity})
    program = ts.compile(normalization(3, 700), machine, mapping="heuristic")
    assert set(divisions(program)) == {1} and ts.verify(program).ok
    assert unnoticed_mutants(program) == []


def test_longer_rows_take_longer() -> None:
    """Rows that just fit as a whole are no slower than somewhat longer ones, which stream through memory."""
    programs = [ts.compile(normalization(1, n), "gemmini-16", residency="none") for n in (8192, 13824, 16384, 20000)]
    cycles = [ts.simulate(program).cycles for program in programs]
    assert all(shorter <= 1.05 * longer for shorter, longer in itertools.pairwise(cycles))
