"""Runs long calls and interrupts them: prints, as JSON, what was raised and how much process time passed until then.

The signal comes from a timer that counts process time, so that a busy machine changes nothing; its handler is the one
that Ctrl-C has.
"""

from __future__ import annotations

import functools
import gc
import json
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts
from support.interrupted_more import MORE, Case
from tilesim import _core

AFTER = 0.15  # seconds of process time


def loop(trips: int, body: list[Any], **parts: Any) -> _core.Program:
    """A program that repeats a body."""
    slot = {"name": "s", "dtype": "f32", "elements": 64, "depth": 2, "consumers": ["vector"]}
    document = {"schema": "tilesim.program", "version": 1, "tensors": [], "slots": [slot], **parts}
    return _core.Program.from_json(json.dumps({**document, "do": [{"for": "i", "extent": trips, "do": body}]}))


def fill() -> list[Any]:
    """Writes a buffer and releases it."""
    node = {"op": "constant", "value": 1, "dtype": "f32"}
    output = {"node": 0, "view": {"slot": "s", "dims": [[64, 1]]}}
    return [
        {"acquire": "s", "queues": ["vector"]},
        {
            "vector": {"extents": [64], "inputs": [], "nodes": [node], "outputs": [output]},
            "queue": "vector",
        },
        {"commit": "s", "queue": "vector"},
        {"wait": "s", "queue": "vector"},
        {"release": "s", "queue": "vector"},
    ]


def nothing() -> list[Any]:
    """Branches that are seldom taken."""
    return [{"for": "j", "extent": 2**20, "do": [{"if": "j == 1", "then": fill()}]}]


def many_operations(count: int) -> ts.Graph:
    b = ts.GraphBuilder("many", dtype="f32")
    x = b.input("x", (8, 8))
    for _ in range(count):
        x = b.matmul(x, x).softmax()
    b.output(x, "y")
    return b.build()


def product(size: int) -> ts.Graph:
    return ts.workloads.matmul(size, size, size)


def session() -> _core.Session:
    made = _core.Session(ts.Machine.load("edge-8").core)
    made.submit(loop(2**40, fill()))
    return made


def executed(body: list[Any], **options: Any) -> Callable[[], Any]:
    program = loop(2**40, body)
    return lambda: _core.execute(program, {}, **options)


def simulated(body: list[Any]) -> Callable[[], Any]:
    program, machine = loop(2**40, body), ts.Machine.load("edge-8").core
    return lambda: _core.simulate(program, machine)


def compiled() -> Callable[[], Any]:
    graph = many_operations(1500)
    return lambda: ts.compile(graph, "edge-8")


def checked() -> Callable[[], Any]:
    program = loop(2**40, fill())
    return lambda: [program.check() for _ in range(100)]


def tiled(call: Callable[[ts.Program], Any]) -> Callable[[], Any]:
    program = ts.compile(product(2048), "tpu-v3")
    return lambda: call(program)


def referred(graph: ts.Graph) -> Callable[[], Any]:
    arrays = [np.ones(row["shape"], np.float32) for row in graph.inputs]
    return lambda: ts.reference(graph, arrays)


def random_inputs() -> Callable[[], Any]:
    graph = product(4096)
    return lambda: [_core.random_inputs(graph.core, seed) for seed in range(50)]


def timed(**options: Any) -> Callable[[], Any]:
    """A loop on a timed hart, whose first million instructions are kept."""
    return lambda: ts.isa.run(ts.isa.assemble("_start: j _start"), timed=True, pipeline=1_000_000, **options)


def written(ending: str) -> Callable[[], Any]:
    log = timed(max_instructions=1_000_000)()
    folder = tempfile.mkdtemp()
    return lambda: log.write_pipeline(Path(folder) / f"p{ending}")


# Each makes what it needs and returns the long call.
CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    "compile": compiled,
    "check": checked,
    "execute": lambda: executed(fill()),
    "execute, early loads": lambda: executed(fill(), order="early_loads"),
    "execute, random order": lambda: executed(fill(), order="random"),
    "execute, looking for races": lambda: executed(fill(), find_races=True),
    "execute, empty loops": lambda: executed(nothing()),
    "execute a graph": lambda: tiled(ts.execute),
    "verify": lambda: tiled(ts.verify),
    "simulate": lambda: simulated(fill()),
    "simulate, empty loops": lambda: simulated(nothing()),
    "session, run": lambda: session().run,
    "session, run_until": lambda: functools.partial(session().run_until, 2**50),
    "reference": lambda: referred(product(4096)),
    "reference, convolution": lambda: referred(ts.workloads.conv2d(8, 256, 64, 64, 512, 3, padding=1)),
    "reference, attention": lambda: referred(ts.workloads.attention(4, 16, 2048, 64)),
    "random inputs": random_inputs,
    "memory.run": lambda: lambda: ts.memory.run("DDR4-3200", "random_read", requests=3_000_000),
    "isa, timed with a log": timed,
    "isa, a log is written": lambda: written(".txt"),
    "isa, a log of Konata's is written": lambda: written(".kanata"),
    "network.run": lambda: lambda: ts.network.run("mesh_16x16", load=0.3, period=10_000_000),
}


def interrupted(name: str, after: float = AFTER) -> dict[str, Any]:
    """What a case raised, how long after the signal in seconds of process time, and whether all is as it was."""
    with tempfile.TemporaryDirectory() as folder:
        case = MORE[name](Path(folder)) if name in MORE else Case(CASES[name]())
        signal.signal(signal.SIGPROF, signal.default_int_handler)
        gc.collect()
        gc.disable()  # an exception that reaches Python in a callback of the collector is printed and lost
        raised = "nothing"
        after *= case.scale
        start = case.clock()
        signal.setitimer(signal.ITIMER_PROF, after, 10)  # again, where the interpreter lost the first: no endless case
        try:
            case.call()
        except BaseException as error:
            raised = f"{type(error).__name__} {error}".strip()
        seconds = case.clock() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.enable()
        intact = bool(case.intact()) if raised == "KeyboardInterrupt" else None
    return {"name": name, "raised": raised, "late": seconds - after, "intact": intact}


if __name__ == "__main__":
    seed = sys.argv[1] if len(sys.argv) > 1 else ""  # of random moments; empty: always the same one
    draw = random.Random(seed)
    for wanted in sys.argv[2:] or [*CASES, *MORE]:
        moment = draw.uniform(0.01, 1.0) if seed else AFTER
        print(json.dumps(interrupted(wanted, moment)), flush=True)
