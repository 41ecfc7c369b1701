"""Every lowering: equal to the reference kernels, free of races, and no synchronization that could be left out."""

from __future__ import annotations

from typing import Any

import pytest

import tilesim as ts
from support.lowering_cases import CASES
from tilesim import _core

SMALL = {"core.scratchpad.bytes": "8 KiB"}


def machine(name: str = "edge-8") -> ts.Machine:
    return ts.Machine.load(name).replace(SMALL) if name == "edge-8" else ts.Machine.load(name)


def arrays_of(program: ts.Program) -> dict[str, Any]:
    names = [row["name"] for row in program.graph.core.inputs]
    arrays = dict(zip(names, _core.random_inputs(program.graph.core, 0), strict=True))
    for tensor in program.core.tensors():
        if tensor["role"] == "weight":
            arrays[tensor["name"]] = program.weight(tensor["weight"])
    return arrays


@pytest.mark.parametrize("case", CASES)
def test_equals_the_reference(case: str) -> None:
    """In a scratchpad of 8 KiB, where nearly everything is tiled, and on a machine with layouts and two arrays."""
    graph = CASES[case]()
    program = ts.compile(graph, machine())
    outcome = ts.verify(program)
    assert outcome.ok, outcome
    ts.execute(program, find_races=True)
    assert ts.simulate(program).seconds >= ts.roofline(graph, machine()).seconds
    try:
        other = ts.compile(graph, "tpu-v3")
    except ts.Unsupported:
        assert "integers" in case
        return
    assert ts.verify(other).ok


MUTATED = [
    "gather boxes",
    "gather rows, error",
    "embedding, padding",
    "pad, interior and negative",
    "pad edge",
    "reshape of a slice",
    "cumulative add, reverse, exclusive",
    "argmax, long row",
    "argmax of separate axes",
    "window longer than the scratchpad",
    "softmax of a long row",
    "depthwise",
    "dynamic_slice of a computed start",
]


@pytest.mark.parametrize("case", MUTATED)
def test_every_mutant_is_reported(case: str) -> None:
    program = ts.compile(CASES[case](), machine())
    arrays = arrays_of(program)
    mutants = _core.mutants(program.core)
    assert len(mutants) >= 3
    unnoticed = []
    for mutant, deleted in mutants:
        try:
            _core.execute(mutant, arrays, find_races=True)
            unnoticed.append(deleted)
        except ts.UserError:
            pass
    assert unnoticed == []
