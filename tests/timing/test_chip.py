"""Several cores in time: speed-up, utilisation per core, bounds, presets, mistakes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core

CHIPS = {"tpu-v2-chip": 2, "tpu-v3-chip": 2, "tpu-v4-chip": 2, "chiplet-2": 2, "mesh-16": 16}


def wide(cores: int = 16, **changes: Any) -> ts.Machine:
    """mesh-16 with memory that is never in the way."""
    return ts.Machine.load("mesh-16").replace(
        {
            "core.count": cores,
            "memory.bandwidth": "16384 GB/s",
            "core.dma.bytes_per_cycle": 1024,
            "network.port_bytes_per_cycle": 1024,
            "core.dma.outstanding_bytes": "1 MiB",
            **changes,
        }
    )


def product(m: int = 512, n: int = 1024, k: int = 512, dtype: str = "bf16") -> ts.Graph:
    return ts.workloads.matmul(m, n, k, dtype=dtype)


def cells(machine: ts.Machine) -> int:
    array = machine.to_dict()["core"]["array"]
    return int(array["rows"] * array["columns"] * array["count"])


@pytest.mark.parametrize("name", CHIPS)
def test_presets_load_and_compute(name: str) -> None:
    machine = ts.Machine.load(name)
    assert name in ts.Machine.names()
    assert machine.get("core.count") == CHIPS[name]
    described = {path for path in machine.sources if path.startswith(("core", "network", "memory"))}
    assert {"core.count", "memory.channels", "memory.bandwidth"} <= described
    program = ts.compile(product(64, 256, 128), machine, cores=CHIPS[name])
    assert program.cores == CHIPS[name]
    assert ts.verify(program).ok
    result = ts.simulate(program)
    assert sum(row["multiply_adds"] for row in result.cores().rows) == 64 * 256 * 128


@pytest.mark.parametrize("name", ["tpu-v2", "tpu-v3", "tpu-v4"])
def test_a_chip_is_two_of_its_cores(name: str) -> None:
    core, chip = ts.Machine.load(name), ts.Machine.load(f"{name}-chip")
    assert chip.to_dict()["core"] | {"count": 1} == core.to_dict()["core"]
    assert chip.get("memory.channels") == 2 * core.get("memory.channels")
    one, two = (ts.simulate(ts.compile(product(2048, 2048, 1024), machine)) for machine in (core, chip))
    assert 1.8 < one.cycles / two.cycles < 2.2


def test_one_core_of_a_chip_is_the_program_of_one_core() -> None:
    """Compiled for one core of several, the program is that of a machine with one."""
    program = ts.compile(product(), wide(16), cores=1)
    alone = ts.compile(product(), wide(1))
    assert program.core.to_json() == alone.core.to_json()


@pytest.mark.parametrize("cores", [2, 3, 4, 16])
def test_large_products_speed_up_with_cores(cores: int) -> None:
    graph, machine = product(2048, 2048, 1024), wide()
    alone, together = (ts.simulate(ts.compile(graph, machine, cores=n)) for n in (1, cores))
    ideal = 2048 * 2048 * 1024 / cells(machine)
    assert together.cycles >= ideal / cores  # the roofline of the cores at work
    assert alone.cycles / together.cycles > 0.75 * cores
    # beyond linear only by the filling and draining that smaller parts save
    assert alone.cycles / together.cycles <= cores * alone.cycles / ideal
    busy = [row["array"] for row in together.cores().rows]
    assert len(busy) == cores
    assert min(busy) > 0.5 * max(busy)


def test_time_is_never_below_the_memory_roofline() -> None:
    for name, cores in itertools.product(("mesh-16", "tpu-v3-chip"), (1, 2)):
        machine = ts.Machine.load(name)
        result = ts.simulate(ts.compile(product(8, 2048, 2048), machine, cores=cores))
        hertz, bandwidth = machine.hertz, machine.to_dict()["memory"]["bandwidth"]
        per_second = float(str(bandwidth).split()[0]) * 1e9
        assert result.cycles >= result.memory_bytes / per_second * hertz
        assert result.memory_bytes >= 2048 * 2048 * 2


def test_shares_of_time_add_up() -> None:
    result = ts.simulate(ts.compile(ts.models.mlp(), "mesh-16"))
    assert sum(row["exclusive"] for row in result.data["operations"]) == result.cycles
    for row in result.data["units"]:
        assert sum(row["cycles"].values()) == result.cycles


def test_long_contractions_are_divided() -> None:
    """Few results: without cutting the contraction most cores would have nothing to do."""
    graph, machine = product(16, 64, 65536, "f32"), wide(16)
    alone, together = (ts.simulate(ts.compile(graph, machine, cores=n)) for n in (1, 16))
    assert alone.cycles / together.cycles > 4
    busy = [row["multiply_adds"] for row in together.cores().rows]
    assert min(busy) == max(busy) == 16 * 64 * 65536 // 16


def test_multicast_fetches_shared_operands_once() -> None:
    """The same cycles or fewer, and less read from memory, where operands that cores share are sent on."""
    graph = product(1024, 1024, 512)
    shared, each = (
        ts.simulate(ts.compile(graph, ts.Machine.load("mesh-16").replace({"network.multicast": flag})))
        for flag in (True, False)
    )
    assert shared.memory_bytes <= each.memory_bytes / 2
    assert shared.cycles < each.cycles
    sent = sum(row["send_bytes"] for row in shared.cores().rows)
    assert sent > 0
    assert ts.verify(ts.compile(graph, "mesh-16")).ok


def test_cores_fetch_for_each_other_in_equal_parts() -> None:
    """Of a grid of cores, none fetches and sends both operands: its port would pass twice as much as others'."""
    result = ts.simulate(ts.compile(product(1024, 1024, 1024), "mesh-16"))
    sent = [row["send_bytes"] for row in result.cores().rows]
    assert sum(sent) > 6 * max(sent)


def test_windows_are_divided_over_all_cores() -> None:
    b = ts.GraphBuilder("pool")
    b.output(b.op("window_reduce", b.input("x", [1, 8, 64, 64]), window=[1, 1, 3, 3], combiner="maximum"), "y")
    graph = b.build()
    alone, together = (ts.simulate(ts.compile(graph, wide(cores))) for cores in (1, 16))
    assert sum(row["load_bytes"] > 0 for row in together.cores().rows) == 16
    assert alone.cycles > 4 * together.cycles


@pytest.mark.parametrize("network", ["simple", "mesh", "crossbar"])
@pytest.mark.parametrize("sizes", [(512, 512, 512), (64, 1024, 512), (1024, 128, 256)])
def test_multicast_never_makes_a_program_slower(network: str, sizes: tuple[int, int, int]) -> None:
    """Routers copy no packets: there every core fetches for itself."""
    graph = product(*sizes)
    machine = ts.Machine.load("mesh-16").replace({"network.kind": network})
    allowed, without = (
        ts.simulate(ts.compile(graph, machine.replace({"network.multicast": flag}))) for flag in (True, False)
    )
    assert allowed.cycles <= 1.02 * without.cycles
    if network != "simple":
        assert sum(row["send_bytes"] for row in allowed.cores().rows) == 0


def test_a_program_of_another_network_says_so() -> None:
    graph = product(256, 4096, 1024)
    program = ts.compile(graph, "mesh-16")
    assert program.sends
    assert not any("multicasts" in text for text in ts.simulate(program).data["approximations"])
    routed = ts.simulate(program, network="mesh")
    assert any("compile for a machine with network.kind=mesh" in text for text in routed.data["approximations"])
    again = ts.simulate(graph, "mesh-16", network="mesh")
    assert again.cycles < routed.cycles


def test_a_signal_to_another_core_takes_the_network() -> None:
    """Kernels follow each other across cores no faster than a message travels."""
    b = ts.GraphBuilder("chain")
    x = b.input("x", [64, 64])
    for i in range(8):
        x = b.apply("relu", x).softmax(-1) if i % 2 else x.softmax(-1)
    b.output(x, "y")
    graph = b.build()
    near, far = (
        ts.simulate(ts.compile(graph, wide(4, **{"network.latency_cycles": latency}))) for latency in (0, 1000)
    )
    kernels = len(far.data["operations"])  # fewer than near each other: each of them waits
    assert far.cycles - near.cycles >= 1000 * (kernels - 1)


@pytest.mark.parametrize("cores", [0, -1, 17, "two", 2.0])
def test_wrong_numbers_of_cores_are_refused(cores: Any) -> None:
    with pytest.raises(ts.UserError, match="cores"):
        ts.compile(product(), "mesh-16", cores=cores)


def test_insertion_order_does_not_matter() -> None:
    program = ts.compile(ts.models.mlp(), "mesh-16")
    hashes = {_core.simulate(program.core, program.machine.core, shuffle_seed=seed).timing_hash() for seed in (0, 1, 2)}
    assert len(hashes) == 1


def two_jobs(contexts: int, scratchpad: str) -> tuple[int, list[int]]:
    """Cycles of a product and of a copy alone, and both submitted at once to one core."""
    machine = wide(1, **{"core.contexts": contexts})
    part = wide(1, **{"core.scratchpad.bytes": scratchpad})
    b = ts.GraphBuilder("stream")
    b.output(b.apply("exp", b.input("x", [2048, 512])), "y")
    programs = [ts.compile(graph, part, mapping="heuristic") for graph in (product(1024, 1024, 512), b.build())]
    alone = [ts.simulate(program, machine).cycles for program in programs]
    session = _core.Session(machine.core)
    jobs = [session.submit(program.core) for program in programs]
    session.run()
    return max(session.finished(job) for job in jobs), alone


def test_jobs_share_a_core_that_has_contexts_for_both() -> None:
    together, alone = two_jobs(2, "1 MiB")
    assert max(alone) <= together < 0.9 * sum(alone)


@pytest.mark.parametrize(("contexts", "scratchpad"), [(1, "1 MiB"), (2, "2 MiB")])
def test_jobs_take_turns_without_a_context_or_scratchpad_for_each(contexts: int, scratchpad: str) -> None:
    together, alone = two_jobs(contexts, scratchpad)
    assert together == sum(alone)


def test_jobs_on_different_chiplets_meet_at_the_link() -> None:
    """A session's placement holds for all of its jobs; each core's own region is not disturbed by the other."""
    machine = ts.Machine.load("chiplet-2")
    program = ts.compile(product(1024, 1024, 1024), machine, cores=1)
    session = _core.Session(machine.core, placement=dict.fromkeys(("a", "b", "y"), "local"))
    jobs = [session.submit(program.core, [core]) for core in (0, 1)]
    session.run()
    result = session.result()
    assert session.finished(jobs[0]) == session.finished(jobs[1])
    assert '"memory_remote_bytes": 0' in result.to_json()
