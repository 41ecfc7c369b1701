"""Orders of bytes on machines that pad the two minor dimensions: what an operation costs does not depend on others."""

import random
from collections.abc import Callable

import numpy as np
import pytest

import tilesim as ts
from tilesim.graph import GraphBuilder

TILED = ["tpu-v2", "tpu-v3", "tpu-v4", "chiplet-2"]


def convolution(b: GraphBuilder, rng: random.Random) -> None:
    channels, size = rng.choice([8, 64, 130, 256]), rng.choice([7, 16, 32])
    x = b.input("image", [rng.choice([1, 2, 9]), channels, size, size])
    kernel = rng.choice([1, 3])
    w = b.weight("filters", [rng.choice([8, 256]), channels, kernel, kernel])
    b.output(b.apply("relu", b.conv2d(x, w, padding=kernel // 2)), "features")


def attention(b: GraphBuilder, rng: random.Random) -> None:
    heads, tokens, width = rng.choice([1, 3, 8]), rng.choice([100, 256, 512]), rng.choice([32, 40, 64])
    x = b.input("x", [1, tokens, heads * width])
    q, k, v = (
        b.linear(x, heads * width, name=name).reshape(1, tokens, heads, width).transpose(0, 2, 1, 3) for name in "qkv"
    )
    b.output(b.attention(q, k, v).transpose(0, 2, 1, 3).reshape(1, tokens, heads * width), "context")


def products(b: GraphBuilder, rng: random.Random) -> None:
    left = b.input("left", [rng.choice([1, 2]), rng.choice([3, 8]), rng.choice([60, 256]), 72])
    right = b.input("right", [left.shape[0], left.shape[1], 72, rng.choice([40, 300])])
    b.output(b.matmul(left, right).softmax(), "weights")


def rows(b: GraphBuilder, rng: random.Random) -> None:
    x = b.input("rows", [rng.choice([1, 2]), rng.choice([4, 12]), rng.choice([30, 200]), rng.choice([48, 500])])
    b.output((b.apply("tanh", x) + x).softmax(), "scaled")


Part = Callable[[GraphBuilder, random.Random], None]
OTHERS: list[Part] = [attention, products, rows]


def measured(parts: list[Part], seed: int, machine: str) -> tuple[int, int]:
    """Cycles and bytes of parts that share nothing, in one function, on all cores."""
    b = GraphBuilder("parts")
    for part in parts:
        part(b, random.Random(seed))
    result = ts.simulate(ts.compile(b.build(), machine, cores=int(ts.Machine.load(machine).get("core.count"))))
    return result.cycles, result.memory_bytes


@pytest.mark.singly
@pytest.mark.parametrize("machine", TILED)
@pytest.mark.parametrize("other", OTHERS)
def test_a_convolution_beside_it_changes_nothing(other: Part, machine: str) -> None:
    seed = TILED.index(machine) + OTHERS.index(other)  # other shapes on each machine
    together = measured([convolution, other], seed, machine)
    alone = [measured([part], seed, machine) for part in (convolution, other)]
    assert together[0] <= 1.02 * sum(cycles for cycles, _ in alone) + 100
    assert together[1] <= 1.02 * sum(moved for _, moved in alone)


@pytest.mark.parametrize("machine", TILED)
def test_a_convolution_before_attention(machine: str) -> None:
    """Its result is flattened and turned for the attention: a pass over it in each order at most."""

    def build(parts: str) -> ts.Graph:
        b = GraphBuilder(parts)
        x = b.input("x", [1, 256, 32, 32])
        if "c" in parts:
            x = b.conv2d(x, b.weight("filters", [256, 256, 1, 1]))
        if "a" in parts:
            x = x.reshape(1, 256, 1024).transpose(0, 2, 1)
            q, k, v = (b.linear(x, 256, name=n).reshape(1, 1024, 8, 32).transpose(0, 2, 1, 3) for n in "qkv")
            x = b.attention(q, k, v)
        b.output(x, "y")
        return b.build()

    both, first, second = (ts.simulate(ts.compile(build(parts), machine)) for parts in ("ca", "c", "a"))
    turned = 4 * 256 * 1024 * 4
    rate = both.memory_bytes / both.cycles
    assert both.memory_bytes <= 1.02 * (first.memory_bytes + second.memory_bytes) + turned
    assert both.cycles <= 1.02 * (first.cycles + second.cycles) + turned / rate


def test_an_image_in_channels_minor_order_is_not_copied() -> None:
    """Bytes of input, weights and output by hand; an image that keeps torch's order is copied first."""

    def moved(channels: int, size: int) -> int:
        graph = ts.workloads.conv2d(1, channels, size, size, 128, 1)
        return ts.simulate(ts.compile(graph, "tpu-v3")).memory_bytes

    image = 56 * 56 * 128 * 4
    assert moved(64, 56) == image + 64 * 128 * 4 + image
    large, torch_order = 112 * 112 * 128 * 4, 64 * 112 * 128 * 4
    assert moved(64, 112) == torch_order + 2 * large + 64 * 128 * 4 + large


def test_what_is_padded_is_noted() -> None:
    graph = ts.workloads.conv2d(1, 3, 224, 224, 64, 7, stride=2, padding=3)

    def padded(machine: str, graph: ts.Graph) -> list[str]:
        return [note for note in ts.compile(graph, machine).notes if note.startswith("layout")]

    (note,) = padded("tpu-v3", graph)
    weights = 7 * 7 * 8 * 128
    assert "channels_minor" in note and f"{(224 * 224 * 128 + weights) * 4 / 1e6:.3g} MB" in note
    assert not padded("tpu-v3", ts.workloads.conv2d(1, 64, 56, 56, 64, 3, padding=1))
    assert not padded("mesh-16", graph)


@pytest.mark.parametrize("seed", range(4))
def test_chains_across_kinds_keep_their_values(seed: int) -> None:
    """Orders spread over pads, slices, transposes, pools and sums; values are those of the reference."""
    rng = random.Random(seed)
    b = GraphBuilder("chain")
    x = b.input("x", [rng.choice([1, 9]), rng.choice([3, 65]), 6, 7])
    for step in range(5):
        kind = rng.choice(["convolution", "transpose", "slice", "sum", "relu"])
        if kind == "convolution":
            x = b.conv2d(x, b.weight(f"w{step}", [rng.choice([5, 66]), x.shape[1], 3, 3]), padding=1)
        elif kind == "transpose":
            x = x.transpose(*rng.sample(range(4), 4))
        elif kind == "slice":
            x = x[:, :, : max(1, x.shape[2] - 1)]
        else:
            x = x + b.apply("tanh", x) if kind == "sum" else b.apply("relu", x)
    b.output(x, "y")
    graph = b.build()
    machine = ts.Machine.load("tpu-v3").replace({"core.array.multiply": "as stored"})
    got, wanted = ts.execute(ts.compile(graph, machine), seed=seed), ts.reference(graph, seed=seed)
    scale = float(np.max(np.abs(wanted["y"]))) or 1.0
    np.testing.assert_allclose(np.asarray(got["y"]) / scale, wanted["y"] / scale, atol=1e-4)


@pytest.mark.parametrize("machine", TILED)
@pytest.mark.parametrize(("rows", "columns", "picked"), [(512, 256, 64), (100, 130, 3), (1, 700, 128)])
def test_starts_of_several_components_are_not_padded(machine: str, rows: int, columns: int, picked: int) -> None:
    """Elements x[r, i[r, c]], by hand: a burst of x for each; its two indices of 8 bytes are read (and the row written)
    where they come from, written side by side, read again; its place and itself, of 4 bytes, are written and read. x is
    copied to one axis before. The densest whole tiles of 8 by 128 may be padded twice; a row of lanes for each pair of
    indices would be 1,024 bytes, read once per tile of them."""
    b = GraphBuilder("picked")
    x, i = b.input("x", [rows, columns]), b.input("i", [rows, picked], "i64")
    row = b.op("iota", shape=[rows, picked, 1], dim=0, dtype="i64")
    starts = b.concat([row, i.reshape(rows, picked, 1)], 2)
    attributes = {"offset_dims": [], "collapsed_slice_dims": [0, 1], "start_index_map": [0, 1], "index_vector_dim": 2}
    b.output(b.op("gather", x, starts, slice_sizes=[1, 1], mode="clip", **attributes), "y")
    program = ts.compile(b.build(), machine)
    assert ts.verify(program).ok

    def whole(*shape: int) -> int:
        return -(-shape[0] // 8) * 8 * -(-shape[1] // 128) * 128

    indices = min(whole(rows, picked), whole(picked, rows))
    burst = int(ts.Machine.load(machine).get("memory.burst_bytes").removesuffix(" B"))
    each = 8 + 8 + 8 + 2 * 8 + 2 * 8 + 3 * 4
    by_hand = rows * picked * burst + 2 * indices * each + 3 * 4 * whole(rows, columns)
    assert ts.simulate(program).memory_bytes <= by_hand
