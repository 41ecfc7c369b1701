"""Search over plans: as many as there are, the best as one by one, what is said where nothing fits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim
from tilesim.cluster import plan as ts_plan
from tilesim.cluster import searching
from tilesim.cluster.advice import replaced
from tilesim.cluster.fabric import fabric_of
from tilesim.cluster.searches.candidates import canonical

WORK = ts.workloads.transformer_step(12, 1536, 12, 32000, 1024, 24, dtype="f16", attention="unfused")
SMALL = ts.workloads.transformer_step(8, 768, 12, 32000, 512, 16, dtype="f16", attention="unfused")


def by_hand(devices: int, work: Any) -> list[ts.Plan]:
    """Every plan, tried one by one; what does the same once."""
    found: dict[ts.Plan, None] = {}
    sizes = [one for one in range(1, devices + 1) if devices % one == 0]
    for tensor, pipeline, context in itertools.product(sizes, repeat=3):
        data, rest = divmod(devices, tensor * pipeline * context)
        if rest or not data:
            continue
        axes = itertools.product(
            range(1, work.global_batch + 1), range(1, work.layers + 1), ts_plan.SCHEDULES, (False, True),
            ("none", "zero1", "zero2", "zero3"),
            ts_plan.RECOMPUTE, ts_plan.OFFLOAD, ts_plan.CONTEXTS[: 1 + (context > 1)],
        )  # fmt: skip
        for micro, virtual, schedule, sequence, shard, recompute, offload, kind in axes:
            if (schedule == "interleaved") != (virtual > 1) or (pipeline == 1 and schedule != "1f1b"):
                continue
            if (sequence and tensor == 1) or (shard != "none" and data * context * (1 + (schedule == "dualpipe")) == 1):
                continue
            plan = ts.Plan(
                tensor, pipeline, data, context, sequence=sequence, virtual=virtual, schedule=schedule, shard=shard,
                micro_batch=micro, recompute=recompute, offload=offload, context_kind=kind,
            )  # fmt: skip
            if not plan.reasons(work, devices):
                found[canonical(plan, work)] = None
    return list(found)


@pytest.mark.parametrize(("work", "apart"), [(SMALL, 97), pytest.param(WORK, 7, marks=pytest.mark.slow)])
def test_the_best_of_all(work: Any, apart: int) -> None:
    study = ts.cluster.search(work, "dgx-a100:4", framework="unfitted")
    plans = by_hand(4, work)
    assert study.evaluated == len(plans)
    assert {canonical(plan, work) for plan in study.plans} <= set(plans)
    room = ts.Device.load("a100").memory.bytes
    results: list[Any] = [
        ts.cluster.step(work, "dgx-a100:4", plan, framework="unfitted", check_memory=False) for plan in plans[::apart]
    ]
    best = min(result.seconds for result in results if result.peak_bytes <= room)
    assert study.best.seconds <= best
    assert study.best.seconds == pytest.approx(study.seconds[0], rel=1e-12)
    assert study.best.peak_bytes == pytest.approx(study.peak_bytes[0], abs=8)


def test_two_spellings_of_one_plan() -> None:
    flash = ts.workloads.transformer_step(8, 1024, 8, 32000, 1024, 16)
    for first, second in (
        ("tensor=2,data=2", "tensor=2,data=2,recompute=selective"),
        ("data=4,recompute=full,offload=activations", "data=4,recompute=offload"),
        ("pipeline=4,micro_batch=16", "pipeline=4,micro_batch=16,schedule=gpipe"),
    ):
        plans = [ts.Plan.load(text) for text in (first, second)]
        assert len({canonical(plan, flash) for plan in plans}) == 1
        one, other = (ts.cluster.step(flash, "dgx-a100:4", plan, check_memory=False) for plan in plans)
        assert (one.seconds, one.memory) == (other.seconds, other.memory)
    stored = ts.workloads.transformer_step(8, 1024, 8, 32000, 1024, 16, attention="unfused")
    assert canonical(ts.Plan(data=4, recompute="selective"), stored).recompute == "selective"
    listed = ts.cluster.search(flash, "dgx-a100:4", keep=10**6, exhaustive=True)
    assert len(set(listed.plans)) == len(listed.plans) == listed.fits
    tried = {name: {getattr(plan, name) for plan in listed.plans} for name in ("schedule", "offload", "recompute")}
    assert tried["schedule"] == set(ts_plan.SCHEDULES)
    assert tried["offload"] == set(ts_plan.OFFLOAD)


def random_search(random: Any) -> tuple[Any, Any]:
    """A small workload, and a cluster whose memory holds some of its plans."""
    heads = int(random.choice([4, 8, 12]))
    work = ts.workloads.transformer_step(
        int(random.choice([4, 6, 8])), heads * 128, heads, 32000, int(random.choice([1024, 4096])),
        int(random.choice([8, 12, 16])), attention=str(random.choice(["flash", "unfused"])),
        phase=str(random.choice(["train", "train", "train", "prefill", "decode"])),
        experts=((4, 2), None, None)[int(random.integers(3))],
    )  # fmt: skip
    size = int(random.choice([2, 4, 8]))
    network = [{"kind": "switch", "size": size, "bandwidth_bytes_per_second": float(10 ** random.uniform(9, 12)),
                "latency_seconds": float(10 ** random.uniform(-7, -5))},
               {"kind": "switch", "size": 8 // size, "bandwidth_bytes_per_second": float(10 ** random.uniform(9, 11)),
                "latency_seconds": 5e-6}]  # fmt: skip
    device = ts.Device.load(str(random.choice(["a100", "h100", "l40s", "tpu-v5e"])))
    small = replaced(device, levels=(*device.levels[:-1], replace(
        device.memory, bytes=float(random.choice([4e9, 8e9, 16e9, 64e9])))))  # fmt: skip
    host = float(random.choice([0, 8e9, 64e9])) or None
    return work, ts.Cluster(small, network[: 1 + (size < 8)], host_bytes_per_second=host)


@pytest.mark.parametrize("seed", range(12))
def test_pruning_loses_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    work, cluster = random_search(random)
    framework = str(random.choice(["unfitted", "megatron", "fsdp", "xla"])) if work.phase == "train" else None
    keep = int(random.choice([1, 10]))
    all_, some = (
        ts.cluster.search(work, cluster, framework=framework, keep=keep, exhaustive=every, confirm=0)
        for every in (True, False)
    )
    assert all_.priced == all_.fits == some.fits
    assert (some.evaluated, some.least_bytes) == (all_.evaluated, all_.least_bytes)
    assert some.plans == all_.plans
    assert some.seconds == all_.seconds
    assert some.peak_bytes == all_.peak_bytes
    assert list(some.map()) == list(all_.map())
    if all_.fits > 5000:
        assert some.priced < all_.priced
    best = searching.study(work, cluster, fabric_of(cluster), framework=framework, best_alone=True)
    assert best.seconds[:1] == all_.seconds[:1]


def test_orders_of_many_plans_at_once() -> None:
    study = ts.cluster.search(SMALL, "dgx-a100:8", keep=10**6, exhaustive=True, confirm=0)
    seen: dict[str, int] = {}
    for plan, seconds in zip(study.plans, study.seconds, strict=True):
        if plan.schedule in ("zb-h1", "zb-h2", "zb-v", "dualpipe") and seen.setdefault(plan.schedule, 0) < 8:
            seen[plan.schedule] += 1
            assert ts.cluster.step(SMALL, "dgx-a100:8", plan).seconds == pytest.approx(seconds, rel=1e-12)
    assert len(seen) == 4


def test_the_best_are_run_again_with_flows() -> None:
    study = ts.cluster.search(WORK, "dgx-a100:16", confirm=2)
    assert [row["plan"] for row in study.confirmed] == [plan.text() for plan in study.plans[:2]]
    for row, plan in zip(study.confirmed, study.plans, strict=False):
        assert row["flows_seconds"] == ts.cluster.step(WORK, "dgx-a100:16", plan, network_model="flows").seconds
        assert row["flows_seconds"] == pytest.approx(row["seconds"], rel=0.25)
        assert f"{row['flows_seconds'] * 1e3:,.1f} ms as flows" in study.explain()
    alone = ts.Plan(tensor=4, micro_batch=24)  # one group of a switch: flows are the form, but for its rounding
    closed, flows = (ts.cluster.step(WORK, "dgx-a100:4", alone, network_model=name) for name in ("closed", "flows"))
    assert flows.parts["tensor"] == pytest.approx(closed.parts["tensor"], rel=0.02)


@pytest.mark.parametrize(("cluster", "names"), [("dgx-a100:4", {"fsdp", "megatron"}), ("tpu-v4:4", {"xla"})])
def test_frameworks_that_are_compared_are_told(cluster: str, names: set[str], tmp_path: Path) -> None:
    """Where plans differ by software too, the fastest under each is told, the same as of all plans priced."""
    work = ts.workloads.transformer_step(3, 768, 6, 32000, 512, 4, dtype="f16", attention="unfused")
    all_ = ts.cluster.search(work, cluster, exhaustive=True, keep=10**6, confirm=0, budget=600)
    study = ts.cluster.search(work, cluster, keep=1, confirm=0, budget=600)
    assert set(all_.frameworks) == names == set(study.frameworks)
    for row in list(study.table())[:8]:
        plan = ts.Plan.load(row["plan"])
        found = ts.cluster.step(work, cluster, plan, framework=row["framework"])
        assert found.seconds == pytest.approx(row["seconds"], rel=1e-12)
        assert ts.cluster.step(work, cluster, plan).framework == row["framework"]
    work.save(tmp_path / "work.json")
    outcome = tilesim(
        "cluster", "search", str(tmp_path / "work.json"), "--cluster", cluster, "--best", "1", "--budget", "600"
    )
    printed = "".join(outcome.stdout.split())
    for name in names:
        best = next(row for row in all_.table() if row["framework"] == name)
        assert best in list(study.table())
        line = f"fastest under {name}: {best['plan']}: {best['seconds'] * 1e3:,.1f} ms"
        assert (line in study.explain()) == (line.replace(" ", "") in printed) == (len(names) > 1)
    one = ts.cluster.search(work, cluster, framework=min(names), confirm=0, budget=600)
    assert set(one.frameworks) == {min(names)} and "fastest under" not in one.explain()
    if len(names) > 1:
        assert "framework=fsdp" in printed and "framework=megatron" in printed


def test_front() -> None:
    study = ts.cluster.search(WORK, "dgx-a100:8", keep=5)
    front = list(study.pareto())
    assert front[0]["seconds"] == study.seconds[0]
    for a, b in itertools.pairwise(front):
        assert a["seconds"] <= b["seconds"]
        assert a["peak_bytes"] > b["peak_bytes"]
    assert min(study.peak_bytes) == front[-1]["peak_bytes"]


class InTurn:
    def map(self, function: Any, items: Any) -> Any:
        return [function(item) for item in items]


def test_budget_and_executor() -> None:
    whole = ts.cluster.search(SMALL, "dgx-a100:8")
    cut = ts.cluster.search(SMALL, "dgx-a100:8", budget=50)
    assert (cut.evaluated, cut.legal) == (50, whole.legal) and whole.legal == whole.evaluated
    assert f"50 of {whole.legal:,} plans" in cut.explain() and "budget" not in whole.explain()
    other = ts.cluster.search(SMALL, "dgx-a100:8", executor=InTurn())
    assert other.plans == whole.plans
    assert other.seconds == whole.seconds


class Interrupted(InTurn):
    """An executor that dies after some parts."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.done = 0

    def map(self, function: Any, items: Any) -> Any:
        for item in items:
            if self.done == self.parts:
                raise KeyboardInterrupt
            self.done += 1
            yield function(item)


def test_an_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = ts.workloads.transformer_step(4, 512, 4, 32000, 512, 4, dtype="f16", attention="unfused")
    monkeypatch.setattr(searching, "CHUNK", 1000)
    counted = Interrupted(10**9)
    whole = ts.cluster.search(work, "dgx-a100:8", executor=counted)
    parts = counted.done
    assert parts > 4
    with pytest.raises(KeyboardInterrupt):
        ts.cluster.search(work, "dgx-a100:8", executor=Interrupted(3), store=tmp_path / "s")
    rest = Interrupted(10**9)
    found = ts.cluster.search(work, "dgx-a100:8", executor=rest, store=tmp_path / "s")
    assert rest.done == parts - 3
    assert (found.plans, found.seconds, found.peak_bytes) == (whole.plans, whole.seconds, whole.peak_bytes)
    again = Interrupted(0)
    assert ts.cluster.search(work, "dgx-a100:8", executor=again, store=tmp_path / "s").seconds == whole.seconds
    with pytest.raises(KeyboardInterrupt):  # another cluster, framework or workload is another search
        ts.cluster.search(work, "dgx-h100:8", executor=again, store=tmp_path / "s")
    with pytest.raises(KeyboardInterrupt):
        ts.cluster.search(work, "dgx-a100:8", executor=again, store=tmp_path / "s", framework="unfitted")


def test_what_the_second_lacks() -> None:
    study = ts.cluster.search(WORK, "dgx-a100:8")
    told = study.explain()
    assert study.plans[0].text() in told and f"second, {study.plans[1].text()}" in told


def test_nothing_to_find() -> None:
    with pytest.raises(ts.UserError, match="number of devices"):
        ts.cluster.search(WORK, "A100-cluster-800G")
    with pytest.raises(ts.UserError, match="no legal plan"):
        ts.cluster.search(WORK, "A100-cluster-800G:13")
    huge = ts.workloads.transformer_step(96, 12288, 96, 51200, 2048, 8)
    study = ts.cluster.search(huge, "dgx-a100:8")
    with pytest.raises(ts.UserError, match=r"no plan fits into memory .*plans"):
        _ = study.best
