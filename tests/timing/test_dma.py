"""DMA engines and ports against closed forms: outstanding bytes, ports, priority, gather lists, contexts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core

TILE, TRIPS = 4096, 64  # elements of f32 per transfer
BYTES = TILE * TRIPS * 4


def machine(**changes: Any) -> ts.Machine:
    """64 bytes per cycle of memory, 120 cycles there and back."""
    settings = {
        "core.count": 1, "core.clock": "1 GHz", "core.dma.bytes_per_cycle": 256,
        "core.dma.outstanding_bytes": "1 MiB", "core.dma.load_queues": 2, "core.kernel_launch_cycles": 0,
        "network.clock": "1 GHz", "network.latency_cycles": 10, "network.port_bytes_per_cycle": 256,
        "network.flit_bytes": 32, "network.packet_bytes": "256 B", "network.header_bytes": "0 B",
        "memory.channels": 8, "memory.bandwidth": "64 GB/s", "memory.efficiency": 1.0, "memory.latency": "100 ns",
        "memory.interleave_bytes": "256 B", "memory.burst_bytes": "32 B", "layout.tile": [], **changes,
    }  # fmt: skip
    return ts.Machine.load("tpu-v3").replace(settings)


def slot(name: str, consumer: str, address: int, dtype: str = "f32", elements: int = TILE) -> dict[str, Any]:
    consumers = [consumer]
    return {"name": name, "dtype": dtype, "elements": elements, "depth": 8, "address": address, "consumers": consumers}


def loads(queue: str = "load0", name: str = "x") -> list[dict[str, Any]]:
    """The trip's tile of a tensor, which another unit drops at once."""
    dims = [{"extent": TILE, "axis": 1, "stride": 1}]
    return [
        {"acquire": name, "queues": [queue]},
        {"load": {"tensor": name, "at": ["i", 0], "dims": dims, "slot": name}, "queue": queue},
        {"commit": name, "queue": queue},
        {"wait": name, "queue": "mma0"},
        {"release": name, "queue": "mma0"},
    ]


def stores(name: str = "y") -> list[dict[str, Any]]:
    dims = [{"extent": TILE, "axis": 1, "stride": 1}]
    view = {"slot": name, "dims": [[TILE, 1]]}
    compute = {
        "extents": [TILE],
        "inputs": [],
        "nodes": [{"op": "constant", "value": 1.0}],
        "outputs": [{"node": 0, "view": view}],
    }
    return [
        {"acquire": name, "queues": ["vector"]},
        {"vector": compute, "queue": "vector"},
        {"commit": name, "queue": "vector"},
        {"wait": name, "queue": "store0"},
        {"store": {"tensor": name, "at": ["i", 0], "dims": dims, "slot": name}, "queue": "store0"},
        {"release": name, "queue": "store0"},
    ]


def program(slots: list[Any], tensors: list[Any], body: list[Any], contexts: int = 1) -> ts.Program:
    document = {
        "schema": "tilesim.program", "version": 1, "name": "dma", "cores": 1, "contexts": contexts,
        "tensors": tensors, "slots": slots, "do": body,
    }  # fmt: skip
    return ts.Program(_core.Program.from_json(json.dumps(document)), None, None)


def tensor(name: str, role: str = "input", dtype: str = "f32", shape: tuple[int, ...] = (TRIPS, TILE)) -> Any:
    return {"name": name, "dtype": dtype, "shape": list(shape), "role": role}


def stream() -> ts.Program:
    return program([slot("x", "mma0", 0)], [tensor("x")], [{"for": "i", "extent": TRIPS, "do": loads()}])


@pytest.mark.parametrize("outstanding", [1024, 2048, 4096, 16384])
def test_a_queue_has_no_more_under_way_than_its_outstanding_bytes(outstanding: int) -> None:
    """Each piece takes the way there and back, and its channels' time: eight of 8 bytes per cycle, 256 bytes each."""
    result = ts.simulate(stream(), machine(**{"core.dma.outstanding_bytes": f"{outstanding} B"}))
    rate = 8 * min(8, outstanding // 256)
    each = 10 + outstanding // rate + 100 + 10
    assert result.cycles == pytest.approx(BYTES // outstanding * each, rel=0.01)


def test_enough_outstanding_bytes_reach_the_bandwidth() -> None:
    result = ts.simulate(stream(), machine(**{"core.dma.outstanding_bytes": "64 KiB"}))
    assert BYTES / 64 <= result.cycles <= BYTES / 64 + 400


def test_two_queues_have_twice_as_much_under_way() -> None:
    slots = [slot("x", "mma0", 0), slot("z", "mma0", 1 << 20)]
    both = loads("load0", "x") + loads("load1", "z")
    two = program(slots, [tensor("x"), tensor("z")], [{"for": "i", "extent": TRIPS, "do": both}])
    small = machine(**{"core.dma.outstanding_bytes": "1 KiB"})
    assert ts.simulate(two, small).cycles == pytest.approx(ts.simulate(stream(), small).cycles, rel=0.02)


@pytest.mark.parametrize("ports", [1, 2, 4])
def test_a_core_takes_a_flit_per_cycle_at_each_of_its_ports(ports: int) -> None:
    target = machine(**{"network.ports_per_core": ports})
    result = ts.simulate(stream(), target, memory="ideal", network="crossbar")
    assert BYTES / 32 / ports <= result.cycles <= 1.02 * BYTES / 32 / ports + 200


def test_priority_decides_who_waits_at_a_port() -> None:
    """Requests of loads are one flit among stores of many: first, they hardly notice; last, they wait for all."""
    both = program(
        [slot("x", "mma0", 0), slot("y", "store0", 1 << 20)],
        [tensor("x"), tensor("y", "output")],
        [{"for": "i", "extent": TRIPS, "do": loads() + stores()}],
    )

    def ends(priority: str) -> dict[str, int]:
        target = machine(**{"network.ports_per_core": 1, "core.dma.priority": priority})
        data = ts.simulate(both, target, memory="ideal", network="crossbar", timeline=True).data
        kinds = [row["kind"] for row in data["units"]]
        found: dict[str, int] = {}
        for unit, _, _, finish in data["intervals"]:
            found[kinds[unit]] = max(found.get(kinds[unit], 0), finish)
        return found

    target = machine(**{"network.ports_per_core": 1})
    alone = ts.simulate(stream(), target, memory="ideal", network="crossbar").cycles
    first, last = ends("loads"), ends("stores")
    assert first["load"] <= 1.15 * alone  # a request waits for the packet that has begun
    assert last["load"] > 1.2 * first["load"]
    assert last["store"] <= first["store"]


@pytest.mark.parametrize("row", [8, 20, 64])
def test_gather_lists_move_whole_bursts_of_each_row_and_their_indices(row: int) -> None:
    """Rows of 4 * row bytes at 32-byte bursts; 128 indices of 4 bytes beside them."""
    count, padded = 128, 64  # rows are 256 bytes apart: aligned
    dims = [
        {"extent": count, "axis": 0, "stride": row, "through": "index", "through_at": [0]},
        {"extent": row, "axis": 1, "stride": 1},
    ]
    load = {"tensor": "x", "at": [0, 0], "dims": dims, "slot": "s"}
    body = [
        {"acquire": "s", "queues": ["load0"]},
        {"load": load, "queue": "load0"},
        {"commit": "s", "queue": "load0"},
        {"wait": "s", "queue": "mma0"},
        {"release": "s", "queue": "mma0"},
    ]
    tensors = [tensor("x", shape=(1000, padded)), tensor("index", dtype="i32", shape=(count,))]
    gather = program([slot("s", "mma0", 0, elements=count * row)], tensors, body)
    index = np.random.default_rng(0).integers(0, 1000, count).astype(np.int32)
    result = ts.simulate(gather, machine(), tensors={"index": index})
    assert result.memory_bytes == count * (-(-4 * row // 32) * 32) + count * 4
    assert result.cycles >= result.memory_bytes / 64 + 120


def test_contexts_of_a_core_fill_each_others_waits() -> None:
    """Two instruction streams of the same dependent chain on two units: one computes while the other waits."""
    rounds, cycles = 32, 500

    def chain(name: str) -> list[dict[str, Any]]:
        def opaque(queue: str) -> dict[str, Any]:
            view = {"slot": name, "dims": [[16, 1]]}
            return {"opaque": {"target": queue, "cycles": cycles, "reads": [], "writes": [view]}, "queue": queue}

        return [
            {"acquire": name, "queues": ["vector"]},
            opaque("vector"),
            {"commit": name, "queue": "vector"},
            {"wait": name, "queue": "cross_lane"},
            opaque("cross_lane"),
            {"release": name, "queue": "cross_lane"},
        ]

    def run(contexts: int) -> int:
        one = slot("s", "cross_lane", 0, elements=16) | {"depth": 1}
        made = program([one], [], [{"for": "i", "extent": rounds, "do": chain("s")}], contexts)
        return ts.simulate(made, machine(**{"core.contexts": contexts})).cycles

    assert run(1) == 2 * rounds * cycles  # each waits for the other: units in turn
    assert run(2) <= 2 * rounds * cycles + 2 * cycles  # twice the work in the same time


@pytest.mark.parametrize("memory", ["ideal", "simple", "bank"])
@pytest.mark.parametrize("rate", [1, 2, 8, 64])
def test_no_byte_arrives_before_it_has_passed_the_engine(memory: str, rate: int) -> None:
    """One tile alone, and many: the last one's bytes take their time as well."""
    machine = ts.Machine.load("mesh-16").replace({"core.count": 1, "core.dma.bytes_per_cycle": rate})
    for shape in ((1, 16), (8, 64), (256, 256)):
        for rule in ("heuristic", "cost"):
            program = ts.compile(ts.workloads.softmax(*shape), machine, mapping=rule)
            bytes_in = shape[0] * shape[1] * 4
            queues = machine.get("core.dma.load_queues")
            assert ts.simulate(program, memory=memory).cycles >= bytes_in / (rate * queues), (shape, rule)
