"""Builds complex functions from real functions of real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._core import Unsupported
from ...graph.tensor import Tensor
from .movement import as_complex
from .scope import Complex, Scope, Value, each

#: above this x, exp(2x) exceeds a quarter of the largest number (W. Kahan, Branch cuts for complex elementary
#: functions, 1987)
STEEP = {"f32": 22.0, "f64": 177.0}


def number(scope: Scope, like: Complex, re: float) -> Complex:
    """Converts a real number to a complex tensor."""
    return as_complex(scope, scope.scalar(re, like.re.dtype))


def negated(scope: Scope, x: Complex) -> Complex:
    """Computes -x."""
    return Complex(scope.apply("negate", x.re), scope.apply("negate", x.im))


def product(scope: Scope, x: Complex, y: Complex) -> Complex:
    """Computes x y."""
    return Complex(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def quotient(scope: Scope, x: Complex, y: Complex) -> Complex:
    """Computes x / y; scales y by its larger part to keep squares in range. Division by zero acts on both parts."""
    size = scope.apply("maximum", scope.apply("abs", y.re), scope.apply("abs", y.im))
    none = scope.apply("equal", size, scope.scalar(0, size.dtype))
    a = scope.apply("select", none, scope.scalar(1, size.dtype), y.re / size)
    b = scope.apply("select", none, scope.scalar(0, size.dtype), y.im / size)
    below = y.re * a + y.im * b
    return Complex((x.re * a + x.im * b) / below, (x.im * a - x.re * b) / below)


def magnitude(scope: Scope, x: Complex) -> Tensor:
    """Computes |x|, scaled by the larger part to avoid overflow of squares."""
    parts = [scope.apply("abs", part) for part in (x.re, x.im)]
    large, small = (scope.apply(name, *parts) for name in ("maximum", "minimum"))
    ratio = small / large
    root = large * scope.apply("sqrt", ratio * ratio + 1.0)
    plain = scope.apply("equal", small, scope.scalar(0, large.dtype))
    endless = scope.apply("equal", large, scope.scalar(math.inf, large.dtype))
    return scope.apply("select", scope.apply("logical_or", plain, endless), large, root)


def exponential(scope: Scope, x: Complex) -> Complex:
    """Computes exp(re) (cos(im) + i sin(im))."""
    size = scope.apply("exp", x.re)
    real = scope.apply("equal", x.im, scope.scalar(0, x.im.dtype))  # keeps real numbers real, including infinities
    return Complex(size * scope.apply("cos", x.im), scope.apply("select", real, x.im, size * scope.apply("sin", x.im)))


def exponential_minus_one(scope: Scope, x: Complex) -> Complex:
    """Computes exp(x) - 1 without cancellation for small x."""
    half = scope.apply("sin", x.im * 0.5)
    re = scope.apply("expm1", x.re) * scope.apply("cos", x.im) - half * half * 2.0
    return Complex(re, exponential(scope, x).im)


def tangent(scope: Scope, x: Complex) -> Complex:
    """Computes tanh by Kahan's formula, t = tan(im), s = sinh(re): (cosh s (1 + t^2) + i t) / (1 + (1 + t^2) s^2)."""
    steep = scope.apply("greater", scope.apply("abs", x.re), scope.scalar(STEEP[x.re.dtype], x.re.dtype))
    near = scope.apply("select", steep, scope.scalar(0, x.re.dtype), x.re)
    t, s = scope.apply("tan", x.im), scope.apply("sinh", near)
    slope = t * t + 1.0
    below = slope * s * s + 1.0
    far = scope.apply("exp", scope.apply("abs", x.re) * -2.0) * scope.apply("sin", x.im * 2.0) * 2.0
    re = scope.apply("cosh", near) * slope * s / below
    return Complex(
        scope.apply("select", steep, scope.apply("sign", x.re), re), scope.apply("select", steep, far, t / below)
    )


def logarithm(scope: Scope, x: Complex) -> Complex:
    """Computes ln|x| + i arg(x), for |x| near 1 by ln(1 + (|x|^2 - 1)) / 2."""
    size = magnitude(scope, x)
    large, small = (
        scope.apply(name, *(scope.apply("abs", part) for part in (x.re, x.im))) for name in ("maximum", "minimum")
    )
    beyond = (large - 1.0) * (large + 1.0) + small * small
    close = scope.apply("less", scope.apply("abs", beyond), scope.scalar(0.5, size.dtype))
    safe = scope.apply("select", close, beyond, scope.scalar(0, size.dtype))
    re = scope.apply("select", close, scope.apply("log1p", safe) * 0.5, scope.apply("log", size))
    return Complex(re, scope.apply("atan2", x.im, x.re))


def logarithm_of_more(scope: Scope, x: Complex) -> Complex:
    """Computes ln(1 + x), for small x by ln(1 + (|1 + x|^2 - 1)) / 2."""
    more = Complex(x.re + 1.0, x.im)
    beyond = x.re * (x.re + 2.0) + x.im * x.im
    close = scope.apply("less", scope.apply("abs", beyond), scope.scalar(0.5, x.re.dtype))
    safe = scope.apply("select", close, beyond, scope.scalar(0, x.re.dtype))
    whole = logarithm(scope, more)
    return Complex(scope.apply("select", close, scope.apply("log1p", safe) * 0.5, whole.re), whole.im)


def root(scope: Scope, x: Complex) -> Complex:
    """Computes the square root with re >= 0: w = sqrt((|re| + |x|) / 2) and im / 2 w, swapped where re < 0."""
    zero = scope.scalar(0, x.re.dtype)
    w = scope.apply("sqrt", scope.apply("abs", x.re) * 0.5 + magnitude(scope, x) * 0.5)
    none = scope.apply("equal", w, zero)
    other = scope.apply("select", none, x.im, x.im / (scope.apply("select", none, scope.scalar(1, w.dtype), w) * 2.0))
    below = scope.apply("less", x.re, zero)
    down = scope.apply("less", x.im, zero)
    return Complex(
        scope.apply("select", below, scope.apply("abs", other), w),
        scope.apply("select", below, scope.apply("select", down, scope.apply("negate", w), w), other),
    )


def power(scope: Scope, x: Complex, y: Complex) -> Complex:
    """Computes exp(y ln x); for x = 0: 1 if y is 0, 0 if its real part is positive, else infinity."""
    found = exponential(scope, product(scope, y, logarithm(scope, x)))
    zero = scope.scalar(0, x.re.dtype)
    none = scope.apply("logical_and", scope.apply("equal", x.re, zero), scope.apply("equal", x.im, zero))
    first = scope.apply("logical_and", scope.apply("equal", y.re, zero), scope.apply("equal", y.im, zero))
    rising = scope.apply("greater", y.re, zero)
    re = scope.apply("select", none, scope.apply("select", rising, zero, found.re), found.re)
    im = scope.apply("select", none, scope.apply("select", rising, zero, found.im), found.im)
    return Complex(
        scope.apply("select", first, scope.scalar(1, x.re.dtype), re), scope.apply("select", first, zero, im)
    )


def sign(scope: Scope, x: Complex) -> Complex:
    """Computes x / |x|, or 0 for 0."""
    size = magnitude(scope, x)
    none = scope.apply("equal", size, scope.scalar(0, size.dtype))
    safe = scope.apply("select", none, scope.scalar(1, size.dtype), size)
    return Complex(x.re / safe, x.im / safe)


def sine(scope: Scope, x: Complex) -> Complex:
    """Computes sin(re) cosh(im) + i cos(re) sinh(im)."""
    sin, cos = scope.apply("sin", x.re), scope.apply("cos", x.re)
    return Complex(sin * scope.apply("cosh", x.im), cos * scope.apply("sinh", x.im))


def cosine(scope: Scope, x: Complex) -> Complex:
    """Computes cos(re) cosh(im) - i sin(re) sinh(im)."""
    sin, cos = scope.apply("sin", x.re), scope.apply("cos", x.re)
    return Complex(cos * scope.apply("cosh", x.im), scope.apply("negate", sin * scope.apply("sinh", x.im)))


def turned_tangent(scope: Scope, x: Complex) -> Complex:
    """Computes tan(x) = -i tanh(i x)."""
    found = tangent(scope, Complex(scope.apply("negate", x.im), x.re))
    return Complex(found.im, scope.apply("negate", found.re))


def compared(
    scope: Scope, direction: str, a: Complex, b: Complex, compare: Callable[[str, Any, Any], Tensor]
) -> Tensor:
    """Compares both parts for equality, or orders by real and then imaginary parts (StableHLO, compare)."""
    same = compare("EQ", a.re, b.re)
    if direction in ("EQ", "NE"):
        both = scope.apply("logical_and", same, compare("EQ", a.im, b.im))
        return both if direction == "EQ" else scope.apply("logical_not", both)
    first = compare(direction[0] + "T", a.re, b.re)
    return scope.apply("logical_or", first, scope.apply("logical_and", same, compare(direction, a.im, b.im)))


def larger(scope: Scope, name: str, a: Complex, b: Complex) -> Complex:
    """Computes the maximum or minimum in the order of `compared`."""

    def compare(direction: str, x: Tensor, y: Tensor) -> Tensor:
        return scope.apply({"EQ": "equal", "GT": "greater", "LT": "less"}[direction], x, y)

    first = compared(scope, "GT" if name == "maximum" else "LT", a, b, compare)
    return each(lambda x, y: scope.apply("select", first, x, y), a, b)


def angle(scope: Scope, y: Complex, x: Complex) -> Complex:
    """Computes the complex atan2, -i ln((x + i y) / sqrt(x^2 + y^2))."""
    length = root(scope, FUNCTIONS["add"](scope, product(scope, x, x), product(scope, y, y)))
    found = logarithm(scope, quotient(scope, Complex(x.re - y.im, x.im + y.re), length))
    return Complex(found.im, scope.apply("negate", found.re))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": magnitude,
    "add": lambda scope, x, y: Complex(x.re + y.re, x.im + y.im),
    "atan2": angle,
    "cbrt": lambda scope, x: power(scope, x, number(scope, x, 1 / 3)),
    "clamp": lambda scope, low, x, high: larger(scope, "minimum", larger(scope, "maximum", low, x), high),
    "cosine": cosine,
    "divide": quotient,
    "exponential": exponential,
    "exponential_minus_one": exponential_minus_one,
    "log": logarithm,
    "log_plus_one": logarithm_of_more,
    "logistic": lambda scope, x: quotient(
        scope, number(scope, x, 1), plus_one(scope, exponential(scope, negated(scope, x)))
    ),
    "maximum": lambda scope, x, y: larger(scope, "maximum", x, y),
    "minimum": lambda scope, x, y: larger(scope, "minimum", x, y),
    "multiply": product,
    "negate": negated,
    "power": power,
    "rsqrt": lambda scope, x: quotient(scope, number(scope, x, 1), root(scope, x)),
    "sign": sign,
    "sine": sine,
    "sqrt": root,
    "subtract": lambda scope, x, y: Complex(x.re - y.re, x.im - y.im),
    "tan": turned_tangent,
    "tanh": tangent,
}


def plus_one(scope: Scope, x: Complex) -> Complex:
    """Computes 1 + x."""
    return Complex(x.re + 1.0, x.im)


def complex_function(scope: Scope, name: str, x: list[Any]) -> Value:
    """Applies an operation of StableHLO to complex numbers."""
    if name not in FUNCTIONS:
        raise Unsupported(f"'{name}' for complex numbers")
    return FUNCTIONS[name](scope, *x)
