"""Counts of what takes energy: they add up, by operation and in all, and energy is counts times the machine's table."""

import collections
import math
import random
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core

# Setting: the row of the energy, the items that it is told of, picojoules of each.
TABLE: dict[str, tuple[str, tuple[str, ...], int]] = {
    "mac": ("multiply-adds", ("multiply-adds",), 3),
    "vector_op": ("vector operations", ("vector operations",), 5),
    "memory_byte": ("memory bytes", ("memory bytes", "padded memory bytes"), 7),
    "network_byte": ("network bytes", ("network bytes",), 11),
    "scratchpad_byte": ("scratchpad bytes (DMA side)", ("scratchpad bytes (DMA side)",), 13),
}
UNPRICED = {"padded multiply-adds", "cache bytes", "padded cache bytes"}


def totals(result: ts.Result) -> dict[str, float]:
    found: dict[str, float] = collections.defaultdict(float)
    for row in result.counts().rows:
        assert row["number"] >= 0, row
        found[row["item"]] += row["number"]
    return found


def check_energy(result: ts.Result, table: dict[str, int], microwatts: int) -> None:
    """Recomputes the reported energy from the public counts; commands of DRAM parts have energies of their own."""
    total, stated = totals(result), {row["part"]: row for row in result.data["energy"]}
    for key, (part, items, _) in TABLE.items():
        if part == "memory bytes" and part not in stated:
            continue
        count = sum(total[item] for item in items)
        assert stated[part]["count"] == count and stated[part]["femtojoules"] == 1000 * table[key] * count
    picoseconds = result.cycles / result.data["hertz"] * 1e12
    static = stated["static (ps)"]
    assert abs(static["count"] - picoseconds) <= 1
    assert math.isclose(static["femtojoules"], picoseconds * microwatts * 1e-3, rel_tol=1e-9, abs_tol=1)
    extra = set(total) - set(stated) - {item for _, items, _ in TABLE.values() for item in items} - UNPRICED
    assert not extra, extra


def priced(machine: ts.Machine, table: dict[str, int], microwatts: int) -> ts.Machine:
    stated: dict[str, Any] = {f"energy.{key}": f"{each} pJ" for key, each in table.items()}
    return machine.replace({**stated, "energy.static_microwatts": microwatts})


@pytest.mark.parametrize("machine", ["tpu-v3", "mesh-16", "edge-8"])
def test_energy_is_counts_times_the_table(machine: str) -> None:
    table = {key: each for key, (_, _, each) in TABLE.items()}
    target = priced(ts.Machine.load(machine), table, 1_234_567)
    result = ts.simulate(ts.compile(ts.models.mlp(batch=4), target))
    check_energy(result, table, 1_234_567)
    total = totals(result)
    assert total["multiply-adds"] == result.data["multiply_adds"] and total["memory bytes"] > 0
    assert total["memory bytes"] + total["padded memory bytes"] == result.memory_bytes


def random_run(seed: int) -> tuple[ts.Result, dict[str, int], int]:
    draw = random.Random(seed)
    table, microwatts = {key: draw.randrange(1, 50) for key in TABLE}, draw.randrange(1, 10**7)
    name = draw.choice(["tpu-v3", "mesh-16", "edge-8", "gemmini-16"])
    machine = priced(ts.Machine.load(name), table, microwatts)
    dtype = "i8" if name == "gemmini-16" else "f32"
    m, n, k = (draw.choice([1, 3, 8, 17, 64, 100]) for _ in range(3))
    kinds = ["matmul"] if dtype == "i8" else ["matmul", "mlp", "softmax"]
    kind = draw.choice(kinds)
    if kind == "matmul":
        graph = ts.workloads.matmul(m, n, k, dtype=dtype)
    else:
        b = ts.GraphBuilder("two")
        x = b.input("x", (m, k))
        y = x @ b.input("w", (k, n))
        b.output(b.op("softmax", y, dim=1) if kind == "softmax" else b.apply("relu", y), "y")
        graph = b.build()
    memory = draw.choice(["simple", "bank"]) if name == "tpu-v3" else None
    return ts.simulate(ts.compile(graph, machine), memory=memory), table, microwatts


@pytest.mark.parametrize("seed", range(16))
def test_energy_recomputed_from_counts_of_random_runs(seed: int) -> None:
    result, table, microwatts = random_run(seed)
    check_energy(result, table, microwatts)
    names = {row["name"] for row in result.data["operations"]} | {""}
    assert {row["operation"] for row in result.counts().rows} <= names


def steps(whole: int, tile: int) -> list[tuple[int, int]]:
    return [(at, min(tile, whole - at)) for at in range(0, whole, tile)]


def bursts(start: int, elements: int) -> int:
    """Bytes of the bursts of 64 that a run of f32 touches, `start` elements behind the beginning of one."""
    return ((4 * (start + elements) + 63) // 64 - 4 * start // 64) * 64


def cells_of(extents: tuple[int, int, int], keeps_a: bool) -> int:
    """Multiply-adds of 8 x 8 cells: the resident operand in blocks of 8 x 8, a row of the other for each step."""
    m, n, k = extents
    across, streamed = (m, n) if keeps_a else (n, m)
    return -(-k // 8) * 8 * (-(-across // 8) * 8) * streamed


@pytest.mark.parametrize("shape", [(20, 32, 48), (8, 16, 32), (7, 64, 33 * 16), (1, 16, 32)])
def test_a_product_is_counted_as_by_hand(shape: tuple[int, int, int]) -> None:
    """Tiles of 8 x 12 x 16, the contraction innermost: what each loads, computes and stores is told by its extents."""
    (m, n, k), (tm, tn, tk) = shape, (min(8, shape[0]), 12, 16)
    nest = {"tiles": [tm, tn, tk], "order": [0, 1, 2], "depths": [2, 2, 1], "unit": "array"}
    program = ts.compile(ts.workloads.matmul(m, n, k), "edge-8", mapping={"matmul": nest})
    text = program.core.to_json()
    keeps_a = '"stationary_a": true' in text
    result = ts.simulate(program)
    useful = moved = cells = 0
    for row, a in steps(m, tm):
        for column, b in steps(n, tn):
            for depth, c in steps(k, tk):
                cells += cells_of((a, b, c), keeps_a)
                useful += 4 * (a * c + c * b)
                moved += a * bursts(row * k + depth, c) + c * bursts(depth * n + column, b)
            useful += 4 * a * b
            moved += a * bursts(row * n + column, b)
    total = totals(result)
    assert total["multiply-adds"] == m * n * k
    assert total["padded multiply-adds"] == cells - m * n * k
    assert total["memory bytes"] == useful and total["padded memory bytes"] == moved - useful
    assert total["scratchpad bytes (DMA side)"] == total["network bytes"] == moved
    by = {row["item"]: row["level"] for row in result.counts().rows}
    assert (by["memory bytes"], by["padded memory bytes"], by["multiply-adds"]) == ("DRAM", "DRAM", "")


def test_behind_a_cache_both_levels_are_counted() -> None:
    machine = ts.Machine.load("edge-8").replace(
        {"memory.cache.sets": 64, "memory.cache.sector": "64 B", "memory.cache.line": "128 B"}
    )
    result = ts.simulate(ts.compile(ts.workloads.matmul(40, 48, 56), machine))
    total, cache = totals(result), result.cache
    assert cache is not None
    asked = sum(row["read_bytes"] + row["written_bytes"] for row in result.cache_table().rows)
    assert total["cache bytes"] + total["padded cache bytes"] == asked
    assert total["memory bytes"] == cache["fetched_bytes"] + cache["returned_bytes"] + cache["bypassed_bytes"]


def test_counts_are_kept_in_files(tmp_path: Path) -> None:
    result = ts.run(ts.models.mlp(batch=4), machine="mesh-16")
    result.save(tmp_path / "result.json")
    again = ts.Result.load(tmp_path / "result.json")
    assert again.counts().rows == result.counts().rows and len(result.counts().rows) > 10
    core = _core.Result.from_json((tmp_path / "result.json").read_text(encoding="utf-8"))
    rows = [tuple(row.values()) for row in result.counts().rows]
    assert core.counts() == rows and _core.Result.from_json(core.to_json()).counts() == rows


def test_host_and_link_have_rows(tmp_path: Path) -> None:
    b = ts.GraphBuilder("two")
    x = b.input("x", (16, 32))
    b.output(b.apply("relu", x @ b.input("w", (32, 8)), name="after"), "y")
    program = ts.compile(b.build(), "edge-8", place={"after": "host"}, fallback="host")
    result = ts.simulate(program)
    rows = {(row["part"], row["item"], row["operation"]): row["number"] for row in result.counts().rows}
    assert rows["host", "host operations", "after"] == 16 * 8
    assert rows["host", "host (ps)", "after"] == program.host_picoseconds("after")
    link = sum(number for (_, item, _), number in rows.items() if item == "link bytes")
    assert link == sum(row["bytes"] for row in program.transfers.rows) == 2 * 4 * 16 * 8
    assert sum(n for (_, item, _), n in rows.items() if item == "multiply-adds") == 16 * 8 * 32
    stated = {row["part"]: row for row in result.data["energy"]}
    assert stated["link bytes"]["count"] == link and not stated["link bytes"]["known"]


def test_closed_forms_show_their_counts() -> None:
    result = ts.estimate(ts.workloads.matmul(64, 128, 256, dtype="bf16"), ts.Device.load("a100"))
    total = totals(result)
    assert total["multiply-adds"] == 64 * 128 * 256 and total["memory bytes"] >= 2 * (64 * 256 + 256 * 128 + 64 * 128)


@pytest.mark.parametrize("network", ["mlp", "resnet18"])
def test_operations_cause_what_their_rows_say(network: str) -> None:
    program = ts.compile(ts.models.build(network), "tpu-v3")
    result = _core.simulate(program.core, ts.Machine.load("tpu-v3").core)
    rows = {row["name"]: row for row in result.data()["operations"]}
    by: dict[tuple[str, str], float] = {}
    for _, item, _, operation, number in result.counts():
        by[item, operation] = by.get((item, operation), 0) + number
    for name, row in rows.items():
        assert by.get(("multiply-adds", name), 0) == row["multiply_adds"]
        assert by.get(("vector operations", name), 0) == row["vector_operations"]


def test_the_closed_form_counts_the_same_items() -> None:
    from tilesim.analytic.operations import Costs

    graph = ts.models.build("bert-base")
    found, _ = Costs(ts.Device.load("a100"), None, "", None).price(graph.core)
    result = found.result("bert-base", "a100", 10**9)
    total: dict[str, float] = {}
    for _, item, _, _, number in result.counts():
        total[item] = total.get(item, 0) + number
    data = result.data()
    assert total["multiply-adds"] == data["multiply_adds"] >= graph.flops()["matrix"] / 2
    assert total["memory bytes"] == data["memory_read_bytes"]
