"""What a page shows beyond a result's figures: made from its program, or held by the file that it was read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import Error, user_error
from .drawn_graph import LACKING, graph_data
from .plan import BOXES, STEPS, plan_data

__all__ = ["checked_held", "graph_of", "held", "memory_of"]

_FILE_BOXES, _FILE_STEPS = 1_000, 400
LARGEST = 20_000
"""Kernels up to which a file holds the memory plan and the graph."""


def _program(result: Any) -> Any:
    return getattr(getattr(result, "_again", None), "program", None)


def memory_of(result: Any, most: int = BOXES, steps: int = STEPS) -> dict[str, Any]:
    """The memory plan as `plan_section` takes it."""
    program, stored = _program(result), getattr(result, "_held", {})
    return dict(stored["memory"]) if program is None and "memory" in stored else plan_data(program, most, steps)


def graph_of(result: Any) -> dict[str, Any]:
    """The graph as `graph_section` takes it."""
    program, stored = _program(result), getattr(result, "_held", {})
    return dict(stored["graph"]) if program is None and "graph" in stored else graph_data(result, program)


def held(result: Any) -> dict[str, Any]:
    """What a result's file holds for its page."""
    found: dict[str, Any] = {}
    if result.data["source"] == "engine" and len(result.data["operations"]) <= LARGEST:
        try:
            memory = memory_of(result, _FILE_BOXES, _FILE_STEPS)
        except Error:  # a result is saved whatever its program is: the page says that the file holds no plan
            memory = {"why": ""}
        if "why" not in memory:
            found["memory"] = memory
        if (graph := graph_of(result)).get("why") != LACKING:
            found["graph"] = graph
    if advice := getattr(result, "_advised", ()):
        found["advice"] = [
            {"change": one.text, "kind": one.kind, "cycles": one.cycles, "before": one.before} for one in advice
        ]
    return found


def checked_held(found: dict[str, Any], kernels: int, place: str) -> dict[str, Any]:
    """What a file holds, where its parts agree; the schema has looked at their types."""
    memory, graph = found.get("memory", {}), found.get("graph", {})
    if "memory" in found:
        columns = list(memory["boxes"].values())
        long = {len(column) for column in columns}
        first, last = memory["boxes"]["first"], memory["boxes"]["last"]
        runs = all(0 <= a <= b < memory["kernels"] for a, b in zip(first, last, strict=False))
        if len(long) != 1 or long == {0} or not runs or not memory["live_bytes"]:
            raise user_error("the memory plan does not agree with itself", place=f"{place}: page.memory")
    if "graph" in found and ("why" in graph) == ("functions" in graph):
        raise user_error("the graph has functions, or a reason why it has none", place=f"{place}: page.graph")
    for function in graph.get("functions", ()):
        boxes = len(function["boxes"])
        inside = all(_within(box["kernels"], kernels) for box in function["boxes"])
        pairs = all(len(one) == 2 and _within(one, boxes) for one in function["arrows"])
        names = {box["name"] for box in function["boxes"]}
        if not boxes or not inside or not pairs or len(names) < boxes:
            raise user_error("the graph does not agree with the operations", place=f"{place}: page.graph")
    return found


def _within(numbers: Sequence[int], end: int) -> bool:
    return all(0 <= one < end for one in numbers)
