"""Converts complex linear systems to real ones with blocks [[re, -im], [im, re]] that keep triangular form."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.tensor import Tensor
from .complex import number, product, quotient
from .scope import Complex, Scope, each


def turned(scope: Scope, x: Complex) -> Complex:
    """Exchanges the last two axes."""
    order = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    found: Complex = each(lambda part: scope.transpose(part, order), x)
    return found


def adjoint(scope: Scope, x: Complex) -> Complex:
    """Computes the conjugate transpose."""
    found = turned(scope, x)
    return Complex(found.re, scope.apply("negate", found.im))


def masked(scope: Scope, x: Complex, mask: Any) -> Complex:
    """Keeps x where a mask over the last two axes is true, and sets the rest to zero."""
    where = scope.constant(mask)
    kept: Complex = each(lambda part: scope.apply("select", where, part, scope.scalar(0, part.dtype)), x)
    return kept


def hermitian(scope: Scope, lower: Complex) -> Complex:
    """Completes a Hermitian matrix from its lower triangle; its diagonal is real."""
    n = lower.shape[-1]
    below, middle = masked(scope, lower, np.tri(n, k=-1, dtype=bool)), masked(scope, lower, np.eye(n, dtype=bool))
    above = adjoint(scope, below)
    return Complex(below.re + above.re + middle.re, below.im + above.im)


def by_blocks(scope: Scope, x: Complex) -> Tensor:
    """Converts complex [.., m, n] to real [.., 2m, 2n]."""
    *lead, rows, columns = x.shape
    top, bottom = (
        scope.concat([scope.reshape(part, [*lead, rows, 1, columns, 1]) for part in pair], x.ndim + 1)
        for pair in ((x.re, scope.apply("negate", x.im)), (x.im, x.re))
    )
    return scope.reshape(scope.concat([top, bottom], x.ndim - 1), [*lead, 2 * rows, 2 * columns])


def from_blocks(scope: Scope, x: Tensor) -> Complex:
    """The inverse of `by_blocks`, from the first column of each block."""
    *lead, rows, columns = x.shape
    blocks = scope.reshape(x, [*lead, rows // 2, 2, columns // 2, 2])
    first = scope.along(blocks, x.ndim + 1, 0, 1)
    re, im = (scope.reshape(scope.along(first, x.ndim - 1, i, i + 1), [*lead, rows // 2, columns // 2]) for i in (0, 1))
    return Complex(re, im)


def complex_solve(scope: Scope, a: Complex, b: Complex, settings: dict[str, Any]) -> Complex:
    """Solves x a = b or a x = b with one triangle of a, after dividing rows by the diagonal to get unit blocks."""
    if not settings["left_side"]:  # x a = b is solved as a' x' = b'
        aside = {**settings, "left_side": True, "transpose_a": not settings["transpose_a"]}
        return turned(scope, complex_solve(scope, a, turned(scope, b), aside))
    lower = settings["lower"] != settings["transpose_a"]
    whole = turned(scope, a) if settings["transpose_a"] else a
    n = whole.shape[-1]
    if not settings["unit_diagonal"]:
        inverse = quotient(scope, number(scope, whole, 1), diagonal(scope, whole))
        whole, b = product(scope, whole, inverse), product(scope, b, inverse)
    triangle = np.tri(n, k=-1, dtype=bool) if lower else ~np.tri(n, dtype=bool)
    *lead, _, columns = b.shape
    rows = scope.concat([scope.reshape(part, [*lead, n, 1, columns]) for part in (b.re, b.im)], b.ndim - 1)
    solved = scope.op(
        "linear_solve",
        by_blocks(scope, masked(scope, whole, triangle)),
        scope.reshape(rows, [*lead, 2 * n, columns]),
        mode="triangular",
        lower=lower,
        left_side=True,
        unit_diagonal=True,
    )
    pairs = scope.reshape(solved, [*lead, n, 2, columns])
    re, im = (scope.reshape(scope.along(pairs, b.ndim - 1, i, i + 1), [*lead, n, columns]) for i in (0, 1))
    return Complex(re, im)


def diagonal(scope: Scope, x: Complex) -> Complex:
    """The diagonal as a column."""
    kept = masked(scope, x, np.eye(x.shape[-1], dtype=bool))
    column: Complex = each(
        lambda part: scope.op("reduce", part, dims=[part.ndim - 1], combiner="add", keep_dims=True), kept
    )
    return column
