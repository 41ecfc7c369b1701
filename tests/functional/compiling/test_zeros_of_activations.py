"""Tiles of zeros in activations: found by a test, skipped by the product, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.holes import TILE, holed
from tilesim import _core


def product(m: int, k: int, n: int, relu: bool = False, turned: bool = False, **attributes: Any) -> ts.Graph:
    """x · w, both inputs; x may be stored as [k, m], or pass relu first; w as a trainable input has no known tiles."""
    b = ts.GraphBuilder("activations")
    x = b.input("x", (k, m) if turned else (m, k))
    x = b.apply("relu", x) if relu else x
    w = b.weight("w", data=np.random.default_rng(5).integers(-4, 5, (k, n)).astype(np.float32))
    axes = {"a_contract": [0 if turned else 1], "b_contract": [0]}
    b.output(b.op("contract", x, w, name="product", **axes, **attributes), "y")
    return b.build()


def weights(k: int, n: int) -> Any:
    return np.random.default_rng(5).integers(-4, 5, (k, n)).astype(np.float32)


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize(
    ("m", "k", "n", "relu", "turned"),
    [
        (160, 512, 96, False, False),
        (100, 300, 70, True, False),
        (1, 384, 130, False, False),
        (256, 512, 64, True, True),
    ],
)
def test_the_same_bits(machine: str, m: int, k: int, n: int, relu: bool, turned: bool) -> None:
    """For every density with one program, whatever the order of what runs side by side; no use is unordered."""
    program = ts.compile(product(m, k, n, relu, turned), machine, lowering="best", zero_tiles="test")
    for density in (0.0, 0.4, 1.0):
        x = holed(k, m, density) if turned else holed(m, k, density)
        seen = np.maximum(x, 0) if relu else x
        wanted = (seen.T if turned else seen) @ weights(k, n)
        for order in ("text", "random", "early_loads"):
            found = ts.execute(program, {"x": x}, order=order, find_races=True)
            assert np.array_equal(np.asarray(found["y"]), wanted)
        assert ts.verify(program, {"x": x}).ok
    assert ts.verify(program).ok


def test_an_empty_row_of_tiles_and_an_empty_column() -> None:
    x = holed(384, 512, 1.0)
    x[128:256], x[:, 128:256] = 0, 0
    program = ts.compile(product(384, 512, 64), "edge-8", zero_tiles="test")
    found = ts.execute(program, {"x": x}, find_races=True)
    assert np.array_equal(np.asarray(found["y"]), x @ weights(512, 64))


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_time_is_that_of_what_is_left(share: float) -> None:
    """That of a dense product of as many tiles, and the test: reading the operand once, here 1.2 times for its kernels
    of few elements, and 5 %.
    """
    m, k, n = 512, 2560, 256
    program = ts.compile(product(m, k, n), "edge-8", zero_tiles="test")
    dense = ts.simulate(ts.compile(product(m, round(k * share / TILE) * TILE, n), "edge-8", lowering="best"))
    result = ts.simulate(program, tensors={"x": holed(m, k, share)})
    bandwidth = 19.2e9 * 0.8  # edge-8: one channel of DDR4-2400, of which 80 % are reached
    test = 4 * m * k / bandwidth
    assert result.seconds <= 1.05 * (dense.seconds + 1.2 * test)
    assert result.bounds is not None and result.seconds > dense.seconds


def test_sources_and_what_is_not_given() -> None:
    program = ts.compile(product(256, 512, 64), "edge-8", zero_tiles="test")
    x = holed(256, 512, 0.25)
    given, typical = ts.simulate(program, tensors={"x": x}), ts.simulate(program)
    assert set(given.data_sources.values()) == {"computed from x"}
    assert all(how.startswith("default: no tile is all zero") for how in typical.data_sources.values())
    full = ts.simulate(program, tensors={"x": holed(256, 512, 1.0)})
    assert given.cycles < 0.5 * typical.cycles and typical.cycles == full.cycles


def test_nan_and_infinity() -> None:
    """NaN is no zero; in exact products zero times infinity is NaN, so their tiles are not skipped."""
    x = holed(256, 512, 0.25)
    x[200, 300] = np.nan
    program = ts.compile(product(256, 512, 64), "edge-8", zero_tiles="test")
    found = np.asarray(ts.execute(program, {"x": x})["y"])
    assert np.isnan(found[200]).all() and not np.isnan(np.delete(found, 200, 0)).any()
    exact = product(256, 512, 64, precision="exact")
    plain = ts.compile(exact, "edge-8").core.to_json()
    assert ts.compile(exact, "edge-8", zero_tiles="test").core.to_json() == plain


def test_which_activations_are_tested() -> None:
    """Those that enter or end in a function of many zeros; one whose weight has tiles of zeros keeps these."""
    b = ts.GraphBuilder("chain")
    h = b.apply("tanh", b.matmul(b.input("x", (256, 256)), b.weight("w", (256, 256)), name="first"))
    b.output(b.matmul(h, b.weight("v", (256, 256)), name="second"), "y")
    graph = b.build().copy()
    with graph._changed() as core:
        assert _core.find_zero_tiles(core) == ["first: tiles of a are tested"]
    masked = ts.workloads.sparse_matmul(256, 256, 512, 1.0, 0.25, "zero_tiles")
    program = ts.compile(masked, "edge-8", zero_tiles="test")
    assert any("% are left" in note for note in program.core.notes)
    off = ts.compile(product(256, 512, 64), "edge-8", zero_tiles="skip").core.to_json()
    assert off == ts.compile(product(256, 512, 64), "edge-8").core.to_json()


def test_files_keep_the_test(tmp_path: Any) -> None:
    program = ts.compile(product(256, 512, 64), "edge-8", zero_tiles="test")
    program.save(tmp_path / "p.tsim")
    again, x = ts.Program.load(tmp_path / "p.tsim"), {"x": holed(256, 512, 0.25)}
    assert ts.simulate(again, tensors=x).cycles == ts.simulate(program, tensors=x).cycles
    assert np.array_equal(np.asarray(ts.execute(again, x)["y"]), x["x"] @ weights(512, 64))
