"""Products of dequantized operands on machines whose arrays multiply integers."""

from __future__ import annotations

from ..graph.graph import Graph
from ..machine.machine import Machine


def with_integer_products(graph: Graph, machine: Machine) -> Graph:
    """A graph for a machine: where its arrays multiply i8, products of dequantized operands are those of integers.

    Args:
        graph: stays as it is.
        machine: whose arrays decide.

    Returns:
        A changed copy, or the graph itself.
    """
    rates = machine.get("core.array.rates")
    if not rates.get("i8"):
        return graph
    changed = graph.copy()
    return changed if changed.optimize("integer_products") else graph
