"""Level "instruction": times and values of products by their kernels, against bounds of arrays by hand, the tile level
and numpy; stores that keep them; what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts

#: rows and columns of the array, and rows a cycle by type, as the machines' files say
ARRAYS: dict[str, tuple[int, dict[str, float]]] = {
    "tpu-v3": (128, {"bf16": 1, "f32": 1}),
    "edge-8": (8, {"i8": 4, "bf16": 1, "f32": 0.5}),
    "mesh-16": (64, {"i8": 2, "bf16": 1, "f32": 0.25}),
}
SIZES = {"tpu-v3": 512, "edge-8": 128, "mesh-16": 512}
CASES = [(machine, dtype) for machine, (_, rates) in ARRAYS.items() for dtype in rates]


def matmul(m: int, n: int, k: int, dtype: str) -> ts.Graph:
    b = ts.GraphBuilder("product", dtype=dtype)
    b.output(b.matmul(b.input("x", (m, k)), b.input("w", (k, n)), name="product"), "y")
    return b.build()


def instruction(path: Path | None = None) -> ts.TileLatencies:
    return ts.TileLatencies(path, source="instruction")


def parts(compute: str) -> tuple[dict[str, int], set[str]]:
    words = compute.split()
    numbers = {m[1]: int(m[2]) for word in words[3:8] if (m := re.fullmatch(r"(b|m|n|k|ko)(\d+)", word))}
    return numbers, set(words)


def streams(compute: str, side: int) -> tuple[int, int]:
    """Sets of weights and the rows that pass each of them."""
    of, words = parts(compute)
    moving, across = (of["n"], of["m"]) if "stationary_a" in words else (of["m"], of["n"])
    return of["b"] * of["ko"] * -(-of["k"] // side) * -(-across // side), moving


def check_bounds(row: dict[str, Any], machine: str, dtype: str) -> None:
    side, rates = ARRAYS[machine]
    sets, moving = streams(row["compute"], side)
    _, words = parts(row["compute"])
    rows = sets * moving / rates[dtype]
    fill = 2 * side - 2  # the last row passes the array
    assert row["busy"] >= rows
    assert row["done"] >= rows + fill
    if not words & {"pipelined", "resident"}:
        assert row["done"] >= side + rows + fill  # one row of weights a cycle
    assert 0 <= row["weights_consumed"] <= row["busy"] and 0 < row["first"] <= row["done"]


@pytest.mark.parametrize(("m", "n", "k"), [(77, 100, 333), (333, 100, 77), (13, 257, 129)])
def test_products_on_the_vector_unit_take_a_fifth_more_at_most(m: int, n: int, k: int) -> None:
    """Arrays that take no i8 leave products to it: each register is loaded, widened, multiplied, added."""
    program = ts.compile(matmul(m, n, k, "i8"), "tpu-v3")
    tile, found = ts.simulate(program), ts.simulate(program, level="instruction", latencies=instruction())
    assert tile.cycles <= found.cycles <= 1.2 * tile.cycles


@pytest.mark.parametrize(("machine", "dtype"), CASES)
def test_products_take_no_less_than_the_array_and_little_more(machine: str, dtype: str) -> None:
    size, store = SIZES[machine], instruction()
    program = ts.compile(matmul(size, size, size, dtype), machine)
    tile, cold = ts.simulate(program), ts.simulate(program, level="instruction", latencies=store)
    rows = [row for row in store.table(machine) if row["compute"].startswith("mma")]
    assert rows
    for row in rows:
        check_bounds(row, machine, dtype)
    products_alone = {compute.split()[0] for compute in store.last_counts} == {"mma"}
    # what converts results to bf16 may be a kernel too, of its own loads and stores
    assert abs(cold.cycles / tile.cycles - 1) <= (0.03 if products_alone else 0.1)
    warm = ts.simulate(program, level="instruction", latencies=store)
    assert warm.cycles == cold.cycles and warm.data["tile_latencies"]["added"] == 0
    assert cold.data["tile_latencies"]["added"] == len(store)
    assert ts.simulate(program, level="instruction").cycles == cold.cycles  # the store of the process
    assert ts.simulate(program, level="tile").cycles == ts.simulate(program).cycles == tile.cycles


def port_cycles(compute: str) -> int:
    """edge-8: a load of 128 bytes a cycle brings rows, weights, and sums but for the first depth."""
    sets, moving = streams(compute, 8)
    of, words = parts(compute)
    first = 0 if "accumulate" in words else sets // -(-of["k"] // 8) // of["ko"]
    return (sets * (moving * 8 + 64) + (sets - first) * moving * 8 * 4) // 128


def test_kernels_that_the_port_bounds() -> None:
    """Four rows of i8 a cycle take as many sums from the scratchpad as its port gives, and rows and weights beside."""
    store = instruction()
    program = ts.compile(matmul(128, 128, 128, "i8"), "edge-8")
    result = ts.simulate(program, level="instruction", latencies=store)
    assert abs(result.cycles / ts.simulate(program).cycles - 1) < 0.03  # closed forms know the port too
    for row in store.table("edge-8"):
        if row["compute"].startswith("mma"):
            assert row["limit"] == "load port"
            assert port_cycles(row["compute"]) <= row["busy"] < 1.2 * port_cycles(row["compute"]) + 32
    wider = ts.Machine.load("edge-8").replace({"core.isa.loads": 2, "core.isa.stores": 2})
    assert ts.simulate(ts.compile(matmul(128, 128, 128, "i8"), wider), level="instruction").cycles < result.cycles


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8", "mesh-16"])
def test_networks(machine: str) -> None:
    """What has no kernel keeps its closed form, and the result says so."""
    store = instruction()
    program = ts.compile(ts.models.mlp(batch=64, sizes=(96, 160, 64), dtype="bf16"), machine)
    tile, cold = ts.simulate(program), ts.simulate(program, level="instruction", latencies=store)
    assert 0.9 <= cold.cycles / tile.cycles <= 1.5
    products = [row for row in store.table(machine) if row["compute"].startswith("mma")]
    for row in products:
        check_bounds(row, machine, "bf16")
    assert products and any("kernels, each timed on an otherwise idle core" in text for text in cold.approximations)
    told = [text for text in cold.approximations if "closed forms for" in text]
    assert bool(told) == bool(store.refused)
    assert all("no kernel is written for" in text for text in told)
    assert not any(compute.startswith("mma") for compute in store.refused)
    assert not any("kernels, each" in text for text in tile.approximations)
    done = {compute.split()[0]: 0 for compute in store.last_counts}
    assert {"mma", "vector"} <= done.keys() and min(store.last_counts.values()) > 0
    assert ts.simulate(program, level="instruction", latencies=store).cycles == cold.cycles
    both = ts.levels(program)
    assert both.cycles == {"tile": tile.cycles, "instruction": cold.cycles}


def test_computes_without_kernel_are_named() -> None:
    """Powers of integers have none: both levels take the same cycles, and the result names one and the reason."""
    b = ts.GraphBuilder("powers", dtype="i32")
    b.output(b.apply("power", b.input("x", (16, 32)), b.input("y", (16, 32))), "z")
    program, store = ts.compile(b.build(), "tpu-v3"), instruction()
    result = ts.simulate(program, level="instruction", latencies=store)
    assert result.cycles == ts.simulate(program).cycles
    assert {compute.split()[0] for compute in store.refused} == {"vector"}
    (told,) = (text for text in result.approximations if "without a kernel" in text)
    assert "'vector i32" in told and "no vector kernel computes this function" in told
    assert ts.verify(program, level="instruction").ok


def test_stores_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "latencies.sqlite"
    graph = matmul(64, 64, 64, "bf16")
    program = ts.compile(graph, "edge-8")

    def added(of: ts.Program, source: str = "instruction", level: str = "instruction") -> tuple[int, int]:
        store = ts.TileLatencies(path, source=source)
        result = ts.simulate(of, level=level, latencies=store)
        store.close()
        return result.cycles, result.data["tile_latencies"]["added"]

    cycles, first = added(program)
    assert first > 0
    assert added(program) == (cycles, 0)
    other = ts.compile(graph, ts.Machine.load("edge-8").replace({"core.isa.loads": 2}))
    assert added(other)[1] > 0  # another core
    assert added(other)[1] == 0
    assert added(program, "closed form", "tile")[1] > 0  # another source
    assert added(program) == (cycles, 0)
    memory = ts.Machine.load("edge-8").replace({"memory.latency": "99 ns"})
    assert len(instruction(path).table(memory)) == first  # has no part in a kernel


def test_what_is_refused() -> None:
    program = ts.compile(matmul(16, 16, 16, "bf16"), "edge-8")
    for call in (ts.simulate, ts.execute, ts.verify):
        with pytest.raises(ts.UserError, match="tile, instruction"):
            call(program, level="x")
        with pytest.raises(ts.UserError, match="'instruction'"):
            call(program, level="instructoin")
        call(program, level="live")
    for source in ("closed form", "rtl"):
        with pytest.raises(ts.UserError, match="of source"):
            ts.simulate(program, level="instruction", latencies=ts.TileLatencies(source=source))


def test_registers_of_no_legal_length() -> None:
    machine = ts.Machine.load("tpu-v3").replace({"core.vector.lanes": 96})
    program = ts.compile(matmul(64, 64, 64, "bf16"), machine)
    assert ts.simulate(program).cycles > 0
    for call in (ts.simulate, ts.execute, ts.verify):
        with pytest.raises(ts.UserError, match=r"core\.isa\.vlen"):
            call(program, level="instruction")
    stated = machine.replace({"core.isa.vlen": 32768})
    assert ts.simulate(ts.compile(matmul(64, 64, 64, "bf16"), stated), level="instruction").cycles > 0


def machine_of(name: str) -> ts.Machine:
    """tpu-v3 with a small array, so that products take several sets of weights."""
    machine = ts.Machine.load(name)
    if name != "tpu-v3":
        return machine
    return machine.replace({"core.array.rows": 16, "core.array.columns": 16, "core.vector.lanes": 16})


VALUES = [("tpu-v3", "bf16"), ("tpu-v3", "f32"), ("edge-8", "bf16"), ("edge-8", "f32"), ("edge-8", "i8")]
VALUES += [("mesh-16", "bf16"), ("mesh-16", "f32"), ("mesh-16", "i8")]


@pytest.mark.parametrize(("machine", "dtype"), VALUES)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (33, 41, 70), (50, 16, 100)])
def test_values_of_products(machine: str, dtype: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    program = ts.compile(matmul(m, n, k, dtype), machine_of(machine))
    assert ts.verify(program, level="instruction").ok
    rng = np.random.default_rng(m)
    if dtype == "i8":
        x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        found = ts.execute(program, [x, w], level="instruction")["y"]
        tile = ts.execute(program, [x, w])["y"]
        np.testing.assert_array_equal(found, tile)
        wide = x.astype(np.int64) @ w.astype(np.int64)
        np.testing.assert_array_equal(found, wide.astype(found.dtype))
        return
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.float32
    x, w = (rng.normal(size=shape).astype(kind) for shape in ((m, k), (k, n)))
    found, tile = (ts.execute(program, [x, w], level=level)["y"] for level in ("instruction", "tile"))
    taken = [v.astype(ml_dtypes.bfloat16) if machine == "tpu-v3" else v for v in (x, w)]
    a, b = (v.astype(np.float64) for v in taken)
    roundoff = 2.0**-8 if dtype == "bf16" else 2.0**-24
    bound = (k + 2) * 2.0**-24 * (np.abs(a) @ np.abs(b)) * 1.01
    bound += roundoff * (np.abs(a @ b) + bound) * 1.01  # of what is stored
    assert (np.abs(found.astype(np.float64) - a @ b) <= bound).all()
    assert (np.abs(found.astype(np.float64) - tile.astype(np.float64)) <= 2 * bound).all()


def convolutions(dtype: str) -> ts.Graph:
    b = ts.GraphBuilder("net", dtype=dtype)
    x = b.input("x", (2, 5, 9, 9))
    for name, into, out, strides in (("one", 5, 12, 1), ("two", 12, 7, 2)):
        w = b.weight(f"{name}.w", (out, into, 3, 3))
        x = b.op(
            "convolution", x, w, name=name, strides=[strides] * 2, window_dilation=[1, 1], pads=[1] * 4,
            input_dilation=[1, 1], groups=1, x_labels="NCHW", w_labels="OIHW", y_labels="NCHW",
        )  # fmt: skip
        x = b.apply("relu", x)
    b.output(x, "y")
    return b.build()


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8", "mesh-16"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_values_of_a_convolutional_network(machine: str, dtype: str) -> None:
    program = ts.compile(convolutions(dtype), machine_of(machine))
    assert ts.verify(program, level="instruction").ok
    found, tile = (
        ts.execute(program, level=level, seed=3)["y"].astype(np.float64) for level in ("instruction", "tile")
    )
    scale = np.abs(tile).max()
    assert (np.abs(found - tile) <= scale * (2.0**-6 if dtype == "bf16" or machine == "tpu-v3" else 1e-5)).all()
    assert ts.simulate(program, level="instruction").cycles > 0


@pytest.mark.parametrize("sums", [True, False])
def test_closed_forms_of_arithmetic_alone_are_said_to_be_such(sums: bool) -> None:
    b = ts.GraphBuilder("g")
    x = b.input("x", (64, 256))
    b.output(b.op("cumulative", x, combiner="add", dim=1, reverse=False) if sums else b.apply("exp", x), "y")
    program = ts.compile(b.build(), "gemmini-16")
    said = [line for line in ts.simulate(program).approximations if "the arithmetic only" in line]
    assert len(said) == (1 if sums else 0)
    assert not sums or ("vector" in said[0] and "loads, stores" in said[0])
    for level in ("instruction", "live"):
        assert not any("the arithmetic only" in x for x in ts.simulate(program, level=level).approximations)


def _wide(name: str) -> ts.Graph:
    b = ts.GraphBuilder("g", dtype="f32" if name == "argmin" else "f64")
    x = b.input("x", (64, 256))
    if name == "argmin":
        b.output(b.op("reduce", x, combiner="argmin", dims=[1]), "y")
    elif name == "sum":
        b.output(b.op("reduce", x, combiner="add", dims=[1]), "y")
    else:
        for function in ("multiply", "maximum", "subtract"):
            x = b.apply(function, b.apply("exp", x), x)
        b.output(x, "y")
    return b.build()


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8", "mesh-16", "gemmini-16"])
@pytest.mark.parametrize(("name", "limit"), [("exp", 0.3), ("sum", 0.2), ("argmin", 0.6)])
def test_closed_forms_of_64_bits_count_two_registers_for_one(machine: str, name: str, limit: float) -> None:
    rows = [row for row in ts.levels(_wide(name), machine).computes if row["compute"].startswith("vector")]
    longest = max(rows, key=lambda row: row["count"] * row["instruction"])
    assert abs(longest["difference"]) < limit or abs(longest["instruction"] - longest["closed_form"]) <= 5


@pytest.mark.parametrize("machine", ["tpu-v3", "mesh-16"])
def test_what_differs_says_why(machine: str) -> None:
    """Of computes whose levels are more than 15 % apart: the unit that works most, what it does else, and what the
    closed form counts; a unit that hardly works waits for something that is named."""
    both = ts.levels(ts.workloads.attention(1, 12, 512, 64), machine)
    far = [row for row in both.computes if row["difference"] is not None and abs(row["difference"]) > 0.15]
    near = [row for row in both.computes if row not in far]
    assert far and all(row["why"] == "" for row in near)
    for row in far:
        unit, _, rest = row["why"].partition(" works ")
        assert unit in ("arithmetic", "load", "store", "cross_lane", "special", "array", "matrix", "results"), row
        share, _, told = rest.partition(" %")
        assert 0 <= int(share) <= 100 and "; counted by the closed form: " in told, row
        assert int(share) > 80 or ", else " in told, row
