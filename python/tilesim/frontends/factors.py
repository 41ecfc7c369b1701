"""Builds matrix factorizations, which are one call in a framework, as counted loops of graph operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph.builder import GraphBuilder
from ..graph.tensor import Tensor

__all__ = [
    "counted",
    "determinant",
    "diagonal",
    "first_set",
    "identity",
    "inverse",
    "lu",
    "qr",
    "reflectors",
    "solve",
    "substituted",
    "swapped",
]


def counted(
    b: GraphBuilder, stem: str, trips: int, state: Sequence[Tensor], body: Callable[..., Sequence[Tensor]]
) -> list[Tensor]:
    """Builds a loop over 0 .. trips - 1."""
    if trips <= 0:
        return list(state)
    taken, number = set(b.graph.functions), 0
    while f"{stem}.{number}.test" in taken:
        number += 1
    test, step = (b.function(f"{stem}.{number}.{part}") for part in ("test", "step"))
    inputs = []
    for function in (test, step):
        counter = function.input("step", (), "i32")
        inputs.append([counter, *(function.input(f"s{i}", x.shape, x.dtype) for i, x in enumerate(state))])
    test.output(test.apply("less", inputs[0][0], test.scalar(trips, "i32")), "more")
    counter, *parts = inputs[1]
    for i, x in enumerate([counter + 1, *body(step, counter, *parts)]):
        step.output(x, f"s{i - 1}.next" if i else "step.next")
    values = [b.scalar(0, "i32").value, *(x.value for x in state)]
    names = [f"{stem}.{number}.test", f"{stem}.{number}.step"]
    found: list[Any] = b.core.op("while", values, {"trips": trips}, stem, len(values), names)
    return [Tensor(b, value) for value in found[1:]]


def swapped(b: GraphBuilder, x: Tensor) -> Tensor:
    """Transposes the matrices of the last two axes."""
    found: Tensor = b.op("transpose", x, permutation=[*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
    return found


class _Position:
    """Selects rows and columns of matrices [.., m, n] at the current loop step."""

    def __init__(self, b: GraphBuilder, shape: Sequence[int], step: Tensor) -> None:
        self.b, self.step, self.shape = b, step, list(shape)
        self.axis = len(self.shape) - 2
        self.rows = self._count(self.axis)
        self.columns = self._count(self.axis + 1)
        self.zero = b.scalar(0, "i32")

    def _count(self, axis: int) -> Tensor:
        extents = [extent if i == axis else 1 for i, extent in enumerate(self.shape)]
        found: Tensor = self.b.op("iota", shape=extents, dtype="i32", dim=axis)
        return found

    def column(self, x: Tensor) -> Tensor:
        """Returns column number `step`, [.., m, 1]."""
        found: Tensor = self.b.op("dynamic_slice", x, *[self.zero] * (x.ndim - 1), self.step, sizes=[*x.shape[:-1], 1])
        return found

    def row(self, x: Tensor) -> Tensor:
        """Returns row number `step`, [.., 1, n]."""
        starts = [self.zero] * (x.ndim - 2) + [self.step, self.zero]
        found: Tensor = self.b.op("dynamic_slice", x, *starts, sizes=[*x.shape[:-2], 1, x.shape[-1]])
        return found

    def summed(self, x: Tensor) -> Tensor:
        """Sums over rows to [.., 1, n]."""
        found: Tensor = self.b.op("reduce", x, dims=[self.axis], combiner="add", keep_dims=True)
        return found

    def selected(self, where: Tensor, x: Tensor) -> Tensor:
        """Returns the only row for which the mask is true, [.., 1, n]."""
        return self.summed(self.b.apply("select", where, x, self.b.scalar(0, x.dtype)))


def lu(b: GraphBuilder, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the LU factors with row exchanges, column by column (right-looking, as LAPACK's getf2)."""
    batch, (m, n) = list(a.shape[:-2]), a.shape[-2:]
    steps = min(m, n)

    def body(f: GraphBuilder, k: Tensor, x: Tensor, pivots: Tensor, order: Tensor) -> list[Tensor]:
        at = _Position(f, x.shape, k)
        none = f.scalar(0, x.dtype)
        size = f.apply("select", f.apply("less", at.rows, k), f.scalar(-1, x.dtype), f.apply("abs", at.column(x)))
        best = f.op("reduce", size, dims=[at.axis], combiner="argmax", keep_dims=True, dtype="i32")
        chosen, own = f.apply("equal", at.rows, best), f.apply("equal", at.rows, k)

        def exchanged(y: Tensor) -> Tensor:
            return f.apply("select", own, at.selected(chosen, y), f.apply("select", chosen, at.row(y), y))

        row = at.selected(chosen, x)
        pivot = at.column(row)
        x = exchanged(x)
        column = at.column(x)
        factor = f.apply("select", f.apply("equal", pivot, none), column, f.apply("divide", column, pivot))
        below = f.apply("greater", at.rows, k)
        rest = f.apply("logical_and", below, f.apply("greater", at.columns, k))
        x = f.apply("select", rest, x - factor * row, x)
        x = f.apply("select", f.apply("logical_and", below, f.apply("equal", at.columns, k)), factor, x)
        place = best.reshape(*batch, 1)
        pivots = f.op("dynamic_update", pivots, place, *[at.zero] * len(batch), k)
        return [x, pivots, exchanged(order)]

    start = b.op("iota", shape=[*batch, m, 1], dtype="i32", dim=len(batch))
    x, pivots, order = counted(
        b, "lu", steps, [a, b.broadcast(b.scalar(0, "i32"), [*batch, steps]), b.op("copy", start)], body
    )
    return x, pivots, order.reshape(*batch, m)


def substituted(b: GraphBuilder, a: Tensor, x: Tensor, **attributes: Any) -> Tensor:
    """Solves a triangular system; the batch axes of a and x are broadcast to each other."""
    batch = np.broadcast_shapes(a.shape[:-2], x.shape[:-2])
    a, x = (y if tuple(y.shape[:-2]) == tuple(batch) else b.broadcast(y, [*batch, *y.shape[-2:]]) for y in (a, x))
    found: Tensor = b.op("linear_solve", a, x, mode="triangular", **attributes)
    return found


def _in_order(b: GraphBuilder, x: Tensor, order: Tensor) -> Tensor:
    """Permutes the rows of x [.., m, c] by the indices `order` [.., m]."""
    *batch, m, c = x.shape
    count = int(np.prod(batch, dtype=np.int64))
    index = order.reshape(count, m)
    if count > 1:
        index = b.apply("add", index, b.op("iota", shape=[count, 1], dtype="i32", dim=0) * m)
    found: Tensor = b.op("embedding", x.reshape(count * m, c), index.reshape(count * m))
    return found.reshape(*batch, m, c)


def solve(b: GraphBuilder, a: Tensor, x: Tensor, left: bool = True) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Solves a y = x (or y a = x) by LU factors."""
    factors = lu(b, a)
    packed, _, order = factors
    if left:
        batch = np.broadcast_shapes(a.shape[:-2], x.shape[:-2])
        x = x if tuple(x.shape[:-2]) == tuple(batch) else b.broadcast(x, [*batch, *x.shape[-2:]])
        order = order if tuple(order.shape[:-1]) == tuple(batch) else b.broadcast(order, [*batch, order.shape[-1]])
        y = substituted(b, packed, _in_order(b, x, order), lower=True, unit_diagonal=True)
        return substituted(b, packed, y, lower=False), factors
    # y a = x is solved as a' y' = x'; with p a = l u, a' = u' l' p
    turned = swapped(b, x)
    y = substituted(b, packed, turned, lower=False, transpose_a=True)
    y = substituted(b, packed, y, lower=True, unit_diagonal=True, transpose_a=True)
    places = b.op("iota", shape=list(order.shape), dtype="i32", dim=order.ndim - 1)
    _, back = b.op("sort", order, b.op("copy", places), results=2, dim=order.ndim - 1, keys=1, stable=True)
    return swapped(b, _in_order(b, y, back)), factors


def diagonal(b: GraphBuilder, a: Tensor) -> Tensor:
    """Returns the diagonal, [.., n]."""
    *batch, _, n = a.shape
    shape = [1] * len(batch) + [n, n]
    rows, columns = (b.op("iota", shape=shape, dtype="i32", dim=len(batch) + i) for i in (0, 1))
    kept = b.apply("select", b.apply("equal", rows, columns), a, b.scalar(0, a.dtype))
    found: Tensor = b.op("reduce", kept, dims=[len(batch)], combiner="add")
    return found


def first_set(b: GraphBuilder, marks: Tensor) -> Tensor:
    """Returns LAPACK's status: the number, from 1, of the first true mark along the last axis; 0 without one."""
    if marks.shape[-1] == 0:
        return b.broadcast(b.scalar(0, "i32"), list(marks.shape[:-1]))
    number, dims = b.op("convert", marks, dtype="i32"), [marks.ndim - 1]
    first = b.op("reduce", number, dims=dims, combiner="argmax", dtype="i32")
    found: Tensor = b.op("reduce", number, dims=dims, combiner="maximum") * (first + 1)
    return found


def determinant(b: GraphBuilder, a: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Computes the sign of the row exchanges, the diagonal of the upper factor, and the LU factors."""
    factors = lu(b, a)
    pivots = factors[1]
    places = b.op("iota", shape=[1] * (pivots.ndim - 1) + [pivots.shape[-1]], dtype="i32", dim=pivots.ndim - 1)
    one = b.scalar(1, a.dtype)
    signs = b.apply("select", b.apply("equal", pivots, places), one, b.scalar(-1, a.dtype))
    sign = b.op("reduce", signs, dims=[pivots.ndim - 1], combiner="multiply")
    return sign, diagonal(b, factors[0]), factors


def identity(b: GraphBuilder, shape: Sequence[int], dtype: str) -> Tensor:
    """An identity matrix of this shape and dtype."""
    m, n = shape[-2:]
    eye = np.eye(m, n, dtype=np.float64 if dtype == "f64" else np.float32)
    found = b.weight(f"identity.{m}.{n}.{dtype}", data=eye, trainable=False)
    return b.broadcast(found, list(shape)) if len(shape) > 2 else found


def inverse(b: GraphBuilder, a: Tensor) -> Tensor:
    """Computes the inverse by LU factors."""
    return solve(b, a, identity(b, a.shape, a.dtype))[0]


def reflectors(b: GraphBuilder, a: Tensor) -> tuple[Tensor, Tensor]:
    """Computes Householder's reflections, one for each column (as LAPACK's geqr2)."""
    batch, (m, n) = list(a.shape[:-2]), a.shape[-2:]
    steps = min(m, n)

    def body(f: GraphBuilder, k: Tensor, x: Tensor, taus: Tensor) -> list[Tensor]:
        at = _Position(f, x.shape, k)
        zero, one = f.scalar(0, x.dtype), f.scalar(1, x.dtype)
        below, own = f.apply("greater", at.rows, k), f.apply("equal", at.rows, k)
        column = at.column(x)
        alpha = at.row(column)
        under = f.apply("select", below, column, zero)
        rest = at.summed(under * under)
        flat = f.apply("equal", rest, zero)
        length = f.apply("sqrt", alpha * alpha + rest)
        beta = f.apply("select", f.apply("less", alpha, zero), length, f.apply("negate", length))
        beta = f.apply("select", flat, alpha, beta)
        tau = f.apply("select", flat, zero, (beta - alpha) / f.apply("select", flat, one, beta))
        v = f.apply("divide", under, f.apply("select", flat, one, alpha - beta))
        v = f.apply("select", own, one, v)
        reach = f.apply("select", f.apply("greater", at.columns, k), tau * at.summed(v * x), zero)
        x = x - v * reach
        here = f.apply("equal", at.columns, k)
        x = f.apply("select", f.apply("logical_and", here, below), v, x)
        x = f.apply("select", f.apply("logical_and", here, own), beta, x)
        taus = f.op("dynamic_update", taus, tau.reshape(*batch, 1), *[at.zero] * len(batch), k)
        return [x, taus]

    found = counted(b, "qr", steps, [a, b.broadcast(b.scalar(0, a.dtype), [*batch, steps])], body)
    return found[0], found[1]


def qr(b: GraphBuilder, packed: Tensor, taus: Tensor) -> Tensor:
    """Multiplies reflections to the orthogonal factor (as LAPACK's org2r)."""
    batch, steps = list(packed.shape[:-2]), taus.shape[-1]
    start = identity(b, packed.shape, packed.dtype)

    def body(f: GraphBuilder, i: Tensor, q: Tensor, x: Tensor, factors: Tensor) -> list[Tensor]:
        k = f.scalar(steps - 1, "i32") - i
        at = _Position(f, x.shape, k)
        zero, one = f.scalar(0, x.dtype), f.scalar(1, x.dtype)
        v = f.apply("select", f.apply("greater", at.rows, k), at.column(x), zero)
        v = f.apply("select", f.apply("equal", at.rows, k), one, v)
        tau = at.column(factors.reshape(*batch, 1, steps))
        return [q - v * (tau * at.summed(v * q)), x, factors]

    return counted(b, "q", steps, [b.op("copy", start), packed, taus], body)[0]
