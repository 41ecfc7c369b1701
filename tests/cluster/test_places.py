"""Kinds that name places of divided axes: pieces, updates, indices, queries' places, turned axes, windows."""

import numpy as np
import pytest

import tilesim as ts
from support.random_places import KINDS, random_place
from tilesim.graph.tensor import Tensor


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


@pytest.mark.parametrize(
    ("seeds", "least"), [(range(400), 400), pytest.param(range(400, 5400), 5000, marks=pytest.mark.slow)]
)
def test_random_places_of_divided_axes(seeds, least):
    assert many(seeds) == least


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
    for program in (spmd, ts.cluster.Spmd.from_dict(spmd.to_dict())):
        np.testing.assert_allclose(ts.execute(program, [x])["y"], x @ weight, rtol=1e-5)


@pytest.mark.parametrize("mesh", [{"t": 4}, {"t": 3}])
def test_a_seed_draws_what_it_draws_for_the_whole_graph(mesh):
    b = ts.GraphBuilder("rows")
    table, ids = b.input("table", (12, 7)), b.input("ids", (9,), "i32")
    b.output(b.op("embedding", table, ids), "y")
    graph = b.build()
    spmd = ts.partition(graph, mesh, {"table": ("t",), "ids": ("t",)})
    for program in (spmd, ts.cluster.Spmd.from_dict(spmd.to_dict())):
        found, wanted = ts.execute(program, seed=5)["y"], ts.reference(graph, seed=5)["y"]
        np.testing.assert_array_equal(found, wanted)
        assert len(np.unique(found)) > 7


@pytest.mark.parametrize(("width", "mode"), [(1, "set"), (3, "set"), (11, "add")])
@pytest.mark.parametrize("room", [32, 30])
def test_windows_of_a_divided_axis_are_written_without_sending(width, mode, room):
    """A cache of each row, written where its length says: as `jax.vmap(lax.dynamic_update_slice)` is exported."""
    b = ts.GraphBuilder("caches")
    cache, new, at = b.input("c", (4, room, 8)), b.input("n", (4, width, 8)), b.input("at", (4, 1), "i32")
    index = b.op("concat", at, b.op("iota", shape=[4, 1], dtype="i32", dim=0), dim=1)
    b.output(b.op("scatter", cache, index, new, update_window_dims=[1, 2], inserted_window_dims=[0],
                  scatter_dims_to_operand_dims=[1, 0], index_vector_dim=1, combiner=mode), "y")  # fmt: skip
    divided = ("d", "t")
    spmd = ts.partition(b.build(), {"d": 2, "t": 4}, {"c": divided, "n": ("d",), "at": ("d",), "y": divided})
    assert len(spmd.collectives()) == 0
    random = np.random.default_rng(width)
    given = {"c": whole_numbers(random, (4, room, 8)), "n": whole_numbers(random, (4, width, 8)),
             "at": np.array([[0], [7], [room - width], [room - width + 1]], np.int32)}  # fmt: skip
    wanted = given["c"].copy()
    for row, start in enumerate(given["at"][:3, 0]):  # the last one leaves the cache, and is dropped
        there = wanted[row, start : start + width]
        there[:] = given["n"][row] + (there if mode == "add" else 0)
    np.testing.assert_array_equal(ts.execute(spmd, given)["y"], wanted)


def test_windows_of_a_divided_axis_are_summed_not_gathered():
    """Of a device's two rows windows of three of 8 numbers; a start behind the last window is that of the last one."""
    b = ts.GraphBuilder("windows")
    cache, at = b.input("c", (4, 32, 8)), b.input("at", (4, 1), "i32")
    index = b.op("concat", at, b.op("iota", shape=[4, 1], dtype="i32", dim=0), dim=1)
    b.output(b.op("gather", cache, index, mode="clip", slice_sizes=[1, 3, 8], offset_dims=[1, 2],
                  collapsed_slice_dims=[0], start_index_map=[1, 0], index_vector_dim=1), "y")  # fmt: skip
    spmd = ts.partition(b.build(), {"d": 2, "t": 4}, {"c": ("d", "t"), "at": ("d",), "y": ("d",)})
    assert sent(spmd) == 2 * 3 / 4 * 4 * 2 * 3 * 8
    given = {"c": whole_numbers(np.random.default_rng(0), (4, 32, 8)), "at": np.array([[0], [7], [29], [40]], np.int32)}
    wanted = [given["c"][row, start : start + 3] for row, start in enumerate([0, 7, 29, 29])]
    np.testing.assert_array_equal(ts.execute(spmd, given)["y"], wanted)


def whole_numbers(random, shape):
    return random.integers(-3, 4, shape).astype(np.float32)


def test_a_loop_looks_up_what_each_device_has_all_of():
    """A sorted table is whole on each device: that it is divided behind the sort is no reason to sum in each trip."""
    b = ts.GraphBuilder("lookups")
    test, body = b.function("test"), b.function("body")
    state = [(function.input("t", (8, 2)), function.input("at", (), "i32"), function.input("i", (), "i32"))
             for function in (test, body)]  # fmt: skip
    test.output(test.apply("less", state[0][2], test.scalar(3, "i32")), "more")
    table, at, count = state[1]
    row = body.op("dynamic_slice", table, at, body.scalar(0, "i32"), sizes=[1, 2])
    found = body.op("reduce", row, dims=[0, 1], combiner="add")
    for value, name in (
        (body.op("copy", table), "t2"),
        (body.op("convert", found, dtype="i32"), "at2"),
        (count + 1, "i2"),
    ):
        body.output(value, name)
    x, start = b.input("x", (8, 2)), b.input("start", (), "i32")
    given = [b.op("sort", x, dim=0), start, b.scalar(0, "i32")]
    made = b.core.op("while", [one.value for one in given], {"trips": 3}, "", 3, ["test", "body"])
    b.output(Tensor(b, made[1]), "y")
    spmd = ts.partition(b.build(), {"t": 4}, {"x": ("t",)})
    assert sent(spmd) == 3 / 4 * 4 * 16
    given = {"x": np.arange(16, dtype=np.float32).reshape(8, 2)[::-1] % 5, "start": np.int32(2)}
    table, at = np.sort(given["x"], 0), 2
    for _ in range(3):
        at = int(table[min(max(at, 0), 7)].sum())
    assert ts.execute(spmd, given)["y"] == at
