"""Elementwise functions spelled out, and what only looks like one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .cases import case, number


@case("gelu by erf", gelu_erf=1, erf=0, multiply=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    y = x * 0.5 * (b.apply("erf", x * math.sqrt(0.5)) + 1)
    b.output(y)


@case("gelu by erfc", gelu_erf=1, erfc=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("erfc", x * -math.sqrt(0.5)) * (x * 0.5))


@case("gelu by tanh, power", gelu_tanh=1, tanh=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8], "bf16")
    cube = b.apply("power", x, number(b, 3, "bf16"))
    inner = (x + cube * 0.044715) * math.sqrt(2 / math.pi)
    b.output(x * 0.5 * (b.apply("tanh", inner) + 1))


@case("gelu by tanh, factored", gelu_tanh=1, tanh=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    inner = x * 0.7978845608 * (x * x * 0.044715 + 1)
    b.output((b.apply("tanh", inner) + 1) * 0.5 * x)


@case("almost gelu", gelu_tanh=0, gelu_erf=0, tanh=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    inner = (x + x * x * x * 0.05) * math.sqrt(2 / math.pi)
    b.output(x * 0.5 * (b.apply("tanh", inner) + 1))


@case("quick gelu is no gelu", gelu_tanh=0, gelu_erf=0, sigmoid=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(x * b.apply("sigmoid", x * 1.702))


@case("silu by exp", silu=1, exp=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(x / (b.apply("exp", -x) + 1))


@case("silu and gate", silu=1, sigmoid=0, multiply=1)
def _(b: Any) -> None:
    x, gate = b.input("x", [4, 8]), b.input("gate", [4, 8])
    b.output(gate * x * b.apply("sigmoid", x))


@case("sigmoid of another tensor", silu=0, sigmoid=1)
def _(b: Any) -> None:
    x, y, gate = b.input("x", [4, 8]), b.input("y", [4, 8]), b.input("gate", [4, 8])
    b.output(gate * x * b.apply("sigmoid", y))


@case("activation that is read elsewhere too", gelu_erf=0, erf=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    part = b.apply("erf", x * math.sqrt(0.5))
    b.output(x * 0.5 * (part + 1))
    b.output(part)


@case("sigmoid by exp", sigmoid=1, exp=0)
def _(b: Any) -> None:
    b.output(1 / (b.apply("exp", -b.input("x", [4, 8])) + 1))


@case("sigmoid by tanh", sigmoid=1, tanh=0)
def _(b: Any) -> None:
    b.output((b.apply("tanh", b.input("x", [4, 8]) / 2) + 1) * 0.5)


@case("sigmoid in two branches", sigmoid=1, exp=0, select=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    small = b.apply("exp", -b.apply("abs", x))
    b.output(b.apply("select", b.apply("greater_equal", x, number(b, 0)), 1 / (small + 1), small / (small + 1)))


@case("silu by tanh", silu=1, tanh=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output((b.apply("tanh", x * 0.5) + 1) * (x * 0.5))


@case("gelu by sigmoid", gelu_tanh=1, sigmoid=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    b.output(x * b.apply("sigmoid", inner * 2))


def stable_softplus(b: Any, x: Any) -> Any:
    return b.apply("maximum", x, number(b, 0)) + b.apply("log1p", b.apply("exp", -b.apply("abs", x)))


@case("softplus", softplus=1, log1p=0)
def _(b: Any) -> None:
    b.output(stable_softplus(b, b.input("x", [4, 8])))


@case("softplus that keeps NaN", softplus=1, log1p=0, select=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("select", b.apply("not_equal", x, x), x + number(b, 0), stable_softplus(b, x)))


@case("softplus that is linear above 20", softplus=1, log1p=0, select=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("select", b.apply("greater", x, number(b, 20)), x, b.apply("log1p", b.apply("exp", x))))


@case("softplus that overflows", softplus=0, log1p=1)
def _(b: Any) -> None:
    b.output(b.apply("log1p", b.apply("exp", b.input("x", [4, 8]))))


@case("relu by maximum", relu=1, maximum=0)
def _(b: Any) -> None:
    b.output(b.apply("maximum", number(b, 0), b.input("x", [4, 8])))


@case("relu by select", relu=1, select=0)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("select", b.apply("less_equal", x, number(b, 0)), number(b, 0), x))


@case("relu by clamp", relu=1, clamp=0)
def _(b: Any) -> None:
    b.output(b.apply("clamp", number(b, 0), b.input("x", [4, 8]), number(b, math.inf)))


@case("a select that makes 0 of NaN is no relu", relu=0, select=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("select", b.apply("greater", x, number(b, 0)), x, number(b, 0)))


@case("clamps are no relu", relu=0, clamp=3)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    for high in (255.0, 1000.0, float(np.finfo(np.float32).max)):
        b.output(b.apply("clamp", number(b, 0), x, number(b, high)))


@case("a threshold is no relu", relu=0, select=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("select", b.apply("less_equal", x, number(b, 0.5)), number(b, 0), x))


@case("0 x is not 0", relu=0, select=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("select", b.apply("greater", x, number(b, 0)), x, x * 0.0))


@case("NaN made to numbers before relu", relu=1, select=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    kept = b.apply("select", b.apply("not_equal", x, x), number(b, 0), x)
    b.output(b.apply("maximum", kept, number(b, 0)))


@case("a bound on silu stays", silu=1, minimum=1)
def _(b: Any) -> None:
    x = b.input("x", [4, 8])
    b.output(b.apply("minimum", x * b.apply("sigmoid", x), number(b, 1e3)))


@case("sigmoid that is rounded on the way", sigmoid=0, exp=1)
def _(b: Any) -> None:
    e = b.apply("exp", -b.input("x", [4, 8])).convert("bf16").convert("f32")
    b.output(1 / (e + 1))
