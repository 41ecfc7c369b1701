"""Fused operators of domain com.microsoft (ONNX Runtime, ContribOperators)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core import Unsupported
from ...base.dtypes import NUMPY
from ...graph.tensor import Tensor
from .elementwise import activation
from .norm import normalized
from .quantized import dequantize, dequantized, quantize, quantized
from .reduce import gemm
from .scope import HANDLERS, OnnxNode, OnnxScope, Value, handles
from .window import convolution

MICROSOFT = "com.microsoft"


@handles("Gelu", "FastGelu", "BiasGelu", "QuickGelu", domain=MICROSOFT)
def gelus(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """GELU, exact, in its tanh form, or as x sigmoid(alpha x); an optional bias is added first."""
    x, bias = scope.get(node, 0), scope.get(node, 1)
    x = x if bias is None else scope.apply("add", x, bias)
    if node.op == "QuickGelu":
        return [x * scope.apply("sigmoid", x * node.number("alpha", 1.702))]
    return [scope.apply("gelu_tanh" if node.op == "FastGelu" else "gelu_erf", x)]


@handles("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Normalizes a sum of operands; the sum is the fourth result."""
    x, skip, scale = (scope.get(node, i) for i in range(3))
    layer = node.op == "SkipLayerNormalization"
    beta = scope.get(node, 3) if layer else None
    bias = scope.get(node, 4 if layer else 3)
    total = scope.apply("add", x, skip)
    if bias is not None:
        total = scope.apply("add", total, bias)
    node.attributes.setdefault("epsilon", 1e-12)
    found = list(normalized(scope, node, total, scale, beta, [x.ndim - 1]))
    return [found[0], *[*found[1:], None, None][:2], total]


@handles("SimplifiedLayerNormalization", "LayerNormalization", domain=MICROSOFT)
def layer_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds the standard's layer normalization."""
    return HANDLERS["", node.op](scope, node)


@handles("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Normalizes the sum of three embedding lookups; also returns the number of tokens per sequence."""
    ids, segments, words, places, kinds, scale, bias, mask, positions = (scope.get(node, i) for i in range(9))
    batch, steps = ids.shape
    if positions is None:
        lookup = scope.broadcast(scope.along(places, 0, 0, steps), [batch, steps, places.shape[1]])
    else:
        lookup = scope.take(places, positions, 0)
    total = scope.apply("add", scope.take(words, ids, 0), lookup)
    if segments is not None:
        total = scope.apply("add", total, scope.take(kinds, segments, 0))
    y = scope.op("normalize", total, scale, bias, mode="layer", dims=[2], epsilon=node.number("epsilon", 1e-12))
    counts = scope.broadcast(scope.scalar(0, "i32"), [batch])
    if mask is not None:
        counts = scope.reduce(scope.convert(mask, "i32"), [1], "add", keep=False)
    return [y, counts, total][: max(1, len(node.outputs))]


@handles("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Computes alpha a b; either operand may be transposed."""
    a, b = (scope.get(node, i) for i in range(2))
    if node.integer("transBatchA") or node.integer("transBatchB"):
        raise Unsupported("transposed batch axes")
    if node.integer("transA"):
        a = scope.transpose(a, [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2])
    if node.integer("transB"):
        b = scope.transpose(b, [*range(b.ndim - 2), b.ndim - 1, b.ndim - 2])
    y, alpha = scope.builder.matmul(a, b), node.number("alpha", 1.0)
    return [y if alpha == 1.0 else scope.apply("multiply", y, scope.like(alpha, y))]


def activated(scope: OnnxScope, node: OnnxNode, x: Tensor) -> Tensor:
    """Applies the activation that a node fuses."""
    name = node.text("activation")
    if name == "Clip":
        low, high = list(node.get("activation_params", []))[:2]
        return scope.apply("clamp", scope.like(low, x), x, scope.like(high, x))
    alpha = node.number("activation_alpha", next(iter(node.get("activation_params", [0.01]))))
    return activation(scope, name.lower(), x, alpha if name == "LeakyRelu" else None) if name else x


@handles("FusedGemm", domain=MICROSOFT)
def fused_gemm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A product followed by an activation."""
    return [activated(scope, node, gemm(scope, node)[0])]


@handles("FusedConv", domain=MICROSOFT)
def fused_conv(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A convolution followed by a sum and an activation."""
    x, w, bias, other = (scope.get(node, i) for i in range(4))
    y = convolution(scope, node, x, w, bias)
    return [activated(scope, node, y if other is None else scope.apply("add", y, other))]


@handles("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Multiplies x by a transposed weight of 4 or 8 bits, stored as [n, blocks, bytes] with the low half first."""
    x, packed, scales, zeros = (scope.get(node, i) for i in range(4))
    n, k, bits, block = (node.integer(name) for name in ("N", "K", "bits", "block_size"))
    if bits not in (4, 8) or node.has(4):
        raise Unsupported(f"weights of {bits} bits, or in another order")
    blocks = -(-k // block)
    codes = unpacked(scope, packed, bits, [n, blocks, block])
    scales = scope.reshape(scales, [n, blocks, 1])
    if zeros is None:
        offset = scope.scalar(float(1 << (bits - 1)), scales.dtype)
    elif zeros.dtype == scales.dtype:
        offset = scope.reshape(zeros, [n, blocks, 1])
    else:
        wide = -(-blocks * bits // 8) * (8 // bits)
        points = unpacked(scope, zeros, bits, [n, wide])
        offset = scope.reshape(scope.convert(scope.along(points, 1, 0, blocks), scales.dtype), [n, blocks, 1])
    real = scope.apply("multiply", scope.apply("subtract", scope.convert(codes, scales.dtype), offset), scales)
    w = scope.along(scope.reshape(real, [n, blocks * block]), 1, 0, k)
    y = scope.op("contract", x, scope.convert(w, x.dtype), a_contract=[x.ndim - 1], b_contract=[1])
    return [scope.apply("add", y, scope.get(node, 5)) if node.has(5) else y]


def unpacked(scope: OnnxScope, packed: Tensor, bits: int, shape: list[int]) -> Tensor:
    """Unpacks 4- or 8-bit codes, one per element; constant bytes become a u4 weight with two codes per byte."""
    if bits == 8:
        return scope.reshape(packed, shape)
    if (read := scope.stored.get(packed.value)) is not None:
        words = np.asarray(read()).reshape(-1, 1)
        codes = np.concatenate([words & 15, words >> 4], axis=1).reshape(shape)
        return scope.constant(codes.astype(NUMPY["u4"]), "codes")
    count = int(np.prod(packed.shape))
    flat = scope.reshape(packed, [count, 1])
    low = scope.apply("bitwise_and", flat, scope.scalar(15, "u8"))
    high = scope.apply("shift_right", flat, scope.scalar(4, "u8"))
    return scope.reshape(scope.concat([low, high], 1), shape)


@handles("QuantizeLinear", domain=MICROSOFT)
def quantize_16_bit(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Quantizes as the standard does, with 16-bit codes."""
    return quantize(scope, node)


@handles("DequantizeLinear", domain=MICROSOFT)
def dequantize_16_bit(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Dequantizes as the standard does, with 16-bit codes."""
    return dequantize(scope, node)


@handles("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A function of two quantized operands, computed in f32 and quantized again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (scope.get(node, i) for i in range(8))
    x, y = dequantized(scope, a, a_scale, a_zero, "f32"), dequantized(scope, b, b_scale, b_zero, "f32")
    total = scope.apply("add" if node.op == "QLinearAdd" else "multiply", x, y)
    return [quantized(scope, total, y_scale, y_zero, a.dtype)]


@handles("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_unary(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A function of a quantized operand, computed in f32 and quantized again."""
    x, x_scale, x_zero, y_scale, y_zero = (scope.get(node, i) for i in range(5))
    real = dequantized(scope, x, x_scale, x_zero, "f32")
    y = activation(scope, node.op.removeprefix("QLinear").lower(), real, node.get("alpha"))
    return [quantized(scope, y, y_scale, y_zero, x.dtype)]
