"""Banks and caches see temporaries where the memory plan puts them."""

from __future__ import annotations

import pytest

import tilesim as ts

SIDE = 256
TENSOR = SIDE * SIDE * 4


def chain(length: int) -> ts.Graph:
    """Steps that no kernel joins."""
    b = ts.GraphBuilder("chain")
    x = b.apply("tanh", b.input("x", (SIDE, SIDE)), name="first")
    for i in range(length):
        x = b.matmul(x, b.input(f"w{i}", (SIDE, SIDE)), name=f"step{i}")
    b.output(x, "y")
    return b.build()


def compiled(length: int, machine: ts.Machine) -> ts.Program:
    return ts.compile(chain(length), machine, fuse="none", residency="none")


@pytest.mark.parametrize("length", [2, 5, 12])
def test_a_cache_that_holds_what_lives_writes_nothing_back(length: int) -> None:
    """Operand, result and weight of two steps fit; a temporary that lies where a dead one lay is written over it in the
    cache. All that comes from the memory is what is given; at addresses of their own, old temporaries would go out."""
    sets = 2048  # of 16 lines of 64 B: 2 MiB
    changes = {"sets": sets, "ways": 16, "line": "64 B", "sector": "64 B"}
    machine = ts.Machine.load("edge-8").replace({f"memory.cache.{key}": value for key, value in changes.items()})
    program = compiled(length, machine)
    assert program.memory_plan().peak_bytes["memory"] <= (1 + length + 4) * TENSOR
    cache = ts.simulate(program).cache
    assert cache is not None
    assert (cache["fetched_bytes"], cache["returned_bytes"]) == ((1 + length) * TENSOR, 0)


def test_banks() -> None:
    """The same bytes as without banks, wherever they lie."""
    machine = ts.Machine.load("edge-8").replace({"memory.part": "LPDDR5-6400", "memory.kind": "bank"})
    program = compiled(5, machine)
    result = ts.simulate(program)
    assert result.memory_bytes == ts.simulate(program, memory="simple").memory_bytes
    assert ts.simulate(program).cycles == result.cycles
