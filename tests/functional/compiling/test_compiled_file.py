"""Compiled programs in .tsim files: loaded and run without what made them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.unlowered import by_size


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
    rewritten(saved, {"version": 3})
    with pytest.raises(ts.UserError, match="newer version"):
        ts.Program.load(saved)


def test_graph_files_are_not_programs(tmp_path: Path) -> None:
    path = tmp_path / "graph.tsim"
    model().save(path)
    with pytest.raises(ts.UserError, match="not a compiled program"):
        ts.Program.load(path)


def test_programs_without_a_graph_are_json(tmp_path: Path) -> None:
    program = ts.compile(model(), "edge-8")
    with pytest.raises(ts.UserError, match="lacks the weights"):
        ts.Program(program.core).save(tmp_path / "x.tsim")


def spectrum() -> ts.Graph:
    b = ts.GraphBuilder("spectrum")
    h = b.linear(b.input("x", (16, 32)), 64, name="mix")
    real, _ = by_size(b, h, "spectrum", 1)
    b.output(b.linear(real, 8, name="head"), "y")
    return b.build()


def test_programs_with_parts_for_the_host(tmp_path: Path) -> None:
    """Parts, transfers and the plan come back: same tensors, same cycles, without compiling."""
    program = ts.compile(spectrum(), "tpu-v3", fallback="host")
    program.save(tmp_path / "mixed.tsim")
    loaded = ts.Program.load(tmp_path / "mixed.tsim")
    assert type(loaded).__name__ == "MixedProgram"
    assert loaded.placement.rows == program.placement.rows and loaded.transfers.rows == program.transfers.rows
    x = np.random.default_rng(2).standard_normal((16, 32)).astype(np.float32)
    assert ts.execute(loaded, [x])["y"].tobytes() == ts.execute(program, [x])["y"].tobytes()
    assert ts.verify(loaded).ok
    mine, theirs = ts.simulate(loaded), ts.simulate(program)
    assert mine.cycles == theirs.cycles and mine.host_share == theirs.host_share > 0
    assert mine.data["approximations"] == theirs.data["approximations"]
    copied = pickle.loads(pickle.dumps(program))
    assert ts.simulate(copied).cycles == theirs.cycles
    with pytest.raises(ts.UserError, match="several tile programs"):
        program.save(tmp_path / "mixed.json")


@pytest.mark.parametrize(
    "change",
    [
        {"mixed": {}},
        {"mixed": {"parts": [], "plan": None, "host": {}}},
        {"mixed": 7},
        {"version": 3},
        {"defaults": {"x": "?"}},
        {"defaults": {"nobody": ""}},
    ],
    ids=str,
)
def test_damaged_parts(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "mixed.tsim"
    ts.compile(spectrum(), "tpu-v3", fallback="host").save(path)
    rewritten(path, change)
    with pytest.raises(ts.UserError):
        ts.Program.load(path)


def test_inputs_that_may_be_left_out_stay_so(tmp_path: Path) -> None:
    graph = model()
    graph.defaults["x"] = np.arange(120, dtype=np.float32).reshape(6, 20)
    graph.assumptions.append("x is a ramp")
    program = ts.compile(graph, "edge-8")
    program.save(tmp_path / "m.tsim")
    loaded = ts.Program.load(tmp_path / "m.tsim")
    assert ts.execute(loaded, {})["y"].tobytes() == ts.execute(program, {})["y"].tobytes()
    assert "x is a ramp" in ts.simulate(loaded).approximations


@pytest.mark.parametrize("size, mode", [((7, 2), "bilinear"), ((6, 6), "bicubic")])
def test_a_graph_from_a_file_compiles_alike(size: tuple[int, int], mode: str) -> None:
    """Import and passes number values in other orders than a file; choices of the compiler follow the numbers."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = torch.nn.Upsample(size=size, mode=mode)
    graph = ts.from_torch(module, (torch.zeros(1, 2, 4, 5),))
    for machine in ("tpu-v3", "chiplet-2"):
        one, other = (
            ts.compile(found, machine).core.to_json() for found in (graph, ts.Graph.from_dict(graph.to_dict()))
        )
        assert one == other
