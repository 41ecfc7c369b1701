"""Products on cores whose multipliers skip zeros: values, time by the written rules, the split with dense cores."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilesim as ts
from tilesim import _core
from tilesim.graph import GraphBuilder
from tilesim.mapping import sparse_products
from tilesim.program.sparse_times import sparse_cores, tile_times

FLOWS = ("inner", "outer", "row")


def machine_of(flow: str, multipliers: int = 16, ports: int = 4, room: str = "1 MiB", **more: Any) -> ts.Machine:
    """sigma-256 with other multipliers."""
    changes = {"multipliers": multipliers, "read_ports": ports, "write_ports": ports, "dataflow": flow, **more}
    paths = {f"core.array.sparse.{key}": value for key, value in changes.items()}
    return ts.Machine.load("sigma-256").replace({**paths, "core.scratchpad.bytes": room})


def operand(rng: np.random.Generator, rows: int, columns: int, density: float) -> NDArray[Any]:
    """Whole numbers with zeros, a row and a column without anything among them."""
    found = rng.integers(1, 5, (rows, columns)) * rng.choice([-1, 1], (rows, columns))
    found[rng.random((rows, columns)) >= density] = 0
    if density < 1:
        found[rng.integers(rows)] = 0
        found[:, rng.integers(columns)] = 0
    return found.astype(np.float32)


def product(a: NDArray[Any] | None, b: NDArray[Any] | None, m: int, n: int, k: int, **formats: str) -> ts.Graph:
    """A graph of one product; operands that are none enter."""
    g = GraphBuilder("sparse", dtype="f32")
    left = g.input("a", (m, k)) if a is None else g.weight("a", data=a)
    right = g.input("b", (k, n)) if b is None else g.weight("b", data=b)
    axes: dict[str, Any] = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}
    g.output(g.op("contract", left, right, name="y", **axes, **formats), "out")
    return g.build()


def computes(program: ts.Program) -> list[Any]:
    """The sparse products of a program's text."""
    found: list[Any] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            found.extend([part["opaque"]] if "opaque" in part else [])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(json.loads(program.core.to_json()))
    return found


def busy(result: ts.Result, unit: str = "array0") -> int:
    """Cycles for which a unit of a core works."""
    return sum(int(row["cycles"]["busy"]) for row in result.data["units"] if row["unit"].endswith(unit))


def by_hand(flow: str, a: NDArray[Any], b: NDArray[Any], multipliers: int, ports: int) -> int:
    """The rules of docs/explanation/compute_and_fusion.md for outer and row products whose sums all fit."""
    pairs = [(int((a[:, k] != 0).sum()), int((b[k] != 0).sum())) for k in range(a.shape[1])]
    if flow == "outer":
        return sum(-(-x * y // multipliers) for x, y in pairs) + -(-sum(x * y for x, y in pairs) // ports)
    total = 0
    for row in a:
        lengths = [pairs[k][1] for k in np.flatnonzero(row)]
        total += max(sum(-(-x // multipliers) for x in lengths), -(-sum(lengths) // ports))
    return total


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("seed", range(8))
def test_values_are_those_of_a_dense_product(flow: str, seed: int) -> None:
    rng = np.random.default_rng([seed, FLOWS.index(flow)])
    m, n, k = (int(rng.integers(1, 40)) for _ in range(3))
    densities = [float(rng.choice([0, 0.05, 0.4, 1])) for _ in range(2)]
    a, b = operand(rng, m, k, densities[0]), operand(rng, k, n, densities[1])
    form, held = str(rng.choice(["bitmap", "csr"])), "ab"[seed % 2]
    graph = product(a if held == "a" else None, b if held == "b" else None, m, n, k, **{f"{held}_format": form})
    program = ts.compile(graph, machine_of(flow, room=["1 MiB", "8 KiB", "2 KiB"][seed % 3]))
    inputs = {"b": b} if held == "a" else {"a": a}
    found = ts.execute(program, inputs, poison=True, find_races=True)["out"]
    np.testing.assert_array_equal(found, a @ b)
    if densities[held == "b"] < 1 or flow != "inner":
        assert {tile["product"][held] for tile in computes(program)} == {form}
    for result in (ts.simulate(program), ts.simulate(program, tensors=inputs)):
        assert result.data["bounds"]["seconds"] <= result.seconds * (1 + 1e-9)
        assert result.data["bounds"]["bytes"] <= result.memory_bytes


@pytest.mark.parametrize("flow", ["outer", "row"])
@pytest.mark.parametrize("held", ["a", "b"])
def test_time_is_that_of_the_rules(flow: str, held: str) -> None:
    rng = np.random.default_rng(1)
    a, b = operand(rng, 24, 32, 0.3), operand(rng, 32, 20, 0.2)
    program = ts.compile(product(a if held == "a" else None, b if held == "b" else None, 24, 20, 32), machine_of(flow))
    plan = next(op for op in program.graph.operations() if op["kind"] == "contract")["attributes"]["sparse_plan"]
    high, wide, deep, turned = *plan[2:5], plan[9]
    other = "b" if held == "a" else "a"
    for given in (None, {"a": a, "b": b}[other]):
        x, y = (
            (a, b if given is not None else np.ones_like(b))
            if held == "a"
            else (a if given is not None else np.ones_like(a), b)
        )
        cycles = 0
        for i in range(0, 24, high):
            for j in range(0, 20, wide):
                for d in range(0, 32, deep):
                    own, across = x[i : i + high, d : d + deep], y[d : d + deep, j : j + wide]
                    cycles += by_hand(flow, across.T, own.T, 16, 4) if turned else by_hand(flow, own, across, 16, 4)
        result = ts.simulate(program, tensors={} if given is None else {other: given})
        assert busy(result) == cycles
        how = result.data["data_sources"]["y.sparse.cycles"]
        assert how == (f"computed from {other}" if given is not None else f"weights: as if {other} were dense")


def test_inner_takes_the_placement_that_is_written_down() -> None:
    # one vector of 16 fills the row; 4 multipliers to a port: words, then for each of 24 vectors the indices of a port
    b = np.zeros((16, 2), np.float32)
    b[:, 0] = 1
    program = ts.compile(product(None, b, 24, 2, 16, b_format="bitmap"), machine_of("inner"))
    assert len(computes(program)) == 1
    assert busy(ts.simulate(program)) == 4 + 24 * 4 + math.log2(16) + 4


@pytest.mark.parametrize("flow", FLOWS)
def test_fewer_zeros_and_fewer_multipliers_take_longer(flow: str) -> None:
    rng = np.random.default_rng(4)
    keys = rng.random((48, 40))
    cycles = []
    for density in (0, 0.2, 0.8):
        graph = product(None, (keys < density).astype(np.float32), 32, 40, 48, b_format="bitmap")
        by_size = [busy(ts.simulate(ts.compile(graph, machine_of(flow, size, size)))) for size in (8, 64)]
        assert by_size == sorted(by_size, reverse=True)
        cycles.append(by_size[0])
    assert cycles == sorted(cycles) and cycles[0] == 0 < cycles[1]


def two_cores(**changes: Any) -> ts.Machine:
    """dense-sparse-2, small: an array of 8 by 8 beside 16 multipliers."""
    paths = {
        "core.array.rows": 8,
        "core.array.columns": 8,
        **{f"cores.sparse.core.array.sparse.{k}": v for k, v in changes.items()},
    }
    for setting in ("multipliers", "read_ports", "write_ports"):
        paths.setdefault(f"cores.sparse.core.array.sparse.{setting}", 16)
    return ts.Machine.load("dense-sparse-2").replace(paths)


def start_of(program: ts.Program) -> tuple[int, int]:
    """Along what a product is divided, and where the sparse cores' part begins."""
    assert program.graph is not None
    plan = next(op["attributes"]["sparse_plan"] for op in program.graph.operations() if op["kind"] == "contract")
    return plan[0], plan[1]


@pytest.mark.parametrize("density", [0.0, 0.15, 1.0, *(pytest.param(d, marks=pytest.mark.slow) for d in (0.02, 0.6))])
def test_two_sorts_of_cores_divide_a_product(density: float) -> None:
    rng = np.random.default_rng(7)
    a, b = operand(rng, 96, 80, 1.0), operand(rng, 80, 112, density)
    graph, machine = product(None, b, 96, 112, 80, b_format="bitmap"), two_cores()
    program = ts.compile(graph, machine)
    np.testing.assert_array_equal(ts.execute(program, {"a": a}, poison=True, find_races=True)["out"], a @ b)
    both = ts.simulate(program)
    alone = {sort: ts.simulate(ts.compile(graph, machine, sort=sort)).cycles for sort in ("dense", "sparse")}
    assert both.cycles <= 1.02 * min(alone.values())
    assert both.data["bounds"]["seconds"] <= both.seconds * (1 + 1e-9)
    cut, start = start_of(program)
    if density == 1.0:
        assert start == (96, 112)[cut]
    if density <= 0.02:
        assert 0 <= start <= (96, 112)[cut] // 4
    if density == 0.15:  # neither core alone would be as fast
        assert 0 < start < (96, 112)[cut]
        assert both.cycles < 0.9 * min(alone.values())


def test_slower_sparse_cores_get_less() -> None:
    b = operand(np.random.default_rng(2), 80, 112, 0.2)
    graph = product(None, b, 96, 112, 80, b_format="bitmap")
    shares = []
    for size in (64, 4):
        cut, start = start_of(ts.compile(graph, two_cores(multipliers=size, read_ports=size, write_ports=size)))
        shares.append(start / (96, 112)[cut])
    assert shares == sorted(shares) and shares[0] < shares[-1]


def by_itself(form: str, tmp_path: Path) -> tuple[ts.Program, dict[str, Any]]:
    """A program of one tile whose stored operand enters, and what enters."""
    a, b = np.ones((3, 4), np.float32), np.asarray([[0, 2], [3, 0], [0, 0], [1, 4]], np.float32)
    program = ts.compile(product(None, b, 3, 2, 4, b_format=form), machine_of("outer"))
    text = json.loads(program.core.to_json())
    inputs: dict[str, Any] = {"a": a}
    for tensor in text["tensors"]:
        if tensor["role"] == "weight":
            inputs[tensor["name"]] = program.graph.weight(tensor.pop("weight"))
            tensor["role"] = "input"
    path = tmp_path / "program.json"
    path.write_text(json.dumps(text), encoding="utf-8")
    own = ts.Program.load(path)
    np.testing.assert_array_equal(ts.execute(own, inputs)["out"], a @ b)
    return own, inputs


@pytest.mark.parametrize(
    ("form", "part", "at", "value", "words"),
    [
        ("csr", "marks", 2, 0, r"pointer 2: the pointers of a stored matrix decrease.*0.*at least 1"),
        ("csr", "marks", 0, 1, "must begin at 0"),
        ("csr", "marks", 4, 9, "beyond the values"),
        ("csr", "marks", 4, 3, "last pointer"),
        ("csr", "indices", 1, 2, r"index 1: an index lies outside its row.*2.*0 to 1"),
        ("csr", "indices", 0, -1, "index lies outside its row"),
        ("bitmap", "marks", 0, 255, "differ in number"),
    ],
)
def test_stored_operands_that_do_not_fit(form: str, part: str, at: int, value: int, words: str, tmp_path: Path) -> None:
    program, inputs = by_itself(form, tmp_path)
    damaged = inputs[f"y.sparse.b.{part}"].copy()
    damaged[at] = value
    with pytest.raises(ts.UserError, match=words):
        ts.execute(program, {**inputs, f"y.sparse.b.{part}": damaged})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"b": "crs"}, "unknown format of a matrix.*crs.*Did you mean 'csr'"),
        ({"b": "bitmap"}, "do not match its formats"),
        ({"a": "csr"}, "do not match its formats"),
    ],
)
def test_products_of_a_program_that_are_none(change: dict[str, str], words: str, tmp_path: Path) -> None:
    program, _ = by_itself("csr", tmp_path)
    text = program.core.to_json()
    whole = json.loads(text)

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if "opaque" in part:
                part["opaque"]["product"].update(change)
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(whole)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(ts.UserError, match=words):
        ts.Program.load(path)


def test_types_that_a_core_does_not_take() -> None:
    graph = ts.workloads.sparse_matmul(16, 16, 16, b_density=0.2)
    with pytest.raises(ts.UserError, match=r"do not multiply this type.*f32.*f16"):
        ts.compile(graph, "dstc")
    half = ts.workloads.sparse_matmul(16, 16, 16, b_density=0.2, dtype="f16")
    assert ts.verify(ts.compile(half, "dstc")).ok


@pytest.mark.parametrize("machine", ["sigma-256", "dense-sparse-2"])
def test_networks_with_and_without_zeros(machine: str) -> None:
    rng = np.random.default_rng(3)
    g = GraphBuilder("mlp", dtype="f32")
    x = g.input("x", (40, 48))
    for layer, density in enumerate((0.1, 1.0)):
        weight = operand(rng, 48, 48, density)
        x = g.apply("relu", g.matmul(x, g.weight(f"w{layer}", data=weight), name=f"product{layer}"))
    g.output(g.matmul(x.reshape(2, 20, 48), g.input("z", (2, 48, 8)), name="batches"), "y")
    program = ts.compile(g.build(), machine)
    assert computes(program)
    checked = ts.verify(program)
    assert checked.ok, str(checked)
    result = ts.simulate(program)
    assert result.data["bounds"]["seconds"] <= result.seconds * (1 + 1e-9)
    given = ts.simulate(program, tensors={"x": rng.standard_normal((40, 48)).astype(np.float32)})
    assert given.cycles <= result.cycles


def test_a_bound_of_the_graph_alone_counts_what_is_stored() -> None:
    graph = ts.workloads.sparse_matmul(64, 64, 256, b_density=0.05, format="bitmap")
    left = int((graph.weight("b") != 0).sum())
    found = ts.lower_bound(graph, "sigma-256")
    assert found.bytes == 4 * (64 * 256 + left + 64 * 64) + 64 * 256 / 8
    assert ts.lower_bound(graph, "edge-8").bytes == 4 * (64 * 256 + 256 * 64 + 64 * 64)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("hold", [0, 1])
def test_tiles_are_timed_as_products_of_their_own(flow: str, hold: int) -> None:
    """Dense tiles, tiles with zeros and views: each as the product of these elements alone."""
    rng = np.random.default_rng(7)
    cores = sparse_cores(machine_of(flow))
    assert cores is not None
    for shares in ((1, 1), (1, 0.4), (0.4, 1), (0.3, 0.6), (0, 1)):
        m, k, n = (int(extent) for extent in rng.integers(1, 150, 3))
        a, b = rng.random((m, k)) < shares[0], rng.random((k, n)) < shares[1]
        a = np.broadcast_to(np.True_, a.shape) if shares[0] == 1 else np.asfortranarray(a)
        sizes = tuple(int(rng.integers(extent // 3 + 1, extent + 1)) for extent in (m, n, k))
        cycles, products = tile_times(cores, a, b, sizes, hold)
        for (i, j, p), one in np.ndenumerate(cycles):
            rows, columns, depth = (slice(x * size, (x + 1) * size) for x, size in zip((i, j, p), sizes, strict=True))
            own = np.ascontiguousarray(a[rows, depth]), np.ascontiguousarray(b[depth, columns])
            whole = _core.sparse_time(cores["dataflow"], cores["settings"], *own, bool(hold))
            assert (one, products[i, j, p]) == (math.ceil(whole["cycles"]), int(whole["products"]))


def test_products_of_one_shape_share_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of the operands: ten products have one plan, each its own words; a known one is apart."""
    looked: list[Any] = []
    own = sparse_products._planned
    planned = lambda product, *rest: looked.append(product) or own(product, *rest)  # noqa: E731
    monkeypatch.setattr(sparse_products, "_planned", planned)
    g = GraphBuilder("alike", dtype="f32")
    x = g.input("x", (24, 32))
    axes: dict[str, Any] = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}
    zeros = operand(np.random.default_rng(2), 32, 32, 0.3)
    for i in range(10):
        x = g.op("contract", x, g.weight(f"w{i}", (32, 32)), name=f"y{i}", **axes)
    g.output(g.op("contract", x, g.weight("known", data=zeros), name="last", **axes), "out")
    marked = sparse_products.with_sparse_products(g.build(), machine_of("row"))
    plans = {op["name"]: op["attributes"] for op in marked.operations() if op["kind"] == "contract"}
    assert len(looked) == 2 and len(plans) == 11
    assert len({tuple(plans[f"y{i}"]["sparse_plan"]) for i in range(10)}) == 1
    assert [plans[f"y{i}"]["sparse"] for i in range(10)] == [f"y{i}.sparse" for i in range(10)]
    assert all(f"w{i}" in plans[f"y{i}"]["sparse_data"] for i in range(10))
    assert "known" not in plans["last"]["sparse_data"]


@pytest.mark.parametrize("most", [5, 6])
def test_results_say_which_layers_stay_functions(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three calls of one product are six operations apart, weights counted: one too many, or just enough."""
    monkeypatch.setattr(sparse_products, "MOST_OPERATIONS", most)
    axes: dict[str, Any] = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}
    g = GraphBuilder("deep", dtype="f32")
    layer = g.function("layer")
    layer.output(layer.op("contract", layer.input("x", (24, 32)), layer.input("w", (32, 32)), name="y", **axes), "out")
    x = g.input("x", (24, 32))
    for i in range(3):
        x = g.call(layer, x, g.weight(f"w{i}", (32, 32)), name=f"layer{i}")
    g.output(x, "out")
    program = ts.compile(g.build(), machine_of("row"))
    program.save(tmp_path / "deep.tsim")
    kept = "inlined layers would make 6 operations"
    for one in (program, ts.Program.load(tmp_path / "deep.tsim")):
        result = ts.simulate(one)
        assert sum(kept in line for line in result.approximations) == (most < 6)
        given = ts.simulate(one, tensors={"x": np.zeros((24, 32), np.float32)})
        assert (given.cycles < result.cycles) == (most == 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deepseek-moe-16b", "deepseek-v3", "llama-4-scout", "stable-diffusion-1.5-unet"])
@pytest.mark.parametrize("machine", ["dstc", "eyeriss-v2-pe"])
def test_large_networks_compile(name: str, machine: str) -> None:
    """Layers with experts stay functions where nothing is known of zeros, and the result says so."""
    graph = ts.models.build(name, dtype="f16")
    program = ts.compile(ts.quantize(graph, "i8") if machine == "eyeriss-v2-pe" else graph, machine)
    said = [line for line in program.graph.assumptions if "timed as dense" in line]
    assert len(said) == (name != "stable-diffusion-1.5-unet")
