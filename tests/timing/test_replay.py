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


def layers(count: int, shared: bool = False) -> ts.Graph:
    """Layers between an embedding-like product and a head."""
    b = ts.GraphBuilder("layers")
    f = b.function("layer")
    x, w, v = f.input("x", [64, 96]), f.input("w", [96, 200]), f.input("v", [200, 96])
    f.output(x + f.apply("relu", x @ w) @ v)
    h = b.linear(b.input("x", [64, 32]), 96, name="first")
    for i in range(count):
        j = 0 if shared else i
        h = b.call(f, h, b.weight(f"w{j}", [96, 200]), b.weight(f"v{j}", [200, 96]), name=f"layer.{i}")
    b.output(b.linear(h, 500, name="head"), "y")
    return b.build()


def test_layers_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that end before the next one starts: one layer more costs the same each time."""
    program = ts.compile(layers(9), "tpu-v3")
    whole = ts.simulate(program, replay=False)
    for module in (api, replay):
        monkeypatch.setattr(module, "LIMIT", 10)
    short = ts.simulate(program)
    assert any("replay: 9 calls of layer" in text for text in short.approximations)
    assert short.cycles == pytest.approx(whole.cycles, rel=1e-3)
    for what in ("memory_read_bytes", "memory_written_bytes", "tile_operations", "multiply_adds"):
        assert short.data[what] == whole.data[what]
    assert [row["count"] for row in short.data["operations"]] == [row["count"] for row in whole.data["operations"]]


def test_calls_that_differ_or_overlap_are_not_alike() -> None:
    document = json.loads(ts.compile(layers(9), "tpu-v3").core.to_json())
    first, last = replay._alike_calls(document) or (0, 0)
    assert last - first == 9 and all("call" in statement for statement in document["do"][first:last])
    assert replay._alike_calls(json.loads(ts.compile(layers(4), "tpu-v3").core.to_json())) is None
    different = json.loads(json.dumps(document))
    different["do"][first + 4]["tensors"].popitem()
    assert replay._alike_calls(different) is None
    reading = json.loads(json.dumps(document))
    for name in [next(iter(call["tensors"].values())) for call in document["do"][first:last]]:
        for tensor in reading["tensors"]:
            if tensor["name"] == name:
                tensor["typical"] = {"values": [1]}
    assert replay._alike_calls(reading) is None
    overlapping = json.loads(json.dumps(document))
    overlapping["functions"][0]["do"][0]["barrier"] = False
    assert replay._alike_calls(overlapping) is None
