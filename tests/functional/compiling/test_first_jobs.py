"""Usual jobs as people write them first: traces, mappings by hand, several jobs, energy, programs by hand."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim

GRAPH = ts.workloads.matmul(256, 256, 512)
PROGRAMS = Path(__file__).parents[2] / "programs"


def test_a_trace_is_what_its_ending_says(tmp_path):
    result = ts.run(GRAPH, machine="tpu-v3", timeline=True, memory="bank")
    result.timeline(tmp_path / "t.json")
    result.timeline(tmp_path / "t.pftrace")
    with pytest.raises(UnicodeDecodeError):
        (tmp_path / "t.pftrace").read_text(encoding="utf-8")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    spans = [one for one in events if one["ph"] == "X"]
    names = {one["tid"]: one["args"]["name"] for one in events if one["ph"] == "M"}
    assert len(spans) == len(result.data["intervals"])
    assert max(one["ts"] + one["dur"] for one in spans) <= result.seconds * 1e6 * (1 + 1e-9)
    for unit in result.units().rows:
        own = [one["dur"] for one in spans if names[one["tid"]] == unit["unit"]]
        if own and unit["unit"].startswith("core0.array"):
            assert sum(own) * 1e-6 * result.data["hertz"] == pytest.approx(unit["busy"])
    assert {one["name"] for one in events if one["ph"] == "C"} == {
        f"memory.channel{i} MB/s" for i in range(len(result.data["memory"]["channel_bytes"]))
    }
    result.timeline(tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == (tmp_path / "t.pftrace").read_bytes()
    with pytest.raises(ts.UserError, match=r"pftrace.*\.json"):
        result.timeline(tmp_path / "t.txt")
    assert not (tmp_path / "t.txt").exists()
    out = tilesim("run", "mlp", "--timeline", str(tmp_path / "t.html"))
    assert out.returncode == 2 and ".pftrace" in out.stderr and not out.stdout


def test_sizes_by_hand_read_as_a_file_does(tmp_path):
    whole = {"tiles": [64, 128, 256], "order": [0, 1, 2], "depths": [2, 2, 2]}
    wanted = ts.run(GRAPH, machine="tpu-v3", mapping={"matmul": whole}).cycles
    named = {"tiles": {"m": 64, "n": 128, "k": 256}, "order": ["m", "n", "k"], "depths": [2, 2, 2]}
    mixed = {**whole, "tiles": {"k": 256, "n": 128, "m": 64}}
    for nest in (named, mixed):
        assert ts.run(GRAPH, machine="tpu-v3", mapping={"matmul": nest}).cycles == wanted
    forms = [{"m": 64, "n": 128, "k": 256}, {"tiles": {"m": 64, "n": 128, "k": 256}}]
    (tmp_path / "m.json").write_text(json.dumps({"matmul": forms[1]}))
    file = ts.run(GRAPH, machine="tpu-v3", mapping=tmp_path / "m.json").cycles
    assert [ts.run(GRAPH, machine="tpu-v3", mapping={"matmul": form}).cycles for form in forms] == [file, file]
    # half the rows: twice the weights
    halves = ts.run(GRAPH, machine="tpu-v3", mapping={"matmul": {"m": 32, "n": 128, "k": 256}})
    assert halves.memory_bytes > ts.run(GRAPH, machine="tpu-v3", mapping={"matmul": forms[0]}).memory_bytes


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"matmul": 5}, ['"tiles": {"m": 128', '"order"', '"depths"']),
        ({"matmul": {}}, ['"tiles": {"m": 128']),
        ({"matmul": {"order": ["m", "n", "k"]}}, ['"tiles": {"m": 128']),
        ({"matmul": {"m": 64, "z": 64}}, ["unknown loop", "'z'", "m, n, k"]),
        ({"matmul": {"tiles": {"m": 0}}}, ["at least 1", "0"]),
        ({"matmul": {"m": 512}}, ["larger than the loop", "1 to 256"]),
        ({"matmull": {"m": 64}}, ["Did you mean 'matmul'"]),
        ({"matmul": {"tiles": {"m": 64}, "ordre": ["m"]}}, ["ordre", "Did you mean 'order'"]),
        ({"matmul": {"tiles": "mnk", "order": [0, 1, 2], "depths": [2, 2, 2]}}, ["tiles", "not a list of integers"]),
        (7, ["a Study", '"tiles": {"m": 128']),
    ],
)
def test_what_no_mapping_is_says_how_one_looks(mapping, words):
    with pytest.raises(ts.UserError) as caught:
        ts.compile(GRAPH, "edge-8", mapping=mapping)
    for word in words:
        assert word in str(caught.value)


def test_the_example_of_the_error_is_a_mapping():
    with pytest.raises(ts.UserError) as caught:
        ts.compile(GRAPH, "edge-8", mapping={"matmul": 5})
    example = json.loads(str(caught.value).partition("allowed: ")[2].rpartition(")")[0])
    assert ts.run("matmul:512,512,1024", machine="tpu-v3", mapping=example).cycles > 0


def test_a_study_is_a_mapping():
    study = ts.tune(GRAPH, "edge-8", budget=3)
    assert study.result is not None
    assert ts.run(GRAPH, machine="edge-8", mapping=study).cycles == study.result.cycles
    assert ts.compile(GRAPH, "edge-8", mapping=study).options["mapping"] is study.best


def test_the_headline_names_all_jobs_and_arrivals_have_units():
    small, other = ts.compile(GRAPH, "edge-8"), ts.compile("mlp", "edge-8")
    hertz = 800e6  # edge-8's core clock
    two = ts.simulate([ts.Job(small), ts.Job(other, arrival="1 ms")])
    assert two.jobs()[1]["arrival"] == 1e-3 * hertz
    assert "2 jobs (matmul, mlp) on edge-8" in two.summary()
    assert "4 jobs (3 of matmul, mlp)" in ts.simulate([ts.Job(small)] * 3 + [ts.Job(other)]).summary()
    assert ts.simulate([ts.Job(small)]).summary().startswith("matmul on edge-8")
    for text, cycles in (("1 ns", 1), ("10 ns", 8), ("7", 7)):  # a part of a cycle counts as one
        assert ts.simulate([ts.Job(small), ts.Job(other, arrival=text)]).jobs()[1]["arrival"] == cycles
    for early in (-5, -1):
        with pytest.raises(ts.UserError, match=rf"arrival.*{early}.*from 0 on"):
            ts.simulate([ts.Job(small, arrival=early)])
    (alone,) = ts.simulate([ts.Job(small, arrival=100)]).jobs().rows
    assert alone["arrival"] == 100 <= alone["start"] and alone["finish"] - 100 == ts.simulate(small).cycles
    assert not ts.simulate(small).jobs().rows
    with pytest.raises(ts.UserError, match="ps, ns, us, ms, s"):
        ts.simulate([ts.Job(small, arrival="soon")])


def test_a_host_that_computes_narrower_numbers_could_spare_is_told():
    graph = ts.workloads.matmul(64, 64, 64)
    hosted = ts.run(graph, machine="gemmini-16", fallback="host")
    narrow = [one for one in hosted.explain() if one.kind == "quantize"]
    assert [one.text for one in narrow] == ["quantize = i8 (changes the numbers)"]
    assert (
        narrow[0].cycles == ts.run(graph, machine="gemmini-16", fallback="host", quantize="i8").cycles < hosted.cycles
    )


def test_energy_has_units_or_says_what_lacks():
    machine = ts.Machine.load("edge-8")
    none = ts.run(GRAPH, machine=machine).energy
    assert none == {} and "energy.mac" in repr(none) and "settings are missing" in repr(none)
    known = ts.run(GRAPH, machine=machine.replace({"energy.mac": "0.5 pJ"})).energy
    assert known == {"multiply-adds": pytest.approx(256 * 256 * 512 * 0.5e-12)}
    assert "16.8 µJ" in repr(known) and "not counted" in repr(known) and "together" not in repr(known)
    assert pickle.loads(pickle.dumps(known)) == known and isinstance(known, dict)
    two = ts.run(GRAPH, machine=machine.replace({"energy.mac": "0.5 pJ", "energy.memory_byte": "20 pJ"})).energy
    assert "total " in repr(two)


def test_a_program_by_hand_where_a_workload_is_asked_for(tmp_path):
    text = (PROGRAMS / "gemm_double_buffered.json").read_text()
    program = ts.Program.load(PROGRAMS / "gemm_double_buffered.json")
    two = ts.Machine.load("tpu-v3").replace({"core.dma.load_queues": 2})
    wanted = ts.simulate(program, two).cycles
    for given in (PROGRAMS / "gemm_double_buffered.json", program):
        assert ts.run(given, machine=two).cycles == wanted
    own = tmp_path / "own.json"
    own.write_text(json.dumps({**json.loads(text.replace("load1", "load0")), "machine": "edge-8"}))
    assert ts.run(own).cycles == ts.simulate(ts.Program.load(own), "edge-8").cycles
    assert ts.run(own, machine="tpu-v4").cycles == ts.simulate(ts.Program.load(own), "tpu-v4").cycles
    for options in ({"fuse": "none"}, {"verify": True}, {"quantize": "i8"}):
        with pytest.raises(ts.UserError, match=f"cannot be compiled.*{next(iter(options))}"):
            ts.run(own, **options)
    table = ts.run(own).table()
    if not len(table):
        assert "units()" in str(table)


def test_why_without_an_operation_lists_the_longest():
    out = tilesim("why", "mlp", "--machine", "edge-8")
    assert out.returncode == 0, out.stderr
    rows = ts.run("mlp", machine="edge-8").table().rows
    places = [out.stdout.find(f"{row['cycles']:,}") for row in rows[:3]]
    assert -1 not in places and places == sorted(places)
    assert f"tilesim why mlp {rows[0]['operation']}" in out.stdout
    found = json.loads(tilesim("why", "mlp", "--machine", "edge-8", "--json", "-").stdout)
    assert [row["cycles"] for row in found["operations"]] == [row["cycles"] for row in rows[:20]]
    np.testing.assert_array_less([-1] * len(found["operations"]), [row["cycles"] for row in found["operations"]])
