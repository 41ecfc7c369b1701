"""Shapes and sizes that lowerings went wrong on once: groups, tiles of zeros, long chains of concats, odd strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tilesim as ts

f32 = np.float32


def _run(graph: ts.Graph, machine: str | ts.Machine, x: np.ndarray, races: bool = True, **options: Any) -> np.ndarray:
    return np.asarray(ts.execute(ts.compile(graph, machine, **options), {"x": x}, find_races=races)["y"])


@pytest.mark.parametrize("tile", [[2, 8], [8, 128]])
@pytest.mark.parametrize("groups", [2, 8])
def test_results_of_groups_lie_apart(groups: int, tile: list[int]) -> None:
    """Channels of a group are not next to each other in a tile: what lies between them belongs to others. Sums of
    ones are counted by hand: four taps of each channel of a group."""
    machine = ts.Machine.load("chiplet-2").replace({"layout.tile": tile})
    for layout in ("given", "auto"):
        b = ts.GraphBuilder("groups")
        w = b.weight("w", data=np.ones((24, 8 // groups, 2, 2), f32))
        b.output(b.conv2d(b.input("x", [1, 8, 4, 5]), w, groups=groups), "y")
        made = _run(b.build(), machine, np.ones((1, 8, 4, 5), f32), layout=layout)
        assert made.shape == (1, 24, 3, 4) and np.all(made == 4 * 8 // groups)


def test_a_nest_that_stores_what_lies_between_is_refused() -> None:
    """Two groups in a tile need all filters of each."""
    b = ts.GraphBuilder("groups")
    x = b.input("x", [1, 8, 4, 5])
    b.output(b.conv2d(x, b.weight("w", data=np.ones((24, 1, 2, 2), f32)), groups=8, name="conv"), "y")
    graph = b.build()
    product = ts.mapping.products(graph, "chiplet-2")[0]
    names, ones = list(product.names), [1] * len(product.names)
    assert dict(zip(names, product.info["extents"], strict=True))["oc"] == 3
    two_groups = [2 if name == "g" else 1 for name in names]
    legal, reason = product.legal({**product.nest, "tiles": two_groups})
    assert not legal and "intermediate results" in reason
    whole_groups = [{"g": 2, "oc": 3}.get(name, 1) for name in names]
    for tiles in (ones, whole_groups):
        assert product.legal({**product.nest, "tiles": tiles})[0]


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16"])
@pytest.mark.parametrize("columns", [1, 257])
def test_tiles_of_zeros_that_nobody_waits_for(machine: str, columns: int) -> None:
    b = ts.GraphBuilder("zeros")
    w = b.weight("w", data=np.zeros((columns, 257), f32))
    b.output(b.project(b.input("x", [3, 257]), w), "y")
    made = _run(b.build(), machine, np.ones((3, 257), f32), zero_tiles="skip")
    assert made.shape == (3, columns) and not made.any()


def _dense(blocks: int, layers: int, growth: int, side: int) -> tuple[ts.Graph, torch.Tensor, np.ndarray]:
    """Every layer reads all before it; small integers, so that sums are exact. The graph, torch's result, the input."""
    draw = np.random.default_rng(1)
    b = ts.GraphBuilder("dense")
    start = draw.integers(-2, 3, (1, growth, side, side)).astype(f32)
    x, known = b.input("x", list(start.shape)), torch.tensor(start)

    def weight(name: str, shape: tuple[int, ...]) -> tuple[Any, torch.Tensor]:
        data = draw.integers(-1, 2, shape).astype(f32)
        return b.weight(name, data=data), torch.tensor(data)

    for i in range(blocks):
        for j in range(layers):
            w, own = weight(f"w{i}.{j}", (growth, x.shape[1], 3, 3))
            made = b.conv2d(b.apply("relu", x), w, padding=1)
            found = torch.nn.functional.conv2d(torch.relu(known), own, padding=1)
            x = b.concat([x, b.apply("maximum", b.apply("minimum", made, b.scalar(2.0)), b.scalar(-2.0))], 1)
            known = torch.cat([known, found.clamp(-2, 2)], 1)
        if i + 1 < blocks:
            x, known = b.pool2d(x, 2), torch.nn.functional.max_pool2d(known, 2)
    b.output(x, "y")
    return b.build(), known, start


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_chains_of_concats(machine: str) -> None:
    graph, known, start = _dense(3, 6, 32, 8)
    made = _run(graph, machine, start, races=False)
    assert np.array_equal(made, known.numpy())


@pytest.mark.parametrize("shape, filters, groups", [((1, 3, 21, 5), 6, 3), ((2, 4, 7, 5), 4, 4), ((1, 6, 5, 21), 6, 2)])
def test_strided_groups(shape: tuple[int, ...], filters: int, groups: int) -> None:
    draw = np.random.default_rng(3)
    x = draw.integers(-4, 5, shape).astype(f32)
    w = draw.integers(-4, 5, (filters, shape[1] // groups, 2, 2)).astype(f32)
    b = ts.GraphBuilder("strided")
    b.output(b.conv2d(b.input("x", list(shape)), b.weight("w", data=w), stride=2, groups=groups), "y")
    known = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(w), stride=2, groups=groups).numpy()
    graph = b.build()
    for machine in ("mesh-16", "chiplet-2"):
        assert np.array_equal(_run(graph, machine, x), known), machine
