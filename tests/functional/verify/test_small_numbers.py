"""Numbers so small that a type holds few digits of them: bounds know its smallest step, and no more than that."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6, 1e-7])
@pytest.mark.parametrize("part", ["values", "all"])
def test_attention_of_f16(part: str, scale: float) -> None:
    program = ts.compile(ts.workloads.attention(1, 2, 96, 16, dtype="f16"), "tpu-v3")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1, 2, 96, 16)) * (scale if part == "all" or i == 2 else 1) for i in range(3)]
    report = ts.verify(program, [x.astype(np.float16) for x in inputs])
    assert report.ok, report


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-7])
def test_chains_of_f16(scale: float) -> None:
    b = ts.GraphBuilder("net", dtype="f16")
    x, w = b.input("x", (33, 40)), b.input("w", (40, 24))
    b.output(b.apply("tanh", b.apply("silu", b.matmul(x, w))), "y")
    rng = np.random.default_rng(1)
    given = [(rng.standard_normal(s) * f).astype(np.float16) for s, f in (((33, 40), scale), ((40, 24), 1.0))]
    assert ts.verify(ts.compile(b.build(), "tpu-v3"), given).ok
