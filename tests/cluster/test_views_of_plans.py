"""Views of steps beside plain training: offloads, other schedules, slow devices, prefill and decode, routed experts."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.advice import adjacent_plans

WORK = ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 64, dtype="bf16")
ROUTED = ts.workloads.transformer_step(
    24, 2048, 16, 50257, 1024, 64, dtype="bf16", experts=(8, 2), routing=[1, 1, 1, 1, 1, 1, 1, 9]
)
CHAT = {
    phase: ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 64, 5632, True, 4, dtype="bf16", phase=phase)
    for phase in ("prefill", "decode")
}
NODE = {"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 300e9, "latency_seconds": 1e-6}
SLOW = ts.Cluster("a100", [NODE], faults=[{"device": 5, "compute": 0.7}])
HOST = "dgx-h100:8"
CASES = {
    "state": (WORK, HOST, "data=8,offload=optimizer"),
    "state-divided": (WORK, HOST, "tensor=2,data=4,offload=optimizer,shard=zero1"),
    "layers": (WORK, HOST, "data=8,offload=activations"),
    "layers-again": (WORK, HOST, "tensor=2,pipeline=4,offload=activations,recompute=full"),
    "inputs": (WORK, HOST, "tensor=8,recompute=offload"),
    "gathered": (WORK, HOST, "data=8,shard=zero3,micro_batch=8"),
    "h1": (WORK, "dgx-h100:8", "pipeline=4,data=2,schedule=zb-h1"),
    "h2": (WORK, "dgx-h100:8", "pipeline=4,data=2,schedule=zb-h2"),
    "v": (WORK, "dgx-h100:8", "pipeline=4,tensor=2,schedule=zb-v"),
    "dual": (WORK, "dgx-h100:16", "pipeline=4,data=4,schedule=dualpipe"),
    "slow": (WORK, SLOW, "data=8"),
    "slow-stage": (WORK, SLOW, "pipeline=4,data=2"),
    "experts": (ROUTED, HOST, "data=8,expert=8"),
    "prefill": (CHAT["prefill"], HOST, "tensor=2,pipeline=4"),
    "prefill-parts": (CHAT["prefill"], HOST, "tensor=2,context=4,micro_batch=1"),
    "prefill-gathered": (CHAT["prefill"], HOST, "data=8,shard=zero3"),
    "decode": (CHAT["decode"], HOST, "tensor=4,pipeline=2,micro_batch=8"),
    "decode-parts": (CHAT["decode"], HOST, "tensor=2,context=4,micro_batch=64"),
    "replicas": (WORK, "dgx-a100:8", "data=8"),
    "gathered-pairs": (WORK, "dgx-a100:8", "data=8,shard=zero3,micro_batch=2"),
    "parts": (WORK, "dgx-a100:8", "tensor=2,context=4"),
    "recomputed": (WORK, "dgx-a100:32", "tensor=4,pipeline=8,sequence=true,recompute=full"),
    "gpipe": (WORK, "dgx-a100:32", "tensor=2,pipeline=4,data=4,schedule=gpipe"),
    "interleaved": (WORK, "dgx-a100:32", "tensor=2,pipeline=4,data=4,virtual=3,recompute=selective"),
    "uneven": (dataclasses.replace(WORK, layers=10), "dgx-a100:32", "tensor=2,pipeline=4,data=4"),
    "slice": (WORK, "v5p-16:32", "data=32,shard=zero3"),
}


def stepped(case: str, **options: Any) -> Any:
    work, cluster, plan = CASES[case]
    return ts.cluster.step(work, cluster, ts.Plan.load(plan), check_memory=False, **options)


def written(result: Any, folder: Path) -> Any:
    result.timeline(folder / "t.json")
    return json.loads((folder / "t.json").read_text(encoding="utf-8"))


def slices(value: Any) -> list[dict[str, Any]]:
    return [one for one in value["traceEvents"] if one["ph"] == "X"]


@pytest.mark.singly
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("overlap", ["library", "none"])
def test_a_breakdown_is_the_whole(case: str, overlap: str) -> None:
    result = stepped(case, overlap=overlap)
    rows = result.breakdown.rows
    assert math.fsum(row["seconds"] for row in rows) == pytest.approx(result.seconds, rel=1e-9)
    assert math.fsum(row["share"] for row in rows) == pytest.approx(1, rel=1e-9)
    exposed = math.fsum(row["seconds"] for row in rows if row["dimension"])
    assert exposed == pytest.approx(result.exposed_seconds, rel=1e-9, abs=1e-15)
    for part, value in result.parts.items():
        own = math.fsum(row["seconds"] for row in rows if row["part"] == part)
        assert own == pytest.approx(value, rel=1e-9, abs=1e-9 * result.seconds), part
    for row in result.communication:
        assert -1e-15 <= row["exposed_seconds"] <= row["seconds"] * (1 + 1e-12), row
    assert overlap == "none" or (len(result.advice()) and result.explain())


@pytest.mark.parametrize("case", CASES)
def test_a_timeline_ends_with_the_step(case: str, tmp_path: Path) -> None:
    result = stepped(case)
    value = written(result, tmp_path)
    end = max(one["ts"] + one["dur"] for one in slices(value)) / 1e6
    assert end == pytest.approx(result.seconds, abs=3e-9)
    assert value["otherData"].get("stretched", 1) == pytest.approx(1, rel=1e-6)
    tracks = defaultdict(list)
    for one in slices(value):
        tracks[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))
    for spans in tracks.values():  # a stream does one thing at a time
        assert all(end <= begin + 2e-3 for (_, end), (begin, _) in itertools.pairwise(sorted(spans)))
    assert {one["pid"] for one in slices(value)} == set(range(1, result.plan.pipeline + 1))


def test_a_period_holds_all_passes(tmp_path: Path) -> None:
    """Stages of zb-h2 go on with the next step while others end this one: a period has each pass of each stage once,
    the optimizer behind the stage's own last pass."""
    work = ts.workloads.transformer_step(16, 2048, 16, 32000, 2048, 64, dtype="bf16")
    plan = ts.Plan(pipeline=4, schedule="zb-h2", recompute="selective", shard="zero1")
    result = ts.cluster.step(work, "tpu-v4:4", plan, check_memory=False)
    value = written(result, tmp_path)
    assert max(one["ts"] + one["dur"] for one in slices(value)) / 1e6 == pytest.approx(result.seconds, abs=3e-9)
    assert "step of many" in value["otherData"]["note"]
    for stage, (order, starts, ends) in enumerate(
        zip(result.pipe.passes, result.pipe.times.starts, result.pipe.times.ends, strict=True)
    ):
        own = [one for one in slices(value) if one["pid"] == stage + 1 and one["tid"] == 1]
        passes = [one for one in own if "gradient " in one["name"] or "forward" in one["name"]]
        assert len({one["name"].removesuffix(" (goes on)") for one in passes}) == len(order)
        busy = sum(end - start for start, end in zip(starts, ends, strict=True)) / 1e6  # microseconds
        assert sum(one["dur"] for one in passes) == pytest.approx(busy, abs=2e-3 * len(passes))
        update = [one for one in own if one["name"].startswith("optimizer")]
        assert sum(one["dur"] for one in update) == pytest.approx(result.parts["optimizer"] * 1e6, abs=5e-3)
        assert min(one["ts"] for one in own) >= 0


def test_bytes_of_the_host_by_hand() -> None:
    """Two moments and a master copy, 12 bytes of a parameter, out and back; 34 bytes per token and width of a layer
    (Korthikanti et al.), out forward and back backward."""
    parameters = 24 * WORK.layer_parameters + 50257 * 2048
    row = next(row for row in stepped("state").communication if row["axis"] == "offload")
    assert (row["when"], row["dimension"], row["calls"], row["devices"]) == ("end", "host", 2, 1)
    assert row["bytes"] == pytest.approx(12 * parameters, rel=1e-9) and row["wire_bytes"] == 2 * row["bytes"]
    rows = {row["when"]: row for row in stepped("layers").communication if row["axis"] == "offload"}
    assert set(rows) == {"forward", "backward"}
    assert rows["forward"]["calls"] == rows["backward"]["calls"] == 24 * 8
    statistics = 4 * 16 * 1024  # of attention, f32, a number per head and token
    assert rows["forward"]["bytes"] == rows["backward"]["bytes"] == 34 * 1024 * 2048 + statistics


def test_decode_sums_parts_of_its_cache() -> None:
    """No keys and values go round; each token's outputs and two numbers per head are summed, f32."""
    rows = [row for row in stepped("decode-parts").communication if row["axis"] == "context"]
    assert [(row["operation"], row["calls"]) for row in rows] == [("all_reduce", 24)]
    assert rows[0]["bytes"] == 64 * 16 / 2 * (4 * 128 + 8)
    (ring,) = [row for row in stepped("prefill-parts").communication if row["axis"] == "context"]
    assert (ring["operation"], ring["calls"]) == ("permute", 24 * 64 * 3)
    assert ring["bytes"] == 2 * 1024 / 4 * 2 * 128 * 2


def test_the_fullest_expert_sets_the_bytes() -> None:
    """Nine of sixteen tokens go to one of eight devices: 4.5 times the mean."""
    uneven = stepped("experts")
    even = ts.cluster.step(
        dataclasses.replace(ROUTED, routing=None), HOST, ts.Plan(data=8, expert=8), check_memory=False
    )
    sent = [next(row["bytes"] for row in one.communication if row["axis"] == "expert") for one in (uneven, even)]
    assert sent[0] == pytest.approx(4.5 * sent[1], rel=1e-6)


def test_a_micro_batch_passes_a_v_twice() -> None:
    once, twice = stepped("h1"), stepped("v")
    calls = [next(row["calls"] for row in one.communication if row["axis"] == "pipeline") for one in (once, twice)]
    assert calls == [2 * 32, 4 * 64]


def test_the_slow_stage_waits(tmp_path: Path) -> None:
    """Device 5 lies on the third of four stages."""
    named = [one for one in slices(written(stepped("slow-stage"), tmp_path)) if "slow device" in one["name"]]
    assert {one["pid"] for one in named} == {3} and len(named) == 64  # forward and back


def test_a_host_of_twice_the_rate_is_advised() -> None:
    gains = {row["change"]: row for row in stepped("state").advice()}
    row = gains["bandwidth to the host x 2"]
    assert row["kind"] == "network" and 0 < row["gain"] < stepped("state").parts["offload"] / stepped("state").seconds
    assert not any("host" in row["change"] for row in stepped("gathered").advice())


def program() -> Any:
    b = ts.GraphBuilder("two products", dtype="bf16")
    x = b.input("x", (2048, 4096))
    up, down = b.input("up", (4096, 8192)), b.input("down", (8192, 4096))
    b.output(b.matmul(b.matmul(x, up, name="h"), down), "y")
    return ts.partition(b.build(), mesh={"d": 8}, shardings={"up": (None, "d"), "down": ("d", None)})


def test_views_of_a_program(tmp_path: Path) -> None:
    found = ts.cluster.step(program(), "dgx-h100:8", overlap="none")
    rows = found.breakdown.rows
    assert math.fsum(row["seconds"] for row in rows) == pytest.approx(found.seconds, rel=1e-9)
    exposed = math.fsum(row["seconds"] for row in rows if row["dimension"])
    assert exposed == pytest.approx(found.exposed_seconds, rel=1e-9) and exposed > 0
    assert found.to_dict()["breakdown"] == rows
    for row in found.advice():
        other = ts.cluster.step(program(), "dgx-h100:8", overlap=row["change"].removeprefix("overlap="))
        assert other.seconds == row["seconds"] and row["gain"] > 0
    found.timeline(tmp_path / "t.json")
    with pytest.raises(ts.UserError, match="json"):
        found.timeline(tmp_path / "t.pftrace")


def test_slow_devices_of_a_cluster_slow_programs_and_plans() -> None:
    """A fault of the cluster and an argument of the call say the same."""
    node = {**NODE, "name": "node"}
    slow, whole = (ts.Cluster("a100", [node], faults=one) for one in ([{"device": 5, "compute": 0.5}], []))
    for work, plan in ((program(), None), (WORK, ts.Plan(data=8))):
        by_fault, by_call, at_rate = (
            ts.cluster.step(work, cluster, plan, check_memory=False, slow=factors)
            for cluster, factors in ((slow, None), (whole, {5: 2.0}), (whole, None))
        )
        assert by_fault.seconds == by_call.seconds > 1.2 * at_rate.seconds
        both = ts.cluster.step(work, slow, plan, check_memory=False, slow={5: 2.0})
        assert both.seconds > 1.2 * by_call.seconds
        for device, factor in ((np.int64(5), np.float64(2.0)), (np.uint8(5), 2)):
            found = ts.cluster.step(work, whole, plan, check_memory=False, slow={device: factor})
            assert found.seconds == by_call.seconds
        for wrong in ({8: 2.0}, {-1: 2.0}, {1: 0.5}, {1: math.inf}, {1: math.nan}):
            with pytest.raises(ts.UserError, match=r"slow: not a slow device.*from 0 to 7.*at least 1"):
                ts.cluster.step(work, whole, plan, slow=wrong)
        for key in ("0", "a", True, 1.0, None):
            with pytest.raises(ts.UserError, match=r"slow, a key: not a whole number \(got .*: a whole number\)"):
                ts.cluster.step(work, whole, plan, slow={2: 1.5, key: 2.0})


def divided(width: int = 8192) -> Any:
    b = ts.GraphBuilder("two products", dtype="bf16")
    x, up, down = b.input("x", (4096, 4096)), b.input("up", (4096, width)), b.input("down", (width, 4096))
    b.output(b.matmul(b.matmul(x, up), down), "y")
    shardings = {"x": ("d",), "up": (None, "t"), "down": ("t", None)}
    return b.build(), shardings


def test_programs_scale_by_dividing_again(tmp_path: Path) -> None:
    graph, shardings = divided()
    spmd = ts.partition(graph, {"d": 2, "t": 2}, shardings)
    found = ts.cluster.scaling(spmd, "dgx-h100", [16, 1, 4])
    assert [row["devices"] for row in found] == [1, 4, 16]
    assert found[0]["seconds"] is None and "1 devices are not a multiple" in found[0]["reason"]
    for row, mesh in zip(found.rows[1:], ({"d": 2, "t": 2}, {"d": 8, "t": 2}), strict=True):
        alone = ts.cluster.step(ts.partition(graph, mesh, shardings), f"dgx-h100:{row['devices']}")
        assert (row["seconds"], row["peak_bytes"]) == (alone.seconds, alone.peak_bytes)
    assert found[2]["efficiency"] == pytest.approx(found[1]["seconds"] / found[2]["seconds"] / 4)
    wide = ts.cluster.scaling(spmd, "dgx-h100", [8], axis="t")
    mesh = {"d": 2, "t": 4}
    assert wide[0]["seconds"] == ts.cluster.step(ts.partition(graph, mesh, shardings), "dgx-h100:8").seconds
    named = ts.cluster.scaling("resnet18", "dgx-h100", [1, 8])  # a batch per device
    # gradients pass beside the backward pass, in which devices compute at 80 % of their rate
    assert named.grows and 0.8 < named[1]["efficiency"] <= 1.0
    assert "batches of a device" in named.plot().get_ylabel()
    spmd.save(tmp_path / "a.spmd.json")
    with pytest.raises(ts.UserError, match="a fixed number of devices"):
        ts.cluster.scaling(str(tmp_path / "a.spmd.json"), "dgx-h100", [4])
    for wrong in ({"axis": "u"}, {"plan": ts.Plan()}, {"grow_batch": True}):
        with pytest.raises(ts.UserError):
            ts.cluster.scaling(spmd, "dgx-h100", [4], **wrong)
    with pytest.raises(ts.UserError, match="does not apply"):
        ts.cluster.scaling("llama-3-8b", "dgx-h100", [64], axis="d")


def test_programs_that_do_not_fit_are_errors() -> None:
    graph, shardings = divided(1 << 23)  # 64 GiB of each weight
    spmd = ts.partition(graph, {"d": 1, "t": 2}, shardings)
    with pytest.raises(ts.UserError, match=r"program does not fit into memory .*bytes, .*GiB: .*of one h100"):
        ts.cluster.step(spmd, "dgx-h100:2")
    result = ts.cluster.step(spmd, "dgx-h100:2", check_memory=False)
    assert not result.fits and not result.to_dict()["fits"] and result.peak_bytes > result.memory_bytes
    found = ts.cluster.scaling(spmd, "dgx-h100", [2, 8], axis="t")
    assert found[0]["seconds"] is None and "does not fit" in found[0]["reason"] and found[1]["seconds"]


def test_advice_leaves_a_field_that_stays() -> None:
    def told(plan: str) -> list[str]:
        return [text for text, _ in adjacent_plans(ts.Plan.load(plan))]

    assert not any("sequence=false" in one for one in told("tensor=2,data=4"))
    assert any("tensor=1" in one and "sequence=false" in one for one in told("tensor=2,data=4,sequence=true"))
    for text, plan in adjacent_plans(ts.Plan.load("tensor=4,pipeline=2,data=4,sequence=true,micro_batch=2")):
        start = ts.Plan.load("tensor=4,pipeline=2,data=4,sequence=true,micro_batch=2")
        for pair in text.split(","):
            name = pair.partition("=")[0]
            assert getattr(plan, name) != getattr(start, name), text
