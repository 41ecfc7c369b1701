"""Damaged files of every kind: refused with a message, or read; never a crash, a hang or a huge allocation."""

from __future__ import annotations

import collections
import faulthandler
import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilesim as ts
from support.damage import damaged
from support.foreign_formats import FOREIGN
from support.formats import OWN
from support.hand_programs import CASES as PROGRAMS
from support.hand_programs import FOLDER
from support.isa_formats import ISA
from support.past_findings import PAST
from support.program_checks import limited_memory
from tilesim import _core

sys.path.insert(0, str(Path(__file__).parent))
import fuzz

SECONDS = 5.0  # of process time for one file: far above what any takes
HANG = 300.0  # of wall time, generous for a loaded machine: the whole run is stopped with a traceback


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """Memory without end fails as MemoryError; a hang stops the run and shows where."""
    with limited_memory():
        yield
        faulthandler.cancel_dump_traceback_later()


def fuzzed(count: int, seed: int = 1) -> dict[str, Any]:
    """Outcomes over so many damaged files, read in one process beside this one."""
    return fuzz.run(fuzz.parsed(["--count", str(count), "--seed", str(seed)]))


def test_damaged_files_of_every_format() -> None:
    """At least 1,000, and many more in a long run; each is refused with a message, or read and used; else its number is
    here: `fuzz.py --only`."""
    outcome = fuzzed(1000)
    print(outcome["total"], outcome["peak"] >> 20, "MiB")
    assert not outcome["wrong"]
    assert sum(outcome["total"].values()) >= 1000
    assert outcome["total"]["read"] >= 50
    assert outcome["peak"] < 4 << 30
    for name, counts in outcome["formats"].items():
        assert sum(counts.values()) < 100 or min(counts.get("read", 0), counts.get("refused", 0)) > 0, (name, counts)


@pytest.mark.slow
def test_many_damaged_files() -> None:
    outcome = fuzzed(200_000, seed=7)
    print(outcome["total"])
    assert not outcome["wrong"]


@pytest.mark.parametrize("name", PAST)
def test_past_findings(name: str, tmp_path: Path) -> None:
    (format,) = (format for format in [*OWN, *FOREIGN, *ISA] if format.name == name)
    if format.needs:
        pytest.importorskip(format.needs)
    for data in PAST[name]:
        (tmp_path / format.file).write_bytes(data)
        start = time.process_time()
        for use in format.uses or [lambda read, folder: None]:
            try:
                use(format.read(tmp_path / format.file), tmp_path)
            except ts.UserError as error:
                assert str(error).strip()
        assert time.process_time() - start < SECONDS * len(format.uses or [1])


def run(rounds: int) -> dict[str, int]:
    """Damaged programs that the checker accepts, executed and simulated, each for a second at most."""
    chip = ts.Machine.load("tpu-v3").replace({"core.count": 2, "core.dma.load_queues": 2, "layout.tile": []})
    documents = {name: (FOLDER / f"{name}.json").read_bytes() for name in PROGRAMS}
    inputs = {name: make()[0] for name, make in PROGRAMS.items()}
    outcomes: dict[str, int] = collections.Counter()

    @settings(max_examples=rounds, deadline=None, derandomize=True, database=None, suppress_health_check=HealthCheck)
    @given(st.integers(0, 2**48))
    def one(seed: int) -> None:
        choose = random.Random(seed)
        name = choose.choice(sorted(documents))
        document = damaged(documents[name], "json", choose)
        given_arrays = inputs[name]
        faulthandler.dump_traceback_later(HANG, exit=True)
        try:
            made = _core.Program.from_json(document)
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
    outcomes = run(150)
    print(outcomes)
    assert min(outcomes["refused"], outcomes["ran"], outcomes["stopped"]) >= 10


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
