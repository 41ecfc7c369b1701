"""State, gradients and parameters of experts: over the devices that have the same ones, by counting them."""

from __future__ import annotations

from typing import Any

import pytest

import tilesim as ts

LAYERS, HIDDEN, EXPERTS, VOCAB = 8, 2048, 8, 32000
WORK = ts.workloads.transformer_step(LAYERS, HIDDEN, 16, VOCAB, 2048, 64, experts=(EXPERTS, 2))
#: of a layer: attention with normalizations, what chooses experts; one expert
SHARED = 4 * HIDDEN * HIDDEN + 3 * HIDDEN + 6 * HIDDEN + EXPERTS * HIDDEN
EXPERT = 2 * HIDDEN * 4 * HIDDEN + 4 * HIDDEN


def run(work: Any = WORK, **plan: Any) -> Any:
    return ts.cluster.step(work, "dgx-h100:8", ts.Plan(**plan), framework="unfitted", check_memory=False)


def of_data(result: Any, when: str, operation: str) -> list[tuple[int, float]]:
    return sorted(
        (row["devices"], row["bytes"])
        for row in result.communication
        if (row["axis"], row["when"], row["operation"]) == ("data", when, operation)
    )


@pytest.mark.parametrize("shard", ["zero1", "zero2", "zero3"])
@pytest.mark.parametrize("expert", [1, 2, 4, 8])
def test_all_devices_together_have_the_whole_state(expert: int, shard: str) -> None:
    every = LAYERS * (SHARED + EXPERTS * EXPERT) + VOCAB * HIDDEN
    assert every == WORK.parameters
    result = run(data=8, expert=expert, shard=shard)
    assert 8 * result.memory["optimizer"] == pytest.approx(12 * every, rel=1e-7)
    if shard != "zero1":
        gradient = run(data=8).memory["gradients"] / every
        assert 8 * result.memory["gradients"] == pytest.approx(gradient * every, rel=1e-7)


def test_two_ways_with_a_context_and_a_tensor_axis() -> None:
    found = run(tensor=2, data=2, context=2, expert=2, shard="zero1")
    mine = (LAYERS * (SHARED / 4 + EXPERTS * EXPERT / 2 / 2) + VOCAB * HIDDEN / 4) / 2
    assert found.memory["optimizer"] == pytest.approx(12 * mine, rel=1e-7)


@pytest.mark.parametrize("expert", [1, 2, 4, 8])
@pytest.mark.parametrize("phase", ["train", "decode"])
def test_gathered_is_what_others_have(expert: int, phase: str) -> None:
    work = ts.workloads.transformer_step(LAYERS, HIDDEN, 16, VOCAB, 2048, 64, experts=(EXPERTS, 2), phase=phase)
    found = run(work, data=8, expert=expert, shard="zero3")
    own = EXPERTS // expert * EXPERT
    wanted = {1: [(8, 2 * (SHARED + own))], 8: [(8, 2 * SHARED)]}.get(expert, [(8 // expert, 2 * own), (8, 2 * SHARED)])
    assert of_data(found, "forward", "all_gather") == wanted
    buffers = 2 * (SHARED + (own if expert < 8 else 0))
    kept = (LAYERS * SHARED + VOCAB * HIDDEN) / 8 + LAYERS * own / (8 // expert)
    assert found.memory["weights"] == pytest.approx(2 * (kept + buffers), rel=1e-7)
    if phase == "train":
        assert of_data(found, "backward", "reduce_scatter") == wanted


@pytest.mark.parametrize("expert", [1, 2, 8])
def test_gradients_are_summed_over_those_that_have_the_same(expert: int) -> None:
    found = run(data=8, expert=expert)
    shared, own = LAYERS * SHARED + VOCAB * HIDDEN, LAYERS * EXPERTS // expert * EXPERT
    rows = of_data(found, "end", "all_reduce")
    width = rows[-1][1] / (shared + own if expert == 1 else shared)
    assert width in (2, 4)
    wanted = {1: [(8, width * (shared + own))], 8: [(8, width * shared)]}
    assert rows == wanted.get(expert, [(8 // expert, width * own), (8, width * shared)])


def test_groups_across_nodes() -> None:
    """Two nodes, an axis of 8: the two devices with the same experts lie in different nodes, 8 pairs at once."""
    fabric = ts.Cluster.load("dgx-h100:16")
    plan = ts.Plan(data=16, expert=8)
    result = ts.cluster.step(WORK, fabric, plan, framework="unfitted", check_memory=False)
    row = next(row for row in result.communication if row["when"] == "end" and row["devices"] == 2)
    assert row["bytes"] / 50e9 <= row["seconds"] <= 2 * row["bytes"] / 50e9  # 400 Gb/s a device, both halves of the sum
    assert row["dimension"] == "nodes"


@pytest.mark.parametrize("plan", [{"data": 8}, {"pipeline": 2, "data": 4}, {"pipeline": 4, "data": 2, "virtual": 2}])
def test_what_zero_divides_passes_in_every_micro_batch(plan: dict[str, int]) -> None:
    """zero2: gradients once a micro-batch, whole parameters once; zero3: parameters twice, gradients once."""
    work = ts.workloads.transformer_step(LAYERS, HIDDEN, 16, VOCAB, 2048, 64)
    each = (4 * HIDDEN + 8 * HIDDEN) * HIDDEN + 3 * HIDDEN + 6 * HIDDEN + 4 * HIDDEN
    stages, data = plan.get("pipeline", 1), plan["data"]
    passes = 64 // data * LAYERS // stages
    share = (data - 1) / data
    sums = {}
    for shard in ("zero1", "zero2", "zero3"):
        found = run(work, **plan, shard=shard)
        assert sum(found.parts.values()) == pytest.approx(found.seconds, rel=1e-12)
        rows = [row for row in found.communication if row["axis"] == "data"]
        sums[shard] = {(row["when"], row["operation"]): row["wire_bytes"] for row in rows}
    width = sums["zero1"]["end", "all_reduce"] / 2 / share / (LAYERS // stages * each + VOCAB * HIDDEN)
    assert width in (2, 4)
    second, third = sums["zero2"], sums["zero3"]
    assert second["backward", "reduce_scatter"] == pytest.approx(passes * each * width * share, rel=1e-6)
    assert second["tables", "reduce_scatter"] == pytest.approx(64 // data * VOCAB * HIDDEN * width * share, rel=1e-6)
    whole = LAYERS // stages * each + VOCAB * HIDDEN
    assert second["end", "all_gather"] == pytest.approx(2 * whole * share, rel=1e-6)
    assert len(second) == 3 and ("end", "all_gather") not in third
    for when in ("forward", "backward"):
        assert third[when, "all_gather"] == pytest.approx(2 * passes * each * share, rel=1e-6)
    assert third["tables", "all_gather"] == pytest.approx(64 // data * 2 * VOCAB * HIDDEN * share, rel=1e-6)
