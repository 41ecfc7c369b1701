"""ONNX: the node tests that the standard ships, external data, control flow, fused operators."""

from __future__ import annotations

import importlib
import math
import pkgutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tilesim as ts

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tilesim[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tilesim.frontends.onnx_scope import DTYPES  # noqa: E402

#: node tests of opset 13 to 20 that do not pass, with the reason (onnx 1.23.2)
NOT_PASSED = {"test_image_decoder_": "ImageDecoder reads compressed images: no tensor program"}
#: the same for all opsets
NOT_PASSED_ELSEWHERE = {
    "test_bernoulli": "random numbers",
    "test_basic_deform_conv": "DeformConv has no meaning yet",
    "test_deform_conv": "DeformConv has no meaning yet",
    "test_det_": "Det has no meaning yet",
    "test_training_dropout": "random numbers",
    "test_nonmaxsuppression": "the number of results depends on data",
    "test_roialign": "RoiAlign has no meaning yet",
    "test_scan_sum": "Scan of opset 8",
    "test_tensorscatter": "TensorScatter (opset 24) has no meaning yet",
    "test_tfidfvectorizer": "TfIdfVectorizer counts texts",
    "test_adagrad": "operators of training (domain ai.onnx.preview.training)",
    "test_adam": "the same",
    "test_momentum": "the same",
    "test_nesterov": "the same",
}
ROUNDOFF = {"float16": 2.0**-9, "bfloat16": 2.0**-6}


def arrays(values):
    return [numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v) for v in values]


def differs(ours, theirs, rtol, atol):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}"
    if theirs.dtype.kind in "iub":
        return "" if np.array_equal(ours, theirs) else "other integers"
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    slack = ROUNDOFF.get(theirs.dtype.name, 0.0)
    close = np.allclose(
        ours.astype(wide),
        theirs.astype(wide),
        rtol=max(rtol, 1e-4, slack),
        atol=max(atol, 1e-5, slack / 8),
        equal_nan=True,
    )
    return "" if close else "other values"


def read(model, inputs):
    """The graph; inputs that shapes depend on become constants."""
    names = [declared.name for declared in model.graph.input]
    fixed = {}
    while True:
        try:
            return ts.from_onnx(model, fixed=fixed)
        except ts.Unsupported as error:
            needed = [name for name in getattr(error, "needed", ()) if name in names and name not in fixed]
            if not needed:
                raise
            fixed.update({name: inputs[names.index(name)] for name in needed})


def outcome(case):
    """ "" where the case passes, else why not."""
    inputs, outputs = (arrays(part) for part in case.data_sets[0])
    try:
        graph = read(case.model, inputs)
    except ts.Unsupported as error:
        return f"unsupported: {error}"
    names = [declared.name for declared in case.model.graph.input]
    taken = {row["name"] for row in graph.inputs}
    given = {name: array for name, array in zip(names, inputs, strict=False) if name in taken}
    results = ts.reference(graph, given).values()
    wrong = [differs(a, b, case.rtol, case.atol) for a, b in zip(results, outputs, strict=True)]
    return next((text for text in wrong if text), "")


def in_our_dtypes(case):
    for declared in [*case.model.graph.input, *case.model.graph.output]:
        kind = declared.type
        if not kind.HasField("tensor_type") or kind.tensor_type.elem_type not in DTYPES:
            return False
    return True


def opset(case):
    return next((o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx")), 0)


def node_cases(without=()):
    """Cases of the standard's modules; each module makes its own when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        for module in pkgutil.iter_modules(node.__path__):
            if module.name not in without:
                importlib.import_module(f"{node.__name__}.{module.name}")
        return list(node._NodeTestCases)


def test_node_tests():
    """At least nine in ten at opset 13 to 20; none gives other values, and each that is refused is on the list."""
    slow = ("averagepool", "maxpool", "lppool")  # of opset 22, and most of the time
    cases = [case for case in node_cases(slow) if 13 <= opset(case) <= 20 and in_our_dtypes(case)]
    failures = {case.name: text for case in cases if (text := outcome(case))}
    unlisted = {name: text for name, text in failures.items() if not name.startswith(tuple(NOT_PASSED))}
    assert len(cases) > 700
    assert not unlisted
    assert len(failures) <= 0.1 * len(cases)


@pytest.mark.slow
def test_all_node_tests():
    """Of every opset: refused with a reason, never another value."""
    cases = [case for case in node_cases() if in_our_dtypes(case)]
    failures = {case.name: text for case in cases if (text := outcome(case))}
    known = tuple([*NOT_PASSED, *NOT_PASSED_ELSEWHERE])
    assert {name: text for name, text in failures.items() if not name.startswith(known)} == {}
    assert all(text.startswith("unsupported") for text in failures.values())
    assert len(failures) <= 0.05 * len(cases)


# --- models made here ---

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def declared(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))


def model(nodes, inputs, outputs, weights=(), opset=17, microsoft=False):
    """A model of nodes; outputs are names (their types are left open)."""
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(
        nodes,
        "test",
        [declared(name, array) for name, array in inputs.items()],
        results,
        [numpy_helper.from_array(array, name) for name, array in dict(weights).items()],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid("com.microsoft", 1)] if microsoft else [])]
    return helper.make_model(graph, opset_imports=opsets)


def run(nodes, inputs, outputs, weights=(), **more):
    graph = ts.from_onnx(model(nodes, inputs, outputs, weights, **more))
    return list(ts.reference(graph, {row["name"]: inputs[row["name"]] for row in graph.inputs}).values())


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
    command = [sys.executable, "-m", "tilesim", "run", str(path), "--batch", "2", "--quiet", "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "net on tpu-v3" in done.stdout


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


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, n):
    return x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def attended(q, k, v, bias=0.0):
    y = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def test_microsoft_attention():
    x, w, b = floats(2, 5, 16), floats(16, 48) / 4, floats(48)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    node = helper.make_node("Attention", ["x", "w", "b", "mask"], ["y"], num_heads=4, domain="com.microsoft")
    (y,) = run([node], {"x": x, "mask": mask}, ["y"], {"w": w, "b": b}, microsoft=True)
    q, k, v = (heads(part, 4) for part in np.split(x @ w + b, 3, axis=2))
    wanted = attended(q, k, v, np.where(mask, 0, -10000.0)[:, None, None, :])
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_microsoft_multi_head_attention():
    q, k, v = floats(2, 3, 16), floats(2, 5, 16), floats(2, 5, 16)
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], num_heads=2, domain="com.microsoft")
    (y,) = run([node], {"q": q, "k": k, "v": v}, ["y"], microsoft=True)
    np.testing.assert_allclose(y, attended(*(heads(x, 2) for x in (q, k, v))), rtol=1e-4, atol=1e-5)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def test_microsoft_group_query_attention():
    """Two steps after three in the cache; four heads share two groups; rotary positions go on."""
    q, k, v = floats(1, 2, 32), floats(1, 2, 16), floats(1, 2, 16)
    old_k, old_v, table = floats(1, 2, 3, 8), floats(1, 2, 3, 8), floats(16, 4)
    cos, sin = np.cos(table), np.sin(table)
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "old_k", "old_v", "lengths", "total", "cos", "sin"],
        ["y", "new_k", "new_v"],
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
        domain="com.microsoft",
    )
    given = {"q": q, "k": k, "v": v, "old_k": old_k, "old_v": old_v}
    weights = {"lengths": np.array([4], np.int32), "total": np.array([5], np.int32), "cos": cos, "sin": sin}
    y, new_k, new_v = run([node], given, ["y", "new_k", "new_v"], weights, microsoft=True)
    keys = np.concatenate([old_k, rotate(heads(k, 2), cos[3:5], sin[3:5])], 2)
    values = np.concatenate([old_v, heads(v, 2)], 2)
    np.testing.assert_allclose(new_k, keys, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(new_v, values)
    hidden = np.where(np.arange(5)[None, :] <= np.arange(2)[:, None] + 3, 0, -np.inf)
    turned = rotate(heads(q, 4), cos[3:5], sin[3:5])
    wanted = attended(turned, keys.repeat(2, 1), values.repeat(2, 1), hidden)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_microsoft_normalizations():
    x, skip, scale, shift, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    names = ["x", "skip", "scale", "shift", "bias"]
    node = helper.make_node(
        "SkipLayerNormalization", names, ["y", "", "", "total"], epsilon=1e-5, domain="com.microsoft"
    )
    weights = {"scale": scale, "shift": shift, "bias": bias}
    y, total = run([node], {"x": x, "skip": skip}, ["y", "total"], weights, microsoft=True)
    s = x + skip + bias
    wanted = (s - s.mean(-1, keepdims=True)) / np.sqrt(s.var(-1, keepdims=True) + 1e-5) * scale + shift
    np.testing.assert_allclose(total, s, rtol=1e-6)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
    names = ["x", "skip", "scale"]
    node = helper.make_node("SkipSimplifiedLayerNormalization", names, ["y"], epsilon=1e-5, domain="com.microsoft")
    (y,) = run([node], {"x": x, "skip": skip}, ["y"], {"scale": scale}, microsoft=True)
    s = x + skip
    np.testing.assert_allclose(y, s / np.sqrt((s * s).mean(-1, keepdims=True) + 1e-5) * scale, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("zeros", [False, True])
def test_microsoft_matmul_of_four_bits(zeros):
    n, k, block = 6, 40, 16
    codes = RNG.integers(0, 16, (n, 48)).astype(np.uint8)
    points = RNG.integers(0, 16, (n, 4)).astype(np.uint8)
    scales = floats(n, 3)
    offset = points[:, :3] if zeros else np.full((n, 3), 8)
    w = ((codes.reshape(n, 3, block).astype(np.float32) - offset[:, :, None]) * scales[:, :, None]).reshape(n, 48)[
        :, :k
    ]
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(n, 3, block // 2)
    x = floats(2, 5, k)
    weights = {"b": packed, "s": scales.reshape(-1)}
    if zeros:
        weights["z"] = (points[:, ::2] | points[:, 1::2] << 4).reshape(-1)
    names = ["x", "b", "s", *(["z"] if zeros else [])]
    node = helper.make_node("MatMulNBits", names, ["y"], N=n, K=k, bits=4, block_size=block, domain="com.microsoft")
    (y,) = run([node], {"x": x}, ["y"], weights, microsoft=True)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-4, atol=1e-4)


def test_microsoft_fused_products():
    a, b, c = floats(3, 4), floats(4, 5), floats(5)
    node = helper.make_node("FusedGemm", ["a", "b", "c"], ["y"], activation="Relu", domain="com.microsoft")
    (y,) = run([node], {"a": a, "b": b}, ["y"], {"c": c}, microsoft=True)
    np.testing.assert_allclose(y, np.maximum(a @ b + c, 0), rtol=1e-5, atol=1e-6)
    node = helper.make_node("FusedMatMul", ["a", "b"], ["y"], transA=1, alpha=0.5, domain="com.microsoft")
    (y,) = run([node], {"a": a.T.copy(), "b": b}, ["y"], microsoft=True)
    np.testing.assert_allclose(y, 0.5 * a @ b, rtol=1e-5, atol=1e-6)


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
