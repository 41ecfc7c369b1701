"""Programs of several devices from shardings: outputs of the whole graph, and what passes between devices."""

import numpy as np
import pytest

import tilesim as ts
from support.lowering_cases import CASES, single
from tilesim import _core
from tilesim.cluster.partition import partition_rules


def integers(shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def mlp(batch=8, width=16, hidden=32):
    builder = ts.GraphBuilder("mlp")
    x, up, down = (
        builder.input(name, shape)
        for name, shape in (("x", (batch, width)), ("up", (width, hidden)), ("down", (hidden, width)))
    )
    builder.output(builder.matmul(builder.apply("relu", builder.matmul(x, up)), down), "y")
    return builder.build()


def kinds(spmd):
    return [row["kind"] for row in spmd.collectives()]


def agrees(graph, spmd, seed=1):
    inputs = {row["name"]: integers(row["shape"], seed + i) for i, row in enumerate(graph.inputs)}
    whole, parts = ts.reference(graph, inputs), ts.execute(spmd, inputs)
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
    before = graph.core.to_json()
    ts.partition(graph, {"t": 2}, {"up": (None, "t")})
    assert graph.core.to_json() == before


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


def test_unknown_partitioners_get_a_suggestion():
    with pytest.raises(ts.UserError, match="own"):
        ts.partition(mlp(), {"t": 4}, {"x": ("t", None)}, by="owm")


# --- kinds and rules ---

#: kinds that are not divided by a rule of their own
APART = {
    "call": "becomes the operations of its function",
    "fused": "becomes the operations of its function",
    "while": "its functions are divided, its state agrees with theirs",
    "branch": "its functions are divided, all devices take the same one",
    "constant": "stands on every device, and each takes its part",
    "opaque": "its semantics are user-defined",
    "all_reduce": "between devices already, of a region of devices' own tensors",
    "all_gather": "between devices already, of a region of devices' own tensors",
    "reduce_scatter": "between devices already, of a region of devices' own tensors",
    "all_to_all": "between devices already, of a region of devices' own tensors",
    "permute_devices": "between devices already, of a region of devices' own tensors",
    "broadcast_devices": "between devices already, of a region of devices' own tensors",
    "device_index": "already has an operation between devices",
}


MORE = {
    "update of rows": single("dynamic_update", [[8, 6], [2, 6], ([], "i32"), ([], "i32")]),
    "attention": single("attention", [[2, 4, 6, 8], [2, 2, 6, 8], [2, 2, 6, 8]], causal=True),
    "batch_norm": single("batch_norm", [[4, 6, 5], [6], [6], [6], [6]], feature_dim=1, epsilon=1e-5),
    "rotary": single("rotary", [[2, 6, 8], [6, 8], [6, 8]], style="halves"),
    "fft": single("fft", [[4, 8]], dim=1, results=2),
    "linear_solve": single("linear_solve", [[4, 3, 3]], mode="cholesky"),
    "ragged_contract": single("ragged_contract", [[8, 6], [2, 6, 4], ([2], "i32")]),
    "window_scatter": single("window_scatter", [[4, 6], [4, 3]], window=[1, 2], strides=[1, 2], select="maximum"),
    "reverse of columns": single("reverse", [[8, 6]], dims=[1]),
    "layers": single("normalize", [[8, 6], [6]], mode="rms", dims=[1], epsilon=1e-5),
}


def test_every_kind_has_rules_or_a_reason():
    known = {}
    for build in [*CASES.values(), *MORE.values()]:
        for kind, rows in partition_rules(build()).values():
            known.setdefault(kind, set()).update(rows)
    for kind, rows in sorted(known.items()):
        print(f"{kind}: " + "; ".join(sorted(rows)))
        divided = [row for row in rows if " parallel" in row or " reduced" in row]
        whole = [row for row in rows if "whole: " in row]
        assert len(divided) + len(whole) == len(rows), kind
        assert all(len(row.split("whole: ")[1]) > 10 for row in whole), kind
        assert divided or kind in APART, kind
    assert set(known) | set(APART) == set({row["name"] for row in _core.kinds()})


@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_every_lowering_divided_along_its_first_and_last_axes(case):
    graph = (CASES | MORE)[case]()
    inputs = _core.random_inputs(graph.core, 3)
    try:
        whole = ts.reference(graph, list(inputs))
    except ts.Unsupported:
        pytest.skip("no reference")
    for last in (False, True):
        shardings = {}
        for row in graph.inputs:
            axes = [None] * len(row["shape"])
            if axes and row["shape"][-1 if last else 0] > 1:
                axes[-1 if last else 0] = "a"
                shardings[row["name"]] = tuple(axes)
        try:
            parts = ts.execute(ts.partition(graph, {"a": 2}, shardings), list(inputs))
        except ts.Unsupported as error:
            assert "between devices" in str(error)
            continue
        for name, wanted in whole.items():
            wanted = np.asarray(wanted, np.float64)
            largest = np.nanmax(np.abs(wanted[np.isfinite(wanted)]), initial=1)
            np.testing.assert_allclose(np.asarray(parts[name], np.float64), wanted, rtol=2e-2, atol=2e-2 * largest)


@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (7, 7)])
@pytest.mark.parametrize("function", ["remainder", "divide", "floor_divide"])
def test_padding_divides_nothing(shape: tuple[int, int], function: str) -> None:
    """Whole numbers of uneven axes, the divisor of which is divided otherwise than what it divides."""
    b = ts.GraphBuilder("divides", dtype="i32")
    x, y = b.input("x", shape), b.input("y", shape)
    b.output(b.apply(function, x, y), "z")
    b.output(b.apply(function, x + y, b.weight("seven", (1, 1), data=np.full((1, 1), 7, np.int32))), "w")
    graph, draw = b.build(), np.random.default_rng(3)
    given = {"x": draw.integers(-20, 20, shape).astype(np.int32), "y": draw.integers(1, 5, shape).astype(np.int32)}
    want = ts.reference(graph, given)
    for mesh, shardings in (
        ({"a": 2}, {"x": ("a", None), "y": (None, "a")}), ({"a": 2, "b": 2}, {"x": ("a", None), "y": ("b", "a")}),
        ({"a": 2, "b": 2}, {"x": ("b", "a"), "y": ("a", None)}),
    ):  # fmt: skip
        found = ts.execute(ts.partition(graph, mesh, shardings), given)
        assert all((found[name] == want[name]).all() for name in want)
