"""Figures that are derived from others, against the same worked out by hand: each was once changed unnoticed."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim import network
from tilesim.lowering.costs import Estimator


def test_times_of_a_trace(tmp_path: Path) -> None:
    """Every interval begins and ends in the trace at its cycles times the clock's period."""
    trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    result = ts.run(ts.workloads.matmul(64, 64, 64), machine="edge-8", timeline=True)
    path = tmp_path / "trace"
    result.timeline(path)
    trace = trace_pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    found: dict[bool, list[int]] = {True: [], False: []}
    for packet in trace.packet:
        if packet.HasField("track_event") and packet.track_event.type in (1, 2):  # a slice begins, ends
            found[packet.track_event.type == 1].append(packet.timestamp)
    period = 1e9 / result.data["hertz"]
    assert result.data["hertz"] != 1_000_000_000  # else a factor of the clock would not show
    for starts, column in ((True, 2), (False, 3)):
        wanted = sorted(row[column] * period for row in result.data["intervals"])
        assert len(wanted) == len(found[starts]) > 10
        assert all(abs(a - b) <= 1 for a, b in zip(sorted(found[starts]), wanted, strict=True))
    assert max(found[False]) <= math.ceil(result.seconds * 1e9)


def test_advice_keeps_what_stays_in_the_cache() -> None:
    """With and without the table in the cache gains differ; each quoted one is reproduced with it."""
    machine = ts.Machine.load("tpu-v4")
    program = ts.compile(ts.workloads.embedding(4096, 4096, 256), machine)
    name = next(row["tensor"] for row in ts.mapping.residency(program).rows if row["resident"])
    result = ts.simulate(program, resident=[name])
    assert result.cycles != ts.simulate(program).cycles
    for advice in result.explain():
        changed = machine.replace(advice.change)
        again = ts.simulate(ts.compile(program.workload, changed), resident=[name])  # type: ignore[arg-type]
        assert advice.cycles == again.cycles, advice


def test_shares_of_cores() -> None:
    """Busy cycles of a core's units over all cycles; of several arrays their mean."""
    machine = ts.Machine.load("mesh-16").replace({"core.array.count": 2})
    result = ts.simulate(ts.compile(ts.workloads.matmul(512, 512, 256), machine))
    rows = result.cores().rows
    assert len(rows) == 16
    for row in rows:
        own = [unit for unit in result.data["units"] if unit["core"] == row["core"]]
        for kind in ("array", "vector", "load", "store"):
            units = [unit["cycles"]["busy"] for unit in own if unit["kind"] == kind]
            share = sum(units) / max(1, len(units)) / result.cycles
            assert row[kind] == pytest.approx(share, rel=1e-12)
            assert 0 <= row[kind] <= 1
    assert sum(row["multiply_adds"] for row in rows) == 512 * 512 * 256
    assert any(row["array"] > 0 for row in rows)


def _cached(bytes_: int) -> ts.Machine:
    """tpu-v4 with a cache of so many bytes in all, a slice for each channel, in lines of 128, 1 way."""
    machine = ts.Machine.load("tpu-v4")
    sets = bytes_ // 128 // int(machine.get("memory.channels"))
    return machine.replace({"memory.cache.ways": 1, "memory.cache.sets": sets})


def test_order_and_fit_of_residency() -> None:
    """The largest saving per byte first; what fits to the byte stays, one byte more does not."""
    b = ts.GraphBuilder("tables")
    for number, (rows, tokens) in enumerate(((1024, 8192), (2048, 8192), (1024, 2048))):
        index = b.input(f"i{number}", (tokens,), "i32")
        table = b.weight(f"w{number}", (rows, 128), "f32")
        b.output(b.op("embedding", table, index, name=f"e{number}"), f"y{number}")
    program = ts.compile(b.build(), _cached(1 << 24))
    plan = ts.mapping.residency(program)
    rows = [row for row in plan.rows if row["tensor"] in ("w0", "w1", "w2")]
    assert [row["tensor"] for row in rows] == ["w0", "w1", "w2"]
    assert [row["reuse"] for row in rows] == sorted((row["reuse"] for row in rows), reverse=True)
    sizes = {row["tensor"]: row["bytes"] for row in rows}

    def kept(bytes_: int) -> list[str]:
        found = ts.mapping.residency(program, _cached(bytes_)).rows
        return [row["tensor"] for row in found if row["resident"] and row["tensor"] in sizes]

    assert sizes == {"w0": 1 << 19, "w1": 1 << 20, "w2": 1 << 19}
    assert kept(1 << 21) == ["w0", "w1", "w2"]
    assert kept(1 << 20) == ["w0", "w2"]  # the second is too long for what is left, the third fits to the byte
    assert kept(1 << 19) == ["w0"]
    assert kept(1 << 18) == []


@pytest.mark.parametrize("sides", [(2, 2), (2, 3), (3, 3), (4, 4), (5, 3)])
def test_hops_of_small_tori(sides: tuple[int, int]) -> None:
    """The mean number of routers that a packet passes: one and the shorter way round in each dimension."""
    name = f"torus_{sides[0]}x{sides[1]}"
    ways = [sum(min(d, k - d) for d in range(k)) / k for k in sides]
    result = network.run(name, traffic="uniform", load=0.1, period=20000)
    assert result.hops == pytest.approx(1 + sum(ways), rel=0.01)


def test_price_of_a_sort_on_the_host() -> None:
    """Arithmetic of n log n comparisons at the rate of the units that can share it, at least the bytes; more rows cost
    more, and one long row cannot be shared."""

    def seconds(*shape: int) -> float:
        b = ts.GraphBuilder("sort")
        x = b.input("x", shape, "f32")
        b.output(b.op("sort", x, name="sorted", dim=len(shape) - 1), "y")
        graph = b.build()
        device = ts.Device.load("xeon-8480")
        (op,) = graph.operations()
        found = Estimator(graph, device).seconds(op)
        n = math.prod(shape)
        assert found >= 2 * 4 * n / device.memory.bytes_per_second
        assert sum(op["flops"].values()) >= n * math.log2(shape[-1]) / 2
        return found

    assert seconds(1 << 20) > 3 * seconds(1 << 18)  # n log n, one unit
    assert seconds(1024, 1024) < seconds(1 << 20) / 4  # rows are shared by units
    assert seconds(2048, 1024) > 1.5 * seconds(1024, 1024)


def test_what_replay_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is four times the difference of two predictions, at least the constant of its sort: of counts 0.5 %,
    of cycles that DMA queues are busy 5 % of all cycles."""
    graph: Any = ts.workloads.matmul(2048, 2048, 2048)
    program = ts.compile(graph, "edge-8")
    whole = ts.simulate(program, replay=False)
    monkeypatch.setattr("tilesim.timing.simulate.LIMIT", program.operations // 8)
    short = ts.simulate(program)
    (said,) = [line for line in short.approximations if line.startswith("replay: ")]
    assert [float(share) for share in re.findall(r"within ([0-9.]+)%", said)] == [0.5, 0.5, 5.0], said
    assert abs(short.cycles / whole.cycles - 1) <= 0.005
    for one, other in itertools.islice(zip(short.data["units"], whole.data["units"], strict=True), 50):
        assert abs(one["cycles"]["busy"] - other["cycles"]["busy"]) <= 0.05 * whole.cycles
