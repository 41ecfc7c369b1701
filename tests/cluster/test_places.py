"""Kinds that name places of divided axes: pieces, updates, indices, queries' places, turned axes, windows."""

import numpy as np
import pytest

import tilesim as ts
from support.random_places import KINDS, random_place


def agrees(graph, spmd, inputs):
    whole, parts = ts.reference(graph, inputs), ts.execute(spmd, inputs)
    for name, wanted in whole.items():
        np.testing.assert_allclose(parts[name], wanted, rtol=1e-5, atol=1e-5)


def divided(random, shape, mesh):
    """Each axis of the mesh on a random axis of a tensor that has as many elements."""
    axes = [None] * len(shape)
    for name, size in mesh.items():
        axis = int(random.integers(len(shape))) if shape else 0
        if shape and axes[axis] is None and shape[axis] >= size:
            axes[axis] = name
    return tuple(axes)


def compared(seed):
    """Partitions a random operation; its kind and the kinds of collectives."""
    random = np.random.default_rng(seed)
    graph, inputs = random_place(random)
    mesh = [{"a": 2}, {"a": 3}, {"a": 4}, {"a": 2, "b": 2}, {"a": 2, "b": 4}][random.integers(5)]
    rows = [row for row in [*graph.inputs, *graph.outputs] if random.random() < 0.8]
    spmd = ts.partition(graph, mesh, {row["name"]: divided(random, row["shape"], mesh) for row in rows if row["shape"]})
    agrees(graph, spmd, inputs)
    return graph.name, {row["kind"] for row in spmd.collectives()}


def many(seeds):
    found = [compared(seed) for seed in seeds]
    for kind in KINDS:
        kinds = [sent for name, sent in found if name == kind]
        assert sum("all_gather" not in sent for sent in kinds) >= len(kinds) / 5, kind
    return len(found)


def test_random_places_of_divided_axes():
    assert many(range(400)) == 400


@pytest.mark.slow
def test_more_random_places():
    assert many(range(400, 5400)) == 5000


def sent(spmd):
    return sum(row["count"] * row["wire_bytes"] for row in spmd.collectives())


def test_a_row_of_a_divided_axis_is_summed_not_gathered():
    b = ts.GraphBuilder("last")
    b.output(b.op("slice", b.input("x", (4, 32, 8)), start=[0, 31, 0], limit=[4, 32, 8]), "y")
    spmd = ts.partition(b.build(), {"s": 4}, {"x": (None, "s"), "y": ()})
    assert [row["kind"] for row in spmd.collectives()] == ["all_reduce"]
    assert sent(spmd) == 2 * 3 / 4 * 4 * 8 * 4


def test_a_cache_divided_along_its_sequence_is_written_without_sending():
    b = ts.GraphBuilder("cache")
    cache, new, at = b.input("cache", (2, 32, 4)), b.input("new", (2, 3, 4)), b.input("at", (), "i32")
    zero = b.scalar(0, "i32")
    b.output(b.op("dynamic_update", cache, new, zero, at, zero), "y")
    graph = b.build()
    spmd = ts.partition(graph, {"s": 4}, {"cache": (None, "s"), "y": (None, "s")})
    assert len(spmd.collectives()) == 0
    random = np.random.default_rng(0)
    cache, new = random.random((2, 32, 4), np.float32), random.random((2, 3, 4), np.float32)
    for at in (-4, 0, 6, 7, 8, 23, 29, 31, 90):  # inside a part, over a border, out of range
        agrees(graph, spmd, {"cache": cache, "new": new, "at": np.int32(at)})


@pytest.mark.parametrize("options", [{"causal": True}, {"causal": True, "window": 5}, {"window": 3}])
@pytest.mark.parametrize("keys", [16, 20])
def test_divided_queries_of_a_causal_attention_gather_keys_alone(options, keys):
    b = ts.GraphBuilder("attention")
    q, k, v = (b.input(name, (2, 2, extent, 4)) for name, extent in (("q", 16), ("k", keys), ("v", keys)))
    b.output(b.op("attention", q, k, v, **options), "y")
    graph = b.build()
    rows = (None, None, "s")
    spmd = ts.partition(graph, {"s": 4}, {"q": rows, "k": rows, "v": rows, "y": rows})
    assert sent(spmd) == 2 * (3 / 4 * 2 * 2 * keys * 4 * 4)
    random = np.random.default_rng(1)
    agrees(graph, spmd, [random.random((2, 2, extent, 4), np.float32) for extent in (16, keys, keys)])


def test_what_must_be_whole_is_exchanged_not_gathered():
    b = ts.GraphBuilder("sorted")
    b.output(b.op("sort", b.input("x", (8, 32)), dim=1), "y")
    spmd = ts.partition(b.build(), {"s": 4}, {"x": (None, "s"), "y": (None, "s")})
    assert [row["kind"] for row in spmd.collectives()] == ["all_to_all", "all_to_all"]


def test_a_shift_sends_one_column():
    b = ts.GraphBuilder("shift")
    padded = b.op("pad", b.input("x", (8, 32)), low=[0, 1], high=[0, 0])
    b.output(b.op("slice", padded, start=[0, 0], limit=[8, 32]), "y")
    spmd = ts.partition(b.build(), {"s": 4}, {"x": (None, "s"), "y": (None, "s")})
    assert sent(spmd) == 8 * 4


def test_halves_of_a_divided_axis_send_what_is_missing():
    b = ts.GraphBuilder("gate")
    x = b.input("x", (8, 64))
    half = [b.op("slice", x, start=[0, 32 * i], limit=[8, 32 * i + 32]) for i in range(2)]
    b.output(b.apply("multiply", *half), "y")
    spmd = ts.partition(b.build(), {"t": 4}, {"x": (None, "t"), "y": (None, "t")})
    assert {row["kind"] for row in spmd.collectives()} == {"permute_devices"}
    assert sent(spmd) == 4 * 8 * 8 * 4  # of each half one part from one device away, one from two


def test_parameters_that_are_divided_lie_on_their_devices_alone():
    random = np.random.default_rng(2)
    weight = random.random((16, 32), np.float32)
    b = ts.GraphBuilder("layer")
    b.output(b.matmul(b.input("x", (4, 16)), b.weight("w", weight.shape, data=weight)), "y")
    graph = b.build()
    spmd = ts.partition(graph, {"t": 4}, {"w": (None, "t"), "y": ()})
    assert [(row["name"], row.get("weight")) for row in spmd.inputs] == [("x", None), ("w", "w")]
    assert [row["shape"] for row in spmd.graph.inputs] == [(4, 16), (16, 8)]
    x = random.random((4, 16), np.float32)
    for program in (spmd, ts.Spmd.from_json(spmd.to_json())):
        np.testing.assert_allclose(ts.execute(program, [x])["y"], x @ weight, rtol=1e-5)


@pytest.mark.parametrize("mesh", [{"t": 4}, {"t": 3}])
def test_a_seed_draws_what_it_draws_for_the_whole_graph(mesh):
    b = ts.GraphBuilder("rows")
    table, ids = b.input("table", (12, 7)), b.input("ids", (9,), "i32")
    b.output(b.op("embedding", table, ids), "y")
    graph = b.build()
    spmd = ts.partition(graph, mesh, {"table": ("t",), "ids": ("t",)})
    for program in (spmd, ts.Spmd.from_json(spmd.to_json())):
        found, wanted = ts.execute(program, seed=5)["y"], ts.reference(graph, seed=5)["y"]
        np.testing.assert_array_equal(found, wanted)
        assert len(np.unique(found)) > 7
