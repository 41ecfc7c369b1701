"""Softmax and normalizations spelled out."""

from __future__ import annotations

from typing import Any

from .cases import case, number


def spelled_softmax(b: Any, x: Any, dim: int) -> Any:
    top = b.op("reduce", x, dims=[dim], combiner="maximum", keep_dims=True)
    e = b.apply("exp", x - top)
    return e / b.op("reduce", e, dims=[dim], combiner="add", keep_dims=True)


@case("softmax", softmax=1, exp=0)
def _(b: Any) -> None:
    b.output(spelled_softmax(b, b.input("x", [4, 8, 8]), 1))


@case("softmax without the maximum", softmax=0, exp=1)
def _(b: Any) -> None:
    e = b.apply("exp", b.input("x", [4, 8]))
    b.output(e / b.op("reduce", e, dims=[1], combiner="add", keep_dims=True))


@case("softmax over two different axes", softmax=0, exp=1)
def _(b: Any) -> None:
    x = b.input("x", [8, 8])
    top = b.op("reduce", x, dims=[1], combiner="maximum", keep_dims=True)
    e = b.apply("exp", x - top)
    b.output(e / b.op("reduce", e, dims=[0], combiner="add", keep_dims=True))


@case("log_softmax", log_softmax=1, exp=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    shifted = x - b.op("reduce", x, dims=[1], combiner="maximum", keep_dims=True)
    total = b.op("reduce", b.apply("exp", shifted), dims=[1], combiner="add", keep_dims=True)
    b.output(shifted - b.apply("log", total))


def spelled_rms(b: Any, x: Any, w: Any, epsilon: float = 1e-5) -> Any:
    wide = x.convert("f32")
    mean = b.op("reduce", wide * wide, dims=[x.ndim - 1], combiner="mean", keep_dims=True)
    rows = wide * b.apply("rsqrt", mean + epsilon)
    return rows.convert(x.dtype) * w


@case("rms norm of bf16", normalize=1, rsqrt=0, multiply=0, convert=0)
def _(b: Any) -> None:
    x, w = b.input("x", [2, 4, 16], "bf16"), b.weight("w", [16], "bf16")
    b.output(spelled_rms(b, x, w))


@case("rms norm by sum, square root and division", normalize=1, sqrt=0, divide=0)
def _(b: Any) -> None:
    x, w = b.input("x", [4, 16]), b.weight("w", [16])
    total = b.op("reduce", b.apply("power", x, number(b, 2)), dims=[1], combiner="add", keep_dims=True)
    b.output(w * (x / b.apply("sqrt", total / 16 + 1e-6)))


@case("scale along the wrong axis stays", normalize=1, multiply=1)
def _(b: Any) -> None:
    x, w = b.input("x", [16, 16]), b.weight("w", [16, 1])
    b.output(spelled_rms(b, x, w))


@case("layer norm", normalize=1, rsqrt=0, subtract=0)
def _(b: Any) -> None:
    x, w, c = b.input("x", [2, 4, 16]), b.weight("w", [16]), b.weight("c", [16])
    centered = x - b.op("reduce", x, dims=[2], combiner="mean", keep_dims=True)
    variance = b.op("reduce", centered * centered, dims=[2], combiner="mean", keep_dims=True)
    b.output(centered * b.apply("rsqrt", variance + 1e-5) * w + c)
