"""Runs worker tasks of a sweep: points of one graph on one machine, in this or another process."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..graph import Graph
from ..machine.machine import Machine
from ..timing.simulate import compile, simulate, with_network
from .flags import longest
from .metrics import Metric, metric_name, value_of
from .plan import mapping_of, reason_of

__all__ = ["LruCache", "Options", "StudyWork", "grouped_points", "points_of", "sent", "travelling"]

Options = tuple[dict[str, Any], dict[str, Any]]  # options of `compile`, options of `simulate`
SENT = 1 << 24  # larger weights, in bytes, are sent by file
MOST_TOGETHER = 32  # most points of one task
_TASKS = 64  # a call has at least this many tasks, if it has the points
_NOT_COMPILED = "energy."  # prefix of settings that do not affect programs


class LruCache:
    """A small thread-safe LRU cache that creates each value once."""

    def __init__(self, most: int) -> None:
        """Creates an empty cache."""
        self._most, self._lock = most, threading.Lock()
        self._things: OrderedDict[Any, tuple[threading.Lock, list[Any]]] = OrderedDict()

    def get(self, name: Any, make: Callable[[], Any]) -> Any:
        """Returns the cached value, or makes it."""
        with self._lock:
            lock, made = self._things.setdefault(name, (threading.Lock(), []))
            self._things.move_to_end(name)
            while len(self._things) > self._most:
                self._things.popitem(last=False)
        with lock:
            if not made:
                made.append(make())
            return made[0]


@dataclass
class StudyWork:
    """Shared data of a task's points.

    `graph` and `machine` are objects, or for other processes a graph's name and contents and a machine's JSON. Programs
    are cached by `name`; an error is a row with a status, or raised (`rows`).
    """

    graph: Any
    machine: Any
    mapping: Any
    options: Options
    metrics: tuple[Metric, ...]
    rows: bool
    name: str = ""
    cache: LruCache | None = None


_GRAPHS, _MACHINES, _PROGRAMS = LruCache(8), LruCache(8), LruCache(16)  # caches of this worker process


def points_of(work: StudyWork, changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Simulates some points."""
    return [_point(work, change) for change in changes]


def _point(work: StudyWork, change: dict[str, Any]) -> dict[str, Any]:
    """Simulates one point."""
    status = "illegal"
    try:
        graph, base, kept = _here(work)
        compiled, simulated = work.options
        target = with_network(base.replace(change) if change else base, simulated.get("network"))

        def program() -> Any:
            return compile(graph, target, mapping=mapping_of(work.mapping), **compiled)

        shared = {path: value for path, value in change.items() if not path.startswith(_NOT_COMPILED)}
        found = kept.get((work.name, repr(shared)), program)
        status = "failed"
        result = simulate(found, target, **simulated)
        values = {metric_name(metric): value_of(metric, result, target) for metric in work.metrics}
    except Exception as error:
        if not work.rows:
            raise
        if not isinstance(error, _core.UserError):  # the error is a bug, or this process lacks a resource
            status = "failed"
        return {"status": f"{status}: {reason_of(error)}", "error": error}
    figures = {"cycles": result.cycles, "seconds": result.seconds, "bottleneck": result.bottleneck}
    figures |= {"hertz": result.data["hertz"], "operations": longest(result.data["operations"])}
    return {**figures, "metrics": values}


def _here(work: StudyWork) -> tuple[Graph, Machine, LruCache]:
    """Finds or loads graph, machine and programs in this process."""
    if work.cache is not None:
        return work.graph, work.machine, work.cache
    name, contents = work.graph
    graph = _GRAPHS.get(name, lambda: _received(contents))
    text = work.machine
    machine = _MACHINES.get(text, lambda: Machine(_core.Machine.from_json(text, "machine")))
    return graph, machine, _PROGRAMS


def _received(contents: str | bytes) -> Graph:
    if isinstance(contents, str):
        return Graph.load(contents)
    return Graph(_core.Graph.from_json(zlib.decompress(contents).decode(), ".", True))


def sent(graph: Graph, folder: str) -> tuple[str, str | bytes]:
    """Converts a graph for other processes."""
    given = [one for one in graph.core.weights().values() if one["source"] != "random"]
    size = sum(math.prod(one["shape"]) * _core.dtype_bits(one["dtype"]) for one in given) // 8
    small = size <= SENT and not any(one["source"] == "file" for one in given)
    text = graph.core.to_json() if small else travelling(graph, folder)
    if small or text.lstrip().startswith("{"):
        return hashlib.sha256(text.encode()).hexdigest(), zlib.compress(text.encode(), 1)
    digest = hashlib.sha256()
    with open(text, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest(), text


def travelling(graph: Graph, folder: str) -> str:
    """Writes a graph in a form that a worker process can read."""
    if not graph.core.weights():
        return str(graph.core.to_json())
    path = os.path.join(folder, "graph.tsim")
    graph.core.save(path)
    return path


def named(work: StudyWork) -> str:
    """The cache key of a work's programs in other processes, without changed settings."""
    parts = (work.graph[0], work.machine, work.mapping, work.options)
    return hashlib.sha256(pickle.dumps(parts)).hexdigest()


def grouped_points(points: Sequence[tuple[int, Any, dict[str, Any]]], together: bool) -> list[tuple[Any, list[int]]]:
    """Groups points into tasks by work, then by program."""
    if not together:
        return [(common, [index]) for index, common, _ in points]
    most = max(1, min(MOST_TOGETHER, len(points) // _TASKS))
    groups: dict[Any, dict[str, list[int]]] = {}
    for index, common, change in points:
        shared = repr({path: value for path, value in change.items() if not path.startswith(_NOT_COMPILED)})
        groups.setdefault(common, {}).setdefault(shared, []).append(index)
    tasks = []
    for common, programs in groups.items():
        order = [index for own in programs.values() for index in own]
        tasks += [(common, order[begin : begin + most]) for begin in range(0, len(order), most)]
    return tasks
