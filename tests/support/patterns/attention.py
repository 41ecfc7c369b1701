"""Attention and rotary embeddings spelled out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import case, number
from .normalizations import spelled_softmax


def spelled_attention(
    b: Any, q: Any, k: Any, v: Any, mask: Callable[[Any], Any] = lambda s: s, scale: float = 0.25
) -> Any:
    scores = q @ k.transpose(0, 1, 3, 2) * scale
    return b.op("softmax", mask(scores), dim=3) @ v


def qkv(b: Any, heads: int = 4, queries: int = 5, keys: int = 7, dtype: str = "f32") -> Any:
    return (
        b.input("q", [2, heads, queries, 16], dtype),
        b.input("k", [2, heads, keys, 16], dtype),
        b.input("v", [2, heads, keys, 6], dtype),
    )


@case("attention", attention=1, contract=0, softmax=0)
def _(b: Any) -> None:
    b.output(spelled_attention(b, *qkv(b)))


@case("attention with softmax spelled out", attention=1, contract=0, exp=0)
def _(b: Any) -> None:
    q, k, v = qkv(b)
    b.output(spelled_softmax(b, (q * 0.25) @ k.transpose(0, 1, 3, 2), 3) @ v)


@case("attention with an added mask", attention=1, contract=0)
def _(b: Any) -> None:
    mask = b.input("mask", [2, 1, 5, 7])
    b.output(spelled_attention(b, *qkv(b), lambda s: s + mask))


@case("attention with a mask that selects", attention=1, contract=0)
def _(b: Any) -> None:
    keep = b.input("keep", [5, 7], "bool")
    b.output(spelled_attention(b, *qkv(b), lambda s: b.apply("select", keep, s, number(b, -math.inf))))


@case("attention with lengths", attention=1, contract=0, less=0)
def _(b: Any) -> None:
    n = b.input("n", [2], "i32")
    there = b.apply("less", b.op("iota", shape=[7], dim=0, dtype="i32"), n.reshape(2, 1, 1, 1))
    b.output(spelled_attention(b, *qkv(b), lambda s: b.apply("select", there, s, number(b, -math.inf))))


@case("attention with a finite mask", attention=1, contract=0)
def _(b: Any) -> None:
    keep, low = b.input("keep", [5, 7], "bool"), float(np.finfo(np.float32).min)
    b.output(spelled_attention(b, *qkv(b), lambda s: b.apply("select", keep, s, number(b, low))))


@case("a mask that hides too little", attention=0, contract=2)
def _(b: Any) -> None:
    keep = b.input("keep", [5, 7], "bool")
    b.output(spelled_attention(b, *qkv(b), lambda s: b.apply("select", keep, s, number(b, -3.0))))


@case("causal attention", attention=1, contract=0, iota=0, select=0)
def _(b: Any) -> None:
    rows, columns = (b.op("iota", shape=[5, 7], dim=axis, dtype="i32") for axis in (0, 1))
    keep = b.apply("less_equal", columns, rows + 2)
    b.output(spelled_attention(b, *qkv(b), lambda s: b.apply("select", keep, s, number(b, -math.inf))))


@case("attention with a soft cap", attention=1, contract=0, tanh=0)
def _(b: Any) -> None:
    b.output(spelled_attention(b, *qkv(b), lambda s: b.apply("tanh", s / 30) * 30))


@case("scale after the mask", attention=0, contract=2)
def _(b: Any) -> None:
    mask = b.input("mask", [2, 1, 5, 7])
    b.output(spelled_attention(b, *qkv(b), lambda s: (s + mask) * 0.5))


@case("softmax over the queries", attention=0, contract=2)
def _(b: Any) -> None:
    q, k, v = qkv(b, keys=5)
    b.output(b.op("softmax", q @ k.transpose(0, 1, 3, 2), dim=2) @ v)


@case("weights that come out too", attention=0, contract=2)
def _(b: Any) -> None:
    q, k, v = qkv(b)
    weights = b.op("softmax", q @ k.transpose(0, 1, 3, 2), dim=3)
    b.output(weights @ v)
    b.output(weights)


@case("bf16 attention with softmax in f32", attention=1, contract=0, convert=0)
def _(b: Any) -> None:
    q, k, v = qkv(b, dtype="bf16")
    scores = (q @ k.transpose(0, 1, 3, 2) * 0.25).convert("f32")
    b.output(b.op("softmax", scores, dim=3).convert("bf16") @ v)


def repeated_heads(b: Any, k: Any, times: int) -> Any:
    batch, heads, keys, width = k.shape
    wide = b.op("broadcast", k, shape=[batch, heads, times, keys, width], dims=[0, 1, 3, 4])
    return wide.reshape(batch, heads * times, keys, width)


@case("grouped heads", attention=1, broadcast=0)
def _(b: Any) -> None:
    q, k, v = b.input("q", [2, 6, 1, 16]), b.input("k", [2, 2, 9, 16]), b.input("v", [2, 2, 9, 16])
    b.output(spelled_attention(b, q, repeated_heads(b, k, 3), repeated_heads(b, v, 3)))


@case("heads repeated the other way round", attention=1, broadcast=2)
def _(b: Any) -> None:
    q, k, v = b.input("q", [2, 6, 1, 16]), b.input("k", [2, 2, 9, 16]), b.input("v", [2, 2, 9, 16])

    def tiled(x: Any) -> Any:
        return b.op("broadcast", x, shape=[2, 3, 2, 9, 16], dims=[0, 2, 3, 4]).reshape(2, 6, 9, 16)

    b.output(spelled_attention(b, q, tiled(k), tiled(v)))


def rotated(b: Any, x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + b.concat([-x[..., half:], x[..., :half]], axis=x.ndim - 1) * sin


@case("rotary", rotary=1, concat=0, slice=0)
def _(b: Any) -> None:
    x = b.input("x", [2, 4, 5, 16])
    b.output(rotated(b, x, b.input("cos", [5, 16]), b.input("sin", [5, 16])))


@case("turned the wrong way", rotary=0, concat=1)
def _(b: Any) -> None:
    x, cos, sin = b.input("x", [2, 4, 5, 16]), b.input("cos", [5, 16]), b.input("sin", [5, 16])
    b.output(x * cos + b.concat([x[..., 8:], -x[..., :8]], axis=3) * sin)
