"""Determines trip counts of data-dependent loops, by running the reference kernels or from the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from ..base.arguments import integer
from ..base.errors import user_error
from .graph import Graph

#: label of a loop -> fewest and most trips
Trips = dict[str, tuple[int, int]]


def open_loops(graph: Graph) -> dict[str, tuple[str, str]]:
    """Finds the loops of a graph whose trip counts depend on data."""
    entry = graph.core.main
    return {
        operation if function == entry else f"{function}.{operation}": (function, operation)
        for function, operation in _core.open_loops(graph.core)
    }


def measured(graph: Graph, inputs: list[Any]) -> Trips:
    """Counts trips in a run of the reference kernels."""
    loops = open_loops(graph)
    if not loops:
        return {}
    found = _core.loop_trips(graph.core, inputs)
    return {label: found.get(place, (0, 0)) for label, place in loops.items()}


def checked(graph: Graph, trips: Mapping[str, Any]) -> Trips:
    """Checks the trip counts that a caller gives."""
    loops = open_loops(graph)
    result = {}
    for label, count in trips.items():
        if label not in loops:
            allowed = ", ".join(loops) or "none: all trip counts of this graph are known"
            raise user_error("not a data-dependent loop", place="trips", value=f"'{label}'", allowed=allowed)
        pair = count if isinstance(count, (tuple, list)) else (count, count)
        low, high = (integer(f"trips of '{label}'", one, 0) for one in pair)
        result[label] = (low, high)
    return result


def counted(graph: Graph, trips: Trips) -> Graph:
    """Replaces data-dependent loops by counted ones, which still compute their conditions."""
    loops = open_loops(graph)
    copy = graph.copy()
    _core.count_trips(copy.core, [(*loops[label], high, low != high) for label, (low, high) in trips.items()])
    return copy


def trip_notes(trips: Trips, by: str) -> list[str]:
    """Returns a result's notes about trip counts."""
    lines = []
    for label, (low, high) in trips.items():
        if low == high:
            lines.append(f"loop '{label}': {high} trips, {by}")
        else:
            lines.append(
                f"loop '{label}': {low} to {high} trips, {by}: every run simulates {high}; trips beyond the end "
                "keep the state"
            )
    return lines
