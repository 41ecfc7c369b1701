"""Clusters: names, sizes, files; own algorithms; what is wrong is named."""

import json

import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.cli.main import app


@pytest.mark.parametrize("name", ts.Cluster.names())
def test_presets(name, tmp_path):
    cluster = ts.Cluster.load(name)
    assert cluster.devices >= 4 and cluster.device
    for i, dimension in enumerate(cluster.dimensions):
        assert dimension.bandwidth_bytes_per_second > 1e10 and dimension.latency_seconds > 0, i
    network = json.dumps([*cluster.sources])
    for dimension in cluster.dimensions:
        assert dimension.name in network  # every dimension says where its numbers come from
    cluster.save(tmp_path / "c.json")
    again = ts.Cluster.load(tmp_path / "c.json")
    assert again.to_dict() == cluster.to_dict()
    found = ts.cluster.collective("all_reduce", "1 GiB", again)
    assert found.seconds > 0 and found.bytes == 1 << 30


def test_sizes():
    assert ts.Cluster.load("dgx-h100:4").dimensions[0].sizes == (4,)
    cluster = ts.Cluster.load("dgx-h100:64")
    assert (cluster.devices, cluster.per_node, cluster.nodes) == (64, 8, 8)
    assert ts.Cluster.load("tpu-v4:128").dimensions[0].sizes == (4, 4, 8)
    assert ts.Cluster.load("tpu-v3-8").devices == 8
    assert cluster.groups(1)[3] == list(range(3, 64, 8)) and cluster.groups("node")[1] == list(range(8, 16))
    with pytest.raises(ts.UserError, match="multiple of 8"):
        ts.Cluster.load("dgx-h100:12")
    with pytest.raises(ts.UserError, match="128"):
        ts.Cluster.load("tpu-v4:100")
    with pytest.raises(ts.UserError, match="dgx-h100"):
        ts.Cluster.load("dgx-h10")


SWITCH = {"kind": "switch", "size": 4, "bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ([{**SWITCH, "kind": "swich"}], "switch"),
        ([{**SWITCH, "size": 0}], "size"),
        ([{**SWITCH, "bandwith": 1}], "bandwidth_bytes_per_second"),
        ([{**SWITCH, "bandwidth_bytes_per_second": -1}], "bytes per second"),
        ([{**SWITCH, "latency_seconds": -1}], "seconds"),
        ([{**SWITCH, "kind": "fat_tree", "size": 100, "radix": 4, "levels": 1}], "ports"),
        ([], "dimension"),
        ({"devices": 3, "links": [{"source": 0, "target": 1, "bandwidth_bytes_per_second": 1e9}]}, "not connected"),
        (3, "network"),
    ],
)
def test_bad_networks(network, text):
    with pytest.raises(ts.UserError, match=text):
        ts.Cluster(network=network)
    with pytest.raises(ts.UserError, match="multiply"):
        ts.Cluster(network=[SWITCH], devices=5)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"op": "all_reduced"}, "all_reduce"),
        ({"bytes": -1}, "bytes"),
        ({"algorithm": "rng"}, "ring"),
        ({"model": "flow"}, "flows"),
        ({"devices": [[0, 1], [1, 2]]}, "groups overlap"),
        ({"devices": [0, 0]}, "twice"),
        ({"devices": [9]}, "devices"),
        ({"devices": 5}, "devices"),
        ({"op": "all_gather", "algorithm": "halving-doubling", "devices": 3}, "no power of two"),
        ({"op": "permute_devices", "pairs": [(0, 1), (2, 1)]}, "one target"),
        ({"algorithm": "ring", "rings": 9, "model": "chunks"}, "rings"),
        ({"root": 4}, "root"),
    ],
)
def test_bad_collectives(asked, text):
    with pytest.raises(ts.UserError, match=text):
        ts.cluster.collective(**{"op": "all_reduce", "bytes": 100, "cluster": ts.Cluster(network=[SWITCH]), **asked})


def test_no_bytes_and_one_device():
    cluster = ts.Cluster(network=[SWITCH])
    assert ts.cluster.collective("all_reduce", 0, cluster, algorithm="direct").picoseconds == 2_000_000
    assert ts.cluster.collective("all_reduce", 100, cluster, 1).seconds == 0


def test_halving_folds_any_number():
    """Three devices: the third gives all to the first, two exchange halves, the first gives the sum back."""
    cluster = ts.Cluster(network=[{**SWITCH, "size": 3, "latency_seconds": 0}])
    found = ts.cluster.collective("all_reduce", 1000, cluster, algorithm="halving-doubling")
    assert found.model == "chunks" and found.picoseconds == (1000 + 2 * 500 + 1000) * 1000


OWN = {
    "name": "pair",
    "operation": "all_reduce",
    "devices": 2,
    "chunks": 1,
    "transfers": [(0, 0, 1, 0, "combine"), (0, 1, 0, 0, "combine")],
}
XML = """<algo name="pair" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1">
{gpus}</algo>"""
GPU = """<gpu id="{me}" i_chunks="2" o_chunks="0" s_chunks="0"><tb id="0" send="{other}" recv="{other}" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="{other}" dstbuf="i" dstoff="{other}" cnt="1" depid="-1" deps="-1"/>
<step s="1" type="rrc" srcbuf="i" srcoff="{me}" dstbuf="i" dstoff="{me}" cnt="1" depid="-1" deps="-1"/>
<step s="2" type="s" srcbuf="i" srcoff="{me}" dstbuf="i" dstoff="{me}" cnt="1" depid="-1" deps="-1"/>
<step s="3" type="r" srcbuf="i" srcoff="{other}" dstbuf="i" dstoff="{other}" cnt="1" depid="-1" deps="-1"/>
</tb></gpu>
"""


def test_own_algorithms(tmp_path):
    cluster = ts.Cluster(network=[{**SWITCH, "size": 2}])
    found = ts.cluster.collective("all_reduce", 1000, cluster, algorithm=OWN)
    assert found.picoseconds == 1_000_000 + 1_000_000 and found.algorithm == "pair"
    twice = {**OWN, "transfers": [*OWN["transfers"], (1, 0, 1, 0, "combine")]}
    with pytest.raises(ts.UserError, match="counted twice"):
        ts.cluster.algorithm(twice)
    with pytest.raises(ts.UserError, match="never arrives"):
        ts.cluster.algorithm({**OWN, "transfers": OWN["transfers"][:1]})
    path = tmp_path / "pair.xml"
    path.write_text(XML.format(gpus=GPU.format(me=0, other=1) + GPU.format(me=1, other=0)))
    halves = ts.cluster.collective("all_reduce", 1000, cluster, algorithm=path)
    assert halves.picoseconds == 2 * (500_000 + 1_000_000)  # as halving and doubling
    path.write_text(path.read_text().replace('"rrc"', '"r"'))
    with pytest.raises(ts.UserError, match="never arrives"):
        ts.cluster.algorithm(path)


def test_command_line(tmp_path):
    run = CliRunner().invoke
    out = tmp_path / "out.json"
    words = ["cluster", "collective", "all_reduce", "1MiB", "--cluster", "dgx-h100:16", "--quiet", "--json", str(out)]
    assert run(app, words).exit_code == 0
    found = json.loads(out.read_text())
    direct = ts.cluster.collective("all_reduce", 1 << 20, "dgx-h100:16")
    assert found["seconds"] == direct.seconds and found["algorithm"] == direct.algorithm
    assert "dgx-h100" in run(app, ["cluster", "list"]).output
    assert "450" in run(app, ["cluster", "show", "dgx-h100"]).output
