"""Handlers for torch's linear algebra: factors, solutions, determinants."""

from __future__ import annotations

from typing import Any

from ...graph.tensor import Tensor
from .. import factors
from .importing import Importer
from .table import handles


def _status(importer: Importer, x: Tensor) -> Tensor:
    """Returns the number, from 1, of the first non-positive pivot on a factor's diagonal [.., n]; 0 without one."""
    bad = importer.apply("logical_not", importer.apply("greater", x, importer.tensor(0.0, x.dtype)))
    return factors.first_set(importer.builder, bad)


def _triangle(importer: Importer, x: Tensor, upper: bool, offset: int = 0) -> Tensor:
    """Keeps x where row + offset <= column (upper) or >= column (lower); sets the rest to zero."""
    n = x.ndim
    shape = [1] * (n - 2) + list(x.shape[-2:])
    row, column = (importer.op("iota", shape=shape, dtype="i32", dim=n - 2 + i) for i in (0, 1))
    row = row + offset
    kept = importer.apply("less_equal", row, column) if upper else importer.apply("less_equal", column, row)
    return importer.apply("select", kept, x, importer.tensor(0.0, x.dtype))


@handles("aten.linalg_cholesky_ex.default")
def _cholesky_ex(importer: Importer, a: Any, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Computes the factor and LAPACK's status; the factor is NaN from a failing pivot on, where torch raises."""
    x = importer.tensor(a)
    # torch reads the lower triangle for both factors
    factor = importer.op("linear_solve", x, mode="cholesky", lower=True)
    status = _status(importer, factors.diagonal(importer.builder, factor))
    return factors.swapped(importer.builder, factor) if upper else factor, status


@handles("aten.cholesky.default")
def _cholesky(importer: Importer, a: Any, upper: bool = False) -> Tensor:
    """Computes the Cholesky factor without its status."""
    factor: Tensor = importer.op("linear_solve", importer.tensor(a), mode="cholesky", lower=not upper)
    return factor


@handles("aten.linalg_solve_triangular.default")
def _solve_triangular(
    importer: Importer, a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Solves a triangular system by substitution."""
    return factors.substituted(
        importer.builder, importer.tensor(a), importer.tensor(b), lower=not upper, left_side=left,
        unit_diagonal=unitriangular,
    )  # fmt: skip


@handles("aten.triangular_solve.default")
def _triangular_solve(
    importer: Importer, b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """Solves a triangular system by substitution; also returns the matrix."""
    matrix = importer.tensor(a)
    x = factors.substituted(
        importer.builder, matrix, importer.tensor(b), lower=not upper, transpose_a=transpose,
        unit_diagonal=unitriangular,
    )  # fmt: skip
    return x, matrix


@handles("aten.cholesky_solve.default")
def _cholesky_solve(importer: Importer, b: Any, factor: Any, upper: bool = False) -> Tensor:
    """Solves with a Cholesky factor by two substitutions."""
    a, x = importer.tensor(factor), importer.tensor(b)
    for transpose in (upper, not upper):
        x = factors.substituted(importer.builder, a, x, lower=not upper, transpose_a=transpose)
    return x


@handles("aten.linalg_inv_ex.default")
def _inv_ex(importer: Importer, a: Any, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """Computes the inverse by LU factors; the status always says that the matrix is regular."""
    x = importer.tensor(a)
    return factors.inverse(importer.builder, x), _regular(importer, x)


def _regular(importer: Importer, a: Tensor) -> Tensor:
    return importer.builder.broadcast(importer.tensor(0, "i32"), list(a.shape[:-2]))


@handles("aten._linalg_solve_ex.default")
def _solve_ex(
    importer: Importer, a: Any, b: Any, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the solution and the LU factors."""
    matrix, right = importer.tensor(a), importer.tensor(b)
    vector = right.ndim == matrix.ndim - 1
    if vector:
        right = right.reshape(*right.shape, 1)
    x, (packed, pivots, _) = factors.solve(importer.builder, matrix, right, left)
    if vector:
        x = x.reshape(*x.shape[:-1])
    return x, packed, pivots + 1, _regular(importer, matrix)


@handles("aten.linalg_lu_factor_ex.default")
def _lu_factor_ex(
    importer: Importer, a: Any, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes LU factors in one matrix, and the row exchanges counted from 1."""
    if not pivot:
        raise importer.unsupported("LU factors without row exchanges", "pivot=False")
    matrix = importer.tensor(a)
    packed, pivots, _ = factors.lu(importer.builder, matrix)
    return packed, pivots + 1, _regular(importer, matrix)


@handles("aten._linalg_det.default")
def _det(importer: Importer, a: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the determinant: the product of the upper factor's diagonal, with the sign of the row exchanges."""
    sign, diagonal, (packed, pivots, _) = factors.determinant(importer.builder, importer.tensor(a))
    size = importer.op("reduce", diagonal, dims=[diagonal.ndim - 1], combiner="multiply")
    return sign * size, packed, pivots + 1


@handles("aten._linalg_slogdet.default")
def _slogdet(importer: Importer, a: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the determinant's sign and the logarithm of its absolute value."""
    sign, diagonal, (packed, pivots, _) = factors.determinant(importer.builder, importer.tensor(a))
    last = [diagonal.ndim - 1]
    signs = importer.op("reduce", importer.apply("sign", diagonal), dims=last, combiner="multiply")
    size = importer.op("reduce", importer.apply("log", importer.apply("abs", diagonal)), dims=last, combiner="add")
    return sign * signs, size, packed, pivots + 1


@handles("aten.linalg_qr.default")
def _qr(importer: Importer, a: Any, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Computes Q and R by reflections."""
    x = importer.tensor(a)
    m, n = x.shape[-2:]
    if mode != "reduced":
        raise importer.unsupported("this mode of a QR factorization", repr(mode), "Take mode='reduced'")
    packed, taus = factors.reflectors(importer.builder, x)
    k = min(m, n)
    upper = _triangle(importer, packed[(..., slice(0, k), slice(None))], upper=True)
    return factors.qr(importer.builder, packed[(..., slice(None), slice(0, k))], taus), upper


@handles("aten.cholesky_inverse.default")
def _cholesky_inverse(importer: Importer, factor: Any, upper: bool = False) -> Tensor:
    """Computes the inverse by two substitutions of the identity."""
    a = importer.tensor(factor)
    x = factors.identity(importer.builder, a.shape, a.dtype)
    for transpose in (upper, not upper):
        x = factors.substituted(importer.builder, a, x, lower=not upper, transpose_a=transpose)
    return x
