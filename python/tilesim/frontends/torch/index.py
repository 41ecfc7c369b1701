"""Handlers for overloads that index, gather, or write into a part of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ...graph.building import gathered
from ...graph.tensor import Tensor
from .importing import Importer
from .shape import axis
from .table import handles


def indices_of(importer: Importer, index: Any, extent: int, wraps: bool = False) -> Tensor:
    """Converts indices; negative ones count from the end if `wraps`, else they raise an error at run time."""
    if isinstance(index, torch.Tensor):
        if index.dtype == torch.bool:
            raise importer.unsupported("indexing by a bool mask, whose result size depends on data", suggestion=_MASK)
        return importer.tensor(torch.where(index < 0, index + extent, index) if wraps else index)
    tensor = importer.tensor(index)
    if tensor.dtype == "bool":
        raise importer.unsupported("indexing by a bool mask, whose result size depends on data", suggestion=_MASK)
    if not wraps:
        return tensor
    negative = importer.apply("less", tensor, importer.builder.scalar(0, tensor.dtype))
    return importer.apply("select", negative, tensor + extent, tensor)


_MASK = "Use torch.where, which keeps the shape"


@handles("aten.index_select.default")
def _index_select(importer: Importer, x: Any, dim: int, index: Any) -> Tensor:
    tensor = importer.tensor(x)
    if tensor.ndim == 0:
        return _index_of_scalar(importer, tensor, index)
    at = axis(dim, tensor.ndim)
    return _take(importer, tensor, [at], [indices_of(importer, index, tensor.shape[at]).reshape(-1)], at)


def _index_of_scalar(importer: Importer, x: Tensor, index: Any) -> Tensor:
    """Indexes a tensor without axes, which torch treats as a vector of one element."""
    places = indices_of(importer, index, 1).reshape(-1)
    return _take(importer, x.reshape(1), [0], [places], 0).reshape(*importer.shape)


def _take(importer: Importer, x: Tensor, axes: list[int], parts: list[Tensor], front: int) -> Tensor:
    """Gathers from `axes` of x with index tensors of one shape, whose axes start at `front` in the result."""
    shape = list(parts[0].shape)
    if 0 in shape and any(x.shape[i] == 0 for i in axes):  # gathers nothing from an empty table
        rest = [extent for i, extent in enumerate(x.shape) if i not in axes]
        return importer.broadcast(importer.builder.scalar(0, x.dtype), [*rest[:front], *shape, *rest[front:]])
    columns = [part.reshape(*shape, 1) for part in parts]
    vectors = parts[0] if len(parts) == 1 else importer.op("concat", *columns, dim=len(shape))
    return gathered(importer.op, x, vectors, axes, len(shape), front, mode="error")


@handles("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(importer: Importer, x: Any, indices: Sequence[Any]) -> Tensor:
    """Indexes x; the axes of the indices replace adjacent indexed axes, else they come first in the result."""
    tensor = importer.tensor(x)
    axes = [i for i, index in enumerate(indices) if index is not None]
    parts = [indices_of(importer, indices[i], tensor.shape[i], wraps=True).convert("i64") for i in axes]
    shape = list(torch.broadcast_shapes(*[part.shape for part in parts]))
    parts = [importer.broadcast(part, shape) for part in parts]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    return _take(importer, tensor, axes, parts, axes[0] if adjacent else 0)


@handles("aten.gather.default")
def gather(importer: Importer, x: Any, dim: int, index: Any, **_: Any) -> Tensor:
    """Computes result[i, j, ...] = x[i, index[i, j, ...], ...] with one index vector per element."""
    tensor = importer.tensor(x)
    if tensor.ndim == 0:
        return _index_of_scalar(importer, tensor, index)
    at = axis(dim, tensor.ndim)
    chosen = indices_of(importer, index, tensor.shape[at]).convert("i64")
    shape = list(chosen.shape)
    parts = [chosen if i == at else importer.op("iota", shape=shape, dtype="i64", dim=i) for i in range(tensor.ndim)]
    return _take(importer, tensor, list(range(tensor.ndim)), parts, 0)


@handles("aten.slice_scatter.default")
def _slice_scatter(
    importer: Importer,
    x: Any,
    source: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    tensor, part = importer.tensor(x), importer.tensor(source)
    at = axis(dim, tensor.ndim)
    first, last, _ = slice(start, end, step).indices(tensor.shape[at])
    if step != 1:
        return _spread(importer, tensor, part, at, range(first, last, step))
    if part.shape == tensor.shape:
        return part
    starts = [importer.builder.scalar(first if i == at else 0, "i64") for i in range(tensor.ndim)]
    return importer.op("dynamic_update", tensor, part, *starts)


def _spread(importer: Importer, x: Tensor, part: Tensor, at: int, places: range) -> Tensor:
    """Writes slices of `part` at strided positions: pads it to x's extent and selects by a mask."""
    low, high, interior = [0] * x.ndim, [0] * x.ndim, [0] * x.ndim
    if not len(places):
        return x
    low[at], interior[at] = places[0], places.step - 1
    high[at] = x.shape[at] - places[-1] - 1
    wide = importer.op("pad", part, low=low, high=high, interior=interior)
    keep = torch.zeros(x.shape[at], dtype=torch.bool)
    keep[list(places)] = True
    mask = importer.tensor(keep.reshape(-1, *[1] * (x.ndim - at - 1)))
    return importer.apply("select", mask, wide, x)


@handles("aten.select_scatter.default")
def _select_scatter(importer: Importer, x: Any, source: Any, dim: int, index: int) -> Tensor:
    tensor = importer.tensor(x)
    at = axis(dim, tensor.ndim)
    index = axis(index, tensor.shape[at])
    part = importer.tensor(source).reshape(*tensor.shape[:at], 1, *tensor.shape[at + 1 :])
    return _slice_scatter(importer, tensor, part, at, index, index + 1)


@handles("aten.unfold.default", "aten.diagonal.default", "aten.as_strided.default")
def _selection(importer: Importer, x: Any, *how: Any, **more: Any) -> Tensor:
    """Selects elements by position: applies the overload to element numbers in torch, then gathers these elements."""
    tensor = importer.tensor(x)
    strides = importer.source_of(0).meta["val"].stride()
    count = math.prod(tensor.shape)
    places = torch.arange(count).reshape(tensor.shape)
    if "as_strided" in str(importer.node.target) and tuple(places.stride()) != tuple(strides):
        raise importer.unsupported("as_strided of memory that is not in row-major order")
    chosen = importer.node.target(places, *how, **more)
    return _take(importer, tensor.reshape(count), [0], [importer.tensor(chosen.contiguous())], 0)
