"""Graphs: workloads as operations on tensors, and a builder with numpy's conventions."""

from collections.abc import Sequence

from ..base.checked import checked
from ..base.errors import nearest as nearest
from ..base.errors import shown
from ..base.errors import user_error as user_error
from ..base.lazy import listed
from .builder import GraphBuilder
from .graph import Graph
from .passes import NAMES
from .passes import Changes as Changes
from .tensor import Tensor

__all__ = ["Graph", "GraphBuilder", "Tensor", "optimize", "passes"]
__dir__ = listed(__all__)


def passes() -> tuple[str, ...]:
    """Names of the pattern recognition passes.

    Returns:
        The names, in the order in which the passes run.
    """
    return NAMES


@checked("graph")
def optimize(graph: Graph, passes: str | Sequence[str] | None = None, *, without: Sequence[str] = ()) -> Changes:
    """Replaces decomposed patterns by single operations, in place: attention (masks, causality, grouped heads),
    softmax, normalizations, rotary positions, activations, gates, quantize after dequantize, transposes before
    products, constant masks, repeated layers.

    A pass replaces a pattern only where structure and constants match and both forms agree on test data: random
    numbers, infinities, NaN, hidden rows, and the constants of the pattern with adjacent numbers. The sign of a zero is
    not compared. Front ends run the passes after reading (their argument `passes`); `graph.source` keeps the original.

    Args:
        graph: changed in place; `graph.copy()` first to keep the original.
        passes: names of `tilesim.graph.passes()`; "all" by default, or "none".
        without: names to leave out.

    Returns:
        The replacements, with operation, function and place in your model; `print` shows them as a diff.

    Raises:
        UserError: for an unknown name.
    """
    if not isinstance(graph, Graph):
        named = f"ts.models.build({graph!r})" if isinstance(graph, str) else "ts.from_torch(module, args)"
        raise user_error("not a Graph, which passes change in place", place="optimize: graph", value=shown(graph),
                         suggestion=f"Build one first: {named}")  # fmt: skip
    return graph.optimize(passes, without)
