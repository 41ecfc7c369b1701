"""Of a small program the fastest is taken: cores that have no work, and values that stay where it does not pay."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import random_case

NAMES = ("mesh-16", "chiplet-2", "edge-8", "tpu-v3", "tpu-v4")


def cycles(graph: ts.Graph, machine: ts.Machine, **options: object) -> int:
    return ts.simulate(ts.compile(graph, machine, lowering="best", **options)).cycles


def check_cores(seeds: range) -> None:
    """With twice the cores each program is at most 2 % slower; cores that are asked for are all used."""
    fewer = 0
    for seed in seeds:
        case = random_case(np.random.default_rng(seed))
        machine = ts.Machine.load(NAMES[seed % len(NAMES)])
        count = 2 * int(machine.get("core.count"))
        twice = machine.replace({"core.count": count})
        program = ts.compile(case.graph, twice, lowering="best")
        fewer += program.cores < count
        after = ts.simulate(program).cycles
        assert after <= 1.02 * cycles(case.graph, machine), (seed, machine.name, case.family)
        assert after <= cycles(case.graph, twice, cores=count)
    assert fewer > len(seeds) / 20


@pytest.mark.parametrize("seeds", [range(210, 222), pytest.param(range(0, 1500), marks=pytest.mark.slow)])
def test_twice_the_cores_are_not_slower_for_small_work(seeds: list[int] | range) -> None:
    check_cores(seeds)


def layers(rng: random.Random) -> ts.Graph:
    """Convolutions or gated layers with means, concats and residuals: values that may stay between them."""
    b = ts.GraphBuilder("layers", dtype="f32")
    size = lambda high: rng.choice([rng.randint(8, high), 8 * rng.randint(1, high // 8)])  # noqa: E731
    if rng.random() < 0.5:
        x = b.input("x", [size(300), size(260)])
        for i in range(rng.randint(1, 2)):
            inner = size(520)
            gate, up = b.linear(x, inner, name=f"gate{i}"), b.linear(x, inner, name=f"up{i}")
            x = x + b.linear(b.apply("silu", gate) * up, x.shape[1], name=f"down{i}")
        b.output(x, "y")
        return b.build()
    x = b.input("x", [1, size(32), rng.randint(6, 16), rng.randint(6, 16)])
    first, second = size(32), size(32)
    left = b.conv2d(x, b.weight("v", [first, x.shape[1], 3, 3]), padding=1, name="left")
    right = b.conv2d(b.apply("relu", left), b.weight("w", [second, first, 3, 3]), padding=1, name="right")
    both = b.op("concat", left, right, dim=1)
    b.output(b.op("reduce", both, dims=[2, 3], combiner="mean"), "y")
    return b.build()


def test_residency_is_never_slower_than_none() -> None:
    for seed in range(8, 12):
        rng = random.Random(seed)
        graph, machine = layers(rng), ts.Machine.load(rng.choice(["chiplet-2", "mesh-16", "edge-8", "tpu-v3"]))
        auto = ts.compile(graph, machine, lowering="best", residency="auto")
        if auto.operations * auto.cores < 40_000:
            assert ts.simulate(auto).cycles <= cycles(graph, machine, residency="none"), (seed, machine.name)


def test_more_bandwidth_lets_no_value_leave() -> None:
    """A value that stays while memory is slow stays where it is faster, unless the program is faster without it."""
    for seed in range(3, 5):
        rng = random.Random(100 + seed)
        graph = layers(rng)
        machine = ts.Machine.load(rng.choice(["chiplet-2", "mesh-16"]))
        number, unit = str(machine.get("memory.bandwidth")).split(" ", 1)
        before = cycles(graph, machine)
        for factor in (1.5, 2):
            more = machine.replace({"memory.bandwidth": f"{factor * float(number):.15g} {unit}"})
            assert cycles(graph, more) <= 1.02 * before, (seed, machine.name, factor)
