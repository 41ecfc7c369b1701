"""Networks and systems of ASTRA-sim, and traces whose groups not all ranks join."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="pyyaml is not installed")

import tilesim as ts
from support.simulator_files import NETWORK, SYSTEM
from tilesim.cluster.trace import Trace, TraceClass, TraceNode


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def message(source: int, target: int, size: int, devices: int = 8) -> Trace:
    """One message from device to device."""
    rest = [device for device in range(devices) if device not in (source, target)]
    return Trace("t", devices, [
        TraceClass([source], [TraceNode(0, "s", "send", bytes=size, peers=[target])]),
        TraceClass([target], [TraceNode(0, "r", "recv", bytes=size, peers=[source])]),
        TraceClass(rest, []),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("target", "seconds"),
    [
        (1, 4e6 / 200e9 + 50e-9),  # the next of the ring
        (2, 4e6 / 200e9 + 2 * 50e-9),  # two hops
        (4, 4e6 / 50e9 + 2 * 500e-9),  # into the switch and out of it
    ],
)
def test_a_message_takes_rate_and_latency_of_the_file(target: int, seconds: float, tmp_path: Path) -> None:
    found = ts.cluster.replay(message(0, target, 4_000_000), written(tmp_path, "net.yml", NETWORK))
    assert found.seconds == pytest.approx(seconds, rel=0.005)
    assert any("a GB is 10^9 bytes" in note for note in found.notes)


def test_a_network_is_a_cluster(tmp_path: Path) -> None:
    found = ts.Cluster.load(written(tmp_path, "net.yaml", NETWORK.replace("Ring", "FullyConnected")))
    assert (found.name, found.devices, [one.kind for one in found.dimensions]) == ("net", 8, ["full", "switch"])
    one = ts.Cluster.load(
        written(tmp_path, "one.yml", "topology: Switch\nnpus_count: 8\nbandwidth: 400\nlatency: 936.25")
    )
    assert one.devices == 8 and one.dimensions[0].latency_seconds == pytest.approx(2 * 936.25e-9)


def trace(ranks: list[int], kind: str = "all_gather") -> Trace:
    """Half of the devices compute, then join a collective."""
    work = {"num_ops": ("uint64", 2 * 10**12), "tensor_size": ("uint64", 10**9)}
    nodes = [TraceNode(0, "work", "compute", duration_ps=10**6, attributes=work),
             TraceNode(1, "join", "collective", [0], bytes=8_000_000, group="1", op=kind)]  # fmt: skip
    rest = [device for device in range(8) if device not in ranks]
    return Trace("t", 8, [TraceClass(ranks, nodes), TraceClass(rest, nodes[:1])], {"1": [ranks]})


def test_only_some_ranks_join_a_group(tmp_path: Path) -> None:
    """The file of groups names all ranks; the collective is one of those that have it, gathers in size too."""
    network, ranks = written(tmp_path, "net.yml", NETWORK), [0, 1, 2, 3]
    wanted = ts.cluster.replay(trace(ranks), network).seconds
    ts.cluster.to_chakra(trace(ranks), network, tmp_path)
    groups = json.loads((tmp_path / "comm_group.json").read_text(encoding="utf-8"))
    (name,) = groups
    (tmp_path / "comm_group.json").write_text(json.dumps({name: list(range(8))}), encoding="utf-8")
    found = ts.cluster.replay(tmp_path, network)
    assert found.seconds == wanted
    assert found.notes[0].startswith("devices 4, 5, 6, 7 have no collective of group")
    assert ts.cluster.from_chakra(tmp_path).classes[0].nodes[1].bytes == 8_000_000


def test_a_system_names_algorithms_and_the_roofline(tmp_path: Path) -> None:
    """2e12 operations at 100 TFLOP/s take 20 ms, a GB at 1,000 GB/s one."""
    network, system = written(tmp_path, "net.yml", NETWORK), written(tmp_path, "sys.json", SYSTEM)
    ranks = [0, 1, 2, 3]
    for kind, algorithm in (("all_reduce", "ring"), ("all_gather", "direct"), ("reduce_scatter", "auto")):
        plain = ts.cluster.replay(trace(ranks, kind), network, algorithm=algorithm)
        found = ts.cluster.replay(trace(ranks, kind), network, system=system)
        assert found.seconds - 20e-3 == pytest.approx(plain.seconds - 1e-6, rel=1e-6)
    told = " ".join(found.notes)
    assert "ignored keys: scheduling-policy, endpoint-delay, preferred-dataset-splits, collective-optimization" in told
    assert "ignored windows of direct" in told and found.to_dict()["notes"] == found.notes
    recorded = written(tmp_path, "plain.json", SYSTEM.replace('"roofline-enabled": 1', '"roofline-enabled": 0'))
    assert ts.cluster.replay(trace(ranks), network, system=recorded).compute_seconds == pytest.approx(1e-6)
    several = SYSTEM.replace('["ring"]', '["ring", "halvingDoubling"]')
    found = ts.cluster.replay(trace(ranks, "all_reduce"), network, system=written(tmp_path, "s.json", several))
    assert any("'hierarchical' selects" in note for note in found.notes)
    with pytest.raises(ts.UserError, match="the system file already has algorithms"):
        ts.cluster.replay(trace(ranks), network, algorithm="ring", system=system)


def test_computes_without_a_time_are_told(tmp_path: Path) -> None:
    empty = Trace("t", 8, [TraceClass(list(range(8)), [TraceNode(0, "c", "compute")])])
    notes = ts.cluster.replay(empty, written(tmp_path, "net.yml", NETWORK)).notes
    assert "1 compute nodes have no recorded time and take no time" in notes


BAD_NETWORKS = {
    ("latency", "latencies"): "unknown key.*Did you mean 'latency'",
    ("Switch", "switch"): r"topology\[1\]: unknown topology.*Did you mean 'Switch'",
    ("[4, 2]", "[4]"): "lists have different lengths.*npus_count 1",
    ("[4, 2]", "[4, 2.5]"): r"npus_count\[1\]: not a number in the range.*2.5",
    ("50.0]  # GB/s", "50 GB/s]"): r"bandwidth\[1\]: not a number in the range.*50 GB/s",
    ("500.0]", "-1]"): r"latency\[1\]: not a number in the range",
    ("topology: [Ring, Switch]\n", ""): "not a network file of ASTRA-sim",
    ("[Ring, Switch]", "[Ring, Switch"): "invalid YAML",
    ("[4, 2]", "[0, 2]"): r"npus_count\[0\]: not a number in the range",
}


@pytest.mark.parametrize("change", BAD_NETWORKS)
def test_damaged_networks(change: tuple[str, str], tmp_path: Path) -> None:
    assert change[0] in NETWORK
    with pytest.raises(ts.UserError, match=BAD_NETWORKS[change]):
        ts.Cluster.load(written(tmp_path, "net.yml", NETWORK.replace(*change)))


BAD_SYSTEMS = {
    (
        "all-reduce-implementation",
        "all-reduce-implementations",
    ): "unknown key.*Did you mean 'all-reduce-implementation'",
    ('["ring"]', '["rings"]'): "all-reduce-implementation: unknown algorithm.*Did you mean 'ring'",
    ('["ring"]', "7"): "unknown algorithm.*got 7",
    ('"peak-perf": 100', '"peak-perf": "100 TFLOP/s"'): "peak-perf: not a number in the range",
    ('"peak-perf": 100, ', ""): "peak-perf: not a number in the range",
    ('"peak-perf": 100', '"peak-prf": 100'): "unknown key.*Did you mean 'peak-perf'",
}


@pytest.mark.parametrize("change", BAD_SYSTEMS)
def test_damaged_systems(change: tuple[str, str], tmp_path: Path) -> None:
    assert change[0] in SYSTEM
    system = written(tmp_path, "sys.json", SYSTEM.replace(*change))
    with pytest.raises(ts.UserError, match=BAD_SYSTEMS[change]):
        ts.cluster.replay(trace([0, 1]), written(tmp_path, "net.yml", NETWORK), system=system)
