"""Reference kernels of the kinds that front ends brought: against numpy, scipy, and plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core

RNG = np.random.default_rng(11)


def run(kind, *operands, results=1, **attributes):
    outputs = _core.evaluate_op(kind, list(operands), attributes, results, {})
    return outputs[0] if results == 1 else outputs


UPDATES = {
    "set": lambda a, b: b, "add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("combiner", UPDATES)
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint64", "int8"])
def test_scatter(combiner, dtype):
    """Windows of 2 x 3 at index vectors in x; those that leave it are dropped, equal ones meet in order."""
    x = RNG.integers(0, 9, (6, 4, 5)).astype(dtype)
    if dtype == "uint64":
        x += np.uint64(2**63)
    indices = np.array([[0, 1], [4, 2], [0, 1], [5, 0], [-1, 0], [1, 3]])
    updates = RNG.integers(0, 9, (6, 2, 3)).astype(dtype)
    got = run(
        "scatter", x, indices, updates, update_window_dims=[1, 2], inserted_window_dims=[1],
        scatter_dims_to_operand_dims=[0, 2], index_vector_dim=1, combiner=combiner,
    )  # fmt: skip
    wanted = x.copy()
    for (i, j), update in zip(indices, updates, strict=True):
        if 0 <= i <= 4 and 0 <= j <= 2:
            part = wanted[i : i + 2, 0, j : j + 3]
            wanted[i : i + 2, 0, j : j + 3] = UPDATES[combiner](part, update)
    np.testing.assert_array_equal(got, wanted)


def test_scatter_outside_is_an_error_where_asked():
    attributes = {
        "update_window_dims": [], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1, "combiner": "add",
    }  # fmt: skip
    x, updates = np.zeros(3, np.float32), np.ones(1, np.float32)
    np.testing.assert_array_equal(run("scatter", x, np.array([[3]]), updates, **attributes), x)
    with pytest.raises(ts.UserError, match="out of range"):
        run("scatter", x, np.array([[3]]), updates, mode="error", **attributes)
    with pytest.raises(ts.UserError, match="dtype"):
        run("scatter", x, np.array([[0]]), np.ones(1), **attributes)


@pytest.mark.parametrize("select", ["maximum", "minimum"])
def test_window_scatter(select):
    x = RNG.integers(0, 5, (7, 6)).astype(np.float32)  # ties: the first element of a window wins
    window, strides, pads = (3, 2), (2, 2), (1, 1, 0, 0)
    shape = [(7 + 2 - 3) // 2 + 1, (6 - 2) // 2 + 1]
    source = RNG.standard_normal(shape).astype(np.float32)
    got = run("window_scatter", x, source, window=window, strides=strides, pads=pads, select=select)
    wanted = np.zeros_like(x)
    for i, j in np.ndindex(*shape):
        places = itertools.product(range(2 * i - 1, 2 * i + 2), range(2 * j, 2 * j + 2))
        inside = [place for place in places if 0 <= place[0] < 7 and 0 <= place[1] < 6]
        best = (max if select == "maximum" else min)(inside, key=lambda place: x[place])
        wanted[best] += source[i, j]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_sort_is_stable(descending, dim):
    x = RNG.integers(-3, 4, (9, 8)).astype(np.float32)
    position = np.broadcast_to(np.expand_dims(np.arange(x.shape[dim]), 1 - dim), x.shape).astype(np.int32).copy()
    values, order = run("sort", x, position, results=2, dim=dim, keys=1, descending=descending)
    wanted = np.argsort(-x if descending else x, axis=dim, kind="stable")
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, dim))


def test_sort_order_of_special_values():
    """NaN after infinity, and the zeros keep their order."""
    x = np.array([np.nan, 1, -0.0, np.inf, 0.0, -np.inf], np.float32)
    (values,) = [run("sort", x, dim=0)]
    np.testing.assert_array_equal(values, [-np.inf, -0.0, 0.0, 1, np.inf, np.nan])
    assert np.signbit(values[1])
    assert not np.signbit(values[2])


def test_sort_by_a_function():
    """By the distance from 2, through a comparator of the graph."""
    b = ts.GraphBuilder("by_distance")
    less = b.function("less")
    first, second = less.input("a", (), "i32"), less.input("b", (), "i32")
    two = less.scalar(2, "i32")
    distances = [less.apply("abs", less.apply("subtract", value, two)) for value in (first, second)]
    less.output(less.apply("less", *distances), "before")
    x = b.input("x", (6,), "i32")
    (value,) = b.core.op("sort", [x.value], {"dim": 0}, "", 1, ["less"])
    b.core.output(value, "y")
    graph = b.build()
    given = np.array([5, 1, 2, 9, 3, -4], np.int32)
    np.testing.assert_array_equal(ts.reference(graph, [given])["y"], [2, 1, 3, 5, -4, 9])
    assert ts.Graph.from_dict(graph.to_dict()) == graph


@pytest.mark.parametrize("largest", [False, True])
def test_top_k(largest):
    x = RNG.integers(-4, 5, (5, 7, 3)).astype(np.float32)
    values, indices = run("top_k", x, results=2, dim=1, k=4, largest=largest, dtype="i32")
    wanted = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))
    with pytest.raises(ts.UserError, match="'k' is out of range"):
        run("top_k", x, results=2, dim=1, k=8)


def loop_graph(trips=0):
    """Doubles x while it is below limit."""
    b = ts.GraphBuilder("doubling")
    test, body = b.function("below"), b.function("double")
    for function in (test, body):
        function.input("x", ())
        function.input("limit", ())
    x, limit = ts.graph.Tensor(test, 0), ts.graph.Tensor(test, 1)
    test.output(test.apply("less", x, limit), "go")
    x, limit = ts.graph.Tensor(body, 0), ts.graph.Tensor(body, 1)
    body.output(body.apply("add", x, x), "twice")
    body.output(body.op("copy", limit), "same")
    start, end = b.input("x", ()), b.input("limit", ())
    values = b.core.op("while", [start.value, end.value], {"trips": trips}, "", 2, ["below", "double"])
    b.core.output(values[0], "y")
    return b.build()


def test_while():
    for start, end, wanted in ((1, 100, 128), (3, 2, 3), (5, 5, 5)):
        inputs = [np.float32(start), np.float32(end)]
        assert ts.reference(loop_graph(), inputs)["y"] == wanted
    assert loop_graph(7).flops()["simple"] == 7 * loop_graph(1).flops()["simple"]
    graph = loop_graph(3)
    assert ts.Graph.from_dict(graph.to_dict()) == graph
    with pytest.raises(ts.Unsupported, match="while"):
        ts.compile(graph)


def test_loops_that_change_their_state_are_refused():
    b = ts.GraphBuilder("bad")
    test, body = b.function("go"), b.function("change")
    x = test.input("x", (2,))
    test.output(test.apply("less", x.sum(), test.scalar(1)), "go")
    body.output(body.concat([body.input("x", (2,))] * 2), "y")
    start = b.input("x", (2,))
    with pytest.raises(ts.UserError, match="changes the type of its state"):
        b.core.op("while", [start.value], {}, "", 1, ["go", "change"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lower", [False, True])
def test_linear_solve(dtype, lower):
    a = RNG.standard_normal((3, 5, 5))
    spd = (a @ a.swapaxes(1, 2) + 5 * np.eye(5)).astype(dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    factor = run("linear_solve", spd, mode="cholesky", lower=lower)
    wanted = np.linalg.cholesky(spd.astype(np.float64))
    np.testing.assert_allclose(factor, wanted if lower else wanted.swapaxes(1, 2), rtol=tolerance, atol=tolerance)
    triangle = (np.tril if lower else np.triu)(spd)
    for left, transposed, unit in itertools.product([False, True], repeat=3):
        b = RNG.standard_normal((3, 5, 2) if left else (3, 2, 5)).astype(dtype)
        x = run(
            "linear_solve", spd, b, mode="triangular", lower=lower, left_side=left, transpose_a=transposed,
            unit_diagonal=unit,
        )  # fmt: skip
        t = triangle.astype(np.float64).copy()
        if unit:
            t[:, range(5), range(5)] = 1
        t = t.swapaxes(1, 2) if transposed else t
        wanted = np.linalg.solve(t, b) if left else np.linalg.solve(t.swapaxes(1, 2), b.swapaxes(1, 2)).swapaxes(1, 2)
        np.testing.assert_allclose(x, wanted, rtol=tolerance, atol=tolerance * abs(wanted).max())


@pytest.mark.parametrize("extent", [1, 2, 7, 12, 16, 30])
def test_fft(extent):
    z = RNG.standard_normal((2, extent, 3)) + 1j * RNG.standard_normal((2, extent, 3))
    re, im = run("fft", z.real.copy(), z.imag.copy(), results=2, dim=1)
    np.testing.assert_allclose(re + 1j * im, np.fft.fft(z, axis=1), rtol=1e-12, atol=1e-12)
    re, im = run("fft", z.real.copy(), z.imag.copy(), results=2, dim=1, inverse=True)
    np.testing.assert_allclose(re + 1j * im, np.fft.ifft(z, axis=1), rtol=1e-12, atol=1e-12)
    re, im = run("fft", z.real.astype(np.float32), results=2, dim=1)
    np.testing.assert_allclose(re + 1j * im, np.fft.fft(z.real.astype(np.float32), axis=1), rtol=1e-5, atol=1e-5)


COLLECTIVES = {
    "all_reduce": ({"combiner": "add"}, (8, 6)),
    "all_gather": ({"dim": 1}, (8, 24)),
    "reduce_scatter": ({"dim": 0, "combiner": "maximum"}, (2, 6)),
    "all_to_all": ({"split_dim": 0, "concat_dim": 1}, (2, 24)),
    "broadcast_devices": ({}, (8, 6)),
}


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_collectives(kind):
    """Shapes for four devices; on one device, values are kept; among several, the kernel refuses."""
    attributes, shape = COLLECTIVES[kind]
    b = ts.GraphBuilder("four")
    y = b.op(kind, b.input("x", (8, 6)), groups=[0, 1, 2, 3, 4, 5, 6, 7], group_size=4, **attributes)
    assert y.shape == shape
    x = RNG.standard_normal((8, 6)).astype(np.float32)
    np.testing.assert_array_equal(run(kind, x, groups=[0], group_size=1, **attributes), x)
    with pytest.raises(ts.Unsupported, match=kind):
        run(kind, x, groups=[0, 1], group_size=2, **attributes)
    with pytest.raises(ts.UserError, match="twice"):
        run(kind, x, groups=[0, 0], group_size=2, **attributes)


def test_all_reduce_counts_the_share_of_one_device():
    b = ts.GraphBuilder("four")
    y = b.op("all_reduce", b.input("x", (8, 6)), groups=[0, 1, 2, 3], group_size=4, combiner="add")
    b.output(y)
    assert b.build().flops()["simple"] == 8 * 6 * 3 / 4
