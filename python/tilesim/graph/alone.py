"""One of several devices by itself."""

from __future__ import annotations

from .. import _core
from .graph import Graph


def alone(graph: Graph) -> Graph:
    """A graph without operations between devices.

    Args:
        graph: stays as it is.

    Returns:
        A copy in which they give what they give where all devices hold the same tensors; the graph itself where it has
        none.
    """
    changed = graph.copy()
    names = _core.one_of_alike_devices(changed.core)
    if not names:
        return graph
    if graph.source is not None and graph.source is not graph:
        changed.set_source(alone(graph.source))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    changed.assumptions.append(
        f"collectives: {', '.join(names[:3])}{more}: what passes between devices takes no time, and every device holds "
        "the same tensors"
    )
    return changed
