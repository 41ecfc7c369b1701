"""What a kernel that moves data is planned to do is what its program does: loops, buffers, permutes and pieces.

Random movements, on machines of one core with and without layouts.

The program's side is read from its text, the plan from the mapping problem and the tiles alone."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

import tilesim as ts
from support.program_checks import statements
from tilesim.mapping import VectorKernel, kernels

KINDS = ["transpose", "slice", "reverse", "broadcast", "pad", "dynamic_slice", "reshape"]
MACHINES = ["edge-8", "gemmini-16", "tpu-v3", "tpu-v2"]


def moved(rng: random.Random, kind: str) -> ts.Graph:
    """One movement; extents of 1, odd ones, and starts that are data."""
    rank = rng.choice([2, 2, 3])
    shape = [rng.choice([1, 3, 8, 40, 100, 128, 130, 256]) for _ in range(rank)]
    b = ts.GraphBuilder(kind)
    x = b.input("x", shape, rng.choice(["f32", "bf16", "i8"]))
    if kind == "transpose":
        y = b.op(kind, x, permutation=rng.sample(range(rank), rank))
    elif kind == "slice":
        start = [rng.randrange(extent) for extent in shape]
        y = b.op(kind, x, start=start, limit=shape, stride=[rng.choice([1, 1, 2, 3]) for _ in shape])
    elif kind == "reverse":
        y = b.op(kind, x, dims=[rng.randrange(rank)])
    elif kind == "broadcast":
        axis = rng.randrange(rank)
        keep = [extent if i == axis else 1 for i, extent in enumerate(shape)]
        b = ts.GraphBuilder(kind)
        y = b.op(kind, b.input("x", keep), shape=shape, dims=list(range(rank)))
    elif kind == "pad":
        low, high = ([rng.randint(0, 9) for _ in shape] for _ in range(2))
        y = b.op(kind, x, low=low, high=high, interior=[0] * rank)
    elif kind == "dynamic_slice":
        part = [rng.randint(1, extent) for extent in shape]
        starts = [b.apply("negate", b.input(f"s{i}", [], "i32")) for i in range(rank)] if rng.random() < 0.5 else None
        starts = starts or [b.input(f"s{i}", [], "i32") for i in range(rank)]
        y = b.op(kind, x, *starts, sizes=part)
    else:
        y = b.op(kind, x, shape=[shape[-1], *shape[:-1]])
    b.output(y, "y")
    return b.build()


def drawn(rng: random.Random, kernel: VectorKernel) -> dict[str, Any]:
    sizes = kernel.info["space"]
    tiles = [rng.choice([extent, max(1, extent // 2), rng.randint(1, max(1, extent))]) for extent in sizes]
    return {**kernel.nest, "tiles": tiles, "depth": rng.randint(1, 3)}


def main_step(program: ts.Program, operation: str) -> dict[str, Any]:
    """The innermost scope of the kernel that stores its result."""
    text = json.loads(program.core.to_json())
    blocks = [text["do"]] + [function["do"] for function in text["functions"]]
    scopes = [s for block in blocks for s in statements(block) if "scope" in s and operation in s.get("operation", [])]
    return [s for s in scopes if not any("scope" in inner for inner in statements(s["do"]))][-1]


def check(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        kind, machine = rng.choice(KINDS), rng.choice(MACHINES)
        graph = moved(rng, kind)
        for kernel in kernels(graph, machine):
            if not isinstance(kernel, VectorKernel) or not kernel.info["walks"]:
                continue
            nest = drawn(rng, kernel)
            if not kernel.legal(nest)[0]:
                continue
            program = ts.compile(graph, machine, mapping={kernel.operation: nest})
            step, plan = main_step(program, kernel.operation), kernel.plan(nest)
            assert plan is not None
            inside = list(statements(step["do"]))
            if not any("store" in statement for statement in inside):
                continue
            place = (seed, machine, kind, kernel.info["space"], nest)
            assert [s["extent"] for s in inside if "for" in s] == [trips for _, trips in plan["loops"]], place
            slots = [(s["name"], s["dtype"], s["elements"], s.get("depth", 2)) for s in step["slots"]]
            assert slots == plan["buffers"], place
            commits = [s for s in inside if "commit" in s and s["commit"] == "x"]
            assert len(commits) == plan["pieces"], place
            assert any("permute" in s for s in inside) == plan["permuted"], place
            seen[kind] += 1
            seen["permuted"] += plan["permuted"]
            seen["loops"] += bool(plan["loops"])
    return seen


def test_movements_do_what_is_planned() -> None:
    seen = check(range(150))
    assert all(seen[name] > 4 for name in [*KINDS, "permuted", "loops"]), seen


@pytest.mark.slow
def test_many_movements_do_what_is_planned() -> None:
    check(range(1000, 4000))
