"""Tiled programs compute what the reference kernels compute: random graphs, machines and nests; races; mutation."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import Case, choose_mapping, program_shape, random_case, random_machine
from tilesim import _core


def compiled(random: np.random.Generator, case: Case) -> ts.Program | None:
    """The case on a random machine with a random mapping; none where no tile fits."""
    machine = random_machine(random, case)
    mapping = choose_mapping(random, case)
    try:
        return ts.compile(case.graph, machine, mapping=mapping)
    except ts.UserError as error:
        if mapping != "profile" and "not legal" in str(error):
            return ts.compile(case.graph, machine)
        assert "fit" in str(error), error  # too small a scratchpad for any tile is an answer
        return None


def arrays_of(program: ts.Program, seed: int) -> dict[str, Any]:
    names = [row["name"] for row in program.graph.core.inputs]
    arrays = dict(zip(names, _core.random_inputs(program.graph.core, seed), strict=True))
    for tensor in program.core.tensors():
        if tensor["role"] == "weight":
            arrays[tensor["name"]] = program.weight(tensor["weight"])
    return arrays


def check_orders(program: ts.Program, seed: int) -> None:
    """No race, and the same bits in another legal order."""
    arrays = arrays_of(program, seed)
    wanted = _core.execute(program.core, arrays, find_races=True)
    for order in ("early_loads", "random"):
        outputs = _core.execute(program.core, arrays, order=order, seed=seed)
        for name, array in wanted.items():
            assert outputs[name].tobytes() == array.tobytes(), (order, name)


def check_random_graphs(first: int, rounds: int) -> None:
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + rounds):
        random = np.random.default_rng(seed)
        case = random_case(random)
        program = compiled(random, case)
        if program is None:
            seen["no tile fits"] += 1
            continue
        shape = program_shape(program)
        seen["compiled"] += 1
        seen[f"family {case.family}"] += 1
        seen["two or more tiles in every dimension"] += shape.tiled
        seen["ragged"] += shape.ragged
        outcome = ts.verify(program, seed=seed)
        assert outcome.ok, (seed, case.family, outcome)
        if seed % 5 == 0:
            check_orders(program, seed)
        result = ts.simulate(program)
        bound = ts.roofline(case.graph, program.machine)
        assert result.seconds >= bound.seconds, (seed, case.family, result, bound)
    for what, count in sorted(seen.items()):
        print(f"{what}: {count} ({count / rounds:.0%})")
    assert seen["no tile fits"] < rounds / 10
    assert seen["two or more tiles in every dimension"] >= seen["compiled"] / 2
    assert seen["ragged"] >= seen["compiled"] * 0.3


def test_random_graphs() -> None:
    check_random_graphs(0, 80)


@pytest.mark.slow
def test_many_random_graphs() -> None:
    check_random_graphs(0, 500)
    check_random_graphs(1000, 10_000)


CASES: dict[str, Any] = {
    "matmul": lambda: ts.workloads.matmul(40, 30, 50),
    "softmax": lambda: ts.workloads.softmax(40, 33),
    "layer_norm": lambda: ts.workloads.layer_norm(40, 33),
    "conv2d": lambda: ts.workloads.conv2d(1, 3, 9, 9, 5, 3, padding=1),
    "attention": lambda: ts.workloads.attention(1, 2, 20, 8),
}


@pytest.mark.parametrize("name", CASES)
def test_every_mutant_is_reported(name: str) -> None:
    """Deleting any wait, commit or release of a compiled program is found."""
    machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "8 KiB", "core.array.count": 2})
    graph = CASES[name]()
    program = ts.compile(graph, machine)
    names = [row["name"] for row in graph.core.inputs]
    arrays = dict(zip(names, _core.random_inputs(graph.core, 0), strict=True))
    for tensor in program.core.tensors():
        if tensor["role"] == "weight":
            arrays[tensor["name"]] = program.weight(tensor["weight"])
    _core.execute(program.core, arrays, find_races=True)
    mutants = _core.mutants(program.core)
    assert len(mutants) >= 6
    for mutant, deleted in mutants:
        with pytest.raises(ts.UserError):
            _core.execute(mutant, arrays, find_races=True)
            pytest.fail(f"not reported: {deleted}")


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_dtypes(dtype: str) -> None:
    graph = ts.workloads.matmul(33, 20, 17, dtype=dtype)
    assert ts.verify(ts.compile(graph, "tpu-v3")).ok


def test_integer_products_are_exact() -> None:
    b = ts.GraphBuilder("integers")
    x, y = b.input("x", [37, 50], "i8"), b.input("y", [50, 21], "i8")
    b.output(b.op("contract", x, y, a_contract=[1], b_contract=[0], dtype="i32"), "z")
    random = np.random.default_rng(3)
    p, q = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((37, 50), (50, 21)))
    program = ts.compile(b.build(), "gemmini-16")
    assert (ts.execute(program, [p, q])["z"] == p.astype(np.int32) @ q.astype(np.int32)).all()


def test_one_hot_operand_copies_exactly() -> None:
    """A loose bound can hide a lost tile; a permutation matrix cannot."""
    random = np.random.default_rng(4)
    order = random.permutation(300)
    one_hot = np.eye(300, dtype=np.float32)[order]
    values = random.integers(-64, 64, (300, 170)).astype(np.float32)
    graph = ts.workloads.matmul(300, 170, 300)
    for machine in ("tpu-v3", "edge-8"):
        outputs = ts.execute(ts.compile(graph, machine), [one_hot, values])
        assert (next(iter(outputs.values())) == values[order]).all()


@pytest.mark.parametrize("name", ["resnet18", "mlp"])
def test_networks(name: str) -> None:
    assert ts.verify(ts.compile(ts.models.build(name), "tpu-v3")).ok


def test_outputs_come_in_the_order_of_the_graph() -> None:
    b = ts.GraphBuilder("order")
    x = b.input("x", (4, 4))
    for name in ("z", "a", "m"):
        b.output(x + len(name), name)
    graph = b.build()
    assert list(ts.execute(ts.compile(graph, "edge-8"))) == list(ts.reference(graph)) == ["z", "a", "m"]
