"""Libraries on networks: what faults leave of links, and the ways of permutes."""

import itertools
import random

import pytest

import tilesim as ts

SHARES = (1.0, 0.9, 0.6, 0.5, 0.25, 0.05)
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices", "broadcast_devices")
CLUSTERS = {"nccl": ("dgx-h100", "dgx-h100:16", "dgx-a100:32", "l40s-8"), "xla-tpu": ("tpu-v4:64", "tpu-v5e:16"),
            "plain": ("dgx-h100:16", "tpu-v4:64", "mi300x-8")}  # fmt: skip


class Own:
    """Bytes over the rate of the link that it is told."""

    name = "own"

    def seconds(self, op, size, dtype, devices, per_node, *, link, node_link, generation):
        return size / link + (size / node_link if node_link and devices > per_node else 0)


def faulty(name, faults):
    base = ts.Cluster.load(name)
    return ts.Cluster(base.device, network=base.network, per_node=base.per_node, generation=base.generation,
                      faults=faults)  # fmt: skip


@pytest.mark.parametrize("library", [*CLUSTERS, "own"])
@pytest.mark.parametrize("seed", range(3))
def test_no_time_falls_as_a_link_gets_slower(library, seed):
    rng = random.Random(seed)
    slower = 0
    for op in OPERATIONS:
        name = rng.choice(CLUSTERS.get(library, CLUSTERS["plain"]))
        size, device = int(10 ** rng.uniform(3, 9.5)), rng.randrange(ts.Cluster.load(name).devices)
        asked = {"library": Own() if library == "own" else library}
        times = [
            ts.cluster.collective(op, size, faulty(name, [{"device": device, "share": share}]), **asked).seconds
            for share in SHARES
        ]
        assert times[0] == pytest.approx(ts.cluster.collective(op, size, name, **asked).seconds, rel=1e-12)
        assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(times)), (op, name, size, times)
        assert times[-1] <= times[0] / SHARES[-1] * (1 + 1e-9)
        slower += times[-1] > times[0] * 1.01
    assert slower > 1


def test_half_a_link_is_twice_the_time_and_only_for_those_on_it():
    """`plain` is bytes over the slowest link."""
    size = 1 << 28
    slow = faulty("dgx-h100", [{"device": 3, "share": 0.5}])
    for op in OPERATIONS:
        alone = ts.cluster.collective(op, size, "dgx-h100", library="plain").seconds
        assert ts.cluster.collective(op, size, slow, library="plain").seconds == pytest.approx(2 * alone)
    found = ts.cluster.collective("all_reduce", size, slow, [0, 1, 4], library="plain").seconds
    assert found == ts.cluster.collective("all_reduce", size, "dgx-h100", [0, 1, 4], library="plain").seconds


def test_what_goes_round_a_failed_link_is_on_others():
    size, base = 1 << 28, [{"kind": "ring", "size": 8, "bandwidth_bytes_per_second": 1e10, "latency_seconds": 1e-6}]
    cut = ts.Cluster(network=base, faults=[{"source": 0, "target": 1, "share": 0}])
    alone = ts.cluster.collective("all_gather", size, ts.Cluster(network=base), library="plain").seconds
    assert ts.cluster.collective("all_gather", size, cut, library="plain").seconds == pytest.approx(2 * alone)


def test_a_slow_link_slows_the_step_of_a_program_and_its_replay():
    b = ts.GraphBuilder("sum")
    b.output(b.op("all_reduce", b.input("x", (1 << 24,)), combiner="add"), "y")
    graph = b.build()
    graph.annotate(devices=8)
    spmd, slow = ts.cluster.Spmd.from_partitioned(graph), faulty("dgx-h100", [{"device": 3, "share": 0.5}])
    whole, half = (ts.cluster.step(spmd, one, library="nccl") for one in ("dgx-h100", slow))
    assert half.seconds > 1.2 * whole.seconds
    again = ts.cluster.replay(half.to_trace(), slow, library="nccl")
    assert again.seconds == pytest.approx(half.seconds - half.parts["host"], rel=1e-9)


def test_a_permute_goes_as_its_ways_say():
    """Four further round a ring of eight, one way: each link carries four messages, each over four hops."""
    rate, latency, size = 1e10, 1e-6, 1 << 26
    ring = {"kind": "ring", "size": 8, "bandwidth_bytes_per_second": rate, "latency_seconds": latency}
    one_way = ts.Cluster(network=[ring | {"both_ways": False}])
    further = [(at, (at + 4) % 8) for at in range(8)]
    found = ts.cluster.collective("permute_devices", size, one_way, pairs=further, library="plain").seconds
    assert found == pytest.approx(4 * size / rate + 3 * latency)
    lone = ts.cluster.collective("permute_devices", size, one_way, pairs=[(0, 1)], library="plain").seconds
    assert lone == pytest.approx(size / rate)
    both = ts.cluster.collective("permute_devices", size, ts.Cluster(network=[ring]), library="plain").seconds
    assert both == pytest.approx(size / rate)  # one link each, not all of a device
    assert ts.cluster.collective("permute_devices", size, one_way, pairs=[(2, 2)], library="plain").seconds == 0


def test_a_permute_inside_nodes_takes_no_link_between_them():
    pairs = [(at, at ^ 1) for at in range(16)]
    found = ts.cluster.collective("permute_devices", 1 << 28, "dgx-h100:16", pairs=pairs, library="plain")
    assert found.seconds == pytest.approx((1 << 28) / 450e9)
    across = ts.cluster.collective("permute_devices", 1 << 28, "dgx-h100:16", library="plain",
                                   pairs=[(at, (at + 8) % 16) for at in range(16)])  # fmt: skip
    assert across.seconds == pytest.approx((1 << 28) / 50e9)
