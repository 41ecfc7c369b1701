"""Ctrl-C ends every long call at once, with KeyboardInterrupt, and leaves all as it was."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.interrupted import CASES, fill, loop
from support.interrupted_more import MORE
from tilesim import _core
from tilesim.base.executors import Threads, in_order, opened

GOAL = 0.2  # seconds of process time between signal and exception
FEW = ("save .tsim", "random weights", "optimize", "tune", "search of mappings", "network, packet by packet")
BOUND = 0.6  # what is asserted: a shared machine has other caches and clocks


def run(*arguments: str) -> list[dict[str, Any]]:
    """What cases did in a process of their own."""
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests), str(Path(ts.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "support.interrupted", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        pytest.fail(f"stopped after {[row['name'] for row in rows]}: {done.stderr[-2000:]}")
    return rows


def judged(row: dict[str, Any]) -> None:
    assert row["raised"] == "KeyboardInterrupt", row
    print(f"{row['name']}: {row['late']:.3f} s{'' if row['late'] < GOAL else ', beyond the goal'}")
    assert row["late"] < BOUND and row["intact"], row


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in run("", *CASES, *FEW)}


@pytest.mark.parametrize("name", [*CASES, *FEW])
def test_interrupt(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    judged(outcomes[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_interrupt_at_random_moments(name: str) -> None:
    for seed in ("1", "2", "3"):
        for row in run(seed, name):
            if row["raised"] != "nothing":  # it was done before
                judged(row)


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


def endless(begun: Callable[[], None] = lambda: None) -> None:
    program, machine = loop(2**40, fill()), ts.Machine.load("edge-8").core
    begun()
    _core.simulate(program, machine)


class Sent(BaseException):
    """Sent to a thread; that no code catches on its way, as a sort of OSError would be."""


def test_a_call_in_another_thread_ends_where_an_exception_is_sent_to_it() -> None:
    raised: list[BaseException] = []
    begun = threading.Event()

    def work() -> None:
        try:
            endless(begun.set)
        except BaseException as error:
            raised.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    begun.wait()
    sent = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert sent(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(Sent)) == 1
    worker.join(60)
    assert not worker.is_alive() and isinstance(raised[0], Sent)


def interrupted(executor: Any) -> list[Any]:
    """Endless tasks, of which the caller is told to stop once the first has begun."""
    begun, caught = threading.Event(), []

    def task() -> None:
        begun.set()
        try:
            endless()
        except BaseException as error:
            caught.append(error)
            raise

    def stop_waiting() -> None:
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=stop_waiting).start()
    with pytest.raises(KeyboardInterrupt):
        list(in_order(executor, task, [()] * 8))
    return caught


def test_ctrl_c_ends_threads_of_our_own() -> None:
    with pytest.raises(KeyboardInterrupt), opened(None, 2) as pool:  # which waits for its threads
        assert isinstance(pool, Threads)
        caught = interrupted(pool)
        raise KeyboardInterrupt
    assert caught and all(isinstance(error, KeyboardInterrupt) for error in caught)


def test_ctrl_c_ends_tasks_in_threads_of_the_user() -> None:
    with ThreadPoolExecutor(2) as pool:
        interrupted(pool)
        assert pool.submit(ts.Machine.names).result()  # and they serve on


def test_a_stop_ends_at_its_block() -> None:
    stop = _core.Stop()
    stop.request()
    with pytest.raises(KeyboardInterrupt), stop:
        endless()
    ts.simulate(ts.compile(ts.workloads.matmul(8, 8, 8), "edge-8"))


def test_an_exception_of_a_signal_handler_passes_through() -> None:
    def handler(number: int, frame: Any) -> None:
        raise LookupError("mine")

    before = signal.signal(signal.SIGPROF, handler)
    signal.setitimer(signal.ITIMER_PROF, 0.05)
    with pytest.raises(LookupError, match="mine"):
        endless()
    signal.signal(signal.SIGPROF, before)


def test_a_thread_that_still_computes_does_not_disturb_the_end_of_python() -> None:
    """Daemon threads outlive the interpreter; one that asked for its lock then ended the process with an abort."""
    script = """
import threading, time
from support.interrupted import fill, loop
import tilesim as ts
from tilesim import _core
program, machine = loop(2**40, fill()), ts.Machine.load("edge-8").core
for _ in range(4):
    threading.Thread(target=_core.simulate, args=(program, machine), daemon=True).start()
time.sleep(0.2)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
