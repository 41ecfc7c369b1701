"""Handles products of sparse weights: marks zero tiles and checks 2:4 weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _core
from ..graph.graph import Graph
from ..graph.sparse import compress
from ..machine.machine import Machine

__all__ = ["check_formats", "with_own_weights", "with_zero_tiles"]


def check_formats(graph: Graph) -> None:
    """Rejects 2:4 weights with more than two nonzeros in four values."""
    operations = graph.operations()
    stated = [op for op in operations if op["kind"] == "contract" and "2:4" in _formats(op)]
    if not stated:
        return
    weights = {op["results"][0]["name"]: op["attributes"]["reference"] for op in operations if op["kind"] == "constant"}
    for op in stated:
        for side, operand in zip("ab", op["operands"][:2], strict=True):
            name = weights.get(operand["name"])
            axes = op["attributes"].get(f"{side}_contract", [1 if side == "a" else 0])
            if op["attributes"].get(f"{side}_format") == "2:4" and name and len(operand["shape"]) == 2:
                compress(graph.weight(name), "2:4", int(axes[0]), f"{op['name']}, operand {side} ('{name}')")


def _formats(op: dict[str, Any]) -> tuple[Any, Any]:
    return op["attributes"].get("a_format"), op["attributes"].get("b_format")


def with_own_weights(graph: Graph, machine: Machine) -> Graph:
    """Inlines calls so that each layer has its own 2:4 weights, if the machine's arrays support the pattern."""
    takes = machine.get("core.array.pattern") == "2:4"
    if not takes or not any(op["kind"] == "call" for op in graph.operations()):
        return graph
    inlined = graph.copy()
    inlined.inline_calls()
    if not any(op["kind"] == "contract" and "2:4" in _formats(op) for op in inlined.operations()):
        return graph
    check_formats(inlined)
    return inlined


def with_zero_tiles(graph: Graph, activations: bool = False, leave: Iterable[str] = ()) -> Graph:
    """Returns the graph with the all-zero weight tiles of its products marked."""
    leave = set(leave)
    changed = graph.copy()
    if any(op["kind"] == "call" for op in changed.operations()):
        changed.inline_calls()  # layers that share operations still have separate weights
    with changed._changed() as core:
        said = _core.mark_zero_tiles(core, leave)
        if activations:
            said += _core.find_zero_tiles(core, leave)
    if not said:
        return graph
    if not any({"a_tiles", "b_tiles"} & set(op["attributes"]) for op in changed.operations()):
        changed = graph.copy()
    changed.assumptions += [line for line in said if "but multiplied" in line and line not in changed.assumptions]
    return changed
