"""Each rule alone and all together, on random graphs and machines: numpy's values, the same bits, bounds hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import random_case, random_machine
from support.random_groups import random_groups, small_integers

FUNCTIONS = {"relu": lambda x: np.maximum(x, 0), "abs": np.abs, "negate": np.negative}
COMBINERS = {"add": np.add, "subtract": np.subtract, "maximum": np.maximum, "minimum": np.minimum}


def by_numpy(graph: ts.Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What `random_groups` builds of, operation by operation."""
    values = dict(inputs)
    for op in graph.operations():
        given = [values[operand["name"]] for operand in op["operands"]]
        attributes, (result,) = op["attributes"], op["results"]
        if op["kind"] == "elementwise":
            name = attributes["function"]
            found = FUNCTIONS[name](*given) if name in FUNCTIONS else COMBINERS[name](*given)
        elif op["kind"] == "reduce":
            axes = tuple(attributes["dims"])
            found = COMBINERS[attributes["combiner"]].reduce(given[0], axis=axes, keepdims=True)
        elif op["kind"] == "contract":
            found = given[0] @ given[1]
        elif op["kind"] == "reshape":
            found = given[0].reshape(result["shape"])
        else:
            assert op["kind"] == "convert"
            found = given[0].astype(np.float32)
        values[result["name"]] = found
    return {row["name"]: values[row["name"]] for row in graph.core.outputs}


def machine_of(random: Any) -> ts.Machine:
    """A preset, or a small one of one to four cores whose scratchpad is short."""
    name = str(random.choice(["edge-8", "mesh-16", "tpu-v3", "small", "small"]))
    if name != "small":
        return ts.Machine.load(name)
    size = f"{int(random.choice([4, 8, 32, 128]))} KiB"
    return ts.Machine.load("edge-8").replace(
        {"core.scratchpad.bytes": size, "core.count": int(random.integers(1, 5)), "core.dma.load_queues": 2}
    )


def choices(random: Any, all_alone: bool) -> list[Any]:
    rules = list(ts.mapping.fusion_rules())
    alone = rules if all_alone else [str(random.choice(rules))]
    return ["none", "all", *([rule] for rule in alone), [rule for rule in rules if random.integers(2)]]


def check_bounds(program: ts.Program, note: str) -> None:
    result = ts.simulate(program)
    if result.bounds is not None:
        assert result.bounds.bytes <= result.memory_bytes, note
        assert result.bounds.seconds <= result.seconds * (1 + 1e-9), note


def check_groups(seed: int, all_alone: bool = False) -> None:
    """Exact values: on small integers every order of a sum has the same bits."""
    random = np.random.default_rng(seed)
    graph = random_groups(seed, int(random.integers(3, 12)))
    inputs = small_integers(graph, seed)
    wanted = by_numpy(graph, inputs)
    machine = machine_of(random)
    native = machine.name == "tpu-v3" and random.integers(3) == 0
    own = {"cores": machine.get("core.count")}
    for fuse in choices(random, all_alone):
        note = f"{seed}, {machine.name}, {fuse}"
        try:
            program = ts.compile(graph, machine, fuse=fuse, lowering="native" if native else None, **own)
        except ts.UserError as error:
            assert "fit" in str(error), note
            continue
        order = str(random.choice(["text", "early_loads", "random"]))
        found = ts.execute(program, inputs, poison=True, order=order, seed=seed)
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value.astype(np.float32), err_msg=f"{name}, {note}")
        check_bounds(program, note)


def check_case(seed: int) -> None:
    """All families of operations, within the bounds of `verify`."""
    random = np.random.default_rng(seed)
    case = random_case(random)
    machine = random_machine(random, case)
    for fuse in choices(random, False):
        note = f"{seed}, {case.family}, {fuse}"
        try:
            program = ts.compile(case.graph, machine, fuse=fuse)
        except ts.UserError as error:
            assert "fit" in str(error), note
            continue
        assert ts.verify(program, seed=seed).ok, note
        check_bounds(program, note)


def test_cores_without_a_part_run_ahead() -> None:
    """Kernels that a core has no part in keep it from nothing: what they wait for may still be read elsewhere."""
    random = np.random.default_rng(10199)
    graph = random_groups(10199, int(random.integers(3, 12)))
    inputs = small_integers(graph, 10199)
    machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "8 KiB", "core.count": 4})
    program = ts.compile(graph, machine, fuse=["epilogue", "branches", "rows"], residency="none", cores=4)
    for order in ("text", "early_loads", "random"):
        found = ts.execute(program, inputs, poison=True, order=order, seed=10199)
        for name, value in by_numpy(graph, inputs).items():
            np.testing.assert_array_equal(found[name], value, err_msg=order)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [10157, 10318, 10394, 10605, 10774, 12448, *range(10)])
def test_rules_alone_and_together(seed: int) -> None:
    check_groups(seed, all_alone=seed == 0)


@pytest.mark.parametrize("seed", [20374, *range(500, 508)])
def test_families_of_operations(seed: int) -> None:
    check_case(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 11_500, 50))
def test_rules_at_length(first: int) -> None:
    for seed in range(first, first + 50):
        check_groups(seed, all_alone=seed % 5 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20_000, 20_500, 50))
def test_families_at_length(first: int) -> None:
    for seed in range(first, first + 50):
        check_case(seed)
