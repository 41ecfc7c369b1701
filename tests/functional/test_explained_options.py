"""What `explain` quotes is what the changed machine gives under the very options of the call."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim._options import SimulateOptions

Case = tuple[ts.Graph, dict[str, Any], dict[str, Any]]  # of compile, of simulate


def ragged(rows: int, groups: int, sizes: list[int]) -> Case:
    b = ts.GraphBuilder("ragged", dtype="bf16")
    x, w, s = b.input("x", [rows, 64]), b.input("w", [groups, 64, 128]), b.input("sizes", [groups], "i32")
    b.output(b.op("ragged_contract", x, w, s), "y")
    return b.build(), {}, {"tensors": {"sizes": np.array(sizes, np.int32)}}


def sliced() -> Case:
    b = ts.GraphBuilder("sliced", dtype="bf16")
    x, s = b.input("x", [64, 128]), b.input("start", [], "i32")
    part = b.op("dynamic_slice", x, s, s, sizes=[16, 64])
    b.output(b.apply("relu", part), "y")
    return b.build(), {}, {"tensors": {"start": np.array(3, np.int32)}}


def hosted() -> Case:
    b = ts.GraphBuilder("hosted", dtype="bf16")
    y = b.linear(b.input("x", [64, 96]), 48, name="up")
    b.output(b.apply("relu", y, name="act"), "y")
    return b.build(), {"place": {"act": "host"}}, {}


def hosted_ragged() -> Case:
    """A part of the machine reads sizes that are given for the whole."""
    b = ts.GraphBuilder("hosted_ragged", dtype="bf16")
    x, w, s = b.input("x", [96, 64]), b.input("w", [4, 64, 32]), b.input("sizes", [4], "i32")
    b.output(b.apply("relu", b.op("ragged_contract", x, w, s), name="act"), "y")
    return b.build(), {"place": {"act": "host"}}, {"tensors": {"sizes": np.array([93, 1, 1, 1], np.int32)}}


CASES: dict[str, Callable[[], Case]] = {
    "product": lambda: (ts.workloads.matmul(96, 80, 64, "bf16"), {}, {}),
    "product, ideal memory": lambda: (ts.workloads.matmul(96, 80, 64, "bf16"), {}, {"memory": "ideal"}),
    "product, recorded": lambda: (ts.workloads.matmul(64, 64, 64, "bf16"), {}, {"timeline": True}),
    "product, not replayed": lambda: (ts.workloads.matmul(64, 96, 64, "bf16"), {}, {"replay": False}),
    "product, one core": lambda: (ts.workloads.matmul(128, 96, 64, "bf16"), {"cores": 1}, {}),
    "softmax": lambda: (ts.workloads.softmax(64, 96, dtype="bf16"), {"mapping": "heuristic"}, {}),
    "attention": lambda: (ts.workloads.attention(1, 2, 48, 16, dtype="bf16"), {"fuse": "none"}, {}),
    "one long group": lambda: ragged(512, 8, [505, 1, 1, 1, 1, 1, 1, 1]),
    "even groups": lambda: ragged(512, 8, [64] * 8),
    "slice": sliced,
    "host": hosted,
    "host behind groups": hosted_ragged,
}


@pytest.fixture(params=[name for name in ts.Machine.names() if name != "gemmini-16"])
def machine(request: pytest.FixtureRequest) -> ts.Machine:
    return ts.Machine.load(request.param)


@pytest.mark.parametrize("name", CASES)
def test_gains_are_reproduced(machine: ts.Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, compiling, simulating = CASES[name]()
    monkeypatch.setattr("tilesim.result.changes_to_try", sampled(ts.result.changes_to_try, machine.name + name))
    result = ts.simulate(ts.compile(graph, machine, **compiling), **simulating)
    for advice in result.explain():
        changed = machine.replace(advice.change)
        again = ts.simulate(ts.compile(graph, changed, **compiling), **simulating)
        assert advice.cycles == again.cycles, advice
        assert advice.gain == pytest.approx(result.cycles / again.cycles)


def sampled(changes: Callable[..., Any], seed: str) -> Callable[..., Any]:
    """Two of the changes: another two for every case."""

    def some(*args: Any) -> Any:
        rng = np.random.default_rng(list(seed.encode()))
        found = changes(*args)
        return [found[i] for i in sorted(rng.permutation(len(found))[:2])]

    return some


def test_one_long_group_gains_what_it_gains() -> None:
    """The case of one expert with 505 of 512 rows, all changes."""
    graph, _, options = ragged(512, 8, [505, 1, 1, 1, 1, 1, 1, 1])
    program = ts.compile(graph, "tpu-v3")
    result = ts.simulate(program, **options)
    assert result.cycles != ts.simulate(program).cycles
    for advice in result.explain():
        changed = ts.Machine.load("tpu-v3").replace(advice.change)
        assert advice.cycles == ts.simulate(ts.compile(graph, changed), **options).cycles


def test_no_argument_is_left_out() -> None:
    """Whatever `simulate` takes beside program and machine is in the value that travels."""
    arguments = set(inspect.signature(ts.simulate).parameters) - {"program", "machine"}
    fields = {field.name for field in dataclasses.fields(SimulateOptions)}
    assert arguments == fields
    values: dict[str, Any] = {name: object() for name in fields} | {"timeline": False, "replay": False}
    assert SimulateOptions(**values).again() == SimulateOptions(**values)
    assert SimulateOptions(**values).of_part(values["tensors"]) == SimulateOptions(**values)
