"""Measures the accuracy of a quantized graph."""

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
    """Compares the outputs of a quantized graph with those of its f32 form.

    The f32 form is another graph with the same inputs and outputs in order, such as the one before quantization. By
    default it is the graph without roundings to narrow types: floats below 32 bits become f32, and values quantized on
    the way stay unchanged. Rounding errors of stored weights are then not counted.

    Args:
        quantized: a program, executed with its machine's roundings, or a graph, run with the reference kernels.
        against: graph in f32.
        inputs: inputs of the quantized graph, as for `ts.execute`; the f32 graph gets these in its dtypes.
        seed: seed of random inputs.
        machine: for a graph, the machine whose roundings of products apply; default: exact.

    Returns:
        Errors by output; `ts.run(..., accuracy=...)` stores them in the result.

    Raises:
        UserError: for a program without a graph, or graphs with different inputs or outputs.
        Unsupported: if the graph has no form without roundings.
    """
    graph = quantized.workload if isinstance(quantized, Program) else as_graph(quantized)
    if graph is None:
        raise user_error("a program without its graph has no f32 form")
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
    """Returns the names of a graph's outputs in order."""
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
