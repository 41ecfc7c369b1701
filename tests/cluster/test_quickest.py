"""The algorithm that "auto" takes is the quickest of all that can be named, and none is quicker than its links."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import tilesim as ts

SPREAD = ("all_reduce", "all_gather", "reduce_scatter")
OPERATIONS = (*SPREAD, "all_to_all", "broadcast_devices")
NAMES = ("ring", "tree", "halving-doubling", "bruck", "direct", "torus", "hierarchical")
PIECES = (None, 2, 4, 8, 16, 32, 64)


def dimension(rng: random.Random, size: int, outer: bool) -> dict[str, Any]:
    kind = rng.choice(["ring", "mesh", "full", "switch", "switch", "fat_tree"])
    made: dict[str, Any] = {"kind": kind, "size": size, "bandwidth_bytes_per_second": rng.choice([12e9, 50e9, 450e9]),
                            "latency_seconds": rng.choice([0, 1e-7, 1e-6])}  # fmt: skip
    if kind == "ring" and rng.random() < 0.3:
        made["both_ways"] = False
    if kind == "fat_tree":
        made |= {"radix": 8, "levels": 2 if size <= 32 else 3, "trunk_latency_seconds": 3e-7}
    if kind == "switch" and outer and rng.random() < 0.3:
        made["rails"] = 1
    return made


def switch(size: int, rate: float, latency: float, rng: random.Random | None = None) -> dict[str, Any]:
    kind = "switch" if rng is None else rng.choice(["switch", "full"])
    return {"kind": kind, "size": size, "bandwidth_bytes_per_second": rate, "latency_seconds": latency}


def network(rng: random.Random, most: int = 40) -> ts.Cluster:
    while True:
        sizes = [rng.choice([2, 3, 4, 5, 7, 8]) for _ in range(rng.choice([1, 2, 2, 2, 3]))]
        if math.prod(sizes) <= most:
            return ts.Cluster(network=[dimension(rng, size, number > 0) for number, size in enumerate(sizes)])


def named(op: str, size: int, cluster: ts.Cluster, **more: Any) -> dict[tuple[str, int | None], int]:
    """Picoseconds of every algorithm that does it; of levels in every number of pieces, where devices are a box."""
    found = {}
    for name in NAMES:
        levels = name == "hierarchical" and op in SPREAD and len(cluster.dimensions) > 1 and "devices" not in more
        for pieces in PIECES if levels else (None,):
            try:
                one = ts.cluster.collective(op, size, cluster, algorithm=name, pieces=pieces, **more)
            except ts.UserError:
                continue
            found[name, pieces] = one.picoseconds
    return found


def least(op: str, size: int, cluster: ts.Cluster) -> float:
    """Seconds in which the links out of the first device carry what it sends, and the nearest device's latency."""
    n, core = cluster.devices, cluster.core
    ports = sum(link[2] for link in {tuple(core.route(0, to)[0]) for to in range(1, n)})
    latency = min(sum(link[3] for link in core.route(a, b)) for a in range(n) for b in range(n) if a != b) * 1e-12
    if op == "broadcast_devices":
        return latency
    return max(latency, size * (1 if op == "all_reduce" else 1 / n if op == "all_gather" else (n - 1) / n) / ports)


def exact_pieces(cluster: ts.Cluster) -> bool:
    """Networks whose levels have a form in pieces: of others auto takes one number of pieces by the estimate."""
    return all(one.kind in ("full", "switch") and not one.rails for one in cluster.dimensions)


@pytest.mark.parametrize("seed", range(6))
def test_none_that_can_be_named_is_quicker(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        cluster, op = network(rng), rng.choice(OPERATIONS)
        size = rng.choice([1, 4099, 10**6 + 7, 1 << 28])
        root = rng.randrange(cluster.devices) if op == "broadcast_devices" else 0
        found = ts.cluster.collective(op, size, cluster, root=root)
        times = named(op, size, cluster, root=root)
        if not exact_pieces(cluster):
            times = {key: time for key, time in times.items() if key[1] is None or key[1] == (found.pieces or None)}
        what = (cluster.network, op, size, found, times)
        assert found.picoseconds <= min(times.values()), what
        assert found.picoseconds == times[found.algorithm, found.pieces or None], what
        assert found.seconds >= least(op, size, cluster) * (1 - 1e-9), what
        again = ts.cluster.collective(op, size, cluster, root=root, symmetry=False)
        assert (again.algorithm, again.picoseconds, again.pieces) == (found.algorithm, found.picoseconds, found.pieces)


@pytest.mark.parametrize("seed", range(4))
def test_forms_over_several_switches_are_the_time_of_messages(seed: int) -> None:
    rng = random.Random(seed)
    seen = 0
    for _ in range(12):
        sizes = [rng.choice([2, 3, 4, 5, 8]) for _ in range(rng.choice([2, 2, 3]))]
        if math.prod(sizes) > 64:
            continue
        kinds = [dimension(rng, size, False) | {"kind": rng.choice(["full", "switch"])} for size in sizes]
        for one in kinds:
            for key in ("both_ways", "radix", "levels", "trunk_latency_seconds"):
                one.pop(key, None)
        cluster, size = ts.Cluster(network=kinds), rng.choice([0, 1, 999, 10**6 + 7, 1 << 28])
        for op in OPERATIONS:
            for name in ("ring", "direct", "halving-doubling", "hierarchical"):
                pieces = rng.choice([None, 2, 3, 16]) if name == "hierarchical" and op in SPREAD else None
                asked = {"algorithm": name, "pieces": pieces}
                if name == "halving-doubling" and (op not in SPREAD or cluster.devices & (cluster.devices - 1)):
                    continue
                if name == "hierarchical" and op == "broadcast_devices":
                    continue
                closed = ts.cluster.collective(op, size, cluster, **asked)
                if closed.model == "closed":
                    assert closed.exact and closed.messages == 0
                    seen += 1
                    chunks = ts.cluster.collective(op, size, cluster, network_model="chunks", **asked)
                    assert closed.picoseconds == chunks.picoseconds, (kinds, op, size, asked)
    assert seen > 50


@pytest.mark.parametrize("nodes", [3, 16, 61])
@pytest.mark.parametrize("size", [4096, 1 << 24, 1 << 30])
def test_rings_through_many_nodes(nodes: int, size: int) -> None:
    """What comes again is not walked again: the same picoseconds."""
    node = {"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 450e9, "latency_seconds": 5e-7}
    outer = {"kind": "switch", "size": nodes, "bandwidth_bytes_per_second": 50e9, "latency_seconds": 2e-6}
    cluster = ts.Cluster(network=[node, outer])
    for op in SPREAD:
        times = [
            ts.cluster.collective(op, size, cluster, algorithm="ring", network_model=one)
            for one in ("closed", "chunks")
        ]
        assert times[0].model == "closed" and times[0].picoseconds == times[1].picoseconds


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_are_no_boxes(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        cluster, op = network(rng), rng.choice(OPERATIONS)
        size = rng.choice([4099, 10**6 + 7, 1 << 26])
        group = sorted(rng.sample(range(cluster.devices), min(cluster.devices, rng.choice([3, 5, 6, 9]))))
        found = ts.cluster.collective(op, size, cluster, devices=group)
        times = named(op, size, cluster, devices=group)
        assert found.picoseconds <= min(times.values()), (cluster.network, op, size, group, found, times)


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_meet_have_what_is_quickest_together(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        cluster, op = network(rng), rng.choice((*SPREAD, "all_to_all"))
        count = rng.choice([2, 3])
        mixed = rng.sample(range(cluster.devices), cluster.devices // count * count)
        if len(mixed) < 2 * count:
            continue
        groups = [sorted(mixed[at::count]) for at in range(count)]
        size = rng.choice([4099, 10**6 + 7, 1 << 26])
        found = ts.cluster.collective(op, size, cluster, devices=groups)
        times = named(op, size, cluster, devices=groups)
        assert found.picoseconds <= min(times.values()), (cluster.network, op, size, groups, found, times)


def test_large_sums_go_in_pieces_or_round_rings() -> None:
    """By hand: what a node sends out, and what its ports carry inside; levels that follow one another took both."""
    found = ts.cluster.collective("all_reduce", 1 << 30, "dgx-h100:64")
    outside, inside = 2 * 7 / 8 * (1 << 30) / 8 / 50e9, 2 * 7 / 8 * (1 << 30) / 450e9
    assert max(outside, inside) < found.seconds < 1.15 * max(outside, inside)
    assert found.exact and found.messages == 0
    few = ts.cluster.collective("all_reduce", 4096, "tpu-v4:64")
    levels = ts.cluster.collective("all_reduce", 4096, "tpu-v4:64", algorithm="torus")
    assert few.seconds < 0.8 * levels.seconds


@pytest.mark.parametrize("seed", range(3))
def test_groups_on_switches_meet_at_ports_of_others(seed: int) -> None:
    """Groups whose stride divides no node, and nodes in threes: what one sends on takes ports of another's devices."""
    rng = random.Random(seed)
    met = 0
    for _ in range(8):
        sizes = [rng.choice([4, 6, 8]), rng.choice([2, 3, 4])]
        cluster = ts.Cluster(network=[switch(size, rng.choice([50e9, 450e9]), 1e-6, rng) for size in sizes])
        many, count = cluster.devices, rng.choice([2, 3, 5])
        groups = [list(range(at, many, count)) for at in range(count)]
        if rng.random() < 0.5:
            groups = [list(range(at, at + count)) for at in range(0, many - count + 1, count)]
        op, size = rng.choice((*SPREAD, "all_to_all")), rng.choice([4099, 1 << 24])
        for name in ("ring", "direct"):
            found = ts.cluster.collective(op, size, cluster, groups, algorithm=name)
            chunks = ts.cluster.collective(op, size, cluster, groups, algorithm=name, network_model="chunks")
            assert found.picoseconds == chunks.picoseconds, (sizes, groups, op, size, name)
            alone = max(ts.cluster.collective(op, size, cluster, one, algorithm=name).seconds for one in groups)
            assert found.seconds >= alone * (1 - 1e-9)
            met += found.seconds > 1.01 * alone
            assert not (found.exact and found.seconds > 1.01 * alone)
    assert met > 0


def test_boxes_on_switches_meet_nowhere() -> None:
    cluster = ts.Cluster(network=[switch(8, 450e9, 1e-6), switch(3, 50e9, 1e-6)])
    for groups in ([list(range(8)), list(range(8, 16))], [[0, 1, 8, 9], [2, 3, 10, 11], [6, 22]]):
        for op in SPREAD:
            times = [
                ts.cluster.collective(op, 1 << 24, cluster, groups, network_model=one) for one in ("closed", "chunks")
            ]
            assert times[0].exact and times[0].picoseconds == times[1].picoseconds
    strided = [list(range(at, 24, 3)) for at in range(3)]
    found = ts.cluster.collective("all_reduce", 10**8, cluster, strided)
    alone = max(ts.cluster.collective("all_reduce", 10**8, cluster, one).seconds for one in strided)
    assert not found.exact and found.seconds > 1.1 * alone


@pytest.mark.parametrize("seed", range(3))
def test_circles_that_differ_meet(seed: int) -> None:
    """Of two circles of one length that differ in rate, latency or ways: exact is what messages take."""
    rng = random.Random(seed)
    seen = set()
    for _ in range(14):
        size, ring = (
            rng.choice([2, 3, 4]),
            {"kind": "ring", "bandwidth_bytes_per_second": 300e9, "latency_seconds": 1e-6},
        )
        other = {"size": size if rng.random() < 0.8 else 5, **ring}
        if rng.random() < 0.7:
            key = rng.choice(["bandwidth_bytes_per_second", "latency_seconds"])
            other[key] = {"bandwidth_bytes_per_second": 12.5e9, "latency_seconds": 5e-6}[key]
        kinds = [{"size": size, **ring}, other, switch(rng.choice([2, 3]), 50e9, 1e-6)]
        if rng.random() < 0.3:
            kinds[0]["both_ways"] = kinds[1]["both_ways"] = False
        rng.shuffle(kinds)
        cluster = ts.Cluster(network=kinds)
        devices = None if rng.random() < 0.7 or kinds[2]["kind"] == "ring" else cluster.devices // kinds[2]["size"]
        for op in SPREAD:
            name = rng.choice(["torus", "hierarchical"])
            asked = {"algorithm": name, "devices": devices}
            found = ts.cluster.collective(op, rng.choice([4099, 1 << 24]), cluster, **asked)
            chunks = ts.cluster.collective(op, found.bytes, cluster, network_model="chunks", **asked)
            assert found.picoseconds == chunks.picoseconds, (kinds, op, found, chunks)
            seen.add(found.exact)
    assert seen == {True, False}


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("size", [2, 4, 5, 8])
def test_one_ring_exchanges_and_sums_as_a_torus_does(size: int, both_ways: bool) -> None:
    """By hand: links carry blocks of an exchange the shorter way, all equally. Pieces take what messages do."""
    ring = {"kind": "ring", "size": size, "both_ways": both_ways, "bandwidth_bytes_per_second": 100e9}
    one = ts.Cluster(network=[ring | {"latency_seconds": 0}])
    found = ts.cluster.collective("all_to_all", 423_698, one)
    times = named("all_to_all", 423_698, one)
    assert found.picoseconds == min(times.values())
    hops = sum(min(at, size - at) for at in range(size)) / (2 if size > 2 else 1) if both_ways else sum(range(size))
    assert found.seconds == pytest.approx(hops * 423_698 / size / 100e9, rel=1e-6)
    late = ts.Cluster(network=[ring | {"latency_seconds": 5e-6}])
    for op in SPREAD:
        found = ts.cluster.collective(op, 1 << 20, late)
        assert found.picoseconds <= min(named(op, 1 << 20, late).values())
        for pieces in (2, 3, 16):
            asked = {"algorithm": "torus", "pieces": pieces}
            closed = ts.cluster.collective(op, 10**7 + 7, late, **asked)
            chunks = ts.cluster.collective(op, 10**7 + 7, late, network_model="chunks", **asked)
            assert closed.exact and closed.model == "closed" and closed.picoseconds == chunks.picoseconds


@pytest.mark.parametrize("size", [61, 1 << 24])
def test_rings_of_many_messages_are_tried_as_others_are(size: int) -> None:
    """Of devices that are no box no form says which is quickest; the first of the list is not taken unseen."""
    tree = {"kind": "fat_tree", "size": 8, "radix": 16, "bandwidth_bytes_per_second": 100e9, "latency_seconds": 0}
    ring = {"kind": "ring", "size": 2, "bandwidth_bytes_per_second": 50e9, "latency_seconds": 5e-6}
    hosts = {"kind": "dragonfly", "sizes": [2, 2, 3], "bandwidth_bytes_per_second": 25e9, "latency_seconds": 1e-6}
    for network_, group in (
        ([tree, ring, switch(2, 450e9, 0)], range(30)),
        ([switch(3, 450e9, 1e-6), hosts], range(35)),
        ([hosts | {"sizes": [2, 3, 3]}, switch(2, 50e9, 1e-6)], range(36)),
    ):
        cluster = ts.Cluster(network=network_)
        for op in ("all_reduce", "reduce_scatter"):
            found = ts.cluster.collective(op, size, cluster, devices=list(group))
            assert found.picoseconds <= min(named(op, size, cluster, devices=list(group)).values())
