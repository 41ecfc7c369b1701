"""Gradients of a table that first and last stage both have: bytes by hand, and nothing where one device has both."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts

VOCAB, HIDDEN = 64000, 1024
TIED = ts.workloads.transformer_step(16, HIDDEN, 16, VOCAB, 512, 32)
APART = dataclasses.replace(TIED, tied=False)


def run(work: Any, devices: int, plan: str, **more: Any) -> Any:
    return ts.cluster.step(work, f"dgx-h100:{devices}", ts.Plan.load(plan), check_memory=False, **more)


def table(result: Any) -> list[dict[str, Any]]:
    return [row for row in result.communication if (row["axis"], row["when"]) == ("pipeline", "end")]


@pytest.mark.parametrize("network", ["closed", "flows"])
@pytest.mark.parametrize(
    ("devices", "plan", "dimension"),
    [
        (4, "pipeline=4", "node"),
        (8, "pipeline=4,tensor=2,virtual=2", "node"),
        (16, "pipeline=4,tensor=4", "nodes"),
        (32, "pipeline=2,tensor=8,data=2,shard=zero1,schedule=gpipe", "nodes"),
        (16, "pipeline=16,schedule=zb-h1", "nodes"),
    ],
)
def test_the_sum_by_hand(devices: int, plan: str, dimension: str, network: str) -> None:
    tied, apart = (run(work, devices, plan, framework="unfitted", network_model=network) for work in (TIED, APART))
    [row] = table(tied)
    assert not table(apart)
    width = next(row for row in run(TIED, 8, "data=8", framework="unfitted").communication if row["axis"] == "data")
    bytes_ = width["bytes"] / TIED.parameters * VOCAB * HIDDEN / tied.plan.tensor
    assert (row["operation"], row["devices"], row["calls"]) == ("all_reduce", 2, 1)
    assert row["dimension"] == dimension
    assert row["bytes"] == pytest.approx(bytes_, rel=1e-6) and row["wire_bytes"] == pytest.approx(bytes_, rel=1e-6)
    rate = 450e9 if dimension == "node" else 50e9  # NVLink of a device, its adapter
    assert row["bytes"] / rate <= row["seconds"] <= 2 * row["bytes"] / rate + 1e-4
    assert row["exposed_seconds"] == row["seconds"]
    assert tied.seconds - apart.seconds == pytest.approx(row["seconds"], rel=1e-6)
    assert tied.parts["pipeline"] - apart.parts["pipeline"] == pytest.approx(row["seconds"], rel=1e-6)
    assert math.fsum(tied.parts.values()) == pytest.approx(tied.seconds, rel=1e-12)
    assert math.fsum(one["seconds"] for one in tied.breakdown.rows) == pytest.approx(tied.seconds, rel=1e-9)
    states = [one["state_bytes"] for one in tied.classes]
    assert states == [one["state_bytes"] for one in apart.classes]  # a table each, either way


@pytest.mark.parametrize("plan", ["data=8", "pipeline=4,data=2,schedule=zb-v", "pipeline=4,data=2,schedule=dualpipe"])
def test_not_where_one_device_has_both(plan: str) -> None:
    assert not table(run(TIED, 8, plan))


def test_what_replicas_divide_is_summed_in_parts() -> None:
    rows = [table(run(TIED, 16, f"pipeline=4,data=4,shard={one}", framework="unfitted")) for one in ("zero1", "zero3")]
    assert rows[0][0]["bytes"] == pytest.approx(4 * rows[1][0]["bytes"], rel=1e-6)


def test_the_first_and_the_last_stage_draw_it(tmp_path: Path) -> None:
    run(TIED, 16, "pipeline=4,tensor=4").timeline(tmp_path / "t.json")
    spans = [one for one in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if one["ph"] == "X"]
    drawn = [
        one for one in spans if one.get("args", {}).get("operation") == "all_reduce" and one["name"] == "gradients"
    ]
    assert {one["pid"] for one in drawn} == {1, 4}
