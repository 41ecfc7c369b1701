"""Why an operation is slow: terms add up, figures are those of sums by hand, and each alternative is its own run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.small_zoo import small as small_network
from tilesim.models.transformer import BERT_BASE, bert
from tilesim.study.spans import Spans
from tilesim.study.why_text import lines_of

HEURISTIC = {"mapping": "heuristic"}  # where a search for nests would take most of the time
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("bert-base", "tpu-v3", {}, {}),
    ("bert-base", "tpu-v3", {"lowering": "best"}, {}),
    ("bert-base", "tpu-v3", {}, {"memory": "bank"}),
    ("bert-base", "chiplet-2", HEURISTIC, {}),
    ("resnet18", "tpu-v4", {}, {}),
    ("resnet18", "edge-8", {}, {}),
    ("resnet18", "tpu-v3", {}, {"memory": "ideal"}),
    ("dlrm", "mesh-16", HEURISTIC, {}),
    ("vit-b-16", "tpu-v4-chip", {"lowering": "best"} | HEURISTIC, {}),
    ("gpt2", "tpu-v2", {}, {}),
]


def check(result: ts.Result) -> None:
    """Of every kernel: no term below zero, shares add up to 1, cycles to the kernel's."""
    for name in {row["name"] for row in result.data["operations"]}:
        why = result.why(name)
        rows = why.terms.rows
        assert sum(row["share"] for row in why.table()) == pytest.approx(1, abs=1e-3), name
        assert sum(row["cycles"] for row in rows) == pytest.approx(why.cycles, abs=1e-3 * max(1, why.cycles)), name
        assert min(row["share"] for row in rows) >= 0, name
        own = [row for row in result.data["operations"] if row["name"] in why.kernels]
        assert why.cycles == sum(row["exclusive"] for row in own), name
        assert why.bound_cycles <= sum(row["cycles"] for row in own) * 1.001 + len(own), name


@pytest.mark.few(2)
@pytest.mark.parametrize(("network", "machine", "compiling", "simulating"), CASES)
def test_shares_add_up(
    network: str, machine: str, compiling: dict[str, Any], simulating: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(ts.simulate(ts.compile(small_network(network, monkeypatch), machine, **compiling), **simulating))


@pytest.mark.parametrize("machine", ["gemmini-16", "eyeriss-v2-pe"])
def test_shares_add_up_on_machines_of_integers(machine: str) -> None:
    check(ts.run(ts.workloads.matmul(96, 80, 64, dtype="i8"), machine=machine))


def small(machine: str) -> list[ts.Graph]:
    """What the machine can multiply, with a reduction where it has floats."""
    rates = ts.Machine.load(machine).get("core.array.rates")
    dtype = next(name for name in ("bf16", "f32", "f16", "i8") if name in rates)
    found = [ts.workloads.matmul(200, 120, 72, dtype=dtype), ts.workloads.elementwise("add", 96, 200, dtype=dtype)]
    if dtype == "i8":
        return found
    return [*found, ts.workloads.softmax(96, 200, dtype=dtype), ts.workloads.attention(1, 2, 64, 32, dtype=dtype)]


@pytest.mark.singly
@pytest.mark.parametrize("memory", ["simple", "bank"])
@pytest.mark.parametrize("machine", ts.Machine.names())
def test_shares_add_up_on_every_preset(machine: str, memory: str) -> None:
    if memory == "bank" and not ts.Machine.load(machine).get("memory.part"):
        pytest.skip("no DRAM part")
    done = 0
    for graph in small(machine):
        try:
            program = ts.compile(graph, machine)
        except ts.UserError:
            continue
        check(ts.simulate(program, memory=memory))
        done += 1
    assert done >= 2


LACKING = {("stable-diffusion-1.5-unet", "edge-8")}
"""Whose products the machine cannot multiply."""


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["tpu-v3", "mesh-16", "edge-8", "chiplet-2"])
@pytest.mark.parametrize("network", ts.models.names())
def test_shares_add_up_over_the_zoo(network: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sort of kernel of every network: one layer of those that are repeated, short inputs, mappings by a rule."""
    graph = small_network(network, monkeypatch)
    if (network, machine) in LACKING:
        with pytest.raises(ts.Unsupported):
            ts.compile(graph, machine)
        return
    mapping = "profile" if machine == "tpu-v3" else "heuristic"
    result = ts.simulate(ts.compile(graph, machine, mapping=mapping))
    check(result)
    print(f"{network} on {machine}: {len(result.data['operations'])} kernels")


def test_runs_that_overlap_are_ordered_where_they_overlap() -> None:
    """In one place the order of starts is the program's, in another that of finishes."""
    data = {
        "cycles": 60,
        "labels": ["early", "late", "first", "second"],
        "units": [],
        "intervals": [[0, 0, 0, 10], [1, 1, 5, 8], [0, 2, 30, 40], [1, 3, 28, 60]],
        "operations": [
            {"name": name, "count": 1, "exclusive": cycles}
            for name, cycles in (("late", 8), ("early", 2), ("second", 50), ("first", 0))
        ],
    }
    spans = Spans(data)
    assert spans.of(["late"]).tolist() == [[0, 8]] and spans.of(["early"]).tolist() == [[8, 10]]
    assert spans.of(["second"]).tolist() == [[10, 60]] and not len(spans.of(["first"]))


@pytest.mark.parametrize(
    ("network", "machine", "options"),
    [("bert-base", "tpu-v3", {}), ("bert-base", "chiplet-2", HEURISTIC), ("resnet18", "mesh-16", HEURISTIC)],
)
def test_stretches_are_those_that_the_engine_counts(
    network: str, machine: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found from intervals alone, they have the length that the engine's own books say, and leave no cycle out."""
    result = ts.simulate(ts.compile(small_network(network, monkeypatch), machine, **options), timeline=True)
    spans = Spans(result.data)
    found = {}
    for row in result.data["operations"]:
        stretches = spans.of([row["name"]])
        found[row["name"]] = int((stretches[:, 1] - stretches[:, 0]).sum())
        assert found[row["name"]] == row["exclusive"], row["name"]
    assert sum(found.values()) == result.cycles


def wide(**changes: Any) -> ts.Machine:
    """One array of 8 x 8 at 1 GHz, memory of 100 bytes per cycle without latency."""
    plain: dict[str, Any] = {
        "core.clock": "1 GHz", "core.kernel_launch_cycles": 0, "core.array.rates": {"f32": 1},
        "network.clock": "1 GHz", "network.latency_cycles": 0, "network.port_bytes_per_cycle": 65536,
        "core.dma.bytes_per_cycle": 65536, "memory.bandwidth": "100 GB/s", "memory.efficiency": 1,
        "memory.latency": "0 ns",
    }  # fmt: skip
    return ts.Machine.load("edge-8").replace({**plain, **changes})


def test_a_product_by_hand() -> None:
    """256 x 256 x 256 on 64 cells: at least 256^3 / 64 cycles."""
    result = ts.run(ts.workloads.matmul(256, 256, 256), machine=wide())
    why = result.why("matmul")
    assert why.bound == "array" and why.bound_cycles == 256**3 / 64
    assert why.bound_seconds == pytest.approx(256**3 / 64 * 1e-9)
    least = next(row for row in why.terms.rows if row["term"] == "lower bound")
    assert least["cycles"] == pytest.approx(256**3 / 64)
    point = why.roofline
    assert point["flops"] == 2 * 256**3 and point["peak_flops_per_second"] == 2 * 64 * 1e9
    assert point["peak_bytes_per_second"] == pytest.approx(100e9)
    assert point["intensity"] == pytest.approx(2 * 256**3 / result.memory_bytes)
    assert point["attained_flops_per_second"] == pytest.approx(2 * 256**3 / result.seconds)


def test_a_sum_is_bound_by_memory() -> None:
    """Two operands and a result of 1 MiB, moved once: 3 MiB at 100 bytes per cycle."""
    result = ts.run(ts.workloads.elementwise("add", 512, 512), machine=wide())
    why = result.why(result.data["operations"][0]["name"])
    assert why.bound == "memory" and why.bound_cycles == pytest.approx(3 * 2**20 / 100)
    assert not {"read again", "values between kernels"} & {row["term"] for row in why.terms.rows}


def test_terms_name_the_one_thing_that_is_wrong() -> None:
    graph = ts.workloads.matmul(256, 256, 256)
    before = {row["term"]: row["cycles"] for row in ts.run(graph, machine=wide()).why("matmul").terms.rows}
    for change, term in (
        ({"memory.latency": "100 us"}, "first load"),
        ({"core.kernel_launch_cycles": 100_000}, "launch"),
        ({"network.port_bytes_per_cycle": 1}, "port"),
        ({"core.array.rows": 64, "core.array.columns": 96, "memory.bandwidth": "4000 GB/s"}, "ragged tiles"),
    ):
        rows = ts.run(graph, machine=wide(**change)).why("matmul").terms.rows
        own = {row["term"]: row["cycles"] for row in rows if row["term"] != "lower bound"}
        assert own.get(term, 0) > 10 * before.get(term, 0) + 100, (change, own)


def test_links_between_regions_are_told_apart_from_memory() -> None:
    """Half of what interleaved tensors move crosses; with links of 4 bytes per cycle that is nearly all of the time."""
    narrow = ts.Machine.load("chiplet-2").replace({"network.region_bytes_per_cycle": 4})
    result = ts.simulate(ts.compile(ts.workloads.softmax(1024, 1024), narrow))
    for name in {row["name"] for row in result.data["operations"]}:
        own = {row["term"]: row["share"] for row in result.why(name).terms}
        assert own["links between regions"] > 0.7, own
    wide = ts.Machine.load("chiplet-2").replace({"network.region_bytes_per_cycle": 4096})
    result = ts.simulate(ts.compile(ts.workloads.softmax(1024, 1024), wide))
    assert all(
        "links between regions" not in {row["term"] for row in result.why(one["name"]).terms}
        for one in result.data["operations"]
    )


def test_the_first_load_of_a_run_that_memory_bounds() -> None:
    """Each of the runs waits for one latency before the first byte comes."""
    before, after = (
        ts.run(ts.workloads.elementwise("add", 512, 512), machine=wide(**{"memory.latency": latency}))
        for latency in ("0 ns", "5 us")
    )
    (name,) = (row["name"] for row in after.data["operations"])
    assert "first load" not in {row["term"] for row in before.why(name).terms}
    (first,) = (row for row in after.why(name).terms if row["term"] == "first load")
    assert first["cycles"] == pytest.approx(5000)


def test_values_between_kernels_are_told_of_several_alone() -> None:
    b = ts.GraphBuilder("two", dtype="f32")
    x = b.input("x", (64, 128))
    x = b.matmul(x, b.input("u", (128, 256)), name="block.up")
    b.output(b.matmul(x, b.input("v", (256, 64)), name="block.down"))
    result = ts.run(b.build(), machine=wide(), fuse="none", residency="none")
    both = result.why("block")
    assert both.kernels == ["block.up", "block.down"]
    outer = 4 * (64 * 128 + 128 * 256 + 256 * 64 + 64 * 64)
    assert both._facts.least_bytes == outer and both._facts.inner_bytes == 2 * 4 * 64 * 256
    assert result.why("block.up")._facts.least_bytes == 4 * (64 * 128 + 128 * 256 + 64 * 256)


def test_names() -> None:
    result = ts.run("bert-base", machine="tpu-v3")
    attention = result.why("attention.self", intervals=False)
    assert attention.kernels == ["attention.self.scores", "attention.self.sum", "attention.self"]
    assert result.why("attention.self.query").kernels == ["attention.self.query"]
    below = [row for row in result.data["operations"] if any(".self." in one for one in row["operation"])]
    assert result.why("attention.self.*").kernels == [row["name"] for row in below] and len(below) == 6
    fused = result.why("pooler.tanh")
    assert fused.kernels == ["pooler.dense"] and "part of the kernel pooler.dense" in fused.note
    layer = result.why("encoder.layer.3.output.dense")
    assert layer.kernels == ["output.dense"] and "12 layers" in layer.note
    with pytest.raises(ts.UserError, match=r"Did you mean 'attention\.self'"):
        result.why("attention.slf")
    with pytest.raises(ts.UserError, match="unknown operation"):
        result.why("")
    layers = ts.run("resnet18", machine="tpu-v3").why("layer1.*.conv1", intervals=False)
    assert layers.kernels == ["layer1.0.conv1", "layer1.1.conv1"]


def test_alternatives_are_their_own_runs() -> None:
    network = bert(replace(BERT_BASE, layers=2, width=256, heads=4), sequence=64)
    program = ts.compile(network, "tpu-v3")
    result = ts.simulate(program)
    why = result.why("attention.self")
    kinds = {next(iter(row["change"])) for row in why.alternatives.rows}
    assert {"lowering", "mapping", "fuse", "layout"} <= kinds
    operations = {one for row in result.data["operations"] if row["name"] in why.kernels for one in row["operation"]}
    for row in why.alternatives.rows:
        other = ts.simulate(ts.compile(network, "tpu-v3", **row["change"]))
        assert row["cycles"] == other.cycles, row
        own = [one["exclusive"] for one in other.data["operations"] if operations & set(one["operation"])]
        assert row["own_cycles"] == sum(own), row
        assert row["gain"] == pytest.approx(result.cycles / other.cycles)


def test_tiles_are_those_of_the_program() -> None:
    """Trips times tile cover the product; each buffer is a slot of the program."""
    program = ts.compile(ts.workloads.matmul(256, 512, 384), "edge-8")
    (tiles,) = ts.simulate(program).why("matmul").tiles
    form = json.loads(program.core.to_json())
    slots = {slot["name"]: slot for slot in form["do"][0]["slots"]}
    assert {row["name"] for row in tiles["buffers"]} == set(slots)
    assert all(row["elements"] == slots[row["name"]]["elements"] for row in tiles["buffers"])
    trips = math.prod(row["trips"] for row in tiles["loops"])
    sizes = {row["name"]: row["elements"] for row in tiles["buffers"]}
    assert sizes["c"] * trips >= 256 * 512


def test_a_stored_result_tells_what_it_can(tmp_path: Path) -> None:
    result = ts.run("resnet18", machine="edge-8", **HEURISTIC)
    result.save(tmp_path / "r.json")
    stored = ts.Result.load(tmp_path / "r.json")
    check(stored)
    why = stored.why("fc")
    assert not why.alternatives.rows and not why.tiles and "intervals" in why.attribution
    recorded = ts.run("resnet18", machine="edge-8", timeline=True, **HEURISTIC)
    recorded.save(tmp_path / "t.json")
    measured = ts.Result.load(tmp_path / "t.json").why("fc")
    assert "waits" not in {row["term"] for row in measured.terms.rows}
    measured.save(tmp_path / "why.json")
    assert json.loads((tmp_path / "why.json").read_text()) == json.loads(json.dumps(measured.data))


def test_odd_results() -> None:
    nothing = ts.GraphBuilder("nothing")
    nothing.output(nothing.input("x", [4]), "x")
    with pytest.raises(ts.UserError, match="no operations"):
        ts.simulate(ts.compile(nothing.build(), "edge-8")).why("x")
    hosted = ts.run("bert-base", machine="tpu-v3", place={"pooler.tanh": "host"})
    check(hosted)
    assert [row["term"] for row in hosted.why("pooler.tanh").terms.rows] == ["host"]
    check(ts.estimate("bert-base", "h100"))
    check(ts.estimate("bert-base", "tpu-v3"))
    program = ts.compile(ts.workloads.matmul(256, 256, 256, dtype="bf16"), "tpu-v4-chip", cores=1)
    check(ts.simulate([ts.Job(program, cores=[0]), ts.Job(program, cores=[1])]))
    lonely = ts.simulate(program).why("matmul")
    assert "cores without work" in {row["term"] for row in lonely.terms.rows}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_fits(width: int) -> None:
    b = ts.GraphBuilder("markup")
    x = b.input("x", [64, 64])
    name = "<b>[red]" + "long." * 30 + "end</b>"
    b.output(b.matmul(x, b.input("w", [64, 64]), name=name))
    result = ts.run(b.build(), machine="tpu-v3")
    why = result.why(name)
    lines = lines_of(why.data, width)
    assert max(map(len, lines)) <= width, max(lines, key=len)
    assert "<b>" not in why._repr_html_() and "&lt;b&gt;" in why._repr_html_()
    assert str(why) == "\n".join(lines_of(why.data))
    shown = [row["term"] for row in why.table().rows]
    assert all(any(line.startswith(term) for line in lines) for term in shown)
