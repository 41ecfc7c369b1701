"""Many jobs in one session: an ended job leaves a row, whatever memory the chip has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import random_case
from tilesim import _core

JOBS = 3_000
ROW = 1_000
"""Bytes that an ended job may leave, growth of tables by doubling included."""


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def one_after_the_other(session: Any, program: Any, count: int) -> None:
    for _ in range(count):
        session.submit(program, arrival=session.now)
        session.run()


@pytest.mark.parametrize("placement", [None, "local", "interleaved"])
def test_memory_is_flat(placement: str | None) -> None:
    graph = ts.workloads.matmul(16, 16, 16)
    program = ts.compile(graph, "chiplet-2" if placement else "edge-8")
    places = dict.fromkeys(("a", "b", "y"), placement) if placement else {}
    session = _core.Session(program.machine.core, placement=places)
    one_after_the_other(session, program.core, JOBS)
    before = resident()
    one_after_the_other(session, program.core, JOBS)
    assert resident() - before < ROW * JOBS


def test_memory_is_flat_with_banks() -> None:
    """A queue asks for the end of a piece only when its window is full: the last ones of a job are never asked for."""
    program = ts.compile(ts.workloads.matmul(128, 2048, 128), "tpu-v3")
    part = ts.memory.Part.load(program.machine.get("memory.part")).core
    session = _core.Session(program.machine.core, memory="bank", dram=part)
    one_after_the_other(session, program.core, 40)
    before = resident()
    one_after_the_other(session, program.core, 120)
    assert resident() - before < 120 * ROW


def test_tensors_of_ended_jobs_are_one_row_of_the_cache() -> None:
    machine = ts.Machine.load("edge-8").replace(
        {"memory.cache.sets": 64, "memory.cache.ways": 4, "memory.cache.sector": 64}
    )
    program = ts.compile(ts.workloads.matmul(16, 16, 16), machine)

    def rows(count: int) -> list[dict[str, Any]]:
        session = _core.Session(machine.core)
        one_after_the_other(session, program.core, count)
        return json.loads(session.result().to_json())["cache"]["tensors"]

    one, many = rows(1), rows(20)
    assert [row["tensor"] for row in one] == [row["tensor"] for row in many]
    for few, all_of_them in zip(one, many, strict=True):
        assert all_of_them["read_bytes"] == 20 * few["read_bytes"]
        assert all_of_them["written_bytes"] == 20 * few["written_bytes"]
        assert all_of_them["bytes"] == few["bytes"]


def test_a_job_behind_another_takes_what_it_takes_alone() -> None:
    """Bytes of the job before move those of the next one, but not to other channels against each other."""
    for seed in range(200, 240):
        random = np.random.default_rng(seed)
        graph = random_case(random).graph
        before = ts.workloads.softmax(int(random.integers(3, 200)), int(random.integers(9, 200)))
        machine = ts.Machine.load(("mesh-16", "tpu-v3", "edge-8")[seed % 3]).replace({"core.count": 2})
        first, second = (ts.compile(one, machine, cores=1) for one in (before, graph))
        late = ts.Job(second, cores=[1], arrival=1_000_000)
        row = ts.simulate([ts.Job(first, cores=[0]), late]).jobs().rows[1]
        assert row["finish"] == ts.simulate([late]).cycles, (seed, machine.name)
