"""Sub-tiles and contexts: tiles that move in pieces and kernels shared by contexts compute the same, sooner."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.program_checks import unnoticed_mutants
from tilesim.mapping import Product, VectorKernel, kernels, products


def graph_of(make: Callable[[ts.GraphBuilder], Any]) -> ts.Graph:
    b = ts.GraphBuilder("graph", dtype="f32")
    b.output(make(b), "y")
    return b.build()


def fused(b: ts.GraphBuilder) -> Any:
    return b.apply("relu", b.input("x", (70, 90)) @ b.input("w", (90, 130)) + b.input("bias", (130,)))


def batched(b: ts.GraphBuilder) -> Any:
    return b.input("x", (3, 40, 50)) @ b.input("w", (3, 50, 60))


def softmax(b: ts.GraphBuilder) -> Any:
    return b.op("softmax", b.input("x", (33, 200)), dim=1)


def normalized(b: ts.GraphBuilder) -> Any:
    return b.layer_norm(b.input("x", (20, 96)))


def scaled(b: ts.GraphBuilder) -> Any:
    return b.input("x", (60, 77)) * b.input("scale", (77,)) + b.input("z", (60, 77))


def column_sums(b: ts.GraphBuilder) -> Any:
    return b.op("reduce", b.input("x", (300, 20)), combiner="add", dims=[0], keep_dims=False)


GRAPHS: dict[str, Callable[[], ts.Graph]] = {
    "product": lambda: ts.workloads.matmul(100, 130, 200, dtype="f32"),
    "fused": lambda: graph_of(fused),
    "batched": lambda: graph_of(batched),
    "convolution": lambda: ts.workloads.conv2d(2, 16, 10, 10, 24, 3, stride=2, padding=1, dtype="f32"),
    "softmax": lambda: graph_of(softmax),
    "normalization": lambda: graph_of(normalized),
    "elementwise": lambda: graph_of(scaled),
    "column sums": lambda: graph_of(column_sums),
}


def drawn(rng: random.Random, kernel: Product | VectorKernel) -> dict[str, Any]:
    """Any tiles, in any pieces."""
    extents = kernel.info["extents"] if isinstance(kernel, Product) else kernel.info["space"]
    if isinstance(kernel, Product):
        nest = kernel.problem.space("all").sample(rng.getrandbits(60))
    else:
        nest = {**kernel.nest, "tiles": [max(1, extent // rng.choice([1, 1, 2, 3])) for extent in extents]}
    tiles = [min(tile, extent) for tile, extent in zip(nest["tiles"], extents, strict=True)]
    return {**nest, "sub": [max(1, -(-tile // rng.choice([1, 1, 2, 3, 5]))) for tile in tiles]}


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
@pytest.mark.parametrize("name", GRAPHS)
def test_pieces_compute_the_same(name: str, machine: str) -> None:
    """Equal to the reference, free of races, in legal orders of execution, and with the bytes that the model states."""
    rng, graph = random.Random(name), GRAPHS[name]()
    tried = 0
    for kernel in kernels(graph, machine):
        for _ in range(60):
            nest = drawn(rng, kernel)
            if kernel.legal(nest)[0] and kernel.cost(nest).get("cycles", 0) < 1e6:
                program = ts.compile(graph, machine, mapping={kernel.operation: nest})
                report = ts.verify(program)
                assert report.ok, (nest, report)
                ts.execute(program, find_races=True)
                tried += 1
            if tried >= 4:
                break
    assert tried, "some pieces are legal"


@pytest.mark.parametrize("name", ["softmax", "normalization", "elementwise", "column sums"])
def test_pieces_along_one_axis(name: str) -> None:
    """Reductions are complete, and means divided, before a piece of the result is computed from them."""
    graph = GRAPHS[name]()
    for kernel in kernels(graph, "edge-8"):
        extents = kernel.info["space"]
        for axis, extent in enumerate(extents):
            nest = {**kernel.nest, "tiles": extents, "sub": [*extents[:axis], -(-extent // 3), *extents[axis + 1 :]]}
            assert kernel.legal(nest)[0]
            program = ts.compile(graph, "edge-8", mapping={kernel.operation: nest})
            assert ts.verify(program).ok
            ts.execute(program, find_races=True)


def test_pieces_on_several_cores() -> None:
    """Each core's tiles have pieces; what one core sends to others comes whole."""
    machine, graph = ts.Machine.load("tpu-v3").replace({"core.count": 3}), GRAPHS["product"]()
    (product,) = products(graph, machine)
    rng, tried = random.Random(5), 0
    for _ in range(200):
        nest = drawn(rng, product)
        if tried < 4 and product.legal(nest)[0] and product.cost(nest)["cycles"] < 1e5:
            program = ts.compile(graph, machine, mapping={"matmul": nest})
            assert ts.verify(program).ok
            ts.execute(program, find_races=True)
            assert ts.simulate(program).cycles > 0
            tried += 1
    assert tried == 4


MUTATED = {
    "product": {
        "tiles": [100, 30, 200],
        "order": [0, 1, 2],
        "depths": [1, 1, 1],
        "unit": "array",
        "sub": [50, 30, 100],
    },
    "elementwise": {"tiles": [30, 77], "lane": 1, "depth": 1, "sub": [15, 77]},
    "column sums": {"tiles": [300, 20], "lane": 1, "depth": 1, "sub": [150, 20]},
}


@pytest.mark.parametrize("name", MUTATED)
def test_every_mutant_is_reported(name: str) -> None:
    """No wait, commit or release of a program in pieces can be left out unnoticed."""
    graph = GRAPHS[name]()
    (kernel,) = kernels(graph, "edge-8")
    program = ts.compile(graph, "edge-8", mapping={kernel.operation: MUTATED[name]})
    assert unnoticed_mutants(program) == []


def timed(graph: ts.Graph, machine: str, nest: dict[str, Any]) -> int:
    (kernel,) = kernels(graph, machine)
    return ts.simulate(ts.compile(graph, machine, mapping={kernel.operation: nest})).cycles


def test_the_first_tile_starts_sooner() -> None:
    """A product of one tile waits for a slice of its operands instead of all of them, and stores while it computes."""
    graph = ts.workloads.matmul(512, 512, 512, dtype="f32")
    whole = {"tiles": [512, 512, 512], "order": [0, 1, 2], "depths": [1, 1, 1], "unit": "array"}
    before = timed(graph, "tpu-v3", whole)
    pieces = timed(graph, "tpu-v3", {**whole, "sub": [512, 512, 128]})
    (product,) = products(graph, "tpu-v3")
    saved = 0.75 * product.cost(whole)["memory_cycles"] * 2 / 3  # loading three of four slices, now behind the array
    assert before - pieces > 0.5 * saved, (before, pieces, saved)
    rows = timed(graph, "tpu-v3", {**whole, "sub": [128, 512, 512]})
    assert rows < before, "results leave while the rest is computed"


def test_rows_in_pieces_are_sooner() -> None:
    """A normalization of one tile: sums run while the rest of the rows arrives."""
    graph = graph_of(lambda b: b.op("softmax", b.input("x", (64, 2048)), dim=1))
    (kernel,) = kernels(graph, "edge-8")
    whole = {"tiles": [8, 2048], "lane": 1, "depth": 1}
    assert kernel.legal(whole)[0]
    assert timed(graph, "edge-8", {**whole, "sub": [8, 512]}) < timed(graph, "edge-8", whole)


def test_the_search_takes_them_where_they_pay() -> None:
    """What the model promises of pieces the engine confirms, and without need tiles stay whole."""
    graph = ts.workloads.matmul(1024, 1024, 1024, dtype="f32")
    (product,) = products(graph, "tpu-v3")
    found = product.problem.search()
    nest, cost = found["best"][0]
    assert "sub" in nest and found["lower_bound"] <= cost["cycles"]
    whole = {key: value for key, value in nest.items() if key != "sub"}
    assert timed(graph, "tpu-v3", nest) < timed(graph, "tpu-v3", whole)
    (small,) = products(ts.workloads.matmul(128, 128, 128, dtype="f32"), "tpu-v3")
    assert "sub" not in small.problem.search()["best"][0][0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sub": [32, 32]}, "one per loop"),
        ({"sub": [0, 64, 64]}, "at least 1"),
        ({"sub": [65, 64, 64]}, "larger than the tile"),
        ({"sub": [1, 64, 64]}, "at most 32"),
        ({"sub": [16, 64, 64], "order": [2, 0, 1]}, "sums of several tiles"),
        ({"contexts": 2}, "has 1"),
    ],
)
def test_what_is_refused(change: dict[str, Any], says: str) -> None:
    graph = ts.workloads.matmul(128, 128, 128, dtype="f32")
    (product,) = products(graph, "edge-8")
    nest = {"tiles": [64, 64, 64], "order": [0, 1, 2], "depths": [1, 1, 1], "unit": "array", **change}
    legal, reason = product.legal(nest)
    assert not legal and says in reason
    with pytest.raises(ts.UserError):
        ts.compile(graph, "edge-8", mapping={"matmul": nest})


def test_windows_of_pieces_do_not_overlap() -> None:
    (product,) = products(ts.workloads.conv2d(1, 8, 8, 8, 8, 3, padding=1, dtype="f32"), "edge-8")
    tiles = dict(zip(product.names, product.info["extents"], strict=True))
    nest = {**product.nest, "tiles": list(tiles.values()), "depths": [1, 1, 1]}
    nest["sub"] = [4 if name == "oh" else size for name, size in tiles.items()]
    legal, reason = product.legal(nest)
    assert not legal and "overlap" in reason
    arg = graph_of(lambda b: b.op("reduce", b.input("x", (12, 70)), combiner="argmax", dims=[1], keep_dims=False))
    (kernel,) = kernels(arg, "edge-8")
    legal, reason = kernel.legal({**kernel.nest, "tiles": [12, 70], "sub": [6, 70]})
    assert not legal and "whole tiles" in reason


def test_tables_give_pieces(tmp_path: Path) -> None:
    """SUB_M, SUB_N, SUB_K of PyTorchSim's form, and `sub` by name."""
    graph = ts.workloads.matmul(256, 96, 128, dtype="f32")
    sizes = {"TILE_M": 256, "TILE_K": 128, "TILE_N": 96}
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"256_128_96": {**sizes, "SUB_M": 64}}), encoding="utf-8")
    table = ts.mapping.MappingTable.load(path)
    program = ts.compile(graph, "tpu-v3", mapping=table)
    assert table.hits == ["matmul"] and ts.verify(program).ok
    by_name = {"matmul": {"tiles": {}, "sub": {"m": 64}, "order": ["m", "n", "k"]}}
    assert ts.simulate(ts.compile(graph, "tpu-v3", mapping=ts.mapping.MappingTable(by_name))).cycles == (
        ts.simulate(program).cycles
    )
    whole = ts.simulate(ts.compile(graph, "tpu-v3", mapping=ts.mapping.MappingTable({"256_128_96": sizes})))
    assert ts.simulate(program).cycles != whole.cycles
    wrong = ts.mapping.MappingTable({"256_128_96": {**sizes, "SUB_K": 129}})
    ts.compile(graph, "tpu-v3", mapping=wrong)
    assert "SUB_K 129" in wrong.illegal["matmul"]


def two_contexts(name: str) -> ts.Machine:
    return ts.Machine.load(name).replace({"core.contexts": 2})


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
@pytest.mark.parametrize("name", [*GRAPHS, "several"])
def test_contexts_compute_the_same(name: str, machine: str) -> None:
    def several(b: ts.GraphBuilder) -> Any:
        hidden = b.apply("relu", b.input("x", (50, 64)) @ b.input("w", (64, 96)))
        return b.op("transpose", b.op("softmax", hidden, dim=1), permutation=[1, 0])

    graph = GRAPHS[name]() if name in GRAPHS else graph_of(several)
    program = ts.compile(graph, two_contexts(machine), contexts=2)
    assert json.loads(program.core.to_json())["contexts"] == 2
    assert ts.verify(program).ok
    ts.execute(program, find_races=True)
    assert ts.simulate(program).cycles > 0


def test_one_context_loads_while_another_computes() -> None:
    """A chain of computes that wait for each other leaves gaps, which the other context's tiles fill."""
    graph = graph_of(lambda b: b.op("softmax", b.input("x", (512, 128)), dim=1))
    machine = two_contexts("edge-8").replace({"core.vector.latency": 200})
    one, two = (ts.simulate(ts.compile(graph, machine, contexts=count)).cycles for count in (1, 2))
    assert two < one


def test_contexts_are_tuned_and_come_from_tables() -> None:
    graph = graph_of(lambda b: b.op("softmax", b.input("x", (256, 512)), dim=1))
    machine = two_contexts("edge-8").replace({"core.vector.latency": 200})
    study = ts.tune(graph, machine, budget=16, jobs=1)
    assert any("2 contexts" in row["mapping"] for row in study.rows)
    assert study.result is not None and study.baseline is not None
    assert study.result.cycles <= study.baseline.cycles
    (kernel,) = kernels(graph, machine, contexts=2)
    assert kernel.nest["contexts"] == 2
    table = ts.mapping.MappingTable({kernel.operation: kernel.nest})
    program = ts.compile(graph, machine, mapping=table)
    assert table.hits and ts.verify(program).ok
    assert ts.simulate(program).cycles == ts.simulate(ts.compile(graph, machine, contexts=2)).cycles


def test_contexts_that_are_refused() -> None:
    graph = ts.workloads.matmul(64, 64, 64, dtype="f32")
    with pytest.raises(ts.UserError, match="contexts"):
        ts.compile(graph, "edge-8", contexts=2)
    with pytest.raises(ts.UserError, match="contexts"):
        kernels(graph, "edge-8", contexts=2)
    (product,) = products(graph, two_contexts("edge-8"))
    legal, reason = product.legal({**product.nest, "contexts": 2})
    assert not legal and "divided over 1" in reason
