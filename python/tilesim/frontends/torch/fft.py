"""Fourier transforms, and overloads that treat both parts of complex operands alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ...graph.tensor import Tensor
from . import elementwise, layers, reduce  # noqa: F401 (registers their overloads first)
from .complex import Complex, each, magnitude, parts_of, quotient, sum_of
from .importing import Importer
from .shape import along, axis
from .table import TABLE, handles

#: overloads that apply to both parts alike
_BOTH_PARTS = (
    "view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
    "squeeze.dims", "flatten.using_ints", "alias.default", "clone.default", "contiguous.default", "detach.default",
    "permute.default", "transpose.int", "t.default", "expand.default", "slice.Tensor", "select.int", "narrow.default",
    "cat.default", "stack.default", "flip.default", "roll.default", "neg.default", "sum.default", "sum.dim_IntList",
    "mean.default", "mean.dim", "unbind.int", "split.Tensor", "split_with_sizes.default", "constant_pad_nd.default",
)  # fmt: skip


_REAL_PRODUCTS: dict[str, Any] = {}  # overload -> its product of real matrices


def _is_complex(value: Any) -> bool:
    return isinstance(value, Complex) or (isinstance(value, torch.Tensor) and value.is_complex())


def _where_complex(overload: str, meaning: Any) -> None:
    """Registers a second handler of an overload, for complex operands."""
    real = TABLE[overload]

    def build(importer: Importer, *args: Any, **keywords: Any) -> Any:
        return (meaning if any(map(_is_complex, args)) else real)(importer, *args, **keywords)

    TABLE[overload] = build


def _enter() -> None:
    for name in _BOTH_PARTS:
        TABLE[f"aten.{name}"] = each(TABLE[f"aten.{name}"])

    def abs_of(importer: Importer, x: Any) -> Tensor:
        return magnitude(importer, parts_of(importer, x))

    def added(importer: Importer, x: Any, y: Any, alpha: float = 1) -> Complex:
        return sum_of(importer, x, y, alpha)

    def taken(importer: Importer, x: Any, y: Any, alpha: float = 1) -> Complex:
        return sum_of(importer, x, y, -alpha)

    def exponential(importer: Importer, x: Complex) -> Complex:
        size = importer.apply("exp", x.re)
        return Complex(size * importer.apply("cos", x.im), size * importer.apply("sin", x.im))

    def matrices(importer: Importer, x: Any, y: Any) -> Complex:
        a, b = parts_of(importer, x), parts_of(importer, y)
        real = _REAL_PRODUCTS[str(importer.node.target)]
        re = real(importer, a.re, b.re) - real(importer, a.im, b.im)
        return Complex(re, real(importer, a.re, b.im) + real(importer, a.im, b.re))

    _where_complex("aten.exp.default", exponential)
    for name in ("aten.matmul.default", "aten.mm.default", "aten.bmm.default"):
        _REAL_PRODUCTS[name] = TABLE[name]
        _where_complex(name, matrices)
    _where_complex("aten.abs.default", abs_of)
    for how in ("Tensor", "Scalar"):
        _where_complex(f"aten.add.{how}", added)
        _where_complex(f"aten.sub.{how}", taken)
        _where_complex(f"aten.div.{how}", quotient)


_enter()


def _converting(real: Any) -> Any:
    def build(importer: Importer, x: Any, *rest: Any, **keywords: Any) -> Any:
        if _is_complex(x) and not importer.meta.dtype.is_complex:
            return real(importer, parts_of(importer, x).re, *rest, **keywords)
        if not importer.meta.dtype.is_complex:
            return real(importer, x, *rest, **keywords)
        value = parts_of(importer, x)
        return Complex(*(importer.tensor(part, importer.dtype) for part in (value.re, value.im)))

    return build


for _overload in ("aten._to_copy.default", "aten.to.dtype", "prims.convert_element_type.default"):
    TABLE[_overload] = _converting(TABLE[_overload])


def _along(importer: Importer, x: Complex | Tensor, at: int, inverse: bool) -> Complex:
    operands = [x.re, x.im] if isinstance(x, Complex) else [x]
    return Complex(*importer.op("fft", *operands, results=2, dim=at, inverse=inverse))


def _scaled(x: Complex, normalization: int, size: int, inverse: bool) -> Complex:
    """Divides by 1, the root of the size, or the size (normalization 0, 1, 2); `fft` has divided inverse transforms."""
    wanted = {0: 1.0, 1: 1 / math.sqrt(size), 2: 1 / size}[normalization]
    factor = wanted * (size if inverse else 1)
    return x if math.isclose(factor, 1, rel_tol=1e-12) else Complex(x.re * factor, x.im * factor)


def _size(x: Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[axis(dim, x.ndim)] for dim in dims)


@handles("aten._fft_c2c.default")
def _complex_to_complex(importer: Importer, x: Any, dims: Sequence[int], normalization: int, forward: bool) -> Complex:
    value = parts_of(importer, x)
    size = _size(value.re, dims)
    for dim in dims:
        value = _along(importer, value, axis(dim, value.re.ndim), not forward)
    return _scaled(value, normalization, size, not forward)


@handles("aten._fft_r2c.default")
def _real_to_complex(importer: Importer, x: Any, dims: Sequence[int], normalization: int, onesided: bool) -> Complex:
    """Transforms the last axis in `dims` first; if `onesided`, keeps the half that determines the other by symmetry."""
    real = importer.tensor(x)
    last, size = axis(dims[-1], real.ndim), _size(real, dims)
    value = _along(importer, real, last, False)
    if onesided:
        half = real.shape[last] // 2 + 1
        value = Complex(*(along(one, last, slice(0, half)) for one in (value.re, value.im)))
    for dim in dims[:-1]:
        value = _along(importer, value, axis(dim, real.ndim), False)
    return _scaled(value, normalization, size, False)


@handles("aten._fft_c2r.default")
def _complex_to_real(importer: Importer, x: Any, dims: Sequence[int], normalization: int, length: int) -> Tensor:
    """Inverts a real transform; rebuilds the missing half of the last axis in `dims` as mirrored conjugate."""
    value = parts_of(importer, x)
    rank, last = value.re.ndim, axis(dims[-1], value.re.ndim)
    for dim in dims[:-1]:
        value = _along(importer, value, axis(dim, rank), True)
    half = length // 2 + 1
    if value.re.shape[last] != half:
        raise importer.unsupported(
            "the half spectrum does not fit the signal's length", f"{value.re.shape[last]} for {length}",
            "Cut or pad it before the inverse transform",
        )  # fmt: skip
    whole = []
    for part, sign in ((value.re, 1), (value.im, -1)):
        mirrored = importer.op("reverse", along(part, last, slice(1, length - half + 1)), dims=[last])
        mirrored = mirrored if sign > 0 else importer.apply("negate", mirrored)
        whole.append(importer.op("concat", part, mirrored, dim=last) if length > half else part)
    result = _along(importer, Complex(whole[0], whole[1]), last, True)
    size = _size(value.re, dims[:-1]) * length
    return _scaled(result, normalization, size, True).re
