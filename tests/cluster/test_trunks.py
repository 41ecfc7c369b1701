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
                    ts.cluster.collective(op, 7 << 20, single(kind, n), algorithm=algorithm, model=model, pieces=pieces)
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
                ts.cluster.collective(op, size, cluster, algorithm="ring", model=model)
                for model in ("closed", "chunks")
            )
            assert closed.model == "closed"
            assert abs(closed.picoseconds - chunks.picoseconds) <= 1000, (cluster, op)


def test_an_oversubscribed_tree_takes_a_ring():
    cluster = single("fat_tree", 16, latency=2e-6, radix=8, levels=2, oversubscription=3)
    found = [
        ts.cluster.collective("all_reduce", 10**8, cluster, model=model) for model in ("closed", "chunks", "flows")
    ]
    assert {one.algorithm for one in found} == {"ring"}
    assert {one.picoseconds for one in found} == {30 * (10**8 // 16 * 20 + 2_000_000)}


@pytest.mark.parametrize("model", ["closed", "chunks", "flows"])
@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 1 << 28])
def test_a_broadcast_takes_the_quickest_by_its_model(model, size):
    for cluster in ("dgx-h100:16", "dgx-h100:256", single("switch", 9)):
        found = ts.cluster.collective("broadcast_devices", size, cluster, model=model)
        every = [
            ts.cluster.collective("broadcast_devices", size, cluster, model=model, algorithm=name).picoseconds
            for name in ("ring", "tree", "direct")
        ]
        assert found.picoseconds == min(every) < max(every)
