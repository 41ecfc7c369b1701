"""Products of dequantized operands on machines whose arrays multiply integers."""

from __future__ import annotations

from ..graph.graph import Graph
from ..graph.ragged_integers import sum_ragged_integers
from ..machine.machine import Machine


def with_integer_products(graph: Graph, machine: Machine) -> Graph:
    """Changes products of dequantized operands to integer products if the machine's arrays multiply i8."""
    rates = machine.get("core.array.rates")
    if not rates.get("i8"):
        return graph
    changed = graph.copy()
    found = bool(changed.optimize("integer_products"))
    return changed if sum_ragged_integers(changed) or found else graph
