"""Convolutions whose nests pack or unfold their windows, and programs of them against the reference.

Values are small integers, so that float sums are exact in any order and results are compared bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilesim as ts
from tilesim import _core
from tilesim.mapping import Product, products

LABELS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def convolution(
    size: list[int], kernel: list[int], *, images: int = 1, channels: int = 3, filters: int = 8, stride: int = 1,
    padding: int = 0, dilation: int = 1, groups: int = 1, last: bool = False, dtype: str = "i8", relu: bool = False,
) -> ts.Graph:  # fmt: skip
    """One named `conv`; `last`: channels are the last axis."""
    rank = len(size)
    labels = LABELS[rank]
    shape = [images, channels, *size]
    if last:
        labels, shape = labels[0] + labels[2:] + "C", [images, *size, channels]
    b = ts.GraphBuilder("case", dtype=dtype)
    x, w = b.input("x", shape, dtype), b.input("w", [filters, channels // groups, *kernel], dtype)
    attributes: dict[str, Any] = {
        "strides": [stride] * rank, "window_dilation": [dilation] * rank, "pads": [padding] * (2 * rank),
        "input_dilation": [1] * rank, "groups": groups, "x_labels": labels, "w_labels": "OI" + LABELS[rank][2:],
        "y_labels": labels,
    }  # fmt: skip
    if dtype == "i8":
        attributes["dtype"] = "i32"
    y = b.op("convolution", x, w, name="conv", **attributes)
    b.output(b.apply("relu", y) if relu else y, "y")
    return b.build()


def equal_to_the_reference(graph: ts.Graph, program: ts.Program) -> None:
    rng = np.random.default_rng(7)
    given = {
        row["name"]: _core.convert_array(rng.integers(-3, 4, row["shape"]).astype(np.float32), row["dtype"])
        for row in graph.core.inputs
    }
    (got,) = _core.execute(program.core, given, find_races=True).values()
    wanted = _core.evaluate(graph.core, list(given.values()))[0]
    assert np.array_equal(np.asarray(got, np.float64), np.asarray(wanted, np.float64))


def product_of(graph: ts.Graph, machine: str | ts.Machine = "edge-8", mapping: str = "heuristic") -> Product:
    """The graph's one product, with the nest that is chosen for it."""
    (product,) = products(graph, machine, mapping=mapping)
    return product
