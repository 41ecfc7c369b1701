"""Steps side by side."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts


def program() -> Any:
    b = ts.GraphBuilder("two products", dtype="bf16")
    x = b.input("x", (256, 512))
    up, down = b.input("up", (512, 1024)), b.input("down", (1024, 512))
    b.output(b.matmul(b.apply("silu", b.matmul(x, up)), down), "y")
    return ts.partition(b.build(), {"d": 4}, {"up": (None, "d"), "down": ("d", None)})


def check_sums(found: Any) -> None:
    for letter, result in zip(found.letters, found.results, strict=True):
        assert sum(row[letter] for row in found.breakdown()) == pytest.approx(result.seconds)
    for at, letter in enumerate(found.letters[1:], 1):
        differences = [row[found.column("difference", letter)] for row in found.breakdown()]
        assert sum(differences) == pytest.approx(found.results[at].seconds - found.results[0].seconds, abs=1e-12)


def test_plans_clusters_and_overlap() -> None:
    plan = ts.Plan(tensor=8, pipeline=8, recompute="selective", sequence=True)
    a = ts.cluster.step("gpt3-175b", "dgx-h100:64", plan)
    b = ts.cluster.step("gpt3-175b", "dgx-h100:64", plan.replaced(virtual=2))
    c = ts.cluster.step("gpt3-175b", "dgx-a100:64", plan, overlap="none")
    two, three = ts.compare(a, b), ts.compare(a, b, c, names=["one", "two", "three"])
    check_sums(two)
    check_sums(three)
    assert [row["what"] for row in two.differs()] == ["plan"]
    assert {row["what"] for row in three.differs()} == {"plan", "cluster", "device", "overlap"}
    assert two.names == [a.plan.text(), b.plan.text()]
    (row,) = (row for row in two.table() if row["figure"] == "seconds")
    assert (row["a"], row["b"], row["b/a"]) == (a.seconds, b.seconds, b.seconds / a.seconds)
    assert sum(row["share"] for row in two.breakdown()) == pytest.approx(1.0)
    assert next(iter(two.breakdown()))["part"] == "bubble" and "bubble" in two.headline()
    assert "c: three" in str(three) and "less than a" in two.headline() and "more than a" in three.headline(2)
    json.dumps(three.to_dict(), allow_nan=False)


def test_a_step_beside_itself() -> None:
    one = ts.cluster.step("llama-3-8b", "dgx-h100:64", ts.Plan(data=64, shard="zero2"))
    found = ts.compare(one, one)
    assert found.headline() == "b takes as long as a"
    assert all(row["difference"] == 0 and math.isnan(row["share"]) for row in found.breakdown())
    assert found.names == ["the same step"] * 2 and not list(found.differs())


def test_predictors(tmp_path: Path) -> None:
    spmd = program()
    closed = ts.cluster.step(spmd, "dgx-h100:4")
    table = tmp_path / "t.csv"
    rows = [f"segment {row['segment']},{2 * row['seconds']}" for row in closed.segments]
    table.write_text("\n".join(["what,seconds", *rows]) + "\n")
    measured = ts.cluster.step(spmd, "dgx-h100:4", predictor=f"table:{table}")
    found = ts.compare(closed, measured)
    check_sums(found)
    (row,) = (row for row in found.breakdown() if row["part"] == "compute")
    assert row["b"] == pytest.approx(2 * row["a"])
    assert found.names == ["closed", f"table:{table}"]
    link = {"kind": "full", "size": 4, "bandwidth_bytes_per_second": 5e10, "latency_seconds": 1e-6}
    chips = ts.Cluster("tpu-v3", [link])
    engine = ts.cluster.step(spmd, chips, predictor="engine")
    assert ts.compare(closed, measured, engine).names[2] == "custom, engine"
    check_sums(ts.compare(closed, measured, engine))


def test_what_is_no_step() -> None:
    one = ts.cluster.step("llama-3-8b", "dgx-h100:64", ts.Plan(data=64, shard="zero2"))
    b = ts.GraphBuilder("g", dtype="bf16")
    b.output(b.matmul(b.input("x", (64, 64)), b.input("w", (64, 64))), "y")
    other = ts.estimate(b.build(), "h100")
    with pytest.raises(ts.UserError, match="beside others alone"):
        ts.compare(one, other)
    with pytest.raises(ts.UserError):
        ts.compare(other, one)
    with pytest.raises(ts.UserError, match="each result has one name"):
        ts.compare(one, one, names=["a"])
