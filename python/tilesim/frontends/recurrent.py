"""Recurrent layers: a counted loop that runs a cell for each step of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph.builder import GraphBuilder
from ..graph.tensor import Tensor
from .factors import counted

__all__ = ["gru", "lstm", "over_steps", "rnn"]

#: Maps (builder, input of the step [batch, ..], states [batch, ..], invariant values) to the next states.
Cell = Callable[[GraphBuilder, Tensor, list[Tensor], list[Tensor]], Sequence[Tensor]]


def over_steps(
    b: GraphBuilder,
    x: Tensor,
    states: Sequence[Tensor],
    fixed: Sequence[Tensor],
    cell: Cell,
    backwards: bool = False,
    lengths: Tensor | None = None,
    stem: str = "recurrence",
) -> tuple[Tensor, list[Tensor]]:
    """Runs a cell for each step of a sequence."""
    steps, batch, width = x.shape
    zeros = b.broadcast(b.scalar(0, states[0].dtype), [steps, *states[0].shape])
    known = [x, *fixed] if lengths is None else [x, *fixed, lengths]

    def body(inner: GraphBuilder, step: Tensor, results: Tensor, *given: Tensor) -> list[Tensor]:
        before, unchanged = list(given[: len(states)]), list(given[len(states) :])
        at = inner.scalar(steps - 1, "i32") - step if backwards else step
        zero = inner.scalar(0, "i32")
        row = inner.op("dynamic_slice", unchanged[0], at, zero, zero, sizes=[1, batch, width]).reshape(batch, width)
        after = list(cell(inner, row, before, unchanged[1 : 1 + len(fixed)]))
        result = after[0]
        if lengths is not None:
            inside = inner.apply("less", at.convert(lengths.dtype), unchanged[-1]).reshape(batch, 1)
            result = inner.apply("select", inside, result, inner.scalar(0, result.dtype))
            after = [inner.apply("select", inside, new, old) for new, old in zip(after, before, strict=True)]
        places = [at, *[zero] * len(result.shape)]
        results = inner.op("dynamic_update", results, result.reshape(1, *result.shape), *places)
        return [results, *after, *unchanged]

    found = counted(b, stem, steps, [zeros, *states, *known], body)
    return found[0], found[1 : 1 + len(states)]


def parts(x: Tensor, count: int) -> list[Tensor]:
    """Splits the last axis into equal parts."""
    width = x.shape[-1] // count
    return [x[(..., slice(i * width, (i + 1) * width))] for i in range(count)]


def projected(b: GraphBuilder, h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiplies a state [batch, hidden] by weights [gates * hidden, hidden], and adds a bias."""
    found: Tensor = b.op("contract", h, weight, bias, a_contract=[1], b_contract=[1])
    return found


def lstm(b: GraphBuilder, row: Tensor, states: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
    """The LSTM cell, gates input, forget, cell, output as in torch; bias and result projection are optional."""
    h, c = states
    bias = [x for x in fixed if x.ndim == 1]
    weight, *projection = (x for x in fixed if x.ndim == 2)
    i, f, g, o = parts(row + projected(b, h, weight, *bias), 4)
    c = b.apply("sigmoid", f) * c + b.apply("sigmoid", i) * b.apply("tanh", g)
    h = b.apply("sigmoid", o) * b.apply("tanh", c)
    return [projected(b, h, projection[0]) if projection else h, c]


def gru(b: GraphBuilder, row: Tensor, states: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
    """The GRU cell, gates reset, update, new as in torch."""
    (h,) = states
    outer, inner = parts(row, 3), parts(projected(b, h, *fixed), 3)
    reset, update = (b.apply("sigmoid", outer[i] + inner[i]) for i in range(2))
    new = b.apply("tanh", outer[2] + reset * inner[2])
    return [(h - new) * update + new]


def rnn(function: str) -> Cell:
    """A cell of one gate with an elementwise function."""

    def cell(b: GraphBuilder, row: Tensor, states: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [b.apply(function, row + projected(b, states[0], *fixed))]

    return cell
