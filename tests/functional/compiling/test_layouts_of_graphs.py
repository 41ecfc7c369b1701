"""Orders of axes in memory: what is given and what is chosen, the bytes of padding, and that choosing never costs."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core


def padded(shape: list[int], order: list[int] | None, tile: tuple[int, int] = (8, 128)) -> int:
    """Elements of a tensor whose two minor axes are padded to whole tiles."""
    order = order or list(range(len(shape)))[::-1]
    rounded = [-(-shape[axis] // unit) * unit for axis, unit in zip(order, tile[::-1], strict=False)]
    return math.prod(rounded) * math.prod(shape[axis] for axis in order[2:])


def chain(rng: random.Random) -> ts.Graph:
    """Convolutions, each with a ReLU: 1 x 1, depthwise or 3 x 3."""
    b = ts.GraphBuilder("chain")
    channels, size = rng.choice([3, 16, 24, 32, 96]), rng.choice([7, 14, 28, 56])
    x: Any = b.input("x", [rng.choice([1, 1, 4]), channels, size, size])
    for i in range(rng.randint(1, 3)):
        kind = rng.choice(["1x1", "depthwise", "3x3"])
        out = channels if kind == "depthwise" else rng.choice([16, 24, 144])
        groups, kernel = (channels if kind == "depthwise" else 1), (1 if kind == "1x1" else 3)
        w = b.input(f"w{i}", [out, channels // groups, kernel, kernel])
        y = b.op(
            "convolution", x, w, name=f"conv{i}", strides=[1, 1], window_dilation=[1, 1], pads=[kernel // 2] * 4,
            input_dilation=[1, 1], groups=groups, x_labels="NCHW", w_labels="OIHW", y_labels="NCHW",
        )  # fmt: skip
        x, channels = b.apply("relu", y), out
    b.output(x, "y")
    return b.build()


def test_padding_is_counted_by_hand() -> None:
    """One pass over a tensor of 24 x 24: its last axis of 24 is padded to 128 lanes, read once and written once."""
    b = ts.GraphBuilder("relu")
    b.output(b.apply("relu", b.input("x", [40, 24, 24])), "y")
    program = ts.compile(b.build(), "tpu-v3", lowering="best", layout="given")
    result = ts.simulate(program)
    elements = padded([40, 24, 24], None)
    assert elements == 40 * 24 * 128
    assert result.memory_bytes == 2 * 4 * elements
    assert result.padded_bytes == 2 * 4 * (elements - 40 * 24 * 24)


def test_given_leaves_the_last_axis_minor() -> None:
    graph = chain(random.Random(3))
    program = ts.compile(graph, "tpu-v3", lowering="best", layout="given")
    assert not any("minor_to_major" in tensor for tensor in _tensors(program))
    assert program.options["layout"] == "given"
    with pytest.raises(ts.UserError, match=r"unknown layout.*'dense'.*auto, given"):
        ts.compile(graph, "tpu-v3", layout="dense")


def _tensors(program: ts.Program) -> list[dict[str, Any]]:
    import json

    return list(json.loads(program.core.to_json())["tensors"])


@pytest.mark.parametrize("layout", ["auto", "given"])
def test_values_do_not_depend_on_it(layout: str) -> None:
    rng = random.Random(8)
    for _ in range(3):
        graph = chain(rng)
        program = ts.compile(graph, "tpu-v3", lowering="best", layout=layout)
        arrays = _core.random_inputs(graph.core, 0)
        names = [row["name"] for row in graph.core.inputs]
        (got,) = _core.execute(program.core, dict(zip(names, arrays, strict=True)), find_races=True).values()
        (wanted,) = _core.evaluate(graph.core, arrays)
        assert np.allclose(np.asarray(got), np.asarray(wanted), rtol=2e-2, atol=2e-2 * np.abs(wanted).max())


def test_choosing_is_never_slower_than_what_is_given() -> None:
    rng = random.Random(21)
    for _ in range(8):
        graph = chain(rng)
        auto, given = (
            ts.simulate(ts.compile(graph, "tpu-v3", lowering="best", layout=layout)) for layout in ("auto", "given")
        )
        assert auto.cycles <= 1.05 * given.cycles


def test_memory_without_tiles_has_one_layout() -> None:
    graph = chain(random.Random(4))
    auto, given = (ts.simulate(ts.compile(graph, "mesh-16", layout=layout)).cycles for layout in ("auto", "given"))
    assert auto == given
