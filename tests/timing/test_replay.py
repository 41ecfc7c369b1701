"""Replay of steady loops: against the whole simulation, and where nobody could wait for that."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tilesim as ts
from tilesim import api, replay

SHAPES = {
    "one loop": ("edge-8", lambda: ts.workloads.matmul(1000, 1000, 4096), True),
    "whole tiles": ("tpu-v3", lambda: ts.workloads.matmul(8192, 8192, 8192), True),
    "ragged": ("edge-8", lambda: ts.workloads.matmul(300, 70000, 64), False),
    "convolution": ("edge-8", lambda: ts.workloads.conv2d(4, 32, 96, 96, 64, 3, padding=1), False),
    "two kernels": ("edge-8", lambda: two_products(), False),
}


def two_products() -> ts.Graph:
    b = ts.GraphBuilder("two")
    x = b.input("x", [700, 300])
    b.output(b.linear(b.apply("relu", b.linear(x, 3000, name="up")), 200, name="down"), "y")
    return b.build()


@pytest.mark.parametrize("name", SHAPES)
def test_as_the_whole_simulation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact where every trip is alike; a ragged last trip counts as a whole one."""
    machine, graph, alike = SHAPES[name]
    program = ts.compile(graph(), machine)
    whole = ts.simulate(program, replay=False)
    for module in (api, replay):
        monkeypatch.setattr(module, "LIMIT", max(2000, program.operations // 4))
    short = ts.simulate(program)
    assert any("replay" in text for text in short.approximations)
    assert not any("replay" in text for text in whole.approximations)
    tolerance = 0 if alike else 0.03
    assert short.cycles == pytest.approx(whole.cycles, rel=tolerance)
    assert short.memory_bytes == pytest.approx(whole.memory_bytes, rel=tolerance)
    for unit in short.data["units"]:
        assert sum(unit["cycles"].values()) == short.cycles
    assert sum(row["exclusive"] for row in short.data["operations"]) == short.cycles


HUGE: dict[str, Callable[[], ts.Graph]] = {
    "product": lambda: ts.workloads.matmul(1 << 20, 1 << 20, 1 << 20),
    "long contraction": lambda: ts.workloads.matmul(1000, 1000, 1 << 20),
    "softmax": lambda: ts.workloads.softmax(1 << 20, 1 << 20),
}


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
@pytest.mark.parametrize("name", HUGE)
def test_no_less_than_the_roofline(name: str, machine: str) -> None:
    """Programs that could not be simulated operation by operation end, within their bound."""
    graph = HUGE[name]()
    result = ts.simulate(ts.compile(graph, machine))
    assert result.seconds >= ts.roofline(graph, machine).seconds
    assert result.cycles < 2**63


def test_short_programs_are_simulated_whole() -> None:
    program = ts.compile(ts.models.resnet18(), "tpu-v3")
    assert program.operations < replay.LIMIT
    assert not any("replay" in text for text in ts.simulate(program).approximations)


def test_operations_counts_loops_branches_and_calls() -> None:
    leaf = {"commit": "c", "queue": "vector"}
    document = {
        "functions": [{"name": "f", "do": [{"for": "i", "extent": 5, "do": [leaf, leaf]}]}],
        "do": [{"for": "k", "extent": 7, "do": [{"call": "f"}, leaf]}, {"scope": "s", "do": [leaf]}],
    }
    assert replay.operations(json.loads(json.dumps(document))) == 7 * (10 + 1) + 1
