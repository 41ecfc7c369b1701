"""Graphs from Python: builder, files, errors, domains against kernels, networks."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesim import _core, models, workloads
from tilesim.graph import Graph, GraphBuilder, Tensor

# --- random graphs ---


class Draw:
    """Grows a graph by random operations."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.b = GraphBuilder("random")
        self.tensors: list[Tensor] = []

    def one(self, choices: Any) -> Any:
        return self.data.draw(st.sampled_from(list(choices)))

    def tensor(self) -> Tensor:
        return self.one(self.tensors)

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def grow(self) -> None:
        x = self.tensor()
        step = self.one(
            ["unary", "binary", "reduce", "transpose", "reshape", "slice", "softmax", "convert", "norm", "pad"]
        )
        if step == "binary":
            y = self.tensor()
            try:
                np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                y = x
            self.tensors.append(self.b.apply(self.one(["add", "multiply", "maximum"]), x, y.convert(x.dtype)))
        elif step == "unary" or x.ndim == 0:
            self.tensors.append(self.b.apply(self.one(["negate", "tanh", "relu", "abs"]), x))
        elif step == "reduce":
            self.tensors.append(x.sum(self.integer(0, x.ndim - 1), keep_dims=self.one([True, False])))
        elif step == "transpose":
            self.tensors.append(x.transpose(*self.data.draw(st.permutations(range(x.ndim)))))
        elif step == "reshape":
            self.tensors.append(x.reshape(-1))
        elif step == "slice":
            self.tensors.append(x[self.integer(0, x.shape[0] - 1) :: self.integer(1, 3)])
        elif step == "convert":
            self.tensors.append(x.convert(self.one(["f32", "bf16", "f64"])))
        elif step == "softmax":
            self.tensors.append(x.softmax(self.integer(0, x.ndim - 1)))
        elif step == "norm":
            self.tensors.append(self.b.layer_norm(x, epsilon=0.1))
        else:
            low = [self.integer(0, 2) for _ in x.shape]
            self.tensors.append(self.b.op("pad", x, low=low, high=low, mode="constant"))

    def graph(self) -> Graph:
        for i in range(self.integer(1, 3)):
            shape = [self.integer(1, 4) for _ in range(self.integer(0, 3))]
            make = self.b.input if i == 0 or self.one([True, False]) else self.b.weight
            self.tensors.append(make(f"t{i}", shape))
        for _ in range(self.integer(1, 12)):
            self.grow()
        self.b.output(self.tensors[-1])
        return self.b.build()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_graphs_round_trip(data: Any) -> None:
    graph = Draw(data).graph()
    back = Graph.from_json(graph.to_json())
    assert back == graph
    assert back.to_json() == graph.to_json()
    assert graph.compulsory_bytes() >= 0 and all(value >= 0 for value in graph.flops().values())


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_passes_keep_outputs_and_their_names(data: Any) -> None:
    graph = Draw(data).graph()
    inputs = _core.random_inputs(graph.core, 1)
    reference, outputs = _core.evaluate(graph.core, inputs), graph.outputs
    for change in ("merge_common_subexpressions", "fold_constants", "remove_no_ops", "remove_dead_code", "expand"):
        getattr(graph, change)()
        graph.check()
        assert graph.outputs == outputs, change
        for got, wanted in zip(_core.evaluate(graph.core, inputs), reference, strict=True):
            tolerance = 2e-2 if "bf16" in graph.to_json() else 1e-5
            np.testing.assert_allclose(
                np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=tolerance, atol=tolerance
            )


# --- domains against the reference kernels ---


def positions(axis: dict[str, Any], index: np.ndarray) -> np.ndarray:
    """Position on one tensor axis for every point of the nest; -1 where the fill is read."""
    raw = np.full(index.shape[1], axis["constant"])
    for dim, coefficient in axis["terms"]:
        raw = raw + coefficient * index[dim]
    return np.where((raw >= 0) & (raw % axis["divisor"] == 0), raw // axis["divisor"], -1)


def read(array: np.ndarray, axes: Any, index: np.ndarray, fill: float) -> np.ndarray:
    inside = np.ones(index.shape[1], bool)
    where = []
    for extent, axis in zip(array.shape, axes, strict=True):
        at = positions(axis, index)
        outside = (at < 0) | (at >= extent)
        assert axis["may_leave"] or axis["divisor"] > 1 or not outside.any()
        inside &= ~outside
        where.append(np.where(outside, 0, at))
    return np.where(inside, array[tuple(where)], fill)


def by_domain(graph: Graph, operation: str, operands: list[np.ndarray], combine: str, fill: float = 0.0) -> np.ndarray:
    """The operation computed from its domain alone: operands multiplied, then combined over the reduced dims."""
    nest = graph.core.domain(operation)
    index = (
        np.stack([grid.ravel() for grid in np.indices(nest["extents"])]) if nest["extents"] else np.zeros((0, 1), int)
    )
    value = np.ones(index.shape[1])
    for array, axes in zip(operands, nest["operands"], strict=True):
        value = value * read(np.asarray(array, np.float64), axes, index, fill)
    shape = graph.outputs[0]["shape"]
    combiner = np.add if combine == "add" else np.maximum
    result = np.full(shape, 0.0 if combine == "add" else -np.inf)
    at = tuple(positions(axis, index) for axis in nest["results"][0])
    combiner.at(result, at, value)
    return result


CONVOLUTIONS = [
    {"x": (2, 3, 7, 6), "w": (4, 3, 3, 2)},
    {"x": (1, 2, 9, 8), "w": (3, 2, 3, 3), "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"x": (1, 2, 9, 8), "w": (3, 2, 2, 3), "window_dilation": [3, 2], "pads": [-1, 1, 2, -2]},
    {"x": (1, 2, 4, 5), "w": (3, 2, 3, 3), "input_dilation": [2, 3], "pads": [2, 2, 1, 2]},
    {"x": (2, 6, 5, 5), "w": (4, 3, 3, 3), "groups": 2, "pads": [1, 1, 1, 1]},
    {"x": (4, 3, 5, 5), "w": (6, 3, 2, 2), "batch_groups": 2},
    {"x": (2, 5, 4, 3), "w": (2, 2, 3, 4), "x_labels": "NWHC", "w_labels": "HWIO", "y_labels": "CWHN"},
    {"x": (2, 3, 8), "w": (4, 3, 3), "x_labels": "NCW", "w_labels": "OIW", "y_labels": "NCW", "strides": [2]},
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_domain_of_a_convolution(case: dict[str, Any]) -> None:
    attributes = {"x_labels": "NCHW", "w_labels": "OIHW", "y_labels": "NCHW"} | case
    b = GraphBuilder()
    x, w = b.input("x", attributes.pop("x")), b.input("w", attributes.pop("w"))
    b.output(b.op("convolution", x, w, name="op", **attributes))
    graph = b.build()
    inputs = _core.random_inputs(graph.core, 3)
    np.testing.assert_allclose(by_domain(graph, "op", inputs, "add"), _core.evaluate(graph.core, inputs)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((3, 4), (4, 5), {"a_contract": [1], "b_contract": [0]}),
        ((2, 3, 4), (5, 4, 2), {"a_batch": [0], "b_batch": [2], "a_contract": [2], "b_contract": [1]}),
        ((2, 3, 4, 5), (4, 2, 6), {"a_contract": [0, 2], "b_contract": [1, 0]}),
        ((3,), (4,), {}),
    ],
)
def test_domain_of_a_contraction(a: tuple[int, ...], b: tuple[int, ...], attributes: dict[str, Any]) -> None:
    builder = GraphBuilder()
    builder.output(builder.op("contract", builder.input("a", a), builder.input("b", b), name="op", **attributes))
    graph = builder.build()
    inputs = _core.random_inputs(graph.core, 3)
    np.testing.assert_allclose(by_domain(graph, "op", inputs, "add"), _core.evaluate(graph.core, inputs)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "attributes", "combine", "fill"),
    [
        ("reduce", {"dims": [0, 2], "combiner": "add"}, "add", 0),
        ("reduce", {"dims": [1], "combiner": "maximum", "keep_dims": True}, "maximum", 0),
        ("window_reduce", {"window": [1, 3, 2], "strides": [1, 2, 1], "combiner": "add"}, "add", 0),
        (
            "window_reduce",
            {"window": [2, 2, 3], "pads": [0, 1, 1, 0, 2, 0], "window_dilation": [1, 2, 1], "combiner": "maximum"},
            "maximum",
            -math.inf,
        ),
        ("transpose", {"permutation": [2, 0, 1]}, "add", 0),
        ("slice", {"start": [0, 1, 2], "limit": [3, 4, 6], "stride": [2, 1, 3]}, "add", 0),
        ("reverse", {"dims": [0, 2]}, "add", 0),
        ("pad", {"low": [1, 0, -2], "high": [0, 2, 1], "interior": [0, 2, 1], "mode": "constant"}, "add", 0),
        ("broadcast", {"shape": [3, 2, 4, 6], "dims": [0, 2, 3]}, "add", 0),
        ("copy", {}, "add", 0),
    ],
)
def test_domain_of_other_kinds(kind: str, attributes: dict[str, Any], combine: str, fill: float) -> None:
    b = GraphBuilder()
    b.output(b.op(kind, b.input("x", (3, 4, 6)), name="op", **attributes))
    graph = b.build()
    inputs = _core.random_inputs(graph.core, 5)
    np.testing.assert_allclose(
        by_domain(graph, "op", inputs, combine, fill), _core.evaluate(graph.core, inputs)[0], atol=1e-5
    )


def test_domain_of_broadcasting_operands() -> None:
    b = GraphBuilder()
    b.output(b.apply("multiply", b.input("x", (3, 1, 4)), b.input("y", (5, 1)), name="op"))
    graph = b.build()
    inputs = _core.random_inputs(graph.core, 5)
    np.testing.assert_allclose(by_domain(graph, "op", inputs, "add"), _core.evaluate(graph.core, inputs)[0], atol=1e-6)
    assert graph.core.domain("op")["operands"][1][1]["terms"] == []


def test_domains_that_are_not_affine() -> None:
    b = GraphBuilder()
    table, ids = b.input("table", (7, 3)), b.input("ids", (2,), "i32")
    b.output(b.op("embedding", table, ids, name="op"))
    domain = b.build().core.domain("op")
    assert domain["operands"][0] is None and domain["operands"][1] is not None


# --- costs by hand ---


def test_flops_by_hand() -> None:
    assert workloads.matmul(3, 5, 7).flops()["matrix"] == 2 * 3 * 5 * 7
    assert workloads.matmul(3, 5, 7, batch=4).flops()["matrix"] == 2 * 3 * 5 * 7 * 4
    conv = workloads.conv2d(2, 6, 9, 9, 8, 3, padding=1, groups=2).flops()
    assert conv["matrix"] == 2 * (2 * 8 * 9 * 9) * 3 * 3 * 3
    softmax = workloads.softmax(4, 10).flops()
    assert (softmax["simple"], softmax["divide"], softmax["transcendental"]) == (3 * 40, 40, 40)
    attention = workloads.attention(2, 3, 5, 8, keys=7).flops()
    assert attention["matrix"] == 2 * 2 * (2 * 3 * 5 * 7 * 8)
    assert workloads.elementwise("fma", 6).flops()["multiply"] == 12


def test_compulsory_bytes_by_hand() -> None:
    assert workloads.matmul(3, 5, 7).compulsory_bytes() == 4 * (21 + 35 + 15)
    assert workloads.matmul(3, 5, 7, dtype="bf16").compulsory_bytes() == 2 * (21 + 35 + 15)
    # a 1×1 convolution of stride 2 reads every second row and column
    assert workloads.conv2d(1, 4, 8, 8, 6, 1, stride=2).compulsory_bytes() == 4 * (4 * 16 + 24 + 6 * 16)
    # kernel 3, stride 3 over 10: positions 0 to 8
    assert workloads.conv2d(1, 1, 10, 10, 1, 3, stride=3).compulsory_bytes() == 4 * (81 + 9 + 9)
    b = GraphBuilder()
    ids = b.input("ids", (5,), "i32")
    b.output(b.op("embedding", b.weight("table", (1000, 4)), ids))
    assert b.build().compulsory_bytes() == 5 * 4 + 5 * 4 * 4 + 5 * 4 * 4


def test_an_aliased_update_moves_the_written_part_only() -> None:
    b = GraphBuilder()
    cache, new, at = b.input("cache", (100, 8)), b.input("new", (1, 8)), b.input("at", (), "i32")
    b.output(b.op("dynamic_update", cache, new, at, at, name="op"))
    b.alias(0, 0)
    graph = b.build()
    assert graph.compulsory_bytes() == 2 * 32 + 4
    assert graph.operations()[0]["bytes"] == 2 * 32 + 4
    assert graph.core.aliases() == [(0, 0)]


def test_a_called_function_counts_once_per_call() -> None:
    b = GraphBuilder()
    layer = b.function("layer")
    x = layer.input("x", (2, 4))
    layer.output(layer.matmul(x, layer.input("w", (4, 4))))
    y = b.input("y", (2, 4))
    for i in range(3):
        y = b.call(layer, y, b.weight(f"w{i}", (4, 4)))
    b.output(y)
    graph = b.build()
    assert graph.flops()["matrix"] == 3 * 2 * 2 * 4 * 4
    assert graph.compulsory_bytes() == 4 * (3 * 16 + 8 + 8)
    inputs = _core.random_inputs(graph.core, 0)
    before = _core.evaluate(graph.core, inputs)[0]
    assert graph.inline_calls() == 3
    graph.check()
    assert graph.remove_dead_code() == 0 and graph.functions == ["main"]
    np.testing.assert_array_equal(_core.evaluate(graph.core, inputs)[0], before)


# --- expansions ---


def kinds_of(graph: Graph) -> list[str]:
    return [
        op["attributes"].get("function") or op["attributes"].get("combiner") or op["kind"]
        for op in graph.operations()
        if op["kind"] != "constant"
    ]


def test_softmax_expands_to_five_operations() -> None:
    graph = workloads.softmax(4, 6)
    assert graph.expand() == 1
    assert kinds_of(graph) == ["maximum", "subtract", "exp", "add", "divide"]
    narrow = workloads.softmax(4, 6, dtype="bf16")
    narrow.expand()
    assert kinds_of(narrow) == ["convert", "maximum", "subtract", "exp", "add", "divide", "convert"]
    assert narrow.outputs == workloads.softmax(4, 6, dtype="bf16").outputs


def test_expand_only_what_is_named() -> None:
    graph = workloads.attention(1, 4, 6, 8, key_heads=2, causal=True)
    assert graph.expand(["softmax"]) == 0
    assert graph.expand(["attention"]) == 1
    kinds = kinds_of(graph)
    assert kinds.count("contract") == 2 and "select" in kinds and "softmax" not in kinds
    with pytest.raises(_core.UserError, match="softmax"):
        graph.expand(["sotfmax"])


def test_all_hidden_rows_are_nan_in_softmax_and_zero_in_attention() -> None:
    graph = workloads.softmax(2, 3)
    graph.expand()
    row = np.array([[-np.inf] * 3, [0, 1, 2]], np.float32)
    got = np.asarray(_core.evaluate(graph.core, [row])[0])
    assert np.isnan(got[0]).all() and np.isclose(got[1].sum(), 1)


# --- builder and errors ---


def test_operators_agree_with_numpy() -> None:
    b = GraphBuilder()
    x, y = b.input("x", (2, 3, 4)), b.input("y", (4, 5))
    b.output(((x * 2 - 1) @ y / 3 + (1 - x.mean(-1, keep_dims=True)))[:, ::2, None, 1:])
    b.output((-x).max())
    b.output(x[..., -1])
    b.output(2 / x.transpose(2, 0, 1))
    graph = b.build()
    p, q = (np.asarray(array) for array in _core.random_inputs(graph.core, 2))
    wanted = [
        ((p * 2 - 1) @ q / 3 + (1 - p.mean(-1, keepdims=True)))[:, ::2, None, 1:],
        (-p).max(),
        p[..., -1],
        2 / p.transpose(2, 0, 1),
    ]
    for got, value in zip(_core.evaluate(graph.core, [p, q]), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5)
        assert np.shape(got) == np.shape(value)


@pytest.mark.parametrize(("a", "b"), [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((3,), (3, 4))])
def test_matmul_takes_the_shapes_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    builder = GraphBuilder()
    builder.output(builder.input("a", a) @ builder.input("b", b))
    graph = builder.build()
    inputs = [np.asarray(array) for array in _core.random_inputs(graph.core, 2)]
    np.testing.assert_allclose(_core.evaluate(graph.core, inputs)[0], inputs[0] @ inputs[1], rtol=1e-5, atol=1e-5)


def b_with(*shapes: tuple[int, ...], dtype: str = "f32") -> tuple[GraphBuilder, list[Tensor]]:
    b = GraphBuilder(dtype=dtype)
    return b, [b.input(f"x{i}", shape) for i, shape in enumerate(shapes)]


MISTAKES = [
    (lambda b, x: x[0] + x[1], r"do not broadcast.*\[2, 3\] and \[4, 5\]"),
    (lambda b, x: x[0] @ x[1], r'"matmul".*differ in extent.*f32\[2, 3\] and f32\[4, 5\]'),
    (lambda b, x: b.apply("rellu", x[0]), "relu"),
    (lambda b, x: b.op("sofmax", x[0], dim=0), "softmax"),
    (lambda b, x: b.op("softmax", x[0], dmi=0), "dim"),
    (lambda b, x: b.op("softmax", x[0], dim="0"), "wrong type"),
    (lambda b, x: b.op("softmax", x[0], dim=2), "0 to 1"),
    (lambda b, x: b.op("softmax", x[0]), "'dim' is missing"),
    (lambda b, x: b.op("softmax", x[0], x[1], dim=0), "wrong number of operands.*got 2"),
    (lambda b, x: b.op("reduce", x[0], dims=[0, 0], combiner="add"), "twice"),
    (lambda b, x: b.op("reduce", x[0], dims=[0], combiner="sum"), "unknown value"),
    (lambda b, x: b.op("concat", x[0], x[1], dim=0), r"differ beside axis 0"),
    (lambda b, x: b.op("slice", x[0], start=[0, 0], limit=[2, 4]), "leaves axis 1"),
    (lambda b, x: b.op("pad", x[0], low=[1], high=[1, 1]), "2 integers"),
    (lambda b, x: b.conv2d(x[0], x[1]), "does not fit the operand"),
    (lambda b, x: b.op("embedding", x[0], x[1]), "ids must be integers"),
    (lambda b, x: b.apply("add", x[0], x[0].convert("bf16")), "differ in dtype"),
    (lambda b, x: b.apply("exp", x[0].convert("i32")), "no meaning on integers"),
    (lambda b, x: b.apply("bitwise_and", x[0], x[0]), "works on bits"),
    (lambda b, x: x[0].reshape(7), r"f32\[2, 3\] to \[7\]"),
    (lambda b, x: x[0].transpose(0, 0), "twice"),
    (lambda b, x: x[0].convert("bflot16"), "bfloat16"),
    (lambda b, x: x[0][5], "out of range"),
    (lambda b, x: x[0][::-1], "backwards"),
    (lambda b, x: x[0][0, 0, 0], "too many indices"),
    (lambda b, x: b.weight("w", (2, -3)), "negative extent"),
    (lambda b, x: b.weight("w", (1 << 40, 1 << 40)), "too many elements"),
    (lambda b, x: (b.weight("w", (2,)), b.weight("w", (3,))), "another type"),
    (lambda b, x: b.input("x0", (2,)), "taken"),
    (lambda b, x: b.layer_norm(x[0], x[1]), "scale has the wrong shape"),
    (lambda b, x: b.apply("add", x[0], 3), "no tensor"),
    (lambda b, x: b.function("f").apply("relu", x[0]), "another function"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_mistakes_are_named(mistake: Any, message: str) -> None:
    b, x = b_with((2, 3), (4, 5))
    with pytest.raises(_core.UserError, match=message):
        mistake(b, x)


def test_recursion_and_missing_outputs_are_errors() -> None:
    b = GraphBuilder()
    x = b.input("x", (2,))
    with pytest.raises(_core.UserError, match="calls itself"):
        b.call(b, x)
    f = b.function("f")
    f.output(f.input("x", (3,)))
    with pytest.raises(_core.UserError, match=r"input \"x\" of function \"f\".*f32\[2\].*f32\[3\]"):
        b.call(f, x)
    b.alias(0, 0)
    with pytest.raises(_core.UserError, match="alias"):
        b.build()


# --- files and weights ---


def test_files_read_back(tmp_path: Path) -> None:
    graph = models.build("mlp")
    graph.set_weight("layers.0.bias", np.arange(512, dtype=np.float32))
    for name in ("g.json", "g.tsim"):
        graph.save(tmp_path / name)
        back = Graph.load(tmp_path / name)
        np.testing.assert_array_equal(back.weight("layers.0.bias"), np.arange(512))
        np.testing.assert_array_equal(back.weight("layers.1.weight"), graph.weight("layers.1.weight"))
    assert Graph.load(tmp_path / "g.json") == graph


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint16", "int64", "bool"])
def test_weights_from_numpy_files(tmp_path: Path, dtype: str) -> None:
    array = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
    np.save(tmp_path / "w.npy", array)
    b = GraphBuilder()
    name = str(_core.parse_dtype(dtype))
    b.output(Tensor(b, b.core.weight("w", dtype=name, shape=[3, 4], path=str(tmp_path / "w.npy"))))
    graph = b.build()
    np.testing.assert_array_equal(graph.weight("w"), array)
    array.T.copy().tofile(tmp_path / "raw.bin")
    raw = GraphBuilder()
    Tensor(
        raw, raw.core.weight("w", dtype=name, shape=[3], path=str(tmp_path / "raw.bin"), byte_offset=3 * array.itemsize)
    )
    np.testing.assert_array_equal(raw.graph.weight("w"), array.T[1])


def test_weight_files_that_do_not_fit(tmp_path: Path) -> None:
    def load(array: np.ndarray, dtype: str = "f32", shape: tuple[int, ...] = (2, 3)) -> None:
        np.save(tmp_path / "w.npy", array)
        b = GraphBuilder()
        b.core.weight("w", dtype=dtype, shape=list(shape), path=str(tmp_path / "w.npy"))
        b.graph.weight("w")

    good = np.zeros((2, 3), np.float32)
    load(good)
    for bad, message in [
        (good.astype("f8"), "another dtype"),
        (good.astype(">f4"), "another dtype"),
        (good.T.copy(), "another shape"),
        (np.asfortranarray(good), "row-major"),
    ]:
        with pytest.raises(_core.UserError, match=message):
            load(bad)
    (tmp_path / "w.npy").write_bytes((tmp_path / "w.npy").read_bytes()[:90])
    b = GraphBuilder()
    b.core.weight("w", dtype="f32", shape=[2, 3], path=str(tmp_path / "w.npy"))
    with pytest.raises(_core.UserError, match=r"w\.npy"):
        b.graph.weight("w")
    with pytest.raises(_core.UserError, match=r"does not exist.*'wieght'"):
        b.graph.weight("wieght")


def test_random_weights_depend_on_seed_and_name_alone() -> None:
    b = GraphBuilder()
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        b.weight(name, (1000,), scale=2.0, offset=1.0, seed=seed)
    b.weight("i", (1000,), "i8")
    a, other, seeded = (b.graph.weight(name) for name in "abc")
    assert -1 <= a.min() < -0.9 and 2.9 < a.max() <= 3
    assert not np.array_equal(a, other) and not np.array_equal(a, seeded)
    assert set(np.unique(b.graph.weight("i"))) == set(range(-4, 5))
    again = GraphBuilder()
    again.weight("a", (1000,), scale=2.0, offset=1.0)
    np.testing.assert_array_equal(again.graph.weight("a"), a)


# --- networks ---

# torchvision: resnet18, resnet50, vit_b_16; Hugging Face: BertModel, GPT2LMHeadModel (tied head)
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
    "vit-b-16": 86_567_656,
    "mlp": 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10,
}
# multiply-adds as published: torchvision's model cards (GFLOPS there are multiply-adds)
GIGA_MACS = {"resnet18": 1.81, "resnet50": 4.09, "vit-b-16": 17.56}


@pytest.mark.parametrize("name", models.names())
def test_parameters_equal_the_published_counts(name: str) -> None:
    graph = models.build(name)
    assert graph.parameters == PARAMETERS[name]
    if name in GIGA_MACS:
        assert graph.flops()["matrix"] / 2e9 == pytest.approx(GIGA_MACS[name], rel=0.005)
    assert Graph.from_json(graph.to_json()) == graph


@pytest.mark.parametrize("name", ["resnet18", "bert-base", "gpt2", "vit-b-16", "mlp"])
def test_random_networks_stay_in_range(name: str) -> None:
    takes_text = name in {"bert-base", "gpt2"}
    graph = models.build(name, sequence=8) if takes_text else models.build(name)
    for output in _core.evaluate(graph.core, _core.random_inputs(graph.core, 0)):
        values = np.asarray(output)
        assert np.isfinite(values).all() and 0.01 < values.std() < 100


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_networks_in_narrow_dtypes(dtype: str) -> None:
    for name in models.names():
        graph = models.build(name, batch=2, dtype=dtype)
        assert {output["dtype"] for output in graph.outputs} == {dtype}
        assert graph.parameters == PARAMETERS[name]


def test_batch_norm_folds_into_every_convolution() -> None:
    graph = models.build("resnet18")
    inputs = _core.random_inputs(graph.core, 0)
    before = np.asarray(_core.evaluate(graph.core, inputs)[0])
    assert graph.fold_batch_norm() == 20
    assert graph.remove_dead_code() > 20
    assert not any("running" in name for name in graph.weights())
    graph.check()
    assert "batch_norm" not in {op["kind"] for op in graph.operations()}
    np.testing.assert_allclose(_core.evaluate(graph.core, inputs)[0], before, rtol=1e-3, atol=1e-3)


def test_unknown_models_and_settings() -> None:
    with pytest.raises(_core.UserError, match="Did you mean 'resnet18'"):
        models.build("resnet-8")
    with pytest.raises(_core.UserError, match="reads no sequence"):
        models.build("resnet18", sequence=4)
    with pytest.raises(_core.UserError, match="1 to 512"):
        models.build("bert-base", sequence=513)
    with pytest.raises(_core.UserError, match="positive"):
        models.build("mlp", batch=0)
    with pytest.raises(_core.UserError, match="unknown dtype"):
        models.build("mlp", dtype="float31")
    with pytest.raises(_core.UserError, match="multiples of 16"):
        models.vit_b_16(image=100)


def test_the_table_of_kinds_is_whole() -> None:
    table = {kind["name"]: kind for kind in _core.kinds()}
    assert len(table) == 29
    assert [name for name, kind in table.items() if kind["composite"]] == [
        "softmax",
        "log_softmax",
        "normalize",
        "batch_norm",
        "attention",
    ]
    for kind, attribute in itertools.product(table.values(), ("name", "type", "required", "allowed")):
        assert all(attribute in entry for entry in kind["attributes"])
