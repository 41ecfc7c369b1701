"""Tensors without elements: every kind with each of its dimensions at 0, on two machines, against numpy and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts

MACHINES = ["edge-8", "tpu-v3"]
Build = Callable[..., Any]
SORTED = {"a_contract": [1], "b_contract": [0]}
GATHER = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1}
SCATTER = {
    "update_window_dims": [1],
    "inserted_window_dims": [0],
    "scatter_dims_to_operand_dims": [0],
    "index_vector_dim": 1,
}


def softmax(x: np.ndarray) -> np.ndarray:
    if x.size == 0:
        return x
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def mean(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(x.sum(1) / np.float32(x.shape[1]), np.float32)


def added(x: np.ndarray, at: np.ndarray, rows: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, at[:, 0] % max(1, len(x)), rows)
    return result


def extreme(x: np.ndarray) -> np.ndarray:
    return x.max(1, initial=-np.inf)


def reduce(combiner: str, **more: Any) -> Build:
    return lambda b, x: b.op("reduce", x, dims=[1], combiner=combiner, **more)


#: name: (dimensions, shapes of the operands by their letters, graph, numpy)
CASES: dict[str, tuple[str, list[str], Build, Build]] = {
    "elementwise": ("mn", ["mn", "n"], lambda b, x, y: b.apply("add", x, y), np.add),
    "compare": ("mn", ["mn", "mn"], lambda b, x, y: b.apply("less", x, y), np.less),
    "convert": ("mn", ["mn"], lambda b, x: b.op("convert", x, dtype="i32"), lambda x: x.astype(np.int32)),
    "bitcast": ("mn", ["mn"], lambda b, x: b.op("bitcast", x, dtype="i32"), lambda x: x.view(np.int32)),
    "sum": ("mn", ["mn"], reduce("add"), lambda x: x.sum(1)),
    "sum, kept": ("mn", ["mn"], reduce("add", keep_dims=True), lambda x: x.sum(1, keepdims=True)),
    "product": ("mn", ["mn"], reduce("multiply"), lambda x: x.prod(1)),
    "largest": ("mn", ["mn"], reduce("maximum"), extreme),
    "mean": ("mn", ["mn"], reduce("mean"), mean),
    "index": ("m", ["m3"], reduce("argmax"), lambda x: x.argmax(1)),
    "sum of all": ("mn", ["mn"], lambda b, x: b.op("reduce", x, dims=[0, 1], combiner="add"), lambda x: x.sum()),
    "running sum": ("mn", ["mn"], lambda b, x: b.op("cumulative", x, dim=1, combiner="add"), lambda x: x.cumsum(1)),
    "matmul": ("mkn", ["mk", "kn"], lambda b, x, y: b.op("contract", x, y, **SORTED), np.matmul),
    "matmul, bias": (
        "mkn",
        ["mk", "kn", "n"],
        lambda b, x, y, z: b.op("contract", x, y, z, **SORTED),
        lambda x, y, z: x @ y + z,
    ),
    "batched": ("bmkn", ["bmk", "bkn"], lambda b, x, y: b.matmul(x, y), np.matmul),
    "reshape": (
        "mn",
        ["mn"],
        lambda b, x: b.op("reshape", x, shape=[x.shape[1], x.shape[0]]),
        lambda x: x.reshape(x.shape[::-1]),
    ),
    "transpose": ("mn", ["mn"], lambda b, x: b.op("transpose", x, permutation=[1, 0]), lambda x: x.T),
    "broadcast": ("mn", ["n"], lambda b, x: b.broadcast(x, [3, x.shape[0]]), lambda x: np.broadcast_to(x, (3, len(x)))),
    "slice": ("n", ["4n"], lambda b, x: b.op("slice", x, start=[1, 0], limit=list(x.shape)), lambda x: x[1:]),
    "slice of nothing": (
        "n",
        ["4n"],
        lambda b, x: b.op("slice", x, start=[2, 0], limit=[2, x.shape[1]]),
        lambda x: x[2:2],
    ),
    "reverse": ("mn", ["mn"], lambda b, x: b.op("reverse", x, dims=[0]), lambda x: x[::-1]),
    "pad": ("mn", ["mn"], lambda b, x: b.op("pad", x, low=[1, 0], high=[0, 2]), lambda x: np.pad(x, ((1, 0), (0, 2)))),
    "concat": ("mkn", ["mn", "kn"], lambda b, x, y: b.op("concat", x, y, dim=0), lambda x, y: np.concatenate([x, y])),
    "copy": ("mn", ["mn"], lambda b, x: b.op("copy", x), lambda x: x),
    "sort": ("mn", ["mn"], lambda b, x: b.op("sort", x, dim=1), lambda x: np.sort(x, 1)),
    "top_k": ("m", ["m7"], lambda b, x: b.op("top_k", x, dim=1, k=2, results=2)[0], lambda x: -np.sort(-x, 1)[:, :2]),
    "first none": ("m", ["m7"], lambda b, x: b.op("top_k", x, dim=1, k=0, results=2)[0], lambda x: x[:, :0]),
    "softmax": ("mn", ["mn"], lambda b, x: b.op("softmax", x, dim=1), softmax),
    "log_softmax": ("mn", ["mn"], lambda b, x: b.op("log_softmax", x, dim=1), lambda x: np.log(softmax(x))),
    "attention": (
        "bqkd",
        ["b2q4", "b2k4", "b2kd"],
        lambda b, q, k, v: b.op("attention", q, k, v, scale=0.5),
        lambda q, k, v: attended(q, k, v),
    ),
    "normalize": (
        "m",
        ["m5"],
        lambda b, x: b.op("normalize", x, mode="rms", dims=[1], epsilon=1.0),
        lambda x: x / np.sqrt((x * x).mean(1, keepdims=True) + 1),
    ),
    "convolution": (
        "nco",
        ["nc66", "oc33"],
        lambda b, x, w: b.conv2d(x, w),
        lambda x, w: convolved(x, w),
    ),
    "pooling": (
        "nc",
        ["nc64"],
        lambda b, x: b.op("window_reduce", x, window=[1, 1, 2, 2], combiner="maximum"),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max((4, 5)),
    ),
}


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rows that see no key are zeros."""
    scores = 0.5 * q @ k.swapaxes(-1, -2)
    flat = softmax(scores.reshape(-1, k.shape[2])).reshape(scores.shape) if scores.size else scores
    return flat @ v


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", views, w).astype(np.float32)


def agree(graph: ts.Graph, inputs: list[np.ndarray], wanted: list[np.ndarray], machine: str) -> Any:
    """Reference, tiled, verified; the result of the simulation."""
    program = ts.compile(graph, machine)
    for outputs in (ts.reference(graph, inputs), ts.execute(program, inputs)):
        for mine, known in zip(outputs.values(), wanted, strict=True):
            assert mine.shape == known.shape
            np.testing.assert_allclose(mine, known, rtol=2e-2, atol=2e-2)
    assert ts.verify(program).ok
    result = ts.simulate(program)
    assert ts.roofline(graph, machine).seconds <= result.seconds
    return result


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_every_dimension_at_zero(name: str, machine: str) -> None:
    letters, shapes, build, known = CASES[name]
    for zero in letters:
        extents = {letter: 0 if letter == zero else 3 for letter in letters}
        random = np.random.default_rng(1)
        inputs = [
            random.standard_normal([extents[c] if c in extents else int(c) for c in shape]).astype(np.float32)
            for shape in shapes
        ]
        b = ts.GraphBuilder("empty")
        tensors = [b.input(f"x{i}", list(array.shape), "f32") for i, array in enumerate(inputs)]
        b.output(build(b, *tensors), "y")
        result = agree(b.build(), inputs, [np.asarray(known(*inputs))], machine)
        if 0 not in np.asarray(known(*inputs)).shape:
            assert result.cycles > 0, "neutral elements are stored"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("rows, count, width", [(5, 0, 4), (5, 3, 0), (5, 0, 0)])
def test_indices_of_nothing(rows: int, count: int, width: int, machine: str) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((rows, width)).astype(np.float32)
    at = random.integers(0, rows, (count, 1)).astype(np.int32)
    given = random.standard_normal((count, width)).astype(np.float32)
    b = ts.GraphBuilder("indices")
    table, places, updates = b.input("x", x.shape), b.input("at", at.shape, "i32"), b.input("u", given.shape)
    b.output(b.op("gather", table, places, slice_sizes=[1, width], mode="clip", **GATHER), "gathered")
    b.output(b.op("scatter", table, places, updates, combiner="add", **SCATTER), "scattered")
    b.output(b.op("embedding", table, places), "embedded")
    zero = b.scalar(0, "i32")
    b.output(b.op("dynamic_update", table, updates, zero, zero), "updated")
    b.output(b.op("dynamic_slice", table, zero, zero, sizes=[count, width]), "sliced")
    updated = x.copy()
    updated[:count] = given
    wanted = [x[at[:, 0]], added(x, at, given), x[at], updated, x[:count]]
    agree(b.build(), [x, at, given], wanted, machine)


@pytest.mark.parametrize("machine", MACHINES)
def test_functions_take_and_give_nothing(machine: str) -> None:
    """A call, and the outputs that are inputs."""
    b = ts.GraphBuilder("calls")
    block = b.function("block")
    p, q = block.input("p", [3, 4]), block.input("q", [0, 4])
    block.output(block.apply("tanh", q))
    block.output(p + block.op("reduce", q, dims=[0], combiner="add", keep_dims=True))
    x, nothing = b.input("x", [3, 4]), b.input("nothing", [0, 4])
    outputs = b.call(block, x, nothing)
    b.output(outputs[0], "empty")
    b.output(outputs[1], "sum")
    data = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    empty = np.zeros((0, 4), np.float32)
    agree(b.build(), [data, empty], [empty, data], machine)


def test_a_program_of_nothing_takes_no_time() -> None:
    b = ts.GraphBuilder("nothing")
    b.output(b.apply("tanh", b.input("x", [3, 0])), "y")
    assert ts.simulate(ts.compile(b.build(), "edge-8")).cycles == 0


def test_nothing_without_a_value_is_an_error() -> None:
    b = ts.GraphBuilder("mean")
    b.output(b.op("reduce", b.input("x", [3, 0], "i32"), dims=[1], combiner="mean"), "y")
    with pytest.raises(ts.UserError, match="integer mean of no elements"):
        ts.compile(b.build(), "edge-8")
    b = ts.GraphBuilder("index")
    with pytest.raises(ts.UserError, match="argmax of no elements"):
        b.op("reduce", b.input("x", [3, 0]), dims=[1], combiner="argmax")
