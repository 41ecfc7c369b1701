"""Tuning: the same result for any number of workers, never worse than the heuristic, interruptible and resumable."""

from __future__ import annotations

import concurrent.futures
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.command import tilesim
from tilesim import tune as tune_function
from tilesim.mapping import products

tuning: Any = sys.modules[tune_function.__module__]


def net() -> ts.Graph:
    b = ts.GraphBuilder("net", dtype="f32")
    x = b.input("x", (96, 64))
    for name, width in (("first", 80), ("second", 64), ("third", 80)):
        x = b.apply("relu", b.linear(x, width, name=name))
    b.output(x, "y")
    return b.build()


def outcome(study: ts.study.Study) -> tuple[Any, ...]:
    return (study.best.entries, [dict(row) for row in study.rows], study.result.cycles if study.result else None)


def test_same_for_any_number_of_workers() -> None:
    graph = net()
    one = ts.tune(graph, "edge-8", budget=24, jobs=1)
    assert (
        outcome(one)
        == outcome(ts.tune(graph, "edge-8", budget=24, jobs=2))
        == outcome(ts.tune(graph, "edge-8", budget=24, jobs=4))
    )
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert outcome(one) == outcome(ts.tune(graph, "edge-8", budget=24, executor=pool))
    assert len(one.table()) >= 24 and one.result is not None and one.baseline is not None
    assert [row["count"] for row in one.operations] == [2, 1], "first and third are one distinct operation"


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
@pytest.mark.parametrize("budget", [1, 2, 20])
def test_never_worse_and_right(machine: str, budget: int) -> None:
    graph = net()
    study = ts.tune(graph, machine, budget=budget)
    assert study.result is not None
    program = ts.compile(graph, machine, mapping=study.best)
    assert study.result.cycles == ts.simulate(program).cycles <= ts.simulate(graph, machine).cycles
    assert all(row["best_cycles"] <= row["default_cycles"] for row in study.operations)
    assert all(row["cycles"] is None or row["bound"] <= row["cycles"] + 1 for row in study.rows)
    assert ts.verify(program).ok


def test_a_table_that_hurts_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products measured alone may mislead; the whole graph decides."""

    def backwards(*arguments: Any) -> list[Any]:
        return [(-value if value > 0 else value, why) for value, why in measure(*arguments)]

    measure = tuning._measure
    monkeypatch.setattr(tuning, "_measure", backwards)
    study = ts.tune(net(), "edge-8", budget=24)
    assert study.result is not None and study.baseline is not None
    assert study.result.cycles <= study.baseline.cycles
    kept = {kernel.operation: kernel.nest for kernel in ts.mapping.kernels(net(), "edge-8", mapping="heuristic")}
    assert study.best.entries in ({}, kept)


def test_closer_fidelity_decides() -> None:
    graph = ts.workloads.matmul(256, 256, 256, dtype="bf16")
    study = ts.tune(graph, "tpu-v3", budget=12, confirm="bank")
    again = [row for row in study.rows if "bank" in row["note"]]
    assert 4 <= len(again) <= 5 and study.result is not None and study.baseline is not None
    assert study.result.cycles == ts.simulate(ts.compile(graph, "tpu-v3", mapping=study.best), memory="bank").cycles
    assert study.result.cycles <= study.baseline.cycles == ts.simulate(graph, "tpu-v3", memory="bank").cycles
    with pytest.raises(ts.UserError, match=r"memory\.part"):
        ts.tune(graph, "edge-8", budget=4, confirm="bank")
    with pytest.raises(ts.UserError, match="fidelity"):
        ts.tune(graph, "edge-8", budget=4, memory="exact")


def test_costs_and_tuned_strategies() -> None:
    graph = net()
    cycles = {
        how: ts.simulate(ts.compile(graph, "edge-8", mapping=how)).cycles for how in ("heuristic", "cost", "tuned")
    }
    assert cycles["tuned"] <= cycles["heuristic"]
    assert ts.verify(ts.compile(graph, "edge-8", mapping="cost")).ok


def test_grouped_convolution() -> None:
    """On the vector unit where that was chosen, also with a table."""
    graph = ts.workloads.conv2d(1, 32, 14, 14, 32, 3, padding=1, groups=32, dtype="f32")
    study = ts.tune(graph, "edge-8", budget=8)
    program = ts.compile(graph, "edge-8", mapping=study.best)
    assert study.best.entries["conv2d"]["unit"] == "vector"
    assert ts.verify(program).ok


def test_wrong_calls() -> None:
    with pytest.raises(ts.UserError, match="budget"):
        ts.tune(net(), "edge-8", budget=0)
    with pytest.raises(ts.UserError, match="matmul:M,N,K"):
        ts.tune("matmul:1,2", "edge-8")
    assert ts.tune("matmul:16,24,8", "edge-8", budget=4).result is not None


# --- interruption and the store -----------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many candidates were simulated; interrupts once at a given count."""
    measure = tuning._measure
    seen: list[int] = []

    def wrapped(*args: Any) -> Any:
        if wrapped.limit is not None and len(seen) >= wrapped.limit:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        result = measure(*args)
        seen.extend([1] * len(result))
        return result

    wrapped.limit = None  # type: ignore[attr-defined]
    monkeypatch.setattr(tuning, "_measure", wrapped)
    yield seen


def test_interrupted_and_resumed(tmp_path: Path, counted: list[int]) -> None:
    graph, path = net(), tmp_path / "store.sqlite"
    whole = ts.tune(graph, "edge-8", budget=24, jobs=1)
    all_of_them = len(counted)
    counted.clear()
    tuning._measure.limit = 28
    study = ts.tune(graph, "edge-8", budget=24, jobs=1, store=path)
    assert study.interrupted and "whole graph not yet simulated" in repr(study) and "interrupted" in repr(study)
    assert f"{sum(row['cycles'] is not None for row in study.rows)} candidates simulated" in repr(study)
    assert study.result is not None and study.baseline is not None
    assert "not yet" not in repr(study) and f"{study.gain:.3f} times as fast" in repr(study)
    assert study.result.cycles <= study.baseline.cycles
    done = len(counted)
    assert 0 < done < all_of_them
    tuning._measure.limit = None
    resumed = ts.tune(graph, "edge-8", budget=24, store=path)
    assert outcome(resumed) == outcome(whole) and not resumed.interrupted
    assert 28 <= done <= len(counted) <= all_of_them + 4, "what the store knows is not simulated again"
    counted.clear()
    assert outcome(ts.tune(graph, "edge-8", budget=24, store=path)) == outcome(whole) and not counted
    ts.tune(graph, ts.Machine.load("edge-8").replace({"memory.latency": "61 ns"}), budget=24, store=path)
    assert counted, "another machine"


WRITER = textwrap.dedent(
    """
    import sys, tilesim as ts
    store = ts.Store(sys.argv[1])
    for i in range(int(sys.argv[3])):
        store.put({f"{sys.argv[2]}-{i}-{j}": [i, j] for j in range(5)})
        print(i, flush=True)
    """
)


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)


def test_two_writers(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    processes = [writer(path, name, 40) for name in ("a", "b")]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    store = ts.Store(path)
    assert len(store) == 400 and store.get(["a-3-4", "b-39-0"]) == {"a-3-4": [3, 4], "b-39-0": [39, 0]}


def test_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    process = writer(path, "a", 1000000)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    store = ts.Store(path)
    assert len(store) >= 25 and len(store) % 5 == 0, "each write is whole or absent"
    store.put({"new": 1})
    assert store.get(["new", "a-0-0"]) == {"new": 1, "a-0-0": [0, 0]}


def test_damaged_and_newer_files(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"this is no database, and long enough to be read as a header of one " * 40)
    with pytest.raises(ts.UserError, match="damaged, or not a store"):
        ts.tune("matmul:8,8,8", "edge-8", budget=2, store=text)
    path = tmp_path / "store.sqlite"
    store = ts.Store(path)
    store.put({f"{i:064}": [i, ""] for i in range(2000)})
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:12288] = b"\xa5" * 8192
    path.write_bytes(data)
    with pytest.raises(ts.UserError, match="damaged") as caught:
        ts.Store(path).get([f"{i:064}" for i in range(2000)])
    assert str(path) in str(caught.value)
    newer = tmp_path / "newer.sqlite"
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(ts.UserError, match="newer version"):
        ts.Store(newer)
    with pytest.raises(ts.UserError, match="cannot be written"):
        ts.Store(tmp_path / "missing" / "store.sqlite")


# --- command line -------------------------------------------------------------------------------------------------


def command(*arguments: str, code: int = 0) -> str:
    done = tilesim(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_commands(tmp_path: Path) -> None:
    shown = command("map", "matmul:96,64,80", "--machine", "edge-8", "--show", "--budget", "8")
    for word in ("heuristic", "cost", "tuned", "off chip", "simulated", "gap", "x as fast"):
        assert word in shown
    table = tmp_path / "best.json"
    store = tmp_path / "store.sqlite"
    arguments = ("tune", "matmul:96,64,80", "--machine", "edge-8", "--budget", "8", "--jobs", "2")
    first = command(*arguments, "--resume", str(store), "--save", str(table))
    assert first == command(*arguments, "--resume", str(store))
    assert "1 hits" in command("map", "matmul:96,64,80", "--machine", "edge-8", "--table", str(table))
    assert "1 hits" in command("map", "matmul:96,64,80", "--machine", "edge-8", "--tiles", "m=32,n=16")
    assert "1 illegal" in command("map", "matmul:96,64,80", "--machine", "edge-8", "--tiles", "m=97", code=2)
    sizes = tmp_path / "sizes.json"
    sizes.write_text(json.dumps({"96_80_64": {"TILE_M": 0, "TILE_K": 8, "TILE_N": 8}}), encoding="utf-8")
    assert "at least 1" in command("map", "matmul:96,64,80", "--table", str(sizes), code=2)
    assert "matmul:M,N,K" in command("map", "matmul:96,64", code=2)


def test_an_interrupted_sweep_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that were simulated before the interruption are not simulated again."""
    sweep = importlib.import_module("tilesim.study.work")
    graph, changes = net(), {"memory.latency": ["60 ns", "100 ns", "200 ns", "300 ns"]}
    real, done = sweep._point, []

    def point(*task: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task)
        return real(*task)

    monkeypatch.setattr(sweep, "_point", point)
    with pytest.raises(KeyboardInterrupt):
        ts.sweep(graph, "edge-8", changes, store=tmp_path / "s", jobs=1)
    assert len(ts.Store(tmp_path / "s")) == 2
    monkeypatch.setattr(sweep, "_point", lambda *task: (done.append(task), real(*task))[1])
    table = ts.sweep(graph, "edge-8", changes, store=tmp_path / "s", jobs=1)
    assert len(done) == 4 and table.rows == ts.sweep(graph, "edge-8", changes).rows[:4]


def test_sweep_over_machines_and_mappings(tmp_path: Path) -> None:
    graph = net()
    changes = {"core.array.count": [1, 2], "memory.latency": ["60 ns", "200 ns"]}
    table = ts.sweep(graph, ["edge-8", "tpu-v3"], changes, mappings=["heuristic", "cost"], store=tmp_path / "s")
    assert len(table) == 16 and {row["machine"] for row in table.rows} == {"edge-8", "tpu-v3"}
    assert table.rows == ts.sweep(graph, ["edge-8", "tpu-v3"], changes, mappings=["heuristic", "cost"], jobs=1).rows
    assert len(ts.Store(tmp_path / "s")) == 16
    again = ts.sweep(graph, ["edge-8", "tpu-v3"], changes, mappings=["heuristic", "cost"], store=tmp_path / "s")
    assert again.rows == table.rows
    one = ts.sweep(graph, "edge-8", {"core.array.count": [2]})
    assert (
        one.rows[0]["cycles"] == ts.simulate(graph, ts.Machine.load("edge-8").replace({"core.array.count": 2})).cycles
    )


@pytest.mark.parametrize("words", ["matmul:96,64,80", "matmul:33,700,65", "matmul:8,4096,8"])
def test_nests_shown_are_those_of_the_rules(words: str) -> None:
    """Each name once, at a nest that it chose; the default by a name of its own only where no rule chooses it."""
    graph, machine = ts.workloads.matmul(*map(int, words.partition(":")[2].split(","))), ts.Machine.load("edge-8")
    (chosen,) = products(graph, machine)
    rules = {rule: products(graph, machine, mapping=rule)[0].nest for rule in ("heuristic", "cost")}
    lines = command("map", words, "--machine", "edge-8", "--show", "--budget", "2").splitlines()
    heads = [line.split(", ") for line in lines if line.partition(",")[0] in {*rules, "tuned", "profile (default)"}]
    names = [name for head in heads for name in head]
    assert len(names) == len(set(names)) and {*rules, "tuned"} <= set(names)
    assert ("profile (default)" in names) == (chosen.nest not in rules.values())
    for head in heads:
        nests = [rules[name] for name in head if name in rules]
        assert all(nest == nests[0] for nest in nests)


@pytest.mark.parametrize("shape", [(16, 9, 1), (16, 2, 9, 1)])
def test_scans_with_one_lane(shape: tuple[int, ...]) -> None:
    """The tuner starts from the tiles of the compiler, whose lane is legal."""
    b = ts.GraphBuilder("scan")
    b.output(b.op("cumulative", b.input("x", list(shape)), dim=0, combiner="maximum"), "y")
    assert ts.tune(b.build(), "tpu-v3", budget=2).table().rows
