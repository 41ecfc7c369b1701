"""Quantized operators of ONNX: storage dtypes with explicit scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import FLOATS
from ...graph.tensor import Tensor
from .scope import OnnxNode, OnnxScope, Value, axis_of, dtype_of, handles
from .window import convolution


def aligned(scope: OnnxScope, part: Tensor, x: Tensor, node: OnnxNode) -> Tensor:
    """Shapes a scale or zero point to broadcast to x: one number, one per slice of an axis, or one per block."""
    if part.ndim == 0 or (part.ndim == 1 and part.shape[0] == 1):
        return scope.reshape(part, [])
    axis = axis_of(node.integer("axis", 1), x.ndim, node.place)
    block = node.integer("block_size")
    if part.ndim == 1 and not block:
        return scope.reshape(part, [part.shape[0] if i == axis else 1 for i in range(x.ndim)])
    if list(part.shape) == list(x.shape):
        return part
    block = block or x.shape[axis] // part.shape[axis]
    wide = [*part.shape[: axis + 1], block, *part.shape[axis + 1 :]]
    spread = scope.broadcast(part, wide, [i if i <= axis else i + 1 for i in range(part.ndim)])
    merged = scope.reshape(spread, [*part.shape[:axis], part.shape[axis] * block, *part.shape[axis + 1 :]])
    return scope.along(merged, axis, 0, x.shape[axis])


def quantized(
    scope: OnnxScope, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: str, saturate: bool = True
) -> Tensor:
    """Computes round(x / scale) + zero, saturated."""
    real = x if x.dtype in FLOATS else scope.convert(x, scale.dtype)
    y = scope.apply("divide", real, scope.convert(scale, real.dtype))
    if dtype in FLOATS:
        if zero is not None:
            y = scope.apply("add", y, scope.convert(zero, y.dtype))
        return scope.convert(y, dtype, **({"overflow": "saturate"} if saturate else {}))
    y = scope.apply("round_even", y)
    if zero is not None:
        y = scope.apply("add", y, scope.convert(zero, y.dtype))
    return scope.convert(y, dtype, overflow="saturate")


def dequantized(scope: OnnxScope, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: str) -> Tensor:
    """Computes (x - zero) scale."""
    if zero is not None and x.dtype not in FLOATS:
        wide = scope.apply("subtract", scope.convert(x, "i32"), scope.convert(zero, "i32"))
    else:
        wide = x
        if zero is not None:
            wide = scope.apply("subtract", scope.convert(x, "f32"), scope.convert(zero, "f32"))
    real = scope.convert(wide, "f32")
    return scope.convert(scope.apply("multiply", real, scope.convert(scale, "f32")), dtype)


@handles("QuantizeLinear")
def quantize(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Quantizes with a scale per tensor, axis or block."""
    x, scale, zero = scope.get(node, 0), scope.get(node, 1), scope.get(node, 2)
    dtype = zero.dtype if zero is not None else "u8"
    if zero is None and node.integer("output_dtype"):
        dtype = dtype_of(node.integer("output_dtype"), node.place)
    scale = aligned(scope, scale, x, node)
    zero = aligned(scope, zero, x, node) if zero is not None else None
    return [quantized(scope, x, scale, zero, dtype, node.integer("saturate", 1) != 0)]


@handles("DequantizeLinear")
def dequantize(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Dequantizes with a scale per tensor, axis or block."""
    x, scale, zero = scope.get(node, 0), scope.get(node, 1), scope.get(node, 2)
    dtype = scale.dtype
    if node.integer("output_dtype"):
        dtype = dtype_of(node.integer("output_dtype"), node.place)
    wide = aligned(scope, scale, x, node)
    return [dequantized(scope, x, wide, aligned(scope, zero, x, node) if zero is not None else None, dtype)]


@handles("DynamicQuantizeLinear")
def dynamic_quantize(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Quantizes to u8 by the range of the data, extended to include zero."""
    x = scope.get(node, 0)
    dims = list(range(x.ndim))
    zero = scope.like(0, x)
    top = scope.apply("maximum", scope.reduce(x, dims, "maximum", keep=False), zero)
    low = scope.apply("minimum", scope.reduce(x, dims, "minimum", keep=False), zero)
    scale = scope.apply("divide", top - low, scope.like(255, x))
    point = scope.apply("round_even", scope.apply("divide", scope.apply("negate", low), scale))
    point = scope.convert(scope.apply("clamp", zero, point, scope.like(255, x)), "u8")
    return [quantized(scope, x, scale, point, "u8"), scale, point]


def centered(scope: OnnxScope, x: Tensor, zero: Tensor | None, shape: Sequence[int] | None = None) -> Tensor:
    """Computes x - zero in i32."""
    wide = scope.convert(x, "i32")
    if zero is None:
        return wide
    known = scope.array(zero)
    if known is not None and not np.any(known):
        return wide
    point = scope.reshape(zero, shape) if shape is not None and zero.ndim else zero
    return scope.apply("subtract", wide, scope.convert(point, "i32"))


def rows(zero: Tensor | None) -> list[int] | None:
    """Shape of a zero point that has one number per row of the first operand."""
    return [*zero.shape[:-1], zero.shape[-1], 1] if zero is not None and zero.ndim == 1 and zero.shape[0] > 1 else None


@handles("MatMulInteger")
def matmul_integer(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Multiplies 8-bit integers in i32."""
    a, b, a_zero, b_zero = (scope.get(node, i) for i in range(4))
    return [scope.builder.matmul(centered(scope, a, a_zero, rows(a_zero)), centered(scope, b, b_zero))]


@handles("QLinearMatMul")
def qlinear_matmul(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Multiplies 8-bit integers, scales the result and quantizes it again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = scope.operands(node)
    product = scope.builder.matmul(centered(scope, a, a_zero, rows(a_zero)), centered(scope, b, b_zero))
    factor = scope.apply("multiply", scope.convert(a_scale, "f32"), scope.convert(b_scale, "f32"))
    real = scope.apply("multiply", scope.convert(product, "f32"), factor)
    return [quantized(scope, real, scope.convert(y_scale, "f32"), y_zero, y_zero.dtype)]


@handles("ConvInteger")
def conv_integer(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Convolves 8-bit integers in i32."""
    x, w, x_zero, w_zero = (scope.get(node, i) for i in range(4))
    per_output = [w_zero.shape[0], *[1] * (w.ndim - 1)] if w_zero is not None and w_zero.ndim == 1 else None
    return [
        convolution(scope, node, centered(scope, x, x_zero), centered(scope, w, w_zero, per_output), None, dtype="i32")
    ]


@handles("QLinearConv")
def qlinear_conv(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Convolves 8-bit integers, scales the result and quantizes it again."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (scope.get(node, i) for i in range(8))
    per_output = [w_zero.shape[0], *[1] * (w.ndim - 1)] if w_zero is not None and w_zero.ndim == 1 else None
    total = convolution(
        scope, node, centered(scope, x, x_zero), centered(scope, w, w_zero, per_output), scope.get(node, 8), dtype="i32"
    )
    if w_scale.ndim == 1:
        w_scale = scope.reshape(w_scale, [w_scale.shape[0], *[1] * (x.ndim - 2)])
    real = scope.apply("multiply", scope.convert(total, "f32"), scope.apply("multiply", x_scale, w_scale))
    return [quantized(scope, real, y_scale, y_zero, y_zero.dtype)]
