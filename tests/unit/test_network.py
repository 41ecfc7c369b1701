"""ts.network: names, results, determinism."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilesim as ts
from tilesim import _core
from tilesim.network import topology

SHORT = {"period": 500}


def test_a_run_says_what_happened() -> None:
    result = ts.network.run(topology="mesh", k=4, traffic="uniform", load=0.3, packet=5, seed=3, **SHORT)
    assert result.topology == "mesh_4x4" and result.state == "stable"
    assert result.accepted == pytest.approx(0.3, rel=0.1)
    assert result.packet_latency >= result.network_latency >= 10
    assert result.longest_latency >= result.packet_latency
    assert result.cycles >= 6 * 500 and result.packets > 0
    assert result.flit_hops == pytest.approx(result.accepted * 16 * result.cycles * result.hops, rel=0.05)
    assert len(result.links) == 2 * 2 * 4 * 3
    # a quarter of uniform traffic crosses the middle to the right
    crossing = sum(load for begin, end, load in result.links if begin % 4 == 1 and end == begin + 1)
    assert crossing == pytest.approx(0.3 * 16 * 0.25, rel=0.15)


def test_the_seed_decides() -> None:
    def run(seed: int) -> ts.network.NetworkResult:
        return ts.network.run("torus", 4, load=0.2, packet=2, seed=seed, **SHORT)

    assert run(1) == run(1)
    assert run(1).packet_latency != run(2).packet_latency


def test_no_load_and_full_load() -> None:
    nothing = ts.network.run("mesh", 3, load=0, **SHORT)
    assert nothing.stable and nothing.packets == 0 and nothing.accepted == 0
    full = ts.network.run("mesh", 4, traffic="transpose", load=1.0)
    assert not full.stable and full.state == "saturated"
    assert full.accepted < 0.7
    assert ts.network.run("crossbar", 8, traffic="neighbor", load=1.0, **SHORT).accepted == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize(
    ("name", "options", "shown", "nodes", "routers", "links"),
    [
        ("mesh_8x8", {}, "mesh_8x8", 64, 64, 224),
        ("mesh", {"k": [2, 3, 4]}, "mesh_2x3x4", 24, 24, 2 * (12 + 16 + 18)),
        ("torus", {"k": 3, "dimensions": 3}, "torus_3x3x3", 27, 27, 162),
        ("ring_6", {}, "ring_6", 6, 6, 12),
        ("crossbar_16", {}, "crossbar_16", 16, 1, 0),
        ("cmesh_4x4x2", {}, "cmesh_4x4x2", 32, 16, 48),
        ("cmesh", {"k": 2, "concentration": 3}, "cmesh_2x2x3", 12, 4, 8),
        ("tree_2x3", {}, "tree_2x3", 8, 7, 12),
        ("tree", {"k": 4, "levels": 2}, "tree_4x2", 16, 5, 8),
    ],
)
def test_topologies(name: str, options: dict, shown: str, nodes: int, routers: int, links: int) -> None:
    net = topology(name, **options)
    assert (net.name, net.nodes, net.routers, len(net.links)) == (shown, nodes, routers, links)
    assert topology(net) is net
    assert ts.network.run(net, load=0.1, **SHORT).accepted == pytest.approx(0.1, rel=0.2)


def test_a_graph_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "star.json"
    links = [{"between": [0, leaf], "latency": 3} for leaf in (1, 2, 3)]
    data = {"schema": "tilesim.network", "version": 1, "name": "star", "routers": 4, "nodes": [1, 2, 3], "links": links}
    path.write_text(json.dumps(data), encoding="utf-8")
    result = ts.network.run(path, traffic="neighbor", load=0.01, seed=2, **SHORT)
    assert result.topology == "star" and result.settings["routing"] == "up_down"
    assert result.hops == 3
    assert result.packet_latency == pytest.approx(6 + 2 * (3 + 3), rel=0.01)


def test_packets_one_by_one() -> None:
    network = _core.flit_network(topology("mesh_4x4"), _core.NetworkRouter())
    network.inject(0, 15, flits=5, cycle=10, tag=7)
    assert network.advance_to_delivery(1000) == 10 + 6 + 6 * 4 + 4 + 1
    assert network.take_deliveries() == [(7, 0, 15, 10, 10, 44, 7)]
    assert network.take_deliveries() == [] and network.idle
    assert network.flit_hops == 35


@pytest.mark.parametrize("fidelity", ["flit", "simple"])
def test_answers_and_fidelity(fidelity: str) -> None:
    result = ts.network.run("mesh", 4, load=0.02, reply=4, fidelity=fidelity, **SHORT)
    assert result.stable and result.settings["fidelity"] == fidelity
    assert result.accepted == pytest.approx(0.02 * 5, rel=0.2)
    assert result.reply_latency > result.packet_latency  # of both together


MISTAKES = [
    ({"fidelity": "exact"}, "fidelity"),
    ({"reply": 0}, "reply"),
    ({"reply": 2, "virtual_channels": 1}, "virtual channel"),
    ({"reply": 2, "topology": "torus", "virtual_channels": 2}, "two virtual channels"),
    ({"topology": "mash"}, "unknown network"),
    ({"topology": "mesh_"}, "unknown network"),
    ({"topology": "mesh_8x8", "k": 8}, "both sizes"),
    ({"topology": "mesh", "k": 0}, "k: out of range"),
    ({"topology": "ring", "k": [2, 3]}, "one size"),
    ({"topology": "nowhere.json"}, "no such file"),
    ({"traffic": "unifrom"}, "uniform"),
    ({"load": 2.0}, "load"),
    ({"load": "much"}, "not a number"),
    ({"packet": 0}, "packet"),
    ({"packet": 1.5}, "packet"),
    ({"seed": -1}, "seed"),
    ({"buffer_flits": 0}, "buffer"),
    ({"virtual_channels": 40}, "virtual channels"),
    ({"topology": "torus", "virtual_channels": 1}, "two virtual channels"),
    ({"periods": 2}, "period"),
    ({"link_latency": 0}, "link_latency: out of range"),
    ({"link_latency": 2**40}, "link_latency: out of range"),
    ({"k": 2**40}, "k: out of range"),
    ({"conzentration": 2}, "conzentration"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=[str(options) for options, _ in MISTAKES])
def test_mistakes(options: dict, message: str) -> None:
    with pytest.raises(ts.UserError, match=message):
        ts.network.run(**options)
