"""Chips with cores of several sorts: the file, programs per sort at once, one program over all, clocks, mistakes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.timing import execution

LITTLE = {
    "array": {"rows": 32, "columns": 32},
    "vector": {"lanes": 32},
    "scratchpad": {"bytes": "512 KiB"},
    "dma": {"bytes_per_cycle": 32},
}


def chip(big: int = 2, little: int = 2, clock: str = "1 GHz", **changes: Any) -> ts.Machine:
    """mesh-16's cores beside smaller ones, memory out of the way."""
    cores = [
        {"sort": "big", "count": big},
        {"sort": "little", "count": little, "core": LITTLE | {"clock": clock}},
    ]
    changes = {"network.multicast": False, "memory.bandwidth": "4096 GB/s"} | changes
    return ts.Machine.load("mesh-16").replace({"cores": cores} | changes)


def product(size: int = 512) -> ts.Graph:
    return ts.workloads.matmul(size, size, size, dtype="bf16")


def opaque(cycles: int) -> _core.Program:
    """One operation of so many cycles of its core."""
    program = {
        "schema": "tilesim.program", "version": 1, "name": "wait", "cores": 1, "tensors": [], "slots": [],
        "do": 3 * [{"opaque": {"target": "wait", "cycles": cycles, "reads": [], "writes": []}, "queue": "unit"}],
    }  # fmt: skip
    return _core.Program.from_json(json.dumps(program))


def test_a_file_reads_back() -> None:
    machine = chip(1, 3)
    assert machine.sorts == {"big": [0], "little": [1, 2, 3]}
    assert machine.get("core.count") == 4
    again = ts.Machine.load(machine.to_dict())
    assert again.to_dict() == machine.to_dict()
    assert again.core.hash() == machine.core.hash() != ts.Machine.load("mesh-16").core.hash()
    little = machine.only("little")
    assert (little.get("core.array.rows"), little.get("core.count"), little.sorts) == (32, 3, {})
    assert machine.only("big").get("core.array.rows") == 64
    wider = machine.replace({"cores.little.core.array.rows": 16, "cores.big.count": 2, "core.array.rows": 128})
    assert wider.only("little").get("core.array.rows") == 16
    assert (wider.only("big").get("core.array.rows"), wider.get("core.count")) == (128, 5)
    flops = machine.core.device()["matrix_flops_per_second"]["bf16"]
    assert flops == 2 * 1e9 * (64 * 64 + 3 * 32 * 32)


@pytest.mark.parametrize("sort", ["big", "little"])
def test_a_program_of_one_sort_is_that_of_a_chip_with_these_cores_alone(sort: str) -> None:
    machine, graph = chip(), product(256)
    alone = ts.compile(graph, machine.only(sort))
    program = ts.compile(graph, machine, sort=sort)
    assert program.core.to_json() == alone.core.to_json()
    assert ts.verify(program).ok
    result = ts.simulate(program)
    assert [row["core"] for row in result.cores().rows] == machine.sorts[sort]
    assert {row["sort"] for row in result.cores().rows} == {sort}
    assert result.cycles == ts.simulate(alone).cycles


def test_jobs_on_both_sorts_run_at_once_and_share_the_memory() -> None:
    """Out of each other's way each takes its own time; behind a narrow memory both take as long as all bytes."""
    graph, wide = product(), chip(1, 1, **{"memory.bandwidth": "65536 GB/s"})
    programs = [ts.compile(graph, wide, sort=sort) for sort in ("big", "little")]
    alone = [ts.simulate(program).cycles for program in programs]
    assert alone[1] > 2 * alone[0]
    together = ts.simulate([ts.Job(program) for program in programs], wide)
    finished = [row["finish"] for row in together.jobs().rows]
    assert finished == pytest.approx(alone, rel=0.01)
    assert [row["cores"] for row in together.jobs().rows] == [[0], [1]]
    assert together.cycles == max(finished)
    narrow = wide.replace({"memory.bandwidth": "8 GB/s"})
    programs = [ts.compile(graph, narrow, sort=sort) for sort in ("big", "little")]
    slowed = ts.simulate([ts.Job(program) for program in programs], narrow)
    assert slowed.cycles >= slowed.memory_bytes / 8 / 0.9
    assert slowed.cycles > 1.2 * max(ts.simulate(program).cycles for program in programs)


def test_a_later_job_waits_for_its_arrival() -> None:
    machine = chip(1, 1)
    program = ts.compile(product(256), machine, sort="little")
    alone = ts.simulate(program).cycles
    first, second = ts.simulate([ts.Job(program), ts.Job(program, arrival=3 * alone)], machine).jobs().rows
    assert (first["finish"], second["start"], second["finish"]) == (alone, 3 * alone, 4 * alone)


@pytest.mark.parametrize(("clock", "cycles", "expected"), [("1 GHz", 10, 30), ("500 MHz", 10, 60), ("300 MHz", 7, 70)])
def test_cycles_of_a_slower_core_last_longer_and_add_up_exactly(clock: str, cycles: int, expected: int) -> None:
    machine = chip(1, 1, clock)
    program = ts.Program(opaque(cycles), None, machine)
    assert ts.simulate([ts.Job(program, cores=[0])], machine).cycles == 3 * cycles
    assert ts.simulate([ts.Job(program, cores=[1])], machine).cycles == expected


@pytest.mark.parametrize("big, little", [(1, 1), (2, 2), (1, 4), (4, 1)])
def test_one_program_over_both_sorts_equals_the_reference(big: int, little: int) -> None:
    b = ts.GraphBuilder("block")
    x = b.input("x", [200, 256], "bf16")
    hidden = b.apply("relu", b.linear(x, 384, name="up", bias=False))
    b.output(b.linear(hidden, 256, name="down", bias=False).softmax(-1), "y")
    machine = chip(big, little)
    program = ts.compile(b.build(), machine)
    assert program.cores == big + little
    assert ts.verify(program).ok
    arrays = execution._arrays(program, None, 0)
    text = _core.execute(program.core, arrays, find_races=True)
    shuffled = _core.execute(program.core, arrays, order="random", seed=3)
    assert all(np.array_equal(text[name], value) for name, value in shuffled.items())
    work = sum(row["multiply_adds"] for row in ts.simulate(program).cores().rows)
    assert work == 2 * 200 * 256 * 384


@pytest.mark.parametrize("little", [1, 4, 8])
def test_little_cores_help_and_are_given_their_share(little: int) -> None:
    """Never slower than the big ones alone where scratchpads are equal; the ideal is the sum of the arrays."""
    machine, graph = chip(2, little, **{"cores.little.core.scratchpad.bytes": "2 MiB"}), product(1024)
    both = ts.simulate(ts.compile(graph, machine))
    alone = ts.simulate(ts.compile(graph, machine, sort="big"))
    assert both.cycles <= 1.02 * alone.cycles
    ideal = 1024**3 / (2 * 64 * 64 + little * 32 * 32)
    assert both.cycles >= ideal
    if little > 1:
        assert both.cycles < 0.95 * alone.cycles
        work: dict[str, list[float]] = {"big": [], "little": []}
        for row in both.cores().rows:
            work[row["sort"]].append(row["multiply_adds"])
        assert 2 < max(work["big"]) / max(work["little"]) < 8  # arrays of 4 to 1


def test_rings_of_a_program_must_fit_the_core_that_runs_it() -> None:
    machine = chip(1, 1)
    program = ts.compile(product(1024), machine, sort="big")
    with pytest.raises(ts.UserError, match=r"scratchpad of one of its cores.*core 1 \(little\)"):
        ts.simulate([ts.Job(program, cores=[1])], machine)


def mistakes() -> list[tuple[Any, str]]:
    big = {"sort": "big", "count": 1}
    return [
        ([], "no cores"),
        ([big, big], "two core types have one name"),
        ([{"sort": "big"}], "count"),
        ([big | {"count": 0}], "1 to 1024"),
        ([big | {"cost": 1}], "cost"),
        ([big | {"core": {"array": {"row": 3}}}], r"core\.array\.rows"),
        ([big | {"core": {"count": 3}}], "beside"),
        ([big | {"core": {"clock": "2 GHz"}}], "faster than core.clock"),
        ([big | {"core": {"array": {"rows": 0}}}], "1 to 65536"),
        ([{"sort": "a.b", "count": 1}], "name of a core type"),
    ]


@pytest.mark.parametrize(("cores", "text"), mistakes())
def test_wrong_sorts_are_refused(cores: Any, text: str) -> None:
    machine = ts.Machine.load("mesh-16")
    with pytest.raises(ts.UserError, match=text):
        machine.replace({"cores": cores})
    whole = machine.to_dict() | {"cores": cores}
    del whole["core"]["count"]
    with pytest.raises(ts.UserError, match=text):
        ts.Machine.load(whole)


def test_wrong_uses_of_sorts_are_refused() -> None:
    machine = chip()
    with pytest.raises(ts.UserError, match=r"cores\.big\.count"):
        machine.replace({"core.count": 3})
    with pytest.raises(ts.UserError, match="big, little"):
        ts.compile(product(64), machine, sort="tiny")
    with pytest.raises(ts.UserError, match="all cores are alike"):
        ts.compile(product(64), "mesh-16", sort="big")
    with pytest.raises(ts.Unsupported, match=r"core\.array\.multiply.*sort="):
        ts.compile(product(64), machine.replace({"cores.little.core.array.multiply": "bf16"}))
    whole = machine.to_dict()
    whole["core"]["count"] = 3
    with pytest.raises(ts.UserError, match="number of cores"):
        ts.Machine.load(whole)
    program = ts.compile(product(64), machine, sort="little")
    with pytest.raises(ts.UserError, match="type"):
        ts.simulate(program, "mesh-16")
    with pytest.raises(ts.UserError, match=r"ts\.Job"):
        ts.simulate([])


def test_kept_latencies_are_those_of_each_sort() -> None:
    """A second run finds everything; a sort's latencies are those of a machine of that sort alone."""
    machine, store = chip(), ts.TileLatencies()
    program = ts.compile(ts.workloads.softmax(512, 256), machine)
    first, second = (ts.simulate(program, machine, latencies=store) for _ in range(2))
    assert first.cycles == second.cycles == ts.simulate(program, machine).cycles
    assert first.data["tile_latencies"]["added"] > 0
    assert second.data["tile_latencies"]["misses"] == 0 < second.data["tile_latencies"]["hits"]
    own = {
        sort: {row["compute"]: row["busy"] for row in store.table(machine.only(sort)).rows} for sort in machine.sorts
    }
    assert all(own.values())
    assert any(own["big"][compute] != own["little"][compute] for compute in set(own["big"]) & set(own["little"]))


def test_a_compiled_file_keeps_the_sort(tmp_path: Any) -> None:
    program = ts.compile(product(64), chip(), sort="little")
    program.save(tmp_path / "p.tsim")
    again = ts.Program.load(tmp_path / "p.tsim")
    assert again.sort == "little"
    assert ts.simulate(again).cycles == ts.simulate(program).cycles


def test_a_narrow_engine_of_one_sort_is_what_binds() -> None:
    thin = {"sort": "thin", "count": 1, "core": {"dma": {"bytes_per_cycle": 2}}}
    machine = ts.Machine.load("mesh-16").replace({"cores": [{"sort": "big", "count": 1}, thin]})
    result = ts.simulate(ts.compile(ts.workloads.softmax(512, 512), machine, sort="thin"))
    assert result.cycles >= 512 * 512 * 4 / 2  # loads through two bytes a cycle
    assert result.bottleneck == "dma"
    assert {row["bound"] for row in result.data["operations"]} == {"dma"}
