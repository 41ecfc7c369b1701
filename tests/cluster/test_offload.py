"""What lies in the host's memory: bytes and seconds by hand, what is hidden, what is refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.closed import StepTimes, times
from tilesim.cluster.columns import columns
from tilesim.cluster.fabric import Fabric, fabric_of
from tilesim.cluster.frameworks import Framework
from tilesim.cluster.memory import layer_activations
from tilesim.cluster.stepping import pricer

WORK = ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 32, dtype="bf16")
NODE = Fabric(ts.Device.load("a100"), 8, 300e9, 200e9, host_link=32e9)
K = Framework.load("unfitted").constants


def found(plan: ts.Plan, fabric: Fabric = NODE, work: Any = WORK, **more: float) -> StepTimes:
    return times(columns([(work, plan)]), pricer(fabric.device, work.dtype), fabric, {**K, **more})


def test_state_passes_through_the_device() -> None:
    """Twelve bytes per parameter each way at once, behind the update, which memory's rate bounds."""
    plan = ts.Plan(data=8, offload="optimizer")
    result, kept = found(plan), found(ts.Plan(data=8))
    parameters = 24 * WORK.layer_parameters + 50257 * 2048
    wire, update = 12 * parameters / 32e9, float(result.work.optimizer[0])
    share = 32e9 / 2.039e12
    assert result.offload[0] == pytest.approx(wire - update, rel=1e-9)
    assert result.interference[0] == pytest.approx(share * update, rel=1e-9)
    assert result.seconds[0] == pytest.approx(kept.seconds[0] + wire - update + share * update, rel=1e-12)
    eighth = found(plan.replace(shard="zero1"))
    assert eighth.offload[0] == pytest.approx(result.offload[0] / 8)


def test_activations_hide_behind_layers() -> None:
    plan = ts.Plan(data=8, micro_batch=4, offload="activations")
    kept, _ = layer_activations(columns([(WORK, plan)]), K["dropout"] > 0)
    free = {"host_pass": 0.0, "host_blend": 100.0}
    slow, fast = (found(plan, dataclasses.replace(NODE, host_link=rate), **free) for rate in (1e9, 1e13))
    layer = slow.work.forward.seconds[0] + slow.work.backward.seconds[0]
    moved = 2 * kept[0] / 1e9
    share = 1e9 / 2.039e12
    assert slow.offload[0] == pytest.approx(24 * (moved - layer), rel=1e-6)
    assert slow.interference[0] == pytest.approx(24 * share * layer, rel=1e-6)
    assert (
        fast.offload[0] == 0 < fast.interference[0] == pytest.approx(24 * 2 * kept[0] / 2.039e12, rel=1e-6)
    )  # memory's rate alone
    bare = ts.cluster.step(WORK, NODE, plan, overlap="none", check_memory=False).parts["offload"]
    assert bare == pytest.approx(24 * 2 * kept[0] / 32e9)


def test_a_faster_host_never_takes_longer() -> None:
    for plan in (ts.Plan(data=8, offload="optimizer"), ts.Plan(data=8, offload="activations")):
        rates = [found(plan, dataclasses.replace(NODE, host_link=rate)).seconds[0] for rate in (4e9, 16e9, 64e9)]
        assert rates == sorted(rates, reverse=True)
        assert rates[-1] >= found(plan.replace(offload="none")).seconds[0]


def test_memory_that_is_left() -> None:
    fabric = dataclasses.replace(NODE, devices=8)
    whole, state, layers = (
        ts.cluster.step(WORK, fabric, ts.Plan(data=8, micro_batch=4, offload=name), check_memory=False)
        for name in ("none", "optimizer", "activations")
    )
    assert state.memory["optimizer"] == 0 < whole.memory["optimizer"]
    assert state.memory["working"] - whole.memory["working"] == 2 * 12 * WORK.layer_parameters  # two layers' state
    assert layers.memory["activations"] == 0 < whole.memory["activations"]
    kept = whole.memory["activations"] / 24
    assert layers.memory["working"] - whole.memory["working"] == pytest.approx(2 * kept, abs=2)
    assert "host" in state.explain()
    for one in (whole, state, layers):
        assert math.fsum(one.parts.values()) == pytest.approx(one.seconds, rel=1e-12)


def test_links_of_hosts() -> None:
    assert fabric_of("dgx-a100:8").host_link == 32e9
    assert fabric_of("dgx-h200:8").host_link == 64e9  # of a ts.Cluster
    assert fabric_of("v5e-256").host_link > 0
    bare = ts.Cluster("a100", [{"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 3e11, "latency_seconds": 0}])
    with pytest.raises(ts.UserError, match="host links"):
        ts.cluster.step(WORK, bare, ts.Plan(data=8, offload="optimizer"))
    for value in (0, -1, math.nan, "fast"):
        with pytest.raises(ts.UserError, match="host_bytes_per_second"):
            ts.Cluster(host_bytes_per_second=value, network=bare.network)  # type: ignore[arg-type]
