"""Convolutions of every sort under every mapping compute what the reference computes.

Values are small integers, so that float sums are exact in any order and results are compared bit by bit.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import tilesim as ts
from tilesim import _core
from tilesim.mapping import Product, products

LABELS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}
MACHINES = ["edge-8", "tpu-v3", "gemmini-16"]
INNER = {"edge-8": ["f32", "i8"], "tpu-v3": ["f32", "bf16"], "gemmini-16": ["i8"]}


@st.composite
def convolutions(draw: Any, machine: str) -> ts.Graph:
    """Batch, channels, extents, windows, strides, dilations, padding and groups of one to three axes."""
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))
    sort = draw(
        st.sampled_from(["general", "general", "few channels", "pointwise", "grouped", "depthwise", "transposed"])
    )
    groups, per_group = 1, draw(st.integers(1, 3) if sort == "few channels" else st.integers(4, 20))
    if sort == "grouped":
        groups, per_group = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    if sort == "depthwise":
        groups, per_group = draw(st.integers(2, 24)), 1
    out = groups * draw(st.integers(1, 2) if sort == "depthwise" else st.integers(1, 20))

    def per_axis(values: Any) -> list[int]:
        return [draw(values) for _ in range(rank)]

    kernel = [1] * rank if sort == "pointwise" else per_axis(st.integers(1, 4 if rank < 3 else 2))
    size = per_axis(st.integers(3, 14 if rank < 3 else 6))
    strides, dilation = per_axis(st.integers(1, 3)), per_axis(st.integers(1, 2))
    spread = per_axis(st.integers(1, 2)) if sort == "transposed" else [1] * rank
    low, high = per_axis(st.integers(0, 2)), per_axis(st.integers(0, 2))
    if sort == "transposed":
        strides = [1] * rank
    for i in range(rank):
        reached = (size[i] - 1) * spread[i] + 1 + low[i] + high[i]
        assume(reached >= (kernel[i] - 1) * dilation[i] + 1)
    # Channels first or last, as PyTorch and JAX have them.
    last = draw(st.booleans())
    x_labels, w_labels = LABELS[rank]
    x_shape = [draw(st.integers(1, 3)), groups * per_group, *size]
    if last:
        x_labels = x_labels[0] + x_labels[2:] + "C"
        x_shape = [x_shape[0], *x_shape[2:], x_shape[1]]
    dtype = draw(st.sampled_from(INNER[machine]))
    b = ts.GraphBuilder("case", dtype=dtype)
    x, w = b.input("x", x_shape, dtype), b.input("w", [out, per_group, *kernel], dtype)
    attributes: dict[str, Any] = {
        "strides": strides, "window_dilation": dilation, "pads": low + high, "input_dilation": spread,
        "groups": groups, "x_labels": x_labels, "w_labels": w_labels, "y_labels": x_labels,
    }  # fmt: skip
    if dtype == "i8":
        attributes["dtype"] = "i32"
    b.output(b.op("convolution", x, w, name="conv", **attributes), "y")
    return b.build()


def integers(graph: ts.Graph, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        _core.convert_array(rng.integers(-3, 4, row["shape"]).astype(np.float32), row["dtype"])
        for row in graph.core.inputs
    ]


def check(graph: ts.Graph, machine: str, seed: int) -> None:
    given_arrays = integers(graph, seed)
    names = [row["name"] for row in graph.core.inputs]
    wanted = _core.evaluate(graph.core, given_arrays)[0]
    rng = random.Random(seed)
    mappings: list[Any] = ["heuristic", "cost"]
    (product,) = products(graph, machine)
    mappings += [{product.operation: nest} for nest in drawn(product, rng)]
    for mapping in mappings:
        program = ts.compile(graph, machine, mapping=mapping)
        outputs = _core.execute(program.core, dict(zip(names, given_arrays, strict=True)), find_races=True)
        (got,) = outputs.values()
        assert np.array_equal(np.asarray(got, np.float64), np.asarray(wanted, np.float64)), mapping


def drawn(product: Product, rng: random.Random) -> list[dict[str, Any]]:
    """Two legal nests with tiles of any size."""
    space, found = product.problem.space("all"), []
    for _ in range(200):
        nest = space.sample(rng.getrandbits(60))
        trips = np.prod([-(-e // t) for e, t in zip(product.info["extents"], nest["tiles"], strict=True)])
        if trips <= 3000 and product.legal(nest)[0]:
            found.append(nest)
            if len(found) == 2:
                break
    return found


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", MACHINES)
def test_equal_to_the_reference(machine: str, count: int) -> None:
    @settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def each(data: Any) -> None:
        graph = data.draw(convolutions(machine))
        check(graph, machine, data.draw(st.integers(0, 1000)))

    each()


def stacked(x_labels: str, w_labels: str) -> ts.Graph:
    """Four convolutions with 256 filters, and the sum over the image."""
    b = ts.GraphBuilder("net", dtype="bf16")
    image = {"N": 16, "C": 64, "H": 14, "W": 14}
    x = b.apply("negate", b.input("x", [image[label] for label in x_labels]))
    for i in range(4):
        window = {"O": 256, "I": 64 if i == 0 else 256, "H": 3, "W": 3}
        w = b.weight(f"w{i}", [window[label] for label in w_labels])
        same = {"x_labels": x_labels, "w_labels": w_labels, "y_labels": x_labels}
        x = b.apply("relu", b.op("convolution", x, w, pads=[1, 1, 1, 1], **same))
    b.output(b.op("reduce", x, dims=[x_labels.index("H"), x_labels.index("W")], combiner="add"))
    return b.build()


def test_channels_last_cost_what_channels_first_cost() -> None:
    """Layouts follow the labels: the same network moves as many bytes in as many cycles, either way round."""
    found = []
    for labels in (("NCHW", "OIHW"), ("NHWC", "HWIO")):
        result = ts.simulate(ts.compile(stacked(*labels), "tpu-v3"))
        inner = [row for row in result.data["operations"] if row["name"].startswith("convolution")][1:]
        found.append([(row["cycles"], row["load_bytes"] + row["store_bytes"]) for row in inner])
    assert len(found[0]) == 3 and found[0] == found[1]
