"""Random graphs over random meshes, shardings and uneven sizes: all devices together compute what the graph does."""

import importlib.util

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import random_case
from tilesim import _core

MESHES = [{"a": 2}, {"a": 3}, {"a": 4}, {"a": 2, "b": 2}, {"a": 2, "b": 3}, {"a": 4, "b": 2}, {"a": 2, "b": 2, "c": 2},
          {"a": 2, "b": 2, "c": 4}, {"a": 5, "b": 3}]  # fmt: skip


def sharding(random, shape, mesh):
    """Axes of the mesh on some axes of a tensor that have as many elements; None: nothing is said."""
    free = list(mesh)
    random.shuffle(free)
    axes = []
    for extent in shape:
        own, parts = [], 1
        while free and random.random() < 0.4 and parts * mesh[free[-1]] <= extent:
            parts *= mesh[free[-1]]
            own.append(free.pop())
        axes.append(tuple(own) or None)
    return tuple(axes)


def compared(seed, by="own"):
    """Partitions a random graph; whether anything passes between devices."""
    random = np.random.default_rng(seed)
    graph = random_case(random).graph
    mesh = MESHES[random.integers(len(MESHES))]
    rows = [row for row in [*graph.inputs, *graph.outputs] if random.random() < 0.7]
    shardings = {row["name"]: sharding(random, row["shape"], mesh) for row in rows if row["shape"]}
    spmd = ts.partition(graph, mesh, shardings, by=by)
    inputs = list(_core.random_inputs(graph.core, seed))
    whole, parts = ts.reference(graph, inputs), ts.execute(spmd, inputs)
    for name, wanted in whole.items():
        wanted, own = np.asarray(wanted, np.float64), np.asarray(parts[name], np.float64)
        largest = np.nanmax(np.abs(wanted[np.isfinite(wanted)]), initial=1)
        np.testing.assert_allclose(own, wanted, rtol=2e-2, atol=2e-2 * largest, err_msg=f"{seed}: {name}")
    return len(spmd.collectives()) > 0


def test_random_graphs_on_all_devices_together():
    assert sum(compared(seed) for seed in range(300)) > 100


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax, whose Shardy spreads shardings")
def test_random_graphs_as_shardy_spreads_their_shardings():
    assert sum(compared(seed, by="shardy") for seed in range(100)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_more_random_graphs(part):
    assert sum(compared(seed) for seed in range(300 + 470 * part, 770 + 470 * part)) > 150
