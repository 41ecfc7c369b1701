"""Padding with holes: tiles are chosen for the elements, which lie in two tensors, not for the value around them."""

from __future__ import annotations

import random

import pytest

import tilesim as ts


def padding(shape: list[int], low: list[int], interior: list[int], dtype: str) -> ts.Graph:
    b = ts.GraphBuilder("pad", dtype=dtype)
    x = b.input("x", shape, dtype)
    b.output(b.op("pad", x, low=low, high=[0] * len(shape), interior=interior, mode="constant"), "y")
    return b.build()


@pytest.mark.parametrize("machine", ["chiplet-2", "mesh-16", "edge-8"])
def test_cost_is_no_slower_than_the_usual_tiles(machine: str) -> None:
    """Of orders of bytes that differ between operand and result, strides and offsets drawn at random. Two regions whose
    cores take uneven parts of few tiles are priced less exactly."""
    worst = 1.25 if machine == "chiplet-2" else 1.05
    rng = random.Random(2)
    cases = [([128, 128, 3, 32], [0, 1, 0, 1], [1, 0, 0, 0])]
    for _ in range(5):
        shape = [rng.choice([2, 3, 16, 30]) for _ in range(rng.choice([3, 4]))]
        cases.append((shape, [rng.randint(0, 1) for _ in shape], [rng.randint(0, 1) for _ in shape]))
    for shape, low, interior in cases:
        graph = padding(shape, low, interior, "i8" if machine == "edge-8" else "bf16")
        cost, usual = (
            ts.simulate(ts.compile(graph, machine, mapping=mapping)).cycles for mapping in ("cost", "heuristic")
        )
        assert cost <= worst * usual, (shape, low, interior)
        if shape != cases[0][0]:
            assert ts.verify(ts.compile(graph, machine, mapping="cost")).ok
