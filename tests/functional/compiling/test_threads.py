"""Threads, processes and forks share graphs, machines, programs, results and stores."""

from __future__ import annotations

import os
import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.own_script import printed
from support.thread_mix import Shared, mixture, outcomes, spelled
from tilesim import _core

QUICK = {
    "compile", "simulate", "execute", "reference", "save", "save as text", "load", "operations", "text", "repr",
    "estimate", "store", "latencies", "table", "weights", "machine", "coverage", "verify",
}  # fmt: skip


def test_a_random_mixture_gives_what_one_thread_gets(tmp_path: Path) -> None:
    shared = Shared(tmp_path, 1)
    assert not mixture(shared, outcomes(shared, QUICK), seed=1, threads=8, rounds=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_mixtures_of_all_calls(tmp_path: Path, seed: int) -> None:
    shared = Shared(tmp_path)
    assert not mixture(shared, outcomes(shared), seed, threads=8, rounds=25)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Results of calls that start at once; an exception is one too."""
    start = threading.Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        start.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def test_optimize_while_others_compile() -> None:
    """Once a crash: a pass changed the operations that the compiler was reading."""
    graph = spelled(20)
    cycles = {ts.simulate(ts.compile(graph, "edge-8")).cycles}
    fresh = graph.copy()
    fresh.optimize()
    cycles.add(ts.simulate(ts.compile(fresh, "edge-8")).cycles)
    assert len(cycles) == 2

    for _ in range(2):
        graph = spelled(20)
        calls = [lambda graph=graph: ts.simulate(ts.compile(graph, "edge-8")).cycles] * 4
        found = together(*calls, graph.optimize, graph.optimize)
        assert set(found[:4]) <= cycles, found
        assert graph.core.to_json() == fresh.core.to_json() and len(graph.changes) == len(fresh.changes)
        assert graph.source is not None and graph.source.core.to_json() == spelled(20).core.to_json()


def test_changes_of_several_threads_all_count() -> None:
    b = ts.GraphBuilder("many")
    x = b.input("x", (4,))
    for i in range(16):
        x = x + b.weight(f"w{i}", (4,))
    b.output(x, "y")
    graph = b.build()
    values = {f"w{i}": np.full(4, i, np.float32) for i in range(16)}
    together(*[lambda name=name: graph.set_weight(name, values[name]) for name in values], graph.expand)
    assert all((graph.weight(name) == values[name]).all() for name in values)


def test_a_copy_shares_until_one_changes() -> None:
    graph = spelled(2)
    text, copy = graph.core.to_json(), graph.copy()
    assert copy == graph
    copy.optimize()
    assert graph.core.to_json() == text != copy.core.to_json() and not graph.changes
    other = graph.copy()
    graph.set_weight("layer0.bias", np.ones(32, np.float32))
    assert other.core.to_json() == text != graph.core.to_json()


def test_a_program_keeps_the_graph_that_it_was_compiled_from() -> None:
    graph = spelled(1)
    x = np.ones((16, 32), np.float32)
    program = ts.compile(graph, "edge-8")
    wanted = ts.execute(program, [x])["y"]
    fresh = ts.compile(graph, "edge-8")
    graph.set_weight("layer0.weight", np.zeros((32, 32), np.float32))
    graph.optimize()
    assert (ts.execute(fresh, [x])["y"] == wanted).all() and ts.verify(fresh).ok
    assert (ts.execute(ts.compile(graph, "edge-8"), [x])["y"] != wanted).any()


def test_a_pass_that_fails_changes_nothing() -> None:
    graph = spelled(2)
    text = graph.core.to_json()
    with pytest.raises(ts.UserError):
        graph.expand(["no such kind"])
    with pytest.raises(ts.UserError), graph._changed() as core:
        core.remove_dead_code()
        core.expand(["no such kind"])
    with pytest.raises(ts.UserError):
        graph.load_weights({"layer0.weight": np.ones((32, 32), np.float32), "layer0.bias": np.ones(3, np.float32)})
    assert graph.core.to_json() == text


def test_a_builder_does_not_go_on_behind_passes() -> None:
    b = ts.GraphBuilder("half")
    x = b.input("x", (4, 4))
    y = b.apply("exp", x)
    b.output(y, "y")
    graph = b.build()
    before = graph.copy()
    z = b.apply("negate", y)  # it may go on, and who holds the graph does not see it
    b.output(z, "z")
    assert len(before.operations()) == 1 and len(b.build().operations()) == 2
    graph.remove_dead_code()
    with pytest.raises(ts.UserError, match="changed by passes"):
        b.apply("exp", z)
    with pytest.raises(ts.UserError, match="changed by passes"):
        b.build()


def test_outputs_are_not_the_memory_of_weights() -> None:
    b = ts.GraphBuilder("constant")
    w = b.weight("w", (4,), data=np.arange(4, dtype=np.float32))
    b.output(w, "y")
    b.output(b.op("reshape", w, shape=[2, 2]), "z")
    graph = b.build()
    for array in [*ts.reference(graph).values(), *ts.execute(ts.compile(graph, "edge-8")).values(), graph.weight("w")]:
        array[...] = -1
    assert (graph.weight("w") == np.arange(4)).all()


@pytest.mark.parametrize("held", ["session", "network"])
def test_what_runs_belongs_to_one_thread(held: str) -> None:
    from support.interrupted import fill, loop

    stop, inside = _core.Stop(), threading.Event()
    if held == "session":
        session = _core.Session(ts.Machine.load("edge-8").core)
        session.submit(loop(2**40, fill()))
        long, short = session.run, lambda: session.now
    else:
        net = _core.flit_network(_core.NetworkTopology.mesh([4, 4]), _core.NetworkRouter())
        for i in range(200_000):
            net.inject(i % 16, (i + 5) % 16, 4, 0)
        long, short = (lambda: net.advance(10**12)), (lambda: net.take_deliveries())

    def run() -> None:
        with stop:
            inside.set()
            long()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        inside.wait()
        refused = False
        while not refused and not running.done():
            try:
                short()
            except ts.UserError as error:
                refused = "another thread" in str(error)
        stop.request()
        with pytest.raises(KeyboardInterrupt):
            running.result(60)
    assert refused
    short()  # and it is free again


def test_a_book_of_latencies_serves_several_simulations() -> None:
    machine = ts.Machine.load("edge-8")
    program = ts.compile(ts.workloads.matmul(64, 64, 64), machine)
    wanted = _core.simulate(program.core, machine.core).cycles
    book = _core.LatencyBook("closed form")
    results = together(*[lambda: _core.simulate(program.core, machine.core, latencies=book).cycles] * 6)
    assert results == [wanted] * 6 and book.entries()


SPAWNED = """
import pickle, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import tilesim as ts

def cycles(graph, program, machine):
    return ts.simulate(ts.compile(graph, machine)).cycles, ts.simulate(program).cycles

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        given = pickle.load(file)
        print([future.result() for future in [pool.submit(cycles, *given) for _ in range(3)]])
"""


def cycles_in_a_process(graph: ts.Graph, program: ts.Program, machine: ts.Machine) -> tuple[int, int]:
    return ts.simulate(ts.compile(graph, machine)).cycles, ts.simulate(program).cycles


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # JAX's, where an earlier test has imported it
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_process_pools(method: str, tmp_path: Path) -> None:
    graph, machine = spelled(1), ts.Machine.load("edge-8")
    program = ts.compile(graph, machine)
    wanted = cycles_in_a_process(graph, program, machine)
    if method == "spawn":
        assert printed(tmp_path, SPAWNED, (graph, program, machine)) == [wanted] * 3
        return
    with ProcessPoolExecutor(2, get_context(method)) as pool:
        futures = [pool.submit(cycles_in_a_process, graph, program, machine) for _ in range(3)]
        assert [future.result() for future in futures] == [wanted] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_fork_while_other_threads_hold_locks(tmp_path: Path) -> None:
    """A child finds no lock held by a thread that it does not have."""
    graph, store, latencies = spelled(1), ts.Store(tmp_path / "store.db"), ts.TileLatencies()
    wanted = ts.simulate(ts.compile(graph, "edge-8")).cycles
    hold, held = threading.Event(), threading.Event()

    def holder() -> None:
        with graph._changing, store._lock, latencies._lock:
            held.set()
            hold.wait()

    thread = threading.Thread(target=holder)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        good = False
        try:
            store.put({"a": 1})
            graph.copy().optimize()
            graph.remove_dead_code()
            program = ts.compile(graph, "edge-8")
            good = ts.simulate(program, latencies=latencies).cycles == wanted and store.get(["a"]) == {"a": 1}
        finally:
            os._exit(0 if good else 1)
    hold.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_pickles_while_passes_run() -> None:
    graph = spelled(6)
    texts = {graph.core.to_json()}
    fresh = graph.copy()
    fresh.optimize()
    texts.add(fresh.core.to_json())
    calls = [lambda: pickle.loads(pickle.dumps(graph)).core.to_json()] * 4
    found = together(*calls, graph.optimize)
    assert set(found[:4]) <= texts


def test_import_names_at_once() -> None:
    names = ["tune", "compare", "crossover", "from_onnx", "estimate"]
    random.Random(1).shuffle(names)
    assert all(callable(found) for found in together(*[lambda name=name: getattr(ts, name) for name in names]))
