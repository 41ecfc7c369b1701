"""Every collective of a partitioned program is needed: without any one of them some output is another one."""

import copy

import numpy as np
import pytest

import tilesim as ts
from support.random_halos import random_window

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices")


def mlp():
    b = ts.GraphBuilder("mlp")
    x, up, down = b.input("x", (8, 16)), b.input("up", (16, 32)), b.input("down", (32, 16))
    b.output(b.matmul(b.apply("relu", b.matmul(x, up)), down), "y")
    return b.build()


def attention():
    b = ts.GraphBuilder("attention")
    x = b.input("x", (2, 8, 16))
    w = [b.input(name, (16, 16)) for name in "qkvo"]

    def heads(y):
        return b.op("transpose", b.op("reshape", y, shape=[2, 8, 4, 4]), permutation=[0, 2, 1, 3])

    q, k, v = (heads(b.matmul(x, weight)) for weight in w[:3])
    y = b.op("transpose", b.op("attention", q, k, v), permutation=[0, 2, 1, 3])
    b.output(b.matmul(b.op("reshape", y, shape=[2, 8, 16]), w[3]), "y")
    return b.build()


def table():
    b = ts.GraphBuilder("table")
    rows, ids = b.input("rows", (16, 6)), b.input("ids", (3, 5), "i64")
    b.output(b.op("embedding", rows, ids), "y")
    return b.build()


def moved():
    b = ts.GraphBuilder("moved")
    x = b.input("x", (8, 12))
    b.output(b.apply("tanh", x), "y")
    return b.build()


def statistics():
    b = ts.GraphBuilder("statistics")
    x = b.input("x", (6, 10))
    b.output(b.op("reduce", x, dims=[1], combiner="maximum"), "top")
    b.output(b.op("softmax", x, dim=1), "y")
    return b.build()


PROGRAMS = {
    "tensor": (mlp, {"t": 4}, {"x": (), "up": (None, "t"), "down": ("t", None), "y": ()}),
    "scatter": (mlp, {"t": 4}, {"up": (None, "t"), "down": ("t", None), "y": ("t", None)}),
    "fsdp": (mlp, {"d": 4}, {"x": ("d", None), "up": ("d", None), "down": ("d", None), "y": ("d", None)}),
    "both": (mlp, {"d": 2, "t": 2}, {"x": ("d", None), "up": ("d", "t"), "down": ("t", "d"), "y": ("d", None)}),
    "heads": (attention, {"t": 4}, {"q": (None, "t"), "k": (None, "t"), "v": (None, "t"), "o": ("t",), "y": ()}),
    "sequence": (attention, {"s": 4}, {"x": (None, "s"), "y": (None, "s"), "q": (), "k": (), "v": (), "o": ()}),
    "rows": (table, {"t": 4}, {"rows": ("t", None), "ids": (), "y": ()}),
    "exchange": (moved, {"a": 4}, {"x": ("a", None), "y": (None, "a")}),
    "permute": (moved, {"a": 2, "b": 2}, {"x": ("a", "b"), "y": ("b", "a")}),
    "statistics": (statistics, {"a": 4}, {"x": (None, "a"), "top": (), "y": (None, "a")}),
}


def inputs_of(graph, seed):
    rng = np.random.default_rng(seed)
    types = {"f32": np.float32, "i32": np.int32, "i64": np.int64}
    return {
        row["name"]: rng.integers(0 if row["dtype"] == "i64" else -4, 5, row["shape"]).astype(types[row["dtype"]])
        for row in graph.inputs
    }


def alone(op, shape):
    """What an operation between devices would be if each sent to itself alone: same shapes, nothing passes."""
    result, attributes = op["results"], op["attributes"]
    size = attributes.get("group_size") or 1

    def made(kind, operands, results, **said):
        return {"name": op["name"] + kind, "kind": kind, "operands": operands, "results": results, "attributes": said}

    def first(dim, results):
        limit = [n // size if i == dim else n for i, n in enumerate(shape)]
        return made("slice", op["operands"], results, start=[0] * len(shape), limit=limit)

    if op["kind"] == "all_gather":
        return [made("concat", op["operands"] * size, result, dim=attributes["dim"])]
    if op["kind"] == "reduce_scatter":
        return [first(attributes["dim"], result)]
    if op["kind"] == "all_to_all":
        split = attributes["split_dim"]
        piece = {**result[0], "name": op["name"] + ".piece"}
        piece["shape"] = [n // size if i == split else n for i, n in enumerate(shape)]
        piece.pop("sharding", None)
        join = made("concat", [piece["name"]] * size, result, dim=attributes["concat_dim"])
        return [first(split, [piece]), join]
    return [made("copy", op["operands"], result)]


def without_one(spmd):
    """The program without each of its collectives in turn, and the name of that one."""
    whole = spmd.to_dict()
    for f, function in enumerate(whole["graphs"][0]["functions"]):
        shapes = {row["name"]: row["shape"] for row in function["inputs"]}
        shapes |= {row["name"]: row["shape"] for op in function["ops"] for row in op["results"]}
        for i, op in enumerate(function["ops"]):
            if op["kind"] in KINDS:
                data = copy.deepcopy(whole)
                data["graphs"][0]["functions"][f]["ops"][i : i + 1] = alone(op, shapes[op["operands"][0]])
                yield op["name"], ts.cluster.Spmd.from_dict(data)


def same(graph, spmd, seeds=3):
    for seed in range(seeds):
        inputs = inputs_of(graph, seed)
        whole, parts = ts.reference(graph, inputs), ts.execute(spmd, inputs)
        if not all(np.allclose(parts[name], whole[name], rtol=1e-4, atol=1e-4) for name in whole):
            return False
    return True


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_collective_can_be_left_out(name):
    build, mesh, shardings = PROGRAMS[name]
    graph = build()
    spmd = ts.partition(graph, mesh, shardings)
    assert same(graph, spmd)
    mutants = dict(without_one(spmd))
    assert len(mutants) == len(spmd.collectives()) > 0
    assert [left for left, mutant in mutants.items() if same(graph, mutant)] == []


def test_no_border_can_be_left_out():
    tried = 0
    for seed in range(60):
        graph, axis, _ = random_window(seed)
        if graph.inputs[0]["shape"][axis] < 4:
            continue
        spmd = ts.partition(graph, {"a": 3}, {"x": (*[None] * axis, "a")})
        for left, mutant in without_one(spmd):
            tried += 1
            assert not same(graph, mutant, seeds=8), (seed, left)
    assert tried > 60
