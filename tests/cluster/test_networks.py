"""Unequal tori and switches that sum: against messages one by one, forms by hand, sets, bounds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.networks import in_network, torus

RATE, LATENCY = 50e9, 5e-7
SPREAD = ("all_reduce", "all_gather", "reduce_scatter")
SIZES = [(4, 8), (8, 4), (2, 3), (2, 2), (2, 4, 4), (4, 4, 4), (3, 5, 7), (16, 3), (2, 5, 2, 3), (8, 16, 16)]


def grid(sizes: tuple[int, ...], rate: float = RATE, latency: float = LATENCY, **more: Any) -> ts.Cluster:
    one = {"kind": "torus", "sizes": list(sizes), "bandwidth_bytes_per_second": rate, "latency_seconds": latency}
    return ts.Cluster(network=[one | more])


@pytest.mark.parametrize("sizes", SIZES)
def test_the_recursion_is_what_messages_one_by_one_take(sizes: tuple[int, ...]) -> None:
    for latency, op, size in itertools.product((0.0, 1e-6, 1e-4), SPREAD, (1, 999_983, 1 << 28)):
        cluster = grid(sizes, latency=latency)
        closed = ts.cluster.collective(op, size, cluster, algorithm="torus")
        chunks = ts.cluster.collective(op, size, cluster, algorithm="torus", network_model="chunks")
        assert closed.model == "closed" and closed.exact
        assert closed.picoseconds == chunks.picoseconds, (sizes, op, size, latency)


def test_axes_of_other_rates() -> None:
    """Rings of two dimensions, each with links of its own."""
    base = {"kind": "ring", "latency_seconds": LATENCY}
    slow = [
        base | {"size": 4, "bandwidth_bytes_per_second": 9e10},
        base | {"size": 6, "bandwidth_bytes_per_second": 2e10},
    ]
    cluster = ts.Cluster(network=slow)
    for op in SPREAD:
        closed = ts.cluster.collective(op, 1 << 24, cluster, algorithm="torus")
        chunks = ts.cluster.collective(op, 1 << 24, cluster, algorithm="torus", network_model="chunks")
        assert closed.exact and closed.picoseconds == chunks.picoseconds


@pytest.mark.parametrize(("n", "axes"), [(4, 2), (8, 2), (4, 3), (5, 3)])
def test_equal_axes_by_hand(n: int, axes: int) -> None:
    """S cut in 2 × axes parts, round the axes one after another: nothing is shared."""
    size, per = 2 * axes * n**axes * 1000, 2 * axes
    gather = sum((n - 1) * (size / per / n ** (axes - walk) / RATE + LATENCY) for walk in range(axes))
    found = torus.picoseconds("all_gather", size, [n] * axes, [int(RATE)] * axes, [500_000] * axes)
    assert found == pytest.approx(gather * 1e12, abs=10 * n * axes)
    assert torus.picoseconds("all_reduce", size, [n] * axes, [int(RATE)] * axes, [500_000] * axes) == 2 * found


@pytest.mark.parametrize("sizes", SIZES)
def test_bounds_of_tori(sizes: tuple[int, ...]) -> None:
    size, n = 1 << 26, math.prod(sizes)
    ports = sum(2 if one > 2 else 1 for one in sizes)
    for op in SPREAD:
        found = ts.cluster.collective(op, size, grid(sizes), algorithm="torus")
        assert found.seconds >= found.wire_bytes / (ports * RATE)
        assert found.seconds >= sum(one // 2 for one in sizes) * LATENCY
        sent = sum(walk.blocks for part in torus.walks(op, sizes) for walk in part)
        pieces = n * len(torus.walks(op, sizes))
        assert sent * size / pieces == pytest.approx(found.wire_bytes)  # nothing is sent that need not be
        assert ts.cluster.collective(op, 2 * size, grid(sizes), algorithm="torus").seconds > found.seconds
        assert ts.cluster.collective(op, size, grid(sizes, rate=2 * RATE), algorithm="torus").seconds < found.seconds
        assert ts.cluster.collective(op, size, grid(sizes, latency=0), algorithm="torus").seconds < found.seconds


def test_where_there_is_no_recursion() -> None:
    part = ts.cluster.collective("all_reduce", 1 << 20, grid((4, 4, 8)), devices=16, algorithm="torus")
    alone = ts.cluster.collective("all_reduce", 1 << 20, grid((4, 4)), algorithm="torus")
    assert part.picoseconds == alone.picoseconds  # two equal axes: the formula
    uneven = ts.cluster.collective("all_reduce", 1 << 20, grid((4, 8, 2)), devices=32, algorithm="torus")
    assert uneven.model == "closed" and not uneven.exact and uneven.messages > 0  # a part of a torus: by message
    slow = ts.Cluster(network=grid((4, 8)).network, faults=[{"device": 3, "share": 0.5}])
    assert ts.cluster.collective("all_reduce", 1 << 20, slow, algorithm="torus").model == "chunks"


@pytest.mark.parametrize("sizes", [(4, 8), (4, 4), (2, 8), (2, 3), (3, 5, 7)])
def test_one_way_round(sizes: tuple[int, ...]) -> None:
    for op in SPREAD:
        cluster = grid(sizes, both_ways=False)
        closed = ts.cluster.collective(op, 1 << 20, cluster, algorithm="torus")
        chunks = ts.cluster.collective(op, 1 << 20, cluster, algorithm="torus", network_model="chunks")
        assert closed.exact and closed.picoseconds == chunks.picoseconds


def summing(n: int, kind: str = "switch", **more: Any) -> ts.Cluster:
    one = {"kind": kind, "size": n, "bandwidth_bytes_per_second": RATE, "latency_seconds": LATENCY, "reduces": True}
    return ts.Cluster(network=[one | more])


@pytest.mark.parametrize("n", [2, 3, 8, 17])
def test_switches_that_sum_by_hand(n: int) -> None:
    """A port carries S (1 + 1/n) each way where devices ask for their parts, S where vectors stream through a tree."""
    size = n * 10**6
    found = ts.cluster.collective("all_reduce", size, summing(n), algorithm="in-network")
    assert found.seconds == pytest.approx(size * (1 + 1 / n) / RATE + 2 * LATENCY, rel=1e-9)
    assert found.wire_bytes == pytest.approx(size * (1 + 1 / n))
    tree = ts.cluster.collective("all_reduce", size, summing(n, "fat_tree", radix=64), algorithm="in-network")
    assert tree.seconds == pytest.approx(size / RATE + LATENCY, rel=1e-9)
    assert tree.wire_bytes == size
    for op in ("all_gather", "reduce_scatter", "broadcast_devices"):
        one = ts.cluster.collective(op, size, summing(n), algorithm="in-network")
        assert one.seconds == pytest.approx(size / RATE + LATENCY, rel=1e-9)
    assert ts.cluster.collective("all_gather", size, summing(n), algorithm="in-network").wire_bytes == size / n


def test_farther_leaves_of_a_tree_cost_their_trunks() -> None:
    more = {"radix": 8, "levels": 2, "trunk_latency_seconds": 3e-7}
    found = ts.cluster.collective("all_reduce", 10**6, summing(16, "fat_tree", **more), algorithm="in-network")
    assert found.seconds == pytest.approx(10**6 / RATE + LATENCY + 3e-7, rel=1e-6)


@pytest.mark.parametrize("n", range(2, 18))
@pytest.mark.parametrize("op", in_network.OPERATIONS)
def test_sums_of_switches_on_sets(op: str, n: int) -> None:
    rows = in_network.transfers(op, [n])
    in_network.check(op, n, rows)
    if n > 5:
        return
    for number, (_, source, target, chunk, how) in enumerate(rows):
        if op == "all_gather" and source == in_network.SWITCH and target == chunk:
            continue  # a device has its own part
        with pytest.raises(ts.UserError, match=r"never arrives|does not have"):
            in_network.check(op, n, rows[:number] + rows[number + 1 :])
        if how == "combine":
            with pytest.raises(ts.UserError, match="counted twice"):
                in_network.check(op, n, [*rows, rows[number]])


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (2, 2, 2), (4, 1, 3), (2, 3, 2)])
@pytest.mark.parametrize("op", in_network.OPERATIONS)
def test_sums_of_switches_in_several_dimensions_on_sets(op: str, sizes: tuple[int, ...]) -> None:
    n = math.prod(sizes)
    for root in (0, n - 1) if op == "broadcast_devices" else (0,):
        rows = in_network.transfers(op, sizes, root)
        in_network.check(op, n, rows, root)
        switches = {source for _, source, _, _, how in rows if source < 0} | {row[2] for row in rows if row[2] < 0}
        stages = [at for at, _, _ in in_network.stages(op, sizes)]
        assert op == "broadcast_devices" or len(switches) == sum(n // sizes[at] for at in stages)
    if op != "broadcast_devices":  # what a device puts on its ports, counted: of a scatter all, of a gather its part
        up = sum(source == 0 for _, source, _, _, _ in rows)
        shares = {"all_reduce": lambda at, what, inside: n // inside,
                  "reduce_scatter": lambda at, what, inside: n // inside,
                  "all_gather": lambda at, what, inside: n // inside // sizes[at]}  # fmt: skip
        assert up == sum(shares[what](at, what, inside) for at, what, inside in in_network.stages(op, sizes))


def test_inside_a_node_by_its_switch_and_across_by_the_tree() -> None:
    """S (NVLS scatter) + S / 4 (SHARP) + S (NVLS gather), one after another, by hand."""
    inner = {"kind": "switch", "size": 4, "bandwidth_bytes_per_second": 4 * RATE, "latency_seconds": LATENCY}
    outer = {"kind": "fat_tree", "size": 3, "radix": 8, "levels": 1, "bandwidth_bytes_per_second": RATE,
             "latency_seconds": 2 * LATENCY}  # fmt: skip
    both = ts.Cluster(network=[inner | {"reduces": True}, outer | {"reduces": True}])
    size, inside, across = 12 << 20, (12 << 20) / (4 * RATE) + LATENCY, (3 << 20) / RATE + 2 * LATENCY
    times = {"all_reduce": 2 * inside + across, "reduce_scatter": inside + across, "all_gather": inside + across,
             "broadcast_devices": inside + size / RATE + 2 * LATENCY}  # fmt: skip
    for op, seconds in times.items():
        found = ts.cluster.collective(op, size, both, algorithm="in-network")
        assert found.seconds == pytest.approx(seconds, rel=1e-6)
    assert ts.cluster.collective("all_gather", size, both, algorithm="in-network").wire_bytes == size / 12 + size / 4
    ring = ts.cluster.collective("all_reduce", 1 << 30, both, algorithm="hierarchical")
    assert ts.cluster.collective("all_reduce", 1 << 30, both).seconds <= ring.seconds
    columns = [[at, at + 4, at + 8] for at in range(4)]
    found = ts.cluster.collective("all_reduce", size, both, columns, algorithm="in-network")
    assert found.seconds == pytest.approx(size / RATE + 2 * LATENCY, rel=1e-6)
    half = ts.Cluster(network=[inner | {"reduces": True}, outer])
    for cluster, group in ((half, None), (both, [0, 1, 2, 5])):  # a tree that does not sum; no box
        with pytest.raises(ts.UserError, match="no switch"):
            ts.cluster.collective("all_reduce", size, cluster, group, algorithm="in-network")
    slow = ts.Cluster(network=both.network, faults=[{"device": 5, "share": 0.5}])
    found = ts.cluster.collective("all_reduce", size, slow, algorithm="in-network")
    assert found.seconds == pytest.approx(2 * (2 * (inside - LATENCY) + across - 2 * LATENCY) + 4 * LATENCY, rel=1e-6)


def test_auto_takes_the_switch_where_it_sums() -> None:
    for name, chosen in (("dgx-h100", "in-network"), ("dgx-b200", "in-network"), ("dgx-a100", "direct")):
        found = ts.cluster.collective("all_reduce", 1 << 30, name)
        assert found.algorithm == chosen
        others = [
            ts.cluster.collective("all_reduce", 1 << 30, name, algorithm=one).seconds for one in ("ring", "direct")
        ]
        assert found.seconds <= min(others)
    assert ts.cluster.collective("all_reduce", 1 << 30, "dgx-h100", dtype="i8").algorithm != "in-network"
    assert ts.cluster.collective("all_reduce", 1 << 30, "dgx-h100:64").algorithm != "in-network"  # beyond the switch
    rows = [[8 * node + one for one in range(8)] for node in range(8)]
    inside = ts.cluster.collective("all_reduce", 1 << 30, "dgx-h100:64", devices=rows)
    assert inside.algorithm == "in-network" and inside.groups == 8
    two = ts.cluster.collective("all_reduce", 1 << 30, "dgx-h100", devices=2)
    assert two.algorithm != "in-network"  # 2 (n − 1) / n is less than 1 + 1 / n


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"cluster": "dgx-a100"}, "no switch of this network"),
        ({"cluster": "dgx-h100", "dtype": "i8"}, "two bytes"),
        ({"cluster": "dgx-h100", "op": "all_to_all"}, "no switch"),
        ({"cluster": "dgx-h100", "network_model": "chunks"}, "closed"),
        ({"cluster": "dgx-h100:64"}, "no switch"),
        ({"cluster": "tpu-v4:64"}, "no switch"),
        ({"cluster": "dgx-h100", "op": "broadcast_devices", "root": 8}, "root"),
    ],
)
def test_what_no_switch_does(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(ts.UserError, match=told):
        ts.cluster.collective(**{"op": "all_reduce", "bytes": 1 << 20, "algorithm": "in-network", **asked})


def test_only_switches_sum() -> None:
    for kind, value in (("ring", True), ("switch", "yes"), ("full", True)):
        with pytest.raises(ts.UserError, match="reduces"):
            ts.Cluster(network=[{"kind": kind, "size": 4, "bandwidth_bytes_per_second": 1e9, "reduces": value}])
