"""From shardings to a program of several devices."""

from __future__ import annotations

from .._core import Unsupported
from ..base.checked import checked
from ..graph.graph import Graph
from .spmd import Spmd, needs_partitioning

__all__ = ["partition"]


@checked()
def partition(graph: Graph) -> Spmd:
    """The program of each device of a graph for several.

    Args:
        graph: of a module that is partitioned already.

    Returns:
        The program, with its collectives.

    Raises:
        UserError: for a graph of one device.
        Unsupported: where shardings are still to be carried out.
    """
    if needs_partitioning(graph):
        raise Unsupported(f"graph '{graph.name}' has shardings that are not carried out yet")
    return Spmd.from_partitioned(graph)
