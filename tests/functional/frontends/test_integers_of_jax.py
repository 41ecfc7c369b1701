"""Integer functions and the next number as JAX computes them: all values of 8 bits, edges of the wider dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

jax = pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
from jax import lax  # noqa: E402

DTYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]


def edges(dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    if info.bits == 8:
        return np.arange(info.min, info.max + 1, dtype=np.int64).astype(dtype)
    near = [info.min, info.min + 1, -1, 0, 1, 2, info.bits - 1, info.bits, info.bits + 1, info.max // 2, info.max]
    return np.array([value for value in near if value >= info.min], np.int64).astype(dtype)


def unary(a: Any) -> Any:
    signed = (lax.abs(a),) if a.dtype.kind == "i" else ()
    return *signed, lax.population_count(a), lax.clz(a), lax.bitwise_not(a), lax.neg(a), lax.sign(a)


def binary(a: Any, b: Any) -> Any:
    shifts = lax.shift_left(a, b), lax.shift_right_logical(a, b), lax.shift_right_arithmetic(a, b)
    return *shifts, lax.div(a, b), lax.rem(a, b), lax.max(a, b), lax.lt(a, b), a**3, lax.mul(a, b)


def converted(a: Any) -> Any:
    return tuple(lax.convert_element_type(a, dtype) for dtype in (*DTYPES, np.bool_, np.float32))


@pytest.mark.singly
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [unary, binary, converted])
def test_integers(function: Any, dtype: Any) -> None:
    values = edges(dtype)
    args: tuple[Any, ...] = (values,)
    if function is binary:
        few = values if len(values) < 40 else np.unique(np.concatenate([values[:20], values[118:140], values[-20:]]))
        left, right = np.meshgrid(few, few)
        args = (left.ravel(), right.ravel())
    graph = ts.from_jax(function, *args)
    wanted = jax.jit(function)(*args)
    for outputs in (ts.reference(graph, args), ts.execute(ts.compile(graph, "edge-8"), args)):
        for i, (mine, theirs) in enumerate(zip(outputs.values(), wanted, strict=True)):
            np.testing.assert_array_equal(mine, np.asarray(theirs), err_msg=str(i))


NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38]


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
def test_the_next_number(machine: str) -> None:
    """Bit for bit numpy's, zeros with their sign."""
    values = np.array([*NUMBERS, -3.4028235e38], np.float32)
    a, b = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = np.nextafter(a, b)
    graph = ts.from_jax(lax.nextafter, a, b)
    for outputs in (ts.reference(graph, [a, b]), ts.execute(ts.compile(graph, machine), [a, b])):
        (mine,) = outputs.values()
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(mine.view(np.uint32)[known], wanted.view(np.uint32)[known])
        assert np.isnan(mine[~known]).all()


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "any", "all"])
def test_booleans_are_searched(name: str) -> None:
    function = getattr(jax.numpy, name)
    for extent in (1, 4, 7):
        x = np.random.default_rng(extent).integers(0, 2, (extent, 9)).astype(bool)
        graph = ts.from_jax(lambda one: function(one, 0), x)
        (found,) = ts.reference(graph, {graph.inputs[0]["name"]: x}).values()
        assert (found == np.asarray(function(x, 0))).all(), extent
