"""Complex numbers between two views (rotary positions as rotations): a pair of real tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .._tensor import Tensor
from .torch_import import Importer
from .torch_table import handles


@dataclass(frozen=True)
class Complex:
    """Real and imaginary part."""

    re: Tensor
    im: Tensor


def _parts(importer: Importer, value: Any) -> Complex:
    if isinstance(value, Complex):
        return value
    if isinstance(value, torch.Tensor) and value.is_complex():
        return Complex(importer.tensor(value.real.contiguous()), importer.tensor(value.imag.contiguous()))
    real = importer.tensor(value)
    return Complex(real, importer.builder.scalar(0, real.dtype))


@handles("aten.view_as_complex.default")
def _view_as_complex(importer: Importer, x: Any) -> Complex:
    tensor = importer.tensor(x)
    return Complex(tensor[..., 0], tensor[..., 1])


@handles("aten.view_as_real.default", "aten.real.default", "aten.imag.default")
def _view_as_real(importer: Importer, x: Any) -> Tensor:
    value, overload = _parts(importer, x), str(importer.node.target)
    if "as_real" not in overload:
        return value.re if "real" in overload else value.im
    shape = [*value.re.shape, 1]
    return importer.op("concat", value.re.reshape(*shape), value.im.reshape(*shape), dim=len(shape) - 1)


def product(importer: Importer, x: Any, y: Any) -> Complex:
    """(a + bi)(c + di)."""
    a, b = _parts(importer, x), _parts(importer, y)
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
