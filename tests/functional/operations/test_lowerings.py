"""Every lowering: equal to the reference kernels, free of races, and no synchronization that could be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.lowering_cases import CASES, gather, graph_of, single
from support.program_checks import unnoticed_mutants

SMALL = {"core.scratchpad.bytes": "8 KiB"}


def machine(name: str = "edge-8") -> ts.Machine:
    return ts.Machine.load(name).replace(SMALL) if name == "edge-8" else ts.Machine.load(name)


@pytest.mark.parametrize("case", CASES)
def test_equals_the_reference(case: str) -> None:
    """In a scratchpad of 8 KiB, where nearly everything is tiled, and on a machine with layouts and two arrays."""
    graph = CASES[case]()
    program = ts.compile(graph, machine())
    outcome = ts.verify(program)
    assert outcome.ok, outcome
    ts.execute(program, find_races=True)
    assert ts.simulate(program).seconds >= ts.roofline(graph, machine()).seconds
    try:
        other = ts.compile(graph, "tpu-v3")
    except ts.Unsupported:
        assert "integers" in case
        return
    assert ts.verify(other).ok


MUTATED = [
    "gather boxes", "gather rows, error", "embedding, padding", "pad, interior and negative", "pad edge",
    "reshape of a slice", "cumulative add, reverse, exclusive", "argmax, long row", "argmax of separate axes",
    "window longer than the scratchpad", "softmax of a long row", "depthwise", "dynamic_slice of a computed start",
]  # fmt: skip


@pytest.mark.parametrize("case", MUTATED)
def test_every_mutant_is_reported(case: str) -> None:
    program = ts.compile(CASES[case](), machine())
    assert unnoticed_mutants(program) == []


def run(graph: ts.Graph, *arrays: Any, on: str = "edge-8") -> Any:
    """The tiled program's only output."""
    program = ts.compile(graph, machine(on))
    return next(iter(ts.execute(program, list(arrays), find_races=True).values()))


def rows(mode: str) -> ts.Graph:
    return gather(
        [50, 20],
        [6, 1],
        mode,
        index_vector_dim=1,
        offset_dims=[1],
        collapsed_slice_dims=[0],
        start_index_map=[0],
        slice_sizes=[1, 20],
    )()


INDICES = np.array([[3], [-1], [49], [50], [0], [2**31 - 1]], dtype=np.int32)


def test_gather_clips_fills_or_refuses_what_lies_outside() -> None:
    x = np.random.default_rng(0).standard_normal((50, 20)).astype(np.float32)
    np.testing.assert_array_equal(run(rows("clip"), x, INDICES), x[np.clip(INDICES[:, 0], 0, 49)])
    inside = (INDICES >= 0) & (INDICES < 50)
    np.testing.assert_array_equal(run(rows("fill"), x, INDICES), np.where(inside, x[INDICES[:, 0] * inside[:, 0]], 0))
    with pytest.raises(ts.UserError, match="index is out of range"):
        run(rows("error"), x, INDICES)


@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_gather_moves_whole_boxes(mode: str) -> None:
    """A box that only partly lies outside is clipped as a whole, or filled as a whole."""
    graph = gather(
        [9, 11],
        [4, 2],
        mode,
        index_vector_dim=1,
        offset_dims=[1, 2],
        collapsed_slice_dims=[],
        start_index_map=[1, 0],
        slice_sizes=[3, 5],
    )()
    x = np.arange(99, dtype=np.float32).reshape(9, 11) + 1
    indices = np.array([[6, 6], [7, 0], [-1, 2], [0, 7]], dtype=np.int32)
    result = run(graph, x, indices)
    np.testing.assert_array_equal(result, ts.reference(graph, [x, indices])["y0"])
    np.testing.assert_array_equal(result[0], x[6:9, 6:11])
    outside = np.zeros((3, 5)) if mode == "fill" else x[0:3, 6:11]
    np.testing.assert_array_equal(result[1], outside)


def test_embedding_refuses_ids_outside_of_the_table() -> None:
    graph = single("embedding", [[5, 20], ([3], "i32")], padding_index=2)()
    table = np.ones((5, 20), dtype=np.float32)
    np.testing.assert_array_equal(run(graph, table, np.array([1, 2, 4], np.int32)).sum(1), [20, 0, 20])
    with pytest.raises(ts.UserError, match="index is out of range"):
        run(graph, table, np.array([1, 2, 5], np.int32))


@pytest.mark.parametrize("combiner", ["argmax", "argmin"])
@pytest.mark.parametrize("columns", [40, 5000])
def test_the_first_extreme_wins_and_nan_is_one(combiner: str, columns: int) -> None:
    """In rows on chip and in rows that stream; as numpy."""
    x = np.random.default_rng(1).integers(-3, 4, (6, columns)).astype(np.float32)
    x[1, [columns // 2, columns // 3]] = np.nan
    x[2] = np.inf
    x[3] = -np.inf
    x[4, -1] = 7
    x[5, -2:] = -7
    graph = single("reduce", [[6, columns]], dims=[1], combiner=combiner)()
    np.testing.assert_array_equal(run(graph, x), getattr(np, combiner)(x, 1))


def test_long_integer_scans_wrap_exactly() -> None:
    x = np.random.default_rng(2).integers(-128, 128, (2, 5000)).astype(np.int8)
    graph = single("cumulative", [([2, 5000], "i8")], dim=1, combiner="add")()
    np.testing.assert_array_equal(run(graph, x), np.cumsum(x, 1, dtype=np.int8))


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_mirrored_padding_as_numpy(mode: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    graph = single("pad", [[3, 4]], low=[7, 2], high=[0, 11], mode=mode)()
    np.testing.assert_array_equal(run(graph, x), np.pad(x, ((7, 0), (2, 11)), mode=mode))


def test_padding_around_a_part_of_a_tensor_is_not_its_neighbour() -> None:
    """The value's edge is inside of the tensor that holds its bytes."""

    def make(b: ts.GraphBuilder) -> Any:
        part = b.op("slice", b.input("x", [1, 2, 9, 9]), start=[0, 0, 2, 2], limit=[1, 2, 7, 7])
        pooled = b.op("window_reduce", part, window=[1, 1, 3, 3], pads=[0, 0, 0, 0, 1, 1, 1, 1], combiner="add")
        padded = b.op("pad", part, low=[0, 0, 1, 0], high=[0, 0, 1, 0])
        return b.conv2d(part, b.input("w", [3, 2, 3, 3]), padding=1), pooled, padded

    for name in ("edge-8", "tpu-v3"):
        assert ts.verify(ts.compile(graph_of(make), machine(name))).ok


def test_a_reshaped_view_is_a_timed_copy() -> None:
    """Its bytes cross the memory's border twice, nothing is free."""
    graph = graph_of(
        lambda b: b.op("reshape", b.op("transpose", b.input("x", [60, 70]), permutation=[1, 0]), shape=[4200])
    )
    result = ts.simulate(graph, "edge-8")
    assert result.seconds >= 2 * 60 * 70 * 4 / 19.2e9


def test_depthwise_runs_where_it_is_faster() -> None:
    """An 8 x 8 array holds one tap row per group; wide groups fill it."""
    depthwise = ts.compile(ts.workloads.conv2d(1, 64, 28, 28, 64, 3, padding=1, groups=64), "edge-8").core.to_json()
    wide = ts.compile(ts.workloads.conv2d(1, 64, 28, 28, 64, 3, padding=1, groups=2, dtype="bf16"), "edge-8")
    assert '"mma"' not in depthwise
    assert '"mma"' in wide.core.to_json()
    with pytest.raises(ts.Unsupported, match=r"gemmini-16.*f32"):
        ts.compile(ts.workloads.conv2d(1, 8, 9, 9, 8, 3), "gemmini-16")


def test_what_a_vector_unit_lacks_is_named() -> None:
    limited = ts.Machine.load("edge-8").replace({"core.vector.dtypes": ["f32", "i32"]})
    with pytest.raises(ts.Unsupported, match=r"op.*bf16.*f32, i32"):
        ts.compile(single("reduce", [([9, 9], "bf16")], dims=[0], combiner="add")(), limited)
    with pytest.raises(ts.Unsupported, match=r"op.*u64"):
        ts.compile(single("reduce", [([9, 9], "u64")], dims=[0], combiner="maximum")(), "edge-8")
    ts.compile(single("convert", [([9, 9], "bf16")], dtype="f32")(), limited)


def test_a_fused_kernel_that_does_not_fit_is_taken_apart() -> None:
    """A row maximum at a product's end keeps all columns on chip; where few rows are left it is a kernel of its own."""

    def graph(columns: int) -> ts.Graph:
        b = ts.GraphBuilder("fused")
        y = b.linear(b.input("x", [64, 256]), columns, name="out", bias=False)
        b.output(b.op("reduce", y, combiner="maximum", dims=[1], keep_dims=True), "top")
        b.output(y, "y")
        return b.build()

    small = ts.Machine.load("tpu-v3").replace({"core.scratchpad.bytes": "512 KiB"})
    program, roomy = ts.compile(graph(1024), small), ts.compile(graph(1024), "tpu-v3")
    assert any("its parts run one by one" in note for note in program.notes)
    assert not any("its parts run one by one" in note for note in roomy.notes)
    assert len(ts.simulate(program).data["operations"]) == len(ts.simulate(roomy).data["operations"]) + 1
    assert ts.verify(program).ok


@pytest.mark.parametrize("kibibytes", [256, 64, 16])
def test_what_feeds_a_product_counts_in_its_tiles(kibibytes: int) -> None:
    """Tiles shrink until the operand, what it is computed from and the windows fit together; the kernel stays fused."""
    b = ts.GraphBuilder("fused")
    x = b.input("x", [64, 2048])
    b.output(b.apply("relu", b.linear(x * x + x, 256, name="out")), "y")
    small = ts.Machine.load("tpu-v3").replace({"core.scratchpad.bytes": f"{kibibytes} KiB"})
    program = ts.compile(b.build(), small)
    assert len(ts.simulate(program).data["operations"]) == 1
    assert ts.verify(program).ok


@pytest.mark.parametrize(("rows", "columns", "inner"), [(4096, 4096, 4096), (512, 2048, 8192), (2048, 2048, 8192)])
def test_panels_with_a_long_contraction_still_overlap(rows: int, columns: int, inner: int) -> None:
    """Where panel and windows do not fit side by side, windows narrow or the contraction is cut."""
    cycles = ts.simulate(ts.compile(ts.workloads.matmul(rows, columns, inner), "tpu-v3")).cycles
    peak = rows * columns * inner / (2 * 128 * 128)
    assert peak <= cycles <= 1.3 * peak


@pytest.mark.parametrize("channels", [512, 1024, 2048])
def test_planes_with_many_channels_still_overlap(channels: int) -> None:
    """Weights of many channels stream in windows that fit while the array computes."""
    cycles = ts.simulate(ts.compile(ts.workloads.conv2d(8, channels, 14, 14, channels, 3, padding=1), "tpu-v3")).cycles
    peak = 8 * 14 * 14 * 9 * channels**2 / (2 * 128 * 128)
    assert peak <= cycles <= 1.5 * peak


@pytest.mark.parametrize(("keys", "head"), [(8192, 192), (16384, 64)])
def test_long_rows_of_scores_do_not_starve_the_array(keys: int, head: int) -> None:
    """Where whole rows leave room for few of them only, their maximum is a pass of its own: four passes at most, and
    the spreads of maxima and sums in the last one, which take three quarters of its time."""
    program = ts.compile(ts.workloads.attention(1, 1, keys, head), "tpu-v3")
    scores = 4 * keys**2
    bytes_per_cycle = 0.835 * 450e9 / 940e6
    assert 3 * scores / bytes_per_cycle < ts.simulate(program).cycles < 4.75 * scores / bytes_per_cycle


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8", "mesh-16"])
@pytest.mark.parametrize(("rows", "groups"), [(1, 2), (1, 9), (2, 2), (3, 9)])
def test_fewer_rows_than_groups(machine: str, rows: int, groups: int) -> None:
    """One token of a mixture of experts."""
    b = ts.GraphBuilder("experts")
    a, w, s = b.input("a", (rows, 16)), b.input("w", (groups, 16, 8)), b.input("s", (groups,), "i32")
    b.output(b.op("ragged_contract", a, w, s), "y")
    sizes = np.zeros(groups, np.int32)
    sizes[-1] = rows
    random = np.random.default_rng(rows + groups)
    x, m = random.integers(-4, 4, (rows, 16)).astype("f4"), random.integers(-4, 4, (groups, 16, 8)).astype("f4")
    y = ts.execute(ts.compile(b.build(), machine), {"a": x, "w": m, "s": sizes})["y"]
    np.testing.assert_array_equal(y, x @ m[-1])
