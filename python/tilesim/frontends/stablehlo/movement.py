"""Operations of StableHLO that move elements, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import FLOATS, NUMPY
from ...graph.tensor import Tensor
from .scope import Complex, Scope, Value, each, handles
from .types import BITS, Shaped, dense, integer, integers


def result(op: Any) -> Shaped:
    """The type of the first result."""
    return Shaped(op.results[0].type, str(op.name))


def as_complex(scope: Scope, re: Tensor) -> Complex:
    """Converts real numbers to complex ones with imaginary zeros."""
    return Complex(re, scope.broadcast(scope.scalar(0, re.dtype), re.shape))


@handles("stablehlo.constant")
def constant(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds a constant; equal elements become a scalar and a broadcast."""
    shaped = result(op)
    array, splat = dense(op, shaped, "stablehlo.constant")

    def tensor(values: Any) -> Tensor:
        made = scope.constant(values)
        return scope.broadcast(made, shaped.shape) if splat else made

    return [Complex(tensor(array[..., 0]), tensor(array[..., 1])) if shaped.complex else tensor(array)]


@handles("stablehlo.iota", "stablehlo.dynamic_iota")
def iota(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds a tensor of positions along one axis."""
    shaped, dim = result(op), integer(op, "iota_dimension")
    whole = shaped.dtype not in FLOATS or BITS[shaped.dtype] >= 32
    made = scope.op("iota", shape=shaped.shape, dtype=shaped.dtype if whole else "f32", dim=dim)
    return [as_complex(scope, made) if shaped.complex else scope.convert(made, shaped.dtype)]


@handles("stablehlo.reshape", "stablehlo.dynamic_reshape", "mhlo.bitcast")
def reshape(scope: Scope, op: Any) -> Sequence[Value]:
    """Views the same elements in another shape."""
    shape = result(op).shape
    return [each(lambda x: scope.reshape(x, shape), scope.value(op.operands[0]))]


@handles("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def broadcast(scope: Scope, op: Any) -> Sequence[Value]:
    """Repeats axes of extent 1, and adds new axes."""
    shape, dims = result(op).shape, integers(op, "broadcast_dimensions")

    def move(x: Tensor) -> Tensor:
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        return scope.broadcast(scope.transpose(x, order), shape, [dims[i] for i in order])

    return [each(move, scope.value(op.operands[0]))]


@handles("stablehlo.broadcast")
def leading(scope: Scope, op: Any) -> Sequence[Value]:
    """Adds new axes in front."""
    shape = result(op).shape
    return [each(lambda x: scope.broadcast(x, shape), scope.value(op.operands[0]))]


@handles("stablehlo.transpose")
def transpose(scope: Scope, op: Any) -> Sequence[Value]:
    """Permutes axes."""
    permutation = integers(op, "permutation")
    return [each(lambda x: scope.transpose(x, permutation), scope.value(op.operands[0]))]


@handles("stablehlo.reverse")
def reverse(scope: Scope, op: Any) -> Sequence[Value]:
    """Reverses axes."""
    dims = integers(op, "dimensions")
    return [each(lambda x: scope.op("reverse", x, dims=dims) if dims else x, scope.value(op.operands[0]))]


@handles("stablehlo.slice")
def static_slice(scope: Scope, op: Any) -> Sequence[Value]:
    """Slices with static borders."""
    start, limit, stride = (integers(op, name) for name in ("start_indices", "limit_indices", "strides"))
    return [each(lambda x: scope.slice(x, start, limit, stride), scope.value(op.operands[0]))]


@handles("stablehlo.concatenate")
def concatenate(scope: Scope, op: Any) -> Sequence[Value]:
    """Joins tensors along an axis."""
    dim = integer(op, "dimension")
    return [each(lambda *parts: scope.concat(parts, dim), *(scope.value(operand) for operand in op.operands))]


@handles("stablehlo.pad", "stablehlo.dynamic_pad")
def pad(scope: Scope, op: Any) -> Sequence[Value]:
    """Pads with low, high and interior padding; negative padding cuts elements off."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    sizes = list(op.operands)[2:]
    low, high, interior = (scope.sizes(size) for size in sizes) if sizes else (integers(op, name) for name in names)
    x, fill = scope.value(op.operands[0]), scope.value(op.operands[1])

    def move(part: Tensor, value: Tensor) -> Tensor:
        padded: Tensor = scope.op("pad", part, value, low=low, high=high, interior=interior)
        return padded

    return [each(move, x, fill)]


@handles("stablehlo.bitcast_convert")
def bitcast(scope: Scope, op: Any) -> Sequence[Value]:
    """Reinterprets bits as another dtype; shifts split or join words, low bits first (StableHLO, bitcast_convert)."""
    x, shaped = scope.value(op.operands[0]), result(op)
    if isinstance(x, Complex):
        return [_complex_bits(scope, x, shaped)]
    old, new = BITS[x.dtype], BITS[shaped.dtype]
    if old == new:
        return [scope.bitcast(x, shaped.dtype)]
    single = scope.convert(x, "u8") if old == 1 else None  # bool uses one bit of its byte
    bits = single or scope.bitcast(x, "i64" if old == 64 > new else f"u{old}")  # vector units shift signed 64-bit words
    if old > new:
        amounts = scope.constant(np.arange(0, old, new).astype(NUMPY[bits.dtype]))
        wide = scope.broadcast(scope.reshape(bits, [*bits.shape, 1]), shaped.shape)
        part = scope.apply("shift_right", wide, amounts)
        if new == 1:
            return [scope.convert(scope.apply("bitwise_and", part, scope.scalar(1, part.dtype)), "bool")]
        return [scope.bitcast(scope.convert(part, f"u{new}"), shaped.dtype)]
    wide = scope.convert(bits, f"u{new}")
    shifted = scope.apply("shift_left", wide, scope.constant(np.arange(0, new, old).astype(NUMPY[wide.dtype])))
    total = scope.op("reduce", shifted, dims=[wide.ndim - 1], combiner="add")
    return [scope.bitcast(total, shaped.dtype)]


def _complex_bits(scope: Scope, x: Complex, shaped: Shaped) -> Complex:
    """Reinterprets complex numbers in another width: one f64 corresponds to two f32, low bits first."""
    if x.re.dtype == shaped.dtype:
        return x
    if shaped.dtype == "f32":
        words = [scope.op("bitcast", part, dtype="f32") for part in (x.re, x.im)]
        last = words[0].ndim - 1
        low, high = ([scope.along(word, last, i, i + 1) for word in words] for i in (0, 1))
        return Complex(scope.concat(low, last), scope.concat(high, last))
    last = x.ndim - 1
    halves = [[scope.along(part, last, i, i + 1) for part in (x.re, x.im)] for i in (0, 1)]
    re, im = (scope.op("bitcast", scope.concat(half, last), dtype="f64") for half in halves)
    return Complex(re, im)


def starts(scope: Scope, operands: Sequence[Any]) -> list[Tensor]:
    """Start indices as scalars."""
    return [scope.real(operand) for operand in operands]


@handles("stablehlo.dynamic_slice")
def dynamic_slice(scope: Scope, op: Any) -> Sequence[Value]:
    """Slices at a clamped start; a constant start gives a static slice."""
    x, sizes = scope.value(op.operands[0]), integers(op, "slice_sizes")
    first = starts(scope, list(op.operands)[1:])
    shape = x.shape
    known = [scope.array(start) for start in first]

    def move(part: Tensor) -> Tensor:
        if all(value is not None for value in known):
            low = [
                min(max(0, int(value)), extent - size)
                for value, extent, size in zip(known, shape, sizes, strict=True)
                if value is not None
            ]
            return scope.slice(part, low, [a + b for a, b in zip(low, sizes, strict=True)])
        moved: Tensor = scope.op("dynamic_slice", part, *first, sizes=sizes)
        return moved

    return [each(move, x)]


@handles("stablehlo.dynamic_update_slice")
def dynamic_update(scope: Scope, op: Any) -> Sequence[Value]:
    """Writes a part into x at the clamped start."""
    x, update = scope.value(op.operands[0]), scope.value(op.operands[1])
    first = starts(scope, list(op.operands)[2:])
    return [each(lambda old, new: scope.op("dynamic_update", old, new, *first), x, update)]


@handles("stablehlo.real_dynamic_slice")
def real_dynamic_slice(scope: Scope, op: Any) -> Sequence[Value]:
    """Slices with constant borders, or with a dynamic start and the size of the result's type."""
    stride, shape = scope.sizes(op.operands[3]), result(op).shape
    first = scope.real(op.operands[1])
    known = scope.array(scope.spread.get(first.value, first))
    if known is None and set(stride) <= {1}:
        starts = [scope.reshape(scope.along(first, 0, i, i + 1), []) for i in range(len(shape))]
        return [each(lambda x: scope.op("dynamic_slice", x, *starts, sizes=shape), scope.value(op.operands[0]))]
    start, limit = (scope.sizes(operand) for operand in list(op.operands)[1:3])
    return [each(lambda x: scope.slice(x, start, limit, stride), scope.value(op.operands[0]))]


@handles("stablehlo.get_dimension_size")
def dimension_size(scope: Scope, op: Any) -> Sequence[Value]:
    """An extent as a constant, because extents are static."""
    shape = Shaped(op.operands[0].type, str(op.name)).shape
    return [scope.scalar(shape[integer(op, "dimension")], "i32")]


@handles("stablehlo.optimization_barrier")
def unchanged(scope: Scope, op: Any) -> Sequence[Value]:
    """Returns the operands, because a barrier only restricts compilers."""
    return [scope.value(operand) for operand in op.operands]


@handles("mhlo.copy")
def copy(scope: Scope, op: Any) -> Sequence[Value]:
    """Copies the operand."""
    return [each(lambda x: scope.op("copy", x), scope.value(op.operands[0]))]
