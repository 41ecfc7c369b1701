"""Elementwise overloads: torch's type promotion, then one elementwise function or a short composition."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...graph.tensor import Tensor
from ...graph.torch_arrays import dtype_name, torch_dtype
from ..functions import functions_of
from .complex import Complex, product
from .importing import Importer
from .table import TABLE, handles

_FLOATS = ("f64", "f32", "f16", "bf16")

# one operand; the result has its dtype (integers become f32 first where torch does so)
_UNARY = functions_of("torch")
_COMPARE = {name: _UNARY.pop(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_IDENTITY_ON_INTEGERS = ("ceil", "floor", "round_even", "trunc")

# two operands of the same dtype
_BINARY = {
    f"aten.{overload}": function
    for function, overloads in {
        "atan2": "atan2.default",
        **{f"bitwise_{x}": f"bitwise_{x}.Tensor bitwise_{x}.Scalar __{x}__.Tensor __{x}__.Scalar"
           for x in ("and", "or", "xor")},
        "remainder": "fmod.Tensor fmod.Scalar",
        "maximum": "maximum.default",
        "minimum": "minimum.default",
        "multiply": "mul.Tensor mul.Scalar",
        "divide": "div.Tensor div.Scalar",
        "power": "pow.Tensor_Tensor pow.Scalar",
        "floor_divide": "floor_divide.default floor_divide.Scalar",
    }.items()
    for overload in overloads.split()
}  # fmt: skip


def _float_of(value: Any) -> float | None:
    """Returns the value of a Python number or constant scalar tensor, else None."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, torch.Tensor) and value.ndim == 0 and not value.is_complex():
        return float(value)
    return None


def _exact(number: float, dtype: str) -> bool:
    rounded = torch.tensor(number, dtype=torch.float64).to(torch_dtype(dtype)).double().item()
    return rounded == number or math.isnan(number)


def _wide_scalar(dtype: str, operands: tuple[Any, ...]) -> bool:
    """Whether a narrow dtype cannot represent a scalar operand, so that torch computes in f32."""
    if dtype not in ("f16", "bf16"):
        return False
    numbers = [number for number in map(_float_of, operands) if number is not None]
    return any(not _exact(number, dtype) for number in numbers)


def elementwise(importer: Importer, function: str, *operands: Any, dtype: str | None = None) -> Tensor:
    """Builds one function in the result's dtype, or in f32 if a narrow dtype cannot represent a scalar."""
    result = dtype or importer.dtype
    compute = "f32" if _wide_scalar(result, operands) else result
    value = importer.apply(function, *[importer.tensor(operand, compute) for operand in operands])
    return value if value.dtype == result or value.dtype == "bool" else value.convert(result)


def _promoted(importer: Importer, *operands: Any) -> str:
    """Returns the dtype in which torch compares operands."""
    fakes = [_like(importer, operand) for operand in operands]
    kind = torch.result_type(*fakes)
    return dtype_name(kind)


def _like(importer: Importer, operand: Any) -> Any:
    if isinstance(operand, Tensor):
        return torch.empty([1] * min(1, operand.ndim), dtype=torch_dtype(operand.dtype), device="meta")
    return operand


def _unary(function: str) -> Any:
    def build(importer: Importer, x: Any) -> Tensor:
        tensor = importer.tensor(x, importer.dtype)
        if importer.dtype not in _FLOATS and function in _IDENTITY_ON_INTEGERS:
            return importer.op("copy", tensor)
        if importer.dtype == "bool" and function == "bitwise_not":
            return importer.apply("logical_not", tensor)
        return importer.apply(function, tensor)

    return build


def _binary(function: str) -> Any:
    def build(importer: Importer, x: Any, y: Any) -> Any:
        if function == "multiply" and (isinstance(x, Complex) or isinstance(y, Complex)):
            return product(importer, x, y)
        if importer.dtype == "bool" and function == "multiply":
            return elementwise(importer, "logical_and", x, y)
        return elementwise(importer, function, x, y)

    return build


def _comparison(function: str) -> Any:
    def build(importer: Importer, x: Any, y: Any) -> Tensor:
        dtype = _promoted(importer, x, y)
        compute = "f32" if _wide_scalar(dtype, (x, y)) else dtype
        return importer.apply(function, importer.tensor(x, compute), importer.tensor(y, compute))

    return build


def _logical(function: str) -> Any:
    def build(importer: Importer, *operands: Any) -> Tensor:
        return importer.apply(function, *[truth(importer, operand) for operand in operands])

    return build


def truth(importer: Importer, x: Any) -> Tensor:
    """Computes x != 0 as bool."""
    tensor = importer.tensor(x)
    if tensor.dtype == "bool":
        return tensor
    return importer.apply("not_equal", tensor, importer.builder.scalar(0, tensor.dtype))


def _enter_tables() -> None:
    for name, function in _UNARY.items():
        TABLE[f"aten.{name}.default"] = _unary(function)
    for overload, function in _BINARY.items():
        TABLE[overload] = _binary(function)
    for name, function in _COMPARE.items():
        TABLE[f"aten.{name}.Tensor"] = TABLE[f"aten.{name}.Scalar"] = _comparison(function)
    for name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
        TABLE[f"aten.{name}.default"] = _logical(name)


_enter_tables()


@handles("aten.add.Tensor", "aten.add.Scalar")
def _add(importer: Importer, x: Any, y: Any, alpha: float = 1) -> Tensor:
    if alpha != 1:
        y = y * alpha if not isinstance(y, Tensor) else elementwise(importer, "multiply", y, alpha)
    if importer.dtype == "bool":
        return elementwise(importer, "logical_or", x, y)
    return elementwise(importer, "add", x, y)


@handles("aten.sub.Tensor", "aten.sub.Scalar")
def _sub(importer: Importer, x: Any, y: Any, alpha: float = 1) -> Tensor:
    if alpha != 1:
        y = y * alpha if not isinstance(y, Tensor) else elementwise(importer, "multiply", y, alpha)
    return elementwise(importer, "subtract", x, y)


@handles("aten.rsub.Scalar", "aten.rsub.Tensor")
def _rsub(importer: Importer, x: Any, y: Any, alpha: float = 1) -> Tensor:
    return _sub(importer, y, x, alpha)


@handles("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(importer: Importer, x: Any, y: Any, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode == "floor":
        return elementwise(importer, "floor_divide", x, y)
    if rounding_mode == "trunc" and importer.dtype in _FLOATS:
        return importer.apply("trunc", elementwise(importer, "divide", x, y))
    return elementwise(importer, "divide", x, y)


@handles("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def _remainder(importer: Importer, x: Any, y: Any) -> Tensor:
    """Computes the remainder with the divisor's sign: adds the divisor to a truncated remainder of the other sign."""
    dtype = importer.dtype
    a, b = importer.tensor(x, dtype), importer.tensor(y, dtype)
    rest = importer.apply("remainder", a, b)
    zero = importer.builder.scalar(0, dtype)
    apart = importer.apply(
        "logical_and",
        importer.apply("not_equal", rest, zero),
        importer.apply("not_equal", importer.apply("less", rest, zero), importer.apply("less", b, zero)),
    )
    return importer.apply("select", apart, importer.apply("add", rest, b), rest)


@handles("aten.pow.Tensor_Scalar")
def _pow_scalar(importer: Importer, x: Any, exponent: float) -> Tensor:
    tensor = importer.tensor(x, importer.dtype)
    floating = importer.dtype in _FLOATS
    if exponent == 1:
        return importer.op("copy", tensor)
    if exponent == 2:
        return importer.apply("multiply", tensor, tensor)
    if exponent == 3 and importer.dtype not in ("f16", "bf16"):
        return importer.apply("multiply", importer.apply("multiply", tensor, tensor), tensor)
    if exponent == 0.5 and floating:
        return importer.apply("sqrt", tensor)
    if exponent == -0.5 and floating:
        return importer.apply("rsqrt", tensor)
    if exponent == -1 and floating:
        return importer.apply("reciprocal", tensor)
    if not floating and 3 <= exponent <= 8:
        power = tensor
        for _ in range(int(exponent) - 1):
            power = importer.apply("multiply", power, tensor)
        return power
    return elementwise(importer, "power", tensor, exponent)


@handles("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def _where(importer: Importer, condition: Any, x: Any, y: Any) -> Tensor:
    dtype = importer.dtype
    return importer.apply("select", truth(importer, condition), importer.tensor(x, dtype), importer.tensor(y, dtype))


@handles("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(importer: Importer, x: Any, mask: Any, value: Any) -> Tensor:
    filled = importer.apply(
        "select", truth(importer, mask), importer.tensor(value, importer.dtype), importer.tensor(x, importer.dtype)
    )
    return filled


@handles("aten.clamp.default", "aten.clamp.Tensor", "aten.hardtanh.default")
def _clamp(importer: Importer, x: Any, low: Any = None, high: Any = None) -> Tensor:
    if str(importer.node.target).startswith("aten.hardtanh"):
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    value: Any = x
    if low is not None:
        value = elementwise(importer, "maximum", value, low)
    if high is not None:
        value = elementwise(importer, "minimum", value, high)
    return importer.tensor(value, importer.dtype)


@handles("aten.clamp_min.default", "aten.clamp_min.Tensor")
def _clamp_min(importer: Importer, x: Any, low: Any) -> Tensor:
    return elementwise(importer, "maximum", x, low)


@handles("aten.clamp_max.default", "aten.clamp_max.Tensor")
def _clamp_max(importer: Importer, x: Any, high: Any) -> Tensor:
    return elementwise(importer, "minimum", x, high)


@handles("aten.isnan.default")
def _isnan(importer: Importer, x: Any) -> Tensor:
    return importer.apply("is_nan", importer.tensor(x))


@handles("aten.isinf.default")
def _isinf(importer: Importer, x: Any) -> Tensor:
    tensor = importer.tensor(x)
    return importer.apply("equal", importer.apply("abs", tensor), importer.builder.scalar(math.inf, tensor.dtype))


@handles("aten.isfinite.default")
def _isfinite(importer: Importer, x: Any) -> Tensor:
    return importer.apply("is_finite", importer.tensor(x))


@handles("aten.addcmul.default")
def _addcmul(importer: Importer, x: Any, a: Any, b: Any, value: float = 1) -> Tensor:
    product = elementwise(importer, "multiply", a, b)
    return elementwise(importer, "add", x, product if value == 1 else product * value)


@handles("aten.addcdiv.default")
def _addcdiv(importer: Importer, x: Any, a: Any, b: Any, value: float = 1) -> Tensor:
    quotient = elementwise(importer, "divide", a, b)
    return elementwise(importer, "add", x, quotient if value == 1 else quotient * value)


@handles("aten.lerp.Scalar", "aten.lerp.Tensor")
def _lerp(importer: Importer, x: Any, end: Any, weight: Any) -> Tensor:
    change = elementwise(importer, "subtract", end, x)
    return elementwise(importer, "add", x, elementwise(importer, "multiply", change, weight))
