"""What `explain` quotes is what the changed machine gives under the very options of the call."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.results.advice import changes_to_try
from tilesim.timing.options import SimulateOptions

Case = tuple[ts.Graph, dict[str, Any], dict[str, Any]]  # of compile, of simulate


def ragged(dtype: str, rows: int, groups: int, sizes: list[int]) -> Case:
    b = ts.GraphBuilder("ragged", dtype=dtype)
    x, w, s = b.input("x", [rows, 64]), b.input("w", [groups, 64, 128]), b.input("sizes", [groups], "i32")
    b.output(b.op("ragged_contract", x, w, s), "y")
    return b.build(), {}, {"tensors": {"sizes": np.array(sizes, np.int32)}}


def sliced(dtype: str) -> Case:
    b = ts.GraphBuilder("sliced", dtype=dtype)
    x, s = b.input("x", [64, 128]), b.input("start", [], "i32")
    part = b.op("dynamic_slice", x, s, s, sizes=[16, 64])
    b.output(b.apply("relu", part), "y")
    return b.build(), {}, {"tensors": {"start": np.array(3, np.int32)}}


def hosted(dtype: str) -> Case:
    b = ts.GraphBuilder("hosted", dtype=dtype)
    y = b.op("contract", b.input("x", [64, 96]), b.input("w", [96, 48]), a_contract=[1], b_contract=[0], name="up")
    b.output(b.apply("relu", y, name="act"), "y")
    return b.build(), {"place": {"act": "host"}}, {}


def hosted_ragged(dtype: str) -> Case:
    """A part of the machine reads sizes that are given for the whole."""
    b = ts.GraphBuilder("hosted_ragged", dtype=dtype)
    x, w, s = b.input("x", [96, 64]), b.input("w", [4, 64, 32]), b.input("sizes", [4], "i32")
    b.output(b.apply("relu", b.op("ragged_contract", x, w, s), name="act"), "y")
    return b.build(), {"place": {"act": "host"}}, {"tensors": {"sizes": np.array([93, 1, 1, 1], np.int32)}}


CASES: dict[str, Callable[[str], Case]] = {
    "product": lambda t: (ts.workloads.matmul(96, 80, 64, dtype=t), {}, {}),
    "product, ideal memory": lambda t: (ts.workloads.matmul(96, 80, 64, dtype=t), {}, {"memory": "ideal"}),
    "product, recorded": lambda t: (ts.workloads.matmul(64, 64, 64, dtype=t), {}, {"timeline": True}),
    "product, not replayed": lambda t: (ts.workloads.matmul(64, 96, 64, dtype=t), {}, {"replay": False}),
    "product, one core": lambda t: (ts.workloads.matmul(128, 96, 64, dtype=t), {"cores": 1}, {}),
    "sum": lambda t: (ts.workloads.elementwise("add", 64, 96, dtype=t), {"mapping": "heuristic"}, {}),
    "many products": lambda t: (ts.workloads.matmul(48, 16, 48, dtype=t, batch=2), {"fuse": "none"}, {}),
    "one long group": lambda t: ragged(t, 512, 8, [505, 1, 1, 1, 1, 1, 1, 1]),
    "even groups": lambda t: ragged(t, 512, 8, [64] * 8),
    "slice": sliced,
    "host": hosted,
    "host behind groups": hosted_ragged,
}


DTYPES = {"gemmini-16": "i8", "eyeriss-v2-pe": "i8", "dstc": "f16"}  # what they multiply; all others bf16
# Products by group are of floats.
PAIRS = [(m, name) for m in ts.Machine.names() for name in CASES if DTYPES.get(m) != "i8" or "group" not in name]


def check(machine: ts.Machine, name: str) -> int:
    """Every gain that the result quotes, and how many of them are of a changed machine."""
    graph, compiling, simulating = CASES[name](DTYPES.get(machine.name, "bf16"))
    result = ts.simulate(ts.compile(graph, machine, **compiling), **simulating)
    quoted = result.explain()
    for advice in quoted:
        of_machine = advice.kind == "machine"
        changed = machine.replace(advice.change) if of_machine else machine
        chosen = {} if of_machine else dict(advice.change)
        workload = ts.quantize(graph, chosen.pop("quantize")) if "quantize" in chosen else graph
        again = ts.simulate(ts.compile(workload, changed, **{**compiling, **chosen}), **simulating)
        assert advice.cycles == again.cycles, advice
        assert advice.gain == pytest.approx(result.cycles / again.cycles)
        assert of_machine or (list(advice.change) == [advice.kind] and advice.gain >= 1.01), advice
    assert [item.cycles for item in quoted] == sorted(item.cycles for item in quoted)
    return sum(advice.kind == "machine" for advice in quoted)


#: every machine with a third of the cases, every case on a third of the machines; all of them with -m slow
SOME = [
    pair for i, pair in enumerate(PAIRS) if (ts.Machine.names().index(pair[0]) + list(CASES).index(pair[1])) % 3 == 0
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("machine", "name"), SOME)
def test_gains_are_reproduced(machine: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilesim.results.result.changes_to_try", sampled(changes_to_try, machine + name))
    assert check(ts.Machine.load(machine), name) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "name"), PAIRS)
def test_all_gains_are_reproduced(machine: str, name: str) -> None:
    assert check(ts.Machine.load(machine), name) >= 4


def sampled(changes: Callable[..., Any], seed: str) -> Callable[..., Any]:
    """One of the changes: another for every case."""

    def some(*args: Any) -> Any:
        rng = np.random.default_rng(list(seed.encode()))
        found = changes(*args)
        return [found[i] for i in sorted(rng.permutation(len(found))[:1])]

    return some


def test_one_long_group_gains_what_it_gains() -> None:
    """The case of one expert with 505 of 512 rows, all changes."""
    graph, _, options = ragged("bf16", 512, 8, [505, 1, 1, 1, 1, 1, 1, 1])
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
    assert SimulateOptions(**values).without_recording() == SimulateOptions(**values)
    assert SimulateOptions(**values).of_part(values["tensors"]) == SimulateOptions(**values)


def test_another_program_is_not_put_in_its_place() -> None:
    """What was compiled for another machine, or read, is explained as it is."""
    program = ts.compile(ts.workloads.matmul(96, 80, 64, dtype="bf16"), "tpu-v3")
    other = ts.Machine.load("tpu-v4")
    for advice in ts.simulate(program, other).explain():
        assert advice.cycles == ts.simulate(program, other.replace(advice.change)).cycles


def test_nothing_is_faster_than_nothing() -> None:
    """A program without a kernel takes no time on any machine: as fast, not 0 times as fast."""
    b = ts.GraphBuilder("nothing")
    b.output(b.input("x", [4]), "x")
    result = ts.simulate(ts.compile(b.build(), "edge-8"))
    assert result.cycles == 0
    advice = result.explain()
    assert advice and all(item.gain == 1 and "1.00 times" in repr(item) for item in advice)


def test_options_of_a_run_and_a_sweep() -> None:
    """They reach compile and simulate, the result names them, and wrong ones are told before anything is done."""
    graph = ts.workloads.matmul(64, 64, 64)
    result = ts.run(graph, machine="edge-8", mapping="heuristic", fuse="none", memory="ideal")
    program = ts.compile(graph, "edge-8", mapping="heuristic", fuse="none")
    assert result.cycles == ts.simulate(program, memory="ideal").cycles
    assert result.data["options"] == {"mapping": "heuristic", "fuse": "none", "memory": "ideal"}
    assert "options" not in ts.run(graph, machine="edge-8").data
    (row,) = ts.sweep(graph, "edge-8", mappings=["heuristic"], fuse="none", memory="ideal").rows
    assert row["cycles"] == result.cycles
    for call, word in (
        (lambda: ts.run(graph, maping="cost"), "mapping"),
        (lambda: ts.run(graph, tensors=5), "not a dict of arrays by name"),
        (lambda: ts.sweep(graph, "edge-8", mapping="cost"), "mappings"),
        (lambda: ts.sweep(graph, "edge-8", timeline=True), "timeline"),
        (lambda: ts.estimate(graph), "missing device"),
        (lambda: ts.models.resnet18(batch=0), "batch"),
    ):
        with pytest.raises(ts.UserError, match=word):
            call()
