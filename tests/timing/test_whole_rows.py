"""A reduction behind a product: fused where whole rows are the shorter way, else taken apart, and the truth said."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts


def extreme_of_rows(m: int, k: int, n: int) -> ts.Graph:
    """Max over the columns of a product."""
    b = ts.GraphBuilder("rows")
    x, w = b.input("x", (m, k), "f32"), b.input("w", (k, n), "f32")
    y = b.matmul(x, w, name="product")
    b.output(b.op("reduce", y, combiner="maximum", dims=[1], keep_dims=False, name="extreme"), "y")
    return b.build()


@pytest.mark.parametrize("mapping", ["profile", "cost"])
def test_wide_rows_stay_on_chip(mapping: str) -> None:
    """2048 x 512 times 512 x 4096 on tpu-v3: tiles of 128 x 4096 x 512 fit, so nothing but the extremes is stored."""
    graph = extreme_of_rows(2048, 512, 4096)
    fused = ts.simulate(ts.compile(graph, "tpu-v3", mapping=mapping))
    apart = ts.simulate(ts.compile(graph, "tpu-v3", mapping=mapping, fuse="none"))
    assert fused.cycles < apart.cycles
    assert fused.memory_bytes < apart.memory_bytes - 2048 * 4096 * 4
    assert not any("one by one" in line for line in fused.approximations)


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8", "mesh-16", "chiplet-2"])
@pytest.mark.parametrize("sizes", [(300, 200, 700), (64, 2048, 129), (500, 33, 1250), (17, 1000, 1)])
def test_fused_is_not_the_longer_way(machine: str, sizes: tuple[int, int, int]) -> None:
    graph = extreme_of_rows(*sizes)
    program = ts.compile(graph, machine)
    fused, apart = ts.simulate(program), ts.simulate(ts.compile(graph, machine, fuse="none"))
    # the price is an estimate of both ways; where it refuses, both are the same
    assert fused.cycles <= 1.25 * apart.cycles
    refused = [line for line in fused.approximations if "one by one" in line]
    assert not refused or "do not fit" in refused[0] or "estimated" in refused[0] or "no tile" in refused[0]
    x, w = (np.random.default_rng(1).standard_normal(s).astype(np.float32) for s in (sizes[:2], sizes[1:]))
    (y,) = ts.execute(program, [x, w], numerics="exact").values()
    np.testing.assert_allclose(y, (x @ w).max(axis=1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("machine", ["tpu-v3", "mesh-16", "edge-8"])
@pytest.mark.parametrize("tiles", [[64, 256, 128], [16, 128, 64]])
def test_a_given_nest_keeps_its_columns_whole_too(machine: str, tiles: list[int]) -> None:
    """Extremes of part of a row would be stored as those of all of it."""
    given = {"product": {"tiles": tiles, "order": [0, 1, 2], "depths": [1, 1, 1], "unit": "array"}}
    program = ts.compile(extreme_of_rows(64, 128, 1024), machine, mapping=given)
    x, w = (np.random.default_rng(2).standard_normal(s).astype(np.float32) for s in ((64, 128), (128, 1024)))
    (y,) = ts.execute(program, [x, w], numerics="exact").values()
    np.testing.assert_allclose(y, (x @ w).max(axis=1), rtol=1e-4, atol=1e-3)
