"""Running sums, sorts and floats of 8 bits by kernels at level instruction: what numpy and ml_dtypes say."""

from __future__ import annotations

from typing import Any

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
