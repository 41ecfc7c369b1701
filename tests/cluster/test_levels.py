"""Rings through nodes, pieces that pass through levels one behind another, exchanges on tori: bounds, sets by hand."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core
from tilesim.cluster.communication import schedule

SPREAD = ("all_reduce", "all_gather", "reduce_scatter")
MODELS = ("closed", "chunks", "flows")
NEAR, FAR = 450e9, 50e9


def nodes(inside: int, outside: int, near: float = 2e-6, far: float = 10e-6) -> ts.Cluster:
    both = ((inside, NEAR, near), (outside, FAR, far))
    return ts.Cluster(network=[
        {"kind": "switch", "size": size, "bandwidth_bytes_per_second": rate, "latency_seconds": latency}
        for size, rate, latency in both
    ])  # fmt: skip


def torus(sizes: tuple[int, ...], latency: float = 1e-6, **more: Any) -> ts.Cluster:
    one = {"kind": "torus", "sizes": list(sizes), "bandwidth_bytes_per_second": FAR, "latency_seconds": latency}
    return ts.Cluster(network=[one | more])


def held_at_the_end(made: dict[str, Any]) -> dict[tuple[int, int], tuple[int, frozenset[int]]]:
    """Runs transfers on sets of contributions; one counted twice is an error."""
    slots = made["slots"]
    held = {divmod(place, slots): (value, frozenset([place // slots]))
            for place, value in enumerate(made["initial"]) if value >= 0}  # fmt: skip
    for _, step in itertools.groupby(sorted(made["transfers"]), key=lambda one: one[0]):
        read = [(target, into, combine, held[source, start]) for _, source, target, start, into, combine in step]
        for target, into, combine, (value, names) in read:
            if combine:
                assert held[target, into][0] == value and not held[target, into][1] & names
                names = names | held[target, into][1]
            held[target, into] = value, names
    return held


def meant(made: dict[str, Any], op: str) -> None:
    held, n = held_at_the_end(made), made["devices"]
    for device, slot in itertools.product(range(n), range(made["slots"])):
        if op == "all_reduce" or (op == "reduce_scatter" and slot % n == device):
            assert held[device, slot] == (slot, frozenset(range(n)))
        if op == "all_gather":
            assert held[device, slot] == (slot, {slot % n})
        if op == "all_to_all" and slot % n == device:
            assert held[device, slot] == (slot, {slot // n % n})


def random_groups(seed: int) -> list[tuple[int, list[int]]]:
    """Devices of a node, and groups with other numbers of members in one node than in another."""
    rng = random.Random(seed)
    found = []
    while len(found) < 12:
        inside = rng.choice([2, 3, 4, 8])
        group = sorted(rng.sample(range(4 * inside), rng.randint(2, min(10, 4 * inside))))
        found.append((inside, group))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_rings_through_parts_of_any_size(seed: int) -> None:
    """Each part sends and receives through as many adapters as the smallest part has members, and no faster."""
    size = 120 << 20
    for inside, group in random_groups(seed):
        cluster, n = nodes(inside, 4, 0.0, 0.0), len(group)
        parts = [sum(one // inside == node for one in group) for node in range(4)]
        fewest = min(part for part in parts if part)
        spans = sum(part > 0 for part in parts) > 1
        for op in SPREAD:
            made = schedule(op, size, group, cluster, "ring")
            meant(made, op)
            _core.cluster_check_schedule(made)
            gathers = 2 if op == "all_reduce" else 1
            rate = min(NEAR, fewest * FAR) if spans else NEAR
            least = gathers * (n - 1) / n * size / rate
            for model in ("chunks", "flows"):
                found = ts.cluster.collective(op, size, cluster, devices=group, algorithm="ring", network_model=model)
                assert found.seconds >= least * (1 - 1e-9)
                # a message waits for those of other rings on a port: a step or so more
                assert found.seconds <= least * (1 + 2 / n) + 1e-9, (group, inside, op, model)


@pytest.mark.parametrize(("inside", "outside"), [(2, 2), (3, 2), (4, 3), (2, 5), (8, 2)])
def test_equal_parts_are_one_class(inside: int, outside: int) -> None:
    cluster = nodes(inside, outside)
    for op, model in itertools.product(SPREAD, ("chunks", "flows")):
        meant(schedule(op, 1 << 20, list(range(inside * outside)), cluster, "ring"), op)
        once, all_ = (
            ts.cluster.collective(op, 10**7 + 1, cluster, algorithm="ring", network_model=model, symmetry=on)
            for on in (True, False)
        )
        assert once.classes == 1 and once.picoseconds == all_.picoseconds


def test_rings_through_nodes_by_hand() -> None:
    """Two nodes of two: each adapter carries one ring's three quarters; of one ring one adapter carries all."""
    size = 4 << 20
    cluster = nodes(2, 2, 0.0, 0.0)
    two = ts.cluster.collective("all_gather", size, cluster, algorithm="ring", network_model="flows")
    one = ts.cluster.collective("all_gather", size, cluster, algorithm="ring", rings=1, network_model="flows")
    assert two.seconds == pytest.approx(3 / 4 * size / 2 / FAR, rel=0.06)
    assert one.seconds == pytest.approx(3 / 4 * size / FAR, rel=0.06)
    with pytest.raises(ts.UserError, match=r"rings.*1 \.\.\. 2"):
        ts.cluster.collective("all_gather", size, cluster, algorithm="ring", rings=3, network_model="flows")


@pytest.mark.parametrize(("inside", "outside"), [(2, 2), (8, 2), (4, 4), (8, 8), (3, 5)])
@pytest.mark.parametrize("op", SPREAD)
def test_pieces_pass_through_levels_behind_one_another(op: str, inside: int, outside: int) -> None:
    """By hand: whole levels take their sum, pieces of it the longest and a piece of the others."""
    cluster, size = nodes(inside, outside, 0.0, 0.0), 1 << 28
    near, far = (inside - 1) / inside * size / NEAR, (outside - 1) / outside * size / inside / FAR
    gathers = 2 if op == "all_reduce" else 1
    for model in MODELS:
        for pieces in (1, 2, 7, 32):
            found = ts.cluster.collective(
                op, size, cluster, algorithm="hierarchical", network_model=model, pieces=pieces
            )
            assert found.seconds >= gathers * max(near, far) * (1 - 1e-9)
            assert found.seconds <= gathers * (max(near, far) + min(near, far) / pieces) * (1 + 1e-6), (model, pieces)
            if pieces == 1:
                assert found.seconds == pytest.approx(gathers * (near + far))
    request = {"operation": op, "bytes": size, "devices": list(range(inside * outside)), "algorithm": "hierarchical",
               "rings": 0, "pieces": 3, "root": 0, "pairs": [], "start": 0, "own": None}  # fmt: skip
    meant(cluster.core.schedule(request), op)


def test_pieces_of_many_devices_are_those_of_messages() -> None:
    for op, pieces in itertools.product(SPREAD, (2, 8, 64)):
        closed, chunks = (
            ts.cluster.collective(
                op, 1 << 30, nodes(8, 64), algorithm="hierarchical", network_model=model, pieces=pieces
            )
            for model in ("closed", "chunks")
        )
        assert closed.exact and closed.messages == 0
        assert closed.picoseconds == chunks.picoseconds


SIZES = [(2, 2), (4, 4), (5, 5), (3, 3, 3), (2, 4), (4, 8), (3, 5), (6, 2, 3), (8, 4, 2), (4, 4, 4)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("both_ways", [True, False])
def test_exchanges_on_tori_take_their_bisection(sizes: tuple[int, ...], both_ways: bool) -> None:
    """Bound by hand: the bytes that pass an axis, each the shortest way, over its links."""
    size, n = 210 << 16, math.prod(sizes)
    free, real = (torus(sizes, latency, both_ways=both_ways) for latency in (0.0, 1e-6))
    hops = [sum(min(k, one - k) if both_ways else k for k in range(one)) / one for one in sizes]
    ways = [2 if both_ways and one > 2 else 1 for one in sizes]
    loads = [size * hop / way / FAR for hop, way in zip(hops, ways, strict=True)]
    if n <= 36:
        meant(schedule("all_to_all", size, list(range(n)), free, "torus"), "all_to_all")
    far = sum(one // 2 if both_ways else one - 1 for one in sizes)
    for model in MODELS:
        found = ts.cluster.collective("all_to_all", size, free, network_model=model)
        assert found.algorithm == "torus" and found.seconds >= max(loads) * (1 - 1e-9)
        if len(set(sizes)) == 1:
            assert found.seconds == pytest.approx(max(loads), rel=1e-4) and found.exact
        else:  # where axes differ a part may wait for another's on the longest
            assert found.seconds <= max(sum(loads) / len(loads), max(loads)) * 1.35
        more = ts.cluster.collective("all_to_all", size, real, network_model=model).seconds
        assert found.seconds <= more <= found.seconds + 2 * far * 1e-6
    closed, chunks = (
        ts.cluster.collective("all_to_all", size, real, network_model=one) for one in ("closed", "chunks")
    )
    assert abs(closed.picoseconds - chunks.picoseconds) <= 1000


@pytest.mark.parametrize("model", ["chunks", "flows"])
def test_a_longer_latency_takes_longer_where_the_algorithm_suits_the_network(model: str) -> None:
    rng = random.Random(5)
    for _ in range(60):
        n, kind = rng.choice([3, 4, 5, 6, 8]), rng.choice(["nodes", "torus", "one way", "ring"])
        op, size, late = rng.choice([*SPREAD, "all_to_all"]), rng.randrange(1 << 22), rng.uniform(0, 2e-5)
        times, name = [], "auto"
        for one in (late, late + rng.choice([1e-9, 1e-7, 1e-6])):
            sizes = (n, 3) if kind == "torus" else (n,)
            cluster = nodes(2, n, one, one) if kind == "nodes" else torus(sizes, one, both_ways=kind != "one way")
            found = ts.cluster.collective(op, size, cluster, network_model=model, algorithm=name)
            times.append(found.picoseconds)
            name = found.algorithm
        assert times[0] <= times[1], (kind, n, op, size, late)


def test_a_longer_latency_may_turn_an_order() -> None:
    """First come, first served: the case that the documentation names. An algorithm whose messages cross each other."""
    cluster = {"kind": "ring", "size": 5, "both_ways": False, "bandwidth_bytes_per_second": FAR}
    first, then = (
        ts.cluster.collective("all_reduce", 1_419_967, ts.Cluster(network=[cluster | {"latency_seconds": late}]),
                              algorithm="halving-doubling", network_model="chunks").seconds
        for late in (4.652302570547209e-06, 4.752302570547209e-06)
    )  # fmt: skip
    assert 0.85 * first < then < first
