"""Layered steps on networks that are more than a switch of devices and a switch of nodes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.fabric import fabric_of, with_prices
from tilesim.cluster.frameworks import CONSTANTS, Framework
from tilesim.cluster.networks.as_built import AsBuilt

WORK = ts.workloads.transformer_step(16, 4096, 32, 51200, 2048, 256)
MIXED = ts.workloads.transformer_step(16, 4096, 32, 51200, 2048, 256, experts=(16, 2))
LATE = {"latency_seconds": 2e-6}
NODE = {"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 450e9, "latency_seconds": 1e-6}
PORT = {"bandwidth_bytes_per_second": 50e9, **LATE}
PLANS = ["tensor=8,data=16", "tensor=8,pipeline=16", "data=128,shard=zero3", "tensor=2,pipeline=8,data=8",
         "tensor=4,context=4,data=8,shard=zero1", "tensor=16,data=8", "tensor=8,pipeline=8,virtual=2,data=2",
         "tensor=4,pipeline=4,data=8,schedule=dualpipe"]  # fmt: skip


def _nodes(outer: dict[str, Any], **more: Any) -> ts.Cluster:
    return ts.Cluster("h100", [NODE, {**PORT, **outer}], **more)


def _step(cluster: Any, plan: str, work: Any = WORK, **how: Any) -> Any:
    return ts.cluster.step(work, cluster, ts.Plan.load(plan), check_memory=False, **how)


#: the network, and bytes per second and way over the cut between the lower and the upper half of the devices
CUTS: dict[str, tuple[Any, float]] = {
    "mesh": (_nodes({"kind": "mesh", "sizes": [4, 4]}), 8 * 4 * 50e9),
    "torus": (_nodes({"kind": "torus", "sizes": [4, 4]}), 8 * 4 * 2 * 50e9),
    "ring": (_nodes({"kind": "ring", "size": 16}), 8 * 2 * 50e9),
    "tree of thin trunks": (
        _nodes({"kind": "fat_tree", "size": 16, "radix": 10, "levels": 2, "oversubscription": 4}), 64 * 50e9 / 4),
    "three levels": (
        ts.Cluster("h100", [NODE, {"kind": "switch", "size": 4, **PORT},
                            {"kind": "switch", "size": 4, **PORT, "bandwidth_bytes_per_second": 5e9}]), 64 * 5e9),
    "slice": (ts.Cluster("tpu-v4-datasheet", [{"kind": "torus", "sizes": [8, 4, 4], **PORT}]), 8 * 4 * 2 * 50e9),
}  # fmt: skip


def _across(row: dict[str, Any], size: int, stride: int, devices: int) -> float:
    """Bytes of one call in all groups that have to go from the lower half of the devices to the upper one."""
    total = 0.0
    for first in (block + place for block in range(0, devices, size * stride) for place in range(stride)):
        members = np.arange(first, first + size * stride, stride)
        low = int(np.sum(members < devices // 2))
        high = size - low
        if not low or not high:
            continue
        total += {"all_gather": low / size, "reduce_scatter": high / size, "all_reduce": 1.0,
                  "all_to_all": low * high / size, "permute": 1.0}[row["operation"]] * row["bytes"]  # fmt: skip
    return total


def _axes(plan: ts.Plan) -> dict[str, tuple[int, int]]:
    behind = plan.tensor * plan.context * plan.data
    return {"tensor": (plan.tensor, 1), "context": (plan.context, plan.tensor), "expert": (plan.expert, plan.tensor),
            "data": (plan.data * plan.context, plan.tensor), "pipeline": (plan.pipeline, behind)}  # fmt: skip


@pytest.mark.singly
@pytest.mark.parametrize("network", ["closed", "flows"])
@pytest.mark.parametrize("name", CUTS)
def test_nothing_passes_sooner_than_the_cut_allows(name: str, network: str) -> None:
    cluster, rate = CUTS[name]
    cases = [(WORK, text) for text in PLANS] + [(MIXED, "tensor=2,data=64,expert=16"), (MIXED, "data=128,expert=16")]
    asked = 0
    for work, text in cases:
        plan = ts.Plan.load(text)
        if plan.schedule == "dualpipe":
            continue  # its second copy lies on another stage
        result = _step(cluster, text, work, network_model=network)
        for row in result.communication:
            if (row["operation"] == "all_reduce" and row["axis"] == "pipeline") or row["calls"] <= 0:
                continue
            size, stride = _axes(plan)[row["axis"]]
            if row["axis"] == "data" and plan.expert > 1:
                size, stride = row["devices"], stride * (plan.expert if row["devices"] < size else 1)
            if row["axis"] == "pipeline" and row["operation"] != "permute":
                size, stride = _axes(plan)["tensor"]
            least = _across(row, size, stride, 128) / rate
            assert row["seconds"] >= row["calls"] * least * (1 - 1e-9), (text, row, least)
            asked += least > 0
    assert asked > 6


@pytest.mark.few(2)
@pytest.mark.parametrize("text", PLANS)
def test_better_links_are_never_slower(text: str) -> None:
    def seconds(**outer: Any) -> float:
        return float(_step(_nodes(outer), text).seconds)

    tree = {"kind": "fat_tree", "size": 16, "levels": 2}
    trunks = [seconds(**tree, oversubscription=4 / up, radix=4 + up) for up in (4, 2, 1)]  # four below each switch
    assert trunks == sorted(trunks)
    assert trunks[0] == pytest.approx(seconds(kind="switch", size=16), rel=1e-9)
    for shape in ({"kind": "mesh", "sizes": [4, 4]}, {"kind": "ring", "size": 16}, {"kind": "full", "size": 16}):
        rates = [seconds(**shape, bandwidth_bytes_per_second=rate) for rate in (100e9, 50e9, 12.5e9)]
        assert rates == sorted(rates)
        lates = [seconds(**shape, latency_seconds=late) for late in (1e-6, 1e-5, 1e-4)]
        # messages of a ring that meet in another order may end a little sooner, (docs/explanation/clusters.md)
        assert all(late >= 0.98 * before for before, late in itertools.pairwise(lates))
    mesh, torus = (seconds(kind=kind, sizes=[4, 4]) for kind in ("mesh", "torus"))
    assert torus <= mesh * (1 + 1e-9)


def test_a_line_of_a_torus_has_its_own_links_alone() -> None:
    """Four neighbours on a circle of four: each way round half of a ring's bytes, at the share of a link."""
    k = Framework.load("xla").constants
    result = _step("tpu-v4:64", "tensor=4,data=16", ts.workloads.transformer_step(16, 4096, 32, 51200, 2048, 64))
    row = next(row for row in result.communication if row["axis"] == "tensor")
    each = 2 * 3 / 4 * row["bytes"] / (2 * 50e9 * k["link_share"])
    late = 6 * (1e-6 + k["link_step"]) + k["call"]
    assert row["seconds"] / row["calls"] == pytest.approx(each + late, rel=1e-3)
    pair = _step("tpu-v4:64", "tensor=2,data=32", ts.workloads.transformer_step(16, 4096, 32, 51200, 2048, 64))
    row = next(row for row in pair.communication if row["axis"] == "tensor")
    assert row["seconds"] / row["calls"] >= row["bytes"] / (50e9 * k["link_share"])


def test_all_devices_of_a_slice_have_all_its_links() -> None:
    """Two axes, both ways: four links of a device carry what all 256 gather."""
    k = Framework.load("xla").constants
    fabric = fabric_of("v5e-256", 1024)
    priced = with_prices(fabric, k, 1024)
    from tilesim.cluster.columns import columns
    from tilesim.cluster.exchange import AxisGroup, gather

    table = columns([(WORK, ts.Plan(data=256))])
    one = np.ones(1)
    found = float(gather(np.array([1e9]), AxisGroup(256 * one, 256 * one, one, one), priced, k)[0])
    assert found == pytest.approx(255 / 256 * 1e9 / (4 * 50e9 * k["link_share"]), rel=0.02)
    across = float(gather(np.array([1e9]), AxisGroup(4 * one, one, 256 * one, 256 * one), priced, k)[0])
    assert across == pytest.approx(3 / 4 * 1e9 / (3.125e9 * k["node_share"]), rel=0.02)
    assert len(table) == 1


def test_products_in_parts_hide_what_a_tensor_group_sums() -> None:
    """Of n parts of c and n - 1 messages of t: (n - 1) max(c, t) + c in place of n c + (n - 1) t, but for slowing."""
    work = ts.workloads.transformer_step(4, 4096, 32, 51200, 2048, 16, attention="unfused")
    for rate in (100e9, 1e9, 0.1e9):
        torus = ts.Cluster(
            "tpu-v4-datasheet", [{"kind": "ring", "size": 4, **LATE, "bandwidth_bytes_per_second": rate}]
        )
        whole = _step(torus, "tensor=4", work, overlap="none")
        parts = _step(torus, "tensor=4", work)
        rows = [row for row in parts.communication if row["axis"] == "tensor"]
        moved = {row["when"]: row["seconds"] for row in rows}
        late = {row["when"]: row["exposed_seconds"] for row in rows}
        # the same products: what a step without overlap takes beside what passes bounds them
        compute = whole.seconds - sum(moved.values())
        assert all(0 <= late[when] <= moved[when] for when in moved)
        assert sum(late.values()) >= sum(moved.values()) - 3 / 4 * compute
        assert parts.seconds <= whole.seconds
    assert late["backward"] > 0.5 * moved["backward"]  # so slow a link hides little
    k = Framework.load("megatron").constants
    assert k["tensor_overlap"] == 0 and "tensor_overlap" in CONSTANTS
    gpu = _step("dgx-h100:4", "tensor=4", work)
    assert all(row["exposed_seconds"] == row["seconds"] for row in gpu.communication if row["axis"] == "tensor")


def _star(devices: int, rate: float, late: float) -> dict[str, Any]:
    return {"devices": devices, "switches": 1, "links": [
        {"source": one, "target": devices, "bandwidth_bytes_per_second": rate, "latency_seconds": late / 2}
        for one in range(devices)]}  # fmt: skip


@pytest.mark.parametrize("text", ["tensor=8", "data=8,shard=zero3", "pipeline=8,micro_batch=8", "tensor=2,pipeline=4"])
def test_a_graph_of_a_switch_is_a_switch(text: str) -> None:
    work = ts.workloads.transformer_step(16, 4096, 32, 51200, 2048, 64)
    graph = _step(ts.Cluster("h100", _star(8, 450e9, 1e-6)), text, work).seconds
    switch = _step(ts.Cluster("h100", [NODE]), text, work).seconds
    # the quickest algorithm for few bytes, where the form of a switch has a ring's latencies
    assert 0.98 * switch <= graph <= switch * (1 + 1e-9)


def test_a_failed_link_is_gone_round() -> None:
    torus = {"kind": "torus", "sizes": [4, 4], **PORT}
    fault = {"source": 0, "target": 1, "share": 0}
    healthy, broken = (
        _step(ts.Cluster("tpu-v4-datasheet", [torus], faults=faults), "data=16,shard=zero3") for faults in ([], [fault])
    )
    assert broken.seconds > healthy.seconds
    slow = ts.Cluster("tpu-v4-datasheet", [torus], faults=[{"device": 3, "share": 0.25}])
    assert _step(slow, "data=16,shard=zero3").seconds > healthy.seconds


def test_search_and_step_agree_on_a_torus() -> None:
    study = ts.cluster.search("llama-3-8b", "tpu-v4:16", budget=3000, confirm=1)
    step = ts.cluster.step("llama-3-8b", "tpu-v4:16", study.plans[0])
    assert step.seconds == pytest.approx(study.seconds[0], rel=1e-12)
    twice = [row for row in step.advice() if row["change"].startswith("bandwidth inside")]
    assert all(row["seconds"] < step.seconds for row in twice)


def test_networks_of_other_sizes() -> None:
    ring = ts.Cluster("h100", [NODE, {"kind": "ring", "size": 16, **PORT}])
    curve = ts.cluster.scaling(WORK, ring, [8, 32, 64, 128], ts.Plan(tensor=8))
    assert [row["devices"] for row in curve] == [8, 32, 64, 128]
    for row in curve:
        count = row["devices"] // 8
        network = [NODE, {"kind": "ring", "size": count, **PORT}] if count > 1 else [NODE]
        alone = _step(ts.Cluster("h100", network), f"tensor=8,data={count}").seconds
        assert row["seconds"] == pytest.approx(alone, rel=1e-12)
    with pytest.raises(ts.UserError, match="another number of devices"):
        ts.cluster.scaling(WORK, CUTS["mesh"][0], [64], ts.Plan(tensor=8))
    with pytest.raises(ts.UserError, match="size"):
        _step("v5e-100", "data=4")
    with pytest.raises(ts.UserError, match="library"):
        _step(ts.Cluster("h100", _star(8, 450e9, 1e-6)), "tensor=8", library="nccl")


def test_a_node_of_links_between_all_has_those_of_its_group() -> None:
    """MI300X: two devices of a node have one link between them, all eight have seven each."""
    k = Framework.load("megatron").constants
    rate = 64e9 * k["link_share"]
    for tensor, least in ((2, 1.0), (4, 2 * 3 / 4 / 3), (8, 2 * 7 / 8 / 7)):
        result = _step("mi300x-8:8", f"tensor={tensor},data={8 // tensor}")
        row = next(row for row in result.communication if row["axis"] == "tensor")
        each = row["seconds"] / row["calls"]
        late = k["call"] + 2 * (1e-6 + k["link_step"])
        assert each == pytest.approx(row["bytes"] * least / rate + late, rel=1e-3), tensor


#: more than 256 devices: dimensions, and bytes per second and way over the cut between the halves of the devices
LARGE = {
    "torus": ([{"kind": "torus", "sizes": [8, 8, 8], **PORT}], 64 * 2 * 50e9),
    "mesh of nodes": ([NODE, {"kind": "mesh", "sizes": [8, 8], **PORT}], 8 * 8 * 50e9),
    "ring of nodes": ([NODE, {"kind": "ring", "size": 64, **PORT}], 8 * 2 * 50e9),
    "thin trunks": (
        [NODE, {"kind": "fat_tree", "size": 64, "radix": 20, "levels": 2, "oversubscription": 4, **PORT}],
        512 * 50e9,
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_many_devices_keep_their_bounds(name: str) -> None:
    """Of 512 devices: no sooner than the cut, and more bytes take longer."""
    network, rate = LARGE[name]
    cluster = ts.Cluster(network=network)
    prices = AsBuilt(cluster, "closed", 0.0)
    for size, stride in ((8, 1), (16, 1), (64, 8), (512, 1), (32, 16), (4, 2), (2, 256)):
        for operation in ("all_gather", "all_reduce", "all_to_all"):
            before = 0.0
            for bytes_ in (1 << 12, 3 << 18, 5 << 22, 7 << 28):
                found = prices._time(operation, bytes_, size, stride)
                row = {"operation": operation, "bytes": bytes_}
                assert found >= _across(row, size, stride, 512) / rate
                assert found > before
                before = found


def _drawn(draw: random.Random, most: int) -> ts.Cluster:
    """A network of one to three dimensions: ways round or not, rails, trunks."""
    while True:
        network: list[dict[str, Any]] = []
        for _ in range(draw.randint(1, 3)):
            kind = draw.choice(["switch", "ring", "torus", "mesh", "torus", "full", "fat_tree", "dragonfly"])
            one: dict[str, Any] = {"kind": kind, "size": draw.choice([2, 3, 4, 6, 8])}
            if kind in ("torus", "mesh"):
                one = {"kind": kind, "sizes": [draw.choice([2, 3, 4, 8]) for _ in range(draw.randint(1, 3))]}
            if kind == "dragonfly":
                one = {"kind": kind, "sizes": [2, 2, draw.choice([2, 3])]}
            if kind == "fat_tree":
                one |= {"radix": 6, "levels": 2, "oversubscription": draw.choice([1, 2])}
            if kind in ("ring", "torus") and draw.random() < 0.1:
                one["both_ways"] = False
            if network and draw.random() < 0.2:
                one["rails"] = draw.choice([1, 2])
            network.append({**one, **LATE, "bandwidth_bytes_per_second": draw.choice([12.5e9, 50e9, 100e9])})
        try:
            cluster = ts.Cluster(network=network)
        except ts.UserError:  # rails that do not divide what is inside
            continue
        if 4 <= cluster.devices <= most:
            return cluster


def _axis(draw: random.Random, devices: int) -> tuple[int, int]:
    """Members and stride of an axis of a plan."""
    divisors = [one for one in range(1, devices + 1) if devices % one == 0]
    stride = draw.choice(divisors[:-1])
    return draw.choice([one for one in divisors if one > 1 and devices % (one * stride) == 0]), stride


@pytest.mark.parametrize("seed", range(80))
def test_groups_that_meet_stand_for_all(seed: int) -> None:
    """Random networks of up to 256 devices: all groups on the whole network, and those that are priced."""
    draw = random.Random(seed)
    cluster = _drawn(draw, 256)
    size, stride = _axis(draw, cluster.devices)
    prices = AsBuilt(cluster, "closed", 0.0)
    operation, bytes_ = draw.choice(["all_gather", "all_reduce", "all_to_all"]), draw.choice([1000, 10**6, 10**8])
    (part, some), (whole, every) = (prices._groups(size, stride, one) for one in (False, True))
    found, wanted = (
        ts.cluster.collective(operation, bytes_, one, devices=groups).seconds
        for one, groups in ((part, some), (whole, every))
    )
    assert found == pytest.approx(wanted, rel=1e-9)
    sent = prices._time("chain", bytes_, size, stride)
    pairs = [(one[at], one[at + 1]) for one in every for at in range(size - 1)]
    flows = ts.cluster.collective("permute_devices", bytes_, cluster, pairs=pairs, network_model="flows").seconds
    assert sent == pytest.approx(flows, rel=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_members_that_stand_for_others_have_their_times(seed: int) -> None:
    """Groups of an axis, all or those of one block, with and without symmetry."""
    draw = random.Random(seed)
    reduced = 0
    while reduced < 2:
        cluster = _drawn(draw, 128)
        size, stride = _axis(draw, cluster.devices)
        every = AsBuilt(cluster, "closed", 0.0)._groups(size, stride, whole=True)[1]
        groups = every if draw.random() < 0.5 else every[:stride]
        how = {"algorithm": draw.choice(["ring", "direct", "torus", "bruck", "auto"]),
               "network_model": draw.choice(["chunks", "chunks", "flows"])}  # fmt: skip
        operation, bytes_ = draw.choice(["all_gather", "all_reduce", "all_to_all"]), draw.choice([1, 1000, 12345678])
        one, all_ = (
            ts.cluster.collective(operation, bytes_, cluster, groups, symmetry=symmetry, **how)
            for symmetry in (True, False)
        )
        reduced += one.classes < all_.classes
        assert one.seconds == pytest.approx(
            all_.seconds,
            rel=1e-6 if how["network_model"] == "flows" else 0,
            abs=1e-11 if how["network_model"] == "flows" else 0,
        )


#: tori and nodes of 512 and 4,096 devices, and axes that interleave on circles, lie in blocks, or span several axes
MANY = [([8, 8, 8], 32, 4), ([8, 8, 8], 128, 2), ([8, 4, 16], 64, 2), ([6, 8, 8], 16, 3), ([16, 16, 16], 16, 8)]


@pytest.mark.parametrize(("sizes", "size", "stride"), MANY)
@pytest.mark.parametrize("operation", ["all_gather", "all_reduce"])
def test_many_devices_are_priced_as_all_groups_message_by_message(
    sizes: list[int], size: int, stride: int, operation: str
) -> None:
    """No symmetry, every group on the whole torus, by the algorithm that was chosen."""
    cluster = ts.Cluster(network=[{"kind": "torus", "sizes": sizes, **PORT}])
    prices = AsBuilt(cluster, "closed", 0.0)
    part, some = prices._groups(size, stride)
    for bytes_ in (3000, 5 << 22):
        found = ts.cluster.collective(operation, bytes_, part, devices=some)
        assert prices._time(operation, bytes_, size, stride) == found.seconds
        _, every = prices._groups(size, stride, whole=True)
        how = {"algorithm": found.algorithm, "network_model": "chunks", "symmetry": False}
        assert found.picoseconds == ts.cluster.collective(operation, bytes_, cluster, devices=every, **how).picoseconds


def test_axes_of_one_length_are_told_apart() -> None:
    """Two rings of 300, one eight times as quick: what is kept of one is not taken for the other."""
    rings = [{"kind": "ring", "size": 300, **PORT, "bandwidth_bytes_per_second": rate} for rate in (400e9, 50e9)]
    prices = AsBuilt(ts.Cluster(network=rings), "closed", 0.0)
    near, far = (prices._time("all_gather", 1 << 30, 300, stride) for stride in (1, 300))
    by_hand = [299 * ((1 << 30) / 300 / 2 / rate + 2e-6) for rate in (400e9, 50e9)]
    assert [near, far] == pytest.approx(by_hand, rel=1e-3)


@pytest.mark.few(2)
@pytest.mark.parametrize(("cluster", "hidden"), [("tpu-v4:8", 128), ("tpu-v5e:8", 1024), ("mi300x-8:4", 512)])
def test_a_search_on_such_networks_loses_nothing(cluster: str, hidden: int) -> None:
    """Products in parts hide sums, and sums hide launches: the bound of a plan is still below its time."""
    work = ts.workloads.transformer_step(4, hidden, 8, 1024, 256, 16)
    some, every = (ts.cluster.search(work, cluster, exhaustive=all_, confirm=0) for all_ in (False, True))
    assert some.seconds[0] == every.seconds[0] and some.best.plan == every.best.plan
    keys = ("tensor", "pipeline", "seconds")
    assert [[row[key] for key in keys] for row in some.map()] == [[row[key] for key in keys] for row in every.map()]
    assert [row["seconds"] for row in some.pareto()] == [row["seconds"] for row in every.pareto()]
