"""Lists the points of a sweep in order: graphs, machines, settings, mappings, including illegal points."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..base.checked import is_text
from ..graph import Graph, user_error
from ..loading import as_graph
from ..machine.machine import Machine
from ..mapping import MappingTable
from .points import Axes

__all__ = ["StudyPlan", "graphs_of", "mapping_of", "planned", "portable", "reason_of", "several_of"]


def reason_of(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, _core.Error) else f"{type(error).__name__}: {text}"


def portable(mapping: Any) -> Any:
    """Converts a mapping table to a form that can be pickled and hashed; returns strategies unchanged."""
    if isinstance(mapping, MappingTable):
        return (mapping.order, json.dumps(mapping.entries, sort_keys=True))
    return mapping


def mapping_of(sent: Any) -> Any:
    """Restores a mapping; the inverse of `portable`."""
    return MappingTable(dict(json.loads(sent[1])), sent[0]) if isinstance(sent, tuple) else sent


@dataclass
class StudyPlan:
    """The points of one sweep: rows in order, and a machine for each legal row."""

    rows: list[dict[str, Any]]
    settings: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    duplicates: list[tuple[int, int, int]]
    machines: list[Machine | None]
    errors: list[Exception | None]


def several_of(given: Any, what: str) -> tuple[list[Any], bool]:
    """Returns the given value or list as a list, and whether it was a list."""
    several = isinstance(given, Sequence) and not isinstance(given, (str, os.PathLike))
    if several and not len(given):
        raise user_error("the list is empty", place=f"sweep: {what}", allowed="at least one")
    return (list(given) if several else [given]), several


def graphs_of(given: Any) -> tuple[list[tuple[str, Graph]], bool]:
    """Returns (name, graph) of each graph, and whether several were given."""
    if isinstance(given, Mapping):
        pairs, several = [(str(name), one) for name, one in given.items()], True
        if not pairs:
            raise user_error("the dict is empty", place="sweep: graph", allowed="at least one graph")
        return [(name, as_graph(one)) for name, one in pairs], several
    found, several = several_of(given, "graph")
    graphs = [as_graph(one) for one in found]
    names = [
        one if is_text(one) and not os.path.exists(one) else g.core.name for one, g in zip(found, graphs, strict=True)
    ]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise user_error("two graphs have the same name", place="sweep: graph", value=f"'{twice}'",
                         suggestion="Name them: {\"first\": graph, \"second\": other}")  # fmt: skip
    return list(zip(names, graphs, strict=True)), several


def planned(
    graphs: list[tuple[str, Graph]],
    machines: list[Machine],
    named: list[tuple[Any, Any]],
    axes: Axes,
    columns: tuple[bool, bool, bool],
    where: Callable[[dict[str, Any]], Any] | None,
) -> StudyPlan:
    """Returns rows of settings in order; illegal and excluded rows have a status."""
    plan, seen = StudyPlan([], [], [], [], [], []), set()
    axes.check_names(machines[0])
    hashes = [base.core.hash() for base in machines]
    ways = [repr(portable(way)) for _, way in named]
    for g, (graph, _) in enumerate(graphs):
        for m, base in enumerate(machines):
            for (settings, change), (p, (mapping, _)) in itertools.product(axes.points(), enumerate(named)):
                row = {"graph": graph} if columns[0] else {}
                row |= {"machine": base.name} if columns[1] else {}
                row |= settings | ({"mapping": str(mapping)} if columns[2] else {})
                key = (g, hashes[m], ways[p], tuple((name, repr(one)) for name, one in settings.items()))
                if key in seen:
                    said = ", ".join(f"{name} = {one}" for name, one in row.items()) or base.name
                    raise user_error("duplicate point", place="sweep", value=said, allowed="distinct values")
                seen.add(key)
                plan.rows.append(row)
                plan.settings.append(settings)
                plan.changes.append(change)
                plan.duplicates.append((g, m, p))
                _replaced(plan, base, change, _passes_filter(where, row))
    return plan


def _passes_filter(where: Callable[[dict[str, Any]], Any] | None, row: dict[str, Any]) -> bool:
    if where is None:
        return True
    try:
        return bool(where(dict(row)))
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise user_error(
            "the function raised an error", place="sweep: where", value=told, allowed=", ".join(row)
        ) from error


def _replaced(plan: StudyPlan, base: Machine, change: dict[str, Any], cache: bool) -> None:
    machine, error, status = None, None, "excluded"
    if cache:
        try:
            machine, status = (base.replace(change) if change else base), ""
        except _core.UserError as refused:
            error, status = refused, f"illegal: {reason_of(refused)}"
    plan.machines.append(machine)
    plan.errors.append(error)
    plan.rows[-1]["status"] = status
