"""How long DMA transfers take: as the engine says of one alone, queues in order, waits of the front end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support.transfers import descriptor

TURN = """
f: sd a1, 0(a0)
 li t0, 0x800000000
 sd t0, 8(a0)
 mv t1, a0
 ts.move a0, t1, zero, 0
 ts.move.wait a0, 0
 ts.move a0, t1, zero, 1
 ts.move.wait a0, 1
 ret
"""
INSTRUCTIONS = 12  # issue one after the other: more than they take


def there_and_back(elements: int) -> dict[str, Any]:
    """A tile program that loads a row and stores it."""
    part = {"at": [0], "dims": [{"extent": elements, "axis": 0, "stride": 1}], "slot": "a"}
    steps = [
        {"acquire": "a", "queues": ["load0"]},
        {"load": {"tensor": "A", **part}, "queue": "load0"},
        {"commit": "a", "queue": "load0"},
        {"wait": "a", "queue": "store0"},
        {"store": {"tensor": "C", **part}, "queue": "store0"},
        {"release": "a", "queue": "store0"},
    ]
    slot = {"name": "a", "dtype": "f32", "elements": elements, "depth": 1, "address": 0, "consumers": ["store0"]}
    names = (("A", "input"), ("C", "output"))
    tensors = [{"name": name, "dtype": "f32", "shape": [elements], "role": role} for name, role in names]
    return {
        "schema": "tilesim.program", "version": 1, "name": "there and back", "parameters": {}, "tensors": tensors,
        "slots": [slot], "do": steps,
    }  # fmt: skip


@pytest.mark.parametrize("elements", [16, 256, 4096, 32768])
@pytest.mark.parametrize(
    "settings",
    [{}, {"core.dma.issue_cycles": 10, "core.dma.latency_cycles": 25}, {"core.dma.bytes_per_cycle": 8}],
    ids=["preset", "issue", "port"],
)
def test_as_long_as_the_engine_says(settings: dict[str, Any], elements: int, tmp_path: Path) -> None:
    machine = ts.Machine.load("edge-8").replace(settings)
    (tmp_path / "p.json").write_text(json.dumps(there_and_back(elements)))
    theirs = ts.simulate(ts.Program.load(tmp_path / "p.json"), machine).cycles
    x, given = np.zeros(elements, np.float32), descriptor(4, [(elements, 4, 4, 0, elements)])
    ours = isa.call(isa.assemble(TURN), "f", given, x, machine=machine, timed=True)
    assert ours.trap is None and ours.cycles is not None
    # requests in turn are counted in whole ones by the engine
    assert abs(ours.cycles - theirs) <= INSTRUCTIONS + 0.002 * theirs
    for unit, states in ours.stalls.items():
        assert sum(states.values()) == ours.cycles, unit
    waited = ours.stalls["front"]["transfer"]
    assert ours.cycles - INSTRUCTIONS <= waited <= ours.cycles


IDEAL = {"memory.kind": "ideal", "core.dma.issue_cycles": 7, "core.dma.latency_cycles": 40}


def cycles(text: str, machine: ts.Machine, *more: Any, elements: int = 1024) -> tuple[int, Any]:
    code = isa.assemble("f: sd a1, 0(a0)\nli t0, 0x800000000\nsd t0, 8(a0)\nmv t1, a0\n" + text + "\nret")
    x, given = np.zeros(elements, np.float32), descriptor(4, [(elements, 4, 4, 0, elements)])
    result = isa.call(code, "f", given, x, *more, machine=machine, timed=True, returns="i64")
    assert result.trap is None and result.cycles is not None, result
    return result.cycles, result


def test_waits_for_memory_have_their_name() -> None:
    """By hand: what is neither issued nor passed by a queue, up to the last answer, is memory's."""
    machine = ts.Machine.load("edge-8")
    took, result = cycles("ts.move a0, t1, zero, 0\nts.move.wait a0, 0", machine)
    queue = result.stalls["dma0"]
    assert queue["busy"] == 4096 / 32 and queue["memory"] > 0
    assert queue["starved"] <= INSTRUCTIONS and queue["busy"] + queue["memory"] + queue["starved"] == took
    ideal = machine.replace({"memory.kind": "ideal"})
    took, result = cycles("ts.move a0, t1, zero, 0\nts.move.wait a0, 0", ideal)
    assert result.stalls["dma0"]["memory"] <= 1 and result.stalls["dma1"]["starved"] == took
    # behind the answer nothing is waited for
    _, result = cycles(
        "ts.move a0, t1, zero, 0\nts.move.wait a0, 0\nli t2, 200\nw: addi t2, t2, -1\nbnez t2, w", machine
    )
    assert result.stalls["dma0"]["memory"] == queue["memory"] and result.stalls["dma0"]["starved"] >= 200
    # two in turn: each name once for a cycle
    took, result = cycles("ts.move a0, t1, zero, 0\nts.move a0, t1, zero, 0\nts.move.wait a0, 0", machine)
    assert sum(result.stalls["dma0"].values()) == took and result.stalls["dma0"]["busy"] == 2 * 4096 / 32


def test_queues_in_order_and_beside_each_other() -> None:
    """By hand, 4,096 bytes at 32 a cycle: 7 + 128 cycles of a queue, the end 40 later; two queues work side by side."""
    machine = ts.Machine.load("edge-8").replace({**IDEAL, "core.dma.load_queues": 2})
    one, alone = cycles("ts.move a0, t1, zero, 0", machine)
    assert alone.stalls["dma0"]["busy"] == 7 + 128 and alone.stalls["dma1"]["busy"] == 0
    assert 7 + 128 + 40 <= one <= 7 + 128 + 40 + INSTRUCTIONS
    in_turn, _ = cycles("ts.move a0, t1, zero, 0\nts.move a0, t1, zero, 0", machine)
    assert in_turn - one == 7 + 128
    beside, _ = cycles("ts.move a0, t1, zero, 0\nts.move a0, t1, zero, 1", machine)
    assert beside - one in (0, 1)  # the second issues a cycle later at most


def test_work_between_a_move_and_its_wait_is_hidden() -> None:
    machine = ts.Machine.load("edge-8").replace(IDEAL)
    work = "li t2, 20\nw: addi t2, t2, -1\nbnez t2, w\n"
    alone, _ = cycles(work, machine)
    moved, _ = cycles("ts.move a0, t1, zero, 0\nts.move.wait a0, 0", machine)
    both, result = cycles(f"ts.move a0, t1, zero, 0\n{work}ts.move.wait a0, 0", machine)
    assert both <= moved + 2 < moved + alone
    assert result.stalls["front"]["transfer"] > 0


def test_all_of_a_queue_are_waited_for() -> None:
    machine = ts.Machine.load("edge-8").replace({**IDEAL, "core.dma.load_queues": 2})
    two = "ts.move a0, t1, zero, 0\nts.move a2, t1, zero, 0\n"
    last, _ = cycles(two + "ts.move.wait a2, 0\nrdcycle a0", machine)
    all_of, _ = cycles(two + "ts.move.wait zero, 0\nrdcycle a0", machine)
    other, result = cycles(two + "ts.move.wait zero, 1\nrdcycle a0", machine)
    assert all_of == last
    assert result.stalls["front"]["transfer"] == 0  # nothing waits there, but the run ends as late
    assert 0 <= last - other <= INSTRUCTIONS


def test_done_by_time_and_at_once() -> None:
    """A timed run says so when the transfer is over, a functional one at once."""
    text = "ts.move a0, t1, zero, 0\nts.move.done a3, a0, 0\nts.move.wait a0, 0\nts.move.done a4, a0, 0\n"
    text += "slli a3, a3, 1\nor a0, a3, a4"
    machine = ts.Machine.load("edge-8").replace(IDEAL)
    _, result = cycles(text, machine)
    assert result.value == 1
    code = isa.assemble("f: sd a1, 0(a0)\nli t0, 0x800000000\nsd t0, 8(a0)\nmv t1, a0\n" + text + "\nret")
    x, given = np.zeros(4, np.float32), descriptor(4, [(4, 4, 4, 0, 4)])
    assert isa.call(code, "f", given, x, machine=machine, returns="i64").value == 3


def test_a_full_queue_holds_the_front_end() -> None:
    def waited(entries: int) -> Any:
        machine = ts.Machine.load("edge-8").replace({**IDEAL, "core.dma.queue_entries": entries})
        _, result = cycles("ts.move a0, t1, zero, 0\n" * 3, machine)
        return result.stalls["front"]["queue"]

    # the first begins at once and the second is at the head: with one entry the third waits until the second begins
    assert waited(2) == 0 and 120 < waited(1) <= 135


def test_only_what_lies_in_the_tensor_takes_time() -> None:
    """All fill costs the issue; half of it inside half of the bytes."""
    machine = ts.Machine.load("edge-8").replace(IDEAL)

    def busy(first: int) -> float:
        x = np.zeros(1024, np.float32)
        given = descriptor(4, [(1024, 4, 4, first, 1024)], flags=1)
        code = isa.assemble(TURN.replace("ts.move a0, t1, zero, 1\n ts.move.wait a0, 1\n", ""))
        result = isa.call(code, "f", given, x, machine=machine, timed=True)
        assert result.trap is None
        return float(result.stalls["dma0"]["busy"])

    assert [busy(first) for first in (0, -512, -1024)] == [7 + 128, 7 + 64, 7]
