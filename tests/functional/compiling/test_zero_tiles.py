"""Tiles of zeros are neither loaded nor multiplied: the same bits, the time of what is left, and nothing in silence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.holes import TILE, holed
from support.program_checks import unnoticed_mutants
from tilesim import _core


def product(b: Any, m: int, dtype: str = "f32", turned: bool = False, after: str = "", **attributes: Any) -> ts.Graph:
    """x · b, of which b is a weight; turned: b · x, stored as [n, k] and [m, k]."""
    build = ts.GraphBuilder("holes", dtype=dtype)
    k = b.shape[1] if turned else b.shape[0]
    x, w = build.input("x", [m, k]), build.weight("w", data=b.astype(np.float32))
    axes = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [1 if turned else 0]}
    y = build.op("contract", *((w, x) if turned else (x, w)), name="product", **axes, **attributes)
    if after:
        y = build.apply(after, y, name="after")
    build.output(y, "y")
    return build.build()


def whole_numbers(m: int, k: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(-4, 5, (m, k)).astype(np.float32)


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 256, 512), (1, 300, 700)])
@pytest.mark.parametrize("turned", [False, True])
def test_the_same_bits(machine: str, density: float, m: int, n: int, k: int, turned: bool) -> None:
    weight = holed(n, k, density, 3) if turned else holed(k, n, density, 3)
    x = whole_numbers(m, k)
    graph = product(weight, m, turned=turned)
    program = ts.compile(graph, machine, lowering="best", zero_tiles="skip")
    found = ts.execute(program, {"x": x})
    wanted = weight @ x.T if turned else x @ weight
    assert np.array_equal(np.asarray(next(iter(found.values()))), wanted)


@pytest.mark.parametrize("after", ["relu", "exp"])
def test_sums_without_products_are_zeros(after: str) -> None:
    """An epilogue reads them: exp(0) is 1."""
    weight = holed(512, 512, 0.3, 5)
    weight[:, 128:256] = 0
    program = ts.compile(product(weight, 96, after=after), "edge-8", zero_tiles="skip")
    assert any("neither loaded" in note for note in program.core.notes)
    found = np.asarray(ts.execute(program, {"x": np.ones((96, 512), np.float32) * 0.01})["y"])
    sums = np.full((96, 512), np.float32(0.01)) @ weight
    wanted = np.maximum(sums, 0) if after == "relu" else np.exp(sums)
    assert np.allclose(found, wanted, rtol=1e-5) and np.array_equal(found[:, 128:256], wanted[:, 128:256])


def left_cycles(machine: str, m: int, n: int, k: int, share: float, dtype: str) -> int:
    """Of a dense product with as many tiles as are left."""
    depth = round(k // TILE * share) * TILE
    return ts.simulate(ts.compile(ts.workloads.matmul(m, n, depth, dtype=dtype), machine, lowering="best")).cycles


@pytest.mark.parametrize(
    ("machine", "share"), [("edge-8", 0.5), ("edge-8", 0.1), ("tpu-v3", 0.5), ("tpu-v3", 0.1), ("mesh-16", 0.5)]
)
def test_time_is_that_of_what_is_left(machine: str, share: float) -> None:
    """At most 5 (tpu-v3: 10) % more than a dense product of the tiles that are left takes, where the other operand,
    nearly all of which they still need, does not set the time; there within half of the bound.
    """
    m, n, k = (256, 512, 2560) if machine == "edge-8" else (2048, 2048, 5120)
    graph = product(holed(k, n, share, 7), m)
    dense = ts.simulate(ts.compile(graph, machine, lowering="best"))
    result = ts.simulate(ts.compile(graph, machine, lowering="best", zero_tiles="skip"))
    # Blocks are whole tiles of zeros here; the dense product's blocks are chosen by their bytes alone.
    assert result.memory_bytes < (1 if share < 0.5 else 1.1) * dense.memory_bytes and result.bounds is not None
    if result.bounds.part == "memory":
        assert result.seconds <= 1.5 * result.bounds.seconds and result.cycles < 0.25 * dense.cycles
    else:
        # The dense product there keeps its array busy to 97 %, pieces of whole tiles of zeros to 90 %.
        limit = 1.1 if machine == "tpu-v3" else 1.05
        assert result.cycles <= limit * left_cycles(machine, m, n, k, share, "f32")
    assert result.seconds >= result.bounds.seconds
    assert result.memory_bytes >= result.bounds.bytes


def test_cores_share_what_is_left() -> None:
    """Every core takes rows of all columns, so that none has more tiles left than another, and sends what others need:
    the same bits in any order, and fewer bytes than where each fetches its own.
    """
    rng = np.random.default_rng(5)
    faster = 0
    for seed in range(3):
        m, n, k = int(rng.integers(200, 1200)), int(rng.integers(130, 700)), int(rng.integers(300, 1200))
        weight = holed(k, n, (0.1, 0.5, 0.0)[seed % 3], seed)
        graph = product(weight, m, after="relu" if seed % 2 else "")
        program = ts.compile(graph, "mesh-16", lowering="best", zero_tiles="skip")
        x = whole_numbers(m, k)
        wanted = np.maximum(x @ weight, 0) if seed % 2 else x @ weight
        for order in ({"find_races": True}, {"order": "random", "seed": seed, "poison": True}):
            np.testing.assert_array_equal(ts.execute(program, {"x": x}, **order)["y"], wanted)
        result = ts.simulate(program)
        assert result.bounds is not None and result.memory_bytes >= result.bounds.bytes
        assert result.seconds >= result.bounds.seconds
        faster += result.cycles < 0.6 * ts.simulate(ts.compile(graph, "mesh-16", lowering="best")).cycles
    assert faster >= 2


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
@pytest.mark.parametrize("k", [64, 128, 129])
def test_a_weight_of_zeros_is_not_multiplied(machine: str, k: int) -> None:
    """Nothing to add up: results are stored alone."""
    graph = product(np.zeros((k, 128)), 384)
    dense = ts.simulate(ts.compile(graph, machine, lowering="best"))
    program = ts.compile(graph, machine, lowering="best", zero_tiles="skip")
    assert ts.simulate(program).cycles < 0.5 * dense.cycles
    assert not np.any(ts.execute(program, {"x": whole_numbers(384, k)})["y"])


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3", "chiplet-2"])
@pytest.mark.parametrize("zero_tiles", ["skip", "test"])
@pytest.mark.parametrize("after", ["", "relu"])
@pytest.mark.parametrize(("m", "k", "n", "kept"), [(65, 3, 40, 0), (200, 384, 130, 128), (64, 256, 256, 128)])
def test_no_order_of_operations_changes_the_bits(
    machine: str, zero_tiles: str, after: str, m: int, k: int, n: int, kept: int
) -> None:
    """Sums that no product writes, and pieces that several arrays finish, are waited for."""
    weight = np.zeros((k, n))
    weight[:kept] = 1
    program = ts.compile(product(weight, m, after=after), machine, lowering="best", zero_tiles=zero_tiles)
    x = whole_numbers(m, k)
    wanted = np.maximum(x @ weight, 0) if after else x @ weight
    np.testing.assert_array_equal(ts.execute(program, {"x": x}, find_races=True)["y"], wanted)
    for seed in range(2):
        got = ts.execute(program, {"x": x}, order="random", seed=seed, poison=True)
        np.testing.assert_array_equal(got["y"], wanted)


def test_what_is_left_counts_in_bounds() -> None:
    """Multiply-adds and bytes of the weight, by hand: 3 of 8 tiles."""
    weight = np.zeros((256, 512), np.float32)
    for i, j in ((0, 0), (1, 0), (1, 3)):
        weight[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE] = 1
    graph = product(weight, 384)
    dense, left = (ts.compile(graph, "edge-8", zero_tiles=z).graph for z in ("off", "skip"))
    assert dense is not None and left is not None
    whole, part = ts.lower_bound(dense, "edge-8"), ts.lower_bound(left, "edge-8")
    assert part.compulsory_bytes == 4 * (384 * 256 + 384 * 512) + 3 * 4 * TILE * TILE
    assert whole.compulsory_bytes == 4 * (384 * 256 + 384 * 512 + 256 * 512)
    assert part.array_seconds == pytest.approx(whole.array_seconds * 3 / 8)


@pytest.mark.parametrize("order", ["early_loads", "random"])
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_every_order_and_no_race(machine: str, order: str) -> None:
    weight = holed(512, 384, 0.4, 9)
    weight[:, :128] = 0
    program = ts.compile(product(weight, 160), machine, lowering="best", zero_tiles="skip")
    assert any("neither loaded" in note for note in program.core.notes) or machine != "edge-8"
    arrays = {"x": whole_numbers(160, 512)} | program.weights()
    found = _core.execute(program.core, arrays, order=order, seed=3, find_races=True)
    assert np.array_equal(np.asarray(found["y"]), arrays["x"] @ weight)


def test_mutants_are_noticed() -> None:
    weight = holed(256, 256, 0.75, 1)
    program = ts.compile(product(weight, 24), "edge-8", zero_tiles="skip")
    assert unnoticed_mutants(program, {"x": whole_numbers(24, 256)} | program.weights()) == []


def test_nothing_is_skipped_without_being_asked() -> None:
    graph = product(holed(512, 512, 0.1, 2), 64)
    plain, off = ts.compile(graph, "edge-8"), ts.compile(graph, "edge-8", zero_tiles="off")
    assert plain.core.to_json() == off.core.to_json()
    full = product(holed(512, 512, 1.0, 2), 64)
    assert ts.compile(full, "edge-8").core.to_json() == ts.compile(full, "edge-8", zero_tiles="skip").core.to_json()


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.3), (0.3, 1.0), (0.5, 0.3)])
def test_the_workload_with_zero_tiles(a: float, b: float) -> None:
    """Of two operands with tiles of zeros the one with fewer left is skipped; both give what a dense product gives."""
    graph = ts.workloads.sparse_matmul(256, 384, 512, a, b, "zero_tiles", seed=2)
    off, skip = (ts.compile(graph, "edge-8", zero_tiles=z) for z in ("off", "skip"))
    x = {"a": whole_numbers(256, 512)} if a == 1 else {}
    assert np.array_equal(np.asarray(ts.execute(off, x)["y"]), np.asarray(ts.execute(skip, x)["y"]))
    assert ts.simulate(skip).cycles < ts.simulate(off).cycles


def test_layers_that_are_called_have_weights_of_their_own() -> None:
    b = ts.GraphBuilder("layers")
    layer = b.function("layer")
    x, w = layer.input("x", [64, 256]), layer.input("w", [256, 256])
    layer.output(layer.apply("relu", layer.matmul(x, w, name="product")), "y")
    x = b.input("x", [64, 256])
    for i in range(4):
        x = b.call(layer, x, b.weight(f"w{i}", data=holed(256, 256, 0.5, i)), name=f"call{i}")
    b.output(x, "y")
    graph = b.build()
    program = ts.compile(graph, "edge-8", zero_tiles="skip")
    assert sum("neither loaded" in note for note in program.core.notes) == 4
    assert ts.verify(program).ok


def test_nan_and_infinity() -> None:
    """Exact products multiply them by zero, unless no operand can have any; others are told to leave it."""
    weight = holed(512, 256, 0.25, 4)
    x = whole_numbers(32, 512)
    x[3] = np.nan
    exact = product(weight, 32, precision="exact")
    program = ts.compile(exact, "edge-8", zero_tiles="skip")
    assert not any("neither loaded" in note for note in program.core.notes)
    assert any("NaN or infinity" in line for line in ts.simulate(program).approximations)
    assert np.isnan(np.asarray(ts.execute(program, {"x": x})["y"])[3]).all()
    asked = ts.compile(product(weight, 32), "edge-8", zero_tiles="skip")
    found = np.asarray(ts.execute(asked, {"x": x})["y"])
    reached = np.abs(weight).sum(0) > 0
    assert np.isnan(found[3][reached]).all()
    assert np.array_equal(np.delete(found, 3, 0), np.delete(x, 3, 0) @ weight)


def test_a_weight_with_nan_is_no_zero() -> None:
    weight = np.zeros((256, 256), np.float32)
    weight[5, 200] = np.nan
    program = ts.compile(product(weight, 16), "edge-8", zero_tiles="skip")
    found = np.asarray(ts.execute(program, {"x": np.ones((16, 256), np.float32)})["y"])
    assert np.isnan(found[:, 200]).all() and (np.delete(found, 200, 1)[:, :128] == 0).all()


def test_sources_of_the_tiles_are_the_weights() -> None:
    program = ts.compile(product(holed(512, 512, 0.2, 2), 64), "edge-8", zero_tiles="skip")
    result = ts.simulate(program)
    assert result.data_sources and all(how.startswith("weights") for how in result.data_sources.values())
    assert not any("not given" in line for line in result.approximations)


def test_files_keep_them(tmp_path: Any) -> None:
    program = ts.compile(product(holed(512, 256, 0.2, 2), 64), "edge-8", zero_tiles="skip")
    program.save(tmp_path / "p.tsim")
    again = ts.Program.load(tmp_path / "p.tsim")
    assert ts.simulate(again).cycles == ts.simulate(program).cycles
    x = whole_numbers(64, 512)
    assert np.array_equal(np.asarray(ts.execute(again, {"x": x})["y"]), np.asarray(ts.execute(program, {"x": x})["y"]))


@pytest.mark.parametrize("bad", ["skipp", "on", ""])
def test_an_unknown_treatment(bad: Any) -> None:
    with pytest.raises(ts.UserError, match=r"zero_tiles.*off, skip"):
        ts.compile(ts.workloads.matmul(8, 8, 8), "edge-8", zero_tiles=bad)


@pytest.mark.singly
@pytest.mark.parametrize("zero_tiles", ["skip", "test"])
@pytest.mark.parametrize(
    ("machine", "m", "n", "k"), [("mesh-16", 1, 198, 1312), ("mesh-16", 256, 476, 1356), ("edge-8", 8, 300, 700)]
)
def test_what_is_not_used_leaves_the_plain_program(zero_tiles: str, machine: str, m: int, n: int, k: int) -> None:
    """The same bytes and cycles, with a note of each product that multiplies its tiles of zeros."""
    for density in (0.0, 0.7, 1.0):
        graph = product(holed(k, n, density, 2), m, after="relu")
        program = ts.compile(graph, machine, lowering="best", zero_tiles=zero_tiles)
        if any("neither loaded" in note for note in program.notes):
            continue
        plain = ts.compile(graph, machine, lowering="best")
        one, other = json.loads(program.core.to_json()), json.loads(plain.core.to_json())
        notes = set(one.pop("notes", [])) - set(other.pop("notes", []))
        assert one == other and all("tiles of zeros are multiplied" in note for note in notes)
        assert ts.simulate(program).cycles == ts.simulate(plain).cycles
