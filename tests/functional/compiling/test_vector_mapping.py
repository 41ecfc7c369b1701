"""Tiles of vector kernels: whatever is legal computes the same, what is not is refused, tuning finds faster ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.command import tilesim
from tilesim.mapping import VectorKernel, kernels

SMALL = {"core.scratchpad.bytes": "16 KiB"}


def softmax(b: ts.GraphBuilder) -> Any:
    return b.op("softmax", b.input("x", (6, 40, 24)), dim=1)


def long_rows(b: ts.GraphBuilder) -> Any:
    return b.op("softmax", b.input("x", (3, 5000)), dim=1)


def layer_norm(b: ts.GraphBuilder) -> Any:
    return b.layer_norm(b.input("x", (10, 96)))


def elementwise(b: ts.GraphBuilder) -> Any:
    return b.apply("multiply", b.apply("relu", b.input("x", (4, 30, 7))), b.input("scale", (30, 1)))


def column_sums(b: ts.GraphBuilder) -> Any:
    return b.op("reduce", b.input("x", (300, 20)), combiner="add", dims=[0], keep_dims=False)


def arg_max(b: ts.GraphBuilder) -> Any:
    return b.op("reduce", b.input("x", (12, 70)), combiner="argmax", dims=[1], keep_dims=False)


def points_of_rows(b: ts.GraphBuilder) -> Any:
    """What is left of a row meets what the row never had: a value per row, read behind the passes over its tiles."""
    x = b.input("z", [6, 40, 24])
    q = b.input("q", [6, 40, 1])
    d = b.op("reduce", x * x, dims=[2], combiner="mean", keep_dims=True) + q * q
    b.output(b.apply("sqrt", d), "root")
    return x / (d + b.scalar(0.1))


def scan(b: ts.GraphBuilder) -> Any:
    return b.op("cumulative", b.input("x", (9, 65)), combiner="add", dim=1)


def pooling(b: ts.GraphBuilder) -> Any:
    return b.pool2d(b.input("x", (2, 12, 15, 15)), 3, stride=2, padding=1)


CASES = [softmax, long_rows, layer_norm, points_of_rows, elementwise, column_sums, arg_max, scan, pooling]


def graph_of(case: Callable[[ts.GraphBuilder], Any]) -> ts.Graph:
    b = ts.GraphBuilder(case.__name__, dtype="f32")
    b.output(case(b), "y")
    return b.build()


def vectors(graph: ts.Graph, machine: ts.Machine) -> list[VectorKernel]:
    return [kernel for kernel in kernels(graph, machine) if isinstance(kernel, VectorKernel)]


def drawn(rng: random.Random, kernel: VectorKernel) -> dict[str, Any]:
    tiles = [
        max(1, min(extent, extent // rng.choice([1, 1, 2, 3, 5, 16]) + rng.randint(0, 2))) for extent in kernel.sizes
    ]
    return {"tiles": tiles, "lane": rng.choice(kernel.info["lanes"]), "depth": rng.choice([1, 2, 3])}


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
@pytest.mark.parametrize("case", CASES)
def test_any_legal_tiles_compute_the_same(case: Callable[[ts.GraphBuilder], Any], machine: str) -> None:
    rng = random.Random(case.__name__)
    graph, target = graph_of(case), ts.Machine.load(machine).replace(SMALL if machine == "edge-8" else {})
    tried = 0
    while tried < 4:
        nests = {kernel.operation: drawn(rng, kernel) for kernel in vectors(graph, target)}
        if not all(kernel.legal(nests[kernel.operation])[0] for kernel in vectors(graph, target)):
            continue
        tried += 1
        program = ts.compile(graph, target, mapping=nests)
        assert ts.verify(program).ok, nests
        bound = sum(kernel.cost(nests[kernel.operation])["bound_cycles"] for kernel in vectors(graph, target))
        assert bound <= ts.simulate(program).cycles


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["edge-8", "gemmini-16", "tpu-v3"])
@pytest.mark.parametrize("case", CASES)
def test_tuned_is_right_and_never_slower(case: Callable[[ts.GraphBuilder], Any], machine: str) -> None:
    graph = graph_of(case)
    study = ts.tune(graph, machine, budget=12, jobs=1)
    assert study.result is not None and study.baseline is not None
    program = ts.compile(graph, machine, mapping=study.best)
    assert ts.simulate(program).cycles == study.result.cycles <= study.baseline.cycles
    assert ts.verify(program).ok
    assert {row["kind"] for row in study.operations} == {"vector"}
    assert all(row["bound"] <= row["cycles"] for row in study.rows if row["cycles"] is not None)


def test_legal_is_what_compiles() -> None:
    """The bytes of a legal choice fit; one that needs a byte more than there is does not compile."""
    graph, target = graph_of(softmax), ts.Machine.load("edge-8")
    (kernel,) = vectors(graph, target)
    nest = {"tiles": [6, 40, 24], "lane": 2, "depth": 2}
    need = kernel.problem.scratchpad_bytes(nest)
    exact, short = (target.replace({"core.scratchpad.bytes": f"{count} B"}) for count in (need, need - 64))
    assert ts.simulate(ts.compile(graph, exact, mapping={kernel.operation: nest})).cycles > 0
    with pytest.raises(ts.UserError, match=f"need {need} bytes of scratchpad"):
        ts.compile(graph, short, mapping={kernel.operation: nest})


def test_lanes_decide_the_time_of_ragged_rows() -> None:
    """Seven columns leave an eighth of eight lanes empty and reduce across lanes; 64 rows fill them and do not.

    What the vector unit saves the cross-lane unit has to do twice: memory has the columns next to each other.
    """
    b = ts.GraphBuilder("rows", dtype="f32")
    b.output(b.op("softmax", b.input("x", (64, 7)), dim=1), "y")
    graph = b.build()
    (kernel,) = vectors(graph, ts.Machine.load("edge-8"))
    busy = []
    for lane in (0, 1):
        mapping = {kernel.operation: {"tiles": [64, 7], "lane": lane}}
        units = ts.simulate(ts.compile(graph, "edge-8", mapping=mapping)).data["units"]
        busy.append({row["kind"]: row["cycles"]["busy"] for row in units})
    assert busy[0]["vector"] < busy[1]["vector"]
    assert busy[0]["cross_lane"] == 2 * 64 * 7 * 4 / 32
    assert "cross_lane" not in busy[1]
    # Memory of a TPU is tiled for the lanes: only its minor axis can lie over them.
    assert len(vectors(graph, ts.Machine.load("tpu-v3"))[0].info["lanes"]) <= 2


def test_cost_uses_them() -> None:
    graph = graph_of(pooling)
    (kernel,) = [k for k in kernels(graph, "gemmini-16", mapping="cost") if isinstance(k, VectorKernel)]
    (usual,) = vectors(graph, ts.Machine.load("gemmini-16"))
    assert kernel.cost()["cycles"] <= usual.cost()["cycles"]
    assert ts.verify(ts.compile(graph, "gemmini-16", mapping="cost")).ok


def test_tables() -> None:
    graph = graph_of(layer_norm)
    (kernel,) = vectors(graph, ts.Machine.load("edge-8"))
    name = kernel.operation
    table = ts.mapping.MappingTable({name: {"tiles": {"0": 5}, "lane": 0, "depth": 3}})
    program = ts.compile(graph, "edge-8", mapping=table)
    assert table.hits == [name] and not table.misses
    assert (
        ts.simulate(program).cycles
        == ts.simulate(ts.compile(graph, "edge-8", mapping={name: {"tiles": [5, 96], "lane": 0, "depth": 3}})).cycles
    )
    for entry, says in (
        ({"tiles": [5, 96], "depths": [2, 2, 2]}, "field of products"),
        ({"tiles": [11, 96]}, "larger than the loop"),
        ({"tiles": [5, 96], "lane": 2}, "cannot lie over the lanes"),
        ({"tiles": [10, 96], "depth": 100}, "bytes of scratchpad"),
    ):
        table = ts.mapping.MappingTable({name: entry})
        ts.compile(graph, "edge-8", mapping=table)
        assert says in table.illegal[name]
    with pytest.raises(ts.UserError, match="'lane' is not an integer"):
        ts.mapping.MappingTable({name: {"tiles": [5, 96], "lane": "x"}})
    with pytest.raises(ts.UserError, match="neither a vector nor a movement kernel"):
        ts.compile(graph, "edge-8", mapping={"other": {"tiles": [5, 96], "lane": 0}})
    product = ts.workloads.matmul(8, 8, 8)
    table = ts.mapping.MappingTable({"matmul": {"tiles": [8, 8, 8], "lane": 0}})
    ts.compile(product, "edge-8", mapping=table)
    assert "field of vector kernels" in table.illegal["matmul"]


def test_equal_kernels_are_tuned_once() -> None:
    b = ts.GraphBuilder("twice", dtype="f32")
    for i in range(3):
        b.output(b.op("softmax", b.input(f"x{i}", (200, 48)), dim=1, name=f"s{i}"), f"y{i}")
    study = ts.tune(b.build(), "edge-8", budget=8)
    assert [row["count"] for row in study.operations] == [3] and len(study.best.entries) == 3


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    graph_of(points_of_rows).save(path)
    done = tilesim("map", str(path), "--machine", "gemmini-16", "--show", "--budget", "6")
    assert done.returncode == 0, done.stderr
    for word in ("heuristic", "cost", "tuned", "lanes over", "scratchpad", "simulated", "lower bound"):
        assert word in done.stdout


def test_command_tells_the_rules_apart(tmp_path: Path) -> None:
    """Each with the cycles of a program that it compiles."""
    path = tmp_path / "rows.json"
    graph_of(points_of_rows).save(path)
    done = tilesim("map", str(path), "--machine", "gemmini-16", "--show", "--budget", "6")
    simulated = {
        rule: ts.simulate(ts.compile(graph_of(points_of_rows), "gemmini-16", mapping=rule)).cycles
        for rule in ("heuristic", "cost")
    }
    assert simulated["heuristic"] != simulated["cost"]
    for rule, cycles in simulated.items():
        assert f"\n{rule}" in done.stdout
        told = done.stdout[done.stdout.index(f"\n{rule}") :].partition("simulated")[2].split()[0]
        assert told == f"{cycles:,}", rule
