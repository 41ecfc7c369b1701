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
    """Loops of a graph whose number of trips only data know.

    Args:
        graph: the workload.

    Returns:
        Function and operation by label: the operation's name, behind that of its function where it is not the entry.
    """
    entry = graph.core.main
    return {
        operation if function == entry else f"{function}.{operation}": (function, operation)
        for function, operation in _core.open_loops(graph.core)
    }


def measured(graph: Graph, inputs: list[Any]) -> Trips:
    """Runs a graph by the reference kernels and counts.

    Args:
        graph: the workload.
        inputs: one array per input.

    Returns:
        Fewest and most trips of every loop that only data end; of those that were never reached 0.
    """
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
    """What a caller says about trips.

    Args:
        graph: the workload.
        trips: a number for each loop, or fewest and most, by label.

    Returns:
        The same as pairs.

    Raises:
        UserError: for a name that is no loop that data end, or a number below 0.
    """
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
    """A graph whose loops end by a counter; they still compute their conditions.

    Args:
        graph: stays as it is.
        trips: by label. Where fewest and most differ, a loop runs as often as it does at most, and keeps its state
            once it has ended.

    Returns:
        A copy.
    """
    loops = open_loops(graph)
    copy = graph.copy()
    _core.count_trips(copy.core, [(*loops[label], high, low != high) for label, (low, high) in trips.items()])
    return copy


def told(trips: Trips, by: str) -> list[str]:
    """What a result says about them.

    Args:
        trips: by label.
        by: who says so, as "as counted on the given inputs".

    Returns:
        One line per loop.
    """
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
