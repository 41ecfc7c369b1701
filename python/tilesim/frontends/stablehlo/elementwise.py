"""Elementwise operations of StableHLO and CHLO. Handlers look at operands alone, so that bodies take any shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.dtypes import FLOATS, NUMPY
from ...graph.tensor import Tensor
from .scope import Complex, Scope, Value, handles, named
from .types import BITS, Shaped, integer, text

PLAIN = {
    "abs": "abs",
    "atan2": "atan2",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "clamp": "clamp",
    "cosine": "cos",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "floor": "floor",
    "is_finite": "is_finite",
    "log": "log",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "negate": "negate",
    "popcnt": "popcount",
    "power": "power",
    "round_nearest_even": "round_even",
    "rsqrt": "rsqrt",
    "shift_left": "shift_left",
    "sign": "sign",
    "sine": "sin",
    "sqrt": "sqrt",
    "subtract": "subtract",
    "tan": "tan",
    "tanh": "tanh",
}
CHLO = {"acos": "acos", "asin": "asin", "atan": "atan", "cosh": "cosh", "erf": "erf", "erfc": "erfc", "sinh": "sinh"}
BOOLEAN = {"add": "logical_or", "maximum": "logical_or", "multiply": "logical_and", "minimum": "logical_and"}
COMPARE = {
    "EQ": "equal",
    "NE": "not_equal",
    "LT": "less",
    "LE": "less_equal",
    "GT": "greater",
    "GE": "greater_equal",
}


def short(op: Any) -> str:
    """Name without its dialect."""
    return named(op).split(".", 1)[1]


@handles(*(f"stablehlo.{name}" for name in PLAIN), *(f"chlo.{name}" for name in CHLO), "chlo.tan")
def plain(scope: Scope, op: Any) -> Sequence[Value]:
    """Functions that the graph has under one name."""
    name = short(op)
    if any(isinstance(scope.value(operand), Complex) for operand in op.operands):
        return [complex_function(name, [scope.value(operand) for operand in op.operands])]
    x = scope.operands(op)
    if name == "negate" and x[0].dtype == "bool":
        return [x[0]]
    return [scope.apply(PLAIN.get(name) or CHLO[name], *x)]


def complex_function(name: str, x: list[Any]) -> Value:
    """Functions of complex numbers that have a short closed form."""
    a = x[0]
    build = a.re.builder.apply
    if name == "subtract":
        return Complex(a.re - x[1].re, a.im - x[1].im)
    if name == "negate":
        return Complex(build("negate", a.re), build("negate", a.im))
    if name == "abs":
        return build("sqrt", a.re * a.re + a.im * a.im)
    if name == "exponential":
        size = build("exp", a.re)
        return Complex(size * build("cos", a.im), size * build("sin", a.im))
    if name == "cosine":
        return Complex(
            build("cos", a.re) * build("cosh", a.im), build("negate", build("sin", a.re) * build("sinh", a.im))
        )
    if name == "sine":
        return Complex(build("sin", a.re) * build("cosh", a.im), build("cos", a.re) * build("sinh", a.im))
    raise Unsupported(f"'{name}' of complex numbers")


@handles("stablehlo.add", "stablehlo.multiply", "stablehlo.maximum", "stablehlo.minimum")
def semiring(scope: Scope, op: Any) -> Sequence[Value]:
    """Sums, products, extremes; on bool they are or, and."""
    a, b = (scope.value(operand) for operand in op.operands)
    name = short(op)
    if isinstance(a, Complex):
        if name == "add":
            return [Complex(a.re + b.re, a.im + b.im)]
        if name == "multiply":
            return [Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)]
        raise Unsupported(f"'{name}' of complex numbers")
    return [scope.apply(BOOLEAN[name] if a.dtype == "bool" else name, a, b)]


@handles("stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.not")
def logic(scope: Scope, op: Any) -> Sequence[Value]:
    """Logical on bool, bitwise on integers."""
    x = scope.operands(op)
    return [scope.apply(("logical_" if x[0].dtype == "bool" else "bitwise_") + short(op), *x)]


@handles("stablehlo.divide", "stablehlo.remainder")
def divide(scope: Scope, op: Any) -> Sequence[Value]:
    """Integers divided by zero give -1 and the dividend, as in XLA's elemental emitter."""
    a, b = (scope.value(operand) for operand in op.operands)
    name = short(op)
    if isinstance(a, Complex):
        if name == "remainder":
            raise Unsupported("'remainder' of complex numbers")
        size = b.re * b.re + b.im * b.im
        return [Complex((a.re * b.re + a.im * b.im) / size, (a.im * b.re - a.re * b.im) / size)]
    known = scope.array(scope.spread.get(b.value, b))
    if a.dtype in FLOATS or (known is not None and np.all(known != 0)):
        return [scope.apply(name, a, b)]
    zero = scope.apply("equal", b, scope.scalar(0, b.dtype))
    safe = scope.apply(name, a, scope.apply("select", zero, scope.scalar(1, b.dtype), b))
    ones = np.array(-1).astype(NUMPY[a.dtype]) if a.dtype[0] == "i" else np.iinfo(NUMPY[a.dtype]).max
    other = a if name == "remainder" else scope.scalar(ones, a.dtype)
    return [scope.apply("select", zero, other, safe)]


@handles("stablehlo.shift_right_logical", "stablehlo.shift_right_arithmetic")
def shift_right(scope: Scope, op: Any) -> Sequence[Value]:
    """The kind of shift follows the sign of the dtype."""
    x, amount = scope.operands(op)
    letter = "u" if short(op) == "shift_right_logical" else "i"
    dtype = f"{letter}{BITS[x.dtype]}"
    return [scope.bitcast(scope.apply("shift_right", scope.bitcast(x, dtype), scope.bitcast(amount, dtype)), x.dtype)]


@handles("stablehlo.round_nearest_afz")
def round_away(scope: Scope, op: Any) -> Sequence[Value]:
    """Halves go away from zero."""
    (x,) = scope.operands(op)
    whole = scope.apply("trunc", x)
    far = scope.apply("greater_equal", scope.apply("abs", x - whole), scope.scalar(0.5, x.dtype))
    return [scope.apply("select", far, whole + scope.apply("sign", x), whole)]


@handles("stablehlo.count_leading_zeros")
def leading_zeros(scope: Scope, op: Any) -> Sequence[Value]:
    """Ones below the leading one are smeared, and what is left is counted (Warren, Hacker's Delight, 5-3)."""
    (x,) = scope.operands(op)
    bits = BITS[x.dtype]
    smeared = scope.bitcast(x, f"u{bits}")
    step = 1
    while step < bits:
        shifted = scope.apply("shift_right", smeared, scope.scalar(step, smeared.dtype))
        smeared, step = scope.apply("bitwise_or", smeared, shifted), 2 * step
    return [scope.bitcast(scope.apply("popcount", scope.apply("bitwise_not", smeared)), x.dtype)]


def total_order(scope: Scope, x: Tensor) -> Tensor:
    """Integers in the order of IEEE 754-2008 section 5.10: -NaN, -inf, .., -0, 0, .., inf, NaN."""
    bits = BITS[x.dtype]
    signed = scope.bitcast(x, f"i{bits}")
    sign = scope.apply("shift_right", signed, scope.scalar(bits - 1, signed.dtype))
    mask = scope.apply("bitwise_and", sign, scope.scalar(2 ** (bits - 1) - 1, signed.dtype))
    return scope.apply("bitwise_xor", signed, mask)


@handles("stablehlo.compare")
def compare(scope: Scope, op: Any) -> Sequence[Value]:
    """Comparisons; floats in total order through their bits."""
    direction = text(op, "comparison_direction")
    a, b = (scope.value(operand) for operand in op.operands)
    if isinstance(a, Complex):
        if direction not in ("EQ", "NE"):
            raise Unsupported(f"comparison {direction} of complex numbers")
        same = scope.apply("logical_and", scope.apply("equal", a.re, b.re), scope.apply("equal", a.im, b.im))
        return [same if direction == "EQ" else scope.apply("logical_not", same)]
    if text(op, "compare_type") == "TOTALORDER":
        a, b = total_order(scope, a), total_order(scope, b)
    elif a.dtype == "bool" and direction not in ("EQ", "NE"):
        a, b = scope.convert(a, "i32"), scope.convert(b, "i32")
    return [scope.apply(COMPARE[direction], a, b)]


@handles("stablehlo.select")
def select(scope: Scope, op: Any) -> Sequence[Value]:
    """One of two tensors per element."""
    which = scope.real(op.operands[0])
    a, b = (scope.value(operand) for operand in list(op.operands)[1:])
    if isinstance(a, Complex):
        return [Complex(scope.apply("select", which, a.re, b.re), scope.apply("select", which, a.im, b.im))]
    return [scope.apply("select", which, a, b)]


@handles("stablehlo.convert")
def convert(scope: Scope, op: Any) -> Sequence[Value]:
    """Floats to integers saturate, as XLA's do on every processor."""
    x = scope.value(op.operands[0])
    target = Shaped(op.results[0].type, named(op))
    if isinstance(x, Complex):
        return [x if target.complex else scope.convert(x.re, target.dtype)]
    whole = x.dtype in FLOATS and target.dtype not in FLOATS and target.dtype != "bool"
    real = scope.convert(x, target.dtype, **({"overflow": "saturate"} if whole else {}))
    return [Complex(real, scope.apply("multiply", real, scope.scalar(0, real.dtype))) if target.complex else real]


@handles("stablehlo.reduce_precision")
def reduce_precision(scope: Scope, op: Any) -> Sequence[Value]:
    """Through a dtype of that precision."""
    (x,) = scope.operands(op)
    widths = (integer(op, "exponent_bits"), integer(op, "mantissa_bits"))
    through = {(8, 7): "bf16", (5, 10): "f16", (8, 23): "f32", (11, 52): "f64"}.get(widths)
    if through is None:
        raise Unsupported(f"{widths[0]} exponent and {widths[1]} mantissa bits: only those of f16, bf16, f32, f64")
    if BITS[through] > BITS[x.dtype]:
        return [x]
    return [scope.convert(scope.convert(x, through), x.dtype)]


@handles("stablehlo.real", "stablehlo.imag", "stablehlo.complex", "chlo.conj")
def parts(scope: Scope, op: Any) -> Sequence[Value]:
    """Complex numbers and their parts."""
    x = [scope.value(operand) for operand in op.operands]
    if short(op) == "complex":
        return [Complex(x[0], x[1])]
    if short(op) == "conj":
        return [Complex(x[0].re, scope.apply("negate", x[0].im))]
    if not isinstance(x[0], Complex):
        return [x[0] if short(op) == "real" else scope.apply("multiply", x[0], scope.scalar(0, x[0].dtype))]
    return [x[0].re if short(op) == "real" else x[0].im]


@handles("chlo.square", "chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def small(scope: Scope, op: Any) -> Sequence[Value]:
    """Short compositions."""
    (x,) = scope.operands(op)
    if short(op) == "square":
        return [x * x]
    size = scope.apply("abs", x) if short(op) == "is_inf" else x
    return [scope.apply("equal", size, scope.scalar(-math.inf if short(op) == "is_neg_inf" else math.inf, x.dtype))]


@handles("chlo.asinh", "chlo.acosh", "chlo.atanh")
def inverse_hyperbolic(scope: Scope, op: Any) -> Sequence[Value]:
    """Abramowitz and Stegun 4.6.20 to 4.6.22, in forms that keep their precision for small operands."""
    (x,) = scope.operands(op)
    if short(op) == "atanh":
        size = scope.apply("log1p", x) - scope.apply("log1p", scope.apply("negate", x))
        return [size * 0.5]
    if short(op) == "acosh":
        root = scope.apply("sqrt", x - 1.0) * scope.apply("sqrt", x + 1.0)
        near = scope.apply("log", x + root)
        far = scope.apply("log", x) + math.log(2)
        return [scope.apply("select", scope.apply("greater", x, scope.scalar(1e4, x.dtype)), far, near)]
    size = scope.apply("abs", x)
    square = size * size
    near = scope.apply("log1p", size + square / (scope.apply("sqrt", square + 1.0) + 1.0))
    far = scope.apply("log", size) + math.log(2)
    chosen = scope.apply("select", scope.apply("greater", size, scope.scalar(1e4, x.dtype)), far, near)
    return [scope.apply("select", scope.apply("equal", x, scope.scalar(0, x.dtype)), x, chosen * _sign(scope, x))]


def _sign(scope: Scope, x: Tensor) -> Tensor:
    return scope.apply("sign", x)
