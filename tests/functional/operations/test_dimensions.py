"""Shapes from 1 to 2^20: every kind compiles and simulates on every preset, and executes where it is small."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import tilesim as ts
from support.dimension_cases import DIMENSIONS, LARGEST, dimension_cases, elements

PRESETS = ("tpu-v2", "tpu-v3", "tpu-v4", "gemmini-16", "edge-8")
SMALL = 1 << 16  # elements that execution and the reference handle within milliseconds


def check_dimensions(sample: int | None, most: float) -> None:
    """`sample`: cases per preset, none: all; `most`: operations beyond which only compiling is checked."""
    cases = list(dimension_cases())
    seen: collections.Counter[str] = collections.Counter()
    for index, preset in enumerate(PRESETS):
        machine = ts.Machine.load(preset)
        order = np.random.default_rng(index).permutation(len(cases))
        for i in order[:sample]:
            name, dims, build = cases[int(i)]
            try:
                graph = build()
            except ts.UserError:
                seen["no such operation"] += 1  # a window beyond its axis
                continue
            if elements(graph) > LARGEST:
                seen["larger than memory"] += 1
                continue
            try:
                program = ts.compile(graph, machine)
            except ts.Unsupported as error:
                assert "multiply" in str(error), (name, dims, preset, error)
                seen["not this type"] += 1
                continue
            seen["compiled"] += 1
            if work(graph) > most:
                continue
            result = ts.simulate(program)
            assert result.seconds >= ts.roofline(graph, machine).seconds, (name, dims, preset)
            seen["simulated"] += 1
            if work(graph) <= SMALL * 64:
                assert ts.verify(program).ok, (name, dims, preset)
                seen["executed"] += 1
    print(dict(seen))
    assert seen["simulated"] > 0.5 * seen["compiled"]
    assert seen["executed"] > 0.1 * seen["compiled"]


def work(graph: ts.Graph) -> float:
    """Operations of all units, and elements."""
    return sum(graph.flops().values()) + elements(graph)


def test_sampled_shapes() -> None:
    check_dimensions(16, 2.0**34)


@pytest.mark.slow
def test_all_shapes() -> None:
    assert DIMENSIONS[-1] == 1 << 20
    check_dimensions(None, 2.0**38)
