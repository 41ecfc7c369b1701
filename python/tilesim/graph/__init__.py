"""Graphs: the workload as operations on tensors, and a builder in the manner of numpy."""

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
    """Names of the passes that recognise patterns.

    Returns:
        The names, in the order in which the passes run.
    """
    return NAMES


@checked("graph")
def optimize(graph: Graph, passes: str | Sequence[str] | None = None, *, without: Sequence[str] = ()) -> Changes:
    """Recognises patterns that are spelled out, in place: attention (masks, causality, grouped heads), softmax,
    normalizations, rotary positions, activations, gates, quantize after dequantize, transposes in front of products,
    masks that depend on no input, layers that repeat.

    A pattern is replaced only where its structure and numbers match and both forms agree on data: random numbers,
    infinities, NaN, hidden rows, and the numbers of the pattern with their neighbours. The sign of a zero is not
    compared. Front ends do so after reading (their argument `passes`); `graph.source` stays as it was before.

    Args:
        graph: it is changed; `graph.copy()` first to keep the original.
        passes: names of `tilesim.graph.passes()`; "all" by default, or "none".
        without: names to leave out.

    Returns:
        What was replaced by what, with operation, function and place in the user's model; `print` shows it as a diff.

    Raises:
        UserError: for an unknown name.
    """
    if not isinstance(graph, Graph):
        named = f"ts.models.build({graph!r})" if isinstance(graph, str) else "ts.from_torch(module, args)"
        raise user_error("passes change a Graph in place", value=shown(graph), suggestion=f"Make one first, as {named}")
    return graph.optimize(passes, without)
