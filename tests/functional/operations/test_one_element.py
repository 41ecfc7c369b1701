"""Constants of one element, wherever an operation reads them: as numbers in a vector compute, as tensors elsewhere."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts


def one(b: ts.GraphBuilder, *shape: int) -> Any:
    return b.weight("one", data=np.full(shape or (1,), 0.5, dtype=np.float32))


def product(b: ts.GraphBuilder) -> Any:
    w = b.weight("w", (1, 7))
    return b.op("contract", b.input("x", (6, 7)), w, one(b), a_contract=[1], b_contract=[1])


def gathered(b: ts.GraphBuilder) -> Any:
    start = b.weight("i", data=np.array([[2]]), trainable=False)
    where = {"collapsed_slice_dims": [0], "offset_dims": [], "start_index_map": [0], "index_vector_dim": 1}
    return b.op("gather", b.input("x", (6,)), start, **where, mode="error", slice_sizes=[1])


READERS: dict[str, Callable[[ts.GraphBuilder], Any]] = {
    "bias": product,
    "bias and function": lambda b: b.apply("sigmoid", product(b)),
    "bias of a convolution": lambda b: b.conv2d(b.input("x", (1, 3, 8, 8)), b.weight("w", (1, 3, 3, 3)), one(b)),
    "weights": lambda b: b.matmul(b.input("x", (6, 1)), one(b, 1, 1)),
    "concat": lambda b: b.concat([b.input("x", (6,)), one(b)]),
    "table": lambda b: b.op("embedding", one(b, 1, 1), b.input("i", (6,), "i32")),
    "update": lambda b: b.op("dynamic_update", b.input("x", (6,)), one(b), b.weight("at", data=np.array(3, np.int32))),
    "dynamic slice": lambda b: b.op("dynamic_slice", one(b), b.input("at", (), "i32"), sizes=[1]),
    "gather": gathered,
    "broadcast output": lambda b: b.broadcast(one(b), (6, 4)),
    "broadcast then product": lambda b: b.matmul(b.input("x", (6, 4)), b.broadcast(one(b), (4, 5))),
    "number and bias": lambda b: b.apply("add", product(b), one(b)),
    "normalization": lambda b: b.layer_norm(b.input("x", (6, 1)), one(b)),
    "bits": lambda b: b.op("bitcast", b.broadcast(one(b), (6, 4)), dtype="i32"),
    "bits of its view": lambda b: b.op("bitcast", one(b).reshape(1, 1), dtype="i32") + b.input("x", (3, 4), "i32"),
    "reshaped": lambda b: b.apply("multiply", b.input("x", (6, 5)), one(b, 1, 1, 1).reshape(1, 1)),
    "shaped twice": lambda b: b.apply("add", b.input("x", (6, 4)), b.broadcast(one(b).reshape(1, 1), (6, 4))[:, :4]),
    "large": lambda b: b.apply("multiply", b.input("x", (300, 300)), b.broadcast(one(b), (300, 300))),
    "large, reduced": lambda b: b.op("reduce", b.broadcast(one(b), (300, 300)), combiner="add", dims=[0]),
    "large, softmax": lambda b: b.broadcast(one(b), (300, 300)).softmax(),
    "large, exp": lambda b: b.apply("exp", b.broadcast(one(b), (300, 300))),
    "function": lambda b: b.apply("multiply", b.input("x", (6, 5)), b.broadcast(one(b), (6, 5))),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
def test_constants_of_one_element(name: str, machine: str) -> None:
    b = ts.GraphBuilder("one")
    b.output(READERS[name](b), "y")
    program = ts.compile(b.build(), machine)
    assert ts.verify(program).ok
    assert ts.simulate(program).cycles > 0


@pytest.mark.parametrize("shape", [(), (1,), (5,)], ids=str)
def test_outputs_that_depend_on_nothing_are_written(shape):
    """A constant, what is computed from constants alone, and the same one twice."""
    b = ts.GraphBuilder("constants")
    x, w = b.input("x", (4,)), b.weight("w", data=np.full(shape, 3, np.float32), trainable=False)
    b.output(b.apply("relu", x), "y")
    b.output(b.op("copy", w), "copied")
    b.output(w * w, "squared")
    b.output(b.op("copy", w), "again")
    program = ts.compile(b.build(), "tpu-v3")
    got = ts.execute(program, (np.ones(4, np.float32),))
    for name, value in (("copied", 3), ("squared", 9), ("again", 3)):
        np.testing.assert_array_equal(got[name], np.full(shape, value, np.float32))
    assert ts.verify(program).ok
