"""Elementwise results lie where an operand lay that nothing reads again, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts

ROWS, WIDTH = 300, 257  # ragged on every machine
TENSOR = ROWS * WIDTH * 4
MACHINES = ("edge-8", "mesh-16")


def integers(graph: ts.Graph) -> dict[str, Any]:
    """Small ones: every order of a sum has the same bits."""
    random = np.random.default_rng(0)
    return {row["name"]: random.integers(-3, 4, row["shape"]).astype(np.float32) for row in graph.core.inputs}


def aliases(program: ts.Program) -> dict[str, str]:
    return {row["name"]: row["alias_of"] for row in program.tensors().rows if row["alias_of"]}


def checked(graph: ts.Graph, wanted: Callable[..., dict[str, Any]], machine: str, **options: Any) -> ts.Program:
    """Right in every order with free bytes poisoned, without races, operation by operation."""
    program = ts.compile(graph, machine, **options)
    inputs = integers(graph)
    for order in ("text", "early_loads", "random"):
        found = ts.execute(program, inputs, order=order, poison=True)
        for name, value in wanted(**inputs).items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name}, {order}")
    ts.execute(program, inputs, find_races=True)
    assert ts.verify(program).ok
    return program


def peak(program: ts.Program) -> int:
    return int(program.memory_plan().peak_bytes["memory"])


@pytest.mark.parametrize("machine", MACHINES)
def test_a_state_is_updated_where_it_lies(machine: str) -> None:
    b = ts.GraphBuilder("momentum")
    old, gradient = b.input("old", (ROWS, WIDTH)), b.input("gradient", (ROWS, WIDTH))
    b.output(old * 0.5 + gradient, "new")
    b.alias(0, 0)
    program = checked(b.build(), lambda old, gradient: {"new": old * np.float32(0.5) + gradient}, machine)
    assert aliases(program) == {"new": "old"}
    assert peak(program) < 2.1 * TENSOR
    b = ts.GraphBuilder("no state")
    old, gradient = b.input("old", (ROWS, WIDTH)), b.input("gradient", (ROWS, WIDTH))
    b.output(old * 0.5 + gradient, "new")
    program = checked(b.build(), lambda old, gradient: {"new": old * np.float32(0.5) + gradient}, machine)
    assert aliases(program) == {}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_parameter_that_earlier_kernels_read(machine: str) -> None:
    """Its update waits for a product that waits for all of those: they are complete."""
    b = ts.GraphBuilder("step")
    p, x = b.input("p", (WIDTH, WIDTH)), b.input("x", (30, WIDTH))
    y = x @ p
    b.output(p - x.transpose(1, 0) @ y, "new")
    b.alias(0, 0)
    program = checked(b.build(), lambda p, x: {"new": p - x.T @ (x @ p)}, machine, mapping="gemmini")
    assert aliases(program)["new"] == "p"


@pytest.mark.parametrize("machine", MACHINES)
def test_an_old_value_that_is_read_later_stays(machine: str) -> None:
    """By another kernel, as an output, and along other axes in the same kernel."""
    b = ts.GraphBuilder("later")
    old, x = b.input("old", (WIDTH, WIDTH)), b.input("x", (30, WIDTH))
    new = b.apply("maximum", old, old * 2)
    b.output(new, "new")
    b.alias(0, 0)
    b.output((x @ new) @ old, "y")
    program = checked(
        b.build(),
        lambda old, x: {"new": np.maximum(old, old * 2), "y": (x @ np.maximum(old, old * 2)) @ old},
        machine,
    )
    assert "new" not in aliases(program)
    b = ts.GraphBuilder("turned")
    old = b.input("old", (WIDTH, WIDTH))
    b.output(old + old.transpose(1, 0), "new")
    b.alias(0, 0)
    program = checked(b.build(), lambda old: {"new": old + old.T}, machine)
    assert aliases(program) == {}
    b = ts.GraphBuilder("rows")
    old = b.input("old", (ROWS, WIDTH))
    b.output(old - b.op("reduce", old, dims=[0], combiner="maximum", keep_dims=True), "new")
    b.alias(0, 0)
    checked(b.build(), lambda old: {"new": old - old.max(0, keepdims=True)}, machine)


@pytest.mark.parametrize("machine", MACHINES)
def test_temporaries(machine: str) -> None:
    """x @ w and relu of it take the same bytes; where both are read later, each has its own."""

    def graph(again: bool) -> ts.Graph:
        b = ts.GraphBuilder("chain")
        y = b.input("x", (ROWS, WIDTH)) @ b.input("w", (WIDTH, WIDTH))
        z = b.apply("relu", y)
        b.output(z @ b.input("v", (WIDTH, 8)), "z")
        if again:
            b.output(y @ b.input("u", (WIDTH, 8)), "y")
        return b.build()

    def wanted(x: Any, w: Any, v: Any, u: Any = None) -> dict[str, Any]:
        y = x @ w
        return {"z": np.maximum(y, 0) @ v} | ({} if u is None else {"y": y @ u})

    alone = checked(graph(False), wanted, machine, fuse="none", residency="none")
    assert len(aliases(alone)) == 1
    both = checked(graph(True), wanted, machine, fuse="none", residency="none")
    assert aliases(both) == {}
    assert peak(alone) + TENSOR <= peak(both)


def test_two_results_do_not_share_one_operand() -> None:
    b = ts.GraphBuilder("two")
    old = b.input("x", (ROWS, WIDTH)) @ b.input("w", (WIDTH, WIDTH))
    b.output(b.apply("relu", old), "p")
    b.output(old * 2, "q")
    program = checked(
        b.build(), lambda x, w: {"p": np.maximum(x @ w, 0), "q": (x @ w) * 2}, "edge-8", fuse=["siblings"],
        residency="none",
    )  # fmt: skip
    assert len(aliases(program)) <= 1
