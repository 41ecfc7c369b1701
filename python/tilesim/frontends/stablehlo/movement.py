"""Operations of StableHLO that move elements, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.dtypes import FLOATS
from ...graph.tensor import Tensor
from .scope import Complex, Scope, Value, handles
from .types import BITS, Shaped, dense, integer, integers


def each(value: Value, move: Any) -> Value:
    """Applies a movement to a tensor, or to both parts of a complex one."""
    return Complex(move(value.re), move(value.im)) if isinstance(value, Complex) else move(value)


def result(op: Any) -> Shaped:
    """Type of the first result."""
    return Shaped(op.results[0].type, str(op.name))


@handles("stablehlo.constant")
def constant(scope: Scope, op: Any) -> Sequence[Value]:
    """Equal elements become a scalar and a broadcast."""
    shaped = result(op)
    array, splat = dense(op, shaped, "stablehlo.constant")

    def tensor(values: Any) -> Tensor:
        made = scope.constant(values)
        return scope.broadcast(made, shaped.shape) if splat else made

    return [Complex(tensor(array[..., 0]), tensor(array[..., 1])) if shaped.complex else tensor(array)]


@handles("stablehlo.iota")
def iota(scope: Scope, op: Any) -> Sequence[Value]:
    """Indices along one axis."""
    shaped, dim = result(op), integer(op, "iota_dimension")
    if shaped.complex:
        raise Unsupported("iota of complex numbers")
    whole = shaped.dtype not in FLOATS or BITS[shaped.dtype] >= 32
    made = scope.op("iota", shape=shaped.shape, dtype=shaped.dtype if whole else "f32", dim=dim)
    return [scope.convert(made, shaped.dtype)]


@handles("stablehlo.reshape", "stablehlo.dynamic_reshape", "mhlo.bitcast")
def reshape(scope: Scope, op: Any) -> Sequence[Value]:
    """The same elements in another shape."""
    shape = result(op).shape
    return [each(scope.value(op.operands[0]), lambda x: scope.reshape(x, shape))]


@handles("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def broadcast(scope: Scope, op: Any) -> Sequence[Value]:
    """Axes are named; new ones and those of extent 1 repeat."""
    shape, dims = result(op).shape, integers(op, "broadcast_dimensions")

    def move(x: Tensor) -> Tensor:
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        return scope.broadcast(scope.transpose(x, order), shape, [dims[i] for i in order])

    return [each(scope.value(op.operands[0]), move)]


@handles("stablehlo.broadcast")
def leading(scope: Scope, op: Any) -> Sequence[Value]:
    """New axes in front."""
    shape = result(op).shape
    return [each(scope.value(op.operands[0]), lambda x: scope.broadcast(x, shape))]


@handles("stablehlo.transpose")
def transpose(scope: Scope, op: Any) -> Sequence[Value]:
    """Axes in another order."""
    permutation = integers(op, "permutation")
    return [each(scope.value(op.operands[0]), lambda x: scope.transpose(x, permutation))]


@handles("stablehlo.reverse")
def reverse(scope: Scope, op: Any) -> Sequence[Value]:
    """Axes backwards."""
    dims = integers(op, "dimensions")
    return [each(scope.value(op.operands[0]), lambda x: scope.op("reverse", x, dims=dims) if dims else x)]


@handles("stablehlo.slice")
def static_slice(scope: Scope, op: Any) -> Sequence[Value]:
    """A part with static borders."""
    start, limit, stride = (integers(op, name) for name in ("start_indices", "limit_indices", "strides"))
    return [each(scope.value(op.operands[0]), lambda x: scope.slice(x, start, limit, stride))]


@handles("stablehlo.concatenate")
def concatenate(scope: Scope, op: Any) -> Sequence[Value]:
    """Tensors one after the other."""
    values, dim = [scope.value(operand) for operand in op.operands], integer(op, "dimension")
    if isinstance(values[0], Complex):
        return [Complex(scope.concat([v.re for v in values], dim), scope.concat([v.im for v in values], dim))]
    return [scope.concat(values, dim)]


@handles("stablehlo.pad")
def pad(scope: Scope, op: Any) -> Sequence[Value]:
    """Low, high and interior; negative ones cut off."""
    low, high, interior = (integers(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    x, fill = scope.value(op.operands[0]), scope.value(op.operands[1])

    def move(part: Tensor, value: Tensor) -> Tensor:
        padded: Tensor = scope.op("pad", part, value, low=low, high=high, interior=interior)
        return padded

    return [Complex(move(x.re, fill.re), move(x.im, fill.im)) if isinstance(x, Complex) else move(x, fill)]


@handles("stablehlo.bitcast_convert")
def bitcast(scope: Scope, op: Any) -> Sequence[Value]:
    """Bits as another dtype; of another width through shifts, the low ones first (StableHLO, bitcast_convert)."""
    (x,) = scope.operands(op)
    shaped = result(op)
    old, new = BITS[x.dtype], BITS[shaped.dtype]
    if old == new:
        return [scope.bitcast(x, shaped.dtype)]
    bits = scope.bitcast(x, "i64" if old == 64 > new else f"u{old}")  # vector units shift signed 64-bit integers
    if old > new:
        amounts = scope.constant(np.arange(0, old, new).astype("int64" if old == 64 else f"uint{old}"))
        wide = scope.broadcast(scope.reshape(bits, [*bits.shape, 1]), shaped.shape)
        return [scope.bitcast(scope.convert(scope.apply("shift_right", wide, amounts), f"u{new}"), shaped.dtype)]
    wide = scope.convert(bits, f"u{new}")
    shifted = scope.apply("shift_left", wide, scope.constant(np.arange(0, new, old).astype(f"uint{new}")))
    total = scope.op("reduce", shifted, dims=[wide.ndim - 1], combiner="add")
    return [scope.bitcast(total, shaped.dtype)]


def starts(scope: Scope, operands: Sequence[Any]) -> list[Tensor]:
    """Start indices as scalars."""
    return [scope.real(operand) for operand in operands]


@handles("stablehlo.dynamic_slice")
def dynamic_slice(scope: Scope, op: Any) -> Sequence[Value]:
    """A part whose start is clamped; static where the start is known."""
    x, sizes = scope.value(op.operands[0]), integers(op, "slice_sizes")
    first = starts(scope, list(op.operands)[1:])
    shape = x.re.shape if isinstance(x, Complex) else x.shape
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

    return [each(x, move)]


@handles("stablehlo.dynamic_update_slice")
def dynamic_update(scope: Scope, op: Any) -> Sequence[Value]:
    """x with a part written at the clamped start."""
    x, update = scope.value(op.operands[0]), scope.value(op.operands[1])
    first = starts(scope, list(op.operands)[2:])
    if isinstance(x, Complex):
        return [
            Complex(
                scope.op("dynamic_update", x.re, update.re, *first), scope.op("dynamic_update", x.im, update.im, *first)
            )
        ]
    return [scope.op("dynamic_update", x, update, *first)]


@handles("stablehlo.real_dynamic_slice")
def real_dynamic_slice(scope: Scope, op: Any) -> Sequence[Value]:
    """Read where borders are constants."""
    borders = [scope.array(scope.real(operand)) for operand in list(op.operands)[1:4]]
    if any(border is None for border in borders):
        raise Unsupported("a slice whose size depends on data: export with static shapes")
    start, limit, stride = ([int(value) for value in border] for border in borders if border is not None)
    return [each(scope.value(op.operands[0]), lambda x: scope.slice(x, start, limit, stride))]


@handles("stablehlo.get_dimension_size")
def dimension_size(scope: Scope, op: Any) -> Sequence[Value]:
    """A constant: extents are static."""
    shape = Shaped(op.operands[0].type, str(op.name)).shape
    return [scope.scalar(shape[integer(op, "dimension")], "i32")]


@handles("stablehlo.optimization_barrier")
def unchanged(scope: Scope, op: Any) -> Sequence[Value]:
    """Values pass; only a compiler's freedom changes."""
    return [scope.value(operand) for operand in op.operands]


@handles("mhlo.copy")
def copy(scope: Scope, op: Any) -> Sequence[Value]:
    """A copy."""
    return [each(scope.value(op.operands[0]), lambda x: scope.op("copy", x))]
