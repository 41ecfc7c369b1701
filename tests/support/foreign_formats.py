"""Formats of others that are read: models of front ends, weights, measured tables; see `formats`."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts
from support import simulator_files as theirs
from support.format_graphs import GRAPH_USES, Format, Use, texts
from tilesim.analytic.calibration import calibrate
from tilesim.analytic.measured.tables import kinds_of
from tilesim.cluster.networks.astra import system_of
from tilesim.graph.weights import open_weights
from tilesim.validation.analytic import validate
from tilesim.validation.noc import noc
from tilesim.validation.tables import dram, tpu_v3

FEW: list[Use] = [GRAPH_USES[0], GRAPH_USES[2], GRAPH_USES[3]]  # told, compiled and simulated, passes

# --- weights ---


def take(stored: Any, folder: Path) -> None:
    """Every array."""
    for entry in stored.values():
        entry.load().sum()


def given(stored: Any, folder: Path) -> None:
    """To a graph."""
    b = ts.GraphBuilder("g")
    b.output(b.apply("add", b.weight("a", (2, 3)), b.weight("b", (4,)).sum()))
    graph = b.build()
    file = next(path for path in folder.iterdir() if path.name.startswith("weights"))
    graph.load_weights(file, strict=False, convert=True)
    graph.weight("a"), graph.weight("b")
    graph.save(folder / "again.tsim", weights_anywhere=True)


def safetensors(folder: Path) -> list[bytes]:
    """Two tensors."""
    header = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "I8", "shape": [4], "data_offsets": [24, 28]},
        "__metadata__": {"format": "pt"},
    }
    text = json.dumps(header).encode()
    return [struct.pack("<Q", len(text)) + text + bytes(28)]


def npz(folder: Path) -> list[bytes]:
    """Compressed and not."""
    found = []
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, a=np.ones((2, 3), np.float32), b=np.ones(4, np.int8))
        found.append(out.getvalue())
    return found


def torch_file(folder: Path) -> list[bytes]:
    """A state dictionary, plain and inside of a checkpoint."""
    import torch

    found = []
    for state in ({"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)},):
        for whole in (state, {"state_dict": state, "epoch": 3}):
            out = io.BytesIO()
            torch.save(whole, out)
            found.append(out.getvalue())
    return found


# --- other simulators ---


def ran(machine: ts.Machine, folder: Path) -> None:
    """A product on it."""
    ts.run("matmul:20,20,20,i8", machine=machine).summary()


def joined(cluster: ts.Cluster, folder: Path) -> None:
    """A collective on it."""
    if cluster.devices <= 64:
        ts.cluster.collective("all_reduce", 1000, cluster)


# --- models ---

MODULE = """module @m {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<2xi32>) -> (tensor<4xi32>, tensor<4x8xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
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
FORMS = """module @forms {
  func.func @main(%a: tensor<4xcomplex<f64>>, %q: tensor<3x!quant.uniform<i8:f32, 0.1:-30>>) -> tuple<tensor<4xf64>, tensor<5xf8E3M4>> {
    %t = stablehlo.after_all : !stablehlo.token
    %0:2 = "stablehlo.infeed"(%t) {infeed_config = "", layout = [[0]]} : (!stablehlo.token) -> (tensor<4xf64>, !stablehlo.token)
    %1 = stablehlo.tanh %a : tensor<4xcomplex<f64>>
    %2 = stablehlo.imag %1 : (tensor<4xcomplex<f64>>) -> tensor<4xf64>
    %3 = stablehlo.reduce_precision %2, format = e4m3 : tensor<4xf64>
    %4 = stablehlo.composite "some.sum" %3, %0#0 { decomposition = @sum } : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    %n = stablehlo.constant dense<5> : tensor<1xi64>
    %5 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<5xf8E3M4>
    %6 = stablehlo.uniform_dequantize %q : (tensor<3x!quant.uniform<i8:f32, 0.1:-30>>) -> tensor<3xf32>
    %7:2 = chlo.top_k(%6, k = 2) : tensor<3xf32> -> (tensor<2xf32>, tensor<2xi32>)
    %8 = "stablehlo.outfeed"(%7#1, %0#1) {outfeed_config = ""} : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
    %9 = stablehlo.tuple %4, %5 : tuple<tensor<4xf64>, tensor<5xf8E3M4>>
    return %9 : tuple<tensor<4xf64>, tensor<5xf8E3M4>>
  }
  func.func private @sum(%a: tensor<4xf64>, %b: tensor<4xf64>) -> tensor<4xf64> {
    %i = stablehlo.constant dense<0.0> : tensor<f64>
    %0 = "stablehlo.select_and_scatter"(%a, %b, %i) ({
      ^bb0(%p: tensor<f64>, %q: tensor<f64>):
        %c = stablehlo.compare GT, %p, %q, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }, {
      ^bb0(%p: tensor<f64>, %q: tensor<f64>):
        %c = stablehlo.add %p, %q : tensor<f64>
        stablehlo.return %c : tensor<f64>
    }) {window_dimensions = array<i64: 2>, padding = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf64>, tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
    return %0 : tensor<4xf64>
  }
}
"""  # noqa: E501
SMALL = """func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<4x4xbf16> {
  %table = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xbf16>
  %p = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = stablehlo.transpose %p, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = stablehlo.slice %t [0:4, 0:2] : (tensor<4x4xf32>) -> tensor<4x2xf32>
  %s = stablehlo.concatenate %r, %r, dim = 1 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %y = stablehlo.convert %s : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  return %y : tensor<4x4xbf16>
}
"""


def bytecode(folder: Path) -> list[bytes]:
    """A module that jax writes."""
    from jax.interpreters import mlir
    from jaxlib.mlir import ir

    with mlir.make_ir_context(), ir.Location.unknown():
        out = io.BytesIO()
        ir.Module.parse(SMALL).operation.write_bytecode(out)
    return [out.getvalue()]


def onnx_models(folder: Path) -> list[bytes]:
    """Layers of images, a recurrent one, control flow."""
    from onnx import TensorProto, helper, numpy_helper

    def made(nodes: list[Any], shape: list[int], weights: dict[str, Any], out: str) -> bytes:
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_empty_tensor_value_info(out)],
            [numpy_helper.from_array(array, name) for name, array in weights.items()],
        )
        return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())

    node = helper.make_node
    images = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Resize", ["p", "", "", "sizes"], ["r"], mode="linear"),
        node("Reshape", ["r", "shape"], ["f"]),
        node("Softmax", ["f"], ["y"]),
    ]
    recurrent = [
        node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4),
        node("Pad", ["y", "pads"], ["q"]),
        node("Slice", ["q", "one", "three", "one"], ["z"]),
    ]
    sizes = {"sizes": np.array([1, 4, 4, 4]), "shape": np.array([0, -1])}
    gates = {"w": np.ones((1, 16, 5), np.float32), "r": np.ones((1, 16, 4), np.float32)}
    ranges = {"pads": np.array([0, 0, 1, 0, 0, 1, 0, 2]), "one": np.array([1]), "three": np.array([3])}
    return [
        made(images, [1, 3, 8, 8], {"w": np.ones((4, 3, 3, 3), np.float32), **sizes}, "y"),
        made(recurrent, [3, 2, 5], {**gates, **ranges}, "z"),
        made([node("MatMul", ["x", "w"], ["y"])], [2, 3], {"w": np.ones((3, 2), np.float32)}, "y"),
    ]


def onnx_external(folder: Path) -> list[bytes]:
    """A weight in a file beside the model."""
    import onnx

    model = onnx.load_from_string(onnx_models(folder)[2])
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "4", "length": "24"}.items():
        tensor.external_data.add(key=key, value=value)
    return [model.SerializeToString()]


def pytorch_ir(folder: Path) -> list[bytes]:
    """A linear layer, and a constant."""
    x, w, m = (
        {"name": name, "shape": shape, "dtype": "float32"}
        for name, shape in (("x", [4, 8]), ("w", [3, 8]), ("m", [4, 3]))
    )
    node = {"name": "l", "op_type": "aten.linear.default", "inputs": [x, w], "outputs": [m], "attrs": {}}
    add = {"name": "a", "op_type": "aten.add.Tensor", "inputs": [m, m], "outputs": [{"name": "s"}]}
    program = {"model_name": "m", "pytorch_version": "2", "graph_inputs": [x], "graph_outputs": [{"name": "s"}]}
    rest = {
        "weights": [w],
        "weight_name_mapping": {"w": "layer.weight"},
        "nodes": [node, {**add, "attrs": {"alpha": 2}}],
    }
    return texts({**program, **rest, "constants": {"c": {"shape": [3], "dtype": "float32", "data": [1, 2, 3]}}})


# --- measured tables ---

GEMM = [f"H100,bfloat16,{m},{n},4096,{m * n / 2e7},vLLM" for m in (512, 1024, 2048, 4096) for n in (2048, 4096)]
ATTENTION = ["H100-SXM-80GB,context,8,1024,24,1,64,bfloat16,fp8,0,128,0.08"]
ATTENTION += [f"H100,generation,{b},1,24,1,64,bfloat16,bfloat16,512,0,{b / 400}" for b in (4, 8, 16, 32, 64)]
CONV = [f"NeuSight,T4,fp32,{b},64,64,28,3,1,1,{b / 16}" for b in (4, 8, 16, 32, 64)]
VECTOR = [f"T4,fp32,{op},{rows},1024,{rows / 9000}" for op in ("ln", "mul") for rows in (512, 1024, 2048, 4096, 8192)]
TABLES = {
    "gemm": [
        "\n".join(["device,dtype,m,n,k,latency_ms,engine", *GEMM]),
        "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
        "VLLM,0.14,NVIDIA H100 80GB HBM3,gemm,vllm_default,fp8,64,4096,4096,0.014\n",
        "OPName,Latency (ms),Device,B,M,N,K\nlinear,1.5,Tesla T4,8,128,1024,512\nbmm,0.4,Tesla T4,96,128,64,128\n",
        "matrix_size,dtype,runtime_ms,tflops\n1024,fp16,0.105206,20.4\n",
        "device,dtype,M,N,K,transA,transB,ms\nT4,fp32,1760,16,1760,T,N,0.096\n",
    ],
    "attention": [
        "\n".join(
            [
                "device,phase,batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,step,"
                "window_size,latency_ms",
                *ATTENTION,
            ]
        ),
        "n_embd,n_q_head,n_kv_head,num_tensor_parallel_workers,block_size,batch_size,prefill_chunk_size,kv_cache_size,"
        "is_prefill,time_stats.attn_prefill.median,time_stats.attn_decode.median,device\n"
        "8192,64,8,2,16,1,512,0,True,0.2,,H100\n8192,64,8,2,16,32,0,2047,False,,0.3,H100\n",
    ],
    "conv": [
        "\n".join(["source,device,dtype,batch,in_channels,out_channels,size,kernel,stride,padding,latency_ms", *CONV]),
        "OPName,Latency (ms),Device,B,Cin,Cout,H,kernel,stride,padding\nconv2d,2.0,Tesla T4,32,64,128,28,3,1,1\n",
    ],
    "vector": [
        "\n".join(["device,dtype,op,rows,width,latency_ms", *VECTOR]),
        "OPName,Latency (ms),Device,B,H\nsoftmax,0.4,Tesla T4,4096,1024\n",
    ],
}
XLA = """entries { key: "sm_90" value {
  entries { b: 1 m: 1024 n: 4096 k: 512 flops { key: "bf16xbf16->bf16" value: 340681153010232 }
            flops { key: "f8e4m3fnxf8e5m2->bf16" value: 340681153010232 } }
  entries {
    b: 4
    m: 256
    n: 1024
    k: 256
    flops { key: "F32xF32->F32" value: 51861564142194 }
  }
} }
"""
DRAM = "part,pattern,inject_every_cycles,requests,cycles,row_hits\nHBM2-2000,random_read,50,20,2000,3\n"
NOC = """network,traffic,packet_flits,offered_flits_per_node_per_cycle,packet_latency_cycles,\
accepted_flits_per_node_per_cycle,state
mesh_2x2,uniform,1,0.02,15.9,0.0198,saturated
"""
TPU = "workload,measured_cycles_at_940MHz\ngemm_64x64x64,900\nsoftmax_4x8,400\nlayernorm_4x8,400\n"


def networks_run(path: Path, _: Path) -> None:
    """A table names networks that may be legal and large: running them is what is done with it."""
    noc(path, 1)


def every_table() -> list[bytes]:
    """All of them."""
    return texts(*(text for kind in TABLES.values() for text in kind))


def measured(table: str) -> Callable[[Path], Any]:
    """A reader of tables of one kind."""
    return lambda path: validate(table, path)


def fitted(_: Any, folder: Path) -> None:
    """A calibration on the table."""
    calibrate(next(path for path in folder.iterdir() if path.name.startswith("table"))).save(folder / "fitted.json")


def workbook(folder: Path) -> list[bytes]:
    """A sheet of products."""
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "fp16"
    rows = (["M", "N", "K", "A Transpose", "B Transpose", "Time (ms)"], [1760, 16, 1760, "T", "N", 0.036])
    for row in rows:
        book.active.append(row)
    out = io.BytesIO()
    book.save(out)
    return [out.getvalue()]


def parquet(folder: Path) -> list[bytes]:
    """A table of products."""
    import pyarrow
    from pyarrow import parquet as writer

    lines = [line.split(",") for line in TABLES["gemm"][1].splitlines()]
    table = pyarrow.table({name: [value] for name, value in zip(lines[0], lines[1], strict=True)})
    writer.write_table(table, folder / "seed.parquet")
    return [(folder / "seed.parquet").read_bytes()]


WEIGHTS = [take, given]
FOREIGN = [
    Format("safetensors", "weights.safetensors", "safetensors", safetensors, open_weights, WEIGHTS, 1800),
    Format("safetensors index", "weights.safetensors.index.json", "json",
           lambda f: texts({"metadata": {}, "weight_map": {"a": "x.safetensors", "b": "x.safetensors"}}), open_weights,
           WEIGHTS, 900, lambda f: (f / "x.safetensors").write_bytes(safetensors(f)[0])),
    Format("npz", "weights.npz", "zip", npz, open_weights, WEIGHTS, 900),
    Format("torch", "weights.pt", "zip", torch_file, open_weights, WEIGHTS, 150, needs="torch"),
    Format("ONNX", "model.onnx", "proto", onnx_models, ts.from_onnx, FEW, 800, needs="onnx"),
    Format("ONNX, external data", "model.onnx", "proto", onnx_external, ts.from_onnx, FEW, 600,
           lambda f: (f / "w.bin").write_bytes(bytes(range(28))), needs="onnx"),
    Format("StableHLO", "module.mlir", "text", lambda f: texts(MODULE, SMALL, FORMS), ts.from_stablehlo, FEW, 250,
           needs="jax"),
    Format("MLIR bytecode", "module.mlirbc", "bytes", bytecode, ts.from_stablehlo, FEW, 2, needs="jax"),
    Format("pytorch-ir", "model.json", "json", pytorch_ir, ts.frontends.from_pytorch_ir, FEW, 12, needs="torch"),
    *(Format(f"table, {kind}", "table.csv", "text", lambda f, kind=kind: texts(*TABLES[kind]), measured(kind),
             [fitted], 90)
      for kind in TABLES),
    Format("table, columns", "table.csv", "text", lambda f: every_table(), kinds_of, (), 250),
    Format("table, XLA", "table.pbtxt", "text", lambda f: texts(XLA), measured("gemm"), (), 100),
    Format("table, LLMCompass", "matmul_A100.csv", "text",
           lambda f: texts("64, 12288, 12288, 0.1900ms, 101.7124Tflops\n"), measured("gemm"), (), 60),
    Format("table, workbook", "table.xlsx", "zip", workbook, measured("gemm"), (), 60, needs="openpyxl"),
    Format("table, Parquet", "table.parquet", "bytes", parquet, measured("gemm"), (), 60, needs="pyarrow"),
    Format("table, DRAM", "dram.csv", "text", lambda f: texts(DRAM), dram, (), 40),
    Format("table, networks", "noc.csv", "text", lambda f: texts(NOC), lambda path: path, [networks_run], 40),
    Format("table, TPU", "tpu.csv", "text", lambda f: texts(TPU), tpu_v3, (), 60),
    Format("SCALE-Sim topology", "net.csv", "text", lambda f: texts(theirs.TOPOLOGY, theirs.PRODUCTS),
           ts.frontends.from_scale_sim, FEW, 90),
    Format("SCALE-Sim configuration", "scale.cfg", "text", lambda f: texts(theirs.CONFIGURATION), ts.Machine.load,
           [ran], 90),
    Format("Timeloop problem", "problem.yaml", "text", lambda f: texts(theirs.PROBLEM, theirs.GEMM),
           ts.frontends.from_timeloop_problem, FEW, 90, needs="yaml"),
    Format("Timeloop architecture", "arch.yaml", "text", lambda f: texts(theirs.ARCHITECTURE, theirs.OLDER),
           ts.Machine.load, [ran], 90, needs="yaml"),
    Format("ASTRA-sim network", "network.yml", "text", lambda f: texts(theirs.NETWORK), ts.Cluster.load, [joined], 60,
           needs="yaml"),
    Format("ASTRA-sim system", "system.json", "json", lambda f: texts(theirs.SYSTEM), system_of, (), 60),
]  # fmt: skip
