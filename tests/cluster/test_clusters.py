"""Clusters: names, sizes, files; own algorithms; what is wrong is named."""

import copy
import json
import math
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from support.command import tilesim
from tilesim.base.paths import configs_dir
from tilesim.cli.main import app
from tilesim.cluster.algorithms import NAMES
from tilesim.cluster.fabric import fabric_of
from tilesim.cluster.systems import systems


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


def numbers(value, path=""):
    """Dotted places of all numbers; dimensions of a network by their names."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from numbers(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            named = isinstance(one, dict) and "name" in one
            yield from numbers(one, f"{path}.{one['name']}" if named else f"{path}[{number}]")
    elif isinstance(value, (int, float)):  # and whether switches sum
        yield path


def lacking(data, sources):
    """Numbers for which no source stands, neither their own nor one of what they are a part of."""
    places = [place for place in numbers(data) if place != "version"]
    assert places
    return [
        place
        for place in places
        if not any(place == key or place.startswith((f"{key}.", f"{key}[")) for key in sources)
    ]


def precise(text):
    """A source names a document with its year, or says that it is an assumption, or what the number follows from."""
    year = any(f"({year})" in text for year in range(2015, 2027))
    return year or text.startswith(("assumption", "one node", "as many as", "N in the name", "unused", "the name of"))


@pytest.mark.parametrize("name", ts.Cluster.names())
def test_every_number_of_a_preset_has_a_source(name):
    data = json.loads((configs_dir() / "clusters" / f"{name}.json").read_text(encoding="utf-8"))
    sources = data.pop("sources")
    assert not lacking(data, sources)
    assert not {key: text for key, text in sources.items() if not precise(text)}
    known = [*numbers(data), "slices", "network.chip"]
    assert not [key for key in sources if not any(place.startswith(key) for place in known)]
    assert lacking(data, [key for key in sources if not key.endswith("bandwidth_bytes_per_second")])  # it would notice


def test_every_number_of_a_system_has_a_source():
    data = json.loads((configs_dir() / "systems.json").read_text(encoding="utf-8"))
    for name, system in data["systems"].items():
        sources = system.pop("sources")
        assert not lacking(system, sources), name
        assert not [text for text in sources.values() if not precise(text)], name
        assert set(sources) == set(numbers(system)), name


def test_rates_that_the_data_sheets_give():
    """Both directions together, as they are published: half of it, over as many links."""
    published = {"dgx-a100": 600, "dgx-h100": 900, "dgx-h200": 900, "dgx-b200": 1800, "gb200-nvl72": 1800}
    published |= {"mi300x-8": 128, "l40s-8": 64, "tpu-v5e": 400 / 4, "tpu-v5p": 1200 / 6, "tpu-v6e": 800 / 4}
    for name, both in published.items():
        assert ts.Cluster.load(name).dimensions[0].bandwidth_bytes_per_second == both / 2 * 1e9, name
    adapters = {"dgx-a100": 200, "dgx-h100": 400, "dgx-h200": 400, "dgx-b200": 400, "gb200-nvl72": 400}
    for name, gigabits in adapters.items():
        assert ts.Cluster.load(name).dimensions[1].bandwidth_bytes_per_second == gigabits / 8 * 1e9, name


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
    with pytest.raises(ts.UserError, match="the product of"):
        ts.Cluster(network=[SWITCH], devices=5)


def places(value, path):
    """Every number of a network and where it stands."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        here = f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]"
        if isinstance(one, (dict, list)):
            yield from places(one, here)
        elif not isinstance(one, (str, bool)):
            yield value, key, here


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32(1), {1}])
def test_numbers_that_are_none_are_named(wrong, tmp_path):
    """Wherever a number may stand in a network: its place, what is there, and what may be."""
    tree = {**SWITCH, "kind": "fat_tree", "size": 2, "radix": 4, "levels": 2, "oversubscription": 2, "rails": 2}
    network = [{**SWITCH, "rails": 1}, {**tree, "trunk_latency_seconds": 1e-6}, {**SWITCH, "sizes": [2]}]
    del network[2]["size"]
    graph = {"devices": 2, "switches": 1, "links": [{"source": 0, "target": 1, "latency_seconds": 1e-6,
             "bandwidth_bytes_per_second": 1e9, "lanes": 1}], "routes": [[0, 1]]}  # fmt: skip
    for links, faults in ((network, [{"device": 0, "share": 0.5}]), (graph, [{"source": 0, "target": 1, "share": 0}])):
        whole = {"network": links, "faults": faults}
        assert len(list(places(whole, ""))) > 8
        for number in range(len(list(places(whole, "")))):
            changed = copy.deepcopy(whole)
            holder, key, place = list(places(changed, ""))[number]
            holder[key] = wrong
            said = re.escape(place[1:]) + r": .*\(got .*; allowed: .*number"
            with pytest.raises(ts.UserError, match=said):
                ts.Cluster("h100", changed["network"], faults=changed["faults"])
    (tmp_path / "c.json").write_text(json.dumps({"network": [{**SWITCH, "latency_seconds": math.nan}]}))
    with pytest.raises(ts.UserError, match=r"c\.json.*latency_seconds"):
        ts.Cluster.load(tmp_path / "c.json")


def test_devices_that_there_are(tmp_path):
    own = ts.Device.load({**ts.Device.load("h100").to_dict(), "name": "mine"})
    file = tmp_path / "dev.json"
    file.write_text(json.dumps(own.to_dict()))
    for device in (None, "h100", "H100-SXM-80GB", "h100@boost", "tpu-v3", "tpu-v4", own, own.to_dict(), file, str(file),
                   "not_there_yet.json", ts.Machine.load("edge-8")):  # fmt: skip
        made = ts.Cluster(device, [SWITCH])
        made.save(tmp_path / "c.json")
        again = ts.Cluster.load(tmp_path / "c.json")
        assert again.to_dict() == made.to_dict()
        if device is own:
            plan, work = ts.Plan(data=4), ts.workloads.transformer_step(2, 64, 4, 100, 32, 8)
            assert ts.cluster.step(work, again, plan).seconds == ts.cluster.step(work, made, plan).seconds
    for device, near in (("h10", "h100"), ("tpu-v44", "tpu-v4"), ("a10O", "a100")):
        with pytest.raises(ts.UserError, match=f"device: unknown machine or device.*'{device}'.*mean '{near}'"):
            ts.Cluster(device, [SWITCH])
        (tmp_path / "c.json").write_text(json.dumps({"device": device, "network": [SWITCH]}))
        with pytest.raises(ts.UserError, match=rf"c\.json: device: unknown.*mean '{near}'"):
            ts.Cluster.load(tmp_path / "c.json")
    for device in (3, [1], "", "h100@x"):
        with pytest.raises(ts.UserError, match="device: "):
            ts.Cluster(device, [SWITCH])


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"op": "all_reduced"}, "all_reduce"),
        ({"bytes": -1}, "bytes"),
        ({"algorithm": "rng"}, "ring"),
        ({"network_model": "flow"}, "flows"),
        ({"devices": [[0, 1], [1, 2]]}, "groups overlap"),
        ({"devices": [0, 0]}, "twice"),
        ({"devices": [9]}, "devices"),
        ({"devices": 5}, "devices"),
        ({"op": "all_gather", "algorithm": "halving-doubling", "devices": 3}, "needs a power of two"),
        ({"op": "permute_devices", "pairs": [(0, 1), (2, 1)]}, "one target"),
        ({"algorithm": "ring", "rings": 9, "network_model": "chunks"}, "rings"),
        ({"root": 4}, "root"),
    ],
)
def test_bad_collectives(asked, text):
    with pytest.raises(ts.UserError, match=text):
        ts.cluster.collective(**{"op": "all_reduce", "bytes": 100, "cluster": ts.Cluster(network=[SWITCH]), **asked})


def test_bytes_up_to_a_limit_that_is_said():
    most = 1 << 46
    for given in (0, most, "64 TiB", str(most) + "B"):
        assert ts.cluster.collective("all_reduce", given, "dgx-h100").bytes <= most
    for given in (-1, most + 1, 10**20, 10**5000, "65 TiB", "9" * 30, "9" * 5000 + "GiB", f"{10**16} B"):
        for call in (ts.cluster.collective, lambda op, size, on: ts.cluster.collectives([(op, size)], on)):
            with pytest.raises(ts.UserError, match=rf"^bytes: out of range \(got .*; allowed: 0 to {most}\)"):
                call("all_reduce", given, "dgx-h100")
    for given in (1.5, None, True, "x", "-1 B", "1.5"):
        with pytest.raises(ts.UserError, match=r"^bytes: .*\(got .*; allowed: "):
            ts.cluster.collective("all_reduce", given, "dgx-h100")
    for given in ("-1", str(10**20), "9" * 5000):
        done = tilesim("cluster", "collective", "all_reduce", "--cluster", "dgx-h100", "--", given)
        assert done.returncode == 2 and f"allowed: 0 to {most}" in " ".join(done.stderr.split())


def test_names_that_steps_take_are_shown(tmp_path, monkeypatch):
    """`cluster show` shows what `cluster step` takes, names both kinds where it is neither, and what is a directory."""
    monkeypatch.chdir(tmp_path)
    names = [key.replace("N", size) for key in systems() for size in ("8", "128")]
    for name in {*names, *(name.lower() for name in names), *ts.Cluster.names(), "dgx-a100:16", "A100-cluster-800G:64"}:
        device = fabric_of(name).device.name
        done = tilesim("cluster", "show", name)
        assert done.returncode == 0 and device in done.stdout, done.stderr
    for key in systems():
        assert f"{key}: nodes or slices of {systems()[key]['device']}" in tilesim("cluster", "show", key).stdout or (
            key in ts.Cluster.names()
        )
        assert key in tilesim("cluster", "list").stdout
    for name in ("v5e-25x", "v5e", "A100-nod", "x-v5e-256", ""):
        done = tilesim("cluster", "show", name)
        assert done.returncode == 2
        assert all(known in done.stderr for known in ("unknown cluster", "tilesim cluster list lists all"))
    with pytest.raises(ts.UserError, match=r"unknown cluster.*v5e-256 is a system of measured steps"):
        ts.Cluster.load("v5e-256")
    (tmp_path / "mine").mkdir()
    (tmp_path / "dgx-h100").mkdir()  # a name comes first
    assert ts.Cluster.load("dgx-h100").devices == 8
    asked = ("step", "llama-3-8b", "--plan", "tensor=8", "--cluster", "mine")
    for call in (("show", "mine"), ("collective", "all_reduce", "1MiB", "--cluster", "mine"), asked):
        assert "mine: a cluster must be a file (got a directory; " in tilesim("cluster", *call).stderr


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
    "name": "pair", "operation": "all_reduce", "devices": 2, "chunks": 1,
    "transfers": [(0, 0, 1, 0, "combine"), (0, 1, 0, 0, "combine")],
}  # fmt: skip
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
    itself = {**OWN, "transfers": [*OWN["transfers"], (1, 1, 1, 0, "copy")]}
    with pytest.raises(ts.UserError, match=r"(?s)sends to itself.*two different devices") as told:
        ts.cluster.algorithm(itself)
    assert f"transfers[{len(OWN['transfers'])}]" in str(told.value)
    with pytest.raises(ts.UserError, match="counted twice"):
        ts.cluster.algorithm(twice)
    with pytest.raises(ts.UserError, match="never arrives"):
        ts.cluster.algorithm({**OWN, "transfers": OWN["transfers"][:1]})
    path = tmp_path / "pair.xml"
    path.write_text(XML.format(gpus=GPU.format(me=0, other=1) + GPU.format(me=1, other=0)))
    halves = ts.cluster.collective("all_reduce", 1000, cluster, algorithm=path)
    assert halves.picoseconds == 2 * (500_000 + 1_000_000)  # as halving and doubling
    alone = tmp_path / "alone.xml"
    alone.write_text(XML.format(gpus=GPU.format(me=0, other=0) + GPU.format(me=1, other=1)))
    with pytest.raises(ts.UserError, match=r"gpu 0: a device sends to itself"):
        ts.cluster.algorithm(alone)
    path.write_text(path.read_text().replace('"rrc"', '"r"'))
    with pytest.raises(ts.UserError, match="never arrives"):
        ts.cluster.algorithm(path)


def test_unknown_algorithms_get_a_suggestion():
    for wrong, near in (("in-networ", "in-network"), ("rinng", "ring"), ("heirarchical", "hierarchical")):
        with pytest.raises(ts.UserError, match=f"unknown algorithm.*torus, hierarchical, in-network.*mean '{near}'"):
            ts.cluster.collective("all_reduce", 1024, "dgx-h100", algorithm=wrong)


def test_names_of_algorithms_are_all_that_there_are():
    for name in NAMES:
        assert ts.cluster.collective("all_reduce", 1024, "dgx-h100", algorithm=name).seconds > 0


def test_errors_of_files_name_them(tmp_path):
    path = tmp_path / "c.json"
    good = ts.Cluster.load("dgx-h100:16").to_dict()
    changes = [{"schema": "x"}, {"version": 2}, {"network": []}, {"network": [{}]}, {"network": None}, {"per_node": 3},
               {"bogus": 1}, {"faults": [{}]}, {"sources": 3}, {"host_bytes_per_second": -1}]  # fmt: skip
    for value in (*({**good, **change} for change in changes), None, 3, "x", [good]):
        path.write_text(json.dumps(value))
        with pytest.raises(ts.UserError, match=re.escape(f"{path}: ")):
            ts.Cluster.load(path)
    with pytest.raises(ts.UserError, match="not a cluster"):
        ts.Cluster.load({"schema": "x"})


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ("0,1;2", "2 groups of 1 to 2 devices:"),
        ("0,1;2,3", "2 groups of 2 devices:"),
        ("0;1;2", "3 groups of 1 device:"),
        ("0,1,2;3,4,5,6,7;8", "3 groups of 1 to 5 devices:"),
        ("0,2,4", "on 3 devices:"),
    ],
)
def test_groups_on_the_command_line(devices, words):
    line = ["cluster", "collective", "all_reduce", "1MiB", "--cluster", "dgx-h100:16", "--devices", devices]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0 and words in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("network", "more"),
    [
        ("dgx-h100:16", []),
        ("dgx-h100:16", ["--algorithm", "direct"]),
        ("dgx-h100:16", ["--library", "nccl"]),
        ("dgx-h100:32768", ["--algorithm", "hierarchical"]),
        ("dgx-h100:1024", ["--algorithm", "hierarchical", "--model", "chunks"]),
        ("tpu-v4:8", ["--devices", "0,1,2;3,4,5", "--algorithm", "direct"]),
        ("ring", ["--algorithm", "bruck"]),
        ("ring", ["--devices", ";".join(",".join(map(str, range(i, 288, 3))) for i in range(3))]),
    ],
)
def test_a_time_is_called_what_it_is(network, more, tmp_path):
    """Exact, taken message by message, or an estimate, which may be above or below: none is called a bound."""
    if network == "ring":
        ts.Cluster(network=[{**SWITCH, "kind": "ring", "size": 288}]).save(tmp_path / "ring.json")
        network = str(tmp_path / "ring.json")
    line = ["cluster", "collective", "all_gather", "1MiB", "--cluster", network, *more]
    said = " ".join(CliRunner().invoke(app, line).output.split())
    CliRunner().invoke(app, [*line, "--quiet", "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    words = "" if found["exact"] else ", message by message" if found["messages"] else ", an estimate"
    assert f"{found['algorithm']}, {found['model']}{words})" in said or found["library"]
    assert ("network only, without library costs" in said) == (not found["library"])
    assert ("approximate" in said) == (words == ", an estimate")
    assert "bound" not in said and ("estimate" in said) == (words == ", an estimate")
    if "--devices" in more:  # groups that meet
        assert words == ", message by message"
    if more == ["--algorithm", "hierarchical"]:  # over trunks, more messages than are simulated
        assert words == ", an estimate"


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


@pytest.mark.parametrize("name", ts.Cluster.names())
def test_a_name_is_one_cluster(name, tmp_path):
    """By name, as an object and from a file; by the name alone in the size of the plan."""
    work = ts.workloads.transformer_step(4, 1024, 16, 32000, 512, 576)
    size = {"gb200-nvl72": 144, "tpu-v3": 32, "tpu-v3-8": 8}.get(name, 16)
    plan = ts.Plan(tensor=4, data=size // 4)
    (cluster := ts.Cluster.load(f"{name}:{size}")).save(tmp_path / "a.json")
    given = (f"{name}:{size}", name, cluster, str(tmp_path / "a.json"))
    assert len({ts.cluster.step(work, one, plan, check_memory=False).seconds for one in given}) == 1
