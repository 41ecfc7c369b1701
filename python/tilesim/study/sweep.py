"""Sweeps over machines, settings and mappings, on any executor."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..base.checked import checked
from ..base.errors import shown
from ..base.executors import in_order, opened, shares_memory
from ..base.store import Store
from ..graph import Graph, user_error
from ..loading import GraphLike, as_graph
from ..machine.machine import Machine, MachineLike
from ..mapping import MappingTable
from ..results.result import Table
from ..timing.latencies import TileLatencies
from ..timing.options import divided
from ..timing.simulate import compile, simulate, with_network

__all__ = ["sweep"]

MOST_POINTS = 1 << 22  # combinations of one sweep

Options = tuple[dict[str, Any], dict[str, Any]]  # of compile, of simulate


def _point(graph: Any, machine: Any, mapping: Any, options: Options) -> dict[str, Any]:
    """Cycles and bottleneck of one combination; graph and machine as text in a process of its own."""
    if isinstance(graph, str):
        graph = Graph(_core.Graph.from_json(graph, ".", True)) if graph.lstrip().startswith("{") else Graph.load(graph)
        machine = Machine(_core.Machine.from_json(machine, "machine"))
    if isinstance(mapping, tuple):
        mapping = MappingTable(dict(json.loads(mapping[1])), mapping[0])
    compiled, simulated = options
    target = with_network(machine, simulated.get("network"))
    result = simulate(compile(graph, target, mapping=mapping, **compiled), target, **simulated)
    return {"cycles": result.cycles, "seconds": result.seconds, "bottleneck": result.bottleneck}


def _hashable(options: Options) -> dict[str, Any]:
    """Options as the key of a stored result has them: arrays by their elements."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(name): plain(one) for name, one in value.items()}
        if hasattr(value, "shape"):
            array = np.ascontiguousarray(value)
            return [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
        if isinstance(value, TileLatencies):
            raise user_error(
                "latencies are no part of a stored result's name", place="latencies", suggestion="no store"
            )
        return list(value) if isinstance(value, (tuple, set)) else value

    compiled, simulated = options
    found = {"memory": simulated.get("memory")}
    return found | {name: plain(one) for part in (compiled, simulated) for name, one in part.items()}


def _is_point(value: Any) -> bool:
    """Whether a store holds what `_point` gave."""
    kinds: dict[str, Any] = {"cycles": int, "seconds": (int, float), "bottleneck": str}
    return (
        isinstance(value, dict)
        and value.keys() == kinds.keys()
        and all(isinstance(value[key], kind) and not isinstance(value[key], bool) for key, kind in kinds.items())
    )


def _machines(machine: Any) -> tuple[list[Machine], bool]:
    several = isinstance(machine, Sequence) and not isinstance(machine, (str, os.PathLike))
    return [Machine.load(one) for one in (machine if several else [machine])], several


def _portable(mapping: Any) -> Any:
    """A table as something that can be sent and hashed; strategies as they are."""
    if isinstance(mapping, MappingTable):
        return (mapping.order, json.dumps(mapping.entries, sort_keys=True))
    return mapping


@checked()
def sweep(
    graph: GraphLike,
    machine: MachineLike | Sequence[MachineLike],
    changes: Mapping[str, Sequence[Any]] | None = None,
    *,
    mappings: Sequence[Any] | Mapping[str, Any] | None = None,
    executor: Any = None,
    store: Store | str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    memory: str | None = None,
    **options: Any,
) -> Table:
    """Simulates a graph on machines, with settings and mappings varied: all combinations, in a fixed order.

    Args:
        graph: the workload, as `compile` takes it.
        machine: the machine to start from, or several.
        changes: setting path to the values to try.
        mappings: strategies or tables as `compile` takes them (a mapping gives them names); none: "profile".
        executor: any `concurrent.futures` executor; none: threads.
        store: of results, or its path: an interrupted sweep resumes from it.
        jobs: number of threads; none: one per processor.
        memory: fidelity of the memory; none: what each machine says.
        options: any other option of `compile` or `simulate` (fuse, contexts, tensors, resident, network, ...), the same
            for all.

    Returns:
        One row per combination: machine and mapping (where several were given), settings, cycles, seconds, bottleneck.

    Raises:
        UserError: for an unknown setting or value, or as `compile`.
    """
    graph, (machines, several) = as_graph(graph), _machines(machine)
    named = list(mappings.items()) if isinstance(mappings, Mapping) else [(m, m) for m in mappings or ["profile"]]
    settings = dict(changes or {})
    for path, values in settings.items():
        if hasattr(values, "tolist"):  # an array of numpy
            settings[path] = values = values.tolist()
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise user_error("a sweep needs a list of values", place=path, value=shown(values), allowed="[1, 2, 4]")
    count = math.prod(len(values) for values in [machines, named, *settings.values()])
    if count > MOST_POINTS:
        raise user_error("too many combinations", value=str(count), allowed=f"at most {MOST_POINTS}")
    rows: list[dict[str, Any]] = []
    points: list[tuple[Machine, Any]] = []
    for base, values, (name, mapping) in itertools.product(machines, itertools.product(*settings.values()), named):
        change = dict(zip(settings, values, strict=True))
        row = {"machine": base.name} if several else {}
        row |= change | ({"mapping": str(name)} if mappings is not None else {})
        rows.append(row)
        points.append((base.replace(change) if change else base, _portable(mapping)))
    if "mapping" in options:
        raise user_error("a sweep takes mappings", place="mapping", suggestion="mappings=[...]")
    if "timeline" in options:
        raise user_error("a sweep records no timeline", place="timeline", suggestion="simulate one combination")
    compiled, simulated = divided(options, compile, simulate)
    if memory is not None:
        simulated["memory"] = memory
    for row, outcome in zip(rows, _outcomes(graph, points, executor, store, jobs, (compiled, simulated)), strict=True):
        row |= outcome
    return Table(rows)


def _outcomes(
    graph: Graph,
    points: list[tuple[Machine, Any]],
    executor: Any,
    store: Store | str | os.PathLike[str] | None,
    jobs: int | None,
    options: Options,
) -> list[dict[str, Any]]:
    kept = store if isinstance(store, Store) or store is None else Store(store)
    text = graph.core.to_json()
    same = _hashable(options) if kept is not None else {}
    keys = [Store.key(graph=text, machine=m.core.hash(), mapping=mapping, **same) for m, mapping in points]
    known = kept.get(keys, _is_point) if kept is not None else {}
    missing = [i for i, key in enumerate(keys) if key not in known]
    try:
        with opened(executor, jobs) as pool, tempfile.TemporaryDirectory() as folder:
            local = shares_memory(pool)
            what: Any = graph if local else travelling(graph, folder)
            tasks = [
                (what, points[i][0] if local else points[i][0].core.to_json(), points[i][1], options) for i in missing
            ]
            for i, outcome in zip(missing, in_order(pool, _point, tasks), strict=True):
                known[keys[i]] = outcome
                if kept is not None:
                    kept.put({keys[i]: outcome})
    finally:
        if kept is not None and kept is not store:
            kept.close()
    return [known[key] for key in keys]


def travelling(graph: Graph, folder: str) -> str:
    """A graph as a worker process can read it.

    Args:
        graph: the workload.
        folder: for a file, where it has weights.

    Returns:
        JSON text, or the file's path.
    """
    if not graph.core.weights():
        return str(graph.core.to_json())
    path = os.path.join(folder, "graph.tsim")
    graph.core.save(path)
    return path
