"""Closed form of experts, loops and branches, from that of what they consist of."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts


def experts(rows: int, groups: int, k: int, n: int) -> ts.Graph:
    b = ts.GraphBuilder("experts", dtype="bf16")
    x, w = b.input("x", (rows, k)), b.input("w", (groups, k, n))
    b.output(b.op("ragged_contract", x, w, b.input("sizes", (groups,), "i32"), name="experts"), "y")
    return b.build()


@pytest.mark.parametrize(("rows", "used", "each"), [(64, 8, 8), (3, 3, 1), (65, 8, 9)])
def test_experts_are_products_of_the_groups_that_have_rows(rows: int, used: int, each: int) -> None:
    found = ts.estimate(experts(rows, 8, 256, 512), "h100")
    same = ts.estimate(ts.workloads.matmul(each, 512, 256, dtype="bf16", batch=used), "h100")
    assert found.seconds == pytest.approx(same.seconds)
    assert any("spread evenly" in text for text in found.approximations)


def loop(trips: int | None) -> ts.Graph:
    """Squares a matrix while a counter is below a limit."""
    b = ts.GraphBuilder("loop")
    below, step = b.function("below"), b.function("step")
    x, i = below.input("x", (256, 256)), below.input("i", ())
    below.output(below.apply("less", i, below.scalar(8.0)), "go")
    x, i = step.input("x", (256, 256)), step.input("i", ())
    step.output(step.matmul(x, x, name="square"), "x_next")
    step.output(i + 1.0, "i_next")
    state = [b.input("x", (256, 256)), b.input("i", ())]
    attributes = {} if trips is None else {"trips": trips}
    found = b.core.op("while", [one.value for one in state], attributes, "", 2, ["below", "step"])
    b.core.output(found[0], "y")
    return b.build()


def test_a_loop_costs_its_trips() -> None:
    once, often = (ts.estimate(loop(trips), "h100") for trips in (1, 8))
    assert often.seconds == pytest.approx(8 * once.seconds, rel=1e-3) and once.seconds > 0
    with pytest.raises(ts.Unsupported, match="length depends on data"):
        ts.estimate(loop(None), "h100")


def test_networks_with_experts_and_scans() -> None:
    for name in ("mixtral-8x7b", "mamba-2.8b"):
        result = ts.estimate(ts.models.build(name, context=64, phase="decode"), "h100")
        bound = ts.roofline(ts.models.build(name, context=64, phase="decode"), "h100")
        assert np.isfinite(result.seconds) and result.seconds >= bound.seconds > 0
    scan = ts.estimate(ts.models.build("mamba-2.8b", context=32), "h100")
    longer = ts.estimate(ts.models.build("mamba-2.8b", context=64), "h100")
    loops = [sum(c.seconds for c in r.costs if c.kind == "while") for r in (scan, longer)]
    assert loops[1] == pytest.approx(2 * loops[0], rel=0.3) and any("trips" in c.model for c in scan.costs)
