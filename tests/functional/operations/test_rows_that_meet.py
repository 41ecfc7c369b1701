"""Boxes that are whole rows are combined where they lie on chip: values, indices outside, tiles of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

COMBINE: dict[str, Any] = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def scattered(rows: int, boxes: int, others: list[int], axis: int, combiner: str, dtype: str = "f32") -> ts.Graph:
    """Boxes along one axis of a tensor that has the others too."""
    b = ts.GraphBuilder("rows", dtype=dtype)
    rest = list(range(1, len(others) + 1))
    x = b.input("x", [*others[:axis], rows, *others[axis:]])
    indices, updates = b.input("i", [boxes, 1], "i32"), b.input("u", [boxes, *others])
    where = {"inserted_window_dims": [axis], "scatter_dims_to_operand_dims": [axis], "index_vector_dim": 1}
    b.output(b.op("scatter", x, indices, updates, update_window_dims=rest, combiner=combiner, **where), "y")
    return b.build()


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_rows_are_combined_in_tiles_of_the_target(machine: str) -> None:
    """Small integers, so that sums are exact; indices outside are dropped; a small scratchpad holds some rows."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        others = [int(n) for n in rng.integers(1, 40, int(rng.integers(0, 3)))]
        rows, boxes, axis = int(rng.integers(1, 60)), int(rng.integers(1, 300)), int(rng.integers(len(others) + 1))
        combiner, dtype = str(rng.choice(list(COMBINE))), str(rng.choice(["f32", "f32", "i32", "bf16"]))
        graph = scattered(rows, boxes, others, axis, combiner, dtype)
        x = rng.integers(-3, 4, [*others[:axis], rows, *others[axis:]]).astype(np.float32)
        u = rng.integers(-1, 2, [boxes, *others]).astype(np.float32)
        i = rng.integers(-2, rows + 2, [boxes, 1]).astype(np.int32)
        wanted = np.moveaxis(x.copy(), axis, 0)
        for row, update in zip(i[:, 0], u, strict=True):
            if 0 <= row < rows:
                wanted[row] = COMBINE[combiner](wanted[row], update)
        size = str(rng.choice(["64 KiB", "4 MiB"]))
        program = ts.compile(graph, ts.Machine.load(machine).replace({"core.scratchpad.bytes": size}))
        assert ts.verify(program).ok, (seed, size)
        if dtype == "bf16":
            continue
        cast = np.int32 if dtype == "i32" else np.float32
        (found,) = ts.execute(program, [x.astype(cast), i, u.astype(cast)]).values()
        np.testing.assert_array_equal(np.asarray(found), np.moveaxis(wanted, 0, axis), str((seed, size)))
