"""Processes killed (signal 9) while they save, sweep or tune: what is on the disk then.

`python -m support.killed COUNT SEED` prints a line of JSON per kill. The package is imported once; what is killed are
forks of this process.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import tilesim as ts

ELEMENTS = 1 << 16
LONGEST = 60.0  # seconds until a child has done anything: a loaded machine


def weighted() -> ts.Graph:
    """A graph whose weight says which save it is of."""
    b = ts.GraphBuilder("g")
    b.output(b.apply("add", b.input("x", (ELEMENTS,)), b.weight("w", (ELEMENTS,), data=np.zeros(ELEMENTS, np.float32))))
    return b.build()


GRAPH = weighted()
PRODUCT = ts.workloads.matmul(96, 96, 96)
PROGRAM = ts.compile(GRAPH, "edge-8")
RESULT = ts.simulate(ts.compile(ts.workloads.softmax(16, 64)), timeline=True)


def numbered(number: int) -> ts.Result:
    """A result whose program's name says which save it is of."""
    return ts.Result({**RESULT.data, "program": f"save {number} of many"})


def heavier(number: int) -> ts.Graph:
    """The graph of one save."""
    GRAPH.set_weight("w", np.full(ELEMENTS, number, np.float32))
    return GRAPH


def save_program(path: Path, number: int) -> None:
    """With its graph."""
    assert PROGRAM.graph is not None
    PROGRAM.graph.set_weight("w", np.full(ELEMENTS, number, np.float32))
    PROGRAM.save(path)


def of_graph(graph: ts.Graph | None) -> int:
    """Which save it is of; it must be of one alone."""
    assert graph is not None
    found = graph.weight("w")
    assert found.min() == found.max()
    return int(found[0])


def of_report(path: Path) -> int:
    """The whole page."""
    text = path.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>")
    return int(text.partition("save ")[2].partition(" of many")[0])


def of_timeline(path: Path) -> int:
    """The same bytes as a trace that nobody disturbed."""
    whole = path.with_name("whole.perfetto")
    if not whole.exists():
        RESULT.timeline(whole)
    assert path.read_bytes() == whole.read_bytes()
    return -1


@dataclass(frozen=True)
class Saver:
    """How one sort of file is written over and over, and which save a file is of (-1: it does not say)."""

    file: str
    save: Callable[[Path, int], object]
    found: Callable[[Path], int]


def mapping(number: int) -> ts.mapping.MappingTable:
    """A table of one save, with some length."""
    tiles = {"TILE_M": 64, "TILE_N": 64, "TILE_K": 64}
    return ts.mapping.MappingTable({f"{m}_512_512": tiles | {"TILE_M": number + 1} for m in range(1, 500)})


SAVERS = [
    Saver("g.tsim", lambda path, n: heavier(n).save(path), lambda path: of_graph(ts.Graph.load(path))),
    Saver("g.json", lambda path, n: heavier(n).save(path), lambda path: of_graph(ts.Graph.load(path))),
    Saver("p.tsim", save_program, lambda path: of_graph(ts.Program.load(path).graph)),
    Saver(
        "r.json",
        lambda path, n: numbered(n).save(path),
        lambda path: int(ts.Result.load(path).data["program"].split()[1]),
    ),
    Saver("r.html", lambda path, n: numbered(n).to_html(path), of_report),
    Saver("t.perfetto", lambda path, _: RESULT.timeline(path), of_timeline),
    Saver(
        "m.json",
        lambda path, n: mapping(n).save(path),
        lambda path: next(iter(ts.mapping.MappingTable.load(path).entries.values()))["TILE_M"] - 1,
    ),
    Saver(
        "f.json",
        lambda path, n: ts.analytic.Profile(str(n), held_out=[{"n": 3}] * 500).save(path),
        lambda path: int(ts.analytic.Profile.load(path).name),
    ),
]


@contextlib.contextmanager
def child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """A fork that does the work, which may write to a pipe; its id and the pipe's other end. It is killed at last."""
    ours, theirs = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(ours)
            work(theirs)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(ours)


def kill_saver(saver: Saver, folder: Path, choose: Random) -> None:
    """Kills at a random moment; the file is whole then, and of the last save that returned or the one begun."""
    path = folder / saver.file

    def work(pipe: int) -> None:
        for number in itertools.count():
            saver.save(path, number)
            os.write(pipe, b"%d\n" % number)

    said = b""
    with child(work) as (process, pipe):
        while said.count(b"\n") <= choose.randrange(3):
            new = os.read(pipe, 4096)
            assert new, "the saver ended by itself"
            said += new
        time.sleep(choose.random() * 0.02)
        os.kill(process, signal.SIGKILL)
        while new := os.read(pipe, 4096):  # what it had said before it died
            said += new
    last = int(said.split()[-1])
    found = saver.found(path)
    assert found == -1 or last <= found <= last + 1, (saver.file, last, found)
    left = [entry.name for entry in folder.iterdir() if entry.name not in (saver.file, "whole.perfetto")]
    assert len(left) <= 1, left  # what a killed one left is gone when the next has written


CHANGES = {"core.array.count": [1, 2], "memory.latency": [f"{n} ns" for n in range(50, 110, 10)]}


def swept(store: Path | None) -> list[dict[str, Any]]:
    """A table of a dozen points."""
    return list(ts.sweep(PRODUCT, "edge-8", CHANGES, store=store, jobs=2).rows)


def tuned(store: Path | None) -> list[dict[str, Any]]:
    """Candidates with their cycles."""
    return list(ts.tune(PRODUCT, "edge-8", budget=12, store=store, jobs=2).rows)


def kill_store(
    run: Callable[[Path | None], list[dict[str, Any]]], whole: list[Any], path: Path, choose: Random
) -> None:
    """Kills at a random moment: nothing that was in the store is lost; going on gives what a whole run gives."""
    before = length(path)
    start = time.monotonic()
    with child(lambda pipe: run(path) and None) as (process, _):
        while length(path) <= before and time.monotonic() - start < choose.random():
            time.sleep(0.001)
        time.sleep(choose.random() * 0.03)
        os.kill(process, signal.SIGKILL)
    assert length(path) >= before
    if length(path) > 6 or choose.random() < 0.3:
        assert run(path) == whole
        for ending in ("", "-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)


def length(path: Path) -> int:
    """Values in a store; 0 where there is none."""
    if not path.exists():
        return 0
    store = ts.Store(path)
    try:
        return len(store)
    finally:
        store.close()


def main() -> None:
    """As many kills as asked for."""
    count, choose = int(sys.argv[1]), Random(int(sys.argv[2]))
    whole = {swept: swept(None), tuned: tuned(None)}
    with tempfile.TemporaryDirectory() as home:
        for number in range(count):
            which = number % (len(SAVERS) + len(whole))
            if which < len(SAVERS):
                name = SAVERS[which].file
                folder = Path(home, name)
                folder.mkdir(exist_ok=True)
                kill_saver(SAVERS[which], folder, choose)
            else:
                run = list(whole)[which - len(SAVERS)]
                name = run.__name__
                kill_store(run, whole[run], Path(home, f"{name}.sqlite"), choose)
            print(json.dumps({"killed": name}), flush=True)


if __name__ == "__main__":
    main()
