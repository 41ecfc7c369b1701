"""Waits, commits, releases, acquires, receives and signals that stand twice, too late, or ask for too little: reported,
or harmless."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.hand_programs import CASES, load
from support.program_checks import arrays_of
from tilesim import _core

Inputs = dict[str, Any]

LOWERED: dict[str, Callable[[], ts.Program]] = {
    "product": lambda: ts.compile(ts.workloads.matmul(20, 24, 150), "edge-8"),
    "product on four arrays": lambda: ts.compile(ts.workloads.matmul(70, 40, 60, dtype="i8"), "mesh-16", cores=2),
    "softmax": lambda: ts.compile(ts.workloads.softmax(12, 40), "tpu-v3"),
    "attention": lambda: ts.compile(ts.workloads.attention(1, 2, 20, 8, causal=True), "edge-8"),
    "convolution": lambda: ts.compile(ts.workloads.conv2d(1, 3, 6, 6, 4, 3, padding=1), "tpu-v3"),
}


def silent(program: Any, inputs: Inputs, change: str, orders: int) -> tuple[int, list[str]]:
    """Changed programs in all, and those that pass the search for races but fail, or give other bits, in an order."""
    wanted = _core.execute(program, inputs)
    changed = _core.mutants(program, change)
    bad = []
    for mutant, what in changed:
        try:
            _core.execute(mutant, inputs, find_races=True)
        except ts.UserError:
            continue
        for order, seed in [("early_loads", 0), *(("random", seed) for seed in range(orders))]:
            try:
                outputs = _core.execute(mutant, inputs, order=order, seed=seed)
            except ts.UserError as error:
                bad.append(f"{what}, {order} {seed}: {error}")
                break
            if any(wanted[key].tobytes() != outputs[key].tobytes() for key in wanted):
                bad.append(f"{what}, {order} {seed}: other bits")
                break
    return len(changed), bad


@pytest.mark.singly
@pytest.mark.parametrize("change", ["repeat", "delay", "fewer"])
@pytest.mark.parametrize("name", CASES)
def test_programs_written_by_hand(name: str, change: str) -> None:
    inputs, _, _ = CASES[name]()
    count, bad = silent(load(name), inputs, change, orders=6)
    assert count >= 3 and bad == []


@pytest.mark.singly
@pytest.mark.parametrize("change", ["repeat", "delay", "fewer"])
@pytest.mark.parametrize("name", LOWERED)
def test_lowerings(name: str, change: str) -> None:
    program = LOWERED[name]()
    count, bad = silent(program.core, arrays_of(program), change, orders=4)
    assert count >= 2 and bad == []


@pytest.mark.parametrize("name", CASES)
def test_a_repeated_commit_or_release_is_reported(name: str) -> None:
    """Neither is ever redundant: a piece more, or a consumer less, than the program's readers wait for."""
    inputs, _, _ = CASES[name]()
    for mutant, what in _core.mutants(load(name), "repeat"):
        if what.startswith(("commit", "release", "acquire")):
            with pytest.raises(ts.UserError):
                _core.execute(mutant, inputs, find_races=True)
            print(what)


def through_memory(cells: bool) -> Any:
    """Two pieces go to memory and come back; each way back waits for a count, of one counter or of a cell each."""

    def moved(what: str, tensor: str, piece: int, slot: str, queue: str) -> dict[str, Any]:
        dims = [{"extent": 4, "axis": 0, "stride": 1}]
        return {what: {"tensor": tensor, "at": [4 * piece], "dims": dims, "slot": slot}, "queue": queue}

    body: list[dict[str, Any]] = []
    for piece in range(2):
        cell = piece if cells else 0
        body += [{"acquire": "a", "queues": ["load0"]}, moved("load", "x", piece, "a", "load0")]
        body += [{"commit": "a", "queue": "load0"}, {"wait": "a", "queue": "store0"}]
        body += [moved("store", "t", piece, "a", "store0") | {"signals": "c", "signals_index": cell}]
        body += [{"release": "a", "queue": "store0"}]
        count = 1 if cells else piece + 1
        body += [{"wait_counter": "c", "index": cell, "pieces": count, "queue": "load1"}]
        body += [{"acquire": "b", "queues": ["load1"]}, moved("load", "t", piece, "b", "load1")]
        body += [{"commit": "b", "queue": "load1"}, {"wait": "b", "queue": "store1"}]
        body += [moved("store", "y", piece, "b", "store1"), {"release": "b", "queue": "store1"}]
    tensors = [{"name": n, "dtype": "f32", "shape": [8], "role": r} for n, r in zip("xty", ROLES, strict=True)]
    slots = [
        {"name": slot, "dtype": "f32", "elements": 4, "depth": 2, "address": 4096 * i, "consumers": [f"store{i}"]}
        for i, slot in enumerate("ab")
    ]
    document = {"schema": "tilesim.program", "version": 1, "name": "back", "machine": "", "parameters": {}}
    document |= {"cores": 1, "contexts": 1, "tensors": tensors, "counters": [{"name": "c", "size": 2}]}
    return _core.Program.from_json(json.dumps(document | {"slots": slots, "functions": [], "do": body}))


ROLES = ("input", "temporary", "output")


def test_a_later_signal_may_stand_for_an_earlier_one() -> None:
    """Stores complete in any order: the first wait may count the second store."""
    inputs = {"x": np.arange(8, dtype=np.float32)}
    with pytest.raises(ts.UserError, match="instead of"):
        _core.execute(through_memory(cells=False), inputs, find_races=True)
    right = through_memory(cells=True)
    np.testing.assert_array_equal(_core.execute(right, inputs, find_races=True)["y"], inputs["x"])
    for seed in range(20):
        np.testing.assert_array_equal(_core.execute(right, inputs, order="random", seed=seed)["y"], inputs["x"])
