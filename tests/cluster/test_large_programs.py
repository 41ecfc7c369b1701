"""Programs of many operations: the work is proportional to their number, in instructions, and can be stopped."""

from __future__ import annotations

import gc
import signal
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from tilesim.analytic.gpu import groups
from tilesim.base.collecting import uncollected

PLACES = ("/cluster/programs/", "/analytic/gpu/")  # what works operation by operation in Python
RING = [{"kind": "ring", "size": 8, "bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}]


def chain(b: Any, x: Any, i: int) -> Any:
    """One behind the other."""
    return b.apply("tanh" if i % 2 else "sin", x)


def behind(b: Any, x: Any, i: int) -> Any:
    """A kernel so far joins one that has just begun."""
    return b.apply("tanh", b.input(f"a{i}", (64, 64))) + x


def again(b: Any, x: Any, i: int) -> Any:
    """A loop over all elements makes a small value again."""
    return x + b.apply("tanh", b.input(f"a{i}", (64, 1)))


def reduced(b: Any, x: Any, i: int) -> Any:
    """Reductions between loops."""
    return b.apply("exp", x - x.sum(1, keep_dims=True))


def summed(b: Any, x: Any, i: int) -> Any:
    """Many sums over devices, each beside what goes on."""
    b.output(x.sum(0), f"sum{i}")
    return b.apply("tanh", x)


def program(step: Callable[[Any, Any, int], Any], count: int) -> ts.cluster.Spmd:
    b = ts.GraphBuilder("large")
    x = b.input("x", (64, 64))
    for i in range(count):
        x = step(b, x, i)
    b.output(x, "y")
    return ts.partition(b.build(), mesh={"d": 8}, shardings={"x": ("d", None)})


def instructions(spmd: ts.cluster.Spmd, device: str) -> int:
    """Instructions of the interpreter in `PLACES`, those of loops within a line and of comprehensions included."""
    count = 0

    def local(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return local

    def called(frame: Any, event: str, _: Any) -> Any:
        if not any(place in frame.f_code.co_filename for place in PLACES):
            return None
        frame.f_trace_opcodes = True
        return local

    before = sys.gettrace()
    sys.settrace(called)
    try:
        ts.cluster.step(spmd, ts.Cluster(device=device, network=RING))
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("step", "device"),
    [(chain, "a100"), (behind, "a100"), (again, "a100"), (reduced, "a100"), (summed, "a100"), (chain, "tpu-v5e")],
)
def test_work_is_proportional_to_operations(step: Callable[[Any, Any, int], Any], device: str) -> None:
    """Four times the operations are four times the work: one pass over a segment per operation would be 16 times."""
    few, many = program(step, 40), program(step, 160)
    instructions(few, device)  # what is read once from files
    counted = [instructions(one, device) for one in (few, many)]
    assert 2 < counted[1] / counted[0] < 4.4, counted


@pytest.mark.parametrize("turn", [1, 2, 50])
def test_an_interrupt_in_a_callback_of_the_collector_is_heard(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python delivers in a callback of the collector, where an exception is printed and lost, comes again."""
    spmd, cluster = program(chain, 200), ts.Cluster(device="a100", network=RING)
    join, asked, handler = groups._join, 0, signal.getsignal(signal.SIGINT)

    def swallows(phase: str, info: Any) -> None:
        if phase == "start":
            signal.raise_signal(signal.SIGINT)

    def collected(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == turn:
            gc.callbacks.append(swallows)
            try:
                gc.collect()
            finally:
                gc.callbacks.remove(swallows)
        if asked > turn:
            time.sleep(0.01)
        return join(*given)

    monkeypatch.setattr(groups, "_join", collected)
    with pytest.raises(KeyboardInterrupt):
        ts.cluster.step(spmd, cluster)
    assert asked >= turn and signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_in_a_finalizer_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints what is raised there and goes on: the call ends in it all the same."""
    spmd, cluster = program(chain, 20), ts.Cluster(device="a100", network=RING)
    join, printed = groups._join, []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def joined(*given: Any) -> Any:
        if not printed:
            Finalized()
        return join(*given)

    monkeypatch.setattr(groups, "_join", joined)
    with pytest.raises(KeyboardInterrupt):
        ts.cluster.step(spmd, cluster)
    assert printed and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_an_interrupt_leaves_is_old_and_still_collected() -> None:
    """Nobody waits until all is walked through; cycles are found by the next full collection all the same."""

    class Node:
        pass

    gc.collect()
    before = gc.get_freeze_count()
    node = Node()
    node.own = node  # type: ignore[attr-defined]
    gone = weakref.ref(node)
    with pytest.raises(KeyboardInterrupt), uncollected():
        kept = [[i] for i in range(50_000)]
        raise KeyboardInterrupt
    assert gc.isenabled() and gc.get_count()[0] < 5_000 and len(kept) == 50_000
    del node
    gc.collect()
    assert gone() is None and gc.get_freeze_count() <= before
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with pytest.raises(KeyboardInterrupt), uncollected():
            raise KeyboardInterrupt
        assert gc.get_freeze_count() >= frozen - 1000  # what somebody froze stays so
    finally:
        gc.unfreeze()
        if before:
            gc.freeze()  # what the suite froze: no later collection walks through it


def test_an_interrupt_stops_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between two operations ends the step, and the program can be timed again."""
    spmd, cluster = program(chain, 200), ts.Cluster(device="a100", network=RING)
    whole, asked, join = ts.cluster.step(spmd, cluster).seconds, 0, groups._join

    def interrupted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 100:
            signal.raise_signal(signal.SIGINT)
        return join(*given)

    monkeypatch.setattr(groups, "_join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ts.cluster.step(spmd, cluster)
    assert asked == 100
    assert ts.cluster.step(spmd, cluster).seconds == whole
