"""Damaged .tsim files, of graphs and of compiled programs: refused with a message, or read; never a crash or a hang."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.mutate import damage_tree
from support.program_checks import limited_memory
from support.unlowered import by_size
from tilesim import _core
from tilesim._tensor import Tensor

SECONDS = 5.0  # of process time for one file: far above what any takes


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """Memory without end fails as MemoryError."""
    with limited_memory():
        yield


def small() -> ts.Graph:
    b = ts.GraphBuilder("small")
    x = b.input("x", (6, 20))
    w = b.weight("w", [20, 30], data=np.ones((20, 30), np.float32))
    b.output(b.apply("relu", b.linear(b.matmul(x, w), 8, name="out")), "y")
    graph = b.build()
    graph.defaults["x"] = np.arange(120, dtype=np.float32).reshape(6, 20)
    return graph


def spectrum() -> ts.Graph:
    b = ts.GraphBuilder("spectrum")
    real, _ = by_size(b, b.linear(b.input("x", (16, 32)), 64, name="mix"), "spectrum", 1)
    b.output(b.linear(real, 8, name="head"), "y")
    return b.build()


def halved() -> ts.Program:
    """A loop that data end, compiled for a count of trips."""
    b = ts.GraphBuilder("halved")
    test, step = b.function("test"), b.function("step")
    total = test.op("reduce", test.input("v", (4,)), dims=[0], combiner="add")
    test.output(test.apply("greater", total, test.scalar(1.0)))
    step.output(step.input("v", (4,)) * 0.5)
    found = b.core.op("while", [b.input("x", (4,)).value], {}, "loop", 1, ["test", "step"])
    b.output(Tensor(b, found[0]), "y")
    return ts.compile(b.build(), "edge-8", trips={"loop": 3})


def use(path: Path) -> None:
    """Reads all that is in a file."""
    program = ts.Program.load(path)
    assert isinstance(program.footprint, list)
    assert program.graph is not None
    for name in program.graph.weights():
        assert program.graph.weight(name).nbytes >= 0
    ts.Graph.load(path).flops()


def damaged(data: bytes, choose: random.Random) -> bytes:
    length = int.from_bytes(data[8:16], "little")
    what = choose.random()
    if what < 0.1:
        return data[: choose.randrange(len(data))]
    if what < 0.25:
        flipped = bytearray(data)
        for _ in range(choose.choice([1, 4, 16])):
            flipped[choose.randrange(len(data))] = choose.randrange(256)
        return bytes(flipped)
    header = json.loads(data[16 : 16 + length])
    if what < 0.6:  # beside the program, whose own reader is fuzzed elsewhere
        other = {key: value for key, value in header.items() if key not in ("program", "graph", "machine")}
        damage_tree(other, choose)
        header = {**{key: header[key] for key in ("program", "graph", "machine") if key in header}, **other}
    else:
        damage_tree(header, choose)
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 16) % 64)
    return data[:8] + len(text).to_bytes(8, "little") + text + data[16 + length :]


def fuzz(seeds: list[bytes], folder: Path, rounds: int) -> dict[str, int]:
    choose, outcomes = random.Random(23), {"read": 0, "refused": 0}
    path = folder / "damaged.tsim"
    for data in seeds:
        path.write_bytes(data)
        use(path)
    for _ in range(rounds):
        path.write_bytes(damaged(choose.choice(seeds), choose))
        start = time.process_time()
        try:
            use(path)
            outcomes["read"] += 1
        except ts.Error as error:
            assert str(error).strip()
            outcomes["refused"] += 1
        assert time.process_time() - start < SECONDS
    return outcomes


def seeds(folder: Path) -> list[bytes]:
    programs = [ts.compile(small(), "edge-8"), ts.compile(spectrum(), "tpu-v3", fallback="host"), halved()]
    found = []
    for program in programs:
        program.save(folder / "seed.tsim")
        found.append((folder / "seed.tsim").read_bytes())
    return found


def test_damaged_compiled_files(tmp_path: Path) -> None:
    outcomes = fuzz(seeds(tmp_path), tmp_path, 300)
    print(outcomes)
    assert min(outcomes.values()) >= 20


@pytest.mark.parametrize(
    "layout",
    [{"minor_to_major": [0]}, {"minor_to_major": [0, 0]}, {"tile": [8]}, {"tile": [2, 8, 128]}],
    ids=str,
)
def test_layouts_that_fit_no_tensor(layout: dict[str, list[int]]) -> None:
    document = json.loads(ts.compile(small(), "tpu-v3").core.to_json())
    document["tensors"][0].update(layout)
    with pytest.raises(ts.UserError, match=r"minor_to_major|tile"):
        _core.Program.from_json(json.dumps(document))


@pytest.mark.slow
def test_many_damaged_compiled_files(tmp_path: Path) -> None:
    print(fuzz(seeds(tmp_path), tmp_path, 10000))
