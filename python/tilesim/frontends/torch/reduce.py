"""Handlers for overloads that reduce, scan or normalize along axes, or select elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...graph.tensor import Tensor
from .elementwise import truth
from .importing import Importer
from .shape import axis
from .table import handles


def _dims(tensor: Tensor, dim: Any) -> list[int]:
    if dim is None or (isinstance(dim, (list, tuple)) and len(dim) == 0):
        return list(range(tensor.ndim))
    return sorted(axis(one, tensor.ndim) for one in ([dim] if isinstance(dim, int) else dim))


def reduced(importer: Importer, x: Tensor, combiner: str, dim: Any = None, keep: bool = False) -> Tensor:
    """Reduces axes, by default all; returns a scalar tensor unchanged."""
    dims = [] if x.ndim == 0 else _dims(x, dim)
    if not dims and combiner not in ("argmax", "argmin"):
        return x
    attributes: dict[str, Any] = {"dtype": importer.dtype} if combiner in ("argmax", "argmin") else {}
    result: Tensor = importer.op("reduce", x, combiner=combiner, dims=dims, keep_dims=keep, **attributes)
    return result


@handles("aten.sum.default", "aten.sum.dim_IntList")
def _sum(importer: Importer, x: Any, dim: Any = None, keep: bool = False, *, dtype: Any = None) -> Tensor:
    return reduced(importer, importer.tensor(x, importer.dtype), "add", dim, keep)


@handles("aten.mean.default", "aten.mean.dim")
def _mean(importer: Importer, x: Any, dim: Any = None, keep: bool = False, *, dtype: Any = None) -> Tensor:
    return reduced(importer, importer.tensor(x, importer.dtype), "mean", dim, keep)


@handles("aten.prod.default", "aten.prod.dim_int")
def _prod(importer: Importer, x: Any, dim: Any = None, keep: bool = False, *, dtype: Any = None) -> Tensor:
    return reduced(importer, importer.tensor(x, importer.dtype), "multiply", dim, keep)


@handles("aten.amax.default")
def _amax(importer: Importer, x: Any, dim: Any = None, keep: bool = False) -> Tensor:
    return reduced(importer, importer.tensor(x), "maximum", dim, keep)


@handles("aten.amin.default")
def _amin(importer: Importer, x: Any, dim: Any = None, keep: bool = False) -> Tensor:
    return reduced(importer, importer.tensor(x), "minimum", dim, keep)


@handles("aten.max.default", "aten.min.default")
def _extreme(importer: Importer, x: Any) -> Tensor:
    combiner = "maximum" if "max" in str(importer.node.target) else "minimum"
    return reduced(importer, importer.tensor(x), combiner)


@handles("aten.max.dim", "aten.min.dim")
def _extreme_dim(importer: Importer, x: Any, dim: int, keep: bool = False) -> tuple[Tensor, Tensor]:
    tensor = importer.tensor(x)
    combiner, choice = ("maximum", "argmax") if "max" in str(importer.node.target) else ("minimum", "argmin")
    dims = _dims(tensor, dim)
    index: Tensor = importer.op("reduce", tensor, combiner=choice, dims=dims, keep_dims=keep, dtype="i64")
    return reduced(importer, tensor, combiner, dim, keep), index


@handles("aten.argmax.default", "aten.argmin.default")
def _arg(importer: Importer, x: Any, dim: int | None = None, keep: bool = False) -> Tensor:
    tensor = importer.tensor(x)
    combiner = "argmax" if "argmax" in str(importer.node.target) else "argmin"
    if dim is not None:
        return reduced(importer, tensor, combiner, dim, keep)
    flat = reduced(importer, tensor.reshape(-1), combiner, 0)
    return flat.reshape(*importer.shape)


@handles("aten.any.default", "aten.any.dim", "aten.any.dims", "aten.all.default", "aten.all.dim", "aten.all.dims")
def _quantifier(importer: Importer, x: Any, dim: Any = None, keep: bool = False) -> Tensor:
    combiner = "logical_or" if ".any." in str(importer.node.target) else "logical_and"
    return reduced(importer, truth(importer, x), combiner, dim, keep)


@handles("aten.cumsum.default", "aten.cumprod.default")
def _cumulative(importer: Importer, x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    tensor = importer.tensor(x, importer.dtype)
    if tensor.ndim == 0:
        return tensor
    combiner = "add" if "sum" in str(importer.node.target) else "multiply"
    return importer.op("cumulative", tensor, dim=axis(dim, tensor.ndim), combiner=combiner)


def _variance(importer: Importer, tensor: Tensor, dim: Any, correction: float, keep: bool) -> Tensor:
    """Computes the variance in two passes in f32 or wider; `correction` is Bessel's."""
    dims = _dims(tensor, dim)
    count = math.prod(tensor.shape[i] for i in dims)
    centred = tensor - reduced(importer, tensor, "mean", dims, True) if count else tensor
    total = reduced(importer, centred * centred, "add", dims, keep)
    if count - correction <= 0:  # the result is NaN or infinity, as in torch
        return total / importer.builder.scalar(0.0, total.dtype)
    return total / (count - correction)


@handles("aten.var.correction", "aten.std.correction", "aten.var.dim", "aten.std.dim", "aten.var.default")
def _var(importer: Importer, x: Any, dim: Any = None, unbiased: bool = True, keep: bool = False, **more: Any) -> Tensor:
    correction = more.get("correction", 1 if unbiased else 0)
    correction = 1 if correction is None else correction
    wide = importer.tensor(x, "f64" if importer.dtype == "f64" else "f32")
    result = _variance(importer, wide, dim, correction, more.get("keepdim", keep))
    result = importer.apply("sqrt", result) if ".std." in str(importer.node.target) else result
    return result.convert(importer.dtype)


@handles("aten.var_mean.correction")
def _var_mean(importer: Importer, x: Any, dim: Any = None, **more: Any) -> tuple[Tensor, Tensor]:
    correction = 1 if more.get("correction") is None else more["correction"]
    keep = bool(more.get("keepdim", False))
    wide = importer.tensor(x, "f64" if importer.dtype == "f64" else "f32")
    variance = _variance(importer, wide, dim, correction, keep)
    return variance.convert(importer.dtype), reduced(importer, wide, "mean", dim, keep).convert(importer.dtype)


@handles("aten.softmax.int", "aten._softmax.default", "aten._safe_softmax.default")
def _softmax(importer: Importer, x: Any, dim: int, *_: Any, **__: Any) -> Tensor:
    tensor = importer.tensor(x, importer.dtype)
    result: Tensor = importer.op("softmax", tensor, dim=axis(dim, tensor.ndim)) if tensor.ndim else tensor * 0.0 + 1.0
    if "safe" not in str(importer.node.target):
        return result
    # rows of -inf give zeros
    hidden = importer.apply("equal", tensor, importer.builder.scalar(-math.inf, tensor.dtype))
    empty = reduced(importer, hidden, "logical_and", dim, True)
    return importer.apply("select", empty, importer.builder.scalar(0, result.dtype), result)


@handles("aten.log_softmax.int", "aten._log_softmax.default")
def _log_softmax(importer: Importer, x: Any, dim: int, *_: Any, **__: Any) -> Tensor:
    tensor = importer.tensor(x, importer.dtype)
    return importer.op("log_softmax", tensor, dim=axis(dim, tensor.ndim))


@handles("aten.linalg_vector_norm.default")
def _vector_norm(importer: Importer, x: Any, order: float = 2, dim: Any = None, keep: bool = False, **_: Any) -> Tensor:
    tensor = importer.tensor(x, "f64" if importer.dtype == "f64" else "f32")
    if order == 2:
        return importer.apply("sqrt", reduced(importer, tensor * tensor, "add", dim, keep)).convert(importer.dtype)
    size = importer.apply("abs", tensor)
    if order == math.inf:
        return reduced(importer, size, "maximum", dim, keep).convert(importer.dtype)
    if order == 1:
        return reduced(importer, size, "add", dim, keep).convert(importer.dtype)
    raise importer.unsupported("this order of a vector norm", f"order {order}")


@handles("aten.logsumexp.default")
def _logsumexp(importer: Importer, x: Any, dim: Sequence[int], keep: bool = False) -> Tensor:
    """Computes max + log(sum(exp(x - max))); a maximum of ±inf counts as 0."""
    tensor = importer.tensor(x, "f64" if importer.dtype == "f64" else "f32")
    best = reduced(importer, tensor, "maximum", dim, True)
    zero = importer.builder.scalar(0, best.dtype)
    shift = importer.apply("select", importer.apply("is_finite", best), best, zero)
    total = reduced(importer, importer.apply("exp", tensor - shift), "add", dim, True)
    value = importer.apply("log", total) + shift
    return value.reshape(*importer.shape).convert(importer.dtype)
