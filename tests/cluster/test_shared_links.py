"""Networks whose links are shared, and faults: the closed form against messages one by one, and what a fault moves."""

import itertools

import pytest

import tilesim as ts
from support.random_networks import networks

SPREAD = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast_devices")


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_auto_in_closed_form_is_auto_in_chunks(seed):
    shared = 0
    for network, size, _ in itertools.islice(networks(seed), 40):
        cluster = ts.Cluster(network=network)
        for op in SPREAD:
            closed = ts.cluster.collective(op, size, cluster)
            named = {"algorithm": closed.algorithm, "pieces": closed.pieces or None}
            chunks = ts.cluster.collective(op, size, cluster, network_model="chunks", **named)
            shared += closed.messages > 0
            assert closed.exact or closed.messages > 0  # nothing is an estimate; some broadcasts have no form
            assert abs(closed.picoseconds - chunks.picoseconds) <= 1000, (network, op, size)
            if op != "broadcast_devices":
                again = ts.cluster.collective(op, size, cluster, network_model="chunks")
                assert (again.algorithm, again.pieces) == (closed.algorithm, closed.pieces)
    assert shared > 40


@pytest.mark.parametrize("model", ["closed", "chunks"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_fault_moves_the_time_by_what_it_is(model, seed):
    """Slower the larger it is, from the time without it on, and never by more than if all links had it."""
    for network, size, rng in itertools.islice(networks(seed, 32), 14):
        devices = ts.Cluster(network=network).devices
        fault = {"device": rng.randrange(devices)}
        for op in SPREAD:
            for algorithm in ("auto", "ring", "tree", "halving-doubling", "bruck", "direct", "hierarchical"):
                times = []
                for share in (1, 1 - 1e-6, 0.999, 0.99, 0.9, 0.5):
                    faults = [fault | {"share": share}] if share < 1 else []
                    cluster = ts.Cluster(network=network, faults=faults)
                    try:
                        found = ts.cluster.collective(op, size, cluster, algorithm=algorithm, network_model=model)
                    except ts.UserError:
                        assert not times
                        break
                    times.append(found.picoseconds)
                    assert times[-1] <= times[0] / share * (1 + 1e-9) + 100_000, (network, op, algorithm, size)
                assert times == sorted(times), (network, op, algorithm, size)


def test_sums_in_switches_with_a_slow_port():
    whole = ts.Cluster.load("dgx-h100:8")
    alone = ts.cluster.collective("all_reduce", 1 << 28, whole)
    assert alone.algorithm == "in-network"
    for share in (0.999, 0.9):
        slow = ts.Cluster(network=whole.network, faults=[{"device": 3, "share": share}])
        found = ts.cluster.collective("all_reduce", 1 << 28, slow)
        assert found.algorithm == "in-network"
        assert alone.seconds < found.seconds <= alone.seconds / share + 1e-9
    computing = ts.Cluster(network=whole.network, faults=[{"device": 3, "compute": 0.5}])
    assert ts.cluster.collective("all_reduce", 1 << 28, computing).picoseconds == alone.picoseconds


def test_groups_whose_links_have_no_fault_take_as_long():
    network = [{"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 50e9, "latency_seconds": 1e-6},
               {"kind": "switch", "size": 4, "bandwidth_bytes_per_second": 25e9, "latency_seconds": 2e-6}]  # fmt: skip
    slow = ts.Cluster(network=network, faults=[{"device": 20, "share": 0.5}])
    for op in SPREAD:
        asked = {"devices": list(range(8)), "network_model": "chunks", "algorithm": "direct"}
        one = ts.cluster.collective(op, 1 << 24, ts.Cluster(network=network), **asked)
        assert ts.cluster.collective(op, 1 << 24, slow, **asked).picoseconds == one.picoseconds


ONE = {"bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}
NAMED = {  # network, algorithm of a sum, its time in milliseconds for 10 MB
    "ring": ([{"kind": "ring", "size": 8, **ONE}], "ring", 8.764),
    "torus": ([{"kind": "ring", "size": 4, **ONE}, {"kind": "ring", "size": 4, **ONE}], "torus", 4.6995),
    "one torus": ([{"kind": "torus", "sizes": [4, 4], **ONE}], "torus", 4.6995),
    "switches": ([{"kind": "switch", "size": 4, **ONE}, {"kind": "switch", "size": 4, **ONE}], "hierarchical", 18.754),
}


@pytest.mark.parametrize("model", ["closed", "chunks", "flows"])
@pytest.mark.parametrize("name", NAMED)
def test_a_slight_fault_is_slight(name, model):
    """A fault keeps the order of the healthy network's messages: none is none, one of 1e-4 costs 1e-4."""
    network, algorithm, milliseconds = NAMED[name]
    whole = ts.Cluster(network=network)
    for op in SPREAD:
        chosen = algorithm if op == "all_reduce" else "auto"
        alone = ts.cluster.collective(op, "10 MB", whole, algorithm=chosen, network_model=model)
        if op == "all_reduce":
            assert alone.seconds * 1e3 == pytest.approx(milliseconds, rel=2e-4)
        for fault in ({"device": 1}, {"source": 0, "target": 1}):
            if name == "switches" and "source" in fault:
                continue  # no link joins them
            for share, more in ((1.0, 0.0), (1 - 1e-6, 2e-6), (0.9999, 2e-4), (0.99, 0.02)):
                slow = ts.Cluster(network=network, faults=[fault | {"share": share}])
                found = ts.cluster.collective(op, "10 MB", slow, algorithm=chosen, network_model=model)
                assert found.algorithm == alone.algorithm
                assert 0 <= found.picoseconds - alone.picoseconds <= more * alone.picoseconds, (op, fault, share)


@pytest.mark.parametrize("seed", range(2))
def test_slight_faults_of_any_network_under_flows(seed):
    for network, size, rng in itertools.islice(networks(seed, 16), 10):
        device = rng.randrange(ts.Cluster(network=network).devices)
        for op in SPREAD:
            whole = ts.cluster.collective(op, size, ts.Cluster(network=network), network_model="flows")
            for share in (1.0, 1 - 1e-6, 0.999):
                slow = ts.Cluster(network=network, faults=[{"device": device, "share": share}])
                found = ts.cluster.collective(op, size, slow, network_model="flows")
                assert found.algorithm == whole.algorithm
                more = found.picoseconds - whole.picoseconds
                assert -1000 <= more <= (1 / share - 1) * 2 * whole.picoseconds + 1000, (network, op, size, share)


def test_groups_that_meet_are_priced_together() -> None:
    """Four groups of two over a ring of eight: half of 4 MiB crosses two links each way round."""
    ring = [{"kind": "ring", "size": 8, "bandwidth_bytes_per_second": 50e9, "latency_seconds": 0}]
    groups = [[0, 4], [1, 5], [2, 6], [3, 7]]
    found = ts.cluster.collective("all_gather", 1 << 20, ts.Cluster(network=ring), groups)
    chunks = ts.cluster.collective("all_gather", 1 << 20, ts.Cluster(network=ring), groups, network_model="chunks")
    assert found.seconds == chunks.seconds >= 4 * (1 << 19) / (2 * 50e9) and not found.exact
    apart = ts.cluster.collective("all_gather", 1 << 20, ts.Cluster(network=ring), [[0, 1], [4, 5]])
    assert apart.seconds == pytest.approx((1 << 19) / 50e9, abs=1e-12)


@pytest.mark.parametrize("devices", [[0, 1], [0, 2], [3, 9], [0, 9], [0, 1, 2]])
def test_hosts_of_a_dragonfly(devices: list[int]) -> None:
    fly = [{"kind": "dragonfly", "sizes": [2, 3, 2], "bandwidth_bytes_per_second": 25e9, "latency_seconds": 1e-6}]
    for op in ("all_to_all", "all_reduce", "all_gather"):
        closed, chunks = (
            ts.cluster.collective(op, 123457, ts.Cluster(network=fly), devices, network_model=model)
            for model in ("closed", "chunks")
        )
        assert closed.seconds == chunks.seconds


@pytest.mark.parametrize("plan", [ts.Plan(data=8), ts.Plan(tensor=8)])
def test_flows_of_steps_feel_slow_links_of_rings(plan: ts.Plan) -> None:
    work = ts.workloads.transformer_step(8, 4096, 32, 32000, 2048, 64)
    ring = [{"kind": "ring", "size": 8, "bandwidth_bytes_per_second": 50e9, "latency_seconds": 1e-6}]
    for device in (0, 5):
        slow = ts.Cluster(device="h100", network=ring, faults=[{"device": device, "share": 0.1}])
        closed, flows = (
            ts.cluster.step(work, slow, plan, network_model=network, check_memory=False).seconds
            for network in ("closed", "flows")
        )
        assert flows == pytest.approx(closed, rel=0.02)
