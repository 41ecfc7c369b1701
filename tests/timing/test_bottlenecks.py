"""Machines with one bottleneck each: the result names it, the best advice removes it, and the gain is its own run's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts

# Everything wide: whatever is made narrow below is the one thing that holds the machine back.
WIDE: dict[str, Any] = {
    "core.clock": "1 GHz", "core.kernel_launch_cycles": 0, "core.array.rows": 32, "core.array.columns": 32,
    "core.array.rates": {"f32": 1}, "core.vector.lanes": 128, "core.vector.sublanes": 32, "core.vector.issue": 8,
    "core.vector.divide": 1, "core.vector.transcendental": 1, "core.vector.reduce_latency": 1,
    "core.cross_lane.bytes_per_cycle": 65536, "core.scratchpad.bytes": "8 MiB", "core.dma.bytes_per_cycle": 65536,
    "core.dma.outstanding_bytes": "16 MiB", "network.clock": "1 GHz", "network.latency_cycles": 0,
    "network.port_bytes_per_cycle": 65536, "network.buffer_bytes": "16 MiB", "memory.bandwidth": "4000 GB/s",
    "memory.efficiency": 1, "memory.latency": "0 ns", "memory.channels": 16, "memory.buffer_bytes": "16 MiB",
}  # fmt: skip


def chain() -> ts.Graph:
    """Twelve small products, each on the result of the one before: nothing overlaps."""
    b = ts.GraphBuilder("chain", dtype="f32")
    x = b.input("x", (64, 64))
    for index in range(12):
        x = b.matmul(x, b.input(f"w{index}", (64, 64)), name=f"product{index}")
    b.output(x, "y")
    return b.build()


def softmax() -> ts.Graph:
    return ts.workloads.softmax(1024, 1024)


def product() -> ts.Graph:
    return ts.workloads.matmul(512, 512, 512)


# Workload, what is narrow, what the result calls it, the setting that the best advice changes, how much that gains.
CASES: dict[str, tuple[Callable[[], ts.Graph], dict[str, Any], str, str, float]] = {
    "memory bandwidth": (softmax, {"memory.bandwidth": "20 GB/s"}, "memory", "memory.bandwidth", 1.9),
    "array": (product, {}, "compute", "core.array.count", 1.9),
    "vector unit": (
        softmax,
        {  # ports give more than one pipe takes
            "core.vector.lanes": 8,
            "core.vector.sublanes": 4,
            "core.vector.issue": 1,
            "core.isa.loads": 4,
            "core.isa.stores": 4,
        },
        "vector",
        "core.vector.issue",
        1.9,
    ),
    "launch": (chain, {"core.kernel_launch_cycles": 20000}, "launch", "core.kernel_launch_cycles", 10),
    "core port": (softmax, {"network.port_bytes_per_cycle": 32}, "network", "network.port_bytes_per_cycle", 1.9),
    "memory latency": (chain, {"memory.latency": "20 us"}, "latency", "memory.latency", 10),
    "DMA latency": (chain, {"core.dma.latency_cycles": 20000}, "latency", "core.dma.latency_cycles", 10),
    "DMA issue": (
        product,
        {"core.array.rows": 128, "core.array.columns": 128, "core.dma.issue_cycles": 20000},
        "latency",
        "core.dma.issue_cycles",
        5,
    ),
}


def simulated(graph: ts.Graph, changes: dict[str, Any]) -> ts.Result:
    return ts.simulate(ts.compile(graph, ts.Machine.load("edge-8").replace({**WIDE, **changes})))


@pytest.mark.parametrize("name", CASES)
def test_the_bottleneck_is_named_and_its_removal_simulated(name: str) -> None:
    workload, narrow, bottleneck, setting, gain = CASES[name]
    graph = workload()
    result = simulated(graph, narrow)
    assert result.bottleneck == bottleneck, result
    if bottleneck != "latency":
        assert result.data["bottleneck_share"] > 0.9
    longest = result.table().rows[0]
    assert longest["bound"] == bottleneck
    advice = result.explain()
    assert list(advice[0].change) == [setting], advice
    assert advice[0].gain > gain
    for other in advice[1:]:
        assert other.gain < 0.6 * advice[0].gain, advice  # one bottleneck: nothing else comes near
    for item in advice:
        again = simulated(graph, {**narrow, **item.change})
        assert (item.cycles, item.before) == (again.cycles, result.cycles)
        assert item.gain == result.cycles / again.cycles


def test_a_scratchpad_too_small_shows_as_traffic_that_a_larger_one_saves() -> None:
    graph, narrow = ts.workloads.matmul(1024, 1024, 1024), {"core.scratchpad.bytes": "48 KiB"}
    narrow |= {"core.array.rows": 128, "core.array.columns": 128, "memory.bandwidth": "40 GB/s"}  # type: ignore[dict-item]
    result = simulated(graph, narrow)
    assert result.bottleneck == "memory"
    assert result.memory_bytes > 10 * graph.core.compulsory_bytes()
    advice = {next(iter(item.change)): item for item in result.explain()}
    assert advice["core.scratchpad.bytes"].change == {"core.scratchpad.bytes": "96 KiB"}
    assert advice["core.scratchpad.bytes"].gain > 1.2
    larger = simulated(graph, {**narrow, "core.scratchpad.bytes": "96 KiB"})
    assert advice["core.scratchpad.bytes"].cycles == larger.cycles
    assert larger.memory_bytes < result.memory_bytes


def test_advice_stays_in_the_range_of_a_setting() -> None:
    result = simulated(ts.workloads.matmul(64, 64, 64), {"core.array.count": 16, "core.vector.issue": 64})
    tried = {next(iter(item.change)) for item in result.explain()}
    assert "memory.bandwidth" in tried
    assert not tried & {"core.array.count", "core.vector.issue", "core.kernel_launch_cycles"}  # at the limit, or free


# Behind routers of narrow links: the core's port, then one of the links between routers.
NARROW: dict[str, Any] = {"network.flit_bytes": 8, "network.packet_bytes": "256 B", "memory.channels": 4}
NARROW["memory.bandwidth"] = "80 GB/s"


@pytest.mark.parametrize(("network", "ports"), [("crossbar", 1), ("mesh", 1), ("ring", 4)])
def test_a_run_bound_by_routers_says_so(network: str, ports: int) -> None:
    changes = {**WIDE, **NARROW, "network.ports_per_core": ports, "core.scratchpad.bytes": "1 MiB"}
    program = ts.compile(ts.workloads.softmax(256, 512), ts.Machine.load("edge-8").replace(changes))
    result = ts.simulate(program, network=network)
    assert result.bottleneck == "network", result
    assert result.table().rows[0]["bound"] == "network" or network == "ring"
    wide = ts.simulate(program, program.machine.replace({"network.flit_bytes": 256}), network=network)
    assert wide.cycles < result.cycles / 1.4
    assert wide.bottleneck == "memory"
    if network == "crossbar":
        best = result.explain()[0]
        assert list(best.change) == ["network.flit_bytes"]
        assert best.gain > 1.7


def test_a_link_between_regions_that_binds_is_the_network() -> None:
    narrow = {"network.region_bytes_per_cycle": 8, "network.region_latency_cycles": 10}
    machine = ts.Machine.load("chiplet-2").replace(narrow)
    program = ts.compile(ts.workloads.softmax(1024, 1024), machine)
    result = ts.simulate(program)
    assert result.remote_bytes > 0
    assert result.bottleneck == "network"
    assert ts.simulate(program, machine.replace({"network.region_bytes_per_cycle": 4096})).bottleneck != "network"


@pytest.mark.singly
@pytest.mark.parametrize("level", ["tile", "instruction", "live"])
@pytest.mark.parametrize(("name", "width"), [("edge-8", 4), ("mesh-16", 1)])
def test_a_dma_port_narrower_than_memory_and_network_is_named(name: str, width: int, level: Any) -> None:
    """Loads and stores of softmax share or take turns at the core's port; the network's is many times as wide."""
    machine = ts.Machine.load(name).replace({"core.dma.bytes_per_cycle": width})
    result = ts.simulate(ts.compile(ts.workloads.softmax(256, 512, dtype="f32"), machine), level=level)
    assert result.bottleneck == "dma", result
    assert result.data["bottleneck_share"] > 0.9
    assert result.table().rows[0]["bound"] == "dma"
    best = result.explain()[0]
    assert best.change == {"core.dma.bytes_per_cycle": 2 * width}
    assert best.gain > 1.15
