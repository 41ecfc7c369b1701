"""Builds special functions and medians of torch as short compositions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...graph.tensor import Tensor
from .elementwise import elementwise
from .importing import Importer
from .reduce import reduced
from .shape import along, axis
from .table import handles

_BITS = {"f64": "i64", "f32": "i32", "f16": "i16", "bf16": "i16"}


def _number(importer: Importer, value: float, like: Tensor) -> Tensor:
    return importer.builder.scalar(value, like.dtype)


def _less(importer: Importer, x: Tensor, than: float) -> Tensor:
    return importer.apply("less", x, _number(importer, than, x))


@handles("aten.sign.default", "aten.sgn.default")
def _sign(importer: Importer, x: Any) -> Tensor:
    """Computes (x > 0) - (x < 0), which is 0 for NaN as in torch; Tilesim's `sign` gives NaN."""
    tensor = importer.tensor(x, importer.dtype)
    if tensor.dtype == "bool":
        return importer.op("copy", tensor)
    zero = _number(importer, 0, tensor)
    above, below = (importer.apply(name, tensor, zero).convert(tensor.dtype) for name in ("greater", "less"))
    return importer.apply("subtract", above, below)


def _negative(importer: Importer, x: Tensor) -> Tensor:
    """Tests the sign bit, also of -0 and NaN."""
    bits = importer.op("bitcast", x, dtype=_BITS[x.dtype]) if x.dtype in _BITS else x
    return _less(importer, bits, 0)


@handles("aten.signbit.default")
def _signbit(importer: Importer, x: Any) -> Tensor:
    tensor = importer.tensor(x)
    return _negative(importer, tensor.convert("i32") if tensor.dtype in ("bool", "u8") else tensor)


@handles("aten.copysign.Tensor", "aten.copysign.Scalar")
def _copysign(importer: Importer, x: Any, y: Any) -> Tensor:
    a, b = importer.tensor(x, importer.dtype), importer.tensor(y, importer.dtype)
    apart = importer.apply("not_equal", _negative(importer, a), _negative(importer, b))
    return importer.apply("select", apart, importer.apply("negate", a), a)


@handles("aten.nextafter.default")
def _nextafter(importer: Importer, x: Any, y: Any) -> Tensor:
    """Adds 1 to or subtracts 1 from the bits, which order numbers of equal sign; zero steps to the least number."""
    a, b = importer.tensor(x, importer.dtype), importer.tensor(y, importer.dtype)
    whole = _BITS[a.dtype]
    lowest = importer.op("bitcast", _number(importer, -0.0, a), dtype=whole)  # only the sign bit is set
    one, bits = importer.builder.scalar(1, whole), importer.op("bitcast", a, dtype=whole)
    zero = _number(importer, 0, a)
    away = importer.apply("equal", importer.apply("less", a, b), importer.apply("greater", a, zero))
    step = importer.apply("select", away, bits + one, importer.apply("subtract", bits, one))
    other = importer.apply("bitwise_and", importer.op("bitcast", b, dtype=whole), lowest)
    least = importer.apply("bitwise_or", other, one)
    moved = importer.apply("select", importer.apply("equal", a, zero), least, step)
    value = importer.apply("select", importer.apply("equal", a, b), b, importer.op("bitcast", moved, dtype=a.dtype))
    unknown = importer.apply("logical_or", importer.apply("is_nan", a), importer.apply("is_nan", b))
    return importer.apply("select", unknown, _number(importer, math.nan, a), value)


@handles("aten.fmax.default", "aten.fmin.default")
def _without_nan(importer: Importer, x: Any, y: Any) -> Tensor:
    """Replaces NaN in one operand by the other operand."""
    a, b = importer.tensor(x, importer.dtype), importer.tensor(y, importer.dtype)
    function = "maximum" if "fmax" in str(importer.node.target) else "minimum"
    both = importer.apply(function, a, b)
    if importer.dtype not in _BITS:
        return both
    chosen = importer.apply("select", importer.apply("is_nan", b), a, both)
    return importer.apply("select", importer.apply("is_nan", a), b, chosen)


@handles("aten.hypot.default")
def _hypot(importer: Importer, x: Any, y: Any) -> Tensor:
    """Computes large * sqrt(1 + (small / large)^2), so that squares neither overflow nor underflow."""
    a, b = (importer.apply("abs", importer.tensor(one, importer.dtype)) for one in (x, y))
    large, small = importer.apply("maximum", a, b), importer.apply("minimum", a, b)
    zero, one = _number(importer, 0, a), _number(importer, 1, a)
    plain = importer.apply("logical_or", importer.apply("equal", large, zero), importer.apply("equal", small, zero))
    ratio = importer.apply("divide", small, importer.apply("select", plain, one, large))
    root = importer.apply("sqrt", importer.apply("add", one, importer.apply("multiply", ratio, ratio)))
    length = importer.apply("select", plain, large, importer.apply("multiply", large, root))
    endless = [importer.apply("equal", part, _number(importer, math.inf, a)) for part in (a, b)]
    infinite = importer.apply("logical_or", *endless)
    return importer.apply("select", infinite, _number(importer, math.inf, a), length)


def _with_sign_of(importer: Importer, size: Tensor, x: Tensor) -> Tensor:
    return importer.apply("select", _negative(importer, x), importer.apply("negate", size), size)


@handles("aten.asinh.default")
def _asinh(importer: Importer, x: Any) -> Tensor:
    """Computes sign(x) log1p(a + a^2 / (1 + sqrt(1 + a^2))), a = |x|, or log(a) + log(2) where a^2 is large."""
    tensor = importer.tensor(x, importer.dtype)
    a = importer.apply("abs", tensor)
    square = importer.apply("multiply", a, a)
    root = importer.apply("sqrt", square + 1.0)
    near = importer.apply("log1p", a + square / (root + 1.0))
    far = importer.apply("log", a) + math.log(2)
    limit = 1e4 if tensor.dtype != "f16" else 200.0  # below it a^2 is finite, above it 1 is negligible against a^2
    return _with_sign_of(importer, importer.apply("select", _less(importer, a, limit), near, far), tensor)


@handles("aten.acosh.default")
def _acosh(importer: Importer, x: Any) -> Tensor:
    """Computes log1p(t + sqrt(2t + t^2)), t = x - 1, or log(x) + log(2) where t^2 is large."""
    tensor = importer.tensor(x, importer.dtype)
    t = tensor - 1.0
    near = importer.apply("log1p", t + importer.apply("sqrt", t * 2.0 + importer.apply("multiply", t, t)))
    far = importer.apply("log", tensor) + math.log(2)
    limit = 1e4 if tensor.dtype != "f16" else 200.0
    chosen = importer.apply("select", _less(importer, tensor, limit), near, far)
    return importer.apply("select", _less(importer, tensor, 1), _number(importer, math.nan, tensor), chosen)


@handles("aten.atanh.default")
def _atanh(importer: Importer, x: Any) -> Tensor:
    """Computes (log1p(a) - log1p(-a)) / 2 with the sign of x, a = |x|."""
    tensor = importer.tensor(x, importer.dtype)
    a = importer.apply("abs", tensor)
    size = (importer.apply("log1p", a) - importer.apply("log1p", importer.apply("negate", a))) * 0.5
    return _with_sign_of(importer, size, tensor)


# Giles, "Approximating the erfinv function", GPU Computing Gems 2 (2010), table of the single precision coefficients:
# polynomials in w - 2.5 for w = -log(1 - x^2) < 5, and in sqrt(w) - 3 above.
_ERFINV = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
     0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
     1.00167406, 2.83297682),
)  # fmt: skip


@handles("aten.erfinv.default")
def _erfinv(importer: Importer, x: Any) -> Tensor:
    if importer.dtype == "f64":
        raise importer.unsupported("erfinv in double precision", "f64", "Convert to float32 before it")
    tensor = importer.tensor(x, "f32")
    w = -importer.apply("log1p", -importer.apply("multiply", tensor, tensor))
    inner = _less(importer, w, 5)
    centred = importer.apply("select", inner, w - 2.5, importer.apply("sqrt", w) - 3.0)
    value: Tensor | None = None
    for near, far in zip(*_ERFINV, strict=True):
        part = importer.apply("select", inner, _number(importer, near, w), _number(importer, far, w))
        value = part if value is None else part + importer.apply("multiply", value, centred)
    assert value is not None
    ends = importer.apply("equal", importer.apply("abs", tensor), _number(importer, 1, tensor))
    result = importer.apply("select", ends, tensor * math.inf, importer.apply("multiply", value, tensor))
    return result.convert(importer.dtype)


_SHIFTS = ("Tensor", "Scalar", "Tensor_Scalar", "Scalar_Tensor")


@handles(*[f"aten.{name}.{how}" for name in ("__lshift__", "bitwise_left_shift") for how in _SHIFTS])
def _shift_left(importer: Importer, x: Any, y: Any) -> Tensor:
    return elementwise(importer, "shift_left", x, y)


@handles(*[f"aten.{name}.{how}" for name in ("__rshift__", "bitwise_right_shift") for how in _SHIFTS])
def _right(importer: Importer, x: Any, y: Any) -> Tensor:
    return elementwise(importer, "shift_right", x, y)


def _middle(importer: Importer, x: Tensor, at: int) -> tuple[Tensor, Tensor]:
    """Finds the lower median along an axis (kept with extent 1) and its index; NaN if the data contain NaN."""
    places = importer.op("iota", shape=list(x.shape), dtype="i64", dim=at)
    values, order = importer.op("sort", x, places, results=2, dim=at)
    size = x.shape[at]

    def element(tensor: Tensor, place: int) -> Tensor:
        return along(tensor, at, slice(place, place + 1))

    middle, index = element(values, (size - 1) // 2), element(order, (size - 1) // 2)
    if x.dtype not in _BITS:
        return middle, index
    broken = importer.apply("is_nan", element(values, size - 1))  # NaN sorts after all numbers
    last = [element(values, size - 1), element(order, size - 1)]
    return importer.apply("select", broken, last[0], middle), importer.apply("select", broken, last[1], index)


@handles("aten.median.default")
def _median(importer: Importer, x: Any) -> Tensor:
    tensor = importer.tensor(x)
    if math.prod(tensor.shape) == 0:
        raise importer.unsupported("the median of an empty tensor")
    return _middle(importer, tensor.reshape(-1), 0)[0].reshape()


@handles("aten.median.dim")
def _median_dim(importer: Importer, x: Any, dim: int, keep: bool = False) -> tuple[Tensor, ...]:
    tensor = importer.tensor(x)
    if tensor.ndim == 0:
        return tensor, importer.builder.scalar(0, "i64")
    at = axis(dim, tensor.ndim)
    found = _middle(importer, tensor, at)
    shape: Sequence[int] = tensor.shape[:at] + tensor.shape[at + 1 :]
    return found if keep else tuple(one.reshape(*shape) for one in found)


@handles("aten.cummax.default", "aten.cummin.default")
def _cumulative_extreme(importer: Importer, x: Any, dim: int) -> tuple[Tensor, Tensor]:
    """Computes running extremes, and the highest index of the elements that equal them."""
    tensor = importer.tensor(x)
    combiner = "maximum" if "cummax" in str(importer.node.target) else "minimum"
    if tensor.ndim == 0:
        return tensor, importer.builder.scalar(0, "i64")
    at = axis(dim, tensor.ndim)
    values = importer.op("cumulative", tensor, dim=at, combiner=combiner)
    places = importer.op("iota", shape=list(tensor.shape), dtype="i64", dim=at)
    reached = importer.apply("equal", tensor, values)
    if tensor.dtype in _BITS:
        reached = importer.apply("logical_or", reached, importer.apply("is_nan", tensor))
    seen = importer.apply("select", reached, places, importer.builder.scalar(0, "i64"))
    return values, importer.op("cumulative", seen, dim=at, combiner="maximum")


@handles("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def _count_nonzero(importer: Importer, x: Any, dim: Any = None) -> Tensor:
    tensor = importer.tensor(x)
    if tensor.dtype != "bool":
        tensor = importer.apply("not_equal", tensor, _number(importer, 0, tensor))
    return reduced(importer, tensor.convert("i64"), "add", dim)
