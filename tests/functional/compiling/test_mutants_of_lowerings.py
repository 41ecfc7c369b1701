"""Nothing can be left out of what lowerings of groups, recurrences and values that stay wait for, commit or release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import unnoticed_mutants
from tilesim import _core

SMALL = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "8 KiB"})
Build = Callable[[ts.GraphBuilder, Any], Any]


def prologue(b: ts.GraphBuilder, x: Any) -> Any:
    w = b.input("w", (40, 24), "i8").convert("f32") * b.input("scale", (40, 1))
    return b.matmul(b.apply("relu", x), w)


def both_sides(b: ts.GraphBuilder, x: Any) -> Any:
    y = b.matmul(b.apply("tanh", x), b.input("w", (40, 40)))
    return b.apply("relu", y + x) * b.apply("sigmoid", y)


def branches(b: ts.GraphBuilder, x: Any) -> Any:
    left = b.apply("abs", b.apply("negate", x))
    return b.apply("maximum", left, b.apply("exp", b.input("z", (48, 40))))


def rows(b: ts.GraphBuilder, x: Any) -> Any:
    return (b.layer_norm(x) + x).softmax(-1)


def norm_in_front(b: ts.GraphBuilder, x: Any) -> Any:
    return b.linear(b.layer_norm(x), 24, name="down")


CASES: dict[str, Build] = {f.__name__: f for f in (prologue, both_sides, branches, rows, norm_in_front)}


def graph_of(name: str) -> ts.Graph:
    b = ts.GraphBuilder(name)
    b.output(CASES[name](b, b.input("x", (48, 40))), "y")
    return b.build()


def arrays_of(program: ts.Program) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    found = {}
    for row in program.graph.core.inputs:
        values = random.standard_normal(tuple(row["shape"]))
        found[row["name"]] = (3 * values).astype(np.int8) if row["dtype"] == "i8" else values.astype(np.float32)
    return found | program.weights()


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_groups(name: str, cores: int) -> None:
    program = ts.compile(graph_of(name), SMALL.replace({"core.count": cores}), residency="none", cores=cores)
    assert unnoticed_mutants(program, arrays_of(program)) == []


@pytest.mark.parametrize("cores", [1, 2])
def test_a_recurrence(cores: int) -> None:
    b = ts.GraphBuilder("decay")
    more, step = b.function("more"), b.function("step")
    state = {"i": ((), "i32"), "x": ((9, 40), "f32"), "s": ((9, 40), "f32")}
    given = {key: more.input(key, shape, dtype) for key, (shape, dtype) in state.items()}
    more.output(more.apply("less", given["i"], more.scalar(5, "i32")), "on")
    given = {key: step.input(key, shape, dtype) for key, (shape, dtype) in state.items()}
    step.output(given["i"] + 1, "i.next")
    step.output(given["x"], "x.next")
    step.output(step.apply("tanh", given["s"] + given["x"]), "s.next")
    x, s = b.input("x", (9, 40)), b.input("s", (9, 40))
    found = b.core.op("while", [b.scalar(0, "i32").value, x.value, s.value], {}, "loop", 3, ["more", "step"])
    b.output(ts.graph.Tensor(b, found[2]), "y")
    program = ts.compile(b.build(), SMALL.replace({"core.count": cores}), cores=cores)
    assert any(row["rule"] == "recurrence" and row["decision"] == "taken" for row in program.fusion.table().rows)
    assert unnoticed_mutants(program) == []


@pytest.mark.parametrize("cores", [1, 2])
def test_values_that_stay(cores: int) -> None:
    """Waits between tiles and values of the same bytes may be implied by others; all else is needed."""
    b = ts.GraphBuilder("stays")
    x = b.input("x", (24, 32))
    for i in range(3):
        x = b.linear(x, 32, name=f"product{i}").softmax(-1)
    b.output(x, "y")
    program = ts.compile(b.build(), ts.Machine.load("edge-8").replace({"core.count": cores}), fuse="none", cores=cores)
    assert any(row["level"] == "scratchpad" for row in program.memory_plan().table().rows)
    unnoticed = unnoticed_mutants(program)
    assert len(unnoticed) < 0.15 * len(_core.mutants(program.core))
    assert all(" for kernels." in deleted for deleted in unnoticed)
