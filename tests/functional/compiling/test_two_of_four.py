"""Weights in the pattern 2:4: stored as values and places, multiplied in half of the passes, and the bits of the dense
product."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import unnoticed_mutants
from tilesim.graph.zeros import operand

MACHINES = ("tpu-v3", "mesh-16", "edge-8", "chiplet-2", "gemmini-16")
SOURCE = {"core.array.pattern": "2:4"}
AXES: dict[str, Any] = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}


def taking(machine: str, **changes: Any) -> ts.Machine:
    return ts.Machine.load(machine).replace({**SOURCE, **changes})


def product(
    m: int, n: int, k: int, dtype: str = "f32", density: float = 0.5, along: int = 0, seed: int = 0, after: str = ""
) -> tuple[ts.Graph, Any]:
    """x · w of a weight in the pattern along the contraction; along 1: w is stored as [n, k]."""
    shape = (k, n) if along == 0 else (n, k)
    weight = operand("b", shape, density, "2:4", along, seed, dtype)
    b = ts.GraphBuilder("pattern", dtype=dtype)
    axes = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [along]}
    y = b.op("contract", b.input("x", (m, k)), b.weight("w", data=weight), name="product", b_format="2:4", **axes)
    b.output(b.apply(after, y, name="after") if after else y, "y")
    return b.build(), weight if along == 0 else weight.T


def given(m: int, k: int, dtype: str, seed: int = 1) -> Any:
    values = np.random.default_rng(seed).integers(-4, 5, (m, k))
    return values.astype(np.int8) if dtype == "i8" else values.astype(np.float32)


def multiplied_as(machine: ts.Machine) -> str:
    return "f32" if "f32" in machine.get("core.array.rates") else "i8"


def loads(program: ts.Program) -> set[str]:
    """Tensors that the program reads from memory."""
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("load"), dict):
                found.add(node["load"]["tensor"])
            for part in node.values():
                walk(part)
        elif isinstance(node, list):
            for part in node:
                walk(part)

    walk(json.loads(program.core.to_json()))
    return found


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("density", [0.0, 0.3, 0.5])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 160, 256), (1, 1, 1), (5, 33, 77), (130, 8, 12), (3, 64, 8)])
@pytest.mark.parametrize("along", [0, 1])
def test_the_same_bits(machine: str, density: float, m: int, n: int, k: int, along: int) -> None:
    """Whole numbers; contractions that end within four and within eight neighbours; columns without any value."""
    chip = taking(machine)
    dtype = multiplied_as(chip)
    graph, weight = product(m, n, k, dtype, density, along, seed=m + k)
    program = ts.compile(graph, chip, lowering="best")
    assert any("values and positions" in note for note in program.notes), program.notes
    assert any(name.startswith("w.2of4") for name in loads(program)) and "w" not in loads(program)
    x = given(m, k, dtype)
    wanted = x.astype(np.int64) @ weight.astype(np.int64)
    for found in (
        ts.execute(program, {"x": x}, poison=True, find_races=True)["y"],
        ts.execute(program, {"x": x}, order="random", seed=2)["y"],
        ts.reference(graph, {"x": x})["y"],
    ):
        assert np.array_equal(np.asarray(found, np.int64), wanted)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i8"])
@pytest.mark.parametrize("after", ["", "relu"])
def test_every_type_and_an_epilogue(dtype: str, after: str) -> None:
    chip = taking("edge-8", **{"core.array.rates": {"f32": 1.0, "bf16": 1.0, "f16": 1.0, "i8": 2.0}})
    graph, _ = product(24, 40, 100, dtype, after=after if dtype != "i8" else "")
    program = ts.compile(graph, chip)
    assert any("values and positions" in note for note in program.notes)
    assert ts.verify(program).ok


def test_a_random_sweep() -> None:
    rng = np.random.default_rng(4)
    for seed in range(12):
        m, n, k = (int(rng.integers(1, most)) for most in (90, 200, 300))
        chip = taking(str(rng.choice(["edge-8", "tpu-v3", "mesh-16", "chiplet-2"])))
        graph, weight = product(m, n, k, "f32", float(rng.random() / 2), int(rng.integers(2)), seed)
        program = ts.compile(graph, chip, lowering="best")
        x = given(m, k, "f32", seed)
        found = ts.execute(program, {"x": x}, order="random", seed=seed)["y"]
        assert np.array_equal(np.asarray(found), x @ weight), (seed, m, n, k)
        result = ts.simulate(program)
        assert result.bounds is not None
        assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes


def test_bytes_of_the_weight_by_hand() -> None:
    """A byte of places for every four values; the dense product loads twice as many values."""
    m, n, k = 64, 128, 256
    for dtype, size in (("f32", 4), ("i8", 1)):
        graph, _ = product(m, n, k, dtype)
        program = ts.compile(graph, taking("edge-8"))
        (row,) = (row for row in program.tensors().rows if row["name"].startswith("w.2of4"))
        assert tuple(row["shape"]) == (k // 8, n) and row["dtype"] == f"{dtype}_2of4"
        bound = ts.lower_bound(graph, taking("edge-8"))
        values, places = n * k // 2 * size, n * k // 8
        assert bound.compulsory_bytes == m * k * size + values + places + m * n * 4
        assert ts.lower_bound(graph, "edge-8").compulsory_bytes == m * k * size + n * k * size + m * n * 4


def test_half_of_the_passes() -> None:
    """An array that its own rows keep busy: every pass holds 8 rows of values, 16 of the contraction."""
    m, n, k = 256, 64, 512
    graph, _ = product(m, n, k)
    chip = taking("edge-8")
    dense, kept = (ts.simulate(ts.compile(graph, on)) for on in ("edge-8", chip))
    assert kept.bounds is not None and dense.bounds is not None
    rate, tiles = 0.5, (n // 8) * (k // 8)
    assert dense.bounds.array_seconds * 800e6 == pytest.approx(tiles * m / rate)
    assert kept.bounds.array_seconds == pytest.approx(dense.bounds.array_seconds / 2)
    assert 0.5 * dense.cycles <= kept.cycles < 0.54 * dense.cycles


def test_a_product_bound_by_its_weight() -> None:
    """One row: the time is that of the bytes, 9 of 16 in bf16."""
    graph, _ = product(1, 2048, 2048, "bf16")
    dense, kept = (ts.simulate(ts.compile(graph, on, lowering="best")) for on in ("tpu-v3", taking("tpu-v3")))
    assert kept.cycles < 0.62 * dense.cycles
    assert kept.memory_bytes < 0.58 * dense.memory_bytes


@pytest.mark.parametrize("machine", ["sigma-256", "dense-sparse-2"])
def test_cores_that_skip_zeros_are_verified(machine: str) -> None:
    assert ts.verify(ts.compile(product(8, 16, 64)[0], taking(machine))).ok


def test_expanded_where_no_array_takes_it() -> None:
    """Dense bytes and time, the zeros among them, and the note says so."""
    graph, weight = product(32, 64, 128)
    plain = ts.GraphBuilder("pattern")
    plain.output(plain.matmul(plain.input("x", (32, 128)), plain.weight("w", data=weight), name="product"), "y")
    program = ts.compile(graph, "edge-8")
    (note,) = (note for note in program.notes if "2:4" in note)
    assert "expanded" in note and "edge-8" in note
    assert "w" in loads(program)
    dense = ts.simulate(ts.compile(plain.build(), "edge-8"))
    assert (ts.simulate(program).cycles, ts.simulate(program).memory_bytes) == (dense.cycles, dense.memory_bytes)


def two_products(dtype: str = "f32", **attributes: Any) -> ts.Graph:
    b = ts.GraphBuilder("two", dtype=dtype)
    w = b.weight("w", data=operand("b", (64, 64), 0.5, "2:4", 0, 0, dtype))
    axes = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}
    h = b.op("contract", b.input("x", (8, 64)), w, name="first", b_format="2:4", **axes, **attributes)
    b.output(b.op("contract", h, w, name="second", **axes), "y")
    return b.build()


def test_a_weight_that_others_read_dense() -> None:
    program = ts.compile(two_products(), taking("edge-8"))
    assert {name for name in loads(program) if name.startswith("w")} == {"w", "w.2of4"}
    assert ts.verify(program).ok


def of_an_input() -> ts.Graph:
    b = ts.GraphBuilder("input")
    b.output(b.op("contract", b.input("x", (8, 64)), b.input("w", (64, 8)), name="p", b_format="2:4", **AXES), "y")
    return b.build()


def of_the_first_operand() -> ts.Graph:
    b = ts.GraphBuilder("first")
    w = b.weight("w", data=operand("a", (8, 64), 0.5, "2:4", 1, 0, "f32"))
    b.output(b.op("contract", w, b.input("x", (64, 8)), name="p", a_format="2:4", **AXES), "y")
    return b.build()


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (lambda: two_products(precision="exact"), "exact"),
        (of_an_input, "not a weight"),
        (lambda: product(8, 8, 64, "f64")[0], "f32, f16, bf16 and i8"),
        (of_the_first_operand, "second operand"),
    ],
)
def test_left_expanded_with_the_reason(graph: Any, why: str) -> None:
    rates = {"f32": 1.0, "f64": 0.5, "bf16": 1.0}
    program = ts.compile(graph(), taking("edge-8", **{"core.array.rates": rates}))
    notes = [note for note in program.notes if "2:4" in note]
    assert len(notes) == 1 and why in notes[0] and "expanded" in notes[0]
    assert ts.verify(program).ok


def test_a_mapping_that_is_given() -> None:
    """It counts the contraction in elements of eight."""
    graph, _ = product(16, 16, 64)
    for depth in (1, 3, 8):
        nest = {"tiles": [16, 16, depth], "order": [0, 1, 2], "depths": [2, 2, 2]}
        program = ts.compile(graph, taking("edge-8"), mapping={"product": nest})
        assert "w.2of4" in loads(program)
        assert ts.verify(program).ok


def test_drawn_weights_are_refused() -> None:
    """Values from a seed have no zeros."""
    b = ts.GraphBuilder("drawn")
    axes = {"a_contract": [1], "b_contract": [0]}
    b.output(b.op("contract", b.input("x", (4, 16)), b.weight("w", (16, 8)), name="p", b_format="2:4", **axes), "y")
    with pytest.raises(ts.UserError, match="more than two nonzero values"):
        ts.compile(b.build(), taking("edge-8"))


def test_layers_that_are_called() -> None:
    """Each has a weight of its own: calls are inlined where arrays take the pattern."""
    b = ts.GraphBuilder("layers")
    layer = b.function("layer")
    axes = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}
    x, w = layer.input("x", (8, 64)), layer.input("w", (64, 64))
    layer.output(layer.op("contract", x, w, name="product", b_format="2:4", **axes), "y")
    h = b.input("x", (8, 64))
    for i in range(2):
        h = b.call(layer, h, b.weight(f"w{i}", data=operand("b", (64, 64), 0.5, "2:4", 0, i, "f32")))
    b.output(h, "y")
    program = ts.compile(b.build(), taking("edge-8"))
    assert {"w0.2of4", "w1.2of4"} <= loads(program)
    assert ts.verify(program).ok


def test_mutants_are_noticed() -> None:
    graph, _ = product(12, 24, 48)
    program = ts.compile(graph, taking("edge-8"))
    assert unnoticed_mutants(program, {"x": given(12, 48, "f32")} | program.weights()) == []


def test_programs_are_kept(tmp_path: Any) -> None:
    graph, weight = product(16, 24, 72)
    program = ts.compile(graph, taking("edge-8"))
    program.save(tmp_path / "p.tsim")
    program.save(tmp_path / "p.json")
    again = ts.Program.load(tmp_path / "p.tsim")
    x = given(16, 72, "f32")
    assert np.array_equal(np.asarray(ts.execute(again, {"x": x})["y"]), x @ weight)
    assert ts.simulate(again).cycles == ts.simulate(program).cycles


def test_the_setting() -> None:
    chip = taking("edge-8")
    assert chip.get("core.array.pattern") == "2:4" and ts.Machine.load("edge-8").get("core.array.pattern") == "none"
    with pytest.raises(ts.UserError, match="2:4"):
        ts.Machine.load("edge-8").replace({"core.array.pattern": "4:8"})
    with pytest.raises(ts.UserError, match="input_stationary"):
        taking("edge-8", **{"core.array.dataflow": "input_stationary"})


@pytest.mark.parametrize("dataflow", ["weight_stationary", "output_stationary"])
def test_dataflows(dataflow: str) -> None:
    graph, weight = product(64, 64, 256)
    chip = taking("edge-8", **{"core.array.dataflow": dataflow})
    program = ts.compile(graph, chip)
    x = given(64, 256, "f32")
    assert np.array_equal(np.asarray(ts.execute(program, {"x": x})["y"]), x @ weight)
    dense = ts.simulate(ts.compile(graph, chip.replace({"core.array.pattern": "none"})))
    assert ts.simulate(program).cycles < 0.7 * dense.cycles


def test_no_tensor_of_a_graph_has_such_a_type() -> None:
    with pytest.raises(ts.UserError, match="dtype"):
        ts.GraphBuilder("g").input("x", (4, 4), dtype="f32_2of4")
