"""verify where functions call functions: also those that run no kernel of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts


def nested(levels: int, own: set[int]) -> ts.Graph:
    """A function that calls a function and so on; those of `own` also compute something themselves."""
    b = ts.GraphBuilder("main")
    inner: Any = b.function(f"level{levels}")
    x = inner.input("x", (8, 16), "f32")
    inner.output(inner.apply("tanh", x), "y")
    for level in range(levels - 1, 0, -1):
        outer = b.function(f"level{level}")
        x = outer.input("x", (8, 16), "f32")
        y = outer.call(inner, x, name="inner")
        outer.output(outer.apply("exp", y) if level in own else y, "y")
        inner = outer
    x = b.input("x", (8, 16), "f32")
    for number in range(2):
        x = b.call(inner, x, name=f"outer{number}")
    b.output(x, "y")
    return b.build()


@pytest.mark.parametrize("own", [set(), {1}, {2}, {1, 2}])
@pytest.mark.parametrize("levels", [2, 3, 4])
def test_chains_of_calls(levels: int, own: set[int]) -> None:
    graph = nested(levels, own)
    program = ts.compile(graph, "edge-8")
    outcome = ts.verify(program)
    assert outcome.ok, str(outcome)
    assert len(outcome.rows) > 0
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)
    wanted = x
    for _ in range(2):
        wanted = np.tanh(wanted)
        for level in range(levels - 1, 0, -1):
            wanted = np.exp(wanted) if level in own else wanted
    (y,) = ts.execute(program, [x]).values()
    np.testing.assert_allclose(y, wanted, rtol=1e-5)


@pytest.mark.parametrize("read", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16"])
def test_results_that_nobody_reads(read: tuple[int, ...], machine: str) -> None:
    """A function stores all that it gives."""
    b = ts.GraphBuilder("main")
    f = b.function("two")
    y = f.apply("exp", f.input("x", (8, 16), "f32"))
    f.output(y, "y")
    f.output(f.apply("multiply", y, y), "z")
    results = b.call(f, b.input("x", (8, 16), "f32"), name="call")
    for number in read:
        b.output(results[number], f"out{number}")
    program = ts.compile(b.build(), machine)
    assert ts.verify(program).ok
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)
    found = ts.execute(program, [x])
    for number in read:
        np.testing.assert_allclose(found[f"out{number}"], np.exp(x) ** (number + 1), rtol=1e-5)
