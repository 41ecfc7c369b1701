"""Communication inside a simulated device: bytes by count, times by bounds and by hand, in step with the network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.chakra.pricing import INSIDE, NETWORK
from tilesim.cluster.communication import collective
from tilesim.cluster.programs import predicting
from tilesim.cluster.programs.device_communication import exchange_of
from tilesim.cluster.programs.predicting import Engine
from tilesim.cluster.programs.sending import LINK, Exchange, exchange_program

MACHINES = ("tpu-v3", "mesh-16", "edge-8")
PICO = 10**12


def ring(machine: Any, devices: int = 4, rate: float = 5e10, latency: float = 1e-6) -> ts.Cluster:
    one = {"kind": "ring", "size": devices, "bandwidth_bytes_per_second": rate, "latency_seconds": latency}
    return ts.Cluster(machine, [one])


def drawn(rng: np.random.Generator, dtype: str) -> Exchange:
    size = {"bf16": 2, "f32": 4, "i8": 1}[dtype]
    total = int(rng.choice([1, 3, 17, 1000, 65536, 300_001])) * size
    sums = int(rng.choice([0, total, total // 2 // size * size]))
    received = total if sums else int(rng.choice([total, 0, 3 * total]))
    return Exchange(total, received, sums, dtype, int(rng.integers(0, 2_000_000)), int(rng.integers(0, 50_000_000)))


@pytest.mark.parametrize("name", MACHINES)
def test_bytes_and_bounds(name: str) -> None:
    """What is sent was loaded, what arrived is stored, sums load as much again; no time is below link or memory."""
    machine, rng = ts.Machine.load(name), np.random.default_rng(7)
    for dtype in ("bf16", "f32", "i8", "bf16", "f32"):
        exchange = drawn(rng, dtype)
        program = exchange_program(machine, exchange)
        program.core.check_races()
        data = ts.simulate(program).data
        counted = {row["item"]: sum(value for _, value in row["operations"]) for row in data["counts"]}
        assert counted["memory bytes"] == exchange.loaded + exchange.received, exchange
        assert exchange.loaded == exchange.sent + exchange.summed
        loads = sum(row["load_bytes"] for row in data["operations"])  # bursts are whole
        stores = sum(row["store_bytes"] for row in data["operations"])
        assert loads >= exchange.loaded and stores >= exchange.received, exchange
        assert loads + stores - counted.get("padded memory bytes", 0) == exchange.loaded + exchange.received, exchange
        seconds = data["cycles"] / machine.hertz
        assert seconds >= (exchange.latency_ps + exchange.link_ps) / PICO, exchange
        assert seconds >= (exchange.loaded + exchange.received) / ts.Device.load(machine).memory.bytes_per_second, (
            exchange
        )
        busy = [unit["cycles"]["busy"] for unit in data["units"] if unit["unit"].endswith(f".{LINK}")]
        wanted = (exchange.latency_ps + exchange.link_ps) * machine.hertz / PICO
        assert all(wanted <= one <= wanted + 3 for one in busy), exchange  # each of three durations is rounded up
        assert len(busy) == int(machine.get("core.count"))


def test_a_tile_by_hand() -> None:
    """One tile of 960 bytes through a port of 10 bytes a cycle at 1 GHz: latency hides the load, then link, store."""
    changes = {"memory.kind": "ideal", "core.dma.bytes_per_cycle": 10, "core.clock": "1 GHz"}
    machine = ts.Machine.load("tpu-v3").replace(changes)

    def cycles(*exchange: Any) -> int:
        return int(ts.simulate(exchange_program(machine, Exchange(*exchange))).cycles)

    free = cycles(960, 960, 0, "i8", 0, 0)
    assert free == 96 + 96  # load, store
    assert cycles(960, 960, 0, "i8", 0, 70_000) == 96 + 70 + 96
    assert cycles(960, 960, 0, "i8", 60_000, 70_000) == 96 + 70 + 96
    assert cycles(960, 960, 0, "i8", 500_000, 70_000) == 500 + 70 + 96
    assert cycles(960, 0, 0, "i8", 500_000, 70_000) == 500 + 70


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices"])
def test_wide_memory_leaves_the_network(op: str) -> None:
    """Where memory, ports and units are wide, what is left beyond the network's time is a tile of sixteen."""
    wide = {"memory.kind": "ideal", "core.dma.bytes_per_cycle": 1 << 16, "core.vector.lanes": 1 << 14}
    machine = ts.Machine.load("tpu-v3").replace(wide)
    for rate in (1e9, 5e10, 1e12):
        found = collective(op, 1 << 20, ring(machine, rate=rate))
        exchange = exchange_of(found, collective(op, 1, ring(machine, rate=rate)).picoseconds)
        took = Engine.exchanged(exchange, machine).seconds
        assert found.seconds <= took <= found.seconds * (1 + 1 / 16) + 100 / machine.hertz


@pytest.mark.parametrize("name", MACHINES)
def test_a_step_is_bound_by_link_or_memory(name: str) -> None:
    """Faster links never make a step slower, and at last memory holds it: loads, sums and stores of what passes."""
    b = ts.GraphBuilder("sum", dtype="bf16")
    b.output(b.matmul(b.input("x", (256, 512)), b.input("w", (512, 256))), "y")
    spmd = ts.partition(b.build(), mesh={"d": 4}, shardings={"x": (None, "d"), "w": ("d", None)})
    (row,) = spmd.collectives()
    known: list[float] = []
    for rate in (1e8, 1e10, 1e13):
        cluster = ring(name, rate=rate)
        found: Any = ts.cluster.step(spmd, cluster, predictor="engine")
        alone: Any = ts.cluster.step(spmd, cluster, predictor="closed")
        (inside,) = found.exchanges.rows
        assert inside["op"] == row["kind"] and inside["seconds"] >= inside["network_seconds"]
        assert found.exposed_seconds == pytest.approx(inside["seconds"])
        assert alone.exposed_seconds == pytest.approx(inside["network_seconds"]) and not alone.exchanges.rows
        assert math.fsum(found.parts.values()) == pytest.approx(found.seconds, rel=1e-9)
        assert "inside the device" in found.explain()
        known.append(found.seconds)
        moved = inside["loaded_bytes"] + inside["received_bytes"]
        assert inside["seconds"] >= moved / ts.Device.load(ts.Machine.load(name)).memory.bytes_per_second
    assert known[0] > known[1] >= known[2]
    assert inside["bound"] != "compute" and inside["seconds"] > inside["network_seconds"]


KINDS = ({"x": ("d",), "up": (None, "t"), "down": ("t", None)}, {"x": (None, "d"), "y": ("d",)},
         {"x": ("d",), "up": ("d", None)}, {"x": ("t",), "up": ("t", "d")}, None)  # fmt: skip


def chosen(seed: int) -> tuple[Any, ts.Cluster, dict[str, Any]]:
    """A program of four devices, in groups of four and of two, some with permutes; a cluster; how it is timed."""
    rng = np.random.default_rng(seed)
    rows, inner, columns = (4 * int(rng.choice([16, 64, 96])) for _ in range(3))
    b = ts.GraphBuilder("random", dtype="f32")
    x, up, down = b.input("x", (rows, inner)), b.input("up", (inner, columns)), b.input("down", (columns, inner))
    h, kind = b.matmul(x, up), KINDS[seed % len(KINDS)]
    if kind is None:  # parts go to neighbours, of which one has none
        h = b.op("permute_devices", b.op("permute_devices", h, pairs=[0, 1, 1, 2, 3, 0]), pairs=[0, 1, 1, 0])
    b.output(b.matmul(b.apply("relu", h), down), "y")
    mesh = {"d": 2, "t": 2} if "t" in str(kind) else {"d": 4}
    cluster = ring(str(rng.choice(MACHINES)), 4, float(rng.choice([5e9, 5e10, 5e11])), float(rng.choice([0, 1e-6])))
    options = {"overlap": str(rng.choice(["none", "ready", "library"])), "check_memory": False}
    spmd = ts.cluster.Spmd([b.build()], 4) if kind is None else ts.partition(b.build(), mesh, kind)
    return spmd, cluster, options


def without(trace: Any) -> Any:
    """The same trace, as from elsewhere: it says nothing of the inside of devices."""
    for part in trace.classes:
        for node in part.nodes:
            node.attributes = {key: one for key, one in node.attributes.items() if key not in (INSIDE, NETWORK)}
    return trace


@pytest.mark.parametrize("seed", range(10))
def test_a_trace_replays_as_the_engine_found_it(seed: int, tmp_path: Path) -> None:
    spmd, cluster, options = chosen(seed)
    found = ts.cluster.step(spmd, cluster, predictor="engine", **options)
    assert len(found.exchanges)
    ts.cluster.to_chakra(found, None, tmp_path)
    same = pytest.approx(found.seconds, rel=1e-9)
    for trace in (tmp_path, found.to_trace()):
        for symmetry in (True, False):
            assert ts.cluster.replay(trace, cluster, symmetry=symmetry).seconds == same
    alone = ts.cluster.replay(without(found.to_trace()), cluster).seconds
    assert alone <= found.seconds  # the network alone

    def at(rate: float) -> tuple[float, float]:
        (link,) = cluster.dimensions
        other = ring(cluster.device, 4, link.bandwidth_bytes_per_second * rate, link.latency_seconds)
        return (ts.cluster.replay(found.to_trace(), other).seconds,
                ts.cluster.replay(without(found.to_trace()), other).seconds)  # fmt: skip

    quick, network = at(64.0)  # nobody knows what devices do with more than they had
    assert quick == network
    slow, network = at(1 / 64)
    assert network <= slow and slow >= found.seconds * (1 - 1e-9)


def test_parts_of_bytes_cannot_be_summed() -> None:
    with pytest.raises(ts.UserError, match="less than a byte"):
        exchange_program(ts.Machine.load("tpu-v3"), Exchange(64, 64, 64, "i4", 0, 0))


@pytest.mark.parametrize("name", ["tpu-v3", "edge-8"])
def test_long_exchanges_go_on_as_they_began(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of bytes time is extended: the same as all of it simulated, to a thousandth."""
    machine = ts.Machine.load(name)
    for sums in (0, 20_000_000, 10_000_000):
        exchange = Exchange(20_000_000, 20_000_000, sums, "bf16", 10**6, 400_000_000)
        whole = Engine.exchanged(exchange, machine)
        with monkeypatch.context() as patched:
            patched.setattr(predicting, "STEADY", 4 << 20)
            found = Engine.exchanged(exchange, machine)
        assert found.seconds == pytest.approx(whole.seconds, rel=1e-3)
        assert found.bytes == pytest.approx(whole.bytes, rel=1e-3)
        assert any("then linear" in note for note in found.notes) and found.notes[:-1] == whole.notes
        for term, value in whole.terms.items():
            assert found.terms[term] == pytest.approx(value, rel=1e-2), term
