"""State of slices joined by another network, by hand: zero2 and zero3 divide inside a slice, zero1 over all replicas.

A slice of these clusters has 64 devices. Gradients are scattered in a slice and summed over slices, so every slice has
all of the state of zero2 and zero3, however many slices there are.
"""

from __future__ import annotations

from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.columns import columns
from tilesim.cluster.fabric import fabric_of
from tilesim.cluster.training.replicas import placed

LAYERS, HIDDEN, VOCAB, SLICE = 8, 2048, 32000, 64
LAYER = 12 * HIDDEN * HIDDEN + 3 * HIDDEN + 4 * HIDDEN + 6 * HIDDEN
TABLE = VOCAB * HIDDEN
EVERY = LAYERS * LAYER + TABLE
EXPERTS = 64
SHARED = 4 * HIDDEN * HIDDEN + 3 * HIDDEN + 6 * HIDDEN + EXPERTS * HIDDEN
EXPERT = 2 * HIDDEN * 4 * HIDDEN + 4 * HIDDEN


def run(devices: int, system: str = "v5p-128", experts: Any = None, phase: str = "train", **plan: Any) -> Any:
    more = {} if experts is None else {"experts": experts}
    work = ts.workloads.transformer_step(LAYERS, HIDDEN, 64, VOCAB, 2048, 512, phase=phase, **more)
    return ts.cluster.step(work, f"{system}:{devices}", ts.Plan(**plan), check_memory=False)


def gradient_bytes(devices: int) -> float:
    return float(run(devices, data=devices).memory["gradients"]) / EVERY


def optimizer_seconds(devices: int, shard: str) -> float:
    found = run(devices, data=devices, shard=shard)
    return float(found.parts["optimizer"])


@pytest.mark.parametrize("devices", [64, 128, 256])
@pytest.mark.parametrize("shard", ["zero1", "zero2", "zero3"])
def test_bytes_of_a_device(devices: int, shard: str) -> None:
    found, width = run(devices, data=devices, shard=shard), gradient_bytes(devices)
    over = devices if shard == "zero1" else SLICE
    assert found.memory["optimizer"] == pytest.approx(12 * EVERY / over, rel=1e-7)
    assert found.memory["gradients"] == pytest.approx(width * EVERY / (1 if shard == "zero1" else SLICE), rel=1e-7)
    weights = 2 * EVERY / SLICE + 2 * 2 * LAYER if shard == "zero3" else 2 * EVERY
    assert found.memory["weights"] == pytest.approx(weights, rel=1e-7)
    assert found.classes[0]["state_bytes"] == pytest.approx(
        found.memory["optimizer"] + found.memory["gradients"] + found.memory["weights"], rel=1e-7
    )


@pytest.mark.parametrize("shard", ["zero2", "zero3"])
def test_the_optimizer_updates_what_a_device_has(shard: str) -> None:
    seconds = [optimizer_seconds(devices, shard) for devices in (64, 128, 256)]
    assert seconds[0] > 0
    assert seconds == pytest.approx([seconds[0]] * 3)
    one, two, four = (optimizer_seconds(devices, "zero1") for devices in (64, 128, 256))
    assert one == pytest.approx(seconds[0])
    assert one > two
    assert one - four == pytest.approx(1.5 * (one - two))  # as 1 / devices, beside what every step takes


@pytest.mark.parametrize("shard", ["zero2", "zero3"])
@pytest.mark.parametrize(
    "plan",
    [
        dict(data=256), dict(data=64, tensor=4), dict(data=32, context=4, tensor=2), dict(data=4, tensor=64),
        dict(data=64, pipeline=4), dict(data=128, pipeline=2), dict(data=32, pipeline=4, tensor=2),
    ],
)  # fmt: skip
def test_what_messages_divide_is_what_a_device_lacks(plan: dict[str, int], shard: str) -> None:
    """The groups that gather or scatter have as many members as state has parts; of a tensor axis as long as a slice
    there is nothing to divide."""
    found = run(256, shard=shard, **plan)
    groups = {
        row["devices"]
        for row in found.communication
        if row["axis"] == "data" and row["operation"] in ("all_gather", "reduce_scatter")
    }
    replicas, others = plan["data"] * plan.get("context", 1), plan.get("tensor", 1)
    over = min(replicas, SLICE // others)
    assert groups == ({over} if over > 1 else set())
    stages = plan.get("pipeline", 1)
    mine = (LAYERS // stages * LAYER + TABLE) / others / over
    assert found.memory["optimizer"] == pytest.approx(12 * mine, rel=1e-7)


def test_two_copies_are_divided_where_messages_do() -> None:
    """The copies of two stages lie in different slices: each over its own slice's replicas."""
    found = run(256, data=128, pipeline=2, schedule="dualpipe", shard="zero3")
    assert found.memory["optimizer"] == pytest.approx(12 * 2 * (LAYERS / 2 * LAYER + TABLE) / SLICE, rel=1e-7)
    gathers = {row["devices"] for row in found.communication if row["operation"] == "all_gather"}
    assert gathers == {SLICE}


def test_experts_over_those_of_a_slice() -> None:
    """Of 16 devices of an axis each has four experts; four others of its slice have the same."""
    found = run(256, experts=(EXPERTS, 2), data=256, expert=16, shard="zero3")
    mine = LAYERS * (SHARED / SLICE + EXPERTS / 16 * EXPERT / 4) + TABLE / SLICE
    assert found.memory["optimizer"] == pytest.approx(12 * mine, rel=1e-7)
    alone = run(256, experts=(EXPERTS, 2), data=256, expert=64, shard="zero3")
    mine = LAYERS * (SHARED / SLICE + EXPERT) + TABLE / SLICE
    assert alone.memory["optimizer"] == pytest.approx(12 * mine, rel=1e-7)
    assert alone.memory["weights"] == pytest.approx(2 * mine + 2 * 2 * SHARED, rel=1e-7)  # experts are whole anyway
    one = run(256, experts=(EXPERTS, 2), data=256, expert=16, shard="zero1")
    mine = LAYERS * (SHARED / 256 + EXPERTS / 16 * EXPERT / 16) + TABLE / 256
    assert one.memory["optimizer"] == pytest.approx(12 * mine, rel=1e-7)


@pytest.mark.parametrize("devices", [64, 256])
def test_a_step_without_gradients_keeps_its_part_of_a_slice(devices: int) -> None:
    found = run(devices, phase="prefill", data=devices, shard="zero3")
    assert found.memory["weights"] == pytest.approx(2 * EVERY / SLICE + 2 * 2 * LAYER, rel=1e-7)


def test_a_tied_table_is_summed_part_by_part() -> None:
    """Between first and last stage, of 128 replicas in two slices each: a 64th of the table."""
    sums = {
        shard: [row["bytes"] for row in run(256, data=128, pipeline=2, shard=shard).communication
                if (row["axis"], row["operation"]) == ("pipeline", "all_reduce")]
        for shard in ("zero1", "zero2")
    }  # fmt: skip
    assert sums["zero2"] == pytest.approx([one / SLICE for one in sums["zero1"]], rel=1e-6)
    assert sums["zero1"]


def test_searches_know_it_too() -> None:
    work = ts.workloads.transformer_step(4, 1024, 8, VOCAB, 512, 128)
    found = ts.cluster.search(work, "v5p-128:128", keep=20, budget=300, confirm=0)
    rows = zip(found.plans, found.seconds, found.peak_bytes, strict=True)
    divided = [
        row
        for row in rows
        if row[0].shard in ("zero2", "zero3") and row[0].data * row[0].context * row[0].tensor > SLICE
    ]
    assert divided
    for plan, seconds, peak in divided:
        one = ts.cluster.step(work, "v5p-128:128", plan)
        assert one.peak_bytes == peak
        assert one.seconds == pytest.approx(seconds, rel=1e-9)


def test_nodes_of_one_network_divide_over_all() -> None:
    fabric = fabric_of("dgx-h100:64")
    work = ts.workloads.transformer_step(LAYERS, HIDDEN, 64, VOCAB, 2048, 512)
    table = columns([(work, ts.Plan(data=64, shard="zero3"))])
    assert placed(table, fabric) is table
    found = ts.cluster.step(work, "dgx-h100:64", ts.Plan(data=64, shard="zero3"), check_memory=False)
    assert found.memory["optimizer"] == pytest.approx(12 * EVERY / 64, rel=1e-7)
