"""Damaged models and weights: refused with a message, or read; never a crash, a hang or a huge allocation.

Each parser that is not ours runs in a process of its own here, so that a crash of it fails one test and shows where.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilesim as ts

#: what every child does: damage a seed in many ways and read it, within a bound of memory
CHILD = """
import faulthandler, json, random, re, resource, sys, time, warnings
faulthandler.enable()
warnings.filterwarnings("ignore")
import numpy as np
import tilesim as ts
from tilesim.frontends.weights import open_weights

kind, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
choose = random.Random(17)


def bytes_of(data):
    data = bytearray(data)
    if choose.random() < 0.25:
        return bytes(data[: choose.randrange(len(data))])
    for _ in range(choose.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        at, what = choose.randrange(len(data)), choose.random()
        if what < 0.4:
            data[at] = choose.randrange(256)
        elif what < 0.6:
            data[at] ^= 1 << choose.randrange(8)
        elif what < 0.8:
            del data[at : at + choose.randrange(1, 9)]
        else:
            data[at:at] = data[at : at + choose.randrange(1, 30)]
    return bytes(data)


def text_of(text):
    what = choose.random()
    if what < 0.4:
        number = choose.choice(list(re.finditer("[0-9]+", text)))
        other = choose.choice(["0", "-1", "99999999999", "7", "1000000", "18446744073709551616", "3"])
        return text[: number.start()] + other + text[number.end() :]
    if what < 0.6:
        words = list(re.finditer("[A-Za-z_.]+", text))
        one, other = choose.choice(words), choose.choice(words)
        return text[: one.start()] + other[0] + text[one.end() :]
    if what < 0.8:
        at = choose.randrange(len(text))
        extra = choose.choice(["\\u00e9", "\\u6f22", "\\x00", "{" * 600, "<" * 600, '"', "(" * 9])
        return text[:at] + extra + text[at:]
    return bytes_of(text.encode()).decode("utf-8", "ignore")


def weights(data):
    path = f"{folder}/damaged.{kind}"
    with open(path, "wb") as file:
        file.write(data)
    for entry in open_weights(path).values():
        entry.load().sum()


with open(f"{folder}/seeds.json", encoding="utf-8") as file:
    seeds = [bytes.fromhex(seed) for seed in json.load(file)]
read = {"mlir": ts.from_stablehlo, "onnx": ts.from_onnx, "json": ts.from_pytorch_ir}.get(kind, weights)
for seed in seeds:
    read(seed.decode() if kind in ("mlir", "json") else seed)  # the undamaged one is read, and the libraries are there
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (2 << 30), resource.RLIM_INFINITY))
outcomes = {"read": 0, "refused": 0}
for _ in range(count):
    seed = choose.choice(seeds)
    damaged = text_of(seed.decode()) if kind in ("mlir", "json") else bytes_of(seed)
    start = time.process_time()
    try:
        read(damaged)
        outcomes["read"] += 1
    except ts.Error:
        outcomes["refused"] += 1
    assert time.process_time() - start < 20, repr(damaged[:300])
print(json.dumps(outcomes))
"""


def fuzz(kind, seeds, tmp_path, count):
    (tmp_path / "seeds.json").write_text(json.dumps([seed.hex() for seed in seeds]), encoding="utf-8")
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), kind, str(tmp_path), str(count)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout.strip().splitlines()[-1])
    assert outcomes["refused"] > count // 4
    assert sum(outcomes.values()) == count


MODULE = """
module @m {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<2xi32>) -> (tensor<4xi32>, tensor<4x8xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %table = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xbf16>
    %0 = stablehlo.iota dim = 1 : tensor<4x8xi32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1]
      : (tensor<4x8xf32>, tensor<4x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>)  {
      %2 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.select %2, %a, %b : tensor<i1>, tensor<f32>
      %4 = stablehlo.select %2, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %3, %4 : tensor<f32>, tensor<i32>
    }
    %5 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}>
      : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<2x8xf32>
    %6:2 = stablehlo.while(%n = %c, %x = %arg0) : tensor<i32>, tensor<4x8xf32>
    cond {
      %7 = stablehlo.compare LT, %n, %five, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7 = stablehlo.add %n, %one : tensor<i32>
      %8 = stablehlo.multiply %x, %x : tensor<4x8xf32>
      stablehlo.return %7, %8 : tensor<i32>, tensor<4x8xf32>
    }
    %9 = stablehlo.pad %5, %cst, low = [1, 0], high = [1, 0], interior = [0, 0]
      : (tensor<2x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %10 = stablehlo.add %9, %6#1 : tensor<4x8xf32>
    return %1#1, %10 : tensor<4xi32>, tensor<4x8xf32>
  }
}
"""


def test_mlir(tmp_path):
    pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    fuzz("mlir", [MODULE.encode()], tmp_path, 200)


def test_bytecode(tmp_path):
    pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    for data in (b"ML\xefR", b"ML\xefR" + bytes(range(256))):
        with pytest.raises(ts.UserError, match="bytecode"):
            ts.from_stablehlo(data)


def onnx_seeds(tmp_path):
    from onnx import TensorProto, helper, numpy_helper

    def made(nodes, shape, weights, out):
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_empty_tensor_value_info(out)],
            [numpy_helper.from_array(array, name) for name, array in weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()

    ones = np.ones((4, 3, 3, 3), np.float32)
    sizes, shape = np.array([1, 4, 4, 4]), np.array([0, -1])
    return [
        made(
            [
                helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
                helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
                helper.make_node("Resize", ["p", "", "", "sizes"], ["r"], mode="linear"),
                helper.make_node("Reshape", ["r", "shape"], ["f"]),
                helper.make_node("Softmax", ["f"], ["y"]),
            ],
            [1, 3, 8, 8],
            {"w": ones, "sizes": sizes, "shape": shape},
            "y",
        ),
        made(
            [
                helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4),
                helper.make_node("Pad", ["y", "pads"], ["q"]),
                helper.make_node("Slice", ["q", "one", "three", "one"], ["z"]),
            ],
            [3, 2, 5],
            {
                "w": np.ones((1, 16, 5), np.float32),
                "r": np.ones((1, 16, 4), np.float32),
                "pads": np.array([0, 0, 1, 0, 0, 1, 0, 2]),
                "one": np.array([1]),
                "three": np.array([3]),
            },
            "z",
        ),
    ]


def test_onnx(tmp_path):
    pytest.importorskip("onnx", reason="needs onnx: pip install 'tilesim[onnx]'")
    fuzz("onnx", onnx_seeds(tmp_path), tmp_path, 400)


def safetensors():
    header = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "I8", "shape": [4], "data_offsets": [24, 28]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(28)


def test_safetensors(tmp_path):
    fuzz("safetensors", [safetensors()], tmp_path, 400)


def test_npz(tmp_path):
    np.savez_compressed(tmp_path / "seed.npz", a=np.zeros((20, 30), np.float32), b=np.ones(4, np.int8))
    fuzz("npz", [(tmp_path / "seed.npz").read_bytes()], tmp_path, 400)


def test_pytorch_ir(tmp_path):
    pytest.importorskip("torch", reason="needs torch: pip install 'tilesim[torch]'")
    x = {"name": "x", "shape": [4, 8], "dtype": "float32"}
    w = {"name": "w", "shape": [3, 8], "dtype": "float32"}
    m = {"name": "m", "shape": [4, 3], "dtype": "float32"}
    node = {"name": "l", "op_type": "aten.linear.default", "inputs": [x, w], "outputs": [m], "attrs": {}}
    program = {
        "model_name": "m",
        "pytorch_version": "2",
        "graph_inputs": [x],
        "graph_outputs": [m],
        "weights": [w],
        "weight_name_mapping": {},
        "nodes": [node],
    }
    fuzz("json", [json.dumps(program).encode()], tmp_path, 16)


@pytest.mark.parametrize("what", ["onnx", "jax", "torch"])
def test_without_a_library_the_error_names_it(what):
    """The import is made to fail; everything else goes on."""
    calls = {
        "onnx": "ts.from_onnx(b'')",
        "jax": "ts.from_stablehlo('module {}')",
        "torch": "ts.from_pytorch_ir({'graph_inputs': [], 'graph_outputs': [], 'weights': [], 'nodes': []})",
    }
    script = f"""
        import sys
        sys.modules[{what!r}] = None
        import tilesim as ts
        b = ts.GraphBuilder('alone')
        b.output(b.apply('relu', b.input('x', (2,))))
        assert ts.reference(b.build())
        try:
            {calls[what]}
        except ts.UserError as error:
            assert "pip install 'tilesim[{what}]'" in str(error), error
        else:
            raise SystemExit('no error')
    """
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
