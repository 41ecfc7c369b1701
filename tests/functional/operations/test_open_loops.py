"""Loops that data end: executed equal, timed with the trips they take, refused with a remedy where nobody knows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.graph.tensor import Tensor


def doubling() -> ts.Graph:
    """x doubles until its sum exceeds 100, beside a product of every trip."""
    b = ts.GraphBuilder("doubling")
    test = b.function("until")
    s, _ = test.input("s", (4, 8)), test.input("m", (8, 8))
    test.output(test.apply("less", test.op("reduce", s, dims=[0, 1], combiner="add"), test.scalar(100.0)))
    step = b.function("step")
    s, m = step.input("s", (4, 8)), step.input("m", (8, 8))
    step.output(step.matmul(s, m) * 2.0)
    step.output(m)
    x, w = b.input("x", (4, 8)), b.input("w", (8, 8))
    found = b.core.op("while", [x.value, w.value], {}, "grow", 2, ["until", "step"])
    b.output(Tensor(b, found[0]), "y")
    return b.build()


def inputs(total: float) -> list[Any]:
    return [np.full((4, 8), total / 32, np.float32), np.eye(8, dtype=np.float32)]


def wanted(total: float) -> tuple[float, int]:
    trips = 0
    while total < 100:
        total, trips = total * 2, trips + 1
    return total, trips


@pytest.mark.parametrize("total", [1.0, 60.0, 1000.0])
def test_trips_are_counted_on_the_inputs(total):
    graph, (sum_of_all, trips) = doubling(), wanted(total)
    result = ts.run(graph, inputs(total))
    assert any(f"loop 'grow': {trips} trips, as counted on inputs" in line for line in result.approximations)
    assert result.data["multiply_adds"] == trips * 4 * 8 * 8
    program = ts.compile(graph, "tpu-v3", trips={"grow": trips})
    y = ts.execute(program, inputs(total))["y"]
    np.testing.assert_array_equal(y, np.full((4, 8), sum_of_all / 32, np.float32))
    assert ts.verify(program, inputs(total)).ok
    assert ts.simulate(program).cycles == result.cycles


def test_other_inputs_take_other_trips():
    """A program that was compiled for five trips gives right values where the data ask for one."""
    program = ts.compile(doubling(), "tpu-v3", trips={"grow": 5})
    for total in (60.0, 1.0, 1000.0):
        y = ts.execute(program, inputs(total))["y"]
        np.testing.assert_array_equal(y, ts.reference(doubling(), inputs(total))["y"])
    cycles = [ts.simulate(ts.compile(doubling(), "tpu-v3", trips={"grow": n})).cycles for n in (1, 2, 3, 4, 5, 6)]
    steps = {b - a for a, b in itertools.pairwise(cycles)}
    assert max(steps) - min(steps) < 0.5 * max(steps) and min(steps) > 0
    assert any("5 trips, as said" in line for line in ts.simulate(program).approximations)


def test_saved_with_its_trips(tmp_path):
    program = ts.compile(doubling(), "tpu-v3", trips={"grow": 3})
    program.save(tmp_path / "loop.tsim")
    loaded = ts.Program.load(tmp_path / "loop.tsim")
    assert ts.simulate(loaded).cycles == ts.simulate(program).cycles
    for total in (20.0, 1.0):
        np.testing.assert_array_equal(
            ts.execute(loaded, inputs(total))["y"], ts.reference(doubling(), inputs(total))["y"]
        )


def test_without_data_the_remedy_is_named():
    with pytest.raises(
        ts.Unsupported, match=r"number of trips is unknown.*trips=\{'grow': n\}.*ts\.run\(graph, inputs\)"
    ):
        ts.run(doubling())
    with pytest.raises(ts.UserError, match="not a data-dependent loop"):
        ts.compile(doubling(), "tpu-v3", trips={"shrink": 2})
    with pytest.raises(ts.UserError):
        ts.compile(doubling(), "tpu-v3", trips={"grow": -1})


def test_loops_of_jax():
    """Newton's method until it is exact enough; a loop within a loop whose trips differ; a loop of a batch."""
    jax = pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    jnp, lax = jax.numpy, jax.lax

    def root(a):
        return lax.while_loop(
            lambda s: jnp.abs(s[0] * s[0] - a).max() > 1e-4, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0)
        )

    def nested(a):
        def outer(i, x):
            return lax.while_loop(lambda y: y.sum() < 10.0 * (i + 1), lambda y: y * 1.5 + 0.1, x)

        return lax.fori_loop(0, 4, outer, a)

    def batch(a):
        return jax.vmap(lambda x: lax.while_loop(lambda y: y < 50.0, lambda y: y * 2.0 + 1.0, x))(a)

    numbers = np.linspace(1, 9, 8).astype(np.float32)
    for function, x in ((root, numbers), (nested, numbers / 8), (batch, numbers)):
        graph = ts.from_jax(function, x)
        result = ts.run(graph, (x,), verify=True)
        assert any("trips" in line and "counted on inputs" in line for line in result.approximations)
        program = ts.compile(graph, "tpu-v3", trips=dict.fromkeys(labels(graph), 9))
        got, leaves = ts.execute(program, (x,)), jax.tree.leaves(jax.jit(function)(x))
        for ours, theirs in zip(got.values(), leaves, strict=True):
            np.testing.assert_allclose(ours, np.asarray(theirs), rtol=1e-5)


def labels(graph: ts.Graph) -> list[str]:
    from tilesim.graph.trips import open_loops

    return list(open_loops(graph))
