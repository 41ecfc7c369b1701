"""Complex numbers as pairs of real tensors; rotary embeddings with complex rotations need them."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...graph.tensor import Tensor
from ..complex import Complex
from .table import handles


def parts_of(importer: Any, value: Any) -> Complex:
    """Converts a value to a complex one; a real value gets an imaginary part of 0."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, torch.Tensor) and value.is_complex():
        return Complex(importer.tensor(value.real.contiguous()), importer.tensor(value.imag.contiguous()))
    if isinstance(value, complex):
        return Complex(*(importer.builder.scalar(part, importer.dtype) for part in (value.real, value.imag)))
    real = importer.tensor(value)
    return Complex(real, importer.broadcast(importer.builder.scalar(0, real.dtype), list(real.shape)))


@handles("aten.view_as_complex.default")
def _view_as_complex(importer: Any, x: Any) -> Complex:
    tensor = importer.tensor(x)
    return Complex(tensor[..., 0], tensor[..., 1])


@handles("aten.view_as_real.default", "aten.real.default", "aten.imag.default")
def _view_as_real(importer: Any, x: Any) -> Tensor:
    value, overload = parts_of(importer, x), str(importer.node.target)
    if "as_real" not in overload:
        return value.re if "real" in overload else value.im
    shape = [*value.re.shape, 1]
    return importer.op("concat", value.re.reshape(*shape), value.im.reshape(*shape), dim=len(shape) - 1)


def product(importer: Any, x: Any, y: Any) -> Complex:
    """Computes (a + bi)(c + di)."""
    a, b = parts_of(importer, x), parts_of(importer, y)
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def each(handler: Any) -> Any:
    """Applies a handler of a view, a copy or a linear operation to both parts of complex operands."""

    def build(importer: Any, *args: Any, **keywords: Any) -> Any:
        if not any(isinstance(one, Complex) for one in _leaves((args, keywords))):
            return handler(importer, *args, **keywords)
        halves = []
        for imaginary in (False, True):
            own = [_half(importer, one, imaginary) for one in args]
            halves.append(
                handler(importer, *own, **{key: _half(importer, one, imaginary) for key, one in keywords.items()})
            )
        if isinstance(halves[0], (tuple, list)):
            return tuple(Complex(re, im) for re, im in zip(*halves, strict=True))
        return Complex(*halves)

    return build


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return _leaves(tuple(value.values()))
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, (tuple, list)) else [value]


def _half(importer: Any, value: Any, imaginary: bool) -> Any:
    if isinstance(value, (tuple, list)) and any(isinstance(one, Complex) for one in value):
        return [_half(importer, one, imaginary) for one in value]
    if isinstance(value, Complex) or (isinstance(value, torch.Tensor) and value.is_complex()):
        parts = parts_of(importer, value)
        return parts.im if imaginary else parts.re
    return value


@handles("aten.complex.default")
def _complex(importer: Any, re: Any, im: Any) -> Complex:
    a, b = importer.tensor(re, importer.dtype), importer.tensor(im, importer.dtype)
    return Complex(importer.broadcast(a, importer.shape), importer.broadcast(b, importer.shape))


@handles("aten.polar.default")
def _polar(importer: Any, size: Any, angle: Any) -> Complex:
    r, phi = importer.tensor(size), importer.tensor(angle)
    return Complex(r * importer.apply("cos", phi), r * importer.apply("sin", phi))


@handles("aten._conj.default", "aten.conj.default", "aten._conj_physical.default", "aten.conj_physical.default")
def _conjugate(importer: Any, x: Any) -> Any:
    if isinstance(x, Complex):
        return Complex(x.re, -x.im)
    return parts_of(importer, x) if isinstance(x, torch.Tensor) and x.is_complex() else importer.tensor(x)


@handles("aten.angle.default")
def _angle(importer: Any, x: Any) -> Tensor:
    """Computes atan2 of both parts; a real number gives 0, or pi if negative, or NaN for NaN."""
    if isinstance(x, Complex):
        return importer.apply("atan2", x.im, x.re)
    real = importer.tensor(x, importer.dtype)
    zero = importer.builder.scalar(0, real.dtype)
    below = importer.apply("less", real, zero)
    angle = importer.apply("select", below, importer.builder.scalar(math.pi, real.dtype), zero)
    return importer.apply("select", importer.apply("is_nan", real), real, angle)


def magnitude(importer: Any, x: Complex) -> Tensor:
    """Computes |a + bi| as the larger part times a root, so that squares neither overflow nor underflow."""
    a, b = importer.apply("abs", x.re), importer.apply("abs", x.im)
    large, small = importer.apply("maximum", a, b), importer.apply("minimum", a, b)
    zero, one = importer.builder.scalar(0, a.dtype), importer.builder.scalar(1, a.dtype)
    empty = importer.apply("equal", small, zero)
    ratio = importer.apply("divide", small, importer.apply("select", empty, one, large))
    root = importer.apply("sqrt", one + ratio * ratio)
    return importer.apply("select", empty, large, large * root)


def quotient(importer: Any, x: Any, y: Any) -> Complex:
    """Computes (a + bi) / (c + di); a real divisor divides both parts."""
    a = parts_of(importer, x)
    if not isinstance(y, Complex) and not (isinstance(y, torch.Tensor) and y.is_complex()):
        c = importer.tensor(y, a.re.dtype)
        return Complex(a.re / c, a.im / c)
    b = parts_of(importer, y)
    size = b.re * b.re + b.im * b.im
    return Complex((a.re * b.re + a.im * b.im) / size, (a.im * b.re - a.re * b.im) / size)


def sum_of(importer: Any, x: Any, y: Any, factor: float = 1) -> Complex:
    """Computes x + factor * y."""
    a, b = parts_of(importer, x), parts_of(importer, y)
    halves = []
    for mine, theirs in ((a.re, b.re), (a.im, b.im)):
        scaled = theirs if abs(factor) == 1 else theirs * abs(factor)
        both = importer.apply("add" if factor > 0 else "subtract", mine, scaled)
        halves.append(importer.broadcast(both, importer.shape))
    return Complex(*halves)
