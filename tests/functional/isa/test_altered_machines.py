"""Kernels on machines whose registers, rows of lanes, arrays and queues do not go into each other."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts

CHANGES = [
    ("tpu-v3", {"core.array.rows": 4, "core.array.columns": 4}),
    ("tpu-v3", {"core.array.rows": 7, "core.array.columns": 5}),
    ("tpu-v3", {"core.isa.input_rows": 1}),
    ("edge-8", {"core.isa.result_rows": 1}),
    ("edge-8", {"core.vector.lanes": 64}),
    ("mesh-16", {"core.array.rows": 4, "core.array.columns": 4}),
    ("gemmini-16", {"core.isa.input_rows": 3}),
]


@pytest.mark.parametrize(
    ("name", "changes"), CHANGES, ids=lambda value: value if isinstance(value, str) else "-".join(value)
)
def test_products_where_a_register_has_more_rows_than_a_queue(name: str, changes: dict[str, int]) -> None:
    machine = ts.Machine.load(name).replace(changes)
    dtype = "bf16" if name == "tpu-v3" else "i8"
    rate = machine.get("core.array.rates")[dtype]
    program = ts.compile(ts.workloads.matmul(50, 40, 60, dtype=dtype), machine)
    assert ts.verify(program, level="instruction").ok
    cells = machine.get("core.array.rows") * machine.get("core.array.columns") * machine.get("core.array.count")
    least = 50 * 40 * 60 / cells / rate / max(1, machine.get("cores"))
    for level in ("instruction", "live"):
        assert ts.simulate(program, level=level).cycles >= least


@pytest.mark.parametrize(("name", "bits"), [("tpu-v3", 2048), ("edge-8", 128), ("mesh-16", 256)])
def test_registers_shorter_than_a_row_of_lanes(name: str, bits: int) -> None:
    """Such computes have no kernel, which the result says; their values are those of the tile level."""
    machine = ts.Machine.load(name).replace({"core.isa.vlen": bits})
    builder = ts.GraphBuilder("rows")
    x, y = builder.input("x", (4, 50)), builder.input("y", (4, 1))
    builder.output(builder.apply("add", x, y), "z")
    program = ts.compile(builder.build(), machine)
    rows = np.arange(1, 5, dtype=np.float32)[:, None]
    (found,) = ts.execute(program, {"x": np.zeros((4, 50), np.float32), "y": rows}, level="instruction").values()
    assert (np.asarray(found) == np.broadcast_to(rows, (4, 50))).all()
    told = ts.simulate(program, level="instruction").approximations
    assert (bits >= 32 * machine.get("core.vector.lanes")) != any(
        "shorter than a row of lanes" in line for line in told
    )


def test_what_jobs_and_texts_of_kernels_may_not_ask() -> None:
    program = ts.compile(ts.workloads.matmul(8, 8, 8), "edge-8")
    with pytest.raises(ts.Unsupported, match="level='live'"):
        ts.simulate([ts.Job(program)], level="instruction")
    assert ts.simulate([ts.Job(program)], level="live").cycles > 0
    with pytest.raises(ts.UserError, match="too large"):
        ts.isa.kernel("mma i8 i8 b1 m999999999 n8 k8 ko1", "edge-8")
