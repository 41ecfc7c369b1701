"""Graphs from Python: random ones, builder, errors, expansions, files."""

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
    back = Graph.from_dict(graph.to_dict())
    assert back == graph
    assert back.core.to_json() == graph.core.to_json()
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
            tolerance = 2e-2 if "bf16" in graph.core.to_json() else 1e-5
            np.testing.assert_allclose(
                np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=tolerance, atol=tolerance
            )


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
    (lambda b, x: b.op("concat", x[0], x[1], dim=0), r"differ in an axis other than 0"),
    (lambda b, x: b.op("slice", x[0], start=[0, 0], limit=[2, 4]), "leaves axis 1"),
    (lambda b, x: b.op("pad", x[0], low=[1], high=[1, 1]), "2 integers"),
    (lambda b, x: b.conv2d(x[0], x[1]), "the axes N, C, H, W"),
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
    (lambda b, x: b.weight("w", (2, -3)), "extent of axis 1"),
    (lambda b, x: b.weight("w", (1 << 40, 1 << 40)), "too many elements"),
    (lambda b, x: (b.weight("w", (2,)), b.weight("w", (3,))), "another type"),
    (lambda b, x: b.input("x0", (2,)), "taken"),
    (lambda b, x: b.layer_norm(x[0], x[1]), "scale has the wrong shape"),
    (lambda b, x: b.apply("add", x[0], 3), "not a tensor"),
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
