"""Damaged files of every kind: refused with a message, or read; never a crash, a hang or a huge allocation."""

from __future__ import annotations

import collections
import copy
import faulthandler
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilesim as ts
from support.mutate import damage_tree, damaged
from support.program_checks import limited_memory
from tilesim import _core

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "functional"))
from test_programs import CASES as PROGRAMS
from test_programs import FOLDER

TESTS = Path(__file__).resolve().parents[1]
SECONDS = 5.0  # of process time for one file: far above what any takes
HANG = 300.0  # of wall time, generous for a loaded machine: the whole run is stopped with a traceback


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """Memory without end fails as MemoryError; a hang stops the run and shows where."""
    with limited_memory():
        yield
        faulthandler.cancel_dump_traceback_later()


def use_graph(text: str) -> None:
    graph = ts.Graph.from_json(text)
    graph.core.flops()
    graph.core.compulsory_bytes()
    ts.compile(graph, "edge-8")


def use_machine(text: str) -> None:
    machine = ts.Machine(_core.Machine.from_json(text, "fuzzed"))
    assert ts.Machine.load(machine.to_dict()).core.hash() == machine.core.hash()
    dtypes = sorted(machine.core.device()["matrix_flops_per_second"])
    ts.simulate(ts.compile(ts.workloads.matmul(20, 20, 20, dtype=dtypes[0] if dtypes else "f32"), machine))


def use_program(text: str) -> None:
    program = _core.Program.from_json(text, "fuzzed")
    program.check()
    program.tensors()
    program.to_json()


def use_result(text: str) -> None:
    result = _core.Result.from_json(text)
    result.timing_hash()
    assert _core.Result.from_json(result.to_json()).to_json() == result.to_json()


def use_part(text: str) -> None:
    part = _core.DramPart.from_json(text, "fuzzed")
    assert _core.DramPart.from_json(part.to_json()).hash() == part.hash()
    ts.memory.run(json.loads(text), "random_read", requests=20, inject_every=50)


def use_network(text: str) -> None:
    net = _core.NetworkTopology.from_json(text, "fuzzed")
    _core.measure_network(net, _core.NetworkRouter(), "neighbor", 0.1, 1, 1, 20, 1, 3)


def graphs() -> list[str]:
    made = [
        ts.workloads.softmax(4, 8),
        ts.workloads.conv2d(2, 3, 6, 6, 4, 3, padding=1),
        ts.workloads.attention(1, 2, 8, 4),
        ts.workloads.layer_norm(4, 8),
        ts.models.mlp(),
    ]
    return [graph.to_json() for graph in made]


def machines() -> list[str]:
    return [json.dumps(ts.Machine.load(name).to_dict(), indent=1) for name in ("edge-8", "tpu-v3", "gemmini-16")]


def programs() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((TESTS / "programs").glob("*.json"))]


def results() -> list[str]:
    return [json.dumps(ts.simulate(ts.compile(ts.workloads.softmax(4, 8)), timeline=True).data)]


def parts() -> list[str]:
    return [json.dumps(ts.memory.Part.load(name).to_dict()) for name in ("HBM2-2000", "DDR4-3200")]


def networks() -> list[str]:
    star = [{"between": [0, leaf], "latency": 3} for leaf in (1, 2, 3)]
    network = {"schema": "tilesim.network", "version": 1, "name": "star", "routers": 4, "nodes": [1, 2, 3]}
    return [json.dumps({**network, "links": star}), json.dumps({**network, "links": star, "root": 2})]


KINDS: dict[str, tuple[Callable[[], list[str]], Callable[[str], None]]] = {
    "graph": (graphs, use_graph),
    "machine": (machines, use_machine),
    "program": (programs, use_program),
    "result": (results, use_result),
    "DRAM part": (parts, use_part),
    "network": (networks, use_network),
}


def fuzz(kind: str, rounds: int) -> dict[str, int]:
    """Outcomes by name, over so many damaged files."""
    make, use = KINDS[kind]
    texts = make()
    for text in texts:
        use(text)  # undamaged
    outcomes: dict[str, int] = {"read": 0, "refused": 0}

    @settings(max_examples=rounds, deadline=None, derandomize=True, database=None, suppress_health_check=HealthCheck)
    @given(st.integers(0, 2**48))
    def one(seed: int) -> None:
        choose = random.Random(seed)
        text = damaged(choose.choice(texts), choose)
        faulthandler.dump_traceback_later(HANG, exit=True)
        start = time.process_time()
        try:
            use(text)
            outcomes["read"] += 1
        except ts.UserError as error:
            assert str(error).strip()
            outcomes["refused"] += 1
        assert time.process_time() - start < SECONDS

    one()
    return outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(kind: str) -> None:
    outcomes = fuzz(kind, 300)
    print(kind, outcomes)
    assert outcomes["refused"] >= 100
    assert outcomes["read"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_files(kind: str) -> None:
    print(kind, fuzz(kind, 20000))


def run(rounds: int) -> dict[str, int]:
    """Damaged programs that the checker accepts, executed and simulated, each for a second at most."""
    chip = ts.Machine.load("tpu-v3").replace({"core.count": 2, "core.dma.load_queues": 2, "layout.tile": []})
    documents = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in PROGRAMS}
    inputs = {name: make()[0] for name, make in PROGRAMS.items()}
    outcomes: dict[str, int] = collections.Counter()

    @settings(max_examples=rounds, deadline=None, derandomize=True, database=None, suppress_health_check=HealthCheck)
    @given(st.integers(0, 2**48))
    def one(seed: int) -> None:
        choose = random.Random(seed)
        name = choose.choice(sorted(documents))
        document = copy.deepcopy(documents[name])
        damage_tree(document, choose)
        given_arrays = inputs[name]
        faulthandler.dump_traceback_later(HANG, exit=True)
        try:
            made = _core.Program.from_json(json.dumps(document))
            made.check()
        except ts.UserError:
            outcomes["refused"] += 1
            return
        for call in (
            lambda: _core.execute(made, given_arrays, find_races=True),
            lambda: _core.execute(made, given_arrays, order="random", seed=seed % 1000),
            lambda: _core.simulate(made, chip.core, tensors=given_arrays),
        ):
            signal.setitimer(signal.ITIMER_PROF, 1)
            try:
                call()
                outcomes["ran"] += 1
            except ts.UserError:
                outcomes["stopped"] += 1
            except (KeyboardInterrupt, MemoryError):  # a legal program, but long or large
                outcomes["long or large"] += 1
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)

    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    try:
        one()
    finally:
        signal.signal(signal.SIGPROF, before)
    return outcomes


def test_damaged_programs_run_or_stop() -> None:
    outcomes = run(300)
    print(outcomes)
    assert min(outcomes["refused"], outcomes["ran"], outcomes["stopped"]) >= 20


@pytest.mark.slow
def test_many_damaged_programs_run_or_stop() -> None:
    print(run(20000))


def program(**parts: Any) -> _core.Program:
    base = {"schema": "tilesim.program", "version": 1, "tensors": [], "slots": [], "do": []}
    return _core.Program.from_json(json.dumps({**base, **parts}))


def slot(**parts: Any) -> dict[str, Any]:
    return {"name": "s", "dtype": "f32", "elements": 1, "consumers": ["vector"], **parts}


def opaque(cycles: int) -> dict[str, Any]:
    return {"opaque": {"target": "unit", "cycles": cycles, "reads": [], "writes": []}, "queue": "unit"}


NOTHING = {"for": "j", "extent": 2**40, "do": [{"if": "0", "then": [opaque(1)]}]}
NESTED = [{"name": f"f{i}", "do": [{"call": f"f{i + 1}"}, {"call": f"f{i + 1}"}]} for i in range(50)]
CHAIN = [{"name": f"f{i}", "do": [{"call": f"f{i + 1}"}]} for i in range(20000)]
HUGE: dict[str, dict[str, Any]] = {
    "counters": {"counters": [{"name": "c", "size": 2**30}]},
    "counters of many cores": {"cores": 4096, "counters": [{"name": "c", "size": 2**20}]},
    "cores": {"cores": 2**20},
    "contexts": {"cores": 2**20, "contexts": 64},
    "buffers": {"cores": 4096, "slots": [slot(depth=2**20)]},
    "buffers of a scope": {"cores": 4096, "do": [{"scope": "k", "slots": [slot(depth=2**20)], "do": []}]},
    "elements": {"slots": [slot(elements=2**40, depth=2**20)]},
    "tensor": {"tensors": [{"name": "t", "dtype": "f32", "shape": [2**40, 2**40], "role": "input"}]},
    "an empty loop": {"do": [{"for": "i", "extent": 2**62, "do": []}]},
    "a loop with nothing to do": {
        "do": [
            {
                "for": "i",
                "extent": 2**20,
                "do": [{"for": "j", "extent": 2**40, "do": [{"if": "0", "then": [opaque(1)]}]}],
            }
        ]
    },
    "2^50 calls": {"functions": [*NESTED, {"name": "f50", "do": []}], "do": [{"call": "f0"}]},
    "20000 calls deep": {"functions": [*CHAIN, {"name": "f20000", "do": []}], "do": [{"call": "f0"}]},
    "recursion": {"functions": [{"name": "f", "do": [{"call": "f"}]}], "do": [{"call": "f"}]},
    "an expression": {"do": [{"for": "i", "extent": "min(core, " * 100000 + "1" + ")" * 100000, "do": []}]},
    "parentheses": {"do": [{"for": "i", "extent": "(" * 100000 + "1" + ")" * 100000, "do": []}]},
    "a product": {"do": [{"for": "i", "extent": "9223372036854775807 * 4", "do": []}]},
    "a duration": {"do": [opaque(2**62), opaque(2**62)]},
    "a negative duration": {"do": [opaque(-1)]},
    "launches": {"do": [{"for": "i", "extent": 2**22, "do": [{"scope": "k", "launch_cycles": 2**40, "do": []}]}]},
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_programs(name: str) -> None:
    faulthandler.dump_traceback_later(HANG, exit=True)
    start = time.process_time()
    with pytest.raises(ts.UserError):
        made = program(**HUGE[name])
        made.check()
        _core.simulate(made, ts.Machine.load("edge-8").core)
    assert time.process_time() - start < SECONDS


def test_a_machine_at_every_limit_is_simulated_or_refused() -> None:
    """Each setting at both ends of its range."""
    graph, base = ts.workloads.matmul(20, 20, 20, dtype="bf16"), ts.Machine.load("edge-8")
    tried = 0
    for line in _core.machine_documentation().splitlines()[2:]:
        path, _, ends = (cell.strip().strip("`") for cell in line.split("|")[1:4])
        if " to " not in ends:
            continue
        for end in ends.split(" to "):
            value = float(end) if "." in end else int(end) if end.lstrip("-").isdigit() else end
            tried += 1
            faulthandler.dump_traceback_later(HANG, exit=True)
            start = time.process_time()
            try:
                assert ts.simulate(ts.compile(graph, base.replace({path: value}))).cycles > 0
            except ts.UserError as error:
                known = ("core.array.count", "core.scratchpad.bytes", "memory.regions")
                assert path in known or path.startswith("memory.cache."), (path, value, error)
            assert time.process_time() - start < SECONDS, (path, value)
    assert tried > 80
