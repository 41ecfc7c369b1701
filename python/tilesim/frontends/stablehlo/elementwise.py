"""Elementwise operations of StableHLO and CHLO. Handlers ignore result types, so bodies accept any shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...base.dtypes import FLOATS, NUMPY
from ...graph.tensor import Tensor
from ..functions import functions_of
from .complex import compared, complex_function
from .movement import as_complex
from .scope import Complex, Scope, Value, each, handles, named
from .types import BITS, Shaped, integer, text

FUNCTIONS = functions_of("stablehlo")
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
    """The name of an operation without its dialect."""
    return named(op).split(".", 1)[1]


@handles(*FUNCTIONS)
def elementwise_function(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds operations that correspond to one elementwise function."""
    name = short(op)
    values = [scope.value(operand) for operand in op.operands]
    if any(isinstance(value, Complex) for value in values):
        return [complex_function(scope, name, values)]
    x = scope.operands(op)
    if name == "negate" and x[0].dtype == "bool":
        return [x[0]]
    return [scope.apply(FUNCTIONS[named(op)], *x)]


@handles("stablehlo.add", "stablehlo.multiply", "stablehlo.maximum", "stablehlo.minimum")
def semiring(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes sums, products and extremes; on bool, logical or and logical and."""
    a, b = (scope.value(operand) for operand in op.operands)
    name = short(op)
    if isinstance(a, Complex):
        return [complex_function(scope, name, [a, b])]
    return [scope.apply(BOOLEAN[name] if a.dtype == "bool" else name, a, b)]


@handles("stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.not")
def logic(scope: Scope, op: Any) -> Sequence[Value]:
    """Applies the logical function to bool, and the bitwise one to integers."""
    x = scope.operands(op)
    return [scope.apply(("logical_" if x[0].dtype == "bool" else "bitwise_") + short(op), *x)]


@handles("stablehlo.divide", "stablehlo.remainder")
def divide(scope: Scope, op: Any) -> Sequence[Value]:
    """Divides; integer division by zero gives -1, and its remainder the dividend, as in XLA's elemental emitter."""
    a, b = (scope.value(operand) for operand in op.operands)
    name = short(op)
    if isinstance(a, Complex):
        return [complex_function(scope, name, [a, b])]
    known = scope.array(scope.spread.get(b.value, b))
    if a.dtype in FLOATS or (known is not None and np.all(known != 0)):
        return [scope.apply(name, a, b)]
    zero = scope.apply("equal", b, scope.scalar(0, b.dtype))
    safe = scope.apply(name, a, scope.apply("select", zero, scope.scalar(1, b.dtype), b))
    ones = np.array(-1).astype(NUMPY[a.dtype]) if a.dtype[0] == "i" else ml_dtypes.iinfo(NUMPY[a.dtype]).max
    other = a if name == "remainder" else scope.scalar(ones, a.dtype)
    return [scope.apply("select", zero, other, safe)]


@handles("stablehlo.shift_right_logical", "stablehlo.shift_right_arithmetic")
def shift_right(scope: Scope, op: Any) -> Sequence[Value]:
    """Shifts right; the sign of the dtype selects an arithmetic or logical shift."""
    x, amount = scope.operands(op)
    letter = "u" if short(op) == "shift_right_logical" else "i"
    dtype = f"{letter}{BITS[x.dtype]}"
    return [scope.bitcast(scope.apply("shift_right", scope.bitcast(x, dtype), scope.bitcast(amount, dtype)), x.dtype)]


@handles("stablehlo.round_nearest_afz")
def round_away(scope: Scope, op: Any) -> Sequence[Value]:
    """Rounds to integers; halves go away from zero."""
    (x,) = scope.operands(op)
    whole = scope.apply("trunc", x)
    far = scope.apply("greater_equal", scope.apply("abs", x - whole), scope.scalar(0.5, x.dtype))
    return [scope.apply("select", far, whole + scope.apply("sign", x), whole)]


@handles("stablehlo.count_leading_zeros")
def leading_zeros(scope: Scope, op: Any) -> Sequence[Value]:
    """Smears ones to the right and counts the remaining zeros (Warren, Hacker's Delight, 5-3)."""
    (x,) = scope.operands(op)
    bits = BITS[x.dtype]
    smeared = scope.bitcast(x, f"u{bits}")
    step = 1
    while step < bits:
        shifted = scope.apply("shift_right", smeared, scope.scalar(step, smeared.dtype))
        smeared, step = scope.apply("bitwise_or", smeared, shifted), 2 * step
    return [scope.bitcast(scope.apply("popcount", scope.apply("bitwise_not", smeared)), x.dtype)]


def total_order(scope: Scope, x: Tensor) -> Tensor:
    """Converts floats to integers in the order of IEEE 754-2008 section 5.10: -NaN, -inf, .., -0, 0, .., inf, NaN."""
    if BITS[x.dtype] < 8:  # these formats have no NaN
        x = scope.convert(x, "f32")
    return _without_sign(scope, scope.bitcast(x, f"i{BITS[x.dtype]}"))


def from_total_order(scope: Scope, order: Tensor, dtype: str) -> Tensor:
    """The inverse of `total_order`."""
    return scope.convert(scope.bitcast(_without_sign(scope, order), dtype if BITS[dtype] >= 8 else "f32"), dtype)


def _without_sign(scope: Scope, signed: Tensor) -> Tensor:
    """Flips the magnitude bits of negative numbers; applied twice it is the identity."""
    bits = BITS[signed.dtype]
    sign = scope.apply("shift_right", signed, scope.scalar(bits - 1, signed.dtype))
    mask = scope.apply("bitwise_and", sign, scope.scalar(2 ** (bits - 1) - 1, signed.dtype))
    return scope.apply("bitwise_xor", signed, mask)


@handles("stablehlo.compare")
def compare(scope: Scope, op: Any) -> Sequence[Value]:
    """Compares; floats in total order are compared by their bits."""
    total = text(op, "compare_type") == "TOTALORDER"

    def compare_parts(direction: str, a: Tensor, b: Tensor) -> Tensor:
        if total:
            a, b = total_order(scope, a), total_order(scope, b)
        elif a.dtype == "bool" and direction not in ("EQ", "NE"):
            a, b = scope.convert(a, "i32"), scope.convert(b, "i32")
        return scope.apply(COMPARE[direction], a, b)

    direction = text(op, "comparison_direction")
    a, b = (scope.value(operand) for operand in op.operands)
    if isinstance(a, Complex):
        return [compared(scope, direction, a, b, compare_parts)]
    return [compare_parts(direction, a, b)]


@handles("stablehlo.select")
def select(scope: Scope, op: Any) -> Sequence[Value]:
    """Selects one of two tensors for each element."""
    which = scope.real(op.operands[0])
    a, b = (scope.value(operand) for operand in list(op.operands)[1:])
    return [each(lambda yes, no: scope.apply("select", which, yes, no), a, b)]


@handles("stablehlo.convert")
def convert(scope: Scope, op: Any) -> Sequence[Value]:
    """Converts dtypes; floats saturate when they become integers, as in XLA."""
    x = scope.value(op.operands[0])
    target = Shaped(op.results[0].type, named(op))

    def real(part: Tensor) -> Tensor:
        whole = part.dtype in FLOATS and target.dtype not in FLOATS and target.dtype != "bool"
        return scope.convert(part, target.dtype, **({"overflow": "saturate"} if whole else {}))

    if not isinstance(x, Complex):
        return [as_complex(scope, real(x)) if target.complex else real(x)]
    if target.complex:
        return [each(real, x)]
    parts = [real(x.re), *([real(x.im)] if target.dtype == "bool" else [])]
    return [scope.apply("logical_or", *parts) if len(parts) == 2 else parts[0]]


#: wider dtype -> bits of exponent and mantissa
FORMATS = {(8, 7): "bf16", (5, 10): "f16", (8, 23): "f32", (11, 52): "f64"}


@handles("stablehlo.reduce_precision")
def reduce_precision(scope: Scope, op: Any) -> Sequence[Value]:
    """Rounds to fewer bits (StableHLO, reduce_precision); f32 with 8 exponent and 7 mantissa bits goes through bf16."""
    (x,) = scope.operands(op)
    exponent, mantissa = integer(op, "exponent_bits"), integer(op, "mantissa_bits")
    if x.dtype == "f32" and (exponent, mantissa) == (8, 7):
        return [scope.convert(scope.convert(x, "bf16"), x.dtype)]
    wide = x if x.dtype in FORMATS.values() else scope.convert(x, "f32")  # from formats of at most a byte
    return [scope.convert(_rounded(scope, wide, exponent, mantissa), x.dtype)]


def _rounded(scope: Scope, x: Tensor, exponent: int, mantissa: int) -> Tensor:
    """Rounds x to the nearest normal number of a format, ties to even; overflow gives infinity, underflow zero."""
    own_exponent, own = next(bits for bits, dtype in FORMATS.items() if dtype == x.dtype)
    word = f"u{BITS[x.dtype]}"
    dropped = max(0, own - mantissa)
    if not dropped and exponent >= own_exponent:
        return x
    bits = scope.bitcast(x, word)

    def constant(value: int) -> Tensor:
        return scope.scalar(value, word)

    sign = scope.apply("bitwise_and", bits, constant(1 << (BITS[x.dtype] - 1)))
    size = scope.apply("bitwise_xor", bits, sign)
    if dropped:
        odd = scope.apply("bitwise_and", scope.apply("shift_right", size, constant(dropped)), constant(1))
        size = scope.apply("add", size, scope.apply("add", odd, constant((1 << (dropped - 1)) - 1)))
        size = scope.apply("bitwise_and", size, constant(((1 << (BITS[x.dtype] - 1)) - 1) >> dropped << dropped))
    if exponent < own_exponent:
        middle, half = (1 << (own_exponent - 1)) - 1, (1 << (exponent - 1)) - 1
        most, least = (middle + half + 1) << own, (middle - half + 1) << own
        endless = constant(((1 << own_exponent) - 1) << own)
        size = scope.apply("select", scope.apply("greater_equal", size, constant(most)), endless, size)
        size = scope.apply("select", scope.apply("less", size, constant(least)), constant(0), size)
    found = scope.bitcast(scope.apply("bitwise_or", size, sign), x.dtype)
    return scope.apply("select", scope.apply("is_nan", x), x, found)


@handles("stablehlo.real", "stablehlo.imag", "stablehlo.complex")
def parts(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds complex numbers, or returns their real or imaginary part."""
    x = [scope.value(operand) for operand in op.operands]
    if short(op) == "complex":
        return [Complex(x[0], x[1])]
    if not isinstance(x[0], Complex):
        return [x[0] if short(op) == "real" else scope.apply("multiply", x[0], scope.scalar(0, x[0].dtype))]
    return [x[0].re if short(op) == "real" else x[0].im]


@handles("chlo.square", "chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def small(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds operations that are short compositions of functions."""
    (x,) = scope.operands(op)
    if short(op) == "square":
        return [x * x]
    size = scope.apply("abs", x) if short(op) == "is_inf" else x
    return [scope.apply("equal", size, scope.scalar(-math.inf if short(op) == "is_neg_inf" else math.inf, x.dtype))]


@handles("chlo.asinh", "chlo.acosh", "chlo.atanh")
def inverse_hyperbolic(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes inverse hyperbolic functions (Abramowitz and Stegun 4.6.20 to 4.6.22), precise for small operands."""
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
