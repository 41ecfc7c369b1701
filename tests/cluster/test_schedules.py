"""Steps whose schedules divide the backward pass: published forms, what they hold, what they refuse."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.closed import StepTimes, times
from tilesim.cluster.columns import columns
from tilesim.cluster.fabric import Fabric
from tilesim.cluster.frameworks import Framework
from tilesim.cluster.memory import held_micro_batches, memory
from tilesim.cluster.pipelines.stages import Stages, carried_out
from tilesim.cluster.stepping import pricer

WORK = ts.workloads.transformer_step(32, 2048, 16, 50257, 1024, 32, dtype="f16", attention="unfused")
SMALL = dataclasses.replace(WORK, vocab=1)  # next to no head: stages are equal
NODE = Fabric(ts.Device.load("a100"), 8, 300e9, 200e9)
FREE = {"host_pass": 0.0, "host_straggler": 0.0, "host_microbatch": 0.0, "host_step": 0.0, "host_blend": 100.0}
IDEAL = {**Framework.load("unfitted").constants, **FREE}


def found(plan: ts.Plan, work: Any = SMALL) -> StepTimes:
    return times(columns([(work, plan)]), pricer(NODE.device, work.dtype), NODE, IDEAL)


def parts_of(plan: ts.Plan, work: Any = SMALL) -> tuple[float, float, float]:
    """Forward, input and weight gradient of a stage, from a step of one stage more than enough: by its parts."""
    whole = found(plan, work)
    layers = work.layers / plan.pipeline
    weight = layers * float(whole.work.weight_products[0])
    forward, backward = float(whole.stage_forward[0]), float(whole.stage_backward[0])
    return forward, backward - weight, weight


def seconds(plan: ts.Plan, work: Any = SMALL) -> float:
    result = found(plan, work)
    return float((result.seconds - result.optimizer - result.data)[0])


@pytest.mark.parametrize(("stages", "batch"), [(2, 4), (4, 8), (8, 16)])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_carried_out_and_summed_are_the_same(stages: int, batch: int, schedule: str) -> None:
    """The order of passes one by one, and (m + p − 1)(F + B)."""
    work = dataclasses.replace(SMALL, global_batch=batch)
    plan = ts.Plan(pipeline=stages, schedule=schedule)
    result, c = found(plan, work), columns([(work, plan)])
    forward, inputs, weights = parts_of(plan, work)
    layer = work.layers / stages
    zero = result.seconds * 0
    passes = [zero + one / layer for one in (forward, inputs, weights)]
    of = Stages(*passes, *[zero] * 4, *passes[:2])
    pipe = carried_out(schedule, 0, c, of)
    assert pipe.seconds == pytest.approx((batch + stages - 1) * (forward + inputs + weights), rel=1e-6)
    assert pipe.seconds == pytest.approx(seconds(plan, work), rel=0.01)


@pytest.mark.parametrize(("stages", "batch"), [(2, 8), (4, 8), (4, 32), (8, 32)])
def test_zero_bubble_between_its_bounds(stages: int, batch: int) -> None:
    """No stage does less than its passes, and no schedule is worse than the one that it replaces."""
    work = dataclasses.replace(SMALL, global_batch=batch)
    usual = seconds(ts.Plan(pipeline=stages), work)
    forward, inputs, weights = parts_of(ts.Plan(pipeline=stages), work)
    least = batch * (forward + inputs + weights)
    first, second = (seconds(ts.Plan(pipeline=stages, schedule=name), work) for name in ("zb-h1", "zb-h2"))
    assert least * (1 - 1e-6) <= second <= first * (1 + 1e-6) <= usual * (1 + 1e-6)
    # the published bubble, for passes of one length: (p − 1)(F + I − W); F, I and W differ here by less than F
    assert first - least <= (stages - 1) * (forward + inputs + abs(forward - weights) + abs(inputs - weights))


def test_the_published_forms_where_passes_are_of_one_length() -> None:
    one = columns([(SMALL, ts.Plan(pipeline=4, schedule=name)) for name in ("zb-h1", "zb-h2", "zb-v")])
    layer = one.layers * 0 + 1e-3 / 8  # eight layers of a stage: a millisecond
    of = Stages(layer, layer, layer, *[layer * 0] * 4, layer, layer)
    first, second, third = (carried_out(name, row, one, of) for row, name in enumerate(("zb-h1", "zb-h2", "zb-v")))
    assert first.seconds == pytest.approx((32 * 3 + 3 * (1 + 1 - 1)) * 1e-3, rel=1e-9)  # m(F+B) + (p−1)(F+I−W)
    assert second.period_seconds == pytest.approx(32 * 3 * 1e-3, rel=1e-9)
    assert 32 * 3e-3 <= third.seconds <= 32 * 3e-3 + 4 * 1e-3  # at most p passes of a chunk above m(F + B)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2", "zb-v", "dualpipe"])
def test_parts_are_the_whole(schedule: str) -> None:
    plan = ts.Plan(pipeline=4, data=2, schedule=schedule)
    result = ts.cluster.step(WORK, "dgx-a100:8", plan, check_memory=False)
    assert math.fsum(result.parts.values()) == pytest.approx(result.seconds, rel=1e-12)
    assert all(value >= -1e-9 * result.seconds for value in result.parts.values()), result.parts
    usual = ts.cluster.step(WORK, "dgx-a100:8", plan.replace(schedule="1f1b"), check_memory=False)
    assert result.parts["compute"] == pytest.approx(usual.parts["compute"], rel=1e-9)
    assert result.bubble_seconds < usual.bubble_seconds


@pytest.mark.parametrize(
    ("schedule", "held"), [("1f1b", 4), ("zb-h1", 4), ("zb-h2", 7), ("zb-v", 4), ("dualpipe", 5), ("gpipe", 32)]
)
def test_micro_batches_held(schedule: str, held: int) -> None:
    c = columns([(WORK, ts.Plan(pipeline=4, schedule=schedule))])
    assert held_micro_batches(c)[0] == held
    pipe = ts.cluster.pipeline(schedule, 4, 32, forward=1.0, backward_input=1.0, backward_weight=1.0)
    assert max(pipe.held) <= held  # what its order keeps


def test_two_copies_of_the_model() -> None:
    one, two = (ts.Plan(pipeline=4, data=2, schedule=name) for name in ("1f1b", "dualpipe"))
    single, both = (memory(columns([(WORK, plan)]), IDEAL) for plan in (one, two))
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(both, name)[0] == 2 * getattr(single, name)[0]
    single, both = (memory(columns([(WORK, plan.replace(shard="zero1"))]), IDEAL) for plan in (one, two))
    assert both.optimizer[0] == single.optimizer[0]  # divided among as many replicas more
    assert found(two, WORK).data[0] > found(one, WORK).data[0]  # each copy's gradients are summed


def test_transfers_count_twice_as_a_v() -> None:
    apart = dataclasses.replace(SMALL, tied=False)  # as a V no table is summed
    usual, vee = (found(ts.Plan(pipeline=4, schedule=name), apart) for name in ("1f1b", "zb-v"))
    assert vee.pipeline[0] == pytest.approx(2 * usual.pipeline[0])


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ("pipeline=2,schedule=zb-h1,virtual=2", "virtual stages"),
        ("pipeline=3,schedule=zb-v,data=2", "two chunks per stage"),
        ("pipeline=1,schedule=dualpipe,data=8", "even number of stages"),
        ("pipeline=8,schedule=dualpipe,micro_batch=4", "both directions"),
    ],
)
def test_sizes_that_schedules_do_not_take(plan: str, told: str) -> None:
    with pytest.raises(ts.UserError, match=told):
        parsed = ts.Plan.load(plan)
        ts.cluster.step(WORK, f"dgx-a100:{parsed.devices}", parsed)


def test_their_timeline(tmp_path: Path) -> None:
    result = ts.cluster.step(WORK, "dgx-a100:8", ts.Plan(pipeline=4, data=2, schedule="zb-h1"), check_memory=False)
    result.timeline(tmp_path / "t.json")
    spans = [one for one in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if one["ph"] == "X"]
    assert {one["name"].split(" ")[0] for one in spans} == {"forward", "input", "weight", "gradients", "optimizer"}
    assert max(one["ts"] + one["dur"] for one in spans) == pytest.approx(result.seconds * 1e6, abs=1e-3)
    for stage in range(4):
        own = sorted((one["ts"], one["dur"]) for one in spans if one["pid"] == stage + 1 and one["tid"] == 1)
        assert all(a + d <= b + 1e-3 for (a, d), (b, _) in itertools.pairwise(own))


@pytest.mark.parametrize(("data", "devices"), [(1, 4), (2, 8), (4, 16)])
def test_what_copies_divide_passes_between_them(data: int, devices: int) -> None:
    """zero3 over two copies alone is divided too: parameters are gathered and gradients scattered over 2 × data
    devices, inside a node where all devices are in one, as many bytes as by hand."""
    plan = ts.Plan(pipeline=4, data=data, schedule="dualpipe", shard="zero3")
    result = ts.cluster.step(WORK, f"dgx-a100:{devices}", plan, check_memory=False)
    own = [row for row in result.communication if row["axis"] == "data"]
    rows = {(row["when"], row["operation"]): row for row in own if row["when"] != "tables"}
    assert {row["operation"]: row["devices"] for row in own if row["when"] == "tables"} == {
        "all_gather": 2 * data,
        "reduce_scatter": 2 * data,
    }
    assert rows.keys() == {("forward", "all_gather"), ("backward", "all_gather"), ("backward", "reduce_scatter")}
    members, passes = 2 * data, 32 // data * 8  # micro-batches, layers of a stage
    for row in rows.values():
        assert (row["devices"], row["dimension"]) == (members, "nodes" if devices > 8 else "node")
        wanted = passes * WORK.layer_parameters * 2 * (members - 1) / members
        assert row["wire_bytes"] == pytest.approx(wanted, rel=1e-6) and row["calls"] == passes
    whole = ts.cluster.step(WORK, f"dgx-a100:{devices}", plan.replace(shard="none"), check_memory=False)
    assert result.memory["optimizer"] * members == pytest.approx(whole.memory["optimizer"], rel=1e-6)
    summed = next(row for row in whole.communication if row["axis"] == "data")
    assert (summed["operation"], summed["devices"], summed["when"]) == ("all_reduce", members, "end")
    assert summed["dimension"] == ("nodes" if devices > 8 else "node")
