"""Patterns of movement, quantization and repeated layers."""

from __future__ import annotations

from typing import Any

from .cases import case


@case("transposes in front of a product", transpose=0, contract=1)
def _(b: Any) -> None:
    x, y = b.input("x", [3, 5, 4]), b.input("y", [3, 6, 4])
    b.output(x.transpose(0, 2, 1).transpose(0, 2, 1) @ y.transpose(0, 2, 1))


def quantize(b: Any, x: Any, scale: float, zero: int) -> Any:
    y = b.apply("round_even", x / scale) + zero
    return b.op("convert", y, dtype="i8", overflow="saturate")


def dequantize(b: Any, q: Any, scale: float, zero: int) -> Any:
    return (q.convert("i32") - zero).convert("f32") * scale


@case("quantized again at once", round_even=1, convert=3)
def _(b: Any) -> None:
    q = quantize(b, b.input("x", [4, 8]), 0.1, 3)
    again = quantize(b, dequantize(b, q, 0.1, 3), 0.1, 3)
    b.output(dequantize(b, again, 0.1, 3))


@case("quantized again with another scale", round_even=2)
def _(b: Any) -> None:
    q = quantize(b, b.input("x", [4, 8]), 0.1, 3)
    b.output(quantize(b, dequantize(b, q, 0.1, 3), 0.2, 3))


@case("three layers", call=3)
def _(b: Any) -> None:
    x = b.input("x", [4, 16])
    for i in range(3):
        w, v = b.weight(f"w{i}", [16, 16]), b.weight(f"v{i}", [16])
        y = b.op("normalize", x, v, mode="rms", dims=[1], epsilon=1e-5) @ w
        for _ in range(6):
            y = b.apply("tanh", y) * 2
        x = x + y
    b.output(x)
