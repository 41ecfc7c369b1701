"""Handlers for overloads that sort or write to data-dependent addresses: top-k, sort, index_put, scatter, products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...graph.building import scattered
from ...graph.tensor import Tensor
from .elementwise import truth
from .importing import Importer
from .index import gather, indices_of
from .reduce import reduced
from .shape import axis
from .table import handles

_COMBINERS = {
    "sum": "add",
    "prod": "multiply",
    "amax": "maximum",
    "amin": "minimum",
    "add": "add",
    "multiply": "multiply",
}


@handles("aten.topk.default")
def _topk(importer: Importer, x: Any, k: int, dim: int = -1, largest: bool = True, ordered: bool = True) -> Any:
    """Finds the largest elements in order; ties prefer the lower index (torch does not define their order)."""
    tensor = importer.tensor(x)
    if tensor.ndim == 0:
        return tensor, importer.tensor(torch.zeros((), dtype=torch.int64))
    return importer.op("top_k", tensor, dim=axis(dim, tensor.ndim), k=int(k), largest=largest, results=2)


@handles("aten.sort.default", "aten.sort.stable")
def _sort(importer: Importer, x: Any, dim: int = -1, descending: bool = False, **more: Any) -> Any:
    tensor = importer.tensor(x)
    at = axis(more.get("dim", dim), tensor.ndim)
    places: Tensor = importer.op("iota", shape=list(tensor.shape), dtype="i64", dim=at)
    return importer.op("sort", tensor, places, dim=at, descending=bool(more.get("descending", descending)), results=2)


@handles("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def _searchsorted(importer: Importer, row: Any, x: Any, right: bool = False, **more: Any) -> Tensor:
    """Counts, by comparing all pairs, the elements of a sorted row that precede each x; all precede NaN."""
    sorter, side = more.get("sorter"), more.get("side")
    right = bool(more.get("right", right)) if side is None else side == "right"
    tensor = importer.tensor(row)
    value = importer.tensor(x, tensor.dtype)
    if sorter is not None:
        tensor = gather(importer, tensor, -1, sorter)
    shape = list(value.shape)
    value = value.reshape(*shape, 1)
    if tensor.ndim > 1:
        tensor = tensor.reshape(*tensor.shape[:-1], 1, tensor.shape[-1])
    wide = [*shape, tensor.shape[-1]]
    pairs = [importer.broadcast(one, wide) for one in (tensor, value)]
    before = importer.apply("less_equal" if right else "less", *pairs)
    if value.dtype in ("f16", "bf16", "f32", "f64"):
        before = importer.apply("logical_or", before, importer.apply("is_nan", pairs[1]))
    return reduced(importer, before.convert(importer.dtype), "add", -1)


@handles("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def _bucketize(importer: Importer, x: Any, row: Any, **more: Any) -> Tensor:
    return _searchsorted(importer, row, x, **more)


def _write(
    importer: Importer, x: Tensor, axes: list[int], parts: list[Tensor], updates: Tensor, combiner: str
) -> Tensor:
    """Combines updates[i..., window...] with x at the positions of the index tensors on `axes`."""
    shape = list(parts[0].shape)
    columns = [part.reshape(*shape, 1) for part in parts]
    vectors = columns[0] if len(columns) == 1 else importer.op("concat", *columns, dim=len(shape))
    return scattered(importer.op, x, vectors, updates, axes, len(shape), combiner=combiner, mode="error")


@handles("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(importer: Importer, x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    tensor = importer.tensor(x)
    masks = [index for index in indices if index is not None and _is_bool(index)]
    if masks:
        value = importer.tensor(values, tensor.dtype)
        if len(indices) > 1 or accumulate or value.ndim:
            raise importer.unsupported("values written under a bool mask", suggestion="Use torch.where")
        mask = truth(importer, masks[0])
        mask = mask.reshape(*mask.shape, *[1] * (tensor.ndim - mask.ndim))
        return importer.apply("select", mask, value, tensor)
    axes = [i for i, index in enumerate(indices) if index is not None]
    parts = [indices_of(importer, indices[i], tensor.shape[i], wraps=True).convert("i64") for i in axes]
    shape = list(torch.broadcast_shapes(*[part.shape for part in parts]))
    parts = [importer.broadcast(part, shape) for part in parts]
    rest = [tensor.shape[i] for i in range(tensor.ndim) if i not in axes]
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    # torch puts the axes of the indices at the first indexed axis, scatter puts them in front
    wanted = [*rest[:front], *shape, *rest[front:]]
    updates = importer.broadcast(importer.tensor(values, tensor.dtype), wanted)
    if front and shape:
        order = [*range(front, front + len(shape)), *range(front), *range(front + len(shape), len(wanted))]
        updates = updates.transpose(*order)
    return _write(importer, tensor, axes, parts, updates, "add" if accumulate else "set")


def _is_bool(index: Any) -> bool:
    return index.dtype in (torch.bool, "bool")


@handles(
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter_add.default",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
    "aten.scatter_reduce.two",
)
def _scatter(importer: Importer, x: Any, dim: int, index: Any, source: Any, reduce: str = "", **more: Any) -> Tensor:
    """Combines x[index[i, j, ...], j, ...] with source[i, j, ...] along an axis."""
    reduce = more.get("reduce", reduce)
    if "scatter_add" in str(importer.node.target):
        reduce = "sum"
    if (reduce and reduce not in _COMBINERS) or not more.get("include_self", True):
        raise importer.unsupported("this reduction of a scatter", reduce)
    tensor = importer.tensor(x)
    at = axis(dim, tensor.ndim)
    place = indices_of(importer, index, tensor.shape[at]).convert("i64")
    shape = list(place.shape)
    value = importer.tensor(source, tensor.dtype)
    if value.ndim == len(shape):
        value = value[tuple(slice(0, extent) for extent in shape)]
    value = importer.broadcast(value, shape)
    parts = [place if i == at else importer.op("iota", shape=shape, dtype="i64", dim=i) for i in range(len(shape))]
    combiner = _COMBINERS[reduce] if reduce else "set"
    return _write(importer, tensor, list(range(tensor.ndim)), parts, value, combiner)


@handles("aten.index_add.default", "aten.index_copy.default", "aten.index_fill.int_Scalar")
def _index_rows(importer: Importer, x: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Tensor:
    """Writes rows along an axis; in place for one row or for consecutive constant indices."""
    tensor, part = importer.tensor(x), importer.tensor(source, importer.dtype)
    at, adds = axis(dim, tensor.ndim), "index_add" in str(importer.node.target)
    wraps = "index_fill" in str(importer.node.target)
    place = indices_of(importer, index, tensor.shape[at], wraps).convert("i64").reshape(-1)
    count = place.shape[0]
    part = importer.broadcast(part, [*tensor.shape[:at], count, *tensor.shape[at + 1 :]])
    first = _first(index, tensor.shape[at])
    if not adds and (count == 1 or first is not None):
        start = place.reshape() if first is None else importer.builder.scalar(first, "i64")
        zero = importer.builder.scalar(0, "i64")
        starts = [start if i == at else zero for i in range(tensor.ndim)]
        return importer.op("dynamic_update", tensor, part, *starts, mode="error")
    part = part * alpha if alpha != 1 else part
    updates = part.transpose(at, *[i for i in range(tensor.ndim) if i != at])
    return _write(importer, tensor, [at], [place], updates, "add" if adds else "set")


def _first(index: Any, extent: int) -> int | None:
    """Returns the first row index if the indices are constant, consecutive and within the extent; else None."""
    if not isinstance(index, torch.Tensor) or index.numel() == 0:
        return None
    places = index.reshape(-1).tolist()
    known = 0 <= places[0] <= extent - len(places) and places == list(range(places[0], places[0] + len(places)))
    return int(places[0]) if known else None


@handles("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")
def _grouped_mm(
    importer: Importer, a: Any, b: Any, offsets: Any = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """Multiplies groups of rows of a by matrices of b; offsets are the ends of the groups."""
    left, right = importer.tensor(a), importer.tensor(b)
    if left.ndim != 2 or right.ndim != 3 or offsets is None or bias is not None:
        raise importer.unsupported("this form of a grouped product")
    ends = importer.tensor(offsets)
    starts = importer.op("pad", ends[:-1], importer.builder.scalar(0, ends.dtype), low=[1], high=[0])
    stored = importer.source_of(1)
    turned = str(stored.target) == "aten.transpose.int" and {axis(dim, 3) for dim in stored.args[1:]} == {1, 2}
    if turned and stored.args[0] in importer.values:
        right = importer.tensor(importer.value(stored.args[0]))
    else:
        turned = False
    return importer.op("ragged_contract", left, right, ends - starts, b_transposed=turned).convert(importer.dtype)


@handles("aten.histc.default")
def _histc(importer: Importer, x: Any, bins: int = 100, low: float = 0, high: float = 0) -> Tensor:
    """Counts elements in equal bins from low to high, high included."""
    if low >= high:
        raise importer.unsupported("a histogram over the range of the data")
    values = importer.tensor(x).reshape(-1, 1).convert("f32")
    scalar = importer.builder.scalar
    place = importer.apply("floor", (values - float(low)) * float(bins) / float(high - low))
    place = importer.apply("minimum", place, scalar(bins - 1, "f32"))
    inside = importer.apply("less_equal", values, scalar(high, "f32"))
    numbers: Tensor = importer.op("iota", shape=[1, bins], dtype="f32", dim=1)
    hits = importer.apply("logical_and", importer.apply("equal", place, numbers), inside)
    return hits.convert("i32").sum(0).convert(importer.dtype)
