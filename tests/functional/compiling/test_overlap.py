"""Kernels ordered by counters instead of barriers: equal in every order, free of races, never slower."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilesim as ts
from support.program_checks import fenced, unnoticed_mutants
from tilesim import _core
from tilesim.models.transformer import TextConfig, bert


def chain() -> ts.Graph:
    """Products with a normalization between: several kernels, each reading what the one before stored."""
    b = ts.GraphBuilder("chain")
    x = b.input("x", [20, 48])
    hidden = b.apply("relu", b.linear(x, 40, name="up"))
    b.output(b.linear(hidden.softmax(-1), 24, name="down") + b.linear(x, 24, name="skip"), "y")
    return b.build()


def layers() -> ts.Graph:
    """A function called three times: its temporaries are stored over in each call."""
    return bert(TextConfig("bert", 3, 96, 4, 61, 16), sequence=4)


SMALL = {"core.scratchpad.bytes": "16 KiB"}
GRAPHS: dict[str, Callable[[], ts.Graph]] = {"chain": chain, "mlp": lambda: ts.models.mlp()}


MACHINE = ts.Machine.load("edge-8").replace(SMALL)


def through_memory(graph: ts.Graph) -> ts.Program:
    """Kernels wait for what others have stored; `test_residency.py` has those that read it where it stays."""
    return ts.compile(graph, MACHINE, residency="none")


@pytest.mark.parametrize("name", GRAPHS)
def test_every_order_gives_the_same_bits(name: str) -> None:
    program = through_memory(GRAPHS[name]())
    inputs = list(_core.random_inputs(program.graph.core, 0))
    wanted = ts.execute(program, inputs, find_races=name == "chain")
    for order, seed in [("early_loads", 0), *(("random", seed) for seed in range(4))]:
        outputs = ts.execute(program, inputs, seed=seed, order=order)
        assert all(outputs[key].tobytes() == array.tobytes() for key, array in wanted.items())


def test_no_synchronization_can_be_left_out() -> None:
    program = through_memory(chain())
    assert unnoticed_mutants(program) == []


def test_functions_count_the_kernels_before_them() -> None:
    program = through_memory(layers())
    assert ts.verify(program).ok
    result = ts.simulate(program)
    assert sum(row["exclusive"] for row in result.data["operations"]) == result.cycles


@pytest.mark.parametrize("name", GRAPHS)
def test_never_slower_than_barriers(name: str) -> None:
    """Small enough kernels overlap; the bytes moved are the same."""
    machines = [fenced(MACHINE, barrier) for barrier in (False, True)]
    free, waiting = (ts.simulate(ts.compile(GRAPHS[name](), machine)) for machine in machines)
    assert free.cycles < waiting.cycles
    assert free.memory_bytes == waiting.memory_bytes
