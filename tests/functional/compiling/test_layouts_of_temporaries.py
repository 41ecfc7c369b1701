"""Orders of axes of what lies between kernels where memory pads the two minor axes: narrow ones, or of one element."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core

TILE = (8, 128)


def padded(shape: list[int], order: list[int] | None) -> int:
    """Elements of a tensor whose two minor axes are padded to whole tiles."""
    order = order or list(range(len(shape)))[::-1]
    rounded = [-(-shape[axis] // unit) * unit for axis, unit in zip(order, TILE[::-1], strict=False)]
    return math.prod(rounded) * math.prod(shape[axis] for axis in order[2:])


def temporaries(program: ts.Program) -> list[dict[str, Any]]:
    tensors = json.loads(program.core.to_json())["tensors"]
    return [t for t in tensors if t["role"] == "temporary" and t.get("tile") and len(t["shape"]) > 1]


def feed_forward(tokens: list[int]) -> ts.Graph:
    """Two products with a gate between them, as a step of a language model has them."""
    b = ts.GraphBuilder("step")
    x = b.input("x", [*tokens, 512], "bf16")
    gate, up = (x @ b.weight(name, [512, 1536], "bf16") for name in ("gate", "up"))
    b.output((b.apply("tanh", gate) * up) @ b.weight("down", [1536, 512], "bf16"), "y")
    return b.build()


def test_one_token_takes_no_sublanes() -> None:
    """64 rows of one token are 64 rows to the array: as fast as without that axis."""
    with_axis, without = (
        ts.simulate(ts.compile(feed_forward(tokens), "tpu-v3", lowering="best")) for tokens in ([64, 1], [64])
    )
    assert with_axis.cycles <= 1.02 * without.cycles
    assert with_axis.memory_bytes <= 1.02 * without.memory_bytes


def narrow(shape: tuple[int, ...]) -> ts.Graph:
    """Reductions along a narrow axis and along another one."""
    b = ts.GraphBuilder("narrow")
    x = b.input("x", list(shape))
    e = b.apply("exp", x - x.max([-1], keep_dims=True))
    v = e / e.sum([-1], keep_dims=True)
    b.output(v - v.max([-1], keep_dims=True) - (v * -1.0).max([0], keep_dims=True), "y")
    return b.build()


def by_numpy(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    v = e / e.sum(-1, keepdims=True)
    return v - v.max(-1, keepdims=True) + v.min(0, keepdims=True)


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["tpu-v3", "chiplet-2"])
@pytest.mark.parametrize("shape", [(1000, 64, 2), (300, 40, 3), (2, 100, 5)])
def test_narrow_axes_do_not_lie_over_the_lanes(machine: str, shape: tuple[int, ...]) -> None:
    """Neither the default order nor a rule makes it slower; what is stored is as dense as whole tiles allow."""
    graph = narrow(shape)
    program = ts.compile(graph, machine, lowering="best")
    largest = sorted(shape)[::-1]
    for tensor in temporaries(program):
        if tensor["shape"] == list(shape):
            assert padded(tensor["shape"], tensor.get("minor_to_major")) <= padded(largest[::-1], None)
    cycles = ts.simulate(program).cycles
    given = ts.simulate(ts.compile(graph, machine, lowering="best", layout="given")).cycles
    assert cycles <= given
    x = np.random.default_rng(5).normal(size=shape).astype("f4")
    (got,) = ts.execute(program, [x], poison=True).values()
    assert np.allclose(got, by_numpy(x), atol=2e-6)


@pytest.mark.parametrize(
    ("machine", "shape"), [("tpu-v3", (1000, 64, 2)), ("chiplet-2", (200, 16, 64)), ("mesh-16", (100, 64, 1))]
)
def test_siblings_make_reductions_of_narrow_rows_no_slower(machine: str, shape: tuple[int, ...]) -> None:
    graph = narrow(shape)
    everything = ts.simulate(ts.compile(graph, machine, lowering="best")).cycles
    others = [one for one in ts.mapping.fusion_rules() if one != "siblings"]
    without = ts.simulate(ts.compile(graph, machine, lowering="best", fuse=others)).cycles
    assert everything <= 1.02 * without


def test_a_kernel_that_makes_an_operand_is_no_sibling() -> None:
    """Joining what makes its operand is for other rules: without these nothing joins."""
    b = ts.GraphBuilder("pair")
    x = b.input("x", [64, 256])
    y = b.apply("exp", x)
    b.output(y, "y")
    b.output(b.apply("tanh", x * y), "z")
    program = ts.compile(b.build(), "edge-8", fuse=["siblings"])
    rows = [row for row in program.fusion.table().rows if row["decision"] == "taken"]
    assert all("exp" not in row["operations"] for row in rows), rows


def test_weights_of_depthwise_convolutions_are_dense() -> None:
    """A channel of its own per result would be padded to eight sublanes: 72 C elements, where 24 C do."""
    channels = 256
    b = ts.GraphBuilder("depthwise")
    x = b.input("x", [1, channels, 28, 28])
    b.output(
        b.op(
            "convolution", x, b.weight("w", [channels, 1, 3, 3]), strides=[1, 1], window_dilation=[1, 1], pads=[1] * 4,
            input_dilation=[1, 1], groups=channels, x_labels="NCHW", w_labels="OIHW", y_labels="NCHW",
        ),
        "y",
    )  # fmt: skip
    program = ts.compile(b.build(), "tpu-v3", lowering="best")
    (weight,) = (t for t in json.loads(program.core.to_json())["tensors"] if t["name"] == "w")
    assert padded(weight["shape"], weight.get("minor_to_major")) == 24 * channels
    assert ts.verify(program).ok


def mixed(rng: random.Random) -> ts.Graph:
    """Elementwise operations, reductions, transposes and products on axes that are narrow, of one element or ragged."""
    b = ts.GraphBuilder("mixed")
    shape = [rng.choice([1, 2, 3, 5, 8, 40, 130]) for _ in range(3)]
    x: Any = b.input("x", shape)
    for step in range(rng.randint(2, 5)):
        kind = rng.choice(["turn", "sum", "exp", "product", "scale"])
        if kind == "turn":
            axes = rng.sample(range(3), 3)
            x, shape = x.transpose(*axes), [shape[axis] for axis in axes]
        elif kind == "sum":
            x = x - x.sum([rng.randrange(3)], keep_dims=True)
        elif kind == "product":
            columns = rng.choice([1, 4, 33])
            x = x @ b.input(f"w{step}", [shape[-1], columns])
            shape = [*shape[:-1], columns]
        else:
            x = b.apply("tanh", x) if kind == "exp" else x * 0.5
    b.output(x, "y")
    return b.build()


@pytest.mark.parametrize("machine", ["tpu-v3", "chiplet-2"])
def test_values_and_times_at_random(machine: str) -> None:
    """What is chosen computes the same as the last axis minor does, without races, and is no slower."""
    rng = random.Random(17)
    for _ in range(12):
        graph = mixed(rng)
        arrays = _core.random_inputs(graph.core, 0)
        values = dict(zip([row["name"] for row in graph.core.inputs], arrays, strict=True))
        chosen, given = (ts.compile(graph, machine, lowering="best", layout=way) for way in ("auto", "given"))
        got, wanted = (_core.execute(one.core, values, find_races=True) for one in (chosen, given))
        for name, value in got.items():
            assert np.allclose(np.asarray(value), np.asarray(wanted[name]), rtol=1e-5, atol=1e-6)
        assert ts.simulate(chosen).cycles <= 1.06 * ts.simulate(given).cycles
