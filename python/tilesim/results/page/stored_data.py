"""Provides page data beyond a result's figures, from its program or its file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import Error, user_error
from .drawn_graph import NO_GRAPH, graph_data
from .plan import BOXES, STEPS, plan_data

__all__ = ["checked_held", "graph_of", "memory_of", "stored_page_data"]

_FILE_BOXES, _FILE_STEPS = 1_000, 400
LARGEST = 20_000
"""Largest number of kernels for which a file stores memory plan and graph."""


def _program(result: Any) -> Any:
    return getattr(getattr(result, "_again", None), "program", None)


def memory_of(result: Any, most: int = BOXES, steps: int = STEPS) -> dict[str, Any]:
    """Returns the data of the memory plan for `plan_section`."""
    program, stored = _program(result), getattr(result, "_held", {})
    return dict(stored["memory"]) if program is None and "memory" in stored else plan_data(program, most, steps)


def graph_of(result: Any) -> dict[str, Any]:
    """Returns the data of the graph for `graph_section`."""
    program, stored = _program(result), getattr(result, "_held", {})
    return dict(stored["graph"]) if program is None and "graph" in stored else graph_data(result, program)


def stored_page_data(result: Any) -> dict[str, Any]:
    """Returns the page data that `Result.save` stores."""
    found: dict[str, Any] = {}
    if result.data["source"] == "engine" and len(result.data["operations"]) <= LARGEST:
        try:
            memory = memory_of(result, _FILE_BOXES, _FILE_STEPS)
        except Error:  # saves the result without a plan
            memory = {"why": ""}
        if "why" not in memory:
            found["memory"] = memory
        if (graph := graph_of(result)).get("why") != NO_GRAPH:
            found["graph"] = graph
    if advice := getattr(result, "_advised", ()):
        found["advice"] = [
            {"change": one.text, "kind": one.kind, "cycles": one.cycles, "before": one.before} for one in advice
        ]
    return {**found, **result._more()}


def checked_held(found: dict[str, Any], kernels: int, place: str) -> dict[str, Any]:
    """Checks the page data of a file for consistency, after the schema has checked its types."""
    memory, graph = found.get("memory", {}), found.get("graph", {})
    if "memory" in found:
        columns = list(memory["boxes"].values())
        long = {len(column) for column in columns}
        first, last = memory["boxes"]["first"], memory["boxes"]["last"]
        runs = all(0 <= a <= b < memory["kernels"] for a, b in zip(first, last, strict=False))
        if len(long) != 1 or long == {0} or not runs or not memory["live_bytes"]:
            raise user_error("the memory plan is inconsistent", place=f"{place}: page.memory")
    if "graph" in found and ("why" in graph) == ("functions" in graph):
        raise user_error("the graph needs either functions or a reason", place=f"{place}: page.graph")
    for function in graph.get("functions", ()):
        boxes = len(function["boxes"])
        inside = all(_within(box["kernels"], kernels) for box in function["boxes"])
        pairs = all(len(one) == 2 and _within(one, boxes) for one in function["arrows"])
        names = {box["name"] for box in function["boxes"]}
        if not boxes or not inside or not pairs or len(names) < boxes:
            raise user_error("the graph does not match the operations", place=f"{place}: page.graph")
    return found


def _within(numbers: Sequence[int], end: int) -> bool:
    return all(0 <= one < end for one in numbers)
