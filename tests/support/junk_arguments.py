"""Valid arguments of every public call: by name of the parameter, and by call where that says too little."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tilesim as ts
from tilesim.memory import Part

from . import junk_clusters
from .junk_values import (
    COMPUTE,
    ONES,
    a_banks,
    a_cached,
    a_function,
    a_graph,
    a_kernel,
    a_latencies,
    a_memory_result,
    a_mlir,
    a_module,
    a_network_result,
    a_new_builder,
    a_onnx,
    a_product,
    a_program,
    a_pytorch_ir,
    a_receiver_builder,
    a_receiver_tensor,
    a_result,
    a_riscv,
    a_sorts,
    a_store,
    a_study,
    a_table,
    a_tensor,
    a_torch_args,
)


def a_small_gpt2() -> Any:
    """A configuration of one layer."""
    from transformers import GPT2Config

    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=60, n_positions=64, **ends)


def prepare() -> None:
    """Files of the working directory that calls read."""
    import pathlib

    pathlib.Path("folder.json").mkdir()
    a_graph().save("graph.json")
    a_program().save("program.json")
    a_result().save("result.json")
    a_table().save("table.json")
    ts.analytic.Profile("p", [], frozenset(), [], []).save("profile.json")
    junk_clusters.prepare()
    pathlib.Path("trace.txt").write_text("R 0x0\nW 0x40\n", encoding="utf-8")
    rows = ["device,m,n,k,dtype,latency_ms"] + [
        f"h100,{m},{m},{m},bf16,{m**3 / 1e9}" for m in (64, 128, 256, 512, 1024, 2048)
    ]
    pathlib.Path("measured.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


# Constructors and methods work on these.
def an_instruction() -> ts.isa.Instruction:
    return ts.isa.define("my.junk rd, rs1", opcode="custom-0", semantics=int)


def a_function_instruction() -> ts.isa.Instruction:
    return ts.isa.define("my.junk vd, vs2", opcode="custom-0", semantics=abs, element="f32")


def an_operation() -> ts.isa.Operation:
    return ts.isa.operation("my.junk", lambda x: x, lambda x: x, ts.isa.assemble("kernel: ret"))


RECEIVERS: dict[str, Callable[[], Any]] = {
    **junk_clusters.RECEIVERS,
    "ts.study.Coverage": lambda: ts.coverage(a_graph(), "edge-8"),
    "ts.Device": lambda: ts.Device.named("h100"),
    "ts.Estimate.timeline": a_result,
    "ts.Estimate": lambda: ts.estimate(ts.workloads.matmul(4, 4, 4), "h100"),
    "ts.Graph": a_graph,
    "ts.GraphBuilder": a_receiver_builder,
    "ts.study.Levels": lambda: ts.levels(a_graph(), "edge-8"),
    "ts.Machine": a_sorts,
    "ts.mapping.MappingTable": a_table,
    "ts.study.OperationTimes": lambda: ts.study.profile(a_graph(), None, "edge-8", runs=1),
    "ts.analytic.Profile": lambda: ts.analytic.Profile("p", [], frozenset(), [], []),
    "ts.Program": lambda: ts.compile(a_graph(), "edge-8"),
    "ts.mapping.Residency": lambda: ts.mapping.residency(a_cached()),
    "ts.Result": a_result,
    "ts.analytic.Roofline": lambda: ts.roofline(ts.workloads.matmul(4, 4, 4), "h100"),
    "ts.Store": a_store,
    "ts.study.Study": a_study,
    "ts.study.Why": lambda: a_result().why(a_result().data["operations"][0]["name"]),
    "ts.TileLatencies": a_latencies,
    "ts.TileLatencies.fill": ts.TileLatencies,
    "ts.mapping.Product": a_product,
    "ts.mapping.VectorKernel": a_kernel,
    "ts.graph.Tensor": a_receiver_tensor,
    "ts.isa.Core": ts.isa.Core,
    "ts.isa.Instruction": an_instruction,
    "ts.isa.Operation": an_operation,
    "ts.isa.IsaResult": lambda: ts.isa.run(a_riscv(), timed=True, pipeline=10, timeline=True),
    "ts.memory.MemoryResult": a_memory_result,
    "ts.memory.Part": lambda: Part.load("DDR4-2400"),
    "ts.network.NetworkResult": a_network_result,
}

VALUES: dict[str, Callable[[], Any]] = {
    "a": a_result,
    "against": lambda: "reference",
    "args": a_torch_args,
    "axes": lambda: 0,
    "b": a_result,
    "batch": lambda: 1,
    "book": lambda: a_latencies().opened("edge-8"),
    "books": lambda: a_latencies().books("edge-8"),
    "capacity": lambda: 100,
    "changes": lambda: {"core.arrays": 1},
    "channels": lambda: 1,
    "chosen": lambda: ts.mapping.products(ts.workloads.matmul(4, 4, 4), "edge-8"),
    "compute": lambda: COMPUTE,
    "computes": lambda: [COMPUTE],
    "controller": lambda: {},
    "core": lambda: ts.Machine.load("edge-8").core,
    "count": lambda: 2,
    "cycles": lambda: 10,
    "data": lambda: dict(a_result().data),
    "depth": lambda: 4,
    "device": lambda: "h100",
    "dtype": lambda: "f32",
    "entries": lambda: {},
    "features": lambda: 4,
    "fidelity": lambda: "simple",
    "filters": lambda: 2,
    "function": lambda: "exp",
    "graph": a_graph,
    "quantized": a_graph,
    "heads": lambda: 1,
    "height": lambda: 4,
    "hidden": lambda: 4,
    "index": lambda: 0,
    "input": lambda: 0,
    "k": lambda: 4,
    "key": lambda: "4_4_4",
    "keys": lambda: ["a"],
    "kind": lambda: "softmax",
    "m": lambda: 4,
    "machine": lambda: ts.Machine.load("edge-8"),
    "measurements": lambda: "measured.csv",
    "model": a_graph,
    "module": a_module,
    "n": lambda: 4,
    "name": lambda: "name",
    "nest": lambda: dict(a_product().nest),
    "operation": lambda: "matmul",
    "other": a_latencies,
    "output": lambda: 0,
    "part": lambda: "DDR4-2400",
    "parts": lambda: {"a": 1},
    "path": lambda: "written.json",
    "prefix": lambda: "a",
    "problem": lambda: a_product().problem,
    "program": a_program,
    "queries": lambda: 4,
    "requests": lambda: 50,
    "result": a_result,
    "rows": lambda: {
        COMPUTE: dict.fromkeys(("busy", "weights_consumed", "consumed", "first", "done"), 1) | {"limit": "x"}
    },
    "scheme": lambda: "bf16",
    "shape": lambda: (4, 4),
    "sizes": lambda: {},
    "sort": lambda: "",
    "source": lambda: "graph.json",
    "state": lambda: "default",
    "tensor": a_tensor(),
    "tensors": lambda: [a_tensor()(), a_tensor()()],
    "text": lambda: "{}",
    "tokens": lambda: 4,
    "topology": lambda: "mesh",
    "trace": lambda: "sequential_read",
    "value": lambda: 1.0,
    "values": lambda: {"a": 1},
    "vocabulary": lambda: 16,
    "what": lambda: "model",
    "width": lambda: 4,
    "window": lambda: 2,
    "words": lambda: 1024,
    "w": a_tensor(),
    "x": a_tensor(),
    "a_tensor": a_tensor(),
}

_NET = {"k": lambda: 2, "packet": lambda: 1}
_SMALL = {"batch": lambda: 1, "image": lambda: 32, "sequence": lambda: 4, "context": lambda: 4}

CALLS: dict[str, dict[str, Callable[[], Any]]] = {
    "ts.Cluster.from_dict": {"value": lambda: ts.Cluster.load("dgx-h100").to_dict()},
    "ts.Device.from_dict": {"value": lambda: ts.Device.load("h100").to_dict()},
    "ts.Machine.from_dict": {"value": lambda: ts.Machine.load("edge-8").to_dict()},
    "ts.analytic.Profile.from_dict": {"value": lambda: ts.analytic.Profile("p", []).to_dict()},
    "ts.gradient": {"of": lambda: "y", "by": lambda: ["x"]},
    "ts.compare": {"b": a_result},
    "ts.compile": {"machine": lambda: "edge-8"},
    "ts.study.Coverage": {"rows": lambda: []},
    "ts.Device": {
        "levels": lambda: [ts.analytic.Level("memory", 1e9, 1e11)],
        "settings": lambda: {"matrix": {"f32": 1e12}, "name": "d"},
    },
    "ts.Device.at": {"state": lambda: 1e9},
    "ts.Device.load": {"source": lambda: "h100"},
    "ts.Device.named": {"text": lambda: "h100"},
    "ts.Device.rate": {"dtype": lambda: "bf16"},
    "ts.Device.replace": {"changes": lambda: {"units": 2}},
    "ts.Estimate": {"data": lambda: dict(RECEIVERS["ts.Estimate"]().data), "costs": lambda: []},
    "ts.Graph": {"core": lambda: a_graph().core},
    "ts.Graph.from_dict": {"value": lambda: a_graph().to_dict()},
    "ts.Graph.load": {"path": lambda: "graph.json"},
    "ts.Graph.load_weights": {"source": lambda: {"l.weight": ONES, "l.bias": ONES[0]}},
    "ts.Graph.set_source": {"source": lambda: ts.workloads.matmul(4, 4, 4)},
    "ts.study.Study.leave": {"rest": lambda: lambda: None},
    "ts.Graph.set_weight": {"name": lambda: "l.weight", "value": lambda: ONES},
    "ts.Graph.weight": {"name": lambda: "l.weight"},
    "ts.GraphBuilder.apply": {"function": lambda: "exp", "operands": lambda: [a_tensor()()]},
    "ts.GraphBuilder.attention": {name: a_tensor((1, 1, 4, 4)) for name in "qkv"} | {"more": lambda: {"scale": 0.5}},
    "ts.GraphBuilder.broadcast": {"shape": lambda: (2, 4, 4)},
    "ts.GraphBuilder.call": {"function": a_function, "operands": lambda: [a_tensor()()]},
    "ts.GraphBuilder.conv2d": {"x": a_tensor((1, 2, 4, 4)), "w": a_tensor((2, 2, 1, 1))},
    "ts.GraphBuilder.matmul": {"a": a_tensor(), "b": a_tensor()},
    "ts.GraphBuilder.op": {
        "kind": lambda: "softmax",
        "operands": lambda: [a_tensor()()],
        "attributes": lambda: {"dim": 1},
    },
    "ts.GraphBuilder.pool2d": {"x": a_tensor((1, 2, 4, 4))},
    "ts.Job": {"cores": lambda: [0]},
    "ts.analytic.Level": {"bytes": lambda: 1e6, "bytes_per_second": lambda: 1e9},
    "ts.Machine.get": {"path": lambda: "core.arrays"},
    "ts.Machine.diff": {"other": lambda: "tpu-v3"},
    "ts.Machine.save": {"name": lambda: "own"},
    "ts.Machine.only": {"sort": lambda: "big"},
    "ts.Machine.load": {"source": lambda: "edge-8"},
    "ts.mapping.MappingTable.load": {"path": lambda: "table.json"},
    "ts.study.OperationTimes": {"rows": lambda: []},
    "ts.Program.ended_by_data": {"trips": dict, "options": dict},
    "ts.analytic.Profile.find": {"operation": lambda: "gemm"},
    "ts.analytic.Profile.load": {"source": lambda: "profile.json"},
    "ts.analytic.Profile.open": {"source": lambda: "profile.json"},
    "ts.analytic.Profile.was_fitted": {"cells": lambda: ["1", "2"]},
    "ts.Program": {"core": lambda: a_program().core},
    "ts.Program.load": {"path": lambda: "program.json"},
    "ts.Program.weight": {"name": lambda: "l.weight"},
    "ts.analytic.Rate": {"flops_per_second": lambda: 1e12},
    "ts.mapping.Residency": {"rows": lambda: []},
    "ts.Result.load": {"path": lambda: "result.json"},
    "ts.Result.why": {"name": lambda: a_result().data["operations"][0]["name"]},
    "ts.Estimate.why": {"name": lambda: "matmul"},
    "ts.study.Why": {"name": lambda: a_result().data["operations"][0]["name"]},
    "ts.analytic.Roofline": {"device": lambda: ts.Device.named("h100"), "graph": lambda: ts.workloads.matmul(4, 4, 4)},
    "ts.Store": {"path": lambda: "store.db"},
    "ts.crossover": {"dtype": lambda: "fp8"},
    "ts.estimate": {"graph": lambda: ts.workloads.matmul(4, 4, 4), "device": lambda: "h100"},
    "ts.analytic.best_schemes": {"graph": lambda: ts.workloads.matmul(4, 4, 4, dtype="bf16")},
    "ts.analytic.calibrate": {"device": lambda: "h100"},
    "ts.from_jax": {"function": lambda: _jax_function, "args": lambda: [ONES]},
    "ts.from_onnx": {"source": a_onnx},
    "ts.frontends.symbolic_sizes": {"source": a_onnx, "context": lambda: None},
    "ts.from_torch": {"args": a_torch_args},
    "ts.from_transformers": {"model": a_small_gpt2, "phase": lambda: "decode", "context": lambda: 4},
    "ts.quantize": {"graph": lambda: ts.workloads.matmul(4, 4, 4), "dtype": lambda: "i8", "calibrate": lambda: None},
    "ts.Estimate.load": {"path": lambda: "result.json"},
    "ts.Estimate.report": {"path": lambda: "written.html"},
    "ts.frontends.from_pytorch_ir": {"source": a_pytorch_ir},
    "ts.from_stablehlo": {"source": a_mlir},
    "ts.mapping.residency": {"program": a_cached},
    "ts.study.profile": {"runs": lambda: 1},
    "ts.roofline": {"graph": lambda: ts.workloads.matmul(4, 4, 4)},
    "ts.sweep": {"graph": lambda: ts.workloads.matmul(4, 4, 4), "changes": lambda: {"core.arrays": [1]}},
    "ts.tune": {"graph": lambda: ts.workloads.matmul(4, 4, 4), "machine": lambda: "edge-8", "budget": lambda: 2},
    "ts.mapping.VectorKernel": {
        "operation": lambda: "exp",
        "nest": lambda: dict(a_kernel().nest),
        "problem": lambda: a_kernel().problem,
    },
    "ts.mapping.VectorKernel.legal": {"nest": lambda: dict(a_kernel().nest)},
    "ts.graph.Tensor": {"builder": a_new_builder, "value": lambda: 0},
    "ts.graph.Tensor.__matmul__": {"other": a_tensor()},
    "ts.graph.Tensor.__add__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__radd__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__sub__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__mul__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__truediv__": {"other": lambda: 1.0},
    "ts.graph.Tensor.reshape": {"shape": lambda: [16]},
    "ts.graph.Tensor.transpose": {"permutation": lambda: [1, 0]},
    "ts.memory.MemoryResult": {"data": lambda: dict(a_memory_result().data), "part": lambda: Part.load("DDR4-2400")},
    "ts.memory.Part": {"core": lambda: Part.load("DDR4-2400").core},
    "ts.memory.Part.load": {"source": lambda: "DDR4-2400"},
    "ts.memory.Part.replace": {"controller": lambda: {"read_queue": 16}},
    "ts.memory.Trace": {"addresses": lambda: [0, 64]},
    "ts.memory.Trace.generate": {"name": lambda: "sequential_read", "requests": lambda: 50},
    "ts.memory.Trace.read": {"path": lambda: "trace.txt"},
    "ts.network.NetworkResult": {
        name: lambda name=name: getattr(a_network_result(), name)
        for name in ts.network.NetworkResult.__dataclass_fields__
    },
    "ts.isa.Core": {"name": lambda: "own", "vlen": lambda: 128},
    "ts.isa.Core.from_machine": {"machine": lambda: "tpu-v3"},
    "ts.isa.Core.load": {"name": lambda: "generic"},
    "ts.isa.IsaResult": {"data": lambda: ts.isa.run(a_riscv()).to_dict()},
    "ts.study.Levels": {"results": dict, "computes": list, "notes": list},
    "ts.isa.Core.extend": {"added": lambda: [an_instruction()]},
    "ts.isa.Instruction": {
        name: lambda name=name: getattr(an_instruction(), name) for name in ts.isa.Instruction.__dataclass_fields__
    },
    "ts.isa.Operation": {"name": lambda: "my.junk", "shape": lambda: abs, "reference": lambda: abs, "roundings": int},
    "ts.isa.Operation.__call__": {"operands": lambda: [a_tensor()]},
    "ts.isa.Operation.measure": {"machine": lambda: "edge-8", "operands": lambda: [ONES]},
    "ts.isa.Operation.results": {"operands": lambda: [ts.isa.TensorType("f32", (4,))]},
    "ts.isa.TensorType": {"dtype": lambda: "f32", "shape": lambda: (4,)},
    "ts.isa.Unit": {"name": lambda: "cordic"},
    "ts.isa.operation": {
        "name": lambda: "my.junk",
        "shape": lambda: abs,
        "reference": lambda: abs,
        "kernel": lambda: ts.isa.assemble("kernel: ret"),
    },
    "ts.isa.use": {
        "machine": lambda: "edge-8",
        "function": lambda: "abs",
        "instruction": a_function_instruction,
    },
    "ts.isa.assemble": {"text": lambda: "nop"},
    "ts.isa.define": {"text": lambda: "my.junk rd, rs1", "opcode": lambda: "custom-0", "semantics": lambda: int},
    "ts.isa.header": {"machine": lambda: "edge-8"},
    "ts.isa.kernel": {"compute": lambda: "mma i8 i8 b1 m4 n8 k8 ko1", "machine": lambda: "edge-8"},
    "ts.isa.kernel_text": {"compute": lambda: "mma i8 i8 b1 m4 n8 k8 ko1", "machine": lambda: "edge-8"},
    "ts.isa.unit": {"name": lambda: "cordic"},
    "ts.isa.call": {"elf": a_riscv, "symbol": lambda: "f"},
    "ts.isa.disassemble": {"bits": lambda: 0x13},
    "ts.isa.instructions": {"extension": lambda: "M"},
    "ts.isa.run": {"elf": a_riscv},
    "ts.memory.run": {"requests": lambda: 50},
    "ts.models.build": {"name": lambda: "mlp"},
    "ts.models.mlp": {"sizes": lambda: (4, 4)},
    "ts.network.for_endpoints": {"name": lambda: "mesh", "count": lambda: 4},
    "ts.network.run": _NET,
    "ts.network.topology": {"name": lambda: "mesh", "k": lambda: 2},
    "ts.views.plot_links": {"source": a_banks},
    "ts.views.plot_banks": {"result": a_banks},
    "ts.views.plot_bandwidth": {"result": a_banks},
    "ts.views.bandwidth_page": {"result": a_banks},
    "ts.views.bandwidth_rows": {"result": a_banks},
    "ts.workloads.conv2d": {"channels": lambda: 2},
    "ts.workloads.elementwise": {"shape": lambda: [4, 4]},
    "ts.workloads.layer_norm": {"shape": lambda: [4, 4]},
    "ts.workloads.rms_norm": {"shape": lambda: [4, 4]},
    "ts.workloads.softmax": {"shape": lambda: [4, 4]},
}


def _jax_function(x: Any) -> Any:
    return x + 1


def of_call(name: str) -> dict[str, Callable[[], Any]]:
    """What a call takes instead of `VALUES`, and of its optional parameters."""
    page = {"path": lambda: "page.html"} if name.endswith(".to_html") else {}
    return CALLS.get(name, junk_clusters.CALLS.get(name, page))


__all__ = ["CALLS", "RECEIVERS", "VALUES", "json", "of_call", "prepare"]
