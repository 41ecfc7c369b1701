"""The roofline is a bound: no run of the engine is shorter, whatever the graph and the machine."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import choose_mapping, random_case, random_machine


def check(seeds: Sequence[int]) -> None:
    seen: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        random = np.random.default_rng(seed)
        case = random_case(random)
        machine, mapping = random_machine(random, case), choose_mapping(random, case)
        try:
            program = ts.compile(case.graph, machine, mapping=mapping)
        except ts.UserError:  # no tile fits, or the mapping is not legal there
            continue
        seen[case.family] += 1
        least = ts.roofline(case.graph, machine).seconds
        result = ts.simulate(program)
        assert result.seconds >= least * (1 - 1e-9), (seed, case.family)
        bound = result.bounds
        assert bound is None or result.seconds >= bound.seconds * (1 - 1e-9), (seed, case.family, bound)
        assert bound is None or result.memory_bytes >= bound.bytes * (1 - 1e-9), (seed, case.family, bound)
    assert len(seen) >= 12 and sum(seen.values()) > len(seeds) / 2, seen


@pytest.mark.parametrize(
    "seeds", [range(5000, 5080), pytest.param([*range(5080, 5400), *range(6000, 12000)], marks=pytest.mark.slow)]
)
def test_random_graphs_on_random_machines(seeds: list[int] | range) -> None:
    check(seeds)


@pytest.mark.parametrize("machine", ["tpu-v2", "tpu-v3", "gemmini-16", "edge-8", "chiplet-2"])
def test_operations_on_presets(machine: str) -> None:
    dtype = "i8" if machine == "gemmini-16" else "bf16"
    graphs = {
        "matmul": ts.workloads.matmul(300, 500, 200, dtype=dtype),
        "row": ts.workloads.matmul(1, 512, 2048, dtype=dtype),
        "conv2d": ts.workloads.conv2d(1, 16, 20, 20, 24, 3, padding=1, dtype=dtype),
        "add": ts.workloads.elementwise("add", 200, 333, dtype=dtype),
        "embedding": ts.workloads.embedding(16, 4096, 256, dtype=dtype),
    }
    if machine != "gemmini-16":
        graphs["attention"] = ts.workloads.attention(1, 4, 96, 32, causal=True, dtype=dtype)
        graphs["experts"] = ts.workloads.experts(24, 32, 64, 4, 2, dtype=dtype)
    checked = 0
    for name, graph in graphs.items():
        try:
            program = ts.compile(graph, machine)
        except ts.Error:  # a machine may lack an operation, and says so
            continue
        checked += 1
        assert ts.simulate(program).seconds >= ts.roofline(graph, machine).seconds, name
    assert checked >= 3
