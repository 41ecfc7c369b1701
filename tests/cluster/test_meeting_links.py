"""Communication at the same time: what meets on a link shares it, whatever the network; what does not, does not."""

import itertools

import pytest

import tilesim as ts
from support.random_networks import networks
from tilesim.cluster.trace import Trace, TraceClass, TraceNode

RATE, LATENCY, SIZE = 1e9, 1e-6, 1 << 26
LINK = {"bandwidth_bytes_per_second": RATE, "latency_seconds": LATENCY}


def at_once(devices, kinds, size=SIZE, op="all_gather", more=()):
    """A collective per kind of groups, all ready at 0, each on a stream of its own."""
    classes = []
    for device in range(devices):
        mine = [(at, name) for at, (name, groups) in enumerate(kinds.items()) if any(device in one for one in groups)]
        nodes = [TraceNode(at, name, "collective", op=op, bytes=size, group=name, stream=name) for at, name in mine]
        classes.append(TraceClass([device], [*nodes, *more]))
    return Trace("at once", devices, classes, dict(kinds))


def graph(pairs, devices, switches):
    links = [{"source": a, "target": b, **LINK} for one in pairs for a, b in (one, one[::-1])]
    return {"devices": devices, "switches": switches, "links": links}


SWITCH = [{"kind": "switch", "size": 8, **LINK}]
TORUS = [{"kind": "torus", "sizes": [4, 4], **LINK}]
#: four devices below a switch that has two ways up
TREE = [{"kind": "fat_tree", "size": 16, "radix": 6, "levels": 2, "oversubscription": 2, **LINK}]
#: two hosts on each of two routers in each of three groups
DRAGONFLY = [{"kind": "dragonfly", "sizes": [2, 2, 3], **LINK}]
#: 0, 1 on one switch, 2, 3 on another; 4, 5 on a third that is beside the first
GRAPH = graph([(0, 6), (1, 6), (6, 7), (7, 2), (7, 3), (6, 8), (8, 4), (8, 5)], 6, 3)
ROWS = [[4 * row + at for at in range(4)] for row in range(4)]
COLUMNS = [[4 * row + at for row in range(4)] for at in range(4)]


@pytest.mark.parametrize(
    ("network", "kinds", "times"),
    [
        (SWITCH, [[[0, 1, 2, 3]], [[4, 5, 6, 7]]], 1),
        (SWITCH, [[[0, 1, 2, 3]], [[0, 1, 2, 3]]], 2),
        (SWITCH, [[[0, 1]], [[0, 2]], [[3, 4]]], 2),  # one port of three
        (TORUS, [ROWS, COLUMNS], 1),
        (TORUS, [ROWS, ROWS], 2),
        (TORUS, [ROWS[:1], ROWS[1:2]], 1),
        (TREE, [[[0, 4]], [[1, 5]]], 1),  # two ways up
        (TREE, [[[0, 4]], [[1, 5]], [[2, 6]]], 1.5),
        (TREE, [[[0, 4], [1, 5], [2, 6], [3, 7]]], 2),  # groups of one kind
        (TREE, [[[0, 1]], [[2, 3]], [[4, 8]]], 1),
        (DRAGONFLY, [[[0, 4]], [[1, 5]]], 2),  # one link between two groups
        (DRAGONFLY, [[[0, 4]], [[1, 8]]], 1),
        (GRAPH, [[[0, 2]], [[1, 3]]], 2),
        (GRAPH, [[[0, 2]], [[1, 4]]], 1),
        (GRAPH, [[[0, 1]], [[2, 3]], [[4, 5]]], 1),
    ],
)
@pytest.mark.parametrize("symmetry", [True, False])
def test_two_on_one_link_share_it_two_on_two_links_do_not(network, kinds, times, symmetry):
    cluster = ts.Cluster(network=network)
    named = {f"kind {at}": groups for at, groups in enumerate(kinds)}
    trace = at_once(cluster.devices, named)
    alone = max(ts.cluster.collective("all_gather", SIZE, cluster, one).seconds for groups in kinds for one in groups)
    found = ts.cluster.replay(trace, cluster, symmetry=symmetry)
    assert found.seconds == pytest.approx(times * alone, rel=2e-3)
    asked = [("all_gather", SIZE, groups) for groups in kinds]
    flows = max(one.seconds for one in ts.cluster.collectives(asked, cluster))
    assert found.seconds == pytest.approx(flows, rel=1e-2)


def split_of(devices, rng):
    """Groups of some of the devices: strides of a box, or any."""
    size = rng.choice([2, 3, 4, 8])
    if rng.random() < 0.5 and devices % size == 0:
        stride = rng.choice([one for one in range(1, devices // size + 1) if devices // size % one == 0])
        starts = [block + at for block in range(0, devices, stride * size) for at in range(stride)]
        return [list(range(one, one + stride * size, stride)) for one in starts]
    order = rng.sample(range(devices), devices)
    return [sorted(order[at : at + size]) for at in range(0, devices - size + 1, size)][: rng.randint(1, devices)]


def on_links(cluster, group, size):
    """Seconds of each link that a gather round a ring takes, by routes."""
    found = {}
    for at, one in enumerate(group):
        for way in cluster.core.route(one, group[(at + 1) % len(group)]):
            seconds = size * (len(group) - 1) / len(group) / (way[2] * way[4])
            found[way[:2]] = found.get(way[:2], 0.0) + seconds
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_link_carries_more_than_it_can_and_symmetry_changes_nothing(seed):
    """Against loads of rings by hand, on random networks and groups."""
    shared = 0
    for network, _, rng in itertools.islice(networks(seed, 24), 25):
        cluster = ts.Cluster(network=network)
        if cluster.devices < 4 or any(one["kind"] in ("ring", "full") for one in network):
            continue  # rings of rings go both ways
        kinds = {f"kind {at}": split_of(cluster.devices, rng) for at in range(rng.randint(1, 3))}
        kinds = {name: groups for name, groups in kinds.items() if groups}
        if not kinds:
            continue
        size = 1 << rng.randint(10, 26)
        trace = at_once(cluster.devices, kinds, size)
        found = ts.cluster.replay(trace, cluster, algorithm="ring")
        every = ts.cluster.replay(trace, cluster, algorithm="ring", symmetry=False)
        assert found.seconds == every.seconds
        other = at_once(cluster.devices, kinds, size, rng.choice(["all_reduce", "all_to_all", "broadcast_devices"]))
        assert len({ts.cluster.replay(other, cluster, symmetry=one).seconds for one in (True, False)}) == 1
        total, alone = {}, []
        for groups in kinds.values():
            for group in groups:
                alone.append(ts.cluster.collective("all_gather", size, cluster, group, algorithm="ring").seconds)
                for link, seconds in on_links(cluster, group, size).items():
                    total[link] = total.get(link, 0.0) + seconds
        assert found.seconds * (1 + 1e-6) + 1e-12 >= max(*total.values(), *alone)
        assert found.seconds <= sum(alone) + 1e-9
        shared += found.seconds > max(alone) * 1.01
    assert shared > 2


def test_messages_meet_on_the_links_of_their_ways():
    """On a torus a message to the next but one takes the link of the next one's too."""
    cluster = ts.Cluster(network=[{"kind": "ring", "size": 8, **LINK}])

    def run(*pairs):
        classes = []
        for device in range(8):
            nodes = []
            for tag, (a, b) in enumerate(pairs):
                for kind, end, peer in (("send", a, b), ("recv", b, a)):
                    if device == end:
                        nodes.append(TraceNode(len(nodes), f"{kind} {tag}", kind, bytes=SIZE, tag=tag, peers=[peer],
                                               stream=f"{tag}"))  # fmt: skip
            classes.append(TraceClass([device], nodes))
        return ts.cluster.replay(Trace("messages", 8, classes), cluster).seconds

    wire = SIZE / RATE
    assert run((0, 2)) == pytest.approx(wire, rel=1e-3)
    assert run((0, 2), (1, 3)) == pytest.approx(2 * wire, rel=1e-3)
    assert run((0, 2), (1, 2)) == pytest.approx(2 * wire, rel=1e-3)
    assert run((0, 2), (2, 4)) == pytest.approx(wire, rel=1e-3)
    assert run((0, 2), (2, 1)) == pytest.approx(wire, rel=1e-3)  # the other direction


def test_pairs_of_a_mesh_permute_as_their_ways_say():
    """Every device of a row to the one four further: each link carries four of them."""
    cluster = ts.Cluster(network=[{"kind": "ring", "size": 8, "both_ways": False, **LINK}])
    pairs = [(at, (at + 4) % 8) for at in range(8)]
    for model in ("closed", "chunks", "flows"):
        found = ts.cluster.collective("permute_devices", SIZE, cluster, network_model=model, pairs=pairs)
        assert found.seconds >= 4 * SIZE / RATE


def test_what_the_switch_sums_takes_its_ports():
    cluster = ts.Cluster.load("dgx-h100")
    alone = ts.cluster.collective("all_reduce", SIZE, cluster)
    assert alone.algorithm == "in-network"
    groups = [list(range(8))]
    twice = ts.cluster.replay(at_once(8, {"one": groups, "two": groups}, op="all_reduce"), cluster)
    assert twice.seconds == pytest.approx(2 * alone.seconds, rel=5e-2)
