"""Stores of tile latencies: the same cycles with and without, hits, files, versions, other sources."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core
from tilesim.timing.latencies import scale_sim_latency

SQUARE = "mma i8 i8 b1 m64 n64 k64 ko1"


@pytest.fixture(scope="module")
def program() -> Any:
    b = ts.GraphBuilder("net", dtype="f32")
    x = b.linear(b.input("x", (100, 70)), 90, name="fc")
    b.output(b.op("softmax", x, dim=1), "y")
    return ts.compile(b.build(), "edge-8")


def test_same_cycles_and_hits(program: Any) -> None:
    plain = ts.simulate(program)
    store = ts.TileLatencies()
    first, second = (ts.simulate(program, latencies=store) for _ in range(2))
    assert plain.cycles == first.cycles == second.cycles
    one, two = first.data["tile_latencies"], second.data["tile_latencies"]
    assert one["hits"] == 0 and one["misses"] == one["added"] == len(store) > 0
    assert two["misses"] == two["added"] == 0 and two["hits"] == one["misses"]
    assert one["memory_misses"] == one["misses"] and one["memory_hits"] == two["memory_hits"] > 0
    assert (store.hits, store.misses) == (two["hits"], one["misses"])
    assert not any("tile latencies" in text for text in second.approximations)


def test_what_is_stored_is_what_the_closed_form_says(program: Any) -> None:
    machine, store = ts.Machine.load("edge-8"), ts.TileLatencies()
    ts.simulate(program, latencies=store)
    rows = store.table(machine).rows
    assert {"mma", "vector"} <= {row["compute"].split()[0] for row in rows} <= {"mma", "permute", "vector"}
    for row in rows:
        assert dict(_core.closed_form_latency(machine.core, row["compute"])) == {
            key: value for key, value in row.items() if key != "compute"
        }


def test_on_disk(program: Any, tmp_path: Path) -> None:
    path = tmp_path / "latencies.sqlite"
    store = ts.TileLatencies(path)
    ts.simulate(program, latencies=store)
    other = ts.TileLatencies(path)  # while the first is still open
    again = ts.simulate(program, latencies=other).data["tile_latencies"]
    assert again["misses"] == 0 and again["hits"] == len(store) == len(other)
    store.close()
    other.close()
    (tmp_path / "text").write_bytes(b"no database at all, but long enough to look like one " * 30)
    with pytest.raises(ts.UserError, match="damaged, or not a store"):
        ts.TileLatencies(tmp_path / "text")


def test_units_and_versions_are_apart(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, machine = tmp_path / "latencies.sqlite", ts.Machine.load("edge-8")
    ts.simulate(program, latencies=ts.TileLatencies(path))
    assert len(ts.TileLatencies(path).table(machine.replace({"memory.latency": "99 ns"}))) > 0, (
        "memory has no part in it"
    )
    assert len(ts.TileLatencies(path).table(machine.replace({"core.vector.divide": 9.0}))) == 0
    rtl = ts.TileLatencies(path, "rtl")
    rtl.add(machine, SQUARE, 4000)
    monkeypatch.setattr(_core, "__version__", "another")
    assert len(ts.TileLatencies(path).table(machine)) == 0, "closed forms may change between versions"
    assert len(ts.TileLatencies(path, "rtl").table(machine)) == 1, "measurements do not"


def test_another_source_decides(program: Any) -> None:
    """Latencies twice as long for everything: a compute-bound program takes about twice the time."""
    machine = ts.Machine.load("edge-8")
    closed, slow = ts.TileLatencies(), ts.TileLatencies(source="slow silicon")
    plain = ts.simulate(program, latencies=closed)
    rows = closed.table(machine).rows
    slow.update(
        machine,
        {row["compute"]: {k: v if k == "limit" else 2 * v for k, v in row.items() if k != "compute"} for row in rows},
    )
    result = ts.simulate(program, latencies=slow)
    assert plain.bottleneck in ("compute", "vector") and 1.5 < result.cycles / plain.cycles <= 2
    assert result.data["fidelity"]["tile latency"] == "slow silicon"
    (note,) = [text for text in result.approximations if "tile latencies" in text]
    assert f"{len(rows)} lookups from 'slow silicon'" in note and "nothing" not in note
    table = closed.compare(slow, machine)
    assert len(table) == len(rows) and all(row["ratio"] == 2 for row in table.rows if row["closed form"])


def test_holes_are_told(program: Any) -> None:
    """A source is not filled up with closed forms; the result counts them."""
    store = ts.TileLatencies(source="rtl")
    store.add("edge-8", SQUARE, 10)
    result = ts.simulate(program, latencies=store)
    assert result.cycles == ts.simulate(program).cycles and len(store) == 1
    (note,) = [text for text in result.approximations if "tile latencies" in text]
    assert str(result.data["tile_latencies"]["misses"]) in note and "'rtl'" in note


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (8, 8, 8), (64, 20, 30), (100, 9, 17)])
def test_scale_sim(m: int, n: int, k: int) -> None:
    """Edge-8 is weight stationary, 8 x 8: ceil(k / 8) ceil(n / 8) folds of m + 2 * 8 + 8 - 2 cycles."""
    want = math.ceil(k / 8) * math.ceil(n / 8) * (m + 22)
    assert scale_sim_latency("edge-8", f"mma bf16 bf16 b1 m{m} n{n} k{k} ko1") == want
    assert scale_sim_latency("edge-8", f"mma bf16 bf16 b3 m{m} n{n} k{k} ko1") == 3 * want
    assert scale_sim_latency("edge-8", "vector f32 e64 l8 f1,0,0,0 r0") is None


def test_two_sources_compared(program: Any) -> None:
    """SCALE-Sim overlaps no folds: never faster than ours for a product of one row after the other."""
    machine, closed = ts.Machine.load("edge-8").replace({"core.array.rates": {"f32": 1.0}}), ts.TileLatencies()
    program = ts.compile(program.graph, machine)
    ts.simulate(program, latencies=closed)
    scale_sim = ts.TileLatencies(source="scale-sim")
    covered = scale_sim.fill(machine, [row["compute"] for row in closed.table(machine).rows])
    table = closed.compare(scale_sim, machine)
    assert 0 < covered == len(table) < len(closed), "products only"
    assert all(row["ratio"] >= 1 and row["compute"].startswith("mma") for row in table.rows)
    assert [abs(math.log(row["ratio"])) for row in table.rows] == sorted(
        (abs(math.log(row["ratio"])) for row in table.rows), reverse=True
    )
    assert ts.simulate(program, latencies=scale_sim).cycles > ts.simulate(program).cycles
    with pytest.raises(ts.UserError, match="no common tile operation"):
        closed.compare(ts.TileLatencies(source="rtl"), machine)
    with pytest.raises(ts.UserError, match="closed form, scale-sim"):
        ts.TileLatencies(source="rtl").fill(machine, [SQUARE])


@pytest.mark.parametrize(
    "compute",
    ["", "mma", "mms bf16 bf16 m1", "mma bf16 bf16 m-1", "mma bf16 bf16 q7", "vector f32 f1,2", "vector f32 eight"],
)
def test_wrong_computes(compute: str) -> None:
    with pytest.raises(ts.UserError):
        ts.TileLatencies(source="rtl").add("edge-8", compute, 5)


def test_wrong_latencies() -> None:
    store = ts.TileLatencies(source="rtl")
    with pytest.raises(ts.UserError, match="from 0 on"):
        store.add("edge-8", SQUARE, -1)
    with pytest.raises(ts.UserError, match="until its last result"):
        store.add("edge-8", SQUARE, 10, done=9)
    with pytest.raises(ts.UserError, match="unknown part"):
        store.add("edge-8", SQUARE, 10, don=9)
    assert len(store) == 0


ROW = {"busy": 5, "weights_consumed": 5, "consumed": 5, "first": 2, "done": 5, "limit": "beats"}


def stored(path: Path) -> sqlite3.Connection:
    """A store of one latency from elsewhere, opened as any program may."""
    store = ts.TileLatencies(path, "rtl")
    store.update("edge-8", {SQUARE: ROW})
    store.close()
    return sqlite3.connect(path)


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("limit", 5, "'limit' of a tile latency is not a string"),
        ("limit", None, "'limit'"),
        ("busy", "5", "'busy' of a tile latency is not a number of cycles"),
        ("done", 5.5, "'done'"),
        ("first", True, "'first'"),
        ("consumed", -1, "'consumed'"),
        ("weights_consumed", None, "'weights_consumed'"),
        ("busy", 4, "was edited"),
        ("limit", "ports", "was edited"),
        ("check", "0" * 16, "was edited"),
        ("check", None, "was edited"),
    ],
)
def test_rows_that_were_edited_are_refused(part: str, value: Any, said: str, tmp_path: Path) -> None:
    """File, compute, value, and what is allowed are named; nothing is timed by an edited number."""
    path = tmp_path / "latencies.sqlite"
    with contextlib.closing(stored(path)) as connection:
        ((key, text),) = connection.execute("SELECT key, value FROM results").fetchall()
        row = json.loads(text) | {part: value}
        if value is None:
            del row[part]
        connection.execute("UPDATE results SET value = ? WHERE key = ?", (json.dumps(row), key))
        connection.commit()
    with pytest.raises(ts.UserError) as raised:
        ts.TileLatencies(path, "rtl").table("edge-8")
    for word in (str(path), SQUARE, said, "allowed"):
        assert word in str(raised.value)


def test_rows_of_another_compute_are_refused(tmp_path: Path) -> None:
    """A row that was copied to another key."""
    path = tmp_path / "latencies.sqlite"
    with contextlib.closing(stored(path)) as connection:
        connection.execute("UPDATE results SET key = replace(key, 'm64', 'm65')")
        connection.commit()
    with pytest.raises(ts.UserError, match=r"m65.*was edited"):
        ts.TileLatencies(path, "rtl").table("edge-8")


@pytest.mark.parametrize(("part", "value"), [("limit", 5), ("busy", "5"), ("done", None), ("first", 1.5)])
def test_rows_of_wrong_types_are_refused(part: str, value: Any) -> None:
    with pytest.raises(ts.UserError, match=f"'{part}'.*allowed"):
        ts.TileLatencies(source="rtl").update("edge-8", {SQUARE: ROW | {part: value}})


def test_a_store_of_kernels_learns_what_it_lacks_at_any_level() -> None:
    """Its kernels are timed as at level instruction; closed forms, which differ for this program, are not asked."""
    program = ts.compile(ts.workloads.softmax(64, 200), "edge-8")
    store, other = (ts.TileLatencies(source="instruction") for _ in range(2))
    plain, result = ts.simulate(program), ts.simulate(program, latencies=store)
    assert result.cycles == ts.simulate(program, level="instruction", latencies=other).cycles != plain.cycles
    assert store.table("edge-8").rows == other.table("edge-8").rows and len(store) > 0
    assert ts.simulate(program, latencies=store).data["tile_latencies"]["misses"] == 0
