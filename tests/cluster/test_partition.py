"""Programs of several devices from shardings: outputs of the whole graph, and what passes between devices."""

import numpy as np
import pytest

import tilesim as ts


def integers(shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def mlp(batch=8, width=16, hidden=32):
    builder = ts.GraphBuilder("mlp")
    x, up, down = (
        builder.input(name, shape) for name, shape in (("x", (batch, width)), ("up", (width, hidden)), ("down", (hidden, width)))
    )
    builder.output(builder.matmul(builder.relu(builder.matmul(x, up)), down), "y")
    return builder.build()


def kinds(spmd):
    return [row["kind"] for row in spmd.collectives()]


def agrees(graph, spmd, seed=1):
    inputs = {row["name"]: integers(row["shape"], seed + i) for i, row in enumerate(graph.inputs)}
    whole, parts = ts.execute(graph, inputs), ts.execute(spmd, inputs)
    for name, wanted in whole.items():
        np.testing.assert_array_equal(parts[name], wanted)


def test_tensor_parallel_layer_sums_once():
    graph = mlp()
    spmd = ts.partition(graph, {"t": 4}, {"x": (), "up": (None, "t"), "down": ("t", None), "y": ()})
    assert spmd.devices == 4
    assert kinds(spmd) == ["all_reduce"]
    assert spmd.collectives()[0]["wire_bytes"] == 2 * 3 * 8 * 16 * 4 // 4
    assert "matmul" in spmd.records[0]["reason"] or spmd.records[0]["reason"]
    agrees(graph, spmd)


def test_divided_weights_are_gathered_or_scattered():
    graph = mlp(batch=64)
    spmd = ts.partition(graph, {"d": 4}, {"x": ("d", None), "up": ("d", None), "down": ("d", None), "y": ("d", None)})
    assert kinds(spmd) == ["all_gather", "all_gather"]
    sent = sum(row["wire_bytes"] for row in spmd.collectives())
    assert sent == 2 * 3 * 16 * 32 * 4 // 4
    agrees(graph, spmd)


def test_sums_become_scatters_where_the_result_is_divided():
    graph = mlp()
    spmd = ts.partition(graph, {"t": 4}, {"up": (None, "t"), "down": ("t", None), "y": ("t", None)})
    assert "reduce_scatter" in kinds(spmd)
    agrees(graph, spmd)


@pytest.mark.parametrize("sizes", [(7, 10, 13), (5, 3, 9), (1, 2, 6)])
def test_uneven_parts_are_padded(sizes):
    graph = mlp(*sizes)
    spmd = ts.partition(graph, "a=2, b=3", {"x": ("a", None), "up": (None, "b"), "down": ("b", None)})
    agrees(graph, spmd)


def test_devices_in_another_order():
    graph = mlp()
    agrees(graph, ts.partition(graph, "a=2, b=2, device_ids=[3, 1, 0, 2]", {"x": ("a", "b"), "y": ("b", "a")}))


def test_the_graph_itself_stays():
    graph = mlp()
    before = graph.to_json()
    ts.partition(graph, {"t": 2}, {"up": (None, "t")})
    assert graph.to_json() == before


@pytest.mark.parametrize(
    ("mesh", "shardings", "words"),
    [
        ({"t": 4}, {"x": ("t", "t")}, "t"),
        ({"tensor": 4}, {"x": ("tenso", None)}, "tensor"),
        ({"t": 4}, {"x": ("t", None, None)}, "x"),
        ({"t": 4}, {"xx": ("t", None)}, "x"),
        (None, {"x": ("t", None)}, "mesh"),
        ({"t": 4}, {"x": 3}, "sharding"),
        ("t=4, device_ids=[0, 1]", {"x": ("t", None)}, "device"),
    ],
)
def test_what_does_not_fit_is_refused(mesh, shardings, words):
    with pytest.raises(ts.UserError, match=words):
        ts.partition(mlp(), mesh, shardings)


def test_other_partitioners():
    with pytest.raises(ts.Unsupported, match="shardy"):
        ts.partition(mlp(), {"t": 4}, {"x": ("t", None)}, by="shardy")
    with pytest.raises(ts.UserError, match="own"):
        ts.partition(mlp(), {"t": 4}, {"x": ("t", None)}, by="owm")
