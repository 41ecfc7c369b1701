"""Bytes of each stage by hand and by the orders of passes; the fullest is the peak, and no bubble is negative."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.pipelines.order import peak_activations as in_order

GIB = 1 << 30
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe")


def run(work: Any, devices: int, **plan: Any) -> Any:
    return ts.cluster.step(work, f"dgx-h100:{devices}", ts.Plan(**plan), framework="unfitted", check_memory=False)


def tied_or_not(tied: bool, *extents: int, **more: Any) -> Any:
    return dataclasses.replace(ts.workloads.transformer_step(*extents, **more), tied=tied)


def total(row: dict[str, Any]) -> int:
    return sum(value for name, value in row.items() if name.endswith("_bytes"))


def test_the_last_stage_has_the_logits() -> None:
    work = ts.workloads.transformer_step(32, 4096, 32, 128256, 8192, 64, 14336, True, 8)
    plan = {"pipeline": 8, "micro_batch": 16, "recompute": "full"}
    found = run(work, 8, **plan)
    first, last = found.classes[0], found.classes[-1]
    logits = 16 * 8192 * 128256 * (2 + 4)
    assert last["working_bytes"] - first["working_bytes"] == pytest.approx(logits, rel=1e-9)
    inputs = 16 * 8192 * 4096 * 2 * 4  # four layers' inputs of one micro-batch
    assert (first["activation_bytes"], last["activation_bytes"]) == (4 * inputs, inputs)
    assert last["state_bytes"] == first["state_bytes"] > found.classes[1]["state_bytes"]  # a table each
    assert found.peak_bytes == pytest.approx(total(last), abs=8) and found.peak_bytes > 120 * GIB
    with pytest.raises(ts.UserError, match="does not fit into memory"):
        ts.cluster.step(work, "dgx-h100:8", ts.Plan(**plan))


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_last_stage_of_a_forward_pass(phase: str) -> None:
    work = tied_or_not(False, 8, 256, 4, 128256, 16, 64, phase=phase)
    found = run(work, 4, pipeline=4, micro_batch=16)
    assert found.classes[-1]["working_bytes"] == 16 * 128256 * (2 + 4)
    assert all(row["working_bytes"] < found.classes[-1]["working_bytes"] / 2 for row in found.classes[:-1])
    assert found.peak_bytes == pytest.approx(total(found.classes[-1]), abs=8)


def test_uneven_caches() -> None:
    work = ts.workloads.transformer_step(10, 256, 4, 128, 1024, 64, phase="decode")
    each = 2 * 256 * 2 * 1024 * 64
    found = run(work, 4, pipeline=4)
    assert [row["cache_bytes"] for row in found.classes] == [each * layers for layers in (3, 3, 2, 2)]


@pytest.mark.parametrize(
    ("schedule", "virtual"), [*((name, 1) for name in SCHEDULES if name != "interleaved"), ("1f1b", 2)]
)
def test_what_stages_hold_is_what_their_orders_hold(schedule: str, virtual: int) -> None:
    work = ts.workloads.transformer_step(16, 256, 4, 128, 64, 16)
    alone = run(ts.workloads.transformer_step(16, 256, 4, 128, 64, 1), 1).memory["activations"] / 4
    found = run(work, 4, pipeline=4, schedule=schedule, virtual=virtual)
    name = "interleaved" if virtual > 1 else schedule
    pipe = ts.cluster.pipeline(name, 4, 16, forward=1.0, backward_input=1.0, backward_weight=1.0, virtual=virtual)
    chunks = 2 if schedule == "zb-v" else virtual
    held = [in_order(row) / chunks for row in pipe.passes]
    assert [row["activation_bytes"] / alone for row in found.classes] == pytest.approx(held, rel=1e-6)


def test_tables_that_are_not_tied() -> None:
    def weights(tied: bool, **plan: Any) -> list[int]:
        work = tied_or_not(tied, 8, 256, 4, 50000, 64, 16)
        found = run(work, plan.get("pipeline", 1), **plan)
        assert found.peak_bytes == pytest.approx(max(map(total, found.classes)), abs=8)
        return [row["state_bytes"] for row in found.classes]

    one, two = weights(True), weights(False)
    per = (two[0] - one[0]) / (50000 * 256)
    assert 14 <= per <= 18  # of a parameter: itself, its gradient, a master copy, two moments
    assert weights(True, pipeline=4) == weights(False, pipeline=4)  # first and last stage have one each
    vee = [weights(tied, pipeline=4, schedule="zb-v") for tied in (True, False)]
    assert vee[1][0] - vee[0][0] == pytest.approx(per * 50000 * 256) and vee[0][1:] == vee[1][1:]


@pytest.mark.parametrize("seed", range(40))
def test_random_stages(seed: int) -> None:
    """No bubble is negative, parts are the whole, and the peak is that of the fullest stage."""
    chosen = random.Random(seed)
    schedule, stages = chosen.choice(SCHEDULES), chosen.choice((2, 3, 4, 6, 8))
    virtual = 2 if schedule == "interleaved" else 1
    stages += stages % 2 if schedule == "dualpipe" else 0
    layers = chosen.randint(stages, 4 * stages)
    if schedule in ("zb-v", "interleaved"):
        layers = 2 * stages * chosen.randint(1, 3)
    micros = stages * chosen.choice((2, 3, 4)) if schedule in ("dualpipe", "interleaved") else chosen.randint(1, 24)
    micros += micros % 2 if schedule == "dualpipe" else 0
    vocab = chosen.choice((1, 4000, 256000))
    work = tied_or_not(chosen.random() < 0.5, layers, 1024, 16, vocab, 512, micros)
    found = run(work, stages, pipeline=stages, virtual=virtual, recompute=chosen.choice(("none", "full")),
                schedule="1f1b" if schedule == "interleaved" else schedule)  # fmt: skip
    assert found.parts["bubble"] >= 0, (schedule, stages, layers, micros, vocab)
    assert sum(found.parts.values()) == pytest.approx(found.seconds, rel=1e-9)
    assert found.peak_bytes == pytest.approx(max(map(total, found.classes)), abs=8), (schedule, stages, layers)


@pytest.mark.parametrize("layers", [6, 7, 8, 9, 10, 11, 12])
def test_a_device_of_dualpipe_has_two_parts(layers: int) -> None:
    """Part s and part p − 1 − s: all together keep two models, and one computes its parts."""
    work = ts.workloads.transformer_step(layers, 1024, 16, 4000, 512, 12)
    found = run(work, 6, pipeline=6, schedule="dualpipe")
    usual = run(work, 6, pipeline=6)
    state, single = (sum(row["state_bytes"] for row in one.classes) for one in (found, usual))
    assert state == pytest.approx(2 * single, rel=1e-9)
    parts = [layers // 6 + (stage < layers % 6) for stage in range(6)]
    most = max(parts[stage] + parts[5 - stage] for stage in range(6)) / 2
    one_layer = run(ts.workloads.transformer_step(6, 1024, 16, 4000, 512, 12), 6, pipeline=6).parts["compute"]
    assert found.parts["compute"] == pytest.approx(most * one_layer, rel=1e-9)
