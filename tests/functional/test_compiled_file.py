"""Compiled programs in .tsim files: loaded and run without what made them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts


def model() -> ts.Graph:
    b = ts.GraphBuilder("small")
    x = b.input("x", [6, 20])
    w = b.weight("w", [20, 30], data=np.random.default_rng(1).standard_normal((20, 30)).astype(np.float32))
    b.output(b.apply("relu", b.linear(b.matmul(x, w), 8, name="out")), "y")
    return b.build()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "small.tsim"
    ts.compile(model(), "edge-8").save(path)
    return path


def test_round_trip(saved: Path) -> None:
    """Same tensors to the bit, same cycles, and the graph to verify against."""
    program, loaded = ts.compile(model(), "edge-8"), ts.Program.load(saved)
    x = np.random.default_rng(2).standard_normal((6, 20)).astype(np.float32)
    assert ts.execute(loaded, [x])["y"].tobytes() == ts.execute(program, [x])["y"].tobytes()
    assert ts.verify(loaded).ok
    assert ts.simulate(loaded).cycles == ts.simulate(program).cycles
    assert loaded.core.to_json() == program.core.to_json()
    assert loaded.machine is not None and loaded.machine.to_dict() == ts.Machine.load("edge-8").to_dict()
    assert ts.Graph.load(saved).core.equals(ts.Graph.load(saved).core)


def test_another_machine_may_be_named(saved: Path) -> None:
    slow = ts.Machine.load("edge-8").replace({"memory.bandwidth": "1 GB/s"})
    assert ts.simulate(ts.Program.load(saved, slow)).cycles > ts.simulate(ts.Program.load(saved)).cycles


@pytest.mark.parametrize("part", [0, 7, 15, 100, 0.5, 0.99])
def test_cut_off(saved: Path, part: float) -> None:
    data = saved.read_bytes()
    kept = int(part * len(data)) if isinstance(part, float) else part
    saved.write_bytes(data[:kept])
    with pytest.raises(ts.UserError):
        ts.execute(ts.Program.load(saved))


def rewritten(path: Path, change: dict[str, object]) -> None:
    data = path.read_bytes()
    length = int.from_bytes(data[8:16], "little")
    header = json.dumps({**json.loads(data[16 : 16 + length]), **change}).encode()
    header += b" " * (-(len(header) + 16) % 64)
    path.write_bytes(data[:8] + len(header).to_bytes(8, "little") + header + data[16 + length :])


def test_newer_version(saved: Path) -> None:
    rewritten(saved, {"version": 2})
    with pytest.raises(ts.UserError, match="newer version"):
        ts.Program.load(saved)


def test_graph_files_are_not_programs(tmp_path: Path) -> None:
    path = tmp_path / "graph.tsim"
    model().save(path)
    with pytest.raises(ts.UserError, match="not a compiled program"):
        ts.Program.load(path)


def test_programs_without_a_graph_are_json(tmp_path: Path) -> None:
    program = ts.compile(model(), "edge-8")
    with pytest.raises(ts.UserError, match="no weights"):
        ts.Program(program.core).save(tmp_path / "x.tsim")
