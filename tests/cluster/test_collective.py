"""Collectives: algorithms on sets, times against forms by hand, a simulator written here, and bounds."""

import heapq
import math
from fractions import Fraction

import pytest

import tilesim as ts
from tilesim.cluster.communication import _groups, request

GIB = 1 << 30
SPREAD = ("all_reduce", "all_gather", "reduce_scatter")
RATE, LATENCY = 50e9, 5e-7
PS = 500_000  # LATENCY in picoseconds


def single(kind, n, rate=RATE, latency=LATENCY, **more):
    return ts.Cluster(
        network=[{"kind": kind, "size": n, "bandwidth_bytes_per_second": rate, "latency_seconds": latency, **more}]
    )


def networks(n):
    """One of each kind with n devices."""
    yield single("ring", n)
    yield single("ring", n, both_ways=False)
    yield single("mesh", n)
    yield single("full", n)
    yield single("switch", n)
    yield single("fat_tree", n, radix=6, levels=3)
    if n % 2 == 0:
        base = {"bandwidth_bytes_per_second": RATE, "latency_seconds": LATENCY}
        yield ts.Cluster(network=[{"kind": "torus", "sizes": [n // 2, 2], **base}])
        yield ts.Cluster(network=[{"kind": "full", "size": 2, **base}, {"kind": "switch", "size": n // 2, **base}])
        yield ts.Cluster(network=[{"kind": "dragonfly", "sizes": [1, 2, n // 2], **base}])
    links = [
        {"source": i, "target": j, "bandwidth_bytes_per_second": RATE, "latency_seconds": LATENCY}
        for i, j in {*((i, i + 1) for i in range(n - 1)), *((0, i) for i in range(2, n, 3))}
    ]
    yield ts.Cluster(network={"devices": n, "links": links})


def algorithms(op, n):
    if op == "all_reduce":
        return ["ring", "tree", "halving-doubling", "bruck", "direct", "hierarchical"]
    if op in SPREAD:
        return ["ring", "bruck", "direct", "hierarchical", *(["halving-doubling"] if n & (n - 1) == 0 else [])]
    if op == "all_to_all":
        return ["ring", "bruck", "direct", "hierarchical"]
    return ["direct"] if op == "permute_devices" else ["ring", "tree", "direct"]


def schedule(cluster, op, algorithm, size=1 << 20, **options):
    group = _groups(None, cluster)[0]
    return cluster.core.schedule(request(op, size, group, algorithm, options))


def steps_of(made):
    steps = {}
    for step, source, target, from_, into, combine in made["transfers"]:
        steps.setdefault(step, []).append((source, target, from_, into, combine))
    return [steps[key] for key in sorted(steps)]


def run_on_sets(made):
    """Contents by (device, slot): value and sorted contributors; twice shows as a repeated name."""
    slots, n = made["slots"], made["devices"]
    held = {
        (d, s): (made["initial"][d * slots + s], (d,))
        for d in range(n)
        for s in range(slots)
        if made["initial"][d * slots + s] >= 0
    }
    for step in steps_of(made):
        read = [(target, into, combine, held[source, from_]) for source, target, from_, into, combine in step]
        for target, into, combine, (value, names) in read:
            if combine and (target, into) in held:
                assert held[target, into][0] == value
                names = tuple(sorted(held[target, into][1] + names))
            held[target, into] = (value, names)
    return held


@pytest.mark.parametrize("n", range(2, 18))
def test_every_algorithm_means_its_operation(n):
    whole = tuple(range(n))
    for cluster in (single("ring", n), single("full", n), *([list(networks(n))[6]] if n % 2 == 0 else [])):
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast_devices"):
            for algorithm in algorithms(op, n):
                made = schedule(cluster, op, algorithm)
                held, slots = run_on_sets(made), made["slots"]
                for d in range(n):
                    for c in range(slots):
                        if op == "all_reduce":
                            assert held[d, c] == (c, whole)
                        if op == "reduce_scatter" and c % n == d:
                            assert held[d, c] == (c, whole)
                        if op == "all_gather":
                            assert held[d, c] == (c, (c % n,))
                        if op == "all_to_all" and c % n == d:
                            assert held[d, c] == (c, (c // n,))
                        if op == "broadcast_devices":
                            assert held[d, c] == (c, (0,))


def simulate(cluster, made, size):
    """Message by message with fractions: an own simulator of `chunks`, from the description in the design."""
    slots = made["slots"]
    messages = {}
    for step, source, target, from_, into, _ in made["transfers"]:
        messages.setdefault((step, source, target), []).append((from_, into))
    order = sorted(messages)
    writes = {}
    for number, key in enumerate(order):
        for _, into in messages[key]:
            writes.setdefault((key[2], into), []).append((key[0], number))
    before = [
        {w for from_, _ in messages[key] for step, w in writes.get((key[1], from_), []) if step < key[0]}
        for key in order
    ]
    after = {}
    for number, names in enumerate(before):
        for name in names:
            after.setdefault(name, []).append(number)
    waits, ready = [len(names) for names in before], [0] * len(order)
    heap = [(0, number) for number, count in enumerate(waits) if count == 0]
    free, end = {}, 0
    heapq.heapify(heap)
    while heap:
        time, number = heapq.heappop(heap)
        _, source, target = order[number]
        amount = Fraction(size * len(messages[order[number]]), made["pieces"])
        start, route, lanes = time, cluster.core.route(source, target), []
        assert slots > 0
        for a, b, _, _, count in route:
            lane = min(range(count), key=lambda k: free.get((a, b, k), 0))
            lanes.append((a, b, lane))
            start = max(start, free.get(lanes[-1], 0))
        durations = [math.ceil(amount * 10**12 / link[2]) for link in route]
        for lane, duration in zip(lanes, durations, strict=True):
            free[lane] = start + duration
        arrival = start + max(durations) + sum(link[3] for link in route)
        end = max(end, arrival)
        for follower in after.get(number, []):
            ready[follower] = max(ready[follower], arrival)
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(heap, (ready[follower], follower))
    return end


@pytest.mark.parametrize("n", [2, 3, 6, 8])
def test_chunks_equal_another_simulator(n):
    size = 999_983
    for cluster in networks(n):
        for op in ("all_reduce", "reduce_scatter", "all_to_all", "broadcast_devices"):
            for algorithm in algorithms(op, n):
                cut = algorithm == "tree" or (op, algorithm) == ("broadcast_devices", "ring")
                options = {"pieces": 3} if cut else {}
                made = schedule(cluster, op, algorithm, size, **options)
                expected = simulate(cluster, made, size)
                listed = ts.cluster.collective(op, size, cluster, algorithm=made, network_model="chunks")
                assert listed.picoseconds == expected, (cluster, op, algorithm)
                if cluster.dimensions and cluster.dimensions[0].kind == "switch":  # no ties that order could change
                    found = ts.cluster.collective(
                        op, size, cluster, algorithm=algorithm, network_model="chunks", **options
                    )
                    assert found.picoseconds == expected, (cluster, op, algorithm)


@pytest.mark.parametrize("n", range(2, 18))
def test_models_agree_where_nothing_is_shared(n):
    size = 7 << 20
    for cluster in networks(n):
        for op in (*SPREAD, "all_to_all", "broadcast_devices"):
            for algorithm in algorithms(op, n):
                asked = {"op": op, "bytes": size, "cluster": cluster, "algorithm": algorithm}
                closed = ts.cluster.collective(**asked)
                if closed.model != "closed" or not closed.exact:
                    continue
                chunks = ts.cluster.collective(**asked, network_model="chunks")
                assert abs(closed.picoseconds - chunks.picoseconds) <= 1000, (cluster, op, algorithm)
                if len(cluster.dimensions) > 1 and algorithm in ("ring", "direct"):
                    continue  # messages in a node and out of it are at a port together, which `flows` divides
                if op == "broadcast_devices" and algorithm == "tree" and cluster.dimensions[0].kind != "full":
                    continue  # messages to several targets share the port of their source in `flows`
                flows = ts.cluster.collective(**asked, network_model="flows")
                assert abs(closed.picoseconds - flows.picoseconds) <= 1000, (cluster, op, algorithm)


@pytest.mark.parametrize("n", [2, 5, 8, 12])
def test_one_device_per_class_equals_all(n):
    for cluster in networks(n):
        for op in (*SPREAD, "all_to_all"):
            for algorithm in algorithms(op, n):
                for model in ("chunks", "flows"):
                    both = [
                        ts.cluster.collective(
                            op, 10**6 + 7, cluster, algorithm=algorithm, network_model=model, symmetry=on
                        )
                        for on in (True, False)
                    ]
                    assert both[0].picoseconds == both[1].picoseconds, (cluster, op, algorithm, model)


def test_a_ring_is_one_class():
    found = ts.cluster.collective("all_reduce", GIB, single("ring", 64), network_model="chunks", algorithm="ring")
    assert found.classes == 1 and found.messages == 2 * 2 * 63


def ceil(amount, rate=RATE):
    return math.ceil(Fraction(amount) * 10**12 / int(rate))


def test_forms_by_hand():
    """Of the design: what a table of the field states for rings, without its terms for local memory."""
    n, one = 8, ceil(Fraction(GIB, 8))
    ring = single("ring", n, both_ways=False)
    assert ts.cluster.collective("all_reduce", GIB, ring, algorithm="ring").picoseconds == 2 * 7 * (one + PS)
    assert ts.cluster.collective("all_gather", GIB, ring, algorithm="ring").picoseconds == 7 * (one + PS)
    half = ceil(Fraction(GIB, 16))
    assert ts.cluster.collective("reduce_scatter", GIB, single("ring", n), algorithm="ring").picoseconds == 7 * (
        half + PS
    )
    full = ts.cluster.collective("all_reduce", GIB, single("full", n), algorithm="direct")
    assert full.picoseconds == 2 * (one + PS)
    halving = ts.cluster.collective("all_reduce", GIB, single("switch", n), algorithm="halving-doubling")
    expected = 2 * (ceil(Fraction(GIB, 2)) + ceil(Fraction(GIB, 4)) + one + 3 * PS)
    assert halving.picoseconds == expected
    direct = ts.cluster.collective("all_to_all", GIB, single("switch", n), algorithm="direct")
    assert direct.picoseconds == 7 * one + PS
    steps = ts.cluster.collective("all_to_all", GIB, ring, algorithm="ring")  # n (n - 1) / 2 units of S / n
    assert abs(steps.picoseconds - (28 * one + 7 * PS)) <= 28


@pytest.mark.parametrize(
    ("n", "milliseconds"), [(8, 36.769), (64, 41.420), (256, 42.104), (512, 42.442), (1024, 42.996)]
)
def test_rows_of_a_field_simulator(n, milliseconds):
    """Rings at 50 GiB/s and 500 ns, whose reduction takes 3 message / 1600 GB/s more; it truncates to nanoseconds."""
    cluster = single("ring", n, rate=50 * 2**30, latency=5e-7, both_ways=False)
    time = ts.cluster.collective("all_reduce", GIB, cluster, algorithm="ring").seconds + (n - 1) * 3 * GIB / n / 1600e9
    assert abs(time * 1e3 - milliseconds) <= 0.0005 + 2 * (n - 1) * 1e-6


def test_torus_is_as_quick_as_its_links():
    cluster = ts.Cluster(
        network=[{"kind": "torus", "sizes": [4, 4, 4], "bandwidth_bytes_per_second": RATE, "latency_seconds": 0}]
    )
    found = ts.cluster.collective("all_reduce", 63 * 64 * 6 * 1000, cluster)
    best = 2 * found.bytes * 63 / 64 / (6 * RATE)
    assert found.algorithm == "torus" and found.exact
    assert best <= found.seconds <= best * (1 + 1e-6)
    chunks = ts.cluster.collective("all_reduce", found.bytes, cluster, network_model="chunks")
    assert chunks.classes == 1 and chunks.picoseconds == found.picoseconds


@pytest.mark.parametrize("n", [3, 8, 16])
def test_bounds(n):
    """No model beats a device's ports, the cut through the middle, or the way to the farthest device."""
    size = 3 << 20
    for cluster in networks(n):
        out = {d: set() for d in range(n)}
        cut = set()
        farthest = 0
        for a in range(n):
            for b in range(n):
                if a == b:
                    continue
                way = cluster.core.route(a, b)
                farthest = max(farthest, sum(link[3] for link in way))
                out[a].add((way[0][0], way[0][1], way[0][2]))
                if a < n // 2 <= b:
                    cut.add(min((link[2] * link[4], link[0], link[1]) for link in way))
        port = min(sum(link[2] for link in links) for links in out.values())
        for op in (*SPREAD, "all_to_all"):
            for algorithm in algorithms(op, n):
                for model in ("closed", "chunks", "flows"):
                    found = ts.cluster.collective(op, size, cluster, algorithm=algorithm, network_model=model)
                    least = (n - 1) / n * size / port
                    assert found.seconds >= least * (2 if op == "all_reduce" else 1) * (1 - 1e-9)
                    if op == "all_to_all" and model != "closed":
                        crossing = (n // 2) * (n - n // 2) * size / n
                        assert found.seconds >= crossing / sum(rate for rate, _, _ in cut) * (1 - 1e-9) / 2
                    if not (op == "reduce_scatter" and algorithm == "none"):
                        assert found.picoseconds >= farthest


@pytest.mark.parametrize("kind", ["ring", "full", "switch", "mesh"])
@pytest.mark.parametrize("op", [*SPREAD, "all_to_all", "broadcast_devices", "permute_devices"])
@pytest.mark.parametrize("model", ["closed", "chunks", "flows"])
def test_more_bytes_and_latency_never_take_less(kind, op, model):
    def ask(size, **more):
        cluster = single(kind, 6, **more)
        found = ts.cluster.collective(op, size, cluster, network_model=model, algorithm=algorithms(op, 6)[0])
        return found.picoseconds

    times = [ask(size) for size in (0, 1, 1000, 10**6, 10**9)]
    assert times == sorted(times) and times[1] < times[-1]
    assert ask(10**6, latency=1e-6) >= ask(10**6, latency=1e-7)
    assert ask(10**6, rate=1e9) >= ask(10**6, rate=2e9)


@pytest.mark.parametrize("model", ["chunks", "flows"])
def test_two_at_once(model):
    cluster = single("ring", 8, latency=0)
    size = 10**8
    asked = {"op": "permute_devices", "bytes": size, "pairs": [(0, 1)]}
    alone = ts.cluster.collective(cluster=cluster, devices=[0, 1], network_model=model, **asked).seconds
    shared = ts.cluster.collectives(
        [{**asked, "devices": [0, 1]}, {**asked, "devices": [0, 1]}], cluster, network_model=model
    )
    apart = ts.cluster.collectives(
        [{**asked, "devices": [0, 1]}, {**asked, "devices": [4, 5]}], cluster, network_model=model
    )
    assert alone == size / RATE
    assert max(one.seconds for one in shared) == pytest.approx(2 * alone, rel=1e-9)
    assert [one.seconds for one in apart] == [alone, alone]
    if model == "flows":
        assert shared[0].seconds == pytest.approx(2 * alone, rel=1e-9)  # half the rate each
    else:
        assert shared[0].seconds == alone  # one after the other


def test_what_moves():
    cluster, n, size = single("switch", 8), 8, 8000
    expect = {
        "all_reduce": (8000, 8000, 14000),
        "all_gather": (1000, 8000, 7000),
        "reduce_scatter": (8000, 1000, 7000),
        "all_to_all": (8000, 8000, 7000),
        "permute_devices": (8000, 8000, 8000),
    }
    for op, (put, taken, wire) in expect.items():
        found = ts.cluster.collective(op, size, cluster)
        assert (found.bytes_in, found.bytes_out, found.wire_bytes) == (put, taken, wire)
    for op in (*SPREAD, "all_to_all"):  # the algorithm that sends no byte twice: what leaves is what arrives
        made = schedule(cluster, op, "direct")
        sent = len(made["transfers"]) * size / made["pieces"]
        assert sent == n * ts.cluster.collective(op, size, cluster).wire_bytes


def test_a_straggler_and_a_cut_link():
    base = {"kind": "ring", "size": 8, "bandwidth_bytes_per_second": RATE, "latency_seconds": 0, "both_ways": False}
    whole = ts.cluster.collective("all_gather", 8 * 10**6, ts.Cluster(network=[base]), algorithm="ring")
    slow = ts.Cluster(network=[base], faults=[{"device": 3, "share": 0.5}])
    found = ts.cluster.collective("all_gather", 8 * 10**6, slow, algorithm="ring")
    # Each of the 7 blocks behind the slow link leaves it at half the rate; the last then goes on.
    assert whole.seconds == pytest.approx(7 * 1e6 / RATE)
    assert found.model == "chunks" and whole.seconds * 2 * (1 - 1e-9) <= found.seconds <= whole.seconds * 2 + 7e6 / RATE
    cut = ts.Cluster(network=[base | {"both_ways": True}], faults=[{"source": 0, "target": 1, "share": 0}])
    assert [link[:2] for link in cut.core.route(0, 1)] == [(0, 7), *((i, i - 1) for i in range(7, 1, -1))]
    with pytest.raises(ts.UserError, match="not connected"):
        ts.Cluster(network=[base], faults=[{"source": 0, "target": 1, "share": 0}])


def test_an_unknown_dtype():
    with pytest.raises(ts.UserError, match=r"bf17.*Did you mean 'bf16'"):
        ts.cluster.collective("all_reduce", 1 << 20, "dgx-h100:8", dtype="bf17")
    with pytest.raises(ts.UserError, match="bf17"):
        ts.cluster.collectives([("all_reduce", 1 << 20)], "dgx-h100:8", dtype="bf17")
