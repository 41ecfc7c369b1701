"""Bytes of a training step: the formulas of Korthikanti et al. written down here, and their published figures."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import tilesim as ts
from support.reference import table
from tilesim.cluster.columns import columns
from tilesim.cluster.frameworks import Framework
from tilesim.cluster.memory import GIB, Memory, held_micro_batches, memory

L, H, A, V, S = 24, 1024, 16, 50304, 512


def of(plan: ts.Plan, batch: int = 64, dropout: float = 1.0, **changes: object) -> Memory:
    values: dict[str, object] = {"dtype": "f16", "attention": "unfused", **changes}
    work = ts.workloads.transformer_step(L, H, A, V, S, batch, **values)  # type: ignore[arg-type]
    return memory(columns([(work, plan)]), {**Framework.load("megatron").constants, "dropout": dropout})


@pytest.mark.parametrize("tensor", [1, 2, 8])
@pytest.mark.parametrize("micro", [1, 4])
def test_layers_by_the_published_formulas(tensor: int, micro: int) -> None:
    token = S * micro * H
    scores = 5 * A * S / H
    plain = of(ts.Plan(tensor=tensor, micro_batch=micro), micro)
    assert plain.activations[0] == pytest.approx(L * token * (10 + 24 / tensor + scores / tensor), rel=1e-12)
    both = of(ts.Plan(tensor=tensor, micro_batch=micro, sequence=True, recompute="selective"), micro)
    assert both.activations[0] == pytest.approx(L * token * 34 / tensor, rel=1e-12)
    full = of(ts.Plan(tensor=tensor, micro_batch=micro, recompute="full"), micro)
    assert full.activations[0] == pytest.approx(L * token * 2, rel=1e-12)
    assert full.working[0] > plain.activations[0] / L  # the layer that is made again


@pytest.mark.parametrize(
    ("plan", "batch", "held"),
    [
        (ts.Plan(), 8, 1),
        (ts.Plan(pipeline=4), 16, 4),
        (ts.Plan(pipeline=4), 2, 2),  # fewer micro-batches than stages
        (ts.Plan(pipeline=4, schedule="gpipe"), 16, 16),
        (ts.Plan(pipeline=4, virtual=3), 16, 4 + 3 / 3),
        (ts.Plan(pipeline=8, virtual=3), 64, 8 + 7 / 3),
    ],
)
def test_micro_batches_that_are_held(plan: ts.Plan, batch: int, held: float) -> None:
    work = ts.workloads.transformer_step(L, H, A, V, S, batch)
    assert held_micro_batches(columns([(work, plan)]))[0] == held


def test_state_is_divided_as_shards_say() -> None:
    found = {shard: of(ts.Plan(data=8, shard=shard)) for shard in ("none", "zero1", "zero2", "zero3")}
    layer = 12 * H * H + 3 * H + 4 * H + 6 * H
    everything = L * layer + V * H
    assert found["none"].weights[0] == 2 * everything
    assert found["none"].optimizer[0] == 12 * everything  # master copy and two moments
    assert found["zero1"].optimizer[0] == found["none"].optimizer[0] / 8
    assert found["zero1"].gradients[0] == found["none"].gradients[0]
    assert found["zero2"].gradients[0] == found["none"].gradients[0] / 8
    assert found["zero3"].weights[0] == 2 * everything / 8 + 2 * 2 * layer  # two layers are whole
    peaks = [found[shard].peak[0] for shard in ("none", "zero1", "zero2", "zero3")]
    assert peaks == sorted(peaks, reverse=True)


def test_less_is_kept_of_less() -> None:
    peaks = [of(ts.Plan(recompute=name)).activations[0] for name in ("none", "selective", "full", "offload")]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] == 0
    assert of(ts.Plan(), dropout=0.0).activations[0] < of(ts.Plan()).activations[0]
    assert of(ts.Plan(), attention="flash").activations[0] < of(ts.Plan(recompute="selective")).peak[0]


def test_published_figures() -> None:
    rows = list(csv.DictReader(table("train_memory_gib.csv").read_text(encoding="utf-8").splitlines()))
    kept, state = [], []
    for row in rows:
        sizes = {name: int(row[name]) for name in ("tensor", "pipeline", "virtual", "micro_batch")}
        plan = ts.Plan(**sizes, recompute=row["recompute"], sequence=row["sequence_parallel"] == "1")
        extents = (int(row[name]) for name in ("layers", "hidden", "heads"))
        batch = int(row["micro_batch"]) * 512
        work = ts.workloads.transformer_step(
            *extents, 51200, int(row["sequence"]), batch, dtype="f16", attention="unfused"
        )
        found = memory(columns([(work, plan)]), Framework.load("megatron").constants)
        kept.append(found.activations[0] / GIB / float(row["activations_gib"]) - 1)
        whole = (found.middle_weights + found.middle_state)[0]
        state.append(whole / GIB / float(row["parameters_optimizer_gib"]) - 1)
    assert np.mean(np.abs(kept)) <= 0.03
    assert np.mean(np.abs(state)) <= 0.08
    assert np.max(np.abs(state)) <= 0.08


def test_a_plan_that_does_not_fit_says_how_much() -> None:
    work = ts.workloads.transformer_step(96, 12288, 96, 51200, 2048, 64, dtype="f16", attention="unfused")
    with pytest.raises(ts.UserError, match=r"does not fit .*bytes.*weights.*allowed: 85,899,345,920 bytes"):
        ts.cluster.step(work, "dgx-a100:8", ts.Plan(tensor=8))
    result = ts.cluster.step(work, "dgx-a100:8", ts.Plan(tensor=8), check_memory=False)
    assert result.peak_bytes == sum(result.memory.values()) > 80 * GIB


def test_measured_steps_fit() -> None:
    """What ran, fits: no bytes are counted that were not there."""
    from tilesim.validation.step import step

    report = step(table("train_step_ms.csv"))
    room = {"A100-40GB-cluster-1600G": 40, "A100-80GB-cluster-1600G": 80, "H100-cluster-3200G": 80}
    rows = [row for row in report["rows"] if row["system"] in room and row["status"] == "ok"]
    assert len(rows) >= 50
    wrong = [row for row in rows if row["predicted_gib"] > room[row["system"]]]
    assert len(wrong) <= 0.1 * len(rows), [(row["model"], row["system"], row["predicted_gib"]) for row in wrong]


@pytest.mark.parametrize(("layers", "pipeline"), [(8, 8), (8, 4), (4, 4), (3, 1)])
def test_what_lies_elsewhere_never_takes_more(layers: int, pipeline: int) -> None:
    """Stages of one layer too: an offloaded state leaves at most all of itself, and zero3 gathers what others hold."""
    work = ts.workloads.transformer_step(layers, 4096, 32, 32000, 2048, 16)
    constants = Framework.load("megatron").constants

    def peak(**plan: object) -> float:
        return float(memory(columns([(work, ts.Plan(pipeline=pipeline, **plan))]), constants).peak[0])  # type: ignore[arg-type]

    assert peak(offload="optimizer") < peak()
    assert peak(shard="zero3") == peak()
    assert peak(shard="zero3", data=4) < peak(data=4)
