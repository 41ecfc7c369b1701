"""Public calls on objects that threads share, each with everything that it may return.

Run as a program it calls a random mixture from several threads; the thread sanitizer watches that in the slow tests.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts

Call = Callable[[], Any]


def spelled(layers: int) -> ts.Graph:
    """Products behind softmax and silu that are spelled out: passes find something in it."""
    b = ts.GraphBuilder("spelled")
    x = b.input("x", (16, 32))
    for i in range(layers):
        h = b.linear(x, 32, name=f"layer{i}")
        h = h * b.apply("divide", b.scalar(1.0), b.scalar(1.0) + b.apply("exp", -h))
        high = b.op("reduce", h, combiner="maximum", dims=[1], keep_dims=True)
        e = b.apply("exp", h - high)
        x = b.apply("divide", e, b.op("reduce", e, combiner="add", dims=[1], keep_dims=True))
    b.output(x, "y")
    return b.build()


class Shared:
    """What all threads work on."""

    def __init__(self, folder: Path, layers: int = 2) -> None:
        """Makes it, with every outcome that a call may have: before, or after passes have changed the graph."""
        self.folder = folder
        self.graph, self.machine = spelled(layers), ts.Machine.load("edge-8")
        self.saved = folder / "graph.tsim"
        self.graph.save(self.saved)
        self.product = ts.workloads.matmul(32, 48, 64)
        self.program = ts.compile(self.product, self.machine)
        self.result = ts.simulate(self.program)
        self.store = ts.Store(folder / "store.db")
        self.latencies = ts.TileLatencies()
        self.table = ts.tune(self.product, self.machine, budget=2, jobs=1).best
        self.x = np.linspace(-1, 1, 16 * 32, dtype=np.float32).reshape(16, 32)
        self.count, self.lock = 0, threading.Lock()

    def path(self, ending: str) -> Path:
        """A file that no other call writes."""
        with self.lock:
            self.count += 1
            return self.folder / f"file{self.count}{ending}"

    def written(self, write: Callable[[Path], Any], ending: str) -> int:
        """Size of what a call writes."""
        path = self.path(ending)
        write(path)
        size = path.stat().st_size
        path.unlink()
        return size

    def through_store(self) -> Any:
        """Writes and reads values that others write too."""
        values = {f"key {i}": i for i in range(4)}
        self.store.put(values)
        return self.store.get(values) == values and len(self.store) == 4

    def timed(self) -> Any:
        """Simulates with the shared latencies, which learn."""
        return ts.simulate(self.program, latencies=self.latencies).cycles

    def mapped(self) -> Any:
        """Compiles with the shared table, which keeps a report."""
        cycles = ts.simulate(ts.compile(self.product, self.machine, mapping=self.table)).cycles
        return cycles, self.table.report()

    def calls(self) -> dict[str, Call]:
        """By name: what reads the shared objects."""
        return {
            "compile": lambda: ts.compile(self.graph, self.machine).core.to_json(),
            "simulate": lambda: ts.simulate(self.program).cycles,
            "compile, simulate": lambda: ts.simulate(ts.compile(self.graph, self.machine)).cycles,
            "run": lambda: ts.run(self.graph, machine=self.machine).timing_hash(),
            "verify": lambda: ts.verify(ts.compile(self.graph, self.machine)).ok,
            "execute": lambda: ts.execute(self.program)["y"].tobytes(),
            "reference": lambda: np.round(ts.reference(self.graph, [self.x])["y"], 4).tobytes(),
            "save": lambda: self.written(self.graph.save, ".tsim"),
            "save as text": lambda: self.written(self.graph.save, ".json"),
            "save the program": lambda: self.written(self.program.save, ".json"),
            "load": lambda: len(ts.Graph.load(self.saved).operations()),
            "operations": lambda: len(self.graph.operations()),
            "text": lambda: self.graph.core.to_json(),
            "equal to its copy": lambda: self.graph.copy().check(),
            "repr": lambda: (repr(self.graph), repr(self.program), repr(self.machine), repr(self.result)),
            "summary": lambda: self.result.summary(),
            "explain": lambda: [row.cycles for row in self.result.explain()],
            "report": lambda: self.written(self.result.report, ".html") > 0,
            "timeline": lambda: self.written(self.result.timeline, ".pftrace") > 0,
            "estimate": lambda: ts.estimate(self.graph, "tpu-v3").seconds,
            "roofline": lambda: ts.roofline(self.graph, self.machine).seconds,
            "coverage": lambda: len(ts.coverage(self.graph, self.machine).table().rows),
            "tune": lambda: ts.tune(self.product, self.machine, budget=2, jobs=2).result.cycles,  # type: ignore[union-attr]
            "sweep": lambda: ts.sweep(self.product, self.machine, {"core.arrays": [1, 2]}, jobs=2).rows,
            "machine": lambda: self.machine.replace({"core.arrays": 2}).core.hash(),
            "weights": lambda: sorted(self.graph.weights()),
            "store": self.through_store,
            "latencies": self.timed,
            "table": self.mapped,
        }

    def changes(self) -> dict[str, Call]:
        """By name: what changes the shared graph in place; once is as good as ten times."""
        return {
            "optimize": lambda: ts.optimize(self.graph) and None,
            "remove_dead_code": lambda: self.graph.remove_dead_code() and None,
            "set_weight": lambda: self.graph.set_weight("layer0.bias", np.zeros(32, np.float32)),
        }


def outcomes(shared: Shared, names: set[str] | None = None) -> dict[str, list[Any]]:
    """What each call returns by itself, before, between and after the changes."""
    found: dict[str, list[Any]] = {}

    def look() -> None:
        for name, call in shared.calls().items():
            if names is None or name in names:
                found.setdefault(name, []).append(call())

    fresh, original = shared.graph.copy(), shared.graph
    orders = [("set_weight", "optimize"), ("optimize", "set_weight")]
    for order in orders:
        shared.graph = fresh.copy()
        look()
        for change in order:
            shared.changes()[change]()
            look()
    shared.graph = original
    return found


def mixture(shared: Shared, expected: dict[str, list[Any]], seed: int, threads: int, rounds: int) -> list[str]:
    """Random calls from several threads; what differed from every outcome that is right."""
    wrong: list[str] = []
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        draw = random.Random(seed * 1000 + number)
        calls = {name: call for name, call in shared.calls().items() if name in expected}
        start.wait()
        for _ in range(rounds):
            name = draw.choice([*calls, *shared.changes()])
            try:
                if name not in calls:
                    shared.changes()[name]()
                elif (got := calls[name]()) not in expected[name]:
                    wrong.append(f"{name}: {str(got)[:200]}")
            except BaseException as error:
                wrong.append(f"{name}: {error!r}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return wrong


def main(seed: int, threads: int, rounds: int, names: set[str] | None) -> None:
    """As a program."""
    with tempfile.TemporaryDirectory() as folder:
        shared = Shared(Path(folder), 1)
        wrong = mixture(shared, outcomes(shared, names), seed, threads, rounds)
    print("\n".join(wrong) or "equal")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), set(sys.argv[4:]) or None)
