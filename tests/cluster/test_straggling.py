"""Slow devices and slow links under a step: what waits for them, and no more."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import tilesim as ts

WORK = ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 32, dtype="f16", attention="unfused")
NODE = {"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 300e9, "latency_seconds": 1e-6}


def run(plan: str, faults: list[dict[str, Any]], work: Any = WORK) -> Any:
    cluster = ts.Cluster("a100", [NODE], faults=faults)
    return ts.cluster.step(work, cluster, ts.Plan.parse(plan), framework="unfitted", check_memory=False)


@pytest.mark.parametrize("plan", ["data=8", "tensor=8", "tensor=2,data=4"])
def test_all_wait_for_what_it_computes(plan: str) -> None:
    whole, slow = run(plan, []), run(plan, [{"device": 3, "compute": 0.9}])
    host = 5e-4  # of the optimizer's part
    more = (whole.parts["compute"] + whole.parts["recompute"] + whole.parts["optimizer"] - host) * (1 / 0.9 - 1)
    assert slow.seconds - whole.seconds == pytest.approx(more, rel=1e-6)
    for name in ("tensor", "data", "host"):
        assert slow.parts[name] == whole.parts[name]
    assert sum(slow.parts.values()) == pytest.approx(slow.seconds, rel=1e-12)
    both = run(plan, [{"device": 3, "compute": 0.9}, {"device": 4, "compute": 0.95}])
    assert both.seconds == slow.seconds  # the slower one decides
    lone, pair = (
        run("pipeline=4,data=2", [{"device": one, "compute": 0.8} for one in devices]) for devices in ([2], [2, 3])
    )
    assert lone.seconds == pair.seconds  # both on the second stage
    study = ts.cluster.search(WORK, ts.Cluster("a100", [NODE], faults=[{"device": 2, "compute": 0.8}]), budget=500)
    assert study.best.seconds == pytest.approx(study.seconds[0], rel=1e-12)


def test_a_slow_stage_sets_the_pace() -> None:
    """Every micro-batch waits for it, and it is passed once on the way."""
    small = dataclasses.replace(WORK, vocab=1)
    whole, slow = run("pipeline=8", [], small), run("pipeline=8", [{"device": 3, "compute": 0.5}], small)
    stage = whole.parts["compute"] / 32
    assert slow.seconds - whole.seconds == pytest.approx(32 * stage + whole.parts["optimizer"] - 5e-4, rel=0.02)
    assert slow.bubble_seconds > whole.bubble_seconds
    headed = run("pipeline=8", [{"device": 3, "compute": 0.97}])  # the stage with the head is slower all the same
    gain = headed.seconds - run("pipeline=8", []).seconds
    update = run("pipeline=8", []).parts["optimizer"] * (1 / 0.97 - 1)
    assert 0 < gain < 32 * stage * (1 / 0.97 - 1) + update
    assert gain <= 2 * stage * (1 / 0.97 - 1) + update
    last = run("pipeline=8", [{"device": 7, "compute": 0.97}])
    assert last.seconds > headed.seconds  # there it counts


def test_slow_links_slow_sums() -> None:
    whole, slow = (run("tensor=8", faults) for faults in ([], [{"device": 3, "share": 0.5}]))
    assert whole.parts["tensor"] < slow.parts["tensor"] < 2 * whole.parts["tensor"]
    assert slow.parts["compute"] == whole.parts["compute"]
    with pytest.raises(ts.UserError, match="failed link"):
        ring = {**NODE, "kind": "ring"}
        cluster = ts.Cluster("a100", [ring], faults=[{"source": 0, "target": 1, "share": 0}])
        ts.cluster.step(WORK, cluster, ts.Plan(data=8))


def test_decode_waits_too() -> None:
    work = ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 32, phase="decode")
    cluster = [ts.Cluster("a100", [NODE], faults=faults) for faults in ([], [{"device": 0, "compute": 0.5}])]
    whole, slow = (ts.cluster.step(work, one, ts.Plan(tensor=8, micro_batch=32)) for one in cluster)
    assert slow.seconds - whole.seconds == pytest.approx(whole.parts["compute"], rel=1e-6)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"device": 3, "compute": 0}, "compute"),
        ({"device": 3, "compute": 1.5}, "compute"),
        ({"device": "x", "compute": 0.5}, "device"),
        ({"source": 1, "target": 2, "compute": 0.5}, "device"),
    ],
)
def test_faults_that_are_none(fault: dict[str, Any], told: str) -> None:
    with pytest.raises(ts.UserError, match=told):
        ts.Cluster("a100", [NODE], faults=[fault])


def test_what_has_no_closed_form() -> None:
    with pytest.raises(ts.UserError, match="no such device"):
        run("data=8", [{"device": 8, "compute": 0.5}])
    with pytest.raises(ts.UserError, match="schedule"):
        run("pipeline=8,schedule=zb-h1", [{"device": 3, "compute": 0.5}])
    kept = ts.Cluster("a100", [NODE], faults=[{"device": 3, "compute": 0.5, "share": 0.5}])
    assert ts.Cluster.load(kept.to_dict()).faults == kept.faults
