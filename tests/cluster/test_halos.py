"""Axes that are divided and read at shifted places: borders of neighbours, padding, what is sent."""

import numpy as np
import pytest

import tilesim as ts
from support.random_halos import KINDS, random_window
from tilesim.cluster.partition import partition_rules


def agrees(graph, spmd, seed=1):
    rng = np.random.default_rng(seed)
    types = {"f32": np.float32, "i32": np.int32}
    inputs = {row["name"]: rng.integers(-3, 4, row["shape"]).astype(types[row["dtype"]]) for row in graph.inputs}
    whole, parts = ts.reference(graph, inputs), ts.execute(spmd, inputs)
    for name, wanted in whole.items():
        np.testing.assert_array_equal(parts[name], wanted)


def compared(seed):
    """Partitions a random window, compares outputs; kind and kinds of collectives."""
    graph, axis, weight_axis = random_window(seed)
    rng = np.random.default_rng(seed + 1000)
    parts = int(rng.integers(2, 6))
    mesh = {"a": parts, "b": 2} if seed % 3 == 0 else {"a": parts}
    if graph.inputs[0]["shape"][axis] < parts:
        return None
    shardings = {"x": (*[None] * axis, "a")}
    if weight_axis and seed % 10 == 1:
        shardings["w"] = (None, None, "a")
    if rng.integers(2) and graph.outputs[0]["shape"][axis] >= parts:
        shardings["y"] = (*[None] * axis, "a")
    spmd = ts.partition(graph, mesh, shardings)
    agrees(graph, spmd, seed)
    return graph.name, {row["kind"] for row in spmd.collectives()}


def many(seeds):
    found = [made for made in map(compared, seeds) if made]
    for kind in KINDS:
        sends = [kinds for name, kinds in found if name == kind]
        assert sum("permute_devices" in kinds for kinds in sends) >= len(sends) / 3, kind
    return len(found)


@pytest.mark.parametrize(
    ("seeds", "least"), [(range(300), 250), pytest.param(range(300, 5300), 4000, marks=pytest.mark.slow)]
)
def test_random_windows_over_divided_axes(seeds, least):
    assert many(seeds) > least


def layer(extent, taps=3, stride=1, pads=(1, 1), kind="convolution"):
    b = ts.GraphBuilder("layer")
    x = b.input("x", (1, 4, extent, 6))
    if kind == "pooling":
        y = b.op("window_reduce", x, window=[1, 1, taps, 1], strides=[1, 1, stride, 1],
                 pads=[0, 0, 0, 0, *pads, 0, 0], combiner="maximum")  # fmt: skip
    else:
        w = b.input("w", (4, 4, taps, 1))
        y = b.op("convolution", x, w, x_labels="NCHW", w_labels="OIHW", y_labels="NCHW", strides=[stride, 1],
                 pads=[*pads, 0, 0])  # fmt: skip
    b.output(y, "y")
    return b.build()


@pytest.mark.parametrize("kind", ["convolution", "pooling"])
def test_borders_of_one_row_go_both_ways(kind):
    graph = layer(32, kind=kind)
    spmd = ts.partition(graph, {"a": 4}, {"x": (None, None, "a", None), "y": (None, None, "a", None)})
    rows = spmd.collectives()
    assert [row["kind"] for row in rows] == ["permute_devices"] * 2
    assert [row["wire_bytes"] for row in rows] == [1 * 4 * 1 * 6 * 4] * 2
    assert [row["groups"] for row in rows] == [[[0, 1], [1, 2], [2, 3]], [[1, 0], [2, 1], [3, 2]]]
    assert "before" in spmd.records[0]["reason"] and "behind" in spmd.records[1]["reason"]
    agrees(graph, spmd)


def test_windows_that_do_not_overlap_send_nothing():
    graph = layer(32, taps=2, stride=2, pads=(0, 0), kind="pooling")
    spmd = ts.partition(graph, {"a": 4}, {"x": (None, None, "a", None)})
    assert not spmd.collectives()
    agrees(graph, spmd)


def test_windows_longer_than_a_part_take_of_several_devices():
    graph = layer(12, taps=7, pads=(3, 3))
    spmd = ts.partition(graph, {"a": 6}, {"x": (None, None, "a", None), "y": (None, None, "a", None)})
    assert [row["kind"] for row in spmd.collectives()] == ["permute_devices"] * 4
    agrees(graph, spmd)


def test_windows_over_all_of_an_axis_gather_it():
    graph = layer(16, taps=15, pads=(7, 7))
    spmd = ts.partition(graph, {"a": 4}, {"x": (None, None, "a", None)})
    assert [row["kind"] for row in spmd.collectives()] == ["all_gather"]
    agrees(graph, spmd)


@pytest.mark.parametrize("extent", [29, 30, 31, 33])
@pytest.mark.parametrize("kind", ["convolution", "pooling"])
def test_padding_of_uneven_axes_is_not_read(extent, kind):
    graph = layer(extent, kind=kind)
    spmd = ts.partition(graph, {"a": 4}, {"x": (None, None, "a", None), "y": (None, None, "a", None)})
    assert "all_gather" not in [row["kind"] for row in spmd.collectives()]
    agrees(graph, spmd)


def test_two_divided_axes_share_their_corners():
    b = ts.GraphBuilder("plane")
    x, w = b.input("x", (1, 2, 9, 10)), b.input("w", (3, 2, 3, 3))
    b.output(b.op("convolution", x, w, x_labels="NCHW", w_labels="OIHW", y_labels="NCHW", pads=[1, 1, 1, 1]), "y")
    graph = b.build()
    spmd = ts.partition(graph, {"a": 2, "b": 3}, {"x": (None, None, "a", "b"), "y": (None, None, "a", "b")})
    assert {row["kind"] for row in spmd.collectives()} == {"permute_devices"}
    agrees(graph, spmd)


def test_layers_of_convolutions_and_their_gradients():
    b = ts.GraphBuilder("net")
    x, w, v = b.input("x", (2, 3, 16)), b.input("w", (4, 3, 3)), b.input("v", (4, 4, 3))
    labels = {"x_labels": "NCW", "w_labels": "OIW", "y_labels": "NCW"}
    h = b.apply("relu", b.op("convolution", x, w, pads=[1, 1], **labels))
    h = b.op("window_reduce", h, window=[1, 1, 2], strides=[1, 1, 2], combiner="add")
    b.output(b.op("convolution", h, v, pads=[1, 1], **labels), "y")
    graph = b.build()
    spmd = ts.partition(graph, {"a": 4}, {"x": (None, None, "a")})
    assert {row["kind"] for row in spmd.collectives()} == {"permute_devices"}
    agrees(graph, spmd)


def test_gradients_of_weights_are_summed_over_parts():
    b = ts.GraphBuilder("gradient")
    x, dy = b.input("x", (2, 4, 32)), b.input("dy", (2, 5, 32))
    labels = {"x_labels": "CNW", "w_labels": "IOW", "y_labels": "CNW"}
    b.output(b.op("convolution", x, dy, pads=[1, 1], **labels), "dw")
    graph = b.build()
    spmd = ts.partition(graph, {"a": 4}, {"x": (None, None, "a"), "dy": (None, None, "a"), "dw": ()})
    assert [row["kind"] for row in spmd.collectives()] == ["permute_devices"] * 2 + ["all_reduce"]
    assert spmd.collectives()[2]["wire_bytes"] == 2 * 3 * (4 * 5 * 3) * 4 // 4
    agrees(graph, spmd)


def test_rules_say_which_loop_of_a_window_is_divided():
    rows = {kind: lines for kind, lines in partition_rules(layer(32)).values()}
    assert any(line.startswith("oh=32 parallel") for line in rows["convolution"])
    assert any(line.startswith("kh=3 whole: ") for line in rows["convolution"])


@pytest.mark.parametrize("place", range(32))
def test_infinities_meet_the_zeros_of_padding_at_borders_alone(place):
    """Inf in a gradient's row that meets padding gives NaN, as zeros that are multiplied do; any other row and all of
    the input agree with one device, which skips its padding. By numpy, both ways."""
    b = ts.GraphBuilder("gradient")
    x, dy = b.input("x", (1, 1, 32)), b.input("dy", (1, 1, 32))
    labels = {"x_labels": "CNW", "w_labels": "IOW", "y_labels": "CNW"}
    b.output(b.op("convolution", x, dy, pads=[1, 1], **labels), "dw")
    spmd = ts.partition(b.build(), {"a": 4}, {"x": (None, None, "a"), "dy": (None, None, "a"), "dw": ()})
    for name in ("x", "dy"):
        values = {"x": np.arange(1, 33, dtype=np.float32), "dy": np.arange(33, 1, -1, dtype=np.float32)}
        values[name][place] = np.inf
        padded = np.pad(values["x"], 1)
        with np.errstate(invalid="ignore"):
            multiplied = [np.sum(padded[tap : tap + 32] * values["dy"]) for tap in range(3)]
        rows = [[i for i in range(32) if 0 <= i + tap - 1 < 32] for tap in range(3)]
        skipped = [sum(values["x"][i + tap - 1] * values["dy"][i] for i in own) for tap, own in enumerate(rows)]
        given = {key: one.reshape(1, 1, 32) for key, one in values.items()}
        np.testing.assert_allclose(ts.reference(spmd.source[0], given)["dw"].ravel(), skipped, rtol=1e-5)
        np.testing.assert_allclose(ts.execute(spmd, given)["dw"].ravel(), multiplied, rtol=1e-5)
        border = name == "dy" and place in (0, 31)
        assert np.isnan(multiplied).any() == border
