"""Branches: known ones are calls; where data choose, every side is computed, one result taken, and it is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.graph import Tensor

X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)


def branched(which: Any = None, dtype: str = "bool", sides: int = 2, product: bool = False) -> ts.Graph:
    """x + 1, x + 2, ..., or products; `which` known, or an input."""
    b = ts.GraphBuilder("branches")
    x = b.input("x", X.shape)
    choice = b.input("which", (), dtype) if which is None else b.weight("which", data=which, trainable=False)
    names = [f"side{i}" for i in range(sides)]
    for i, name in enumerate(names):
        f = b.function(name)
        a = f.input("a", X.shape)
        y = a @ a.transpose(1, 0) * float(i + 1) if product else a + float(i + 1)
        f.output(y, "o")
    (value,) = b.core.op("branch", [choice.value, x.value], {}, "choice", 1, names)
    b.output(Tensor(b, value) * 2.0, "y")
    return b.build()


def run(graph: ts.Graph, *args: Any) -> Any:
    program = ts.compile(graph, "edge-8")
    assert ts.verify(program, args).ok
    got, wanted = ts.execute(program, args, find_races=True)["y"], ts.reference(graph, args)["y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    return got


@pytest.mark.parametrize("which", [True, False])
def test_truth_values(which: bool) -> None:
    got = run(branched(), X, np.array(which))
    np.testing.assert_allclose(got, 2 * (X + (1 if which else 2)), rtol=1e-6)
    run(branched(product=True), X, np.array(which))


@pytest.mark.parametrize("which", [-3, 0, 1, 2, 9])
def test_numbers_beyond_the_last_side_mean_it(which: int) -> None:
    side = which if 0 <= which < 3 else 2
    got = run(branched(dtype="i32", sides=3), X, np.int32(which))
    np.testing.assert_allclose(got, 2 * (X + side + 1), rtol=1e-6)
    known = run(branched(np.int32(which), sides=3), X)
    np.testing.assert_allclose(known, got, rtol=1e-6)
    assert branched(dtype="i32", sides=3).flops()["simple"] == X.size  # one side, not all three
    with pytest.raises(ts.UserError, match="2"):
        branched(sides=3)


def test_what_is_not_chosen_costs_only_where_data_choose() -> None:
    def found(graph: ts.Graph) -> ts.Result:
        return ts.simulate(ts.compile(graph, "edge-8"))

    known, data = found(branched(np.array(True), product=True)), found(branched(product=True))
    assert not any("sides" in note for note in known.approximations)
    assert any("choice: all 2 sides are computed" in note for note in data.approximations)
    assert data.data["multiply_adds"] == 2 * known.data["multiply_adds"] > 0


def test_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")

    def f(x: Any) -> Any:
        return jax.lax.cond(x.sum() > 0, lambda a: a @ a.T, lambda a: (a * 2) @ a.T, x)

    graph = ts.from_jax(f, X)
    for sign in (1, -1):
        values = (sign * X,)
        got = next(iter(ts.execute(ts.compile(graph, "edge-8"), values).values()))
        np.testing.assert_allclose(got, np.asarray(f(*values)), rtol=1e-4, atol=1e-4)
