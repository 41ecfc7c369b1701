"""Numbers so small that a type holds few digits of them: bounds know its smallest step, and no more than that."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts

STEP = 2.0**-24  # the smallest f16


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("part", ["values", "all"])
@pytest.mark.parametrize("level", ["tile", "instruction"])
def test_attention_of_f16(level: str, part: str, scale: float) -> None:
    """Its kernels round to the step above or below the reference's; a few steps are all that is allowed."""
    program = ts.compile(ts.workloads.attention(1, 2, 200, 40, dtype="f16"), "mesh-16")
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal((1, 2, 200, 40)) * (scale if part == "all" or i == 2 else 1) for i in range(3)]
    report = ts.verify(program, [x.astype(np.float16) for x in inputs], level=level)
    assert report.ok, report
    if scale <= 1e-6:
        assert all(row["bound"] <= 4 * STEP for row in report.table().rows)


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-7])
def test_chains_of_f16(scale: float) -> None:
    b = ts.GraphBuilder("net", dtype="f16")
    x, w = b.input("x", (33, 40)), b.input("w", (40, 24))
    b.output(b.apply("tanh", b.apply("silu", b.matmul(x, w))), "y")
    rng = np.random.default_rng(1)
    given = [(rng.standard_normal(s) * f).astype(np.float16) for s, f in (((33, 40), scale), ((40, 24), 1.0))]
    assert ts.verify(ts.compile(b.build(), "mesh-16"), given).ok
