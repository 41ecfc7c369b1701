"""Memory of several regions: closed forms of local, remote and interleaved streams; links; placement by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core

TILE = 4096  # elements of f32 per load
TRIPS = 64
BYTES = TILE * TRIPS * 4  # streamed by each core


def machine(cores: int = 2, regions: int = 2, **changes: Any) -> ts.Machine:
    """One byte per cycle and GB/s: 64 GB/s per region, links of 16 bytes per cycle."""
    settings = {
        "core.count": cores, "core.clock": "1 GHz", "core.dma.bytes_per_cycle": 256,
        "core.dma.outstanding_bytes": "1 MiB", "network.clock": "1 GHz", "network.latency_cycles": 10,
        "network.port_bytes_per_cycle": 256, "network.region_latency_cycles": 50,
        "network.region_bytes_per_cycle": 16, "memory.channels": 8, "memory.bandwidth": f"{64 * regions} GB/s",
        "memory.efficiency": 1.0, "memory.latency": "100 ns", "memory.interleave_bytes": "256 B",
        "memory.buffer_bytes": "64 KiB", "memory.regions": regions, "layout.tile": [], "core.kernel_launch_cycles": 0,
        **changes,
    }  # fmt: skip
    return ts.Machine.load("tpu-v3").replace(settings)


def stream(cores: int, store: bool = False) -> ts.Program:
    """Each core streams its own tensor x0, x1, ... through a ring of two buffers (or stores to it)."""
    dims = [{"extent": TILE, "axis": 1, "stride": 1}]
    branches: list[dict[str, Any]] = []
    for core in range(cores):
        transfer = {"tensor": f"x{core}", "at": ["i", 0], "dims": dims, "slot": "s"}
        if store:
            view = {"slot": "s", "dims": [[TILE, 1]]}
            nodes = [{"op": "constant", "value": 1.0}]
            vector = {"extents": [TILE], "inputs": [], "nodes": nodes, "outputs": [{"node": 0, "view": view}]}
            body = [
                {"acquire": "s", "queues": ["vector"]},
                {"vector": vector, "queue": "vector"},
                {"commit": "s", "queue": "vector"},
                {"wait": "s", "queue": "store0"},
                {"store": transfer, "queue": "store0"},
                {"release": "s", "queue": "store0"},
            ]
        else:
            body = [
                {"acquire": "s", "queues": ["load0"]},
                {"load": transfer, "queue": "load0"},
                {"commit": "s", "queue": "load0"},
                {"wait": "s", "queue": "vector"},
                {"release": "s", "queue": "vector"},
            ]
        branches.append({"if": f"core == {core}", "then": body})
    role = "output" if store else "input"
    program = {
        "schema": "tilesim.program",
        "version": 1,
        "name": "stream",
        "cores": cores,
        "tensors": [{"name": f"x{c}", "dtype": "f32", "shape": [TRIPS, TILE], "role": role} for c in range(cores)],
        "slots": [
            {
                "name": "s",
                "dtype": "f32",
                "elements": TILE,
                "depth": 8,
                "address": 0,
                "consumers": ["store0" if store else "vector"],
            }
        ],
        "do": [{"for": "i", "extent": TRIPS, "do": branches}],
    }
    core = _core.Program.from_json(json.dumps(program))
    return ts.Program(core, None, None)


def run(cores: int, target: ts.Machine, placement: dict[str, Any] | None = None, store: bool = False) -> ts.Result:
    return ts.simulate(stream(cores, store), target, placement=placement)


@pytest.mark.parametrize("store", [False, True])
def test_local_stream_has_its_regions_bandwidth(store: bool) -> None:
    result = run(2, machine(), {"x0": 0, "x1": 1}, store)
    assert (result.local_bytes, result.remote_bytes) == (2 * BYTES, 0)
    assert BYTES / 64 <= result.cycles <= BYTES / 64 + 400 + 100 * store


@pytest.mark.parametrize("store", [False, True])
def test_remote_stream_has_the_links_bandwidth(store: bool) -> None:
    result = run(2, machine(), {"x0": 1, "x1": 0}, store)
    assert (result.local_bytes, result.remote_bytes) == (0, 2 * BYTES)
    assert BYTES / 16 <= result.cycles <= BYTES / 16 + 600 + 100 * store
    links = {row["unit"]: row["bytes"] for row in result.data["units"] if row["kind"] == "region_link"}
    assert links == {"link.region0to1": BYTES, "link.region1to0": BYTES}


@pytest.mark.parametrize("regions", [2, 4])
def test_interleaved_tensors_are_remote_but_for_one_share(regions: int) -> None:
    result = run(regions, machine(regions, regions))
    assert result.remote_bytes * regions == (regions - 1) * regions * BYTES
    assert result.local_bytes + result.remote_bytes == result.memory_bytes
    # each link carries 1/regions of one core's stream; the slowest part decides
    link = BYTES / regions / 16
    assert max(link, BYTES / 64) <= result.cycles <= max(link, BYTES / 64) + 800


def test_first_touch_is_local_and_later_users_are_remote() -> None:
    own = run(2, machine(**{"memory.placement": "local"}))
    assert (own.local_bytes, own.remote_bytes) == (2 * BYTES, 0)
    assert own.cycles == run(2, machine(), {"x0": 0, "x1": 1}).cycles


def test_link_latency_shows_once_each_way() -> None:
    """A single load from the other region takes the link's latency twice more than a local one."""
    quick = {"network.region_bytes_per_cycle": 1 << 20}
    here, there = (run(2, machine(**quick), {"x0": 0, "x1": region}) for region in (1, 0))
    assert there.cycles - here.cycles >= 100


def test_one_region_costs_what_it_did() -> None:
    """The settings of regions change neither cycles nor hash where there is one region."""
    plain = machine(regions=1)
    other = plain.replace({"network.region_latency_cycles": 7, "network.region_bytes_per_cycle": 1})
    assert run(1, plain).cycles == run(1, other).cycles
    assert run(1, plain).remote_bytes == 0
    assert "memory_remote_bytes" not in run(1, plain).data


def test_conservation_and_determinism() -> None:
    first, second = run(2, machine()), run(2, machine())
    assert first.timing_hash() == second.timing_hash()
    channels = sum(row["bytes"] for row in first.data["units"] if row["kind"] == "channel")
    assert channels == first.memory_bytes == 2 * BYTES


def test_bank_memory_in_regions() -> None:
    local = ts.simulate(stream(2), machine(), memory="bank", placement={"x0": 0, "x1": 1})
    remote = ts.simulate(stream(2), machine(), memory="bank", placement={"x0": 1, "x1": 0})
    assert local.cycles < remote.cycles
    assert remote.cycles >= BYTES / 16


@pytest.mark.parametrize(
    ("placement", "text"),
    [({"x9": 0}, "x0"), ({"x0": 2}, "region from 0 to 1"), ({"x0": "remote"}, "interleaved, local")],
)
def test_wrong_placements_are_refused(placement: dict[str, Any], text: str) -> None:
    with pytest.raises(ts.UserError, match=text):
        run(2, machine(), placement)


def test_regions_divide_cores_and_channels() -> None:
    with pytest.raises(ts.UserError, match=r"memory\.regions"):
        run(2, machine(**{"memory.regions": 3}))
    whole = machine().to_dict()
    whole["memory"]["regions"] = 5
    with pytest.raises(ts.UserError, match=r"memory\.regions"):
        ts.Machine.load(whole)


def test_sends_between_regions_pass_the_link() -> None:
    """The multicast of the hand-written program: what goes to the core of the other region takes the link, once."""
    text = (Path(__file__).resolve().parents[1] / "programs" / "two_cores_multicast.json").read_text(encoding="utf-8")
    program = ts.Program(_core.Program.from_json(text), None, None)
    places = {"A": 0, "B": 0, "C": 0}
    cycles = []
    for rate in (16, 1):
        target = machine(**{"core.dma.load_queues": 2, "network.region_bytes_per_cycle": rate})
        result = ts.simulate(program, target, placement=places)
        links = sum(row["bytes"] for row in result.data["units"] if row["kind"] == "region_link")
        assert links == result.remote_bytes + 150 * 24 * 4  # B, row by row of its tiles
        cycles.append(result.cycles)
    assert cycles[1] > 150 * 24 * 4
    whole = machine(**{"core.dma.load_queues": 2, "memory.regions": 1})
    assert ts.simulate(program, whole).cycles < cycles[0] < cycles[1]


def test_pieces_that_lie_apart_come_from_the_region_where_they_lie() -> None:
    """The first 256 bytes of each 4 KiB are on one channel: banks look that up, simple memory counts from the start."""
    b = ts.GraphBuilder("columns")
    b.output(b.input("x", [2048, 1024])[:, :64] * 2.0, "y")
    target = machine(**{"memory.channel_hash": "none"})
    program = ts.compile(b.build(), target)
    half = 1024 * 64 * 4  # what each of the two cores reads, and writes

    def links(memory: str) -> tuple[int, int, bool]:
        result = ts.simulate(program, memory=memory)
        found = {unit["unit"]: unit["bytes"] for unit in result.data["units"] if unit["kind"] == "region_link"}
        said = any("contiguous bytes" in text for text in result.approximations)
        return found["link.region0to1"], found["link.region1to0"], said

    # From region 0 comes all that core 1 reads; of what each core writes, half goes to the other region.
    assert links("bank") == (half + half // 2, half // 2, False)
    assert links("simple") == (half, half, True)
