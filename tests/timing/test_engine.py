"""Time: figures by hand, conservation, independence of insertion order and memory fidelity."""

from __future__ import annotations

import json

import pytest

import tilesim as ts
from tilesim import _core

WORKLOADS = {
    "matmul": lambda: ts.workloads.matmul(512, 512, 512),
    "softmax": lambda: ts.workloads.softmax(256, 512),
    "conv2d": lambda: ts.workloads.conv2d(8, 16, 14, 14, 32, 3, padding=1),
    "attention": lambda: ts.workloads.attention(1, 4, 64, 32),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_unit_states_add_up(name: str) -> None:
    result = ts.simulate(ts.compile(WORKLOADS[name]()))
    for unit in result.data["units"]:
        assert sum(unit["cycles"].values()) == result.cycles
        assert min(unit["cycles"].values()) >= 0
    assert sum(row["exclusive"] for row in result.data["operations"]) == result.cycles


@pytest.mark.parametrize("name", WORKLOADS)
def test_insertion_order_does_not_matter(name: str) -> None:
    program = ts.compile(WORKLOADS[name]())
    assert program.machine is not None
    first = _core.simulate(program.core, program.machine.core).timing_hash()
    for seed in (1, 2, 3):
        again = _core.simulate(program.core, program.machine.core, shuffle_seed=seed, extra_statistic=True)
        assert again.timing_hash() == first


@pytest.mark.parametrize("name", WORKLOADS)
def test_bounds(name: str) -> None:
    graph = WORKLOADS[name]()
    result = ts.simulate(ts.compile(graph))
    assert result.seconds >= ts.roofline(graph, "tpu-v3").seconds
    assert result.memory_bytes >= graph.core.compulsory_bytes()
    assert ts.simulate(ts.compile(graph), memory="ideal").cycles <= result.cycles


def one_load(size: int) -> _core.Program:
    return _core.Program.from_json(
        json.dumps(
            {
                "schema": "tilesim.program",
                "version": 1,
                "tensors": [{"name": "X", "dtype": "f32", "shape": [size], "role": "input"}],
                "slots": [{"name": "x", "dtype": "f32", "elements": size, "depth": 1, "consumers": ["vector"]}],
                "do": [
                    {"acquire": "x", "queues": ["load0"]},
                    {
                        "load": {
                            "tensor": "X",
                            "at": [0],
                            "dims": [{"extent": size, "axis": 0, "stride": 1}],
                            "slot": "x",
                        },
                        "queue": "load0",
                    },
                    {"commit": "x", "queue": "load0"},
                    {"wait": "x", "queue": "vector"},
                    {"release": "x", "queue": "vector"},
                ],
            }
        )
    )


def test_one_transfer_by_hand() -> None:
    # 1 GHz core, one channel of 1 GB/s: a byte takes a cycle. 1024 f32 = 4096 bytes, offered after the network's 10
    # cycles, served in 4096, then 100 ns of memory latency and 10 cycles back: 10 + 4096 + 100 + 10.
    machine = ts.Machine.load("edge-8").replace(
        {
            "core.clock": "1 GHz",
            "network.clock": "1 GHz",
            "network.latency_cycles": 10,
            "network.port_bytes_per_cycle": 4096,
            "core.dma.bytes_per_cycle": 4096,
            "memory.bandwidth": "1 GB/s",
            "memory.efficiency": 1,
            "memory.latency": "100 ns",
            "memory.channels": 1,
        }
    )
    result = _core.simulate(one_load(1024), machine.core)
    assert result.cycles == 10 + 4096 + 100 + 10


def test_more_bandwidth_is_never_slower() -> None:
    program = ts.compile(ts.workloads.softmax(512, 512))
    assert program.machine is not None
    cycles = [
        ts.simulate(program, program.machine.replace({"memory.bandwidth": f"{rate} GB/s"})).cycles
        for rate in (100, 200, 400, 800)
    ]
    assert cycles == sorted(cycles, reverse=True)


def test_two_jobs_on_one_core_follow_each_other() -> None:
    program = ts.compile(ts.workloads.matmul(256, 256, 256))
    assert program.machine is not None
    alone = ts.simulate(program).cycles
    session = _core.Session(program.machine.core)
    first, second = session.submit(program.core), session.submit(program.core, arrival=5)
    assert session.run_until(alone // 2)
    assert session.finished(first) is None
    session.run()
    assert session.finished(first) == alone
    assert session.finished(second) > alone


def test_explain_quotes_its_own_runs() -> None:
    graph = ts.workloads.softmax(512, 1024)
    result = ts.simulate(ts.compile(graph))
    best = next(item for item in result.explain() if item.kind == "machine")
    assert list(best.change) == ["memory.bandwidth"]  # softmax is bound by memory
    changed = ts.Machine.load("tpu-v3").replace(best.change)
    assert best.cycles == ts.simulate(ts.compile(graph, changed)).cycles
    assert best.gain > 1.5
