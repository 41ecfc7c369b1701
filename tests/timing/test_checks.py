"""The guard of every result: faults that are put in are noted, and what is right is not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.results.checks import FROM_BOUND, LINE, MAX_RATIO, SHARE, check_note, checks_of
from tilesim.results.rates import Rates

PADDED = ("conv1", "conv1.channels_minor")
"""Three channels of an image on the 128 lanes of a layout: what the kernel moves is padding but for a fortieth."""


def told_by(result: ts.Result) -> list[str]:
    return [line for line in result.approximations if line.startswith(LINE)]


def altered(result: ts.Result, name: str, **factors: float) -> ts.Result:
    """The result with times of one operation multiplied; the rest of the run keeps its own."""
    data = copy.deepcopy(result.data)
    row = next(row for row in data["operations"] if row["name"] == name)
    for key, factor in factors.items():
        row[key] = round(row[key] * factor)
    return ts.Result(data)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("network", "machine", "options"),
    [
        ("resnet18", "tpu-v3", {}),
        pytest.param("resnet50", "tpu-v3", {"lowering": "best"}, marks=pytest.mark.slow),
        ("bert-base", "chiplet-2", {}),
        ("bert-base", "edge-8", {}),
        pytest.param("vit-b-16", "tpu-v4-chip", {}, marks=pytest.mark.slow),
        ("bert-base", "tpu-v4", {"memory": "bank"}),
        ("resnet18", "tpu-v3", {"memory": "ideal"}),
    ],
)
def test_networks_have_nothing_to_note(network: str, machine: str, options: dict[str, Any]) -> None:
    result = ts.run(network, machine=machine, **options)
    rows = [row for row in result.checks if row["operation"] not in PADDED]
    assert rows == [] and (result.checks or not told_by(result))
    assert {row["what"] for row in result.checks} <= {"far above its bound"}


def test_a_kernel_that_uses_little_of_what_it_moves_is_noted() -> None:
    """Columns of a table, one element of each row: a burst of 64 bytes for 4 that are used."""
    b = ts.GraphBuilder("columns")
    table, ids = b.input("t", [65536, 64]), b.input("ids", [1], "i32")
    attributes: dict[str, Any] = {"start_index_map": [1], "slice_sizes": [65536, 1], "collapsed_slice_dims": [1]}
    attributes |= {"offset_dims": [1], "index_vector_dim": 1, "mode": "clip"}
    b.output(b.op("gather", table, ids, name="column", **attributes), "y")
    machine = ts.Machine.load("edge-8").replace({"memory.burst_bytes": "512 B"})
    result = ts.simulate(ts.compile(b.build(), machine))
    (row,) = result.checks
    rates = Rates(result.data)
    least = 2 * 65536 * 4 / rates.memory
    assert (row["operation"], row["what"]) == ("column", "far above its bound")
    assert row["against"] == pytest.approx(least, rel=0.05)
    assert row["ratio"] > FROM_BOUND and row["ratio"] == pytest.approx(result.cycles / least, rel=0.05)
    (line,) = told_by(result)
    assert "column takes" in line and "far above its bound" in line


def test_time_below_the_bound_is_noted() -> None:
    """A product of 512^3 on 64 cells takes 512^3 / 64 cycles at least: half of them is too little."""
    machine = ts.Machine.load("edge-8").replace({"core.array.rates": {"f32": 1}})
    result = ts.run(ts.workloads.matmul(512, 512, 512), machine=machine)
    least = 512**3 / 64
    assert result.checks == []
    assert altered(result, "matmul", cycles=1.01 * least / result.cycles).checks == []
    (row,) = altered(result, "matmul", cycles=0.5 * least / result.cycles).checks
    assert row["operation"] == "matmul" and row["what"] == "below its bound"
    assert row["against"] == pytest.approx(least) and row["ratio"] == pytest.approx(0.5, rel=0.01)


def test_an_array_that_is_too_fast_is_noted() -> None:
    """A table that gives a tile one cycle: the engine believes it, the guard does not."""
    graph, machine = ts.workloads.matmul(512, 512, 512), "edge-8"
    computes = ts.TileLatencies()
    ts.simulate(ts.compile(graph, machine), latencies=computes)
    wrong = ts.TileLatencies(source="wrong")
    for row in computes.table(machine).rows:
        if row["compute"].startswith("mma"):
            wrong.add(machine, row["compute"], cycles=1)
    result = ts.simulate(ts.compile(graph, machine), latencies=wrong)
    assert [row["what"] for row in result.checks] == ["below its bound"]
    (line,) = told_by(result)
    assert "matmul" in line and "below its bound" in line


def test_a_run_shorter_than_the_bound_of_its_graph_is_noted() -> None:
    result = ts.run("matmul:256,256,256", machine="edge-8")
    assert result.bounds is not None and result.checks == []
    short = ts.Result({**result.data, "bounds": {**result.bounds.data, "seconds": 2 * result.seconds}})
    assert [(row["operation"], row["what"]) for row in short.checks] == [("matmul", "below its bound")]
    assert short.checks[0]["ratio"] == pytest.approx(0.5)


def test_time_far_above_the_closed_form_is_noted() -> None:
    result = ts.run("resnet18", machine="edge-8")
    rows = {row["name"]: row["exclusive"] / result.cycles for row in result.data["operations"]}
    name = max(rows, key=lambda one: rows[one])
    slow = altered(result, name, cycles=20 * MAX_RATIO, exclusive=20 * MAX_RATIO)
    assert [(row["operation"], row["what"]) for row in slow.checks] == [(name, "far above its closed form")]
    assert slow.checks[0]["ratio"] > MAX_RATIO
    small = min(rows, key=lambda one: (rows[one], one))
    assert rows[small] * 5 < SHARE
    assert altered(result, small, exclusive=5).checks == []  # too little of the run to be looked at


def test_several_faults_are_one_line() -> None:
    result = ts.run("resnet18", machine="edge-8")
    data = copy.deepcopy(result.data)
    for row in data["operations"]:
        row["cycles"] //= 50
    assert len(checks_of(data)) > 5
    (line,) = check_note(data)
    assert f"and {len(checks_of(data)) - 1} more" in line


def test_stored_results_and_estimates(tmp_path: Path) -> None:
    result = ts.run("resnet18", machine="edge-8")
    altered(result, "layer1.0.conv1", cycles=0.01).save(tmp_path / "r.json")
    assert [row["operation"] for row in ts.Result.load(tmp_path / "r.json").checks] == ["layer1.0.conv1"]
    assert ts.estimate("resnet18", "h100").checks == []
    nothing = ts.GraphBuilder("nothing")
    nothing.output(nothing.input("x", [4]), "x")
    assert ts.simulate(ts.compile(nothing.build(), "edge-8")).checks == []


def test_programs_that_share_a_chip_are_looked_at_too() -> None:
    program = ts.compile(ts.workloads.matmul(256, 256, 256, dtype="bf16"), "tpu-v4-chip", cores=1)
    result = ts.simulate([ts.Job(program, cores=[0]), ts.Job(program, cores=[1])])
    assert result.checks == [] and not told_by(result)


def test_long_loops_that_were_extended_may_be_off_by_what_the_result_says() -> None:
    result = ts.run("matmul:60000,60000,60000", machine=ts.Machine.load("edge-8"))
    assert result.data["tile_operations"] > 4_000_000 and result.checks == []
    (row,) = result.data["operations"]
    bound = 60000**3 / 64 / max(ts.Machine.load("edge-8").get("core.array.rates").values())
    assert altered(result, row["name"], cycles=0.95 * bound / row["cycles"]).checks == []
    assert altered(result, row["name"], cycles=0.85 * bound / row["cycles"]).checks != []
