"""`lower_bound` against sums by hand; that no run undercuts it is held by test_roofline."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts


def test_a_product_counts_whole_tiles_of_the_arrays() -> None:
    m, n, k = 1000, 200, 300
    machine = ts.Machine.load("tpu-v3")
    bound = ts.lower_bound(ts.workloads.matmul(m, n, k, dtype="bf16"), machine)
    # Arrays of 128 x 128: the weights take 3 x 2 tiles, the other operand 3 x 8; the larger side streams by.
    passes = min(3 * 2 * max(m, 128), 3 * 8 * max(n, 128))
    arrays = int(machine.get("core.array.count")) * int(machine.get("core.count"))
    assert bound.array_seconds == pytest.approx(passes / arrays / machine.core.hertz)
    assert bound.bytes == 2 * (m * k + k * n + m * n)
    assert bound.seconds == max(bound.array_seconds, bound.vector_seconds, bound.memory_seconds)
    assert bound.table().rows[0]["multiply_adds"] == m * n * k


def test_little_memory_on_the_chip_costs_traffic() -> None:
    changes = {"core.scratchpad.bytes": "64 KiB", "core.scratchpad.accumulator_bytes": "16 KiB"}
    machine = ts.Machine.load("edge-8").replace(changes)
    words = (64 + 16) * 1024 // 4
    size = 2048
    bound = ts.lower_bound(ts.workloads.matmul(size, size, size, dtype="f32"), machine)
    words *= int(machine.get("core.count"))
    assert bound.capacity_bytes == pytest.approx(4 * (2 * size**3 / math.sqrt(words) - 2 * words), rel=1e-6)
    assert bound.bytes == bound.capacity_bytes > bound.compulsory_bytes == 3 * 4 * size * size
    assert "exceed on-chip memory" in bound.why


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 7, 100])
@pytest.mark.parametrize(("queries", "keys"), [(1, 50), (33, 33), (20, 64), (64, 20)])
def test_attention_counts_what_is_visible(queries: int, keys: int, window: int, causal: bool) -> None:
    builder = ts.GraphBuilder("case")
    rows = {"q": queries, "k": keys, "v": keys}
    q, k, v = (builder.input(name, (2, 4, extent, 16), "f32") for name, extent in rows.items())
    attributes = {"causal": causal} | ({"window": window} if window else {})
    builder.output(builder.op("attention", q, k, v, **attributes), "y")
    graph = builder.build()
    place = np.arange(queries)[:, None] + keys - queries
    key = np.arange(keys)[None, :]
    seen = np.ones((queries, keys), bool)
    if causal:
        seen &= key <= place
    if window:
        seen &= key > place - window
    found = ts.lower_bound(graph, "tpu-v3").table().rows
    assert sum(row["multiply_adds"] for row in found) == pytest.approx(2 * 4 * seen.sum() * 32)


def test_calls_count_as_often_as_they_are_made_and_what_follows_from_constants_nothing() -> None:
    def layers(count: int) -> ts.Graph:
        builder = ts.GraphBuilder("layers")
        x = builder.input("x", (64, 256), "f32")
        layer = builder.function("layer")
        y = layer.input("y", (64, 256), "f32")
        made = layer.apply("exp", layer.weight("v", (256, 256), "f32"))  # of weights alone: made once, beforehand
        layer.output(layer.matmul(y, made))
        for _ in range(count):
            x = builder.call(layer, x)
        builder.output(x)
        return builder.build()

    one, five = ts.lower_bound(layers(1), "tpu-v3"), ts.lower_bound(layers(5), "tpu-v3")
    assert five.array_seconds == pytest.approx(5 * one.array_seconds)
    assert one.vector_seconds == five.vector_seconds == 0
    assert one.bytes == five.bytes == 4 * (2 * 64 * 256 + 256 * 256)


def test_results_carry_their_bound(tmp_path: Path) -> None:
    program = ts.compile(ts.workloads.matmul(512, 256, 128), "tpu-v3")
    result = ts.simulate(program)
    assert result.bounds is not None
    assert result.bounds.bytes <= result.memory_bytes and result.bounds.seconds <= result.seconds
    result.save(tmp_path / "r.json")
    loaded = ts.Result.load(tmp_path / "r.json").bounds
    assert loaded is not None and loaded.data == json.loads(json.dumps(result.bounds.data))
    assert ts.simulate(program, memory="ideal").bounds is None


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8", "mesh-16"])
def test_memory_is_bound_by_what_it_reaches(machine: str) -> None:
    """`memory.efficiency` is a limit of the simple memory; simulated banks are held to their peak alone."""
    graph, target = ts.workloads.layer_norm(1024, 1024), ts.Machine.load(machine)
    bound = ts.lower_bound(graph, target)
    peak = {"tpu-v3": 450e9, "edge-8": 19.2e9, "mesh-16": 512e9}[machine]
    rate = peak * target.get("memory.efficiency")
    assert bound.memory_seconds == pytest.approx(bound.bytes / rate, rel=1e-9)
    if machine == "edge-8":  # has no part whose banks could be simulated
        return
    banks = ts.simulate(ts.compile(graph, target), memory="bank").bounds
    assert banks is not None
    assert banks.memory_seconds == pytest.approx(bound.bytes / peak, rel=1e-9)


@pytest.mark.parametrize("rows", [3, 5])
@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_a_loop_overwrites_results_and_passes_states_on(machine: str, trips: int, rows: int) -> None:
    """Three trips each write one of `rows` rows of r; x passes unread, and q takes the place of p, which nothing reads.
    By hand, in rows of 40: r once, what three trips leave of it once more, s for the first trip."""
    b = ts.GraphBuilder("g")
    more, step = b.function("more"), b.function("step")
    types = {"i": ((), "i32")} | {name: ((1, 40), "f32") for name in "sxpq"} | {"r": ((rows, 1, 40), "f32")}
    tests, old = ({n: f.input(n, *kind) for n, kind in types.items()} for f in (more, step))
    more.output(more.apply("less", tests["i"], more.scalar(3, "i32")), "on")
    zero, new = step.scalar(0, "i32"), step.apply("tanh", old["s"])
    row = step.op("reshape", new, shape=[1, 1, 40])
    updated = step.op("dynamic_update", old["r"], row, old["i"], zero, zero)
    for name, value in (old | {"i": old["i"] + 1, "s": new, "p": old["q"], "r": updated}).items():
        step.output(value, f"{name}.next")
    start = [b.scalar(0, "i32") if name == "i" else b.input(name, kind[0]) for name, kind in types.items()]
    known = {"trips": trips} if trips else {}
    found = b.core.op("while", [t.value for t in start], known, "loop", len(types), ["more", "step"])
    b.output(ts.graph.Tensor(b, found[-1]), "y")
    graph = b.build()
    bound, result = ts.lower_bound(graph, machine), ts.simulate(ts.compile(graph, machine))
    assert bound.compulsory_bytes == 160 * (rows if trips == 0 else rows + (rows - 3) + 1)
    assert bound.bytes <= result.memory_bytes and bound.seconds <= result.seconds


def test_a_device_has_rates_alone() -> None:
    graph = ts.workloads.matmul(4096, 4096, 4096, dtype="f16")
    device = ts.Device.load("t4")
    bound = ts.lower_bound(graph, device)
    assert bound.array_seconds == pytest.approx(2 * 4096**3 / device.rate("f16").flops_per_second)
    assert bound.capacity_bytes == 0 and bound.bytes == 3 * 2 * 4096**2


def test_unknown_machines_are_named() -> None:
    with pytest.raises(ts.UserError, match="tpu-v33"):
        ts.lower_bound(ts.workloads.matmul(8, 8, 8), "tpu-v33")
