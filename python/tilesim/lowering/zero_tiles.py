"""Products with a weight that has tiles of zeros."""

from __future__ import annotations

from .. import _core
from ..graph.graph import Graph

__all__ = ["with_zero_tiles"]


def with_zero_tiles(graph: Graph, activations: bool = False) -> Graph:
    """A graph whose products know which tiles of their weights are all zero.

    Args:
        graph: stays as it is.
        activations: also add tests of activations that may have such tiles.

    Returns:
        A changed copy that says what was left alone, or the graph itself.
    """
    changed = graph.copy()
    if any(op["kind"] == "call" for op in changed.operations()):
        changed.inline_calls()  # layers that share their operations have weights of their own
    with changed._changed() as core:
        said = _core.mark_zero_tiles(core)
        if activations:
            said += _core.find_zero_tiles(core)
    if not said:
        return graph
    changed.assumptions += [line for line in said if "all the same" in line and line not in changed.assumptions]
    return changed
