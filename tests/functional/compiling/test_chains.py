"""Products one behind the other as one kernel: values to the bit, what moves by hand, when it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts

OTHERS = [rule for rule in ts.mapping.fusion_rules() if rule != "chain"]
Build = Callable[[ts.GraphBuilder], Any]


def built(build: Build) -> ts.Graph:
    b = ts.GraphBuilder("chains")
    b.output(build(b), "y")
    return b.build()


def convolution(b: ts.GraphBuilder, x: Any, name: str, weights: tuple[int, ...], **options: Any) -> Any:
    w = b.input(name, list(weights))
    return b.op("convolution", x, w, x_labels="NC01", w_labels="OI01", y_labels="NC01", name=f"by_{name}", **options)


def inverted(b: ts.GraphBuilder, rows: int = 28, hidden: int = 96, stride: int = 1) -> Any:
    x = b.input("x", [1, 16, rows, rows])
    wide = b.apply("relu", convolution(b, x, "e", (hidden, 16, 1, 1)))
    window = dict(strides=[stride, stride], pads=[1, 1, 1, 1], groups=hidden)
    deep = b.apply("relu", convolution(b, wide, "d", (hidden, 1, 3, 3), **window))
    return convolution(b, deep, "p", (24, hidden, 1, 1))


def mlp(b: ts.GraphBuilder, rows: int = 2048) -> Any:
    wide = b.matmul(b.input("x", [rows, 32]), b.input("w", [32, 64]), name="up")
    return b.matmul(b.apply("relu", wide + b.input("bias", [64])), b.input("v", [64, 32]), name="down")


def chains(program: ts.Program) -> list[Any]:
    return [row for row in program.fusion.table().rows if row["rule"] == "chain"]


def values(graph: ts.Graph, seed: int) -> dict[str, Any]:
    """Small integers: sums in any order have the same bits."""
    random = np.random.default_rng(seed)
    types = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}
    rows = graph.core.inputs
    return {row["name"]: random.integers(-2, 3, tuple(row["shape"])).astype(types[row["dtype"]]) for row in rows}


def same_bits(graph: ts.Graph, machine: Any, seed: int) -> ts.Program:
    program = ts.compile(graph, machine, lowering="best")
    given = values(graph, seed)
    wanted = ts.execute(ts.compile(graph, machine, lowering="best", residency="none", fuse=OTHERS), given)
    np.testing.assert_array_equal(ts.execute(program, given, poison=True, find_races=True)["y"], wanted["y"])
    np.testing.assert_array_equal(ts.execute(program, given, order="random", seed=seed)["y"], wanted["y"])
    return program


@pytest.mark.parametrize("stride", [1, 2])
def test_an_inverted_residual_is_one_kernel(stride: int) -> None:
    graph = built(lambda b: inverted(b, rows=56, hidden=96, stride=stride))
    program = same_bits(graph, "edge-8", 0)
    (row,) = [row for row in chains(program) if row["decision"] == "taken"]
    assert row["bytes_saved"] > 0 and row["cycles_saved"] > 0 and len(row["operations"]) >= 4
    assert ts.verify(program).ok
    together, apart = (ts.simulate(ts.compile(graph, "edge-8", lowering="best", fuse=fuse)) for fuse in ("all", OTHERS))
    assert together.memory_bytes < apart.memory_bytes and together.cycles < apart.cycles
    assert together.memory_bytes >= together.bounds.bytes and together.seconds >= together.bounds.seconds


def test_what_moves_by_hand() -> None:
    """Each block of rows reads its rows of the image, one more at each side, and all weights; the result is stored."""
    graph = built(lambda b: inverted(b, rows=14, hidden=96))
    program = ts.compile(graph, "edge-8", lowering="best", residency="none")
    (row,) = [row for row in chains(program) if row["decision"] == "taken"]
    assert len(row["operations"]) == 5 and len(program.kernels) == 1
    block = int(row["reason"].split("tiles of ")[1].split()[0])
    starts = range(0, 14, block)
    read = sum(min(14, start + min(block, 14 - start) + 1) - max(0, start - 1) for start in starts)
    hidden = int(row["reason"].split(" hidden channels")[0].split()[-1])
    elements = 14 * (read * 16 + 14 * 24) + len(starts) * 96 * (16 + 9)
    runs = len(starts) * 24 * -(-96 // hidden)  # of the last product's weights, each in whole bursts of 64 bytes
    bytes_moved = 4 * elements + runs * -(-4 * hidden // 64) * 64
    assert ts.simulate(program).memory_bytes == pytest.approx(bytes_moved, rel=0.03)


def test_rows_that_two_blocks_need_are_counted() -> None:
    rows = chains(ts.compile(built(lambda b: inverted(b, rows=112, hidden=96)), "edge-8", lowering="best"))
    again = [row["recomputed_flops"] for row in rows if row["operations"][0] == "by_e"]
    assert again and all(flops >= 0 and flops % (2 * 112 * 16 * 96) == 0 for flops in again)  # whole rows
    assert any(again)


def test_names_inside_are_verified() -> None:
    program = ts.compile(built(lambda b: inverted(b, rows=14, hidden=96)), "edge-8", lowering="best", residency="none")
    text = str(ts.verify(program))
    assert all(f"by_{name}" in text for name in "edp")


def read_elsewhere(b: ts.GraphBuilder) -> Any:
    wide = b.matmul(b.input("x", [2048, 32]), b.input("w", [32, 64]))
    b.output(wide, "hidden")
    return b.matmul(wide, b.input("v", [64, 32]))


def grouped(b: ts.GraphBuilder) -> Any:
    wide = convolution(b, b.input("x", [1, 16, 28, 28]), "e", (96, 16, 1, 1))
    return convolution(b, wide, "d", (96, 2, 3, 3), pads=[1, 1, 1, 1], groups=48)


def dense_behind(b: ts.GraphBuilder) -> Any:
    wide = convolution(b, b.input("x", [1, 16, 28, 28]), "e", (32, 16, 1, 1))
    return convolution(b, wide, "d", (32, 32, 3, 3), pads=[1, 1, 1, 1])


def whole_inside(b: ts.GraphBuilder) -> Any:
    wide = b.matmul(b.input("x", [2048, 32]), b.input("w", [32, 64])) + b.input("z", [2048, 64])
    return b.matmul(wide, b.input("v", [64, 32]))


REFUSED: dict[str, tuple[Build, str, str]] = {
    "channels in groups": (grouped, "edge-8", "groups of several"),
    "a window over channels behind": (dense_behind, "edge-8", "stands behind another product"),
    "a value of the shape inside": (whole_inside, "edge-8", "only the last product"),
    "lanes padded in memory": (mlp, "tpu-v3", "pads its lanes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_legal_says_why(name: str) -> None:
    build, machine, reason = REFUSED[name]
    rows = chains(ts.compile(built(build), machine, lowering="best"))
    assert rows and all(row["decision"] == "not legal" and reason in row["reason"] for row in rows)


def test_what_is_read_elsewhere_is_looked_at_by_nobody() -> None:
    assert not chains(ts.compile(built(read_elsewhere), "edge-8", lowering="best"))


def test_no_tile_fits() -> None:
    machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "4 KiB"})
    rows = chains(ts.compile(built(lambda b: inverted(b, rows=56)), machine, lowering="best"))
    assert any(row["decision"] == "not legal" and "no tile" in row["reason"] for row in rows)


def test_small_ones_are_not_worth_it() -> None:
    rows = chains(ts.compile(built(lambda b: mlp(b, rows=4)), "edge-8", lowering="best"))
    assert rows and all(row["decision"] == "not worth it" and "by estimate" in row["reason"] for row in rows)


def test_not_where_it_is_switched_off_or_asked_for() -> None:
    graph = built(lambda b: inverted(b, rows=14, hidden=96))
    assert not chains(ts.compile(graph, "edge-8", lowering="best", fuse=OTHERS))
    (name,) = (value for value in ("relu",) if value)
    program = ts.compile(graph, "edge-8", lowering="best", residency={name: "memory"})
    taken = [row["operations"] for row in chains(program) if row["decision"] == "taken"]
    assert all("by_e" not in operations for operations in taken)


class _Random:
    """Chains of every kind with odd extents, windows, pads, strides and dilations."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.b = ts.GraphBuilder(f"chain{seed}")
        self.dtype = str(self.random.choice(["f32", "f32", "bf16"]))
        self.count = 0
        self.last = bool(self.random.integers(2))  # channels
        self.labels = ("N01C", "01IO") if self.last else ("NC01", "OI01")

    def size(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))

    def input(self, *shape: int) -> Any:
        self.count += 1
        return self.b.input(f"in{self.count}", list(shape), self.dtype)

    def behind(self, value: Any, axis: int, channels: int) -> Any:
        for _ in range(self.size(0, 3)):
            kind = self.random.choice(["relu", "negate", "bias"])
            if kind == "bias":
                shape = [1] * 4
                shape[axis] = channels
                value = value + self.input(*shape[max(0, 4 - len(value.shape)) :])
            else:
                value = self.b.apply(str(kind), value)
        return value

    def product(self, x: Any, out: int, into: int, window: tuple[int, int], groups: int = 1, **options: Any) -> Any:
        shape = (*window, into, out) if self.last else (out, into, *window)
        labels, weights = self.labels
        y = self.b.op("convolution", x, self.input(*shape), *([self.input(out)] if self.size(0, 2) else []),
                      x_labels=labels, w_labels=weights, y_labels=labels, groups=groups, **options)  # fmt: skip
        return self.behind(y, 3 if self.last else 1, out)

    def windows(self, extents: list[int]) -> dict[str, Any]:
        taps = [self.size(1, 4) for _ in extents]
        dilation = [self.size(1, 3) for _ in extents]
        pads = []
        for i, extent in enumerate(extents):
            span = (taps[i] - 1) * dilation[i] + 1
            sides = [self.size(0, span), self.size(0, span)]
            pads += sides if extent + sum(sides) >= span else [span - 1, span - 1]
        strides = [self.size(1, 4) for _ in extents]
        for i, extent in enumerate(extents):
            span = (taps[i] - 1) * dilation[i] + 1
            extents[i] = (extent + pads[2 * i] + pads[2 * i + 1] - span) // strides[i] + 1
        return {"window": tuple(taps), "strides": strides, "pads": pads, "window_dilation": dilation}

    def graph(self) -> ts.Graph:
        ci, ch, co = (self.size(1, 40) for _ in range(3))
        kind = str(self.random.choice(["edp", "ed", "dp", "ep", "mlp"]))
        if kind == "mlp":
            lead = [self.size(1, 4) for _ in range(self.size(0, 3))]
            y = self.b.matmul(self.input(*lead, self.size(1, 70), ci), self.input(ci, ch))
            y = self.b.matmul(self.behind(y, 3, ch), self.input(ch, co))
            self.b.output(self.behind(y, 3, co), "y")
            return self.b.build()
        extents = [self.size(1, 30), self.size(1, 30)]
        channels = ci if kind[0] == "e" else ch
        images = self.size(1, 3)
        y = self.input(images, *extents, channels) if self.last else self.input(images, channels, *extents)
        if kind[0] == "e":
            options = self.windows(extents) if self.size(0, 3) == 0 else {"window": (1, 1)}
            y = self.product(y, ch, ci, **options)
        if "d" in kind:
            y = self.product(y, ch, 1, groups=ch, **self.windows(extents))
        if kind[-1] == "p":
            y = self.product(y, co, ch, (1, 1))
            if self.size(0, 2):
                y = y + self.input(*y.shape)
        self.b.output(y, "y")
        return self.b.build()


def check_seed(seed: int) -> bool:
    random = np.random.default_rng(seed)
    machine = ts.Machine.load(str(random.choice(["edge-8", "edge-8", "chiplet-2", "mesh-16"])))
    if random.integers(2):
        machine = machine.replace({"core.scratchpad.bytes": str(random.choice(["8 KiB", "16 KiB", "64 KiB"]))})
    program = same_bits(_Random(seed).graph(), machine, seed)
    assert ts.verify(program).ok
    return any(row["decision"] == "taken" for row in chains(program))


def test_random_chains_have_the_same_bits() -> None:
    assert any([check_seed(seed) for seed in range(20, 24)])


@pytest.mark.slow
def test_random_chains_have_the_same_bits_at_length() -> None:
    assert sum(check_seed(seed) for seed in [*range(16, 20), *range(24, 32), *range(100, 500)]) >= 10


@pytest.mark.parametrize("hidden", [96, 144])
def test_the_price_against_the_simulated_time(hidden: int) -> None:
    graph = built(lambda b: inverted(b, rows=28, hidden=hidden))
    program = ts.compile(graph, "edge-8", lowering="best", residency="none")
    (row,) = [row for row in chains(program) if row["decision"] == "taken"]
    priced = float(row["reason"].split()[0])
    cycles = {row["operation"]: row["cycles"] for row in ts.simulate(program).table().rows}
    assert priced == pytest.approx(cycles[row["candidate"]], rel=0.15)


def test_parts_of_a_concat_are_stored_in_it() -> None:
    """By hand: two images in, one twice as wide out."""

    def build(b: ts.GraphBuilder) -> Any:
        parts = [b.apply("relu", b.input(name, [64, 96])) for name in "ab"]
        return b.op("concat", *parts, dim=1)

    graph = built(build)
    for machine in ("edge-8", "mesh-16"):
        program = ts.compile(graph, machine, lowering="best", residency="none")
        assert ts.simulate(program).memory_bytes == 4 * 64 * 96 * 4
        given = values(graph, 1)
        found = ts.execute(program, given, poison=True, find_races=True)["y"]
        np.testing.assert_array_equal(found, np.concatenate([np.maximum(given[n], 0) for n in "ab"], 1))


def test_rows_without_number_are_looked_at_like_few() -> None:
    """2^40 rows have as many ways to be cut: some are tried."""
    program = ts.compile(built(lambda b: mlp(b, rows=1 << 40)), "edge-8", lowering="best")
    assert ts.simulate(program).cycles > 0


@pytest.mark.parametrize("channels", [1, 3])
def test_a_stem_of_few_channels_is_left_alone(channels: int) -> None:
    """Alone, its window fills the rows of the array that its channels leave empty."""

    def stem(b: ts.GraphBuilder) -> Any:
        x = convolution(b, b.input("x", [1, channels, 32, 32]), "s", (32, channels, 3, 3), pads=[1, 1, 1, 1])
        return convolution(b, x, "d", (32, 1, 3, 3), pads=[1, 1, 1, 1], groups=32)

    graph = built(stem)
    program = same_bits(graph, "edge-8", 0)
    assert all(row["decision"] != "taken" for row in chains(program))
    apart = ts.simulate(ts.compile(graph, "edge-8", lowering="best", fuse=OTHERS))
    assert ts.simulate(program).cycles <= 1.02 * apart.cycles
