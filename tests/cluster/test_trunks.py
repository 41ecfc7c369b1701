"""Trunks of fat trees, pieces that follow one another, and the choice of a broadcast."""

import itertools
import random

import pytest

import tilesim as ts


def single(kind, n, latency=5e-7, **more):
    rate = {"bandwidth_bytes_per_second": 50e9, "latency_seconds": latency}
    return ts.Cluster(network=[{"kind": kind, "size": n, **rate, **more}])


@pytest.mark.parametrize("pieces", range(1, 17))
def test_pieces_go_one_after_the_other_in_flows(pieces):
    for n in (2, 5, 8):
        for op, algorithm, kinds in (
            ("broadcast_devices", "ring", ("ring", "full", "switch")),
            ("broadcast_devices", "tree", ("full",)),
            ("all_reduce", "tree", ("full",)),
        ):
            for kind in kinds:
                chunks, flows = (
                    ts.cluster.collective(
                        op, 7 << 20, single(kind, n), algorithm=algorithm, network_model=model, pieces=pieces
                    )
                    for model in ("chunks", "flows")
                )
                assert abs(chunks.picoseconds - flows.picoseconds) <= 1000, (op, algorithm, kind, n)


def random_trees():
    rng = random.Random(7)
    while True:
        radix, levels, over = rng.choice([4, 6, 8, 12]), rng.choice([2, 3]), rng.choice([1, 1.5, 2, 3])
        down = int(radix * over / (1 + over))
        most = min(48, down ** (levels - 1) * radix)
        if over <= radix - 1 and most > down + 1:
            more = {"radix": radix, "levels": levels, "oversubscription": over}
            more["trunk_latency_seconds"] = rng.choice([0, 1e-6])
            yield single("fat_tree", rng.randint(max(3, down + 1), most), **more), int(10 ** rng.uniform(3, 8.5))


def test_rings_over_trunks_of_fat_trees():
    """One message of a leaf crosses each way, so that none waits for another: to 1 ns of rounding."""
    for cluster, size in itertools.islice(random_trees(), 80):
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            closed, chunks = (
                ts.cluster.collective(op, size, cluster, algorithm="ring", network_model=model)
                for model in ("closed", "chunks")
            )
            assert closed.model == "closed"
            assert abs(closed.picoseconds - chunks.picoseconds) <= 1000, (cluster, op)


def test_an_oversubscribed_tree_takes_a_ring():
    cluster = single("fat_tree", 16, latency=2e-6, radix=8, levels=2, oversubscription=3)
    found = [
        ts.cluster.collective("all_reduce", 10**8, cluster, network_model=model)
        for model in ("closed", "chunks", "flows")
    ]
    assert {one.algorithm for one in found} == {"ring"}
    assert {one.picoseconds for one in found} == {30 * (10**8 // 16 * 20 + 2_000_000)}


@pytest.mark.parametrize("model", ["closed", "chunks", "flows"])
@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 1 << 28])
def test_a_broadcast_takes_the_quickest_by_messages(model, size):
    for cluster in ("dgx-h100:16", "dgx-h100:256", single("switch", 9)):
        found = ts.cluster.collective("broadcast_devices", size, cluster, network_model=model)
        every = [
            ts.cluster.collective("broadcast_devices", size, cluster, network_model=model, algorithm=name).picoseconds
            for name in ("ring", "tree", "direct")
        ]
        if model == "flows":  # the choice is that of the other models
            assert found.algorithm == ts.cluster.collective("broadcast_devices", size, cluster).algorithm
            assert min(every) <= found.picoseconds <= 1.2 * min(every)
        else:
            assert found.picoseconds == min(every) < max(every)


@pytest.mark.parametrize("op", ["all_to_all", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize(
    "network",
    [
        {"kind": "fat_tree", "size": 264, "radix": 24, "levels": 3, "oversubscription": 1},
        {"kind": "fat_tree", "size": 300, "radix": 12, "levels": 3, "oversubscription": 3},
        {"kind": "fat_tree", "size": 288, "radix": 64, "levels": 2, "oversubscription": 2},
        {"kind": "dragonfly", "sizes": [4, 4, 17]},
        {"kind": "dragonfly", "sizes": [2, 8, 18], "global_bandwidth_bytes_per_second": 25e9},
    ],
)
def test_direct_of_many_devices_is_near_chunks(network, op):
    """Large messages, of which latencies are next to nothing; more than are taken one by one."""
    rate = {"bandwidth_bytes_per_second": 50e9, "latency_seconds": 1e-6}
    cluster = ts.Cluster(network=[network | rate])
    closed, chunks = (
        ts.cluster.collective(op, 1 << 32, cluster, algorithm="direct", network_model=model)
        for model in ("closed", "chunks")
    )
    assert closed.model == "closed" and not closed.exact and closed.messages == 0
    assert closed.seconds == pytest.approx(chunks.seconds, rel=0.05)


def test_algorithms_of_few_steps_are_those_of_chunks_on_many_devices():
    cluster = single("fat_tree", 512, radix=24, levels=3, oversubscription=3)
    for op in ("all_gather", "all_reduce"):
        closed, chunks = (
            ts.cluster.collective(op, 1 << 26, cluster, algorithm="halving-doubling", network_model=model)
            for model in ("closed", "chunks")
        )
        assert closed.messages > 0 and abs(closed.picoseconds - chunks.picoseconds) <= 1000


def trees_of_equal_leaves():
    """Clusters on fat trees of two and three levels; groups: all devices, one per node, those of some leaf switches."""
    rng = random.Random(11)
    link = {"bandwidth_bytes_per_second": 50e9, "latency_seconds": 5e-7}
    for levels, radix, over, inside in ((2, 4, 1, 1), (2, 8, 1, 2), (2, 8, 3, 3), (3, 4, 1, 2), (3, 6, 2, 1)):
        down = int(radix * over / (1 + over))
        tree = {"kind": "fat_tree", "size": 4 * down ** (levels - 1), "radix": radix, "levels": levels, **link}
        tree |= {"oversubscription": over, "trunk_latency_seconds": rng.choice([0, 3e-7])}
        node = {"kind": "switch", "size": inside, **link, "bandwidth_bytes_per_second": 4e11}
        cluster = ts.Cluster(network=[node, tree] if inside > 1 else [tree])
        n, unit = cluster.devices, inside * down ** (levels - 1)
        yield cluster, unit, range(n)
        yield cluster, unit // inside, range(0, n, inside)
        yield cluster, unit, range(unit, 3 * unit)


def test_the_members_of_a_leaf_switch_represent_those_of_the_others():
    """Leaf switches (pods, if there are several) send the same messages: the time is that of all members simulated."""
    for cluster, unit, group in trees_of_equal_leaves():
        size = random.Random(unit).choice([1, 1000, 10**6 + 7, 1 << 26])
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            for algorithm in ("hierarchical", "direct", "ring", "bruck", "halving-doubling"):
                if algorithm == "halving-doubling" and (len(group) & (len(group) - 1) or op == "all_to_all"):
                    continue
                for model in ("chunks", "flows") if len(group) < 32 else ("chunks",):
                    asked = {"op": op, "bytes": size, "cluster": cluster, "devices": [*group], "algorithm": algorithm}
                    once, all_ = (
                        ts.cluster.collective(**asked, network_model=model, symmetry=on) for on in (True, False)
                    )
                    assert once.picoseconds == all_.picoseconds, (cluster, group, op, algorithm, model)
                    # an exclusive or of positions only maps leaf switches of 2, 4, ... members onto each other
                    assert once.classes <= unit or algorithm == "halving-doubling", (cluster, group, algorithm)
                    assert all_.classes == len(group)


def test_a_sum_over_levels_of_thousands_is_that_of_its_messages():
    """Formulas know nothing of members that begin their gather at different times, and delay each other."""
    asked = {"op": "all_reduce", "bytes": 1 << 26, "cluster": "dgx-h100:4096", "algorithm": "hierarchical"}
    closed, chunks = (ts.cluster.collective(**asked, network_model=model) for model in ("closed", "chunks"))
    assert closed.picoseconds == chunks.picoseconds and closed.classes == chunks.classes == 32
    assert closed.messages == 32 * 2 * (7 + 511)
