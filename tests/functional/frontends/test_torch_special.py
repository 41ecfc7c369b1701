"""Special values (NaN, infinities, -0, ends of ranges) of elementwise functions, transforms and orders, as torch."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import tilesim as ts  # noqa: E402
from support.torch_equal import Applied, equal  # noqa: E402

NAN, INF = float("nan"), float("inf")
SPECIAL = torch.tensor(
    [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, -0.5, 3.0, -3.0, 1e30, -1e30, 100.0, -100.0]
)

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "erfinv", "exp",
    "expm1", "exp2", "floor", "frac", "isnan", "isinf", "isfinite", "isneginf", "isposinf", "log", "log10", "log1p",
    "log2", "logical_not", "logit", "nan_to_num", "neg", "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid",
    "sign", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "angle", "deg2rad",
]  # fmt: skip
BINARY = [
    "add", "sub", "mul", "div", "pow", "atan2", "maximum", "minimum", "fmax", "fmin", "remainder", "fmod",
    "floor_divide", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "copysign",
    "hypot", "logaddexp", "xlogy", "heaviside",
]  # fmt: skip
MORE: list[Callable[[Any], Any]] = [
    F.silu, F.mish, F.softplus, F.elu, F.selu, F.celu, F.hardtanh, F.hardswish, F.hardsigmoid, F.leaky_relu, F.relu6,
    F.logsigmoid, F.softsign, F.tanhshrink, F.softshrink, F.hardshrink, lambda x: x.clamp(-1, 1), lambda x: 1 - x,
    lambda x: x.clamp_min(0.0), lambda x: x.clamp_max(0.0), lambda x: x**2, lambda x: x**3, lambda x: x**0.5,
    lambda x: x**-1, lambda x: 2.0**x, lambda x: torch.where(x > 0, x, 0.1 * x), lambda x: x.amax(0),
    lambda x: x.amin(0), lambda x: x.sum(), lambda x: x.bool(), lambda x: x.sort()[0], lambda x: x.argmax(),
    lambda x: x.argmin(), lambda x: x.cummax(0)[0], lambda x: x.cummin(0)[1], lambda x: x.median(),
    lambda x: x[1:].median(), lambda x: x.softmax(0), lambda x: x.logsumexp(0), lambda x: x[1:].cummax(0)[1],
    lambda x: x.count_nonzero(), lambda x: x.nan_to_num(0, 5, -5).clamp(-9, 9).to(torch.int32),
    lambda x: torch.div(x, 0.3, rounding_mode="trunc"), lambda x: torch.div(x, 0.3, rounding_mode="floor"),
]  # fmt: skip


def places(wanted: Any, got: Any) -> Any:
    """Where two arrays differ: NaN and infinities in place, numbers within 1e-5 of themselves or below 1e-37."""
    if wanted.dtype.kind != "f":
        return wanted != got
    with np.errstate(all="ignore"):
        near = np.abs(wanted - got) <= 1e-5 * np.abs(wanted) + 1e-37
    return ~((wanted == got) | (np.isnan(wanted) & np.isnan(got)) | near)


def same(functions: Sequence[Callable[..., Any]], *args: Any) -> None:
    """All functions in one module, which torch exports once."""
    module = Applied(lambda *values: [function(*values) for function in functions])
    found = list(ts.reference(ts.from_torch(module, args), args).values())
    for number, (function, got) in enumerate(zip(functions, found, strict=True)):
        wanted = function(*args).numpy()
        assert got.dtype == wanted.dtype
        wrong = np.atleast_1d(places(wanted, got)).nonzero()[0]
        at = [[x.reshape(-1)[i % x.numel()].item() for x in args] for i in wrong]
        name = getattr(function, "__name__", "")
        assert not wrong.size, (number, name, at, np.atleast_1d(wanted)[wrong], np.atleast_1d(got)[wrong])


def test_one_operand() -> None:
    same([getattr(torch, name) for name in UNARY], SPECIAL)


def test_more_functions() -> None:
    same(MORE, SPECIAL)


def test_two_operands() -> None:
    a, b = torch.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    same([getattr(torch, name) for name in BINARY], a.reshape(-1).contiguous(), b.reshape(-1).contiguous())


def test_integers() -> None:
    values = torch.tensor([-7, -3, -1, 0, 1, 2, 5, 31, -(2**31), 2**31 - 1], dtype=torch.int32)
    a, b = (x.reshape(-1).contiguous() for x in torch.meshgrid(values, values, indexing="ij"))
    names = ("bitwise_and", "bitwise_or", "bitwise_xor", "add", "sub", "mul", "maximum", "minimum", "eq", "lt")
    same([getattr(torch, name) for name in names], a, b)
    divides = (b != 0) & ~((a == -(2**31)) & (b == -1))
    trunc = functools.partial(torch.div, rounding_mode="trunc")
    same([torch.remainder, torch.fmod, torch.floor_divide, trunc], a[divides], b[divides])
    shifts = (b >= 0) & (b < 32)
    shift = [lambda x, y: x << y, lambda x, y: x >> y, lambda x, y: x.__rshift__(2) + x.__lshift__(3)]
    same(shift, a[shifts], b[shifts])
    same([torch.abs, torch.neg, torch.sign, torch.bitwise_not, torch.square, torch.exp, F.relu, lambda x: x**3], values)


def test_erfinv_over_its_range() -> None:
    same([torch.erfinv], torch.linspace(-1, 1, 4001))
    with pytest.raises(ts.Unsupported, match="double precision"):
        ts.from_torch(Applied(torch.erfinv), (torch.ones(3, dtype=torch.float64),))


def test_medians_along_an_axis() -> None:
    x = torch.randperm(60).reshape(3, 4, 5).float()
    same([lambda t, d=dim, k=keep: t.median(d, keepdim=k)[k] for dim in (0, 1, -1) for keep in (False, True)], x)


TRANSFORMS: list[Callable[[Any], Any]] = [
    lambda x: torch.fft.rfft(x).abs(), lambda x: torch.view_as_real(torch.fft.fft2(x, norm="ortho")),
    lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=9), lambda x: torch.fft.irfft(torch.fft.rfft(x[:, :8])),
    lambda x: torch.fft.irfft(torch.fft.rfft(x), n=6), lambda x: torch.fft.hfft(torch.complex(x, x), n=9),
    lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * torch.full((4, 5), 1 + 1j), s=(4, 9)),
    lambda x: torch.fft.fftshift(torch.fft.fft2(x)).imag, lambda x: torch.fft.rfftn(x, dim=(1, 0)).real,
    lambda x: torch.fft.ifft(torch.fft.fft(x, norm="forward"), norm="backward").real,
    lambda x: torch.stft(x, 4, return_complex=True, window=torch.ones(4)).abs(),
    lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
    lambda x: (torch.fft.fft(x).conj() * torch.fft.fft(x) + 1 - torch.fft.fft(x)).real,
    lambda x: (torch.fft.fft(x) / (torch.fft.fft(x) + (20 + 1j))).imag, lambda x: torch.polar(x.abs(), x).sum(0).real,
    lambda x: torch.complex(x, x[:1]).reshape(9, 4).t()[1:].imag, lambda x: torch.exp(torch.fft.fft(x) / 9).real,
    lambda x: (torch.fft.fft(x).mean(0) * torch.tensor(1 + 2j)).abs(),
    lambda x: (torch.fft.fft(x) @ torch.fft.fft(x).T).real,
]  # fmt: skip


def test_transforms_and_complex_numbers() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 9)
    equal(Applied(lambda t: [function(t) for function in TRANSFORMS]), (x,), bound=3e-5)


def test_what_complex_numbers_cannot_do_is_named() -> None:
    x = torch.randn(4)
    with pytest.raises(ts.Unsupported, match=r"pow.*complex numbers as operand"):
        ts.from_torch(Applied(lambda t: (torch.fft.fft(t) ** 1.5).real), (x,))
