"""ONNX models made here: symbolic dimensions, external data, control flow, quantization, the command line."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tilesim[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from support.onnx_models import RNG, floats, model, run  # noqa: E402


def network(batch="batch"):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 16, 16])
    weights = {"w1": floats(8, 3, 3, 3), "b1": floats(8), "w2": floats(10, 512)}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [x],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), weights


def test_symbolic_dimensions():
    net, _ = network()
    with pytest.raises(ts.UserError, match="'batch'"):
        ts.from_onnx(net)
    graph = ts.from_onnx(net, sizes={"batch": 3})
    assert graph.inputs[0]["shape"] == (3, 3, 16, 16)
    assert graph.parameters == 8 * 27 + 8 + 10 * 512


def test_external_data_stay_in_their_file(tmp_path):
    net, weights = network(2)
    onnx.save_model(net, tmp_path / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    graph = ts.from_onnx(tmp_path / "net.onnx")
    assert graph.weights()["w2"]["source"] == "file"
    np.testing.assert_array_equal(graph.weight("w2"), weights["w2"])
    plain = ts.from_onnx(onnx.load(tmp_path / "net.onnx"))
    x = {"x": floats(2, 3, 16, 16)}
    np.testing.assert_array_equal(ts.reference(graph, x)["y"], ts.reference(plain, x)["y"])
    data = (tmp_path / "net.bin").read_bytes()
    (tmp_path / "net.bin").write_bytes(data[:-1000])
    with pytest.raises(ts.UserError, match="too short"):
        ts.from_onnx(tmp_path / "net.onnx")


def test_external_data_outside_of_the_directory(tmp_path):
    net, _ = network(2)
    onnx.save_model(net, tmp_path / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    damaged = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    for entry in damaged.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../../etc/passwd"
    (tmp_path / "bad.onnx").write_bytes(damaged.SerializeToString())
    with pytest.raises(ts.UserError, match="outside"):
        ts.from_onnx(tmp_path / "bad.onnx")


def test_command_line(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(network()[0].SerializeToString())
    done = tilesim("run", str(path), "--batch", "2", "--quiet", "--verify")
    assert done.returncode == 0, done.stderr
    assert "net, batch = 2, on tpu-v3" in done.stdout


def branch_model():
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["t"])], "then", [], [helper.make_empty_tensor_value_info("t")]
    )
    other = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["e"])], "else", [], [helper.make_empty_tensor_value_info("e")]
    )
    return [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]


@pytest.mark.parametrize("choice", [True, False])
def test_branch_on_data(choice):
    x, w = floats(3, 4), floats(4)
    (y,) = run(branch_model(), {"x": x, "c": np.array(choice)}, ["y"], {"w": w})
    np.testing.assert_array_equal(y, x * w if choice else x + x)


def loop_body():
    nodes = [
        helper.make_node("Mul", ["v", "f"], ["n"]),
        helper.make_node("ReduceSum", ["n"], ["s"], keepdims=0),
        helper.make_node("Less", ["s", "limit"], ["go"]),
    ]
    ends = [helper.make_empty_tensor_value_info(name) for name in ("go", "n")]
    inputs = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("v", TensorProto.FLOAT, [3]),
    ]
    return helper.make_graph(nodes, "body", inputs, ends)


def test_loop_on_data():
    """Doubles until the sum passes a limit, or eight times."""
    node = helper.make_node("Loop", ["m", "", "x"], ["y"], body=loop_body())
    for start, trips in ((0.01, 8), (1.0, 7), (10.0, 3)):
        x = np.full(3, start, np.float32)
        weights = {"f": np.array(2, np.float32), "limit": np.array(200, np.float32)}
        graph = ts.from_onnx(model([node], {"x": x, "m": np.array(8)}, ["y"], weights))
        assert "while" in [op["kind"] for op in graph.operations()]
        (y,) = ts.reference(graph, {"x": x, "m": np.array(8)}).values()
        np.testing.assert_array_equal(y, x * np.float32(2) ** trips)


def test_quantize_and_dequantize_stay_exact():
    """A quantized product between integers: exact, whatever the order of sums."""
    x, w = RNG.integers(0, 255, (4, 8)).astype(np.uint8), RNG.integers(-127, 127, (8, 3)).astype(np.int8)
    nodes = [helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])]
    (y,) = run(nodes, {"x": x}, ["y"], {"w": w, "zero": np.array(7, np.uint8)})
    np.testing.assert_array_equal(y, (x.astype(np.int32) - 7) @ w.astype(np.int32))


def test_unknown_operators_are_named():
    x = floats(2, 2)
    with pytest.raises(ts.Unsupported, match=r"com.example.Secret 'y'"):
        run([helper.make_node("Secret", ["x"], ["y"], domain="com.example")], {"x": x}, ["y"])
    with pytest.raises(ts.Unsupported, match=r"depends on data \(operand 's' from input 's'\)"):
        run([helper.make_node("Reshape", ["x", "s"], ["y"])], {"x": x, "s": np.array([4])}, ["y"])
    with pytest.raises(ts.UserError, match="Transpose"):
        run([helper.make_node("Transpose", ["x"], ["y"], perm=[0, 5])], {"x": x}, ["y"])


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(backwards, axis):
    """A running state over an axis, forwards and backwards, with what is collected along another axis; tiled too."""
    from onnx.reference import ReferenceEvaluator

    body = helper.make_graph(
        [
            helper.make_node("Mul", ["state", "decay"], ["kept"]),
            helper.make_node("Add", ["kept", "part"], ["next"]),
            helper.make_node("Tanh", ["next"], ["seen"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("state", "part")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("next", "seen")],
        [numpy_helper.from_array(np.full(4, 0.5, np.float32), "decay")],
    )
    more = {"scan_input_axes": [axis], "scan_input_directions": [backwards], "scan_output_directions": [backwards]}
    node = helper.make_node("Scan", ["s", "x"], ["last", "all"], body=body, num_scan_inputs=1, **more)
    inputs = {"s": floats(4), "x": floats(*((7, 4) if axis == 0 else (4, 7)))}
    made = model([node], inputs, ["last", "all"])
    steps = np.moveaxis(inputs["x"], axis, 0)[:: -1 if backwards else 1]
    state, rows = inputs["s"], []
    for step in steps:
        state = state * np.float32(0.5) + step
        rows.append(np.tanh(state))
    wanted = [state, np.stack(rows[:: -1 if backwards else 1])]
    if not backwards and axis == 0:  # what onnx's own evaluator has
        for mine, theirs in zip(wanted, ReferenceEvaluator(made).run(None, inputs), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    graph = ts.from_onnx(made)
    program = ts.compile(graph, "edge-8")
    for got in (ts.reference(graph, inputs), ts.execute(program, inputs)):
        for mine, theirs in zip(got.values(), wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert ts.simulate(program).cycles > 0
