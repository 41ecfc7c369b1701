"""Handlers for overloads that view, move, convert or create."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch

from ...graph.tensor import Tensor
from ...graph.torch_arrays import dtype_name
from .importing import Importer
from .table import handles


def axis(dim: int, rank: int) -> int:
    """Converts an axis index, negative ones count from the end, to an index from the front."""
    return dim + rank if dim < 0 else dim


@handles(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.view_as.default",
)
def _reshape(importer: Importer, x: Any, *_: Any, **__: Any) -> Tensor:
    """Reads elements in row-major order in the shape that torch states."""
    tensor = importer.tensor(x)
    return tensor if list(tensor.shape) == importer.shape else tensor.reshape(*importer.shape)


@handles(
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
    "aten.dropout.default",
    "aten.native_dropout.default",
)
def _identity(importer: Importer, x: Any, *rest: Any, **__: Any) -> Any:
    overload = str(importer.node.target)
    if "dropout" in overload and len(rest) > 1 and rest[1] and rest[0] > 0:
        raise importer.unsupported("dropout in training draws random numbers", suggestion="Call module.eval()")
    value = importer.tensor(x)
    return (value, None) if "native_dropout" in overload else value


@handles("aten.permute.default")
def _permute(importer: Importer, x: Any, dims: Sequence[int]) -> Tensor:
    tensor = importer.tensor(x)
    order = [axis(dim, tensor.ndim) for dim in dims]
    return tensor if order == sorted(order) else tensor.transpose(*order)


@handles("aten.transpose.int", "aten.swapaxes.default")
def _transpose(importer: Importer, x: Any, first: int, second: int) -> Tensor:
    tensor = importer.tensor(x)
    if tensor.ndim == 0:
        return tensor
    order = list(range(tensor.ndim))
    first, second = axis(first, tensor.ndim), axis(second, tensor.ndim)
    order[first], order[second] = second, first
    return tensor if first == second else tensor.transpose(*order)


@handles("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def _t(importer: Importer, x: Any) -> Tensor:
    tensor = importer.tensor(x)
    return tensor if tensor.ndim < 2 else _transpose(importer, tensor, -2, -1)


@handles("aten.expand.default", "aten.broadcast_to.default", "aten.expand_as.default")
def _expand(importer: Importer, x: Any, *_: Any, **__: Any) -> Tensor:
    return importer.broadcast(importer.tensor(x), importer.shape)


@handles("aten.slice.Tensor")
def _slice(
    importer: Importer, x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return along(importer.tensor(x), dim, slice(start, end, step))


def along(tensor: Tensor, dim: int, index: Any) -> Tensor:
    """Indexes one axis by a slice or an integer."""
    key: list[Any] = [slice(None)] * tensor.ndim
    key[axis(dim, tensor.ndim)] = index
    return tensor[tuple(key)]


@handles("aten.select.int")
def _select(importer: Importer, x: Any, dim: int, index: int) -> Tensor:
    return along(importer.tensor(x), dim, int(index))


@handles("aten.narrow.default")
def _narrow(importer: Importer, x: Any, dim: int, start: int, length: int) -> Tensor:
    tensor = importer.tensor(x)
    start = start + tensor.shape[axis(dim, tensor.ndim)] if start < 0 else start
    return _slice(importer, tensor, dim, start, start + length)


def _parts(tensor: Tensor, dim: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(along(tensor, dim, slice(start, end)) for start, end in pairwise(ends))


@handles(
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.chunk.default",
    "aten.split.sizes",
    "aten.tensor_split.sections",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_chunk.default",
)
def _split(importer: Importer, x: Any, how: Any, dim: int = 0) -> tuple[Tensor, ...]:
    tensor = importer.tensor(x)
    at = axis(dim, tensor.ndim)
    return _parts(tensor, at, [int(meta.shape[at]) for meta in importer.meta])


@handles("aten.unbind.int")
def _unbind(importer: Importer, x: Any, dim: int = 0) -> tuple[Tensor, ...]:
    tensor = importer.tensor(x)
    return tuple(_select(importer, tensor, dim, i) for i in range(tensor.shape[axis(dim, tensor.ndim)]))


@handles("aten.cat.default", "aten.concat.default")
def _cat(importer: Importer, tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Joins tensors; skips empty tensors of one axis, as torch does."""
    parts = [importer.tensor(part, importer.dtype) for part in tensors]
    kept = [part for part in parts if part.ndim == len(importer.shape) and not (part.ndim == 1 and part.shape[0] == 0)]
    if not kept:
        return parts[0]
    return kept[0] if len(kept) == 1 else importer.op("concat", *kept, dim=axis(dim, kept[0].ndim))


@handles("aten.stack.default")
def _stack(importer: Importer, tensors: Sequence[Any], dim: int = 0) -> Tensor:
    at = axis(dim, len(importer.shape))
    parts = []
    for part in tensors:
        tensor = importer.tensor(part, importer.dtype)
        parts.append(tensor.reshape(*tensor.shape[:at], 1, *tensor.shape[at:]))
    return parts[0] if len(parts) == 1 else importer.op("concat", *parts, dim=at)


@handles("aten.repeat.default", "aten.tile.default")
def _repeat(importer: Importer, x: Any, repeats: Sequence[int]) -> Tensor:
    """Repeats x: broadcasts each axis to [repeat, extent], then merges both."""
    tensor = importer.tensor(x)
    shape = [1] * (len(importer.shape) - tensor.ndim) + list(tensor.shape)
    times = [1] * (len(shape) - len(repeats)) + list(repeats)
    pairs = [extent for pair in zip(times, shape, strict=True) for extent in pair]
    single = [extent for size in shape for extent in (1, size)]
    wide = importer.broadcast(tensor.reshape(*single), pairs)
    return wide.reshape(*importer.shape)


@handles("aten.repeat_interleave.self_int")
def _repeat_interleave(importer: Importer, x: Any, repeats: int, dim: int | None = None, **_: Any) -> Tensor:
    tensor = importer.tensor(x)
    if dim is None:
        tensor, dim = tensor.reshape(-1), 0
    at = axis(dim, tensor.ndim) + 1
    apart = tensor.reshape(*tensor.shape[:at], 1, *tensor.shape[at:])
    return importer.broadcast(apart, [*tensor.shape[:at], repeats, *tensor.shape[at:]]).reshape(*importer.shape)


@handles("aten.flip.default")
def _flip(importer: Importer, x: Any, dims: Sequence[int]) -> Tensor:
    tensor = importer.tensor(x)
    return importer.op("reverse", tensor, dims=sorted(axis(dim, tensor.ndim) for dim in dims))


@handles("aten.roll.default")
def _roll(importer: Importer, x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    tensor = importer.tensor(x)
    flat = not dims
    value = tensor.reshape(-1) if flat else tensor
    for shift, dim in zip(shifts, dims or [0], strict=True):
        at = axis(dim, value.ndim)
        extent = value.shape[at]
        first = extent - shift % extent if extent else 0
        if extent and shift % extent:
            parts = _parts(value, at, [first, extent - first])
            value = importer.op("concat", parts[1], parts[0], dim=at)
    return value.reshape(*tensor.shape) if flat else value


@handles("aten.constant_pad_nd.default")
def _pad(importer: Importer, x: Any, pads: Sequence[int], value: float = 0) -> Tensor:
    tensor = importer.tensor(x)
    return importer.op("pad", tensor, importer.builder.scalar(value, tensor.dtype), **_borders(tensor, pads))


def _borders(tensor: Tensor, pads: Sequence[int]) -> dict[str, list[int]]:
    """Converts torch's pads, which start at the last axis, to low and high pads of all axes."""
    low, high = [0] * tensor.ndim, [0] * tensor.ndim
    for i in range(len(pads) // 2):
        low[-1 - i], high[-1 - i] = pads[2 * i], pads[2 * i + 1]
    return {"low": low, "high": high}


@handles("aten.pad.default")
def _pad_mode(
    importer: Importer, x: Any, pads: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    if mode == "constant":
        return _pad(importer, x, pads, value or 0)
    tensor = importer.tensor(x)
    if mode == "circular":
        return _pad_circular(importer, tensor, pads)
    if mode not in ("reflect", "replicate"):
        raise importer.unsupported("this padding mode", mode)
    return importer.op("pad", tensor, **_borders(tensor, pads), mode="edge" if mode == "replicate" else "reflect")


def _pad_circular(importer: Importer, x: Tensor, pads: Sequence[int]) -> Tensor:
    for i in range(len(pads) // 2):
        at = x.ndim - 1 - i
        extent, (low, high) = x.shape[at], pads[2 * i : 2 * i + 2]
        if low < 0 or high < 0:
            raise importer.unsupported("negative circular padding", str(list(pads)))
        pieces = [_slice(importer, x, at, extent - low, extent), x, _slice(importer, x, at, 0, high)]
        kept = [piece for piece in pieces if piece.shape[at]]
        x = importer.op("concat", *kept, dim=at) if len(kept) > 1 else x
    return x


@handles(*[f"aten.{how}_pad{rank}d.default" for how in ("reflection", "replication") for rank in (1, 2, 3)])
def _border_pad(importer: Importer, x: Any, pads: Sequence[int]) -> Tensor:
    return _pad_mode(importer, x, pads, "reflect" if "reflection" in str(importer.node.target) else "replicate")


@handles(
    "aten._to_copy.default",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.type_as.default",
    "prims.convert_element_type.default",
)
def _to(importer: Importer, x: Any, *_: Any, **__: Any) -> Tensor:
    """Converts dtypes. Floats round to integers toward zero and wrap modulo 2^width; NaN and infinities give 0.

    Numbers beyond 448 become 448 in f8e4m3fn, which has no infinity. Other formats give infinity or NaN.
    """
    tensor = importer.tensor(x)
    dtype = importer.dtype
    if dtype == tensor.dtype:
        return tensor
    if dtype == "bool":
        return importer.apply("not_equal", tensor, importer.builder.scalar(0, tensor.dtype))
    if dtype == "f8e4m3fn" and tensor.dtype != "bool":
        return importer.op("convert", tensor, dtype=dtype, overflow="saturate")
    if dtype == "f8e8m0fnu":  # has only powers of two: torch drops the sign, and zero becomes the least power
        wide = importer.apply("abs", tensor.convert("f32"))
        tensor = importer.apply("maximum", wide, importer.builder.scalar(2.0**-127, "f32"))
    return importer.op("convert", tensor, dtype=dtype)


@handles("aten.view.dtype")
def _view_dtype(importer: Importer, x: Any, dtype: Any) -> Tensor:
    return importer.op("bitcast", importer.tensor(x), dtype=dtype_name(dtype))


def filled(importer: Importer, value: float) -> Tensor:
    """Returns a tensor of the result's shape filled with one value."""
    return importer.broadcast(importer.builder.scalar(value, importer.dtype), importer.shape)


@handles("aten.new_full.default")
def _new_full(importer: Importer, _: Any, shape: Any, value: Any, **__: Any) -> Tensor:
    return _full(importer, shape, value)


@handles("aten.full.default", "aten.full_like.default")
def _full(importer: Importer, _: Any, value: Any, *__: Any, **___: Any) -> Tensor:
    if isinstance(value, Tensor):
        return importer.broadcast(importer.tensor(value, importer.dtype), importer.shape)
    return filled(importer, float(value))


@handles(*[f"aten.{name}.default" for name in ("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones")])
def _equal(importer: Importer, *_: Any, **__: Any) -> Tensor:
    return filled(importer, float("ones" in str(importer.node.target)))


@handles("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default")
def _empty(importer: Importer, *_: Any, **__: Any) -> Tensor:
    """Returns zeros instead of uninitialised memory."""
    return filled(importer, 0.0)


@handles("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(importer: Importer, _: Any, value: Any) -> Tensor:
    return _full(importer, None, value)


@handles("aten.copy.default")
def _copy(importer: Importer, _: Any, source: Any, *__: Any) -> Tensor:
    return importer.broadcast(importer.tensor(source, importer.dtype), importer.shape)


@handles("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def _arange(importer: Importer, *numbers: Any, **_: Any) -> Tensor:
    start = numbers[0] if len(numbers) > 1 else 0.0
    step = numbers[2] if len(numbers) > 2 else 1.0
    result: Tensor = importer.op("iota", shape=importer.shape, dtype=importer.dtype, dim=0)
    result = result * step if step != 1 else result
    return result + start if start else result


@handles("aten.tril.default", "aten.triu.default")
def _triangle(importer: Importer, x: Any, diagonal: int = 0) -> Tensor:
    tensor = importer.tensor(x)
    rows, columns = tensor.shape[-2:]
    keep = torch.ones(rows, columns, dtype=torch.bool)
    lower = "tril" in str(importer.node.target)
    keep = keep.tril(diagonal) if lower else keep.triu(diagonal)
    return importer.apply("select", importer.tensor(keep), tensor, importer.builder.scalar(0, tensor.dtype))
