"""Values that are seen through reshapes on several cores: they stay in scratchpads, and kernels that store them apart
are divided."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.timing import execution


def machine_of(cores: int) -> ts.Machine:
    return ts.Machine.load("mesh-16").replace({"core.count": cores})


def check(program: ts.Program, other: ts.Program, seed: int) -> None:
    wanted = ts.execute(other, seed=seed)
    for order in ("text", "early_loads", "random"):
        found = ts.execute(program, seed=seed, order=order, poison=True)
        assert all(found[name].tobytes() == array.tobytes() for name, array in wanted.items()), order
    _core.execute(program.core, execution._arrays(program, None, seed), find_races=True)


def heads(rows: int, count: int, width: int) -> ts.Graph:
    """A product whose columns are heads, of which each is a softmax, and a product that reads them as columns again."""
    b = ts.GraphBuilder("heads")
    x = b.linear(b.input("x", [rows, 48]), count * width, name="first")
    split = b.op("reshape", x, shape=[rows, count, width])
    y = b.op("softmax", b.apply("tanh", split), dim=2, name="rows")
    b.output(b.linear(b.op("reshape", y, shape=[rows, count * width]), 40, name="last"), "y")
    return b.build()


@pytest.mark.singly
@pytest.mark.parametrize(
    ("rows", "count", "width", "least"),  # twice: neither written nor read by anybody but the cores
    [(64, 8, 64, 0), (37, 3, 20, 0), (256, 8, 64, 2), (96, 1, 128, 0), (5, 16, 4, 0)],
)
@pytest.mark.parametrize("cores", [2, 4, 16])
def test_values_seen_through_reshapes_stay(rows: int, count: int, width: int, least: int, cores: int) -> None:
    graph, machine = heads(rows, count, width), machine_of(cores)
    same = [
        rule for rule in ts.mapping.fusion_rules() if rule != "prologue"
    ]  # whose price knows what stays: other sums
    usual = ts.compile(graph, machine, lowering="best", mapping="heuristic", residency="none", fuse=same)
    program = ts.compile(graph, machine, lowering="best", mapping="heuristic", fuse=same)
    check(program, usual, rows)
    before, after = ts.simulate(usual), ts.simulate(program)
    assert after.memory_bytes <= before.memory_bytes
    if cores != 4:  # there, by the price, one of the two is better read from memory
        assert before.memory_bytes - after.memory_bytes >= least * rows * count * width * 4


def windows(size: int, window: int, channels: int) -> ts.Graph:
    """An image cut into windows, rows of a window behind each other."""
    b = ts.GraphBuilder("windows")
    n = size // window
    x = b.op("reshape", b.input("x", [n * window, n * window, channels]), shape=[n, window, n, window, channels])
    x = b.op("transpose", x, permutation=[0, 2, 1, 3, 4], name="turn")
    b.output(b.op("reshape", x, shape=[n * n, window * window, channels], name="cut"), "y")
    return b.build()


@pytest.mark.parametrize("window", [4, 7, 8])
def test_windows_are_cut_by_all_cores(window: int) -> None:
    """A trip stores rows that lie between those of other trips."""
    program = ts.compile(windows(56, window, 96), machine_of(16), lowering="best")
    assert not any("alone" in note for note in program.notes)
    values = np.random.default_rng(window).standard_normal((56, 56, 96)).astype(np.float32)
    n = 56 // window
    wanted = values.reshape(n, window, n, window, 96).transpose(0, 2, 1, 3, 4).reshape(n * n, window * window, 96)
    for order in ("text", "random"):
        found = ts.execute(program, {"x": values}, order=order, poison=True)
        assert np.array_equal(found["y"], wanted)
    _core.execute(program.core, {"x": values}, find_races=True)
    rows = [row for row in ts.simulate(program).units().rows if ".load" in row["unit"]]
    busy = {row["unit"].split(".")[0] for row in rows if row["bytes"] > 0}
    assert len(busy) >= 7, busy
