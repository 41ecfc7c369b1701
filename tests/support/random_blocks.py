"""Small graphs of sorts whose rules are easily priced wrong: rows of few elements, one row, small convolutions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import tilesim as ts

MACHINES = ("tpu-v3", "mesh-16", "edge-8", "chiplet-2")


def _reduced(b: ts.GraphBuilder, x: Any, combiner: str, axes: list[int]) -> Any:
    return b.op("reduce", x, combiner=combiner, dims=axes, keep_dims=True)


def norms(draw: random.Random, b: ts.GraphBuilder) -> Any:
    """A normalization of channels, groups or rows of an image or a sequence."""
    kind = draw.choice(["layer", "group", "instance", "rms"])
    if kind in ("layer", "rms"):
        shape = [draw.choice([1, 7, 64, 1000]), draw.choice([2, 10, 100, 768, 1024])]
        x = b.input("x", shape)
        if kind == "layer":
            return b.layer_norm(x, b.weight("scale", [shape[1]]), b.weight("bias", [shape[1]]))
        return x * b.apply("rsqrt", (x * x).mean([1], keep_dims=True) + 1e-6) * b.weight("scale", [shape[1]])
    channels = draw.choice([8, 32, 96, 512])
    groups = channels if kind == "instance" else draw.choice([1, 2, channels // 4])
    side = draw.choice([1, 4, 7, 14, 28])
    x = b.input("x", [draw.choice([1, 1, 4]), channels, side, draw.choice([side, side, side + 1])])
    rows = x.reshape(x.shape[0], groups, -1)
    centered = rows - rows.mean([2], keep_dims=True)
    normal = centered * b.apply("rsqrt", (centered * centered).mean([2], keep_dims=True) + 1e-5)
    scale, bias = (b.weight(name, [channels, 1, 1]) for name in ("scale", "bias"))
    return normal.reshape(*x.shape) * scale + bias


def softmaxes(draw: random.Random, b: ts.GraphBuilder) -> Any:
    """One or two behind each other, along any axes."""
    x = b.input("x", [draw.choice([1, 16, 250, 1000]), draw.choice([3, 64, 130]), draw.choice([2, 16, 33, 128])])
    for _ in range(draw.choice([1, 2, 2, 3])):
        x = x.softmax(draw.choice([0, 1, 2, 2]))
        if draw.random() < 0.5:
            x = x * draw.choice([2.0, 0.5])
    return x


def reductions(draw: random.Random, b: ts.GraphBuilder) -> Any:
    """Several, along the same or other axes, with operations between."""
    shape = [draw.choice([1, 30, 300, 1000]), draw.choice([1, 5, 64, 200]), draw.choice([2, 3, 10, 65, 256])]
    x = b.input("x", shape)
    if draw.random() < 0.5:
        x = x.softmax(2)
    for _ in range(draw.choice([2, 3, 4])):
        axes = draw.choice([[0], [1], [2], [2], [1, 2], [0, 1]])
        x = b.apply(draw.choice(["add", "subtract", "multiply"]), x,
                    _reduced(b, x, draw.choice(["maximum", "minimum", "add"]), axes))  # fmt: skip
    return x


def pools(draw: random.Random, b: ts.GraphBuilder) -> Any:
    """A block as PoolFormer has it: norm over all, average of neighbours, two convolutions of one point."""
    channels, side = draw.choice([16, 64, 96]), draw.choice([7, 14, 28])
    x = b.input("x", [1, channels, side, side])

    def norm(value: Any, name: str) -> Any:
        centered = value - value.mean([1, 2, 3], keep_dims=True)
        made = centered * b.apply("rsqrt", (centered * centered).mean([1, 2, 3], keep_dims=True) + 1e-5)
        return made * b.weight(name + ".scale", [channels, 1, 1]) + b.weight(name + ".bias", [channels, 1, 1])

    normal = norm(x, "first")
    x = x + (b.pool2d(normal, 3, stride=1, padding=1, combiner="add") / 9.0 - normal)
    hidden = b.conv2d(norm(x, "second"), b.weight("up", [4 * channels, channels, 1, 1]))
    hidden = b.apply(draw.choice(["gelu_erf", "relu", "sigmoid"]), hidden)
    return x + b.conv2d(hidden, b.weight("down", [channels, 4 * channels, 1, 1]))


def convolutions(draw: random.Random, b: ts.GraphBuilder) -> Any:
    """Something in front of a small convolution, or one of each channel."""
    channels, side = draw.choice([3, 8, 32, 100]), draw.choice([4, 7, 14, 28, 56])
    x = b.input("x", [draw.choice([1, 1, 4]), channels, side, side])
    for function in draw.choice([["relu"], ["sigmoid"], ["tanh", "relu"], ["gelu_erf"]]):
        x = b.apply(function, x)
    if draw.random() < 0.5:
        x = x * b.weight("scale", [channels, 1, 1]) + b.weight("bias", [channels, 1, 1])
    kernel, each = draw.choice([1, 3, 3, 5]), draw.random() < 0.5
    filters = channels if each else draw.choice([4, 16, 64])
    w = b.weight("w", [filters, 1 if each else channels, kernel, kernel])
    x = b.conv2d(x, w, stride=draw.choice([1, 1, 2]), padding=kernel // 2, groups=channels if each else 1)
    return b.apply("relu", x) if draw.random() < 0.5 else x


def layers(draw: random.Random, b: ts.GraphBuilder) -> Any:
    """A norm or an activation, and one or two products of odd widths."""
    rows, width = draw.choice([1, 8, 64, 300]), draw.choice([10, 33, 100, 256, 768])
    x = b.input("x", [rows, width])
    if draw.random() < 0.7:
        x = b.layer_norm(x, b.weight("scale", [width]), b.weight("bias", [width]))
    for number in range(draw.choice([1, 2])):
        x = b.linear(x, draw.choice([10, 33, 128, 500]), name=f"linear{number}")
        if draw.random() < 0.7:
            x = b.apply(draw.choice(["relu", "gelu_erf", "tanh"]), x)
    return x.softmax(-1) if draw.random() < 0.3 else x


SORTS: tuple[Callable[[random.Random, ts.GraphBuilder], Any], ...] = (
    norms, softmaxes, reductions, pools, convolutions, layers,
)  # fmt: skip


def random_block(seed: int) -> tuple[ts.Graph, str]:
    """A graph of one of the sorts, by turns, and a machine."""
    draw = random.Random(seed)
    sort = SORTS[seed % len(SORTS)]
    b = ts.GraphBuilder(f"{sort.__name__}{seed}")
    b.output(sort(draw, b), "y")
    return b.build(), draw.choice(MACHINES)


def without_each_rule(graph: ts.Graph, machine: str | ts.Machine) -> dict[str, float]:
    """Cycles with all rules over those without one, of every rule that changes the program."""
    program = ts.compile(graph, machine, lowering="best")
    cycles = ts.simulate(program).cycles
    looked = {row["rule"] for row in program.fusion.table().rows if row["decision"] != "not legal"}
    found = {}
    for rule in sorted(looked):
        others = [one for one in ts.mapping.fusion_rules() if one != rule]
        found[rule] = cycles / ts.simulate(ts.compile(graph, machine, lowering="best", fuse=others)).cycles
    return found
