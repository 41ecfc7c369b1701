"""Programs whose loads, stores and sends go through routers: conservation, bounds, determinism, deadlock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.program_checks import flits_balance
from tilesim import _core
from tilesim.network import topology_of

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = ["crossbar", "mesh", "torus", "ring", "tree", "cmesh"]


def machine(**changes: Any) -> ts.Machine:
    """A small core with four channels of HBM2, two ports."""
    return ts.Machine.load("tpu-v3").replace(
        {
            "memory.channels": 4,
            "memory.bandwidth": "112500 MB/s",
            "core.dma.outstanding_bytes": "64 KiB",
            "network.ports_per_core": 2,
            "network.packet_bytes": "0 B",
            **{key.replace("__", "."): value for key, value in changes.items()},
        }
    )


def program(target: ts.Machine, graph: ts.Graph | None = None) -> ts.Program:
    return ts.compile(graph or ts.workloads.matmul(128, 128, 256), target)


def flits(target: ts.Machine, data: int) -> int:
    """Of a packet with `data` bytes."""
    size = target.get("network.flit_bytes")
    read = {name: int(target.get(f"network.{name}").split()[0]) for name in ("control_bytes", "header_bytes")}
    return max(1, -(-(data + read["header_bytes"] if data else read["control_bytes"]) // size))


@pytest.mark.parametrize("memory", ["ideal", "simple", "bank"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_byte_goes_through_the_network_and_none_is_lost(network: str, memory: str) -> None:
    target = machine()
    result = ts.simulate(program(target), memory=memory, network=network)
    simple = ts.simulate(program(target), memory=memory)
    assert result.memory_bytes == simple.memory_bytes
    used = result.data["network"]
    # The closed form of the endpoints' flits, from the bytes alone: one packet per burst.
    reads, writes = result.data["memory_read_bytes"] // 32, result.data["memory_written_bytes"] // 32
    request, answer = flits(target, 0), flits(target, 32)
    ports = [row for row in used["endpoints"] if row["name"].startswith("core")]
    channels = [row for row in used["endpoints"] if row["name"].startswith("channel")]
    assert sum(row["sent"] for row in ports) == reads * request + writes * answer
    assert sum(row["taken"] for row in ports) == reads * answer + writes * request
    assert sum(row["sent"] for row in channels) == sum(row["taken"] for row in ports)
    assert sum(row["taken"] for row in channels) == sum(row["sent"] for row in ports)
    assert flits_balance(used)
    assert [row["packets"] for row in used["messages"]] == [reads + writes] * 2
    for unit in result.data["units"]:
        assert sum(unit["cycles"].values()) == result.cycles
    assert result.data["fidelity"]["network"] == used["topology"]
    assert any(used["topology"] in text for text in result.approximations)


def test_no_link_carries_more_than_one_flit_per_cycle_and_the_core_port_bounds_the_time() -> None:
    target = machine(network__ports_per_core=1)
    result = ts.simulate(program(target), memory="ideal", network="mesh")
    used = result.data["network"]
    assert max(count for *_, count in used["links"]) <= used["cycles"]
    taken = max(row["taken"] for row in used["endpoints"])
    assert taken <= used["cycles"]
    assert used["cycles"] <= 1.35 * taken  # one port of 32 B per cycle is what holds it back


def test_an_unloaded_read_takes_what_its_parts_take() -> None:
    """Request and answer through one router (6 cycles each, closed form), one cycle in an ideal memory."""
    target = machine(memory__channels=1, network__ports_per_core=1)
    load = {"tensor": "X", "at": [0], "dims": [{"extent": 8, "axis": 0, "stride": 1}], "slot": "x"}
    document = {
        "schema": "tilesim.program",
        "version": 1,
        "tensors": [{"name": "X", "dtype": "f32", "shape": [8], "role": "input"}],
        "slots": [{"name": "x", "dtype": "f32", "elements": 8, "depth": 1, "consumers": ["vector"]}],
        "do": [
            {"acquire": "x", "queues": ["load0"]},
            {"load": load, "queue": "load0"},
            {"commit": "x", "queue": "load0"},
            {"wait": "x", "queue": "vector"},
            {"release": "x", "queue": "vector"},
        ],
    }
    core = _core.Program.from_json(json.dumps(document))
    found = ts.simulate(ts.Program(core, None, target), memory="ideal", network="crossbar")
    assert found.cycles == 6 + 1 + 6


SMALLEST = {
    "network__virtual_channels": 4,
    "network__virtual_channel_flits": 1,
    "memory__buffer_bytes": "64 B",
    "core__dma__outstanding_bytes": "64 B",
    "core__dma__queue_entries": 4,
}


@pytest.mark.parametrize("network", NETWORKS)
def test_no_deadlock_with_every_queue_at_its_smallest(network: str) -> None:
    target = machine(**SMALLEST)
    work = ts.workloads.softmax(32, 128)
    small = ts.simulate(program(target, work), memory="bank", network=network)
    large = ts.simulate(program(machine(), work), memory="bank", network=network)
    assert small.memory_bytes == large.memory_bytes
    assert small.cycles > large.cycles  # the queues push back


def test_a_full_memory_pushes_back_through_the_network() -> None:
    """A slow channel with one place: packets wait in the network, and another channel's answers suffer too."""
    slow = machine(memory__bandwidth="4 GB/s", memory__efficiency=1.0)
    few = ts.simulate(program(slow.replace({"memory.buffer_bytes": "64 B"})), memory="simple", network="mesh")
    many = ts.simulate(program(slow), memory="simple", network="mesh")
    waited = [row.data["network"]["messages"][0] for row in (few, many)]
    assert waited[0]["packets"] == waited[1]["packets"]
    assert waited[0]["latency_cycles"] > 2 * waited[1]["latency_cycles"]
    assert many.seconds >= many.memory_bytes / 4e9


@pytest.mark.parametrize("memory", ["simple", "bank"])
def test_insertion_order_does_not_matter(memory: str) -> None:
    target = machine()
    core = program(target, ts.workloads.softmax(64, 256)).core
    part, net = ts.memory.Part.load("HBM2-TPUv3").core, topology_of(target, "mesh")

    def timing(**options: Any) -> str:
        return _core.simulate(
            core, target.core, memory=memory, dram=part, network="mesh", topology=net, **options
        ).timing_hash()

    first = timing()
    assert all(timing(shuffle_seed=seed, extra_statistic=True) == first for seed in (1, 2, 3))


def test_wide_links_and_many_ports_come_near_the_simple_network() -> None:
    target = machine(network__ports_per_core=4, network__flit_bytes=64)
    graph = ts.workloads.softmax(512, 1024)
    simple = ts.simulate(program(target, graph), memory="simple")
    routed = ts.simulate(program(target, graph), memory="simple", network="crossbar")
    assert routed.cycles == pytest.approx(simple.cycles, rel=0.06)


def test_more_in_a_packet_takes_fewer_of_them() -> None:
    target = machine(network__packet_bytes="256 B", network__header_bytes="8 B")
    result = ts.simulate(program(target), memory="bank", network="crossbar")
    packets = result.data["network"]["messages"][0]["packets"]
    assert packets <= result.memory_bytes / 32 / 7
    written = [row["sent"] for row in result.data["network"]["endpoints"] if row["name"].startswith("channel")]
    assert sum(written) >= result.data["memory_read_bytes"] / 256 * flits(target, 256)


def test_who_goes_first() -> None:
    """Of loads and stores that compete for one port: those with priority wait less."""
    graph = ts.workloads.softmax(256, 512)
    cycles = {}
    for first in ("none", "loads", "stores"):
        target = machine(network__ports_per_core=1, core__dma__priority=first)
        cycles[first] = ts.simulate(program(target, graph), memory="ideal", network="crossbar").cycles
    assert len(set(cycles.values())) > 1


def test_sends_between_cores() -> None:
    """The multicast of the hand-written program crosses the network; a slower network makes it later."""
    text = (ROOT / "tests" / "programs" / "two_cores_multicast.json").read_text(encoding="utf-8")
    core = _core.Program.from_json(text)
    target = machine(core__count=2, core__dma__load_queues=2)
    simple = ts.simulate(ts.Program(core, None, target))
    routed = ts.simulate(ts.Program(core, None, target), network="mesh")
    assert routed.data["network_bytes"] == simple.data["network_bytes"]
    slow = ts.simulate(ts.Program(core, None, target.replace({"network.clock": "94 MHz"})), network="mesh")
    assert slow.cycles > routed.cycles
    sent = [unit["bytes"] for unit in routed.data["units"] if unit["kind"] == "send"]
    assert sum(sent) == sum(unit["bytes"] for unit in simple.data["units"] if unit["kind"] == "send") > 0


def test_the_machine_names_its_network() -> None:
    target = machine(network__kind="mesh_3x2")
    result = ts.simulate(program(target))
    assert result.data["fidelity"]["network"] == "mesh_3x2"
    assert result.data["configuration"]["network"]["kind"] == "mesh_3x2"
    assert ts.simulate(program(target), network="simple").data["fidelity"]["network"] == "simple"


def test_a_network_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "star.json"
    links = [{"between": [0, i], "latency": 2} for i in range(1, 7)]
    star = {"schema": "tilesim.network", "version": 1, "name": "star", "routers": 7, "nodes": [1, 2, 3, 4, 5, 6]}
    file.write_text(json.dumps({**star, "links": links, "routing": "up_down"}))
    result = ts.simulate(program(machine()), network=str(file))
    assert result.data["fidelity"]["network"] == "star"
    hub = sum(count for a, _, count in result.data["network"]["links"] if a == 0)
    assert hub == sum(row["taken"] for row in result.data["network"]["endpoints"])


@pytest.mark.parametrize(
    ("changes", "network", "message"),
    [
        ({}, "mesh_2x2", "at least 6"),
        ({}, "mash", "mesh"),
        ({}, "nowhere.json", "nowhere"),
        ({"network__virtual_channels": 2}, "torus", "two virtual channels"),
        ({"network__virtual_channel_flits": 0}, "mesh", "virtual_channel_flits"),
        ({"network__virtual_channels": 1}, "mesh", "virtual_channels"),
    ],
)
def test_mistakes(changes: dict[str, Any], network: str, message: str) -> None:
    with pytest.raises(ts.UserError, match=message):
        ts.simulate(program(machine(**changes)), network=network)


def test_ideal_memory_is_the_fastest_and_more_work_takes_longer() -> None:
    """With the simple network: among routers an earlier packet may cost others more."""
    target = machine()
    sizes = [ts.workloads.matmul(128, 128, k) for k in (128, 256, 512)]
    programs = [ts.compile(graph, target) for graph in sizes]
    ideal = [ts.simulate(program, memory="ideal", network="simple").cycles for program in programs]
    assert ideal == sorted(ideal)
    for memory in ("simple", "bank"):
        others = [ts.simulate(program, memory=memory, network="simple").cycles for program in programs]
        assert all(a <= b for a, b in zip(ideal, others, strict=True))


@pytest.mark.parametrize("network", ["mesh", "crossbar"])
def test_the_last_byte_passes_the_dma_engine(network: str) -> None:
    """Routers or not: a transfer ends no earlier than its bytes have passed a DMA engine of one byte per cycle."""
    target = ts.Machine.load("mesh-16").replace({"core.count": 1, "core.dma.bytes_per_cycle": 1})
    graph = ts.workloads.elementwise("exp", 8, 64)
    result = ts.simulate(ts.compile(graph, target), memory="simple", network=network)
    assert result.cycles >= 8 * 64 * 4
