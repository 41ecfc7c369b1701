"""Where the vector unit computes an operand and finishes sums, it does the next tile's operand first."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import tilesim as ts


def graph(rows: int, inner: int, columns: int, batch: int = 1) -> ts.Graph:
    b = ts.GraphBuilder("late")
    x, w = b.input("x", [batch, rows, inner]), b.input("w", [inner, columns])
    q = b.input("q", [batch, rows, columns])
    b.output(b.matmul(b.apply("relu", x), w, name="product") + q, "y")
    return b.build()


def kernel(program: ts.Program) -> dict[str, Any]:
    (scope,) = (s for s in json.loads(program.core.to_json())["do"] if "scope" in s)
    return scope


def is_late(program: ts.Program) -> bool:
    """The sums of the tile before are read."""
    scopes = [s for s in json.loads(program.core.to_json())["do"] if "scope" in s]
    return any('"slot": "c", "back": 1' in json.dumps(scope) for scope in scopes)


def check(seed: int) -> bool:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    rows, batch = rng.choice([1, 100, 300, 700, 1500]), rng.choice([1, 1, 3])
    inner, columns = (rng.choice([1, 5, 32, 100, 129]) for _ in range(2))
    machine = ts.Machine.load(rng.choice(["tpu-v3", "edge-8", "mesh-16"]))
    if rng.random() < 0.6:
        machine = machine.replace({"core.scratchpad.bytes": rng.choice(["64 KiB", "256 KiB", "512 KiB"])})
    program = ts.compile(graph(rows, inner, columns, batch), machine, lowering="best")
    inputs = {
        "x": draw.integers(-2, 3, (batch, rows, inner)).astype(np.float32),
        "w": draw.integers(-1, 2, (inner, columns)).astype(np.float32),
        "q": draw.integers(-9, 9, (batch, rows, columns)).astype(np.float32),
    }
    wanted = np.maximum(inputs["x"], 0) @ inputs["w"] + inputs["q"]
    for options in ({"find_races": True}, {"order": "early_loads"}, {"order": "random", "seed": seed}):
        np.testing.assert_array_equal(ts.execute(program, inputs, **options)["y"], wanted)
    return is_late(program)


@pytest.mark.parametrize(("seeds", "least"), [(range(16), 1), pytest.param(range(16, 400), 30, marks=pytest.mark.slow)])
def test_late_epilogues_compute_the_same(seeds: list[int] | range, least: int) -> None:
    assert sum(check(seed) for seed in seeds) >= least


@pytest.mark.parametrize("rows", [4096, 16384])
def test_arrays_work_while_sums_are_finished(rows: int) -> None:
    """Without memory in the way, well below one tile's chain per tile: operand, pass, way through the array, finish."""
    inner, columns = 128, 32
    machine = ts.Machine.load("tpu-v3").replace(
        {"memory.bandwidth": "9000 GB/s", "core.dma.bytes_per_cycle": 8192, "core.scratchpad.bytes": "1 MiB"}
    )
    program = ts.compile(graph(rows, inner, columns), machine, lowering="best", residency="none")
    assert is_late(program)
    tile = min(extent for extent in _trips(kernel(program)["do"]) if extent > 1)
    held = -(-rows // tile)
    chain = held + 2 * 128  # the pass, rows and columns of the array
    assert ts.simulate(program).cycles <= 0.85 * tile * chain + 4096


def _trips(block: list[Any]) -> list[int]:
    return [s["extent"] for s in block if "for" in s] + [
        trips for s in block if "for" in s for trips in _trips(s["do"])
    ]
