"""Stages that are not alike, under every schedule: slow devices, uneven layers, sends inside a node and between nodes,
against an order that is carried out here, pass by pass until nothing moves."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.closed import times
from tilesim.cluster.columns import columns
from tilesim.cluster.fabric import Fabric
from tilesim.cluster.frameworks import Framework
from tilesim.cluster.hosts.straggling import slower
from tilesim.cluster.inference.closed import times as forward_times
from tilesim.cluster.stepping import pricer

K = {**Framework.load("unfitted").constants, "host_microbatch": 0.0}
SERVING = Framework.load("serving").constants
SWITCH = {"kind": "switch", "latency_seconds": 1e-6}
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe")
WIDTH, LENGTH = 1024, 512


def way(schedule: str, stages: int, virtual: int) -> list[list[tuple[int, int]]]:
    """Stage and chunk of each part of the model, one list per copy."""
    down = [(stage, 0) for stage in range(stages)]
    up = [(stage, 1) for stage in reversed(range(stages))]
    if schedule == "zb-v":
        return [down + up]
    if schedule == "dualpipe":
        return [down, up]
    return [[(stage, chunk) for chunk in range(virtual) for stage in range(stages)]]


def relaxed(order: list[str], ways: list[list[tuple[int, int]]], length: Any) -> list[tuple[float, float]]:
    """When each stage begins and ends: every pass as early as the one before it on its stage and the one that it needs
    allow, from 0 on, until nothing is moved any more."""
    rows = []
    for stage, line in enumerate(order):
        words = [word.partition(".") for word in line.split()]
        rows.append([(one[0], stage, int(chunk or 0), int(one[1:])) for one, _, chunk in words])
    before, after = {}, {}
    for one in ways:
        for a, b in itertools.pairwise(one):
            before[b], after[a] = a, b
    begin = {one: 0.0 for row in rows for one in row}
    end: dict[tuple[str, int, int, int], float] = {}
    moved = True
    while moved:
        moved = False
        for row in rows:
            last = 0.0
            for one in row:
                kind, stage, chunk, micro = one
                place = (before if kind == "F" else after).get((stage, chunk)) if kind != "W" else None
                kinds = "F" if kind == "F" else "BI"
                needs = [end.get((letter, *place, micro), 0.0) for letter in kinds] if place else []
                start = max([last, *needs])
                moved |= start != begin[one] or one not in end
                begin[one] = start
                last = end[one] = start + length(*one[:3])
    return [(begin[row[0]], end[row[-1]]) for row in rows]


def by_hand(work: Any, plan: ts.Plan, fabric: Fabric, slow: dict[int, float]) -> tuple[float, float]:
    """Seconds until all is through: of the step, and of its order carried out here."""
    found = times(columns([(work, plan)]), pricer(fabric.device, work.dtype), slower(fabric, slow), K)
    assert found.detail is not None
    layers = found.detail.layers
    weight = float(found.work.weight_products[0])
    forward, whole = float(layers["forward"].seconds[0]), float(layers["backward"].seconds[0])
    computed = {"F": float(layers["forward"].compute[0]), "W": weight}
    computed["I"] = float((layers["backward"].compute + layers["backward"].recompute)[0]) - weight
    head = {"F": float((found.work.head_forward + found.work.embedding)[0]), "W": float(found.work.head_weight[0])}
    head["I"] = float(found.work.head_backward[0]) - head["W"]
    each = {"F": forward, "I": whole - weight, "W": weight}
    ways = way(plan.schedule, plan.pipeline, plan.virtual)
    part = {place: number for one in ways for number, place in enumerate(one)}
    parts, devices = len(ways[0]), plan.devices // plan.pipeline
    bytes_ = plan.micro_batch * LENGTH * WIDTH * 2 / plan.tensor
    senders = max(fabric.per_node, min(devices, fabric.per_node))
    near = bytes_ / (fabric.link * K["link_share"]) + fabric.latency + K["link_step"] + K["call"]
    rate = min(fabric.link * K["link_share"], fabric.node_link * K["node_share"] / senders)
    far = bytes_ / rate + fabric.node_latency + K["node_step"] + K["call"]
    gathered = float(next(one.seconds[0] for one in found.detail.sent if one.operation == "all_gather"))

    def hop(one: int, other: int) -> float:
        pairs = [(one * devices + at, other * devices + at) for at in range(devices)]
        return far if any(a // fabric.per_node != b // fabric.per_node for a, b in pairs) else near

    def length(kind: str, stage: int, chunk: int) -> float:
        if kind == "B":
            return length("I", stage, chunk) + length("W", stage, chunk)
        number = part[stage, chunk]
        own = work.layers // parts + (number < work.layers % parts)
        late = max([slow.get(stage * devices + at, 1.0) for at in range(devices)]) - 1
        seconds = own * (each[kind] + late * computed[kind])
        if number == parts - 1:
            seconds += head[kind] * (1 + late)
        row = next(one for one in ways if (stage, chunk) in one)
        ahead = [number + 1, number - 1] if kind == "F" else [number - 1, number + 1]
        to = next((row[at][0] for at in ahead if 0 <= at < parts and row[at][0] != stage), None)
        return seconds + (hop(stage, to) + gathered if kind != "W" and to is not None else 0.0)

    micros = work.global_batch // (plan.data * plan.micro_batch)
    order = ts.cluster.pipeline(
        plan.schedule, plan.pipeline, micros, plan.virtual, forward=1.0, backward_input=1.0
    ).order
    spans = relaxed(order, ways, length)
    if plan.schedule == "zb-h2":  # its period
        return float(found.detail.through[0]), max(end - begin for begin, end in spans)
    return float(found.detail.through[0]), max(end for _, end in spans)


def chosen(seed: int, schedule: str) -> tuple[Any, ts.Plan, Fabric, dict[int, float]]:
    """A workload, a plan, nodes of 2 to 8 devices, some devices that are slow."""
    rng = random.Random(seed)
    stages, virtual = rng.choice((2, 4, 6)), 1
    tensor, data = rng.choice(((1, 1), (2, 1), (1, 2), (1, 3)))
    layers = rng.randint(stages, 3 * stages)
    if schedule in ("interleaved", "zb-v"):
        virtual = 2 if schedule == "interleaved" else 1
        layers = 2 * stages * rng.choice((1, 2))
    micros = stages * rng.choice((2, 3))
    work = ts.workloads.transformer_step(layers, WIDTH, 8, rng.choice((1, 64000)), LENGTH, micros * data)
    plan = ts.Plan(tensor, stages, data, virtual=virtual, schedule=schedule, recompute=rng.choice(("none", "full")))
    fabric = Fabric(ts.Device.load("a100"), rng.choice((2, 3, 4, 8)), 300e9, 4e9, devices=plan.devices)
    slow = {rng.randrange(plan.devices): rng.choice((1.1, 1.5, 2.0)) for _ in range(rng.randint(0, 2))}
    return work, plan, fabric, slow


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_orders_are_carried_out_with_each_stages_own_times(schedule: str, seed: int) -> None:
    work, plan, fabric, slow = chosen(seed, schedule)
    stride = plan.devices // plan.pipeline
    alike = not slow and (stride >= fabric.per_node or plan.devices <= fabric.per_node)
    if alike and schedule in ("1f1b", "gpipe", "interleaved"):
        slow = {0: 1.2}  # alike stages are summed
    found, order = by_hand(work, plan, fabric, slow)
    assert found == pytest.approx(order, rel=1e-9), (plan, fabric.per_node, slow)


def forward_by_hand(result: Any, slow: dict[int, float], micros: int) -> float:
    """The last end of a forward-only order: each pass behind the one before it on its stage and the one that it needs.
    Chunks of the last stage share the head."""
    plan, fabric, layers = result.plan, result.fabric, result.workload.layers
    stages, parts, stride = plan.pipeline, plan.pipeline * plan.virtual, plan.devices // plan.pipeline
    found = forward_times(
        columns([(result.workload, plan)]), pricer(fabric.device, result.workload.dtype), slower(fabric, slow), SERVING
    )
    assert found.detail is not None and found.stages is not None and found.stages.hops is not None
    one, hops = found.detail.layers["forward"], found.stages.hops
    head = float((found.work.head_forward + found.work.embedding)[0])
    gathered = float(next(each.seconds[0] for each in found.detail.sent if each.operation == "all_gather"))

    def length(stage: int, chunk: int) -> float:
        number = chunk * stages + stage
        own = layers // parts + (number < layers % parts)
        late = max([slow.get(stage * stride + at, 1.0) for at in range(stride)]) - 1
        here = stage if number < parts - 1 else stage - 1  # the last part counts a send as the one that came
        low, high = sorted((here, (here + 1) % stages))
        out = any((low * stride + at) // fabric.per_node != (high * stride + at) // fabric.per_node
                  for at in range(stride))  # fmt: skip
        sends = float((hops.far if out else hops.near)[0]) if stages > 1 else 0.0
        seconds = own * float(one.seconds[0] + late * one.compute[0]) + sends + gathered
        seconds += SERVING["host_microbatch"] / plan.virtual
        return seconds + ((1 + late) * head / plan.virtual if stage == stages - 1 else 0.0)

    end: dict[tuple[int, int], float] = {}
    free = [0.0] * stages
    for group in range(0, micros, stages if plan.virtual > 1 else micros):
        for part in range(parts):
            for micro in range(group, group + stages if plan.virtual > 1 else micros):
                stage = part % stages
                begin = max(free[stage], end.get((part - 1, micro), 0.0))
                free[stage] = end[part, micro] = begin + length(stage, part // stages)
    return max(free) + SERVING["host_step"]


@pytest.mark.parametrize("virtual", [1, 2])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("seed", range(8))
def test_prefill_and_decode_carry_out_the_order_of_slow_stages(seed: int, phase: str, virtual: int) -> None:
    """Slow devices first, last, on stages with fewer layers, several of a stage; against passes one by one."""
    rng = random.Random(seed)
    stages, data = rng.choice((2, 3, 5)), rng.choice((1, 2))
    layers = stages * virtual if virtual > 1 else rng.randint(stages, 3 * stages)
    micros = stages * rng.choice((1, 3)) if virtual > 1 else rng.choice((1, 2, 7))
    plan = ts.Plan(1, stages, data, virtual=virtual, micro_batch=1)
    work = ts.workloads.transformer_step(
        layers, WIDTH, 8, rng.choice((1, 64000)), LENGTH, micros * data, phase=phase
    )  # fmt: skip
    fabric = Fabric(ts.Device.load("a100"), rng.choice((2, 3, 4, 8)), 300e9, 4e9, devices=plan.devices)
    slow = {rng.randrange(plan.devices): rng.choice((1.1, 1.5, 2.0)) for _ in range(rng.randint(0, 3))}
    slow[rng.choice((0, plan.devices - 1))] = 1.2
    result = ts.cluster.step(work, fabric, plan, slow=slow, check_memory=False)
    assert result.seconds == pytest.approx(forward_by_hand(result, slow, micros), rel=1e-9), (plan, slow)
    assert math.fsum(result.parts.values()) == pytest.approx(result.seconds, rel=1e-9)
    assert result.bubble_seconds >= -1e-9 * result.seconds
    usual = ts.cluster.step(work, fabric, plan, check_memory=False).seconds
    assert usual < result.seconds * (1 + 1e-12) <= 2 * usual


@pytest.mark.singly
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("device", [0, 5, 7])
def test_a_straggler_moves_the_step_by_no_more_than_its_factor(schedule: str, device: int) -> None:
    work = ts.workloads.transformer_step(16, 2048, 16, 50257, 1024, 32)
    plan = ts.Plan(pipeline=4, data=2, virtual=2 if schedule == "interleaved" else 1, schedule=schedule)
    runs = [ts.cluster.step(work, "dgx-h100:8", plan, slow=slow, check_memory=False)
            for slow in (None, {device: 1.1}, {device: 1.1, 2: 1.1})]  # fmt: skip
    usual, slow_, two = (one.seconds for one in runs)
    assert 1 < slow_ / usual <= 1.1
    assert slow_ <= two <= 1.1 * usual * (1 + 1e-12)
    for one in runs:
        assert sum(one.parts.values()) == pytest.approx(one.seconds, rel=1e-12)
        assert one.bubble_seconds >= -1e-9 * one.seconds
    faulty = ts.Cluster.load(
        {**ts.Cluster.load("dgx-h100:8").to_dict(), "faults": [{"device": device, "compute": 1 / 1.1}]}
    )
    assert ts.cluster.step(work, faulty, plan, check_memory=False).seconds == pytest.approx(slow_, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "prefill"])
def test_drawings_of_unlike_stages_end_with_the_step(schedule: str, seed: int, tmp_path: Path) -> None:
    """Nothing is stretched, streams do one thing at a time, and each border's sends are on its own dimension."""
    forward = schedule == "prefill"
    work, plan, fabric, slow = chosen(seed, "1f1b" if forward else schedule)
    if forward:
        work, plan = dataclasses.replace(work, phase="prefill"), plan.replace(recompute="none")
    if plan.devices % fabric.per_node:
        fabric = dataclasses.replace(fabric, per_node=plan.pipeline)
    network = [SWITCH | {"size": fabric.per_node, "bandwidth_bytes_per_second": 300e9},
               SWITCH | {"size": plan.devices // fabric.per_node, "bandwidth_bytes_per_second": 1e9}]  # fmt: skip
    cluster = ts.Cluster("a100", [one for one in network if one["size"] > 1])
    result = ts.cluster.step(work, cluster, plan, slow=slow or {0: 1.2}, check_memory=False)
    result.timeline(tmp_path / "t.json")
    value = json.loads((tmp_path / "t.json").read_text())
    assert value["otherData"]["stretched"] == pytest.approx(1, rel=1e-6)
    spans = [one for one in value["traceEvents"] if one["ph"] == "X"]
    assert max(one["ts"] + one["dur"] for one in spans) == pytest.approx(result.seconds * 1e6, abs=5e-3)
    tracks = defaultdict(list)
    for one in spans:
        tracks[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))
    for own in tracks.values():
        assert all(end <= begin + 3e-3 for (_, end), (begin, _) in itertools.pairwise(sorted(own)))
    names = {
        (one["pid"], one["tid"]): one["args"]["name"] for one in value["traceEvents"] if one["name"] == "thread_name"
    }
    stride = plan.devices // plan.pipeline
    for stage in range(plan.pipeline - 1):
        crosses = any((stage * stride + at) // fabric.per_node != ((stage + 1) * stride + at) // fabric.per_node
                      for at in range(stride))  # fmt: skip
        sent = [one for one in spans if one["pid"] == stage + 1 and one["name"].startswith("send activations")]
        assert sent
        if plan.virtual == 1:
            assert {names[one["pid"], one["tid"]] for one in sent} == {f"{'nodes' if crosses else 'node'}: pipeline"}
