"""Windows wider than what they pass over: only the elements that are there are read and computed on."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts


def pooled(shape: tuple[int, ...], combiner: str, window: list[int], pads: list[int]) -> ts.Graph:
    b = ts.GraphBuilder("pool", dtype="f32")
    strides = [1, 1, *window[2:]]
    b.output(
        b.op("window_reduce", b.input("x", shape), combiner=combiner, window=window, pads=pads, strides=strides), "y"
    )
    return b.build()


@pytest.mark.parametrize("combiner", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("pads", [[0, 25], [3, 22], [25, 0], [0, 0]])
def test_values_are_those_of_numpy(combiner: str, pads: list[int]) -> None:
    window = 7 + sum(pads)
    graph = pooled((2, 5, 7, 7), combiner, [1, 1, window, window], [0, 0, 0, 0, *pads, *pads])
    x = np.random.default_rng(0).standard_normal((2, 5, 7, 7)).astype(np.float32)
    function = {"add": np.sum, "maximum": np.max, "minimum": np.min}[combiner]
    wanted = function(x, axis=(2, 3), keepdims=True)
    program = ts.compile(graph, "edge-8")
    np.testing.assert_allclose(ts.execute(program, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)
    assert ts.verify(program, {"x": x}).ok


def test_padding_costs_no_time() -> None:
    """A window of 2,560 by 2,560 over 7 by 7 (the last pooling of an EfficientNet) takes what one of 7 by 7 takes."""
    whole = ts.simulate(ts.compile(pooled((1, 64, 7, 7), "add", [1, 1, 7, 7], [0] * 8), "tpu-v4")).cycles
    pads = [0, 0, 0, 0, 0, 2553, 0, 2553]
    padded = ts.simulate(ts.compile(pooled((1, 64, 7, 7), "add", [1, 1, 2560, 2560], pads), "tpu-v4")).cycles
    assert padded == whole


def test_a_window_that_misses_an_end_stays_as_it_is() -> None:
    """Six of seven elements behind one of padding: the last one is read by no window."""
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 1, 7)
    graph = pooled((1, 1, 1, 7), "add", [1, 1, 1, 7], [0, 0, 0, 0, 0, 0, 1, 0])
    got = ts.execute(ts.compile(graph, "edge-8"), {"x": x})["y"]
    np.testing.assert_array_equal(got, x[..., :6].sum(-1, keepdims=True))
