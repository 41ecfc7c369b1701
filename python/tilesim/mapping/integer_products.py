"""Products of dequantized operands on machines whose arrays multiply integers."""

from __future__ import annotations

from ..graph.graph import Graph
from ..graph.ragged_integers import sum_ragged_integers
from ..machine.machine import Machine


def with_integer_products(graph: Graph, machine: Machine) -> Graph:
    """A graph for a machine: where its arrays multiply i8, products of dequantized operands are those of integers."""
    rates = machine.get("core.array.rates")
    if not rates.get("i8"):
        return graph
    changed = graph.copy()
    found = bool(changed.optimize("integer_products"))
    return changed if sum_ragged_integers(changed) or found else graph
