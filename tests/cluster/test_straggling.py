"""Slow devices and slow links under a step: what waits for them, and no more."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.closed import times
from tilesim.cluster.columns import columns
from tilesim.cluster.fabric import fabric_of
from tilesim.cluster.frameworks import Framework
from tilesim.cluster.hosts.straggling import slower
from tilesim.cluster.stepping import pricer

WORK = ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 32, dtype="f16", attention="unfused")
NODE = {"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 300e9, "latency_seconds": 1e-6}


def run(plan: str, faults: list[dict[str, Any]], work: Any = WORK) -> Any:
    cluster = ts.Cluster("a100", [NODE], faults=faults)
    return ts.cluster.step(work, cluster, ts.Plan.load(plan), framework="unfitted", check_memory=False)


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
    update = whole.parts["optimizer"] - 5e-4
    # between a slow stage's first pass and its last are its own, and the stages before it have to come to the first
    least = 32 * stage - 4 * whole.stage["slowest"]  # four stages behind it
    assert least * 0.999 < slow.seconds - whole.seconds - update < 32 * stage
    both = [run("pipeline=8,schedule=gpipe", faults, small) for faults in ([], [{"device": 3, "compute": 0.5}])]
    assert both[1].seconds - both[0].seconds == pytest.approx(32 * stage + update, rel=0.02)
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
    ring = {**NODE, "kind": "ring"}
    faults = [], [{"source": 0, "target": 1, "share": 0}]
    round_, broken = (ts.cluster.step(WORK, ts.Cluster("a100", [ring], faults=one), ts.Plan(data=8)) for one in faults)
    assert round_.parts["data"] < broken.parts["data"]  # seven links and both ways back


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
    with pytest.raises(ts.UserError, match="unknown device"):
        run("data=8", [{"device": 8, "compute": 0.5}])
    kept = ts.Cluster("a100", [NODE], faults=[{"device": 3, "compute": 0.5, "share": 0.5}])
    assert ts.Cluster.load(kept.to_dict()).faults == kept.faults


def by_hand(plan: ts.Plan, layers: int, slow: dict[int, float]) -> tuple[float, float]:
    """Seconds of a step's pipeline, and of the same passes with each stage's own times in their order."""
    work = ts.workloads.transformer_step(layers, 2048, 16, 50257, 1024, 32)
    fabric = slower(fabric_of(f"dgx-a100:{plan.devices}"), slow)
    k = {**Framework.load("unfitted").constants, "host_microbatch": 0.0}
    found = times(columns([(work, plan)]), pricer(fabric.device, work.dtype), fabric, k)
    assert found.detail is not None
    one, back = found.detail.layers["forward"], found.detail.layers["backward"]
    sent = float(sum(row.seconds[0] for row in found.detail.sent))
    ends = (found.work.head_forward + found.work.embedding)[0], found.work.head_backward[0]
    parts = plan.pipeline * plan.virtual
    own = [layers // parts + (part < layers % parts) for part in range(parts)]
    share: dict[int, float] = {}
    for device, factor in slow.items():
        stage = device * plan.pipeline // plan.devices
        share[stage] = max(share.get(stage, 1.0), factor)

    def rows(layer: float, computed: float, end: float) -> list[list[float]]:
        table = []
        for stage in range(plan.pipeline):
            factor = share.get(stage, 1.0)
            mine = [own[chunk * plan.pipeline + stage] * (layer + (factor - 1) * computed) + sent
                    for chunk in range(plan.virtual)]  # fmt: skip
            mine[-1] += end * factor if stage == plan.pipeline - 1 else 0.0
            table.append(mine)
        return table

    drawn = ts.cluster.pipeline(
        plan.schedule, plan.pipeline, 32 // (plan.data * plan.micro_batch), virtual=plan.virtual,
        forward=rows(one.seconds[0], one.compute[0], ends[0]), backward_weight=0.0,
        backward_input=rows(back.seconds[0], (back.compute + back.recompute)[0], ends[1]),
    )  # fmt: skip
    return float(found.detail.through[0]), drawn.seconds


@pytest.mark.parametrize(
    ("plan", "layers", "slow"),
    [
        ("pipeline=4,micro_batch=4", 16, {0: 1.5}),
        ("pipeline=4,micro_batch=4", 16, {3: 1.5}),
        ("pipeline=4,micro_batch=4,virtual=2", 16, {0: 1.5}),
        ("pipeline=4,micro_batch=4,virtual=2,recompute=full", 16, {2: 1.2, 3: 1.1}),
        ("pipeline=4,micro_batch=4,schedule=gpipe", 16, {1: 2.0}),
        ("pipeline=4,data=2,tensor=4,micro_batch=2", 18, {9: 1.3, 17: 1.1}),
        ("pipeline=8,micro_batch=4", 9, {}),
        ("pipeline=8,schedule=gpipe,recompute=full", 15, {}),
    ],
)
def test_stages_that_differ_are_carried_out(plan: str, layers: int, slow: dict[int, float]) -> None:
    """A straggler moves the step by its critical path and no more."""
    found, order = by_hand(ts.Plan.load(plan), layers, slow)
    assert found == pytest.approx(order, rel=1e-9)


def test_no_stage_is_faster_for_a_slow_device() -> None:
    """More slowness never shortens a step, and a device's factor moves it by no more than the factor."""
    for plan in ("pipeline=4,micro_batch=4", "pipeline=4,micro_batch=4,virtual=2"):
        seconds = [by_hand(ts.Plan.load(plan), 16, {0: one})[0] for one in (1.0, 1.1, 1.5, 3.0)]
        assert seconds == sorted(seconds)
        assert all(after < factor * seconds[0] for after, factor in zip(seconds[1:], (1.1, 1.5, 3.0), strict=True))


@pytest.mark.parametrize("slow", [{}, {3: 1.5}])
def test_a_search_prices_unlike_stages_as_a_step(slow: dict[int, float]) -> None:
    """Nothing that bounds leave out would have been listed; 18 layers divide over 4 and 8 stages unevenly."""
    work = ts.workloads.transformer_step(18, 2048, 16, 50257, 1024, 32)
    faults = [{"device": device, "compute": 1 / factor} for device, factor in slow.items()]
    cluster = ts.Cluster("a100", [NODE], faults=faults)
    pruned, all_ = (ts.cluster.search(work, cluster, confirm=0, exhaustive=one, keep=20) for one in (False, True))
    assert pruned.seconds == all_.seconds and pruned.plans == all_.plans
    assert list(pruned.map()) == list(all_.map())
    uneven = [(plan, seconds) for plan, seconds in zip(all_.plans, all_.seconds, strict=True) if plan.pipeline > 1]
    for plan, seconds in uneven[:3]:
        assert ts.cluster.step(work, cluster, plan, check_memory=False).seconds == pytest.approx(seconds, rel=1e-9)
