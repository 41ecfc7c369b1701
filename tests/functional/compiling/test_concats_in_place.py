"""Parts of a concat that their makers store in its result: values, what is copied all the same, and verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts

MACHINES = ("tpu-v3", "mesh-16", "edge-8", "chiplet-2")
Build = Callable[[ts.GraphBuilder, Any, Any], Any]
CASES: dict[str, tuple[Build, Callable[[Any, Any], Any]]] = {
    "a slice of a part": (
        lambda b, e, r: b.op("concat", e, e[:, 1:2], dim=1),
        lambda e, r: np.concatenate([e, e[:, 1:2]], 1),
    ),
    "slices on both sides": (
        lambda b, e, r: b.op("concat", e[4:], r, e, e[:4], dim=0),
        lambda e, r: np.concatenate([e[4:], r, e, e[:4]], 0),
    ),
    "one part twice": (
        lambda b, e, r: b.op("concat", e, r, e, dim=0),
        lambda e, r: np.concatenate([e, r, e], 0),
    ),
    "in another one": (
        lambda b, e, r: b.op("concat", b.op("concat", e, r, dim=1), b.op("concat", r, e, dim=1), dim=0),
        lambda e, r: np.concatenate([np.concatenate([e, r], 1), np.concatenate([r, e], 1)], 0),
    ),
    "a reshaped result": (
        lambda b, e, r: b.op("concat", e, r, dim=0).reshape(-1),
        lambda e, r: np.concatenate([e, r], 0).reshape(-1),
    ),
}


def graph_of(build: Build, columns: int) -> ts.Graph:
    b = ts.GraphBuilder("concat")
    e, r = b.apply("exp", b.input("x", (8, columns))), b.apply("relu", b.input("z", (8, columns)))
    b.output(build(b, e, r), "y")
    return b.build()


@pytest.mark.singly
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_values(case: str, machine: str) -> None:
    """Columns that fill no burst, some, and whole layout tiles."""
    build, by_hand = CASES[case]
    for columns in (3, 64, 128):
        program = ts.compile(graph_of(build, columns), machine, lowering="best")
        random = np.random.default_rng(columns)
        x, z = (random.standard_normal((8, columns)).astype(np.float32) for _ in range(2))
        wanted = by_hand(np.exp(x), np.maximum(z, 0))
        for order in ("text", "random"):
            found = ts.execute(program, [x, z], order=order, poison=True, find_races=True)["y"]
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
        verified = ts.verify(program)
        assert verified.ok, verified


def test_bytes_by_hand() -> None:
    """Each part is loaded and stored once, thin ones by whole bursts."""
    burst = int(ts.Machine.load("edge-8").get("memory.burst_bytes").removesuffix(" B"))
    for columns in (2, 64):
        b = ts.GraphBuilder("parts")
        parts = [b.apply("relu", b.input(name, (4096, columns))) for name in "ab"]
        b.output(b.op("concat", *parts, dim=1), "y")
        result = ts.simulate(ts.compile(b.build(), "edge-8", lowering="best", residency="none"))
        run = -(-columns * 4 // burst) * burst
        assert result.memory_bytes == 2 * 4096 * (columns * 4 + run)
