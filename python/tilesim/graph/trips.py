"""How often loops run that data end: counted by the reference kernels on given inputs, or said by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from ..base.arguments import whole
from ..base.errors import user_error
from .graph import Graph

#: fewest and most trips of each loop, by its label
Trips = dict[str, tuple[int, int]]


def open_loops(graph: Graph) -> dict[str, tuple[str, str]]:
    """Loops of a graph whose number of trips only data know."""
    entry = graph.core.main
    return {
        operation if function == entry else f"{function}.{operation}": (function, operation)
        for function, operation in _core.open_loops(graph.core)
    }


def measured(graph: Graph, inputs: list[Any]) -> Trips:
    """Runs a graph by the reference kernels and counts."""
    loops = open_loops(graph)
    if not loops:
        return {}
    found = _core.loop_trips(graph.core, inputs)
    trips: Trips = {}
    for label, place in loops.items():
        low, high = found.get(place, (0, 0))
        trips[label] = (low, high)
    return trips


def checked(graph: Graph, trips: Mapping[str, Any]) -> Trips:
    """What a caller says about trips."""
    loops = open_loops(graph)
    result = {}
    for label, count in trips.items():
        if label not in loops:
            allowed = ", ".join(loops) or "no loop of this graph needs one"
            raise user_error("no loop that data end", place="trips", value=f"'{label}'", allowed=allowed)
        pair = count if isinstance(count, (tuple, list)) else (count, count)
        low, high = (whole(f"trips of '{label}'", one, 0) for one in pair)
        result[label] = (low, high)
    return result


def counted(graph: Graph, trips: Trips) -> Graph:
    """A graph whose loops end by a counter; they still compute their conditions."""
    loops = open_loops(graph)
    copy = graph.copy()
    _core.count_trips(copy.core, [(*loops[label], high, low != high) for label, (low, high) in trips.items()])
    return copy


def told(trips: Trips, by: str) -> list[str]:
    """What a result says about them."""
    lines = []
    for label, (low, high) in trips.items():
        if low == high:
            lines.append(f"loop '{label}': {high} trips, {by}")
        else:
            lines.append(
                f"loop '{label}': {low} to {high} trips, {by}: {high} are simulated each time it is reached; those "
                "beyond its end keep its state"
            )
    return lines
