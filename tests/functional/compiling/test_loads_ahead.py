"""First tiles of a weight are loaded before what waits for the kernel before."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tilesim as ts


def scopes(program: ts.Program) -> Iterator[dict[str, Any]]:
    text = json.loads(program.core.to_json())
    for block in [text["do"], *(function["do"] for function in text["functions"])]:
        yield from (statement for statement in block if "scope" in statement)


def has_ahead(program: ts.Program) -> bool:
    return any(slot["name"] == "ahead" for scope in scopes(program) for slot in scope["slots"])


def chain(sizes: list[int], rows: int, functions: list[str]) -> ts.Graph:
    """Products one behind the other."""
    b = ts.GraphBuilder("chain")
    value = b.input("x", [rows, sizes[0]])
    for i, (inner, outer) in enumerate(pairwise(sizes)):
        value = b.matmul(value, b.input(f"w{i}", [inner, outer]), name=f"product{i}")
        if functions[i]:
            value = b.apply(functions[i], value)
    b.output(value, "y")
    return b.build()


def integers(graph: ts.Graph, sizes: list[int], rows: int, seed: int) -> dict[str, np.ndarray]:
    """Sums of few of them are exact in every order, in bf16 too."""
    draw = np.random.default_rng(seed)
    inputs = {"x": draw.integers(-1, 2, (rows, sizes[0])).astype(np.float32)}
    for i, (inner, outer) in enumerate(pairwise(sizes)):
        weight = np.zeros((inner, outer), np.float32)  # one entry per column: values stay small
        weight[draw.integers(0, inner, outer), np.arange(outer)] = draw.choice([-1.0, 1.0], outer)
        inputs[f"w{i}"] = weight
    return inputs


def reference(inputs: dict[str, np.ndarray], functions: list[str]) -> np.ndarray:
    value = inputs["x"]
    for i, function in enumerate(functions):
        value = value @ inputs[f"w{i}"]
        value = {"": value, "relu": np.maximum(value, 0), "negate": -value, "abs": np.abs(value)}[function]
    return value


def check(seed: int) -> bool:
    rng = random.Random(seed)
    deep = rng.randint(2, 4)
    sizes = [rng.choice([1, 3, 40, 128, 200, 256, 384, 515]) for _ in range(deep + 1)]
    rows = rng.choice([1, 7, 64, 197, 300])
    functions = [rng.choice(["", "relu", "negate", "abs"]) for _ in range(deep)]
    name = ["tpu-v3", "tpu-v3", "edge-8", "mesh-16"][seed % 4]
    machine = ts.Machine.load(name)
    if rng.random() < 0.5:
        machine = machine.replace({"core.scratchpad.bytes": rng.choice(["512 KiB", "1 MiB", "3 MiB"])})
    graph = chain(sizes, rows, functions)
    program = ts.compile(graph, machine, lowering="best")
    inputs = integers(graph, sizes, rows, seed)
    wanted = reference(inputs, functions)
    for options in ({"find_races": True}, {"order": "early_loads"}, {"order": "random", "seed": seed}):
        np.testing.assert_array_equal(ts.execute(program, inputs, **options)["y"], wanted)
    return has_ahead(program)


@pytest.mark.parametrize(
    ("seeds", "least"), [(range(8), 1), pytest.param([*range(8, 16), *range(24, 400)], 100, marks=pytest.mark.slow)]
)
def test_chains_compute_the_same(seeds: list[int] | range, least: int) -> None:
    assert sum(check(seed) for seed in seeds) >= least


def intervals(result: ts.Result, unit: str, operation: str) -> list[tuple[float, float]]:
    data = result.data
    return [
        (start, finish)
        for u, label, start, finish in data["intervals"]
        if unit in data["units"][u]["unit"] and data["labels"][label].endswith(operation)
    ]


@pytest.mark.parametrize("columns", [512, 1024, 2048])
def test_the_array_waits_for_the_value_alone(columns: int) -> None:
    """Between the last result of one product and the first tile of the next, only that value is loaded, on the chip."""
    rows, inner = 512, 512
    graph = chain([inner, inner, columns], rows, ["relu", ""])
    machine = ts.Machine.load("tpu-v3").replace({"core.dma.bytes_per_cycle": 1024})
    program = ts.compile(graph, machine, lowering="best", fuse="all")
    result = ts.simulate(program, timeline=True)
    assert has_ahead(program)
    made = max(finish for _, finish in intervals(result, "store", "product0"))
    begun = min(start for start, _ in intervals(result, "array", "product1"))
    loads = intervals(result, "load", "product1")
    assert min(start for start, _ in loads) < made  # the weight
    assert begun - made <= rows * inner * 4 / 1024 + 64


def test_values_of_calls_that_follow_each_other_share_bytes() -> None:
    """Of layers that are one function, the value between them takes the bytes of the one before the last."""
    b = ts.GraphBuilder("layers")
    layer = b.function("layer")
    x, w = layer.input("x", [197, 256]), layer.input("w", [256, 256])
    layer.output(layer.apply("relu", layer.matmul(x, w, name="product")), "y")
    value = b.input("x", [197, 256])
    for i in range(6):
        value = b.call(layer, value, b.input(f"w{i}", [256, 256]))
    b.output(value, "y")
    program = ts.compile(b.build(), "tpu-v3", lowering="best")
    tensors = json.loads(program.core.to_json())["tensors"]
    kept = [tensor["address"] for tensor in tensors if tensor.get("level") == "scratchpad"]
    assert len(kept) >= 4 and len(set(kept)) <= 3
