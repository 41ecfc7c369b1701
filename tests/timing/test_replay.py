"""Replay of steady loops: against the whole simulation, and where nobody could wait for that."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tilesim as ts
from tilesim import _core, api, replay

SHAPES: dict[str, tuple[str, Callable[[], ts.Graph]]] = {
    "one loop": ("edge-8", lambda: ts.workloads.matmul(1000, 1000, 4096)),
    "whole tiles": ("tpu-v3", lambda: ts.workloads.matmul(16384, 16384, 1024)),
    "ragged": ("edge-8", lambda: ts.workloads.matmul(300, 70000, 64)),
    "something in the last trip only": ("edge-8", lambda: ts.workloads.matmul(100, 100, 3000)),
    "convolution": ("edge-8", lambda: ts.workloads.conv2d(4, 32, 96, 96, 64, 3, padding=1)),
    "two kernels": ("edge-8", lambda: two_products()),
}


def two_products() -> ts.Graph:
    b = ts.GraphBuilder("two")
    x = b.input("x", [700, 300])
    b.output(b.linear(b.apply("relu", b.linear(x, 3000, name="up")), 200, name="down"), "y")
    return b.build()


@pytest.mark.parametrize("name", SHAPES)
def test_as_the_whole_simulation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """First, last and ragged trips are simulated as they are, so that sums of alike trips between them are exact."""
    machine, graph = SHAPES[name]
    program = ts.compile(graph(), machine)
    assert ('"if"' in program.core.to_json()) == (name == "something in the last trip only")
    whole = ts.simulate(program, replay=False)
    for module in (api, replay):
        monkeypatch.setattr(module, "LIMIT", max(2000, program.operations // 4))
    short = ts.simulate(program)
    assert any("replay" in text for text in short.approximations)
    assert not any("replay" in text for text in whole.approximations)
    assert short.cycles == pytest.approx(whole.cycles, rel=1e-4)
    for key in ("memory_read_bytes", "memory_written_bytes", "multiply_adds", "tile_operations"):
        assert short.data[key] == whole.data[key]
    for unit in short.data["units"]:
        assert sum(unit["cycles"].values()) == short.cycles
    assert sum(row["exclusive"] for row in short.data["operations"]) == short.cycles


def test_loops_that_grow_are_left_whole() -> None:
    """A causal loop: the inner one has as many trips as the outer index says. It is no steady loop."""
    leaf = {"commit": "c", "queue": "vector"}
    inner = {"for": "j", "extent": "i + 1", "do": [leaf]}
    document = {"do": [{"scope": "s", "do": [{"for": "i", "extent": 1000, "do": [inner]}]}]}
    assert replay.steady_loops(document, 10) == {}
    inner["extent"] = 3
    assert replay.steady_loops(document, 10) == {("do", 0): {("do", 0, "do", 0): 1000}}
    reads = {"load": {"tensor": "x", "at": ["read(order, i)"]}, "queue": "load0"}
    document["do"][0]["do"][0]["do"] = [reads]
    assert replay.steady_loops(document, 10) == {}


def test_shortened_keeps_the_first_and_the_last_index() -> None:
    """Index 0 and 1, then 998 and 999; names of slots and tensors are no indices."""
    body = [{"load": {"tensor": "i", "at": ["4*i"], "slot": "i"}, "queue": "load0"}, {"if": "i == 999", "then": []}]
    document = {"do": [{"for": "i", "extent": 1000, "do": body}]}
    (loop,) = replay.shortened(document, {("do", 0): (1000, 4)})["do"]
    load = loop["do"][0]["load"]
    assert (loop["extent"], load["tensor"], load["slot"]) == (4, "i", "i")
    seen = [_core.evaluate_expr(load["at"][0], {"i": i}) for i in range(4)]
    assert seen == [0, 4, 4 * 998, 4 * 999]
    assert [_core.evaluate_expr(loop["do"][1]["if"], {"i": i}) for i in range(4)] == [0, 0, 0, 1]
    assert document["do"][0]["extent"] == 1000


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
