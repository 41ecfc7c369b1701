"""Ctrl-C ends every long call at once, with KeyboardInterrupt, and a session can go on after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.interrupted import CASES, fill, loop
from tilesim import _core

GOAL = 0.2  # seconds of process time between signal and exception
BOUND = 0.6  # what is asserted: a shared machine has other caches and clocks


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """All cases in a process of their own."""
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests), str(Path(ts.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "support.interrupted"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(rows) < len(CASES):
        pytest.fail(f"stopped after {[row['name'] for row in rows]}: {done.stderr[-2000:]}")
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("name", CASES)
def test_interrupt(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    row = outcomes[name]
    assert row["raised"] == "KeyboardInterrupt", row
    print(f"{name}: {row['late']:.3f} s{'' if row['late'] < GOAL else ', beyond the goal'}")
    assert row["late"] < BOUND, row


@pytest.fixture
def timer() -> Iterator[None]:
    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, 0.05)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def test_an_interrupted_session_goes_on(timer: None) -> None:
    program, machine = loop(300_000, fill()), ts.Machine.load("edge-8").core
    session = _core.Session(machine)
    job = session.submit(program)
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert session.finished(job) is None
    session.run()
    whole = _core.simulate(program, machine)
    assert session.finished(job) == whole.cycles
    assert session.result().timing_hash() == whole.timing_hash()
