"""Values with a name to keep: inputs and outputs that are returned, under their own name and under others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts

X = np.arange(15, dtype=np.float32).reshape(3, 5) - 7
W = np.arange(6, dtype=np.float32)


def function(b: ts.GraphBuilder) -> Any:
    return b.input("x", X.shape)


def own_name(b: ts.GraphBuilder) -> dict[str, Any]:
    b.output(function(b))
    return {"x": X}


def another_name(b: ts.GraphBuilder) -> dict[str, Any]:
    b.output(function(b), "y")
    return {"y": X}


def no_slice(b: ts.GraphBuilder) -> dict[str, Any]:
    b.output(function(b)[:, 0:], "y")
    return {"y": X}


def two_names(b: ts.GraphBuilder) -> dict[str, Any]:
    y = b.apply("relu", function(b))
    b.output(y, "p")
    b.output(y, "q")
    return {"p": np.maximum(X, 0), "q": np.maximum(X, 0)}


def beside_a_result(b: ts.GraphBuilder) -> dict[str, Any]:
    x = function(b)
    b.output(x * 2, "twice")
    b.output(x)
    b.output(x, "again")
    return {"twice": X * 2, "x": X, "again": X}


def a_view(b: ts.GraphBuilder) -> dict[str, Any]:
    b.output(function(b).reshape(15), "y")
    return {"y": X.reshape(15)}


def a_weight(b: ts.GraphBuilder) -> dict[str, Any]:
    w = b.weight("w", W.shape, data=W)
    b.output(w, "y")
    b.output(function(b)[:, :1] + w, "sum")
    return {"y": W, "sum": X[:, :1] + W}


CASES = (own_name, another_name, no_slice, two_names, beside_a_result, a_view, a_weight)


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16"])
@pytest.mark.parametrize("case", CASES)
def test_names_and_values(case: Callable[[ts.GraphBuilder], dict[str, Any]], machine: str) -> None:
    b = ts.GraphBuilder("n")
    wanted = case(b)
    graph = b.build()
    assert [row["name"] for row in graph.core.inputs] == ["x"]
    assert [row["name"] for row in graph.core.outputs] == list(wanted)
    program = ts.compile(graph, machine)
    found = ts.execute(program, {"x": X}, poison=True)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    result = ts.simulate(program)
    assert result.bounds is not None
    assert result.bounds.bytes <= result.memory_bytes and result.bounds.seconds <= result.seconds * (1 + 1e-9)


def test_what_is_passed_through_moves_nothing() -> None:
    b = ts.GraphBuilder("n")
    own_name(b)
    program = ts.compile(b.build(), "edge-8")
    assert ts.simulate(program).memory_bytes == 0
    assert ts.lower_bound(program.graph, "edge-8").bytes == 0
    b = ts.GraphBuilder("n")
    x = function(b)
    b.output(x)
    b.output(x * 2, "y")
    assert ts.lower_bound(b.build(), "edge-8").bytes == 2 * X.nbytes  # x is read for y, and y is written
