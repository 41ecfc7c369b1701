"""Elementwise operators of ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..._core import Unsupported
from ...base.dtypes import FLOATS, NUMPY
from ...graph.tensor import Tensor
from ..functions import functions_of
from .scope import OnnxNode, OnnxScope, Value, dtype_of, handles

FUNCTIONS = functions_of("onnx")
VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}


@handles(*FUNCTIONS)
def elementwise_function(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds operators that correspond to one elementwise function."""
    return [scope.apply(FUNCTIONS[node.op], *scope.operands(node))]


@handles("Identity", "OptionalGetElement")
def identity(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Returns the operand itself."""
    return [scope.get(node, 0)]


@handles(*VARIADIC)
def variadic(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Combines any number of operands from the left."""
    x = scope.operands(node)
    total: Tensor = x[0]
    for other in x[1:]:
        total = scope.apply(VARIADIC[node.op], total, other)
    return [total * (1.0 / len(x)) if node.op == "Mean" else total]


@handles("Pow")
def power(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Computes a power; the exponent may have another dtype, and the result has the dtype of the base."""
    x, y = scope.operands(node)
    wide = x.dtype if x.dtype in FLOATS or y.dtype not in FLOATS else y.dtype
    return [scope.convert(scope.apply("power", scope.convert(x, wide), scope.convert(y, wide)), x.dtype)]


@handles("Mod")
def modulo(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Computes the remainder with the sign of the divisor (fmod 0) or of the dividend (fmod 1)."""
    x, y = scope.operands(node)
    rest = scope.apply("remainder", x, y)
    if node.integer("fmod") or x.dtype[0] == "u":
        return [rest]
    zero = scope.like(0, x)
    differs = scope.apply("not_equal", scope.apply("less", rest, zero), scope.apply("less", y, zero))
    wrong = scope.apply("logical_and", differs, scope.apply("not_equal", rest, zero))
    return [scope.apply("select", wrong, scope.apply("add", rest, y), rest)]


@handles("BitShift")
def shift(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Shifts bits to the LEFT or RIGHT."""
    return [scope.apply("shift_" + node.text("direction").lower(), *scope.operands(node))]


@handles("Clip")
def clip(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Clips to bounds; if the lower bound exceeds the upper one, returns the upper bound."""
    x = scope.get(node, 0)
    low, high = (scope.get(node, i) for i in (1, 2))
    if node.opset < 11:
        low = scope.like(node.number("min", float(np.finfo(np.float32).min)), x)
        high = scope.like(node.number("max", float(np.finfo(np.float32).max)), x)
    if low is not None:
        x = scope.apply("maximum", x, low)
    return [scope.apply("minimum", x, high) if high is not None else x]


@handles("Cast", "CastLike", "BitCast")
def cast(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Casts to a dtype; 8-bit floats saturate by default."""
    x = scope.get(node, 0)
    dtype = scope.get(node, 1).dtype if node.op == "CastLike" else dtype_of(node.integer("to"), node.place)
    if node.op == "BitCast":
        return [scope.bitcast(x, dtype)]
    saturate = node.integer("saturate", 1) != 0
    if dtype == "f8e8m0fnu" and x.dtype != dtype:
        return [to_exponent(scope, x, node.text("round_mode", "up"), saturate)]
    return [converted(scope, x, dtype, saturate)]


def to_exponent(scope: OnnxScope, x: Tensor, mode: str, saturate: bool) -> Tensor:
    """Converts x to a power of two, f8e8m0fnu, by the bits of f32 (ONNX operator Cast, attribute round_mode)."""
    if mode not in ("up", "down", "nearest"):
        raise Unsupported(f"round_mode '{mode}'")
    bits = scope.bitcast(scope.convert(x, "f32"), "u32")
    exponent = scope.apply("shift_right", scope.apply("shift_left", bits, scope.like(1, bits)), scope.like(24, bits))
    fraction = scope.apply("bitwise_and", bits, scope.like((1 << 23) - 1, bits))
    limit = {"up": 0, "nearest": (1 << 22) - 1, "down": 1 << 23}[mode]
    more = scope.convert(scope.apply("greater", fraction, scope.like(limit, bits)), "u32")
    rounded = scope.apply("add", exponent, more)
    rounded = scope.apply("minimum", rounded, scope.like(254 if saturate else 255, bits))
    nan = scope.apply("not_equal", x, x)
    code = scope.apply("select", nan, scope.like(255, bits), rounded)
    return scope.bitcast(scope.convert(code, "u8"), "f8e8m0fnu")


def converted(scope: OnnxScope, x: Tensor, dtype: str, saturate: bool = True) -> Tensor:
    """Converts x to another dtype, as operator Cast does."""
    narrow = dtype in FLOATS and dtype[:2] in ("f8", "f4")
    if narrow and x.dtype in FLOATS and saturate:
        return scope.convert(x, dtype, overflow="saturate")
    return scope.convert(x, dtype)


@handles("IsInf")
def is_inf(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Finds infinities of the signs that the attributes select."""
    x = scope.get(node, 0)
    found = []
    for name, sign in (("detect_positive", 1), ("detect_negative", -1)):
        if node.integer(name, 1):
            found.append(scope.apply("equal", x, scope.like(sign * math.inf, x)))
    if not found:
        return [scope.apply("logical_and", scope.apply("not_equal", x, x), scope.scalar(False, "bool"))]
    return [scope.apply("logical_or", *found) if len(found) == 2 else found[0]]


#: activation -> default alpha and beta
ACTIVATIONS = {
    "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5),
    "softsign": (0.0, 0.0), "affine": (1.0, 0.0), "scaledtanh": (1.0, 1.0),
}  # fmt: skip


def activation(scope: OnnxScope, name: str, x: Tensor, alpha: float | None = None, beta: float | None = None) -> Tensor:
    """Builds an activation by its lower-case name, for operators and recurrent layers."""
    if name in ("sigmoid", "tanh", "relu", "softplus"):
        return scope.apply(name, x)
    if name not in ACTIVATIONS:
        raise Unsupported(f"activation '{name}'")
    a, b = (own if one is None else one for own, one in zip(ACTIVATIONS[name], (alpha, beta), strict=True))
    zero = scope.like(0, x)
    if name == "leakyrelu":
        return scope.apply("select", scope.apply("less", x, zero), x * a, x)
    if name == "thresholdedrelu":
        return scope.apply("select", scope.apply("greater", x, scope.like(a, x)), x, zero)
    if name == "elu":
        return scope.apply("select", scope.apply("less", x, zero), scope.apply("expm1", x) * a, x)
    if name == "hardsigmoid":
        return scope.apply("clamp", zero, x * a + b, scope.like(1, x))
    if name == "softsign":
        return x / (scope.apply("abs", x) + 1.0)
    return x * a + b if name == "affine" else scope.apply("tanh", x * b) * (a or 1.0)


@handles("LeakyRelu", "ThresholdedRelu", "Elu", "HardSigmoid", "Softsign")
def activations(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds activation operators that recurrent layers also use."""
    alpha, beta = node.get("alpha"), node.get("beta")
    return [activation(scope, node.op.lower(), scope.get(node, 0), alpha, beta)]


@handles("PRelu", "Selu", "Celu", "HardSwish", "Mish", "Swish", "Shrink")
def compositions(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds operators that are short compositions of functions."""
    x = scope.get(node, 0)
    zero = scope.like(0, x)
    if node.op == "PRelu":
        below = scope.apply("less", x, zero)
        return [scope.apply("select", below, scope.apply("multiply", scope.get(node, 1), x), x)]
    if node.op == "Celu":
        alpha = node.number("alpha", 1.0)
        low = scope.apply("expm1", x * (1.0 / alpha)) * alpha
        return [scope.apply("maximum", x, zero) + scope.apply("minimum", zero, low)]
    if node.op == "Selu":
        alpha, gamma = node.number("alpha", 1.67326319217681884765625), node.number("gamma", 1.05070102214813232421875)
        low = scope.apply("expm1", x) * (alpha * gamma)
        return [scope.apply("select", scope.apply("greater", x, zero), x * gamma if gamma != 1.0 else x, low)]
    if node.op == "HardSwish":
        return [x * activation(scope, "hardsigmoid", x, 1 / 6, 0.5)]
    if node.op == "Mish":
        return [x * scope.apply("tanh", scope.apply("softplus", x))]
    if node.op == "Swish":
        return [x * scope.apply("sigmoid", x * node.number("alpha", 1.0))]
    border, bias = node.number("lambd", 0.5), node.number("bias", 0.0)
    real = x if x.dtype in FLOATS else scope.convert(x, "f32")
    shifted = [scope.convert(real + bias, x.dtype), scope.convert(real - bias, x.dtype)]
    above = scope.apply("select", scope.apply("greater", real, scope.like(border, real)), shifted[1], zero)
    return [scope.apply("select", scope.apply("less", real, scope.like(-border, real)), shifted[0], above)]


@handles("Gelu")
def gelu(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """GELU, exact or in its tanh form."""
    form = "gelu_tanh" if node.text("approximate", "none") == "tanh" else "gelu_erf"
    return [scope.apply(form, scope.get(node, 0))]


@handles("Acosh", "Asinh", "Atanh")
def inverse_hyperbolic(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Inverse hyperbolic functions, by Abramowitz and Stegun 4.6.20 to 4.6.22."""
    given = scope.get(node, 0)
    x = scope.wide(given)
    if node.op == "Atanh":
        y = (scope.apply("log1p", x) - scope.apply("log1p", scope.apply("negate", x))) * 0.5
    elif node.op == "Acosh":
        y = scope.apply("log", x + scope.apply("sqrt", x - 1.0) * scope.apply("sqrt", x + 1.0))
    else:
        size = scope.apply("abs", x)
        y = scope.apply("log1p", size + size * size / (scope.apply("sqrt", size * size + 1.0) + 1.0))
        y = y * scope.apply("sign", x)
    return [scope.convert(y, given.dtype)]


@handles("Dropout")
def dropout(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Returns the operand; dropout of a training model with a ratio above 0 is unsupported."""
    x = scope.get(node, 0)
    training = bool(scope.numbers(node, 2, "whether this trains")) if node.has(2) else False
    ratio = float(scope.numbers(node, 1, "the ratio")) if node.has(1) and training else 0.0
    if training and ratio != 0:
        raise Unsupported("dropout in training draws random numbers: export the model in eval mode")
    mask = scope.broadcast(scope.scalar(True, "bool"), x.shape)
    return [x, mask][: max(1, len(node.outputs))]


@handles("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
def random(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Rejects random numbers: frameworks draw different ones, so no reference exists."""
    raise Unsupported("operators that draw random numbers: make the numbers an input of the model")


def full(scope: OnnxScope, number: float, shape: Sequence[int], dtype: str) -> Tensor:
    """A tensor of equal elements."""
    return scope.broadcast(scope.constant(np.asarray(number).astype(NUMPY[dtype])), shape)
