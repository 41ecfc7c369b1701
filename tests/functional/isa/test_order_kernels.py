"""Running sums, sorts and floats of 8 bits by kernels at level instruction: what numpy and ml_dtypes say."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts

MACHINES = ("tpu-v3", "edge-8", "mesh-16")


def program_of(kind: str, shape: tuple[int, ...], machine: Any, dtype: str = "f32", **attributes: Any) -> Any:
    b = ts.GraphBuilder("net", dtype=dtype)
    values = b.op(kind, b.input("x", shape), **attributes)
    for i, value in enumerate(values if isinstance(values, tuple | list) else [values]):
        b.output(value, f"y{i}")
    return ts.compile(b.build(), machine)


def by_kernels(program: Any, x: Any) -> dict[str, Any]:
    """All vector and sort computes have kernels: no fallback is noted."""
    notes = [note for note in ts.simulate(program, level="instruction").approximations if "kernel" in str(note)]
    assert not [note for note in notes if "sums" in str(note) or "sort" in str(note)], notes
    return ts.execute(program, [x], level="instruction")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("shape", "dim"), [((6, 300), 1), ((70, 9), 0), ((3, 17, 5), 1), ((1, 1), 1)])
def test_running_sums_are_numpys(machine: str, shape: tuple[int, ...], dim: int) -> None:
    random = np.random.default_rng(sum(shape))
    numbers = random.integers(-1000, 1000, shape).astype(np.int32)
    floats = random.normal(size=shape).astype(np.float32)
    floats[tuple(size // 2 for size in shape)] = -0.0
    for dtype, x in (("i32", numbers), ("f32", floats)):
        for combiner, call in (("add", np.add), ("maximum", np.maximum)):
            program = program_of("cumulative", shape, machine, dtype, dim=dim, combiner=combiner)
            found = by_kernels(program, x)["y0"]
            want = call.accumulate(x.astype(np.float64 if dtype == "f32" else np.int64), axis=dim)
            if dtype == "i32" or combiner == "maximum":
                np.testing.assert_array_equal(found, want)
            else:
                error = shape[dim] * 2.0**-23 * np.add.accumulate(np.abs(x).astype(np.float64), axis=dim)
                assert (np.abs(found - want) <= error).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("shape", "dim"), [((6, 300), 1), ((70, 9), 0), ((3, 17, 5), 1)])
def test_running_sums_of_64_bits_are_numpys(machine: str, shape: tuple[int, ...], dim: int) -> None:
    random = np.random.default_rng(sum(shape))
    numbers = random.integers(-(2**60), 2**60, shape)
    eighths = random.integers(-(2**40), 2**40, shape) / 8  # exact in any order
    for dtype, x in (("i64", numbers), ("f64", eighths), ("u32", random.integers(0, 2**32, shape, np.uint32))):
        for combiner, call in (("add", np.add), ("maximum", np.maximum)):
            found = by_kernels(program_of("cumulative", shape, machine, dtype, dim=dim, combiner=combiner), x)["y0"]
            np.testing.assert_array_equal(found, call.accumulate(x, axis=dim, dtype=x.dtype))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("function", ["power", "atan2", "remainder", "floor_divide"])
def test_functions_of_two_floats_are_those_of_tile_level(machine: str, function: str) -> None:
    random = np.random.default_rng(7)
    x, y = (random.normal(size=(9, 130)).astype(np.float32) * 8 for _ in range(2))
    x[0, :6], y[0, :6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], [-0.0, 3.0, -np.inf, 0.5, 2.0, 1e30]
    b = ts.GraphBuilder("net")
    b.output(b.apply(function, b.input("x", x.shape), b.input("y", y.shape)), "z")
    program = ts.compile(b.build(), machine)
    notes = [str(note) for note in ts.simulate(program, level="instruction").approximations]
    assert not [note for note in notes if function in note or "no vector kernel" in note], notes
    found = ts.execute(program, [x, y], level="instruction")["z"]
    np.testing.assert_array_equal(found, ts.execute(program, [x, y])["z"])
    want = {"power": np.power, "atan2": np.arctan2, "remainder": np.fmod}.get(function, lambda a, b: np.floor(a / b))
    usual = (slice(1, None), slice(None))  # no ends of ranges
    with np.errstate(all="ignore"):  # negative numbers have no powers
        np.testing.assert_allclose(found[usual], want(x, y)[usual], rtol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("shape", "dim"), [((5, 300), 1), ((130, 24), 0), ((2, 3), 1), ((1, 1), 1)])
def test_sorts_are_numpys_stable_ones(machine: str, shape: tuple[int, ...], dim: int) -> None:
    """Ties, both zeros and NaN: the reference is numpy's stable argsort, NaN last."""
    random = np.random.default_rng(sum(shape))
    floats = random.integers(-4, 4, shape).astype(np.float32)
    floats[random.random(shape) < 0.1] = np.nan
    floats[random.random(shape) < 0.1] = -0.0
    for dtype, x in (("f32", floats), ("i32", random.integers(-(2**31), 2**31, shape).astype(np.int32))):
        order = np.argsort(x, axis=dim, kind="stable")
        sorted_keys = by_kernels(program_of("sort", shape, machine, dtype, dim=dim), x)["y0"]
        np.testing.assert_array_equal(np.signbit(sorted_keys), np.signbit(np.take_along_axis(x, order, dim)))
        np.testing.assert_array_equal(sorted_keys, np.take_along_axis(x, order, dim))
        kept = min(3, shape[dim])
        program = program_of("top_k", shape, machine, dtype, dim=dim, k=kept, largest=False, results=2)
        found = by_kernels(program, x)
        np.testing.assert_array_equal(found["y1"], np.take(order, np.arange(kept), dim))


def keys_of_64_bits(dtype: str, shape: tuple[int, ...]) -> Any:
    """Few different ones, and those that differ in the lowest bits alone, at the ends, or by their sign."""
    random = np.random.default_rng(sum(shape))
    if dtype == "f64":
        x = random.integers(-4, 4, shape) + random.integers(-2, 3, shape) * 2.0**-50
        x[random.random(shape) < 0.1] = np.nan
        x[random.random(shape) < 0.2] = -0.0
        x[random.random(shape) < 0.05] = -np.inf
        return x
    kind = np.dtype({"i64": np.int64, "u64": np.uint64}[dtype])
    ends = np.array([np.iinfo(kind).min, np.iinfo(kind).max, np.iinfo(kind).max // 2 + 1, 7, 2**32, 2**32 + 1], kind)
    return np.where(random.random(shape) < 0.5, ends[random.integers(0, 6, shape)], random.integers(0, 9, shape, kind))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("shape", "dim"), [((5, 300), 1), ((130, 24), 0), ((2, 3), 1), ((1, 1), 1), ((1, 70), 1)])
@pytest.mark.parametrize("dtype", ["i64", "u64", "f64"])
def test_sorts_by_keys_of_64_bits_are_numpys_stable_ones(
    machine: str, shape: tuple[int, ...], dim: int, dtype: str
) -> None:
    x = keys_of_64_bits(dtype, shape)
    order = np.argsort(x, axis=dim, kind="stable")
    want = np.take_along_axis(x, order, dim)
    program = program_of("sort", shape, machine, dtype, dim=dim)
    for found in (by_kernels(program, x)["y0"], ts.execute(program, [x])["y0"]):
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(np.signbit(found) & (found == 0), np.signbit(want) & (want == 0))
    for kept in {1, min(3, shape[dim]), min(11, shape[dim])}:
        program = program_of("top_k", shape, machine, dtype, dim=dim, k=kept, largest=False, results=2)
        np.testing.assert_array_equal(by_kernels(program, x)["y1"], np.take(order, np.arange(kept), dim))


@pytest.mark.parametrize("machine", MACHINES)
def test_closed_forms_of_sorts_by_keys_of_64_bits_are_near_their_kernels(machine: str) -> None:
    errors = []
    for shape, kept in (((64, 300), 300), ((1, 300), 300), ((16, 20), 20), ((3, 1000), 1), ((16, 1000), 50)):
        for dtype in ("i64", "f64"):
            program = program_of("top_k", shape, machine, dtype, dim=1, k=kept, largest=True, results=2)
            sorts = [dict(one) for one in ts.levels(program).computes if str(one["compute"]).startswith("sort")]
            errors += [abs(one["closed_form"] / one["instruction"] - 1) for one in sorts]
    assert max(errors) < 0.16, errors
    assert np.mean(errors) < 0.1, errors


@pytest.mark.parametrize("name", ["f8e4m3fn", "f8e5m2"])
def test_floats_of_8_bits_are_those_of_ml_dtypes(name: str) -> None:
    kind = np.dtype({"f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}[name])
    machine = ts.Machine.load("edge-8").replace({"core.array.rates": {name: 2.0, "f32": 0.5}})
    random = np.random.default_rng(9)
    a, b = (random.integers(-3, 4, (24, 24)).astype(kind) for _ in range(2))
    g = ts.GraphBuilder("net", dtype=name)
    g.output(g.matmul(g.input("a", (24, 24)), g.input("b", (24, 24))), "y")
    program = ts.compile(g.build(), machine)
    found = ts.execute(program, [a, b], level="instruction")["y"]
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(kind)
    np.testing.assert_array_equal(found.astype(np.float32), want.astype(np.float32))
