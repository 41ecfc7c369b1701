"""Regions of memory behind routers: closed forms of local and remote reads, conservation, back-pressure."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tilesim as ts
from support.program_checks import flits_balance
from tilesim import _core
from tilesim.network import topology_of

TILE, TRIPS = 4096, 16
BYTES = TILE * TRIPS * 4
NETWORKS = ["crossbar", "mesh", "tree", "cmesh"]


def machine(**changes: Any) -> ts.Machine:
    """Two regions of one core and two channels; links of half a flit per cycle."""
    return ts.Machine.load("tpu-v3").replace(
        {
            "core.count": 2,
            "core.clock": "1 GHz",
            "core.dma.outstanding_bytes": "64 KiB",
            "network.clock": "1 GHz",
            "network.ports_per_core": 1,
            "network.packet_bytes": "0 B",  # a burst each
            "network.region_latency_cycles": 50,
            "network.region_bytes_per_cycle": 16,
            "memory.channels": 4,
            "memory.bandwidth": "256 GB/s",
            "memory.efficiency": 1.0,
            "memory.regions": 2,
            "layout.tile": [],
            "core.kernel_launch_cycles": 0,
            **{key.replace("__", "."): value for key, value in changes.items()},
        }
    )


def reads(elements: int, trips: int, cores: int = 1) -> ts.Program:
    """Core c loads x<c>, piece by piece, into a ring of two buffers."""
    dims = [{"extent": elements, "axis": 1, "stride": 1}]
    branches = [
        {
            "if": f"core == {core}",
            "then": [
                {"acquire": "s", "queues": ["load0"]},
                {"load": {"tensor": f"x{core}", "at": ["i", 0], "dims": dims, "slot": "s"}, "queue": "load0"},
                {"commit": "s", "queue": "load0"},
                {"wait": "s", "queue": "vector"},
                {"release": "s", "queue": "vector"},
            ],
        }
        for core in range(cores)
    ]
    document = {
        "schema": "tilesim.program",
        "version": 1,
        "cores": cores,
        "tensors": [
            {"name": f"x{core}", "dtype": "f32", "shape": [trips, elements], "role": "input"} for core in range(cores)
        ],
        "slots": [{"name": "s", "dtype": "f32", "elements": elements, "depth": 2, "consumers": ["vector"]}],
        "do": [{"for": "i", "extent": trips, "do": branches}],
    }
    return ts.Program(_core.Program.from_json(json.dumps(document)), None, None)


def run(
    program: ts.Program, target: ts.Machine, place: dict[str, Any], network: str, memory: str = "ideal"
) -> ts.Result:
    return ts.simulate(program, target, memory=memory, network=network, placement=place)


def test_an_unloaded_remote_read_takes_the_link_both_ways() -> None:
    """6 cycles through the first router, 3 for the second one, the link; one cycle in an ideal memory."""
    target = machine(memory__channels=2)
    local = run(reads(8, 1), target, {"x0": 0}, "crossbar")
    remote = run(reads(8, 1), target, {"x0": 1}, "crossbar")
    assert local.cycles == 6 + 1 + 6
    link = 50 + 2  # a flit of 32 B takes two cycles of a link of 16 B per cycle
    assert remote.cycles == (6 + 3 + link) + 1 + (6 + 3 + link)
    assert (local.local_bytes, local.remote_bytes) == (32, 0)
    assert (remote.local_bytes, remote.remote_bytes) == (0, 32)


@pytest.mark.parametrize(("rate", "links"), [(8, 1), (16, 1), (24, 1), (30, 1)])
def test_a_remote_stream_has_the_bandwidth_of_the_link(rate: int, links: int) -> None:
    result = run(reads(TILE, TRIPS), machine(network__region_bytes_per_cycle=rate), {"x0": 1}, "crossbar")
    flits = BYTES // 32
    assert result.cycles >= flits * 32 / rate
    assert result.cycles <= flits * 32 / rate * 1.01 + 200
    busy = {u["unit"]: u["cycles"]["busy"] for u in result.data["units"] if u["kind"] == "region_link"}
    assert busy["link.region1to0"] == pytest.approx(flits * 32 / rate, abs=1)
    assert busy["link.region0to1"] == pytest.approx(flits * 32 / rate, abs=1)  # a request of a flit per burst
    assert result.bottleneck == "network"
    assert topology_of(machine(network__region_bytes_per_cycle=rate), "crossbar").links.__len__() == 2 * links


def test_links_side_by_side_add_up() -> None:
    """Destinations are shared out among the links: of three links for four ports, one has two ports' answers."""
    wide = {"network__ports_per_core": 4, "core__dma__bytes_per_cycle": 512, "memory__channels": 8}
    result = run(reads(TILE, TRIPS), machine(network__region_bytes_per_cycle=96, **wide), {"x0": 1}, "crossbar")
    assert 1.0 <= result.cycles / (BYTES / 2 / 32) < 1.05
    even = run(reads(TILE, TRIPS), machine(network__region_bytes_per_cycle=128, **wide), {"x0": 1}, "crossbar")
    assert 1.0 <= even.cycles / (BYTES / 128) < 1.1
    assert even.cycles < 0.6 * result.cycles


@pytest.mark.parametrize("memory", ["simple", "bank"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_byte_crosses_the_links_that_it_must(network: str, memory: str) -> None:
    """Bytes of each direction as the simple network counts them; as many flits into every router as out of it."""
    target, program = machine(), reads(TILE, 4, cores=2)
    for place in ({"x0": 1, "x1": 1}, {"x0": "interleaved", "x1": "local"}):
        routed = run(program, target, place, network, memory)
        simple = run(program, target, place, "simple", memory)
        assert (routed.local_bytes, routed.remote_bytes) == (simple.local_bytes, simple.remote_bytes)
        assert routed.local_bytes + routed.remote_bytes == routed.memory_bytes == 2 * TILE * 4 * 4
        rows = [[u for u in r.data["units"] if u["kind"] == "region_link"] for r in (routed, simple)]
        bytes_of = [{u["unit"]: u["bytes"] for u in row} for row in rows]
        assert bytes_of[0] == bytes_of[1]
        used = routed.data["network"]
        assert flits_balance(used)
        half = used["routers"] // 2
        crossing = sum(count for a, b, count in used["links"] if a >= half > b)
        bursts_to_0 = bytes_of[0]["link.region1to0"] // 32
        bursts_to_1 = bytes_of[0]["link.region0to1"] // 32
        assert crossing == bursts_to_0 + bursts_to_1  # answers one way, requests of the other's the same way


@pytest.mark.parametrize("network", NETWORKS)
def test_no_deadlock_with_every_queue_at_its_smallest(network: str) -> None:
    smallest = machine(
        network__virtual_channel_flits=1, memory__buffer_bytes="64 B", core__dma__outstanding_bytes="64 B",
        core__dma__queue_entries=4, memory__regions=2, network__region_bytes_per_cycle=4,
    )  # fmt: skip
    both = {"x0": 1, "x1": 0}
    small = run(reads(256, 2, cores=2), smallest, both, network, "bank")
    large = run(reads(256, 2, cores=2), machine(), both, network, "bank")
    assert small.remote_bytes == large.remote_bytes == 2 * 256 * 4 * 2
    assert small.cycles > large.cycles


def test_four_regions_and_the_chiplet_preset() -> None:
    four = machine(core__count=4, memory__regions=4)
    result = run(reads(TILE, 2, cores=4), four, {f"x{core}": (core + 1) % 4 for core in range(4)}, "mesh", "bank")
    busy = {u["unit"]: u["bytes"] for u in result.data["units"] if u["kind"] == "region_link"}
    assert len(busy) == 12
    assert {name for name, moved in busy.items() if moved} == {f"link.region{(c + 1) % 4}to{c}" for c in range(4)}
    graph = ts.workloads.matmul(256, 256, 256, dtype="bf16")
    chip = ts.simulate(ts.compile(graph, ts.Machine.load("chiplet-2").replace({"network.kind": "mesh"})), memory="bank")
    assert chip.data["fidelity"]["network"].startswith("2_x_mesh")
    assert chip.local_bytes + chip.remote_bytes == chip.memory_bytes
    assert chip.local_bytes == pytest.approx(chip.remote_bytes, rel=0.2)
    near = ts.simulate(ts.compile(graph, "chiplet-2"), network="mesh", placement={"a": "local", "b": 0, "y": "local"})
    assert near.remote_bytes < chip.remote_bytes


def test_a_file_says_where_the_links_are(tmp_path: Any) -> None:
    """Two routers of one region each, joined by a link of four cycles per flit; nodes of region 0 come first."""
    file = tmp_path / "two.json"
    text = {"schema": "tilesim.network", "version": 1, "name": "two", "routers": 2, "nodes": [0, 0, 0, 1, 1, 1]}
    link = {"between": [0, 1], "latency": 20, "cycles_per_flit": 4, "buffer_flits": 64}
    file.write_text(json.dumps({**text, "links": [link], "routing": "up_down"}))
    result = run(reads(TILE, TRIPS), machine(), {"x0": 1}, str(file))
    assert result.remote_bytes == BYTES
    assert result.cycles == pytest.approx(BYTES / 32 * 4, rel=0.02)
    near = run(reads(TILE, TRIPS), machine(), {"x0": 0}, str(file))
    assert near.local_bytes == BYTES
    assert not any(count for *_, count in near.data["network"]["links"])


@pytest.mark.parametrize(
    ("changes", "network", "message"),
    [
        ({}, "torus", "two classes of virtual channels"),
        ({"network__virtual_channels": 2}, "mesh", "two virtual channels per message class"),
        ({"network__region_bytes_per_cycle": 4096}, "mesh", r"network\.region_bytes_per_cycle"),
        ({"network__region_latency_cycles": 100000}, "mesh", r"network\.region_latency_cycles"),
        ({}, "crossbar_2", "at least 3"),
    ],
)
def test_what_regions_of_routers_refuse(changes: dict[str, Any], network: str, message: str) -> None:
    with pytest.raises(ts.UserError, match=message):
        run(reads(8, 1), machine(**changes), {}, network)
