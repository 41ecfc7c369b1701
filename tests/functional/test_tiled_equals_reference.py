"""Tiled programs compute what the reference kernels compute: random graphs, machines and nests; races; mutation."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core

ROUNDS = 500
SMALL = [("edge-8", size, arrays) for size in ("6 KiB", "16 KiB", "64 KiB") for arrays in (1, 2)]


def random_graph(random: np.random.Generator) -> tuple[str, ts.Graph]:
    """One of several families with small random shapes."""

    def size(low: int = 1, high: int = 40) -> int:
        return int(random.integers(low, high + 1))

    family = str(random.choice(["matmul", "batched", "conv", "softmax", "layer_norm", "attention", "epilogue", "pool"]))
    if family == "matmul":
        return family, ts.workloads.matmul(size(), size(), size())
    if family == "batched":
        return family, ts.workloads.matmul(size(1, 20), size(1, 20), size(1, 20), batch=size(1, 3))
    if family == "conv":
        kernel, stride, padding = size(1, 3), size(1, 2), size(0, 2)
        graph = ts.workloads.conv2d(
            size(1, 2), size(1, 6), size(4, 12), size(4, 12), size(1, 9), kernel, stride=stride, padding=padding
        )
        return family, graph
    if family == "softmax":
        return family, ts.workloads.softmax(size(), size())
    if family == "layer_norm":
        return family, ts.workloads.layer_norm(size(), size(2))
    if family == "attention":
        return family, ts.workloads.attention(1, 2, size(1, 24), size(1, 12), causal=bool(random.integers(2)))
    b = ts.GraphBuilder(family)
    if family == "epilogue":
        x, rows, columns, inner = None, size(), size(), size()
        x = b.input("x", [rows, inner])
        y = b.linear(x, columns, name="linear")
        b.output(b.apply("gelu_tanh", y) + b.input("z", [rows, columns]), "y")
    else:
        x = b.input("x", [1, size(1, 4), size(4, 14), size(4, 14)])
        b.output(b.pool2d(x, 2, stride=2), "y")
    return family, b.build()


def loops(program: ts.Program) -> int:
    """Number of loops in the program's text: a measure of how many dims are tiled."""
    return program.core.to_json().count('"for":')


def test_random_graphs() -> None:
    random = np.random.default_rng(20)
    seen: collections.Counter[str] = collections.Counter()
    for _ in range(ROUNDS):
        name, scratchpad, arrays = SMALL[int(random.integers(len(SMALL)))]
        machine = ts.Machine.load(name).replace({"core.scratchpad.bytes": scratchpad, "core.array.count": arrays})
        family, graph = random_graph(random)
        try:
            program = ts.compile(graph, machine)
        except ts.UserError as error:
            assert "fit" in str(error), error  # too small a scratchpad for any tile is an answer
            seen["no tile fits"] += 1
            continue
        seen[family] += 1
        seen["two or more loops"] += loops(program) >= 2
        outcome = ts.verify(program, seed=int(random.integers(1000)))
        assert outcome.ok, (family, scratchpad, arrays, outcome)
        result = ts.simulate(program)
        bound = ts.roofline(graph, machine).seconds
        assert result.seconds >= bound, (family, result, bound)
    print(dict(seen))
    assert seen["no tile fits"] < ROUNDS / 4
    assert seen["two or more loops"] > ROUNDS / 10


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
