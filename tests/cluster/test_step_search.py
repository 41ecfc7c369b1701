"""Search over plans: as many as there are, the best as one by one, what is said where nothing fits."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster import searching

WORK = ts.workloads.transformer_step(12, 1536, 12, 32000, 1024, 24, dtype="f16", attention="unfused")


def by_hand(devices: int) -> list[ts.Plan]:
    """Every plan, tried one by one."""
    found = []
    sizes = [one for one in range(1, devices + 1) if devices % one == 0]
    for tensor, pipeline, context in itertools.product(sizes, repeat=3):
        data, rest = divmod(devices, tensor * pipeline * context)
        if rest or not data:
            continue
        axes = itertools.product(
            range(1, 25), range(1, 13), ("1f1b", "gpipe"), (False, True), ("none", "zero1", "zero2", "zero3"),
            ("none", "selective", "full"),
        )  # fmt: skip
        for micro, virtual, schedule, sequence, shard, recompute in axes:
            if (sequence and tensor == 1) or (shard != "none" and data * context == 1):
                continue
            if (schedule == "gpipe" or virtual > 1) and pipeline == 1:
                continue
            if (schedule == "gpipe" and virtual > 1) or (shard in ("zero2", "zero3") and pipeline > 1):
                continue
            plan = ts.Plan(
                tensor, pipeline, data, context, sequence=sequence, virtual=virtual, schedule=schedule, shard=shard,
                micro_batch=micro, recompute=recompute,
            )  # fmt: skip
            if not plan.reasons(WORK, devices):
                found.append(plan)
    return found


def test_the_best_of_all() -> None:
    study = ts.cluster.search(WORK, "dgx-a100:4", framework="unfitted")
    plans = by_hand(4)
    assert study.evaluated == len(plans) == len(set(plans))
    room = ts.Device.load("a100").memory.bytes
    results: list[Any] = [
        ts.cluster.step(WORK, "dgx-a100:4", plan, framework="unfitted", check_memory=False) for plan in plans[::7]
    ]
    best = min(result.seconds for result in results if result.peak_bytes <= room)
    assert study.best.seconds <= best
    assert study.best.seconds == pytest.approx(study.seconds[0], rel=1e-12)
    assert study.best.peak_bytes == pytest.approx(study.peak_bytes[0], abs=8)


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
    whole = ts.cluster.search(WORK, "dgx-a100:8")
    assert ts.cluster.search(WORK, "dgx-a100:8", budget=100).evaluated == 100
    other = ts.cluster.search(WORK, "dgx-a100:8", executor=InTurn())
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
    monkeypatch.setattr(searching, "CHUNK", 500)
    whole = ts.cluster.search(WORK, "dgx-a100:8")
    parts = -(-whole.evaluated // 500)
    assert parts > 4
    with pytest.raises(KeyboardInterrupt):
        ts.cluster.search(WORK, "dgx-a100:8", executor=Interrupted(3), store=tmp_path / "s")
    rest = Interrupted(10**9)
    found = ts.cluster.search(WORK, "dgx-a100:8", executor=rest, store=tmp_path / "s")
    assert rest.done == parts - 3
    assert (found.plans, found.seconds, found.peak_bytes) == (whole.plans, whole.seconds, whole.peak_bytes)
    again = Interrupted(0)
    assert ts.cluster.search(WORK, "dgx-a100:8", executor=again, store=tmp_path / "s").seconds == whole.seconds
    with pytest.raises(KeyboardInterrupt):  # another cluster, framework or workload is another search
        ts.cluster.search(WORK, "dgx-h100:8", executor=again, store=tmp_path / "s")
    with pytest.raises(KeyboardInterrupt):
        ts.cluster.search(WORK, "dgx-a100:8", executor=again, store=tmp_path / "s", framework="unfitted")


def test_what_the_second_lacks() -> None:
    study = ts.cluster.search(WORK, "dgx-a100:8")
    told = study.explain()
    assert study.plans[0].text() in told and f"second, {study.plans[1].text()}" in told


def test_nothing_to_find() -> None:
    with pytest.raises(ts.UserError, match="number of devices"):
        ts.cluster.search(WORK, "dgx-a100")
    with pytest.raises(ts.UserError, match="no plan divides"):
        ts.cluster.search(WORK, "dgx-a100:13")
    huge = ts.workloads.transformer_step(96, 12288, 96, 51200, 2048, 8)
    study = ts.cluster.search(huge, "dgx-a100:8")
    with pytest.raises(ts.UserError, match=r"no plan fits into memory .*plans"):
        _ = study.best
