"""What uses ports at the same time, what slows computing, and replays of what a step wrote."""

import random
from fractions import Fraction

import pytest

import tilesim as ts
from tilesim.cluster.chakra.sharing import Demand, rates
from tilesim.cluster.trace import Trace, TraceClass, TraceNode

RATE, LATENCY, MEGABYTE = 1e9, 1e-6, 1 << 20


def grid(rails=0, **more):
    """Switches in nodes and between them; a port each."""
    port = {"kind": "switch", "latency_seconds": LATENCY}
    return ts.Cluster(
        device="h100",
        network=[
            port | {"size": 2, "bandwidth_bytes_per_second": 4 * RATE},
            port | {"size": 4, "bandwidth_bytes_per_second": RATE, "rails": rails},
        ],
        **more,
    )


def at_once(groups, sizes, op="all_gather"):
    """A gather per kind of groups, all begin at 0."""
    nodes = [
        TraceNode(i, f"gather {kind}", "collective", op=op, bytes=size, group=kind)
        for i, (kind, size) in enumerate(zip(groups, sizes, strict=True))
    ]
    return Trace("at once", 8, [TraceClass(list(range(8)), nodes)], dict(groups))


INNER = [[0, 1], [2, 3], [4, 5], [6, 7]]
OUTER = [[0, 2, 4, 6], [1, 3, 5, 7]]
HALF = [[0, 1, 2, 3], [4, 5, 6, 7]]


def alone(op, size, group):
    return ts.cluster.collective(op, size, grid(), group).picoseconds


def test_two_on_one_port_share_it_two_on_two_ports_do_not():
    size = 64 * MEGABYTE
    inner, outer = alone("all_gather", size, INNER[0]), alone("all_gather", size, OUTER[0])
    found = ts.cluster.replay(at_once({"inner": INNER, "outer": OUTER}, (size, size)), grid())
    assert round(found.seconds * 1e12) == max(inner, outer)
    twice = ts.cluster.replay(at_once({"one": OUTER, "two": OUTER}, (size, size)), grid())
    assert twice.seconds * 1e12 == pytest.approx(2 * outer, rel=1e-4)  # latencies are not shared
    assert len(twice.classes) == 1
    assert all(slowed > 0 for ran in twice.ran for slowed in ran.slowed.values())
    alone_again = ts.cluster.replay(at_once({"one": OUTER}, (size,)), grid())
    assert not alone_again.ran[0].slowed and round(alone_again.seconds * 1e12) == outer


def test_the_shorter_of_two_ends_first_and_the_longer_goes_on_alone():
    """Both at half the rate until the shorter one is done: it takes twice its time, the other its time and that."""
    small, large = alone("all_gather", 16 * MEGABYTE, OUTER[0]), alone("all_gather", 64 * MEGABYTE, OUTER[0])
    found = ts.cluster.replay(at_once({"one": OUTER, "two": OUTER}, (16 * MEGABYTE, 64 * MEGABYTE)), grid())
    ends = sorted(end for _, _, _, end in found.ran[0].intervals)
    assert ends[0] == pytest.approx(2 * small, rel=1e-3)
    assert ends[1] == pytest.approx(small + large, rel=1e-3)


def test_what_is_all_latency_slows_nothing():
    size = 64 * MEGABYTE
    found = ts.cluster.replay(at_once({"one": OUTER, "two": OUTER}, (64, size)), grid())
    assert found.seconds * 1e12 == pytest.approx(alone("all_gather", size, OUTER[0]), rel=1e-3)


def test_groups_that_have_one_port_between_them():
    """Both groups of a kind send through the one rail of each node: half the rate each."""
    size = 64 * MEGABYTE
    shared = grid(rails=1)
    one = ts.cluster.collective("all_gather", size, shared, OUTER[0]).picoseconds
    found = ts.cluster.replay(at_once({"outer": OUTER}, (size,)), shared)
    assert found.seconds * 1e12 == pytest.approx(2 * one, rel=1e-3)
    together = ts.cluster.collective("all_gather", size, shared, OUTER, algorithm="ring", network_model="flows")
    assert found.seconds == pytest.approx(together.seconds, rel=2e-2)


@pytest.mark.parametrize("seed", range(20))
def test_a_link_is_given_out_whole_and_fairly(seed):
    """Against filling by exact steps: all that want more get the same, until the link is full."""
    rng = random.Random(seed)
    shares = [rng.choice([0.1, 0.25, 0.5, 1.0]) for _ in range(rng.randint(1, 6))]
    wanted, got, left = [Fraction(one) for one in shares], [Fraction(0)] * len(shares), Fraction(1)
    while left and (open_ := [i for i, one in enumerate(wanted) if got[i] < one]):
        step = min([left / len(open_), *(wanted[i] - got[i] for i in open_)])
        for i in open_:
            got[i] += step
        left -= step * len(open_)
    found = rates([Demand(one, {0: one}) for one in shares])
    assert found == pytest.approx([float(a / b) for a, b in zip(got, wanted, strict=True)])


@pytest.mark.parametrize("seed", range(40))
def test_rates_over_many_links_are_max_min_fair(seed):
    """No link is overfull, and who has less than it wants is on a full link where nobody that has it has more."""
    rng = random.Random(seed)
    demands = []
    for _ in range(rng.randint(1, 12)):
        links = {link: rng.choice([0.05, 0.3, 0.5, 1.0]) for link in rng.sample(range(6), rng.randint(1, 4))}
        many = rng.choice([1, 1, 2, 3])
        demands.append(Demand(max(links.values()), {link: many * share for link, share in links.items()}))
    found = rates(demands)
    taken = [sum(rate * one.links.get(link, 0) for rate, one in zip(found, demands, strict=True)) for link in range(6)]
    assert max(taken) <= 1 + 1e-9
    level = [rate * one.own for rate, one in zip(found, demands, strict=True)]
    for rate, mine, one in zip(found, level, demands, strict=True):
        full = [link for link in one.links if taken[link] > 1 - 1e-9]
        most = [max(other for other, each in zip(level, demands, strict=True) if link in each.links) for link in full]
        assert rate == 1 or any(mine >= other - 1e-9 for other in most)


def random_trace(rng):
    nodes, kinds = [], {"inner": INNER, "outer": OUTER, "half": HALF}
    for i in range(rng.randint(3, 14)):
        deps = sorted(rng.sample(range(i), min(i, rng.randint(0, 2))))
        if rng.random() < 0.4:
            nodes.append(TraceNode(i, f"compute {i}", "compute", deps, duration_ps=rng.randint(1, 10**11)))
            continue
        op = rng.choice(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
        kind = rng.choice(["", *kinds])
        nodes.append(TraceNode(i, f"{op} {i}", "collective", deps, op=op, bytes=rng.randint(0, 1 << 27), group=kind))
    return Trace("random", 8, [TraceClass(list(range(8)), nodes)], kinds)


@pytest.mark.parametrize("seed", range(60))
def test_sharing_loses_no_time_and_makes_none(seed):
    """Nothing is quicker than alone, the whole not slower than one thing after the other; alike for every device."""
    trace, cluster = random_trace(random.Random(seed)), grid()
    found = ts.cluster.replay(trace, cluster)
    every = ts.cluster.replay(trace, cluster, symmetry=False)
    assert (len(found.classes), len(every.classes)) == (1, 8)
    assert every.seconds == found.seconds
    cost = found.found.units[0].cost
    total = 0
    for _, place, begin, end in found.ran[0].intervals:
        least = cost.get(place, trace.classes[0].nodes[place].duration_ps)
        assert end - begin == least + found.ran[0].slowed.get(place, 0)
        total += least
    assert found.seconds * 1e12 <= total + 1000


def layers(width=256, hidden=512, batch=64, count=3):
    """Gradients of products whose batch and weights are divided: sums over both axes, gathers, messages."""
    b = ts.GraphBuilder("layers", dtype="f32")
    x, divided = b.input("x", (batch, width)), {"x": ("data", None)}
    for i in range(count):
        up, down = b.input(f"up{i}", (width, hidden)), b.input(f"down{i}", (hidden, width))
        divided |= {f"up{i}": ("data", "tensor"), f"down{i}": ("tensor", "data")}
        x = x + b.apply("tanh", x @ up) @ down
    b.output(x, "y")
    graph = ts.gradient(b.build(), "y", [f"{name}{i}" for i in range(count) for name in ("up", "down")])
    return ts.partition(graph, {"tensor": 2, "data": 4}, divided)


@pytest.mark.singly
@pytest.mark.parametrize("overlap", ["none", "ready", "library"])
@pytest.mark.parametrize(
    "more",
    [{}, {"network_model": "chunks"}, {"network_model": "flows"}, {"library": "nccl"}, {"slow": {3: 1.25}},
     {"faults": [{"device": 2, "compute": 0.7}]}, {"faults": [{"device": 2, "share": 0.7}]}],
)  # fmt: skip
def test_a_replay_takes_what_its_step_took(overlap, more, tmp_path):
    cluster = grid(faults=more.get("faults", ()))
    asked = {key: value for key, value in more.items() if key != "faults"}
    step = ts.cluster.step(layers(), cluster, overlap=overlap, **asked)
    ts.cluster.to_chakra(step, None, tmp_path)
    kept = {key: value for key, value in asked.items() if key != "slow"}
    for trace in (step.to_trace(), tmp_path):
        found = ts.cluster.replay(trace, cluster, **kept)
        assert found.seconds == pytest.approx(step.seconds - step.parts["host"], rel=1e-9)
    if overlap != "none":
        assert step.parts["interference"] > 0
    assert sum(step.parts.values()) == pytest.approx(step.seconds)


def test_messages_of_a_permute_replay_as_one(tmp_path):
    """Neighbours in a node and beyond: all are done when the last one is."""
    b = ts.GraphBuilder("ring")
    x = b.input("x", (1 << 20,))
    pairs = [device for i in range(8) for device in (i, (i + 1) % 8)]
    moved = b.op("permute_devices", x, pairs=pairs)
    b.output(b.apply("exp", moved) + x, "y")
    graph = b.build()
    graph.annotate(devices=8)
    step = ts.cluster.step(ts.cluster.Spmd.from_partitioned(graph), grid(), overlap="ready")
    ts.cluster.to_chakra(step, None, tmp_path)
    found = ts.cluster.replay(tmp_path, grid())
    assert found.seconds == pytest.approx(step.seconds - step.parts["host"], rel=1e-9)


def test_a_recorded_trace_on_a_slow_device():
    """It waits for the slow one's compute; one that was recorded as slow already does not get slower again."""
    nodes = [TraceNode(0, "product", "compute", duration_ps=10**9),
             TraceNode(1, "sum", "collective", [0], op="all_reduce", bytes=1 << 20)]  # fmt: skip
    trace = Trace("one", 8, [TraceClass(list(range(8)), nodes)])
    whole = ts.cluster.replay(trace, grid())
    slow = grid(faults=[{"device": 5, "compute": 0.8}])
    found = ts.cluster.replay(trace, slow)
    assert found.seconds - whole.seconds == pytest.approx(0.25e-3)
    assert sorted(row["devices"] for row in found.classes) == [1, 7]
    nodes[0].attributes["tilesim_slowed"] = 1.25
    assert ts.cluster.replay(trace, slow).seconds == whole.seconds


def test_the_timeline_says_what_was_slowed(tmp_path):
    step = ts.cluster.step(layers(), grid(), overlap="ready")
    more = [event["args"]["slowed_us"] for event in step.replayed.events() if "slowed_us" in event.get("args", {})]
    assert more and min(more) > 0
    assert "interference" in {row["part"] for row in step.breakdown}
