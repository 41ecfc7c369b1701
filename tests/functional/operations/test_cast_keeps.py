"""What a cast to 16 bits leaves as it is: operands of exact products, and floats that come from integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from tilesim.graph.tensor import Tensor

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
W = np.array([[1.003, 0.5], [-1, 0.25]], np.float32)  # 1.003 is 1 in bf16


def exact(b: Any, x: Tensor, w: Tensor, name: str = "") -> Any:
    return b.op("contract", x, w, a_contract=[1], b_contract=[0], precision="exact", name=name)


def network(b: ts.GraphBuilder) -> Tensor:
    """A product that is cast, so that there is one."""
    y = b.matmul(b.input("f", (4, 4)), b.weight("v", (4, 4)), name="free")
    b.output(y, "z")
    return y


def near(dtype: str) -> np.ndarray:
    return np.ones((4, 4), TYPES[dtype])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_operands_of_exact_products_keep_their_bits(dtype: str) -> None:
    b = ts.GraphBuilder("exact")
    x, w = b.input("x", (2, 2)), b.weight("w", data=W)
    y = exact(b, exact(b, x, w), b.op("transpose", w, permutation=[1, 0]))
    b.output(b.apply("subtract", y, b.op("convert", b.input("i", (2, 2), "i32"), dtype="f32")), "y")
    b.output(b.matmul(network(b)[:2, :2], w, name="both"), "both")
    cast = ts.quantize(b.build(), dtype)
    kinds = {row["name"]: row for row in cast.operations()}
    assert [x["dtype"] for x in kinds["both"]["operands"]] == [dtype, dtype]  # of the same weight
    assert {row["name"]: row["dtype"] for row in cast.core.inputs} == {"x": "f32", "i": "i32", "f": dtype}
    given = np.array([[1, 1], [1.001, -1]], np.float32)
    wanted = given.astype(np.float64) @ W.astype(np.float64) @ W.T.astype(np.float64)
    data = {"x": given, "i": np.zeros((2, 2), np.int32), "f": near(dtype)}
    found = ts.reference(cast, data)["y"].astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=2.0**-8 if dtype == "bf16" else 2.0**-11)
    assert any("unchanged: contract, contract.1" in line for line in cast.assumptions)


def test_weights_that_functions_are_given_stay() -> None:
    b = ts.GraphBuilder("called")
    f = b.function("layer")
    f.output(exact(f, f.input("p", (2, 2)), f.input("q", (2, 2))), "o")
    x, w = b.input("x", (2, 2)), b.weight("w", data=W)
    b.output(b.call(f, b.call(f, x, w), w), "y")
    network(b)
    cast = ts.quantize(b.build(), "bf16")
    found = ts.reference(cast, {"x": np.ones((2, 2), np.float32), "f": near("bf16")})["y"]
    wanted = np.ones((2, 2)) @ W.astype(np.float64) @ W.astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2.0**-8)


def test_an_input_that_other_products_read_too_is_cast() -> None:
    b = ts.GraphBuilder("both")
    x = b.input("x", (2, 2))
    b.output(exact(b, x, b.weight("w", data=W)), "y")
    b.output(b.matmul(x, b.weight("v", data=W)), "z")
    cast = ts.quantize(b.build(), "bf16")
    assert cast.core.inputs[0]["dtype"] == "bf16" and any("the input x" in line for line in cast.assumptions)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_integers_that_pass_through_floats_are_the_same(dtype: str) -> None:
    b = ts.GraphBuilder("count")
    x = b.input("x", (5,), "i32")
    b.output((x.convert("f32") + 1.0).convert("i32"), "next")
    b.output(b.apply("less", x.convert("f32"), b.scalar(2048.5)).convert("i32"), "low")
    total = b.op("reduce", x.convert("f32") * 2.0, dims=[0], combiner="add")
    b.output(b.apply("floor", total / 3.0).convert("i64"), "third")
    b.output((network(b) + 1.0).convert("i32"), "codes")
    cast = ts.quantize(b.build(), dtype)
    given = np.array([2048, 2049, 257, 99_999, -4097], np.int32)
    found = ts.reference(cast, {"x": given, "f": near(dtype)})
    assert found["next"].tolist() == (given + 1).tolist()
    assert found["low"].tolist() == (given < 2048.5).astype(int).tolist()
    assert found["third"].tolist() == int(given.sum()) * 2 // 3
    (said,) = [line for line in cast.assumptions if "cast from" in line]
    last = [row["name"] for row in cast.operations() if row["kind"] == "convert"][-1]
    assert f"rounded to {dtype} before they become integers: {last}" in said and "keep f32" in said


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_positions_are_rounded_after_the_cosine(dtype: str, outer: bool) -> None:
    """Both ways to multiply positions with frequencies: broadcast, and a product that adds nothing up."""
    frequencies = np.array([1, 0.31, 0.1, 0.031], np.float32)
    b = ts.GraphBuilder("rotary")
    at = b.op("iota", shape=[4, 1], dtype="i32", dim=0).convert("f32") + 1000.0
    each = b.op("reshape", b.weight("frequencies", data=frequencies, trainable=False), shape=[1, 4])
    angle = b.matmul(at, each) if outer else at * each
    b.output(b.apply("cos", angle) * b.input("f", (4, 4)), "y")
    b.output(b.matmul(b.input("g", (4, 4)), b.weight("v", (4, 4))), "z")
    cast = ts.quantize(b.build(), dtype)
    found = ts.reference(cast, {"f": near(dtype), "g": near(dtype)})["y"]
    wanted = np.cos((np.arange(4)[:, None] + 1000) * frequencies.astype(np.float64))
    assert found.dtype == TYPES[dtype]
    assert np.abs(found.astype(np.float64) - wanted).max() < 2.0 ** (-8 if dtype == "bf16" else -11)


def test_masks_from_integers_stay_finite() -> None:
    b = ts.GraphBuilder("mask")
    mask = (1.0 - b.input("mask", (4,), "i64").convert("f32")) * -3.4e38
    b.output(b.op("softmax", network(b) + mask, dim=1), "y")
    for dtype in TYPES:
        found = ts.reference(ts.quantize(b.build(), dtype), {"mask": np.zeros(4, np.int64), "f": near(dtype)})["y"]
        assert np.isfinite(found.astype(np.float64)).all()


def test_counters_of_loops_count() -> None:
    b = ts.GraphBuilder("loop")
    more, step = b.function("more"), b.function("step")
    for f in (more, step):
        i, n, x, w = f.input("i", ()), f.input("n", ()), f.input("x", (2, 2)), f.input("w", (2, 2))
        if f is more:
            f.output(f.apply("less", i, f.scalar(300.0)), "on")
        else:
            f.output(i + 1.0, "i.next")
            f.output(n + 1.0, "n.next")
            f.output(x + 1.0, "x.next")
            f.output(w, "w.next")
    start = b.input("start", (), "i32").convert("f32")
    first = [b.scalar(0.0), start, b.matmul(b.input("f", (2, 2)), b.weight("v", (2, 2))), b.weight("w", data=W)]
    found = b.core.op("while", [x.value for x in first], {}, "loop", 4, ["more", "step"])
    i, n, x, w = (Tensor(b, one) for one in found)
    b.output(i.convert("i32"), "i")
    b.output(n.convert("i32"), "n")
    b.output(x, "x")
    b.output(exact(b, b.input("one", (2, 2)), w), "y")
    cast = ts.quantize(b.build(), "bf16")
    data = {"start": np.int32(1000), "f": np.zeros((2, 2), TYPES["bf16"]), "one": np.ones((2, 2), np.float32)}
    values = ts.reference(cast, data)
    assert values["i"].tolist() == 300 and values["n"].tolist() == 1300
    assert values["x"].dtype == TYPES["bf16"]
    np.testing.assert_allclose(values["y"].astype(np.float64), np.ones((2, 2)) @ W, rtol=2.0**-8)


def test_branches_return_what_comes_from_integers() -> None:
    b = ts.GraphBuilder("branches")
    for name, more in (("one", 1.0), ("two", 2.0)):
        f = b.function(name)
        f.output(f.input("n", ()) + more, "n.next")
        f.output(f.input("x", (4, 4)) * more, "x.next")
    n = b.input("n", (), "i32").convert("f32")
    found = b.core.op(
        "branch", [b.input("which", (), "i32").value, n.value, network(b).value], {}, "if", 2, ["one", "two"]
    )
    b.output(Tensor(b, found[0]).convert("i32"), "n.after")
    b.output(Tensor(b, found[1]), "x.after")
    cast = ts.quantize(b.build(), "bf16")
    values = ts.reference(cast, {"n": np.int32(4096), "which": np.int32(1), "f": near("bf16")})
    assert values["n.after"].tolist() == 4098 and values["x.after"].dtype == TYPES["bf16"]


def test_sums_of_codes_do_not_overflow() -> None:
    """Products of i8 give sums in i32, which f16 has no numbers for; their scales bring them back."""
    b = ts.GraphBuilder("codes")
    a, w = b.input("a", (1, 64), "i8"), b.weight("w", data=np.full((64, 2), 127, np.int8))
    sums = b.op("contract", a, w, a_contract=[1], b_contract=[0], dtype="i32")
    y = sums.convert("f32") * b.weight("scales", data=np.array([1e-5, 2e-5], np.float32))
    b.output(b.matmul(y, b.weight("v", data=np.eye(2, dtype=np.float32))), "y")
    cast = ts.quantize(b.build(), "f16")
    found = ts.reference(cast, {"a": np.full((1, 64), 127, np.int8)})["y"].astype(np.float64)
    np.testing.assert_allclose(found, [[64 * 127**2 * 1e-5, 64 * 127**2 * 2e-5]], rtol=2.0**-9)


def test_casts_that_keep_something_run_on_machines() -> None:
    b = ts.GraphBuilder("machine")
    at = b.op("iota", shape=[128, 1], dtype="i32", dim=0).convert("f32") * 0.01
    x = b.matmul(b.input("f", (128, 128)), b.weight("v", (128, 128))) + b.apply("cos", at)
    b.output(exact(b, x, b.weight("w", (128, 128))), "y")
    graph = ts.quantize(b.build(), "bf16")
    program = ts.compile(graph, "tpu-v3")
    assert ts.simulate(program).cycles > 0 and ts.verify(program).ok
