"""Accuracy of a quantized graph beside its time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.checked import checked
from ..base.dtypes import NUMPY
from ..base.errors import shown, user_error
from ..graph import Graph
from ..loading import GraphLike, as_graph
from ..machine.machine import MachineLike
from ..program.program import Program
from ..results.accuracy import Accuracy, row_of
from .execution import execute, inputs_of, reference

__all__ = ["accuracy"]


@checked("inputs")
def accuracy(
    quantized: Program | GraphLike,
    against: GraphLike | None = None,
    inputs: Any = None,
    *,
    seed: int = 0,
    machine: MachineLike | None = None,
) -> Accuracy:
    """Compares the results of a quantized graph with those of its form in f32.

    The form in f32 is another graph with the same inputs and outputs in the same order, as that from which the weights
    were quantized. Without one it is the graph itself without roundings to narrow types: floats below 32 bits become
    f32, and numbers that are quantized on the way stay as they were. What was lost when weights were rounded is not in
    a graph, so then it does not count.

    Args:
        quantized: a program, which is executed with the roundings of its machine, or a graph, whose reference kernels
            run.
        against: graph in f32.
        inputs: of the quantized graph, as for `ts.execute`; the other gets the same values in its own dtypes.
        seed: of random inputs.
        machine: of a graph: whose roundings of products count; none: exact.

    Returns:
        Errors by output; `ts.run(..., accuracy=...)` puts them into the result, beside the time.

    Raises:
        UserError: for a program without a graph, or graphs whose inputs or outputs differ in number or shape.
        Unsupported: where the graph has no form without roundings.
    """
    graph = quantized.workload if isinstance(quantized, Program) else as_graph(quantized)
    if graph is None:
        raise user_error("a program without its graph has no form in f32")
    other = Graph(graph.core.unquantized()) if against is None else as_graph(against)
    _check(graph, other)
    given = inputs_of(graph, inputs, seed)
    if isinstance(quantized, Program):
        found = list(execute(quantized, given, seed=seed).values())
    else:
        found = list(reference(graph, given, machine=machine).values())
    rows = other.core.inputs
    cast = [np.asarray(array).astype(NUMPY[row["dtype"]]) for row, array in zip(rows, given, strict=True)]
    wanted = reference(other, cast)
    said = "the same graph in f32" if against is None else f"{other.name or 'a graph'}"
    errors = [row_of(name, a, b) for name, a, b in zip(graph_names(graph), found, wanted.values(), strict=True)]
    return Accuracy({"against": said, "rows": errors})


def graph_names(graph: Graph) -> list[str]:
    """Names of a graph's outputs, in order."""
    return [str(row["name"]) for row in graph.core.outputs]


def _check(graph: Graph, other: Graph) -> None:
    for what in ("inputs", "outputs"):
        own, its = (list(getattr(one.core, what)) for one in (graph, other))
        if len(own) != len(its):
            raise user_error(
                f"the graphs have different {what}", place="against", value=str(len(its)), allowed=str(len(own))
            )
        for a, b in zip(own, its, strict=True):
            if list(a["shape"]) != list(b["shape"]):
                raise user_error(
                    f"the graphs differ in the shape of {what}",
                    place=f"against: '{b['name']}'",
                    value=shown(list(b["shape"])),
                    allowed=shown(list(a["shape"])),
                )
