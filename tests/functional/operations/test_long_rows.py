"""Sorts and top_k of rows that exceed the scratchpad equal the reference, with ties, NaN and carried elements."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts

SMALL = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "16 KiB"})
RNG = np.random.default_rng(3)


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Few values, so that many are equal, with infinities and NaN among them."""
    x = RNG.integers(-20, 20, shape).astype(np.float32)
    return np.where(RNG.random(shape) < 0.05, RNG.choice([np.inf, -np.inf, np.nan, -0.0], shape), x).astype(np.float32)


@pytest.mark.singly
@pytest.mark.parametrize("shape, dim", [((700,), 0), ((2, 601), 1), ((601, 3), 0)], ids=str)
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_sort(shape, dim, descending):
    b = ts.GraphBuilder("sort")
    keys, carried = b.input("keys", shape), b.input("carried", shape, "i32")
    for i, one in enumerate(b.op("sort", keys, carried, dim=dim, keys=1, descending=descending, stable=True)):
        b.output(one, f"y{i}")
    check(b, (numbers(shape), np.arange(np.prod(shape), dtype=np.int32).reshape(shape)))


def test_sort_by_two_keys():
    b = ts.GraphBuilder("sort")
    rows = [b.input(name, (600,), "i32") for name in "abc"]
    for i, one in enumerate(b.op("sort", *rows, dim=0, keys=2)):
        b.output(one, f"y{i}")
    check(b, [RNG.integers(0, 9, 600).astype(np.int32) for _ in rows])


@pytest.mark.parametrize("k", [1, 7, 60])
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
def test_top_k(k, largest):
    b = ts.GraphBuilder("top_k")
    values, places = b.op("top_k", b.input("x", (2, 1201)), dim=1, k=k, largest=largest, results=2)
    b.output(values, "values")
    b.output(places, "places")
    check(b, (numbers((2, 1201)),))


def check(b: ts.GraphBuilder, inputs: object) -> None:
    program = ts.compile(b.build(), SMALL)
    assert program.graph is not None
    wanted, got = ts.reference(program.graph, inputs), ts.execute(program, inputs)
    for name, values in wanted.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)
    assert ts.verify(program, inputs).ok
    assert ts.simulate(program).cycles > 0


def test_more_passes_take_longer():
    """Twice the row is more than twice the time: each block meets every other one."""
    cycles = []
    for extent in (350, 700, 1400):
        b = ts.GraphBuilder("sort")
        b.output(b.op("sort", b.input("x", (extent,)), dim=0))
        cycles.append(ts.simulate(ts.compile(b.build(), SMALL)).cycles)
    assert cycles[1] > 2 * cycles[0] and cycles[2] > 2 * cycles[1]
