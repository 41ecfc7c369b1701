"""What divisions pass through though it needs other devices' elements: rotations, orders, turns, numbers, joins."""

import importlib.util

import numpy as np
import pytest

import tilesim as ts
from support.divided import sent
from tilesim.cluster.partition import spread_shardings

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")


def numbers(shape, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.int32)


def checked(graph, mesh, shardings, *inputs):
    """The program, whose results are those of the whole graph."""
    spmd = ts.partition(graph, mesh, shardings)
    whole, parts = ts.reference(graph, list(inputs)), ts.execute(spmd, list(inputs))
    for name, wanted in whole.items():
        np.testing.assert_array_equal(parts[name], wanted, err_msg=name)
    return spmd


def rotated(rows, by, columns=3):
    """Rows that go round, as jnp.roll writes it: two slices put together; nothing is said of the result."""
    b = ts.GraphBuilder("roll", dtype="i32")
    x = b.input("x", (rows, columns))
    end = b.op("slice", x, start=[rows - by, 0], limit=[rows, columns])
    front = b.op("slice", x, start=[0, 0], limit=[rows - by, columns])
    b.output(b.op("concat", end, front, dim=0), "y")
    return b.build()


@pytest.mark.parametrize(
    ("rows", "by", "parts"), [(32, 1, 4), (32, 8, 4), (32, 3, 8), (64, 5, 8), (16, 15, 4), (12, 1, 3)]
)
def test_a_rotation_sends_what_a_device_lacks(rows, by, parts):
    x = numbers((rows, 3))
    spmd = checked(rotated(rows, by), {"d": parts}, {"x": ("d",)}, x)
    (output,) = spmd.outputs
    assert output["sharding"] == '[{"d"}, {}]'
    # it goes round the shorter way, and no device lacks more than a whole part
    assert sent(spmd) == min(by, rows - by, rows // parts) * 3 * 4


@pytest.mark.parametrize("seed", range(12))
def test_rotations_of_any_extent(seed):
    random = np.random.default_rng(seed)
    parts = int(random.integers(2, 6))
    rows = int(random.integers(parts, 40))
    by = int(random.integers(1, rows))
    checked(rotated(rows, by), {"d": parts}, {"x": ("d",)}, numbers((rows, 3), seed))


def test_what_is_sorted_is_divided_again():
    b = ts.GraphBuilder("sort", dtype="i32")
    b.output(b.op("sort", b.input("x", (8, 32)), dim=1), "y")
    spmd = checked(b.build(), {"d": 4}, {"x": (None, "d")}, numbers((8, 32)))
    # a quarter of the columns for a quarter of the rows, and back: 8 * 8 numbers, 3/4 of which change places
    assert [(row["kind"], row["wire_bytes"]) for row in spmd.collectives()] == [("all_to_all", 192)] * 2
    assert spmd.outputs[0]["sharding"] == '[{}, {"d"}]'


def test_parts_of_turned_axes_move_once():
    b = ts.GraphBuilder("flip", dtype="i32")
    b.output(b.op("reverse", b.input("x", (8, 12)), dims=[0, 1]), "y")
    spmd = checked(b.build(), {"a": 2, "b": 3}, {"x": ("a", "b")}, numbers((8, 12)))
    assert [(row["kind"], row["wire_bytes"]) for row in spmd.collectives()] == [("permute_devices", 4 * 4 * 4)]


def test_numbers_are_not_sent():
    b = ts.GraphBuilder("numbers", dtype="i32")
    x, w = b.input("x", (8, 12)), b.input("w", (8, 12))
    places = b.op("iota", shape=[8, 12], dim=0, dtype="i32")
    b.output(x + places, "y")
    b.output(w * places, "z")
    given = {"x": ("a", "b"), "y": ("a", "b"), "w": ("b", "a"), "z": ("b", "a")}
    spmd = checked(b.build(), {"a": 2, "b": 3}, given, numbers((8, 12)), numbers((8, 12), 1))
    assert not spmd.collectives()


def test_pieces_without_elements_divide_nothing():
    b = ts.GraphBuilder("empty", dtype="i32")
    x = b.input("x", (8, 6))
    nothing = b.op("slice", x, start=[0, 0], limit=[0, 6])
    joined = b.op("concat", nothing, b.op("concat", nothing, x, x, dim=0), dim=0)
    b.output(joined * 2, "y")
    spmd = checked(b.build(), {"d": 4}, {"x": (None, "d")}, numbers((8, 6)))
    assert not spmd.collectives()


def test_the_larger_tensor_divides_first():
    """Of two axes of the mesh that want one division of the result, the one of the larger operand has it."""
    b = ts.GraphBuilder("rows", dtype="f32")
    table, ids = b.input("table", (32, 16)), b.input("ids", (4, 8), "i32")
    b.output(b.op("embedding", table, ids) * 2, "y")
    graph = b.build(shardings={"table": '[{}, {"y"}]', "ids": '[{"x"}, {"y"}]'}, mesh={"x": 2, "y": 4})
    assert spread_shardings(graph)["y"] == '[{"x"}, {}, {"y"}]'


@needs_jax
def test_groups_along_parts_of_an_axis():
    """As HLO says them: devices of which all other digits of their place are equal."""
    from tilesim.cluster.partitioners.xla_child import AXES, listed

    def groups(text):
        said = AXES.sub(listed, f"replica_groups={text}").removeprefix("replica_groups={{").removesuffix("}}")
        return [[int(device) for device in row.split(",")] for row in said.split("},{")]

    assert groups("mesh['x'=2,'y'=4] {'y'}") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert groups("mesh['y'=4,'x'=2] {'x','y':(1)2}") == [[0, 4, 1, 5], [2, 6, 3, 7]]
    # axis y is 2 x 2: its minor part
    place = np.arange(8).reshape(2, 2, 2).transpose(0, 2, 1).reshape(2, 2, 2)  # [2,2,2]T(0,2,1) as 4 = 2 x 2, 2
    wanted = [[int(place[a, 0, c]), int(place[a, 1, c])] for a in range(2) for c in range(2)]
    assert groups("mesh['y'=4,'x'=2], device_ids=([2,2,2]T(0,2,1)) {'y':(2)2}") == wanted


@needs_jax
@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_as_hlo_says_them(largest):
    text = f"""module @m {{ func.func @main(%a: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {{
      %v, %i = mhlo.topk(%a, k = 3, largest = {str(largest).lower()}) :
        tensor<2x5xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
      return %v, %i : tensor<2x3xf32>, tensor<2x3xi32> }} }}"""
    x = np.array([[3, 1, 4, 1, 5], [2, 2, 9, 2, 7]], np.float32)
    values, places = ts.reference(ts.from_stablehlo(text), [x]).values()
    np.testing.assert_array_equal(values, [[5, 4, 3], [9, 7, 2]] if largest else [[1, 1, 3], [2, 2, 2]])
    np.testing.assert_array_equal(places, [[4, 2, 0], [2, 4, 0]] if largest else [[1, 3, 0], [0, 1, 3]])


def mixed(random):
    """Two to four operations on whole numbers, one after another, on one matrix."""
    b = ts.GraphBuilder("mixed", dtype="i32")
    shape = [int(random.choice([1, 5, 8, 12, 16])) for _ in range(2)]
    x = b.input("x", tuple(shape))
    for _ in range(int(random.integers(2, 5))):
        rows, columns = x.shape
        dim = int(random.integers(2))
        match int(random.integers(8)):
            case 0 if x.shape[dim] > 1:
                by = int(random.integers(1, x.shape[dim]))
                start, limit = [0, 0], [rows, columns]
                start[dim] = limit[dim] = by
                pieces = (b.op("slice", x, start=start, limit=[rows, columns]),
                          b.op("slice", x, start=[0, 0], limit=limit))  # fmt: skip
                x = b.op("concat", *pieces, dim=dim)
            case 1:
                x = b.op("sort", x, dim=dim)
            case 2:
                x = b.op("reverse", x, dims=[[0], [1], [0, 1]][int(random.integers(3))])
            case 3:
                x = x + b.op("iota", shape=[rows, columns], dim=dim, dtype="i32")
            case 4:
                x = b.op("cumulative", x, dim=dim, combiner="add")
            case 5:
                x = x.transpose(1, 0)
            case 6:
                x = b.op("pad", x, low=[1, 0], high=[0, 2])
            case _:
                x = x * 2 - b.op("reverse", x, dims=[dim])
    b.output(x, "y")
    return b.build()


def random_sharding(random, mesh, rank):
    """Each axis of the mesh on some axis of a tensor, or on none."""
    axes = [[] for _ in range(rank)]
    for name in random.permutation(list(mesh)):
        place = int(random.integers(rank + 1))
        if place < rank:
            axes[place].append(str(name))
    return tuple(tuple(names) or None for names in axes)


def compositions(seed):
    random = np.random.default_rng(seed)
    graph = mixed(random)
    mesh = dict(zip("ab", [int(size) for size in random.choice([2, 3, 4], 2)], strict=True))
    given = {"x": random_sharding(random, mesh, 2)}
    if random.integers(2):
        given["y"] = random_sharding(random, mesh, 2)
    checked(graph, mesh, given, numbers(graph.inputs[0]["shape"], seed))


@pytest.mark.parametrize("seed", range(20))
def test_compositions(seed):
    compositions(seed)


@pytest.mark.slow
def test_many_compositions():
    for seed in range(20, 620):
        compositions(seed)
