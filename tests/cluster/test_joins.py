"""Divided axes that are put together, searched for extremes, accumulated: equal to the whole, and what is sent."""

import itertools

import numpy as np
import pytest

import tilesim as ts
from support.random_joins import KINDS, random_join
from tilesim.graph import Tensor


def sent(spmd):
    return sum(row["count"] * row["wire_bytes"] for row in spmd.collectives())


def compared(seed):
    """Partitions a random operation; its kind and the kinds of collectives."""
    random = np.random.default_rng(seed)
    graph, inputs = random_join(random)
    mesh = [{"a": 2}, {"a": 3}, {"a": 4}, {"a": 7}, {"a": 2, "b": 2}, {"a": 4, "b": 2}][random.integers(6)]
    shardings = {}
    for row in [*graph.inputs, *graph.outputs]:
        names = ("a", "b") if "b" in mesh and random.random() < 0.5 else ("a",)
        parts = int(np.prod([mesh[name] for name in names]))
        if random.random() < 0.8 and row["shape"] and row["shape"][0] >= parts:
            shardings[row["name"]] = (names,)
    spmd = ts.partition(graph, mesh, shardings)
    whole, parts = ts.reference(graph, inputs), ts.execute(spmd, inputs)
    for name, wanted in whole.items():  # whole numbers: in any order of summation the same
        np.testing.assert_array_equal(parts[name], wanted, err_msg=str(seed))
    return graph.name, {row["kind"] for row in spmd.collectives()}


def many(seeds):
    found = [compared(seed) for seed in seeds]
    inner = {"place": "all_reduce", "running": "all_gather"}
    for kind in KINDS:
        kinds = [sends for name, sends in found if name == kind]
        assert sum(inner.get(kind, "permute_devices") in sends for sends in kinds) >= len(kinds) / 5, kind


@pytest.mark.parametrize("seeds", [range(300), pytest.param(range(300, 5300), marks=pytest.mark.slow)])
def test_random_joins_of_divided_axes(seeds):
    many(seeds)


ROW = 8 * 4


def rolled(by, devices=4, extent=32):
    b = ts.GraphBuilder("roll")
    x = b.input("x", (extent, 8))
    pieces = [b.op("slice", x, start=[first, 0], limit=[last, 8]) for first, last in ((by, extent), (0, by))]
    b.output(b.op("concat", *pieces, dim=0), "y")
    return b.build(), ts.partition(b.build(), {"a": devices}, {"x": ("a",), "y": ("a",)})


@pytest.mark.parametrize(("by", "rows"), [(31, 1), (1, 1), (29, 3), (4, 4), (8, 8)])
def test_a_rotation_sends_what_leaves_a_part(by, rows):
    _, spmd = rolled(by)
    assert [row["kind"] for row in spmd.collectives()] == ["permute_devices"]
    assert sent(spmd) == rows * ROW
    x = np.random.default_rng(by).random((32, 8), np.float32)
    np.testing.assert_array_equal(ts.execute(spmd, [x])["y"], np.roll(x, -by, 0))


def test_a_rotation_by_one_and_a_half_parts_sends_two_pieces():
    _, spmd = rolled(12)
    assert [row["wire_bytes"] for row in spmd.collectives()] == [4 * ROW, 4 * ROW]


@pytest.mark.parametrize("devices", [4, 8, 16])
def test_two_tensors_together_move_two_parts_of_each(devices):
    """Each device's part is two of the parts that others have: no more than two moves, however many devices."""
    b = ts.GraphBuilder("together")
    b.output(b.op("concat", b.input("x", (32, 8)), b.input("y", (32, 8)), dim=0), "z")
    spmd = ts.partition(b.build(), {"a": devices}, {"x": ("a",), "y": ("a",), "z": ("a",)})
    assert 2 * 32 // devices * ROW <= sent(spmd) <= 3 * 32 // devices * ROW


def test_running_sums_gather_totals_alone():
    b = ts.GraphBuilder("sums")
    b.output(b.op("cumulative", b.input("x", (8, 32)), dim=1, combiner="add"), "y")
    spmd = ts.partition(b.build(), {"s": 4}, {"x": (None, "s"), "y": (None, "s")})
    assert [row["kind"] for row in spmd.collectives()] == ["all_gather"]
    assert sent(spmd) == 3 * 8 * 4  # a total of each row from each of three others


def test_the_place_of_an_extreme_is_found_by_two_numbers_a_row():
    b = ts.GraphBuilder("greedy")
    b.output(b.op("reduce", b.input("x", (8, 32)), dims=[1], combiner="argmax", dtype="i32"), "y")
    spmd = ts.partition(b.build(), {"s": 4}, {"x": (None, "s"), "y": ()})
    assert [row["kind"] for row in spmd.collectives()] == ["all_reduce"] * 2
    assert sent(spmd) == 2 * (2 * 3 / 4 * 8 * 4)
    tied = np.zeros((8, 32), np.float32)  # the first of equals, the first that is no number, infinities
    tied[1, [9, 30]], tied[2, [13, 29]], tied[3], tied[4, 17:] = 5, np.nan, -np.inf, np.inf
    np.testing.assert_array_equal(ts.execute(spmd, [tied])["y"], [0, 9, 13, 0, 17, 0, 0, 0])


def looped(kind, weights):
    """Rows times a parameter that the functions of a loop, or of a branch, name."""
    b = ts.GraphBuilder("looped")
    x = b.input("x", (4, 8))
    first, step = b.function("first"), b.function("step")
    if kind == "while":
        i, _ = first.input("i", (), "i32"), first.input("v", (4, 8))
        first.output(first.apply("less", i, first.scalar(3, "i32")), "go")
        step.output(step.input("i", (), "i32") + 1, "i.next")
    else:
        first.output(first.input("v", (4, 8)) * 2, "v.next")
    v = step.input("v", (4, 8))
    step.output(step.matmul(v, step.weight("w", (8, 8), data=weights)), "v.next")
    start = b.scalar(int(kind == "branch"), "i32")
    count = 1 + (kind == "while")
    found = b.core.op(kind, [start.value, x.value], {}, "chosen", count, ["first", "step"])
    b.output(Tensor(b, found[-1]), "y")
    return b.build()


@pytest.mark.parametrize("kind", ["while", "branch"])
def test_parameters_in_loops_and_branches_lie_on_their_devices_alone(kind):
    weights = np.random.default_rng(3).integers(-2, 3, (8, 8)).astype(np.float32)
    graph = looped(kind, weights)
    spmd = ts.partition(graph, {"t": 4}, {"step:w": '[{"t"}, {}]', "y": ()})
    assert [(row["weight"], part["shape"]) for row, part in zip(spmd.inputs, spmd.graph.inputs, strict=True)
            if "weight" in row] == [("w", (2, 8))]  # fmt: skip
    x = np.random.default_rng(4).integers(-2, 3, (4, 8)).astype(np.float32)
    wanted = x @ weights if kind == "branch" else x @ weights @ weights @ weights
    np.testing.assert_array_equal(ts.execute(spmd, [x])["y"], wanted)


@pytest.mark.parametrize("axes", [*itertools.permutations("abc", 2), *itertools.permutations("abc", 3)])
@pytest.mark.parametrize("extent", [8, 11])
def test_places_of_extremes_in_any_order_of_axes(axes: tuple[str, ...], extent: int) -> None:
    for combiner, numpy in (("argmax", np.argmax), ("argmin", np.argmin)):
        b = ts.GraphBuilder("place", dtype="i32")
        b.output(b.op("reduce", b.input("x", (extent,)), combiner=combiner, dims=[0]), "y")
        spmd = ts.partition(b.build(), {"a": 2, "b": 2, "c": 2}, {"x": (axes,)})
        for seed in range(6):
            x = np.random.default_rng(seed).integers(0, 3, extent).astype(np.int32)
            assert ts.execute(spmd, {"x": x})["y"] == numpy(x), (combiner, x)
