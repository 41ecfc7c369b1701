"""Products of dequantized operands become products of integers where arrays multiply them, with equal values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tilesim[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)
FLOAT, U8, I32 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT32
SCALE = np.float32(0.03)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def weights(*shape: int) -> Any:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def scales(count: int) -> Any:
    return RNG.uniform(0.01, 0.02, count).astype(np.float32)


def model(nodes: list[Any], inputs: dict[str, Any], output: tuple[int, list[int]], **constants: Any) -> Any:
    """A model of these nodes, whose output is "o"."""
    kinds = {np.dtype(np.float32): FLOAT, np.dtype(np.uint8): U8}
    graph = helper.make_graph(
        [helper.make_node(name, reads, [write], **more) for name, reads, write, more in nodes],
        "quantized",
        [helper.make_tensor_value_info(name, kinds[x.dtype], x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("o", *output)],
        [numpy_helper.from_array(np.ascontiguousarray(x), name) for name, x in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])


def around(product: list[Any], shape: tuple[int, ...], x: Any, xz: Any, w: Any, ws: Any, wz: Any, axis: int) -> Any:
    """x quantized and back, weights back, a product "y", and its result quantized."""
    nodes = [
        ("QuantizeLinear", ["x", "xs", "xz"], "xq", {}),
        ("DequantizeLinear", ["xq", "xs", "xz"], "xd", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "wd", {"axis": axis}),
        *product,
        ("QuantizeLinear", ["y", "ys", "yz"], "o", {}),
    ]
    constants = {"xs": SCALE, "xz": xz, "w": w, "ws": ws, "wz": wz, "b": floats(shape[1])}
    made = model(nodes, {"x": x}, (U8, list(shape)), **constants, ys=np.float32(0.2), yz=np.uint8(100))
    return made, {"x": x}


def matmul(xz: Any, ws: Any, wz: Any) -> Any:
    nodes = [("MatMul", ["xd", "wd"], "p", {}), ("Add", ["p", "b"], "s", {}), ("Relu", ["s"], "y", {})]
    return around(nodes, (32, 48), floats(32, 64), xz, weights(64, 48), ws, wz, 1)


def gemm(xz: Any, ws: Any, wz: Any) -> Any:
    nodes = [("Gemm", ["xd", "wd", "b"], "y", {"transB": 1})]
    return around(nodes, (32, 48), floats(32, 64), xz, weights(48, 64), ws, wz, 0)


def conv(xz: Any, w: Any, ws: Any, wz: Any, group: int = 1) -> Any:
    nodes = [("Conv", ["xd", "wd", "b"], "y", {"pads": [1, 1, 1, 1], "strides": [2, 1], "group": group})]
    return around(nodes, (2, w.shape[0], 7, 14), floats(2, 8, 14, 14), xz, w, ws, wz, 0)


def whole(
    name: str, x: Any, output: tuple[int, list[int]], more: dict[str, Any] | None = None, **constants: Any
) -> Any:
    return model([(name, ["x", *constants], "o", more or {})], {"x": x}, output, **constants), {"x": x}


WORDS = RNG.integers(0, 256, (1, 4, 9, 9)).astype(np.uint8)
PADS = {"pads": [1, 1, 1, 1]}
CASES: dict[str, Any] = {
    "matmul": lambda: matmul(np.uint8(131), np.float32(0.01), np.int8(0)),
    "matmul per channel": lambda: matmul(np.uint8(128), scales(48), np.zeros(48, np.int8)),
    "matmul with zero points": lambda: matmul(np.int8(3), scales(48), RNG.integers(-5, 5, 48).astype(np.int8)),
    "gemm": lambda: gemm(np.int8(-9), scales(48), np.zeros(48, np.int8)),
    "conv": lambda: conv(np.uint8(120), weights(16, 8, 3, 3), scales(16), np.zeros(16, np.int8)),
    "conv with zero points": lambda: conv(np.int8(-7), weights(16, 8, 3, 3).view(np.uint8), SCALE, np.uint8(130)),
    "depthwise": lambda: conv(np.uint8(120), weights(8, 1, 3, 3), SCALE, np.int8(0), group=8),
    "QLinearMatMul": lambda: whole(
        "QLinearMatMul", WORDS[0, 0], (U8, [9, 16]), a_scale=SCALE, a_zero=np.uint8(113), b=weights(9, 16),
        b_scale=scales(16), b_zero=np.zeros(16, np.int8), y_scale=np.float32(0.3), y_zero=np.uint8(118),
    ),
    "QLinearConv": lambda: whole(
        "QLinearConv", WORDS, (U8, [1, 6, 9, 9]), PADS, x_scale=SCALE, x_zero=np.uint8(9), w=weights(6, 4, 3, 3),
        w_scale=scales(6), w_zero=np.zeros(6, np.int8), y_scale=np.float32(1), y_zero=np.uint8(100),
        bias=RNG.integers(-1000, 1000, 6).astype(np.int32),
    ),
    "MatMulInteger": lambda: whole(
        "MatMulInteger", WORDS[0, 0], (I32, [9, 16]), b=weights(9, 16), a_zero=np.uint8(7), b_zero=np.int8(5)
    ),
    "ConvInteger": lambda: whole("ConvInteger", WORDS, (I32, [1, 6, 9, 9]), PADS, w=weights(6, 4, 3, 3), z=np.uint8(9)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_integer_products(name, tmp_path):
    from onnx.reference import ReferenceEvaluator

    made, inputs = CASES[name]()
    onnx.save(made, tmp_path / "model.onnx")
    graph = ts.from_onnx(tmp_path / "model.onnx")
    (wanted,) = ReferenceEvaluator(made).run(None, inputs)
    before = next(iter(ts.reference(graph, inputs).values()))
    program = ts.compile(graph, "edge-8")
    assert program.graph is not None and program.graph.changes.counts()["integer_products"] == 1
    assert "of i8 in i32" in str(program.graph.changes)
    products = [op for op in program.graph.operations() if op["kind"] in ("contract", "convolution")]
    assert {row["dtype"] for op in products for row in op["operands"]} == {"i8"}
    after = next(iter(ts.reference(program.graph, inputs).values()))
    tiled = next(iter(ts.execute(program, inputs).values()))
    for got in (before, after, tiled):
        off = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
        # A float product may round to the other side of a half: one step, in few places. Integers are exact.
        assert off.max() <= (wanted.dtype == np.uint8) and (off > 0).mean() < 0.01
    assert len(np.unique(wanted)) > 20  # not all of them saturated
    assert ts.verify(program, inputs).ok


WHOLE = ("QLinearMatMul", "QLinearConv", "MatMulInteger", "ConvInteger")


@pytest.mark.parametrize("name", WHOLE)
def test_integer_operators_without_integers_in_the_array(name):
    """The vector unit multiplies and adds: the standard's integers."""
    from onnx.reference import ReferenceEvaluator

    made, inputs = CASES[name]()
    graph = ts.from_onnx(made)
    (wanted,) = ReferenceEvaluator(made).run(None, inputs)
    program = ts.compile(graph, "tpu-v3")
    got = next(iter(ts.execute(program, inputs).values()))
    assert got.dtype == wanted.dtype
    off = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
    assert off.max() <= (wanted.dtype == np.uint8) and (off > 0).mean() < 0.01
    assert ts.verify(program, inputs).ok
    result = ts.simulate(program)
    assert not any(row["work"] for row in result.data["units"] if row["kind"] not in ("vector", "load", "store"))
    assert result.data["vector_operations"] >= graph.flops()["matrix"]  # a multiplication and an addition each


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("depth", [1, 400])
def test_products_of_any_integers(dtype, depth):
    """Over the whole range: sums wrap around as the result's dtype does."""
    ends = np.iinfo(dtype)
    a, w = (RNG.integers(ends.min, ends.max, shape, dtype, endpoint=True) for shape in ((40, depth), (depth, 36)))
    short = dtype.replace("uint", "u").replace("int", "i")
    b = ts.GraphBuilder("integers")
    b.output(b.matmul(b.input("a", a.shape, short), b.input("w", w.shape, short)), "y")
    graph = b.build()
    program = ts.compile(graph, "tpu-v3")
    (got,) = ts.execute(program, (a, w)).values()
    np.testing.assert_array_equal(got, a.astype(got.dtype) @ w.astype(got.dtype))
    assert ts.verify(program, (a, w)).ok and ts.simulate(program).cycles > 0


def test_integers_on_several_cores_and_by_cost():
    b = ts.GraphBuilder("cores")
    b.output(b.matmul(b.input("a", (64, 96), "i32"), b.input("w", (96, 64), "i32")), "y")
    graph, a, w = b.build(), RNG.integers(-99, 99, (64, 96), np.int32), RNG.integers(-99, 99, (96, 64), np.int32)
    for more in ({"cores": 2}, {"mapping": "cost"}):
        program = ts.compile(graph, "tpu-v3-chip" if "cores" in more else "tpu-v3", **more)
        np.testing.assert_array_equal(ts.execute(program, (a, w))["y"], a @ w)
        assert ts.simulate(program).cycles > 0


def test_switched_off_and_on():
    """Machines without i8 keep floats; so does everyone who says so; floats cannot run on an array of integers."""
    import tempfile

    made, _ = CASES["matmul"]()
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(made, file.name)
        graph = ts.from_onnx(file.name)
    assert "integer_products" not in graph.changes.counts()
    assert ts.compile(graph, "tpu-v3").graph == graph and ts.verify(ts.compile(graph, "tpu-v3")).ok
    plain = ts.compile(graph, "edge-8", integer_products=False)
    assert plain.graph == graph
    integer = ts.compile(graph, "edge-8")
    gemmini = ts.Machine.load("gemmini-16")
    assert ts.simulate(ts.compile(graph, gemmini)).cycles > 0
    with pytest.raises(ts.Unsupported, match="do not multiply"):
        ts.compile(graph, gemmini, integer_products=False)
    assert integer.graph is not None and integer.graph is not graph
    assert ts.optimize(graph.copy(), "integer_products").counts() == {"integer_products": 1}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtypes", [("i8", "i8"), ("u8", "i8"), ("i8", "u8")])
@pytest.mark.parametrize("scales_of", [(0.5, 0.25), (None, 0.25), (0.5, None), (None, None)])
def test_codes_without_a_scale(scales_of, dtypes, bias):
    """Codes as they are: arrays of integers multiply them all the same."""
    b = ts.GraphBuilder("codes")
    kinds = {"i8": np.int8, "u8": np.uint8}
    shapes = ((9, 40), (40, 20))
    ranges = [np.iinfo(kinds[dtype]) for dtype in dtypes]
    q = [RNG.integers(r.min, r.max + 1, shape, r.dtype) for r, shape in zip(ranges, shapes, strict=True)]
    given = zip("aw", shapes, dtypes, strict=True)
    sides = [b.input(name, shape, dtype).convert("f32") for name, shape, dtype in given]
    sides = [side if one is None else side * one for side, one in zip(sides, scales_of, strict=True)]
    more = RNG.integers(-9, 9, 20).astype(np.float32)
    b.output(sides[0] @ sides[1] + b.weight("bias", more.shape, data=more) if bias else sides[0] @ sides[1], "y")
    program = ts.compile(b.build(), "gemmini-16")
    wanted = (
        q[0].astype(int) @ q[1].astype(int) * float(np.prod([1 if scale is None else scale for scale in scales_of]))
    )
    found = ts.execute(program, {"a": q[0], "w": q[1]})["y"]
    np.testing.assert_array_equal(found, wanted + more if bias else wanted)  # sums and scales are exact in f32
    assert ts.verify(program).ok


def test_numbers_that_are_no_codes_stay():
    b = ts.GraphBuilder("numbers")
    w = b.input("w", (40, 20), "i8").convert("f32")
    b.output(b.input("a", (9, 40)) @ w, "real")
    b.output(b.input("wide", (9, 40), "i32").convert("f32") @ w, "more than 8 bits")
    b.output((b.input("c", (9, 40), "i8").convert("bf16") * 1.5).convert("f32") @ b.apply("tanh", w), "a function")
    assert len(ts.optimize(b.build(), "integer_products")) == 0


@pytest.mark.parametrize(
    ("dtype", "zero", "far"), [("i8", None, 128), ("i8", -128, 255), ("u8", 128, 128), ("u8", 0, 255)]
)
def test_sums_that_could_overflow_stay(dtype: str, zero: int | None, far: int):
    """i32 holds the sum of so many products of numbers that lie at most `far` from their zero point."""
    most = (2**31 - 1) // far**2
    for terms, found in ((most, 1), (most + 1, 0)):
        b = ts.GraphBuilder("long")
        sides = [b.input("a", (4, terms), dtype).convert("f32"), b.input("w", (terms, 4), dtype).convert("f32")]
        if zero is not None:
            sides = [side - float(zero) for side in sides]
        b.output(b.matmul(sides[0] * 0.1, sides[1] * 0.1))
        assert len(ts.optimize(b.build(), "integer_products")) == found


def test_sums_that_are_too_long_are_named():
    """As many terms as i32 holds run on an array of integers; one more is refused with the number of terms."""
    for terms in (131_071, 131_072):
        b = ts.GraphBuilder("long")
        a, w = b.input("a", (1, terms), "i8").convert("f32"), b.input("w", (terms, 1), "i8").convert("f32")
        b.output(b.matmul(a * 0.1, w * 0.1))
        if terms == 131_071:
            assert ts.compile(b.build(), "gemmini-16").graph is not None
            continue
        with pytest.raises(ts.Unsupported, match=r"131072 terms.*up to 131071 terms") as error:
            ts.compile(b.build(), "gemmini-16")
        assert "quantize" not in error.value.suggestion


def test_conversions_that_saturate():
    """Nearest integers with the ends of their range; NaN gives 0; the tiled program agrees."""
    numbers = [0.0, -0.0, 1.5, 127.4, 127.9, 128, 255, 256, 1e9, 2147483520, 2147483648, 4.3e9, 1e30, np.inf, np.nan]
    x = np.array([*numbers, *[-one for one in numbers], 3], np.float32)
    b = ts.GraphBuilder("saturate")
    given = b.input("x", x.shape)
    for dtype in ("i8", "u8", "i16", "i32", "u32", "f8e4m3fn", "f8e5m2"):
        b.output(b.op("convert", given, dtype=dtype, overflow="saturate"), dtype)
    graph = b.build()
    wanted, got = ts.reference(graph, (x,)), ts.execute(ts.compile(graph, "tpu-v3"), (x,))
    for dtype, values in wanted.items():
        assert got[dtype].dtype == values.dtype
        np.testing.assert_array_equal(got[dtype].astype(np.float64), values.astype(np.float64), err_msg=dtype)
    assert wanted["i32"].max() == 2**31 - 1 and wanted["u8"].max() == 255 and wanted["i8"].min() == -128
