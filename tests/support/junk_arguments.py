"""Valid arguments of every public call: by name of the parameter, and by call where that says too little."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np

import tilesim as ts
from tilesim.memory import Part

ONES = np.ones((4, 4), np.float32)


@functools.cache
def _program() -> ts.Program:
    return ts.compile(ts.workloads.matmul(4, 4, 4), "edge-8")


@functools.cache
def _result() -> ts.Result:
    return ts.simulate(_program(), timeline=True)


@functools.cache
def _banks() -> ts.Result:
    return ts.simulate(ts.compile(ts.workloads.matmul(4, 4, 4), "tpu-v3"), memory="bank", network="mesh", timeline=True)


@functools.cache
def _product() -> Any:
    return ts.mapping.products(ts.workloads.matmul(4, 4, 4), "edge-8")[0]


@functools.cache
def _kernel() -> Any:
    graph = ts.workloads.elementwise("exp", 4, 4)
    return next(k for k in ts.mapping.kernels(graph, "edge-8") if isinstance(k, ts.mapping.VectorKernel))


@functools.cache
def _study() -> ts.Study:
    return ts.tune("matmul:4,4,4", "edge-8", budget=2)


@functools.cache
def _memory_result() -> Any:
    return ts.memory.run("DDR4-2400", requests=50)


def _builder() -> ts.GraphBuilder:
    """The builder whose tensor the last one of `tensor` is."""
    return _LAST[0] if _LAST else _new_builder()


@functools.cache
def _cached() -> ts.Program:
    cache = {"sets": 64, "ways": 4, "line": "128 B", "sector": "64 B", "managed": "software"}
    machine = ts.Machine.load("edge-8").replace({f"memory.cache.{key}": value for key, value in cache.items()})
    return ts.compile(ts.workloads.matmul(4, 4, 4), machine)


@functools.cache
def _sorts() -> ts.Machine:
    sorts = [{"sort": name, "count": 1, "core": {}} for name in ("big", "little")]
    return ts.Machine.load("edge-8").replace({"cores": sorts})


def _network_result() -> Any:
    return ts.network.run("mesh", 2)


_LAST: list[Any] = []


def _new_builder() -> ts.GraphBuilder:
    b = ts.GraphBuilder("g")
    _LAST[:] = [b, b.input("x0", (4, 4)), {}]
    return b


def _tensor(shape: tuple[int, ...] = (4, 4)) -> Callable[[], Any]:
    def make() -> Any:
        b = _LAST[0] if _LAST else _new_builder()
        return b.input(f"in{len(_LAST[2])}_{_LAST[2].setdefault(len(_LAST[2]), 0)}", shape)

    return make


def _function() -> Any:
    b = _LAST[0] if _LAST else _new_builder()
    made = b.function("callee")
    made.output(made.apply("exp", made.input("i", (4, 4))))
    return made


def _receiver_builder() -> ts.GraphBuilder:
    """Its arguments were made just before."""
    b: ts.GraphBuilder = _LAST[0] if _LAST else _new_builder()
    _LAST.clear()
    return b


def _receiver_tensor() -> Any:
    return _receiver_builder().input("receiver", (4, 4))


def _graph() -> ts.Graph:
    b = ts.GraphBuilder("g")
    b.output(b.linear(b.input("x", (4, 4)), 4, name="l"), "y")
    return b.build()


def _latencies() -> ts.TileLatencies:
    table = ts.TileLatencies(source="measured")
    table.add("edge-8", COMPUTE, 100)
    return table


def _store() -> ts.Store:
    store = ts.Store("store.db")
    store.put({"a": 1})
    return store


def _table() -> ts.MappingTable:
    return ts.MappingTable({"4_4_4": {"TILE_M": 4, "TILE_N": 4, "TILE_K": 4}})


@functools.cache
def _onnx() -> bytes:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 4]) for n in "xy")
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@functools.cache
def _module() -> Any:
    import torch

    return torch.nn.Linear(4, 4)


def _torch_args() -> Any:
    import torch

    return (torch.ones(4, 4),)


@functools.cache
def _pytorch_ir() -> dict[str, Any]:
    return ts.to_pytorch_ir(_module(), _torch_args())


def _mlir() -> str:
    return (
        "func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    )


COMPUTE = "mma bf16 bf16 b1 m128 n128 k256 ko1 pipelined"
ENTRY_FILES = ("graph.json", "program.json", "result.json", "table.json", "profile.json", "trace.txt", "measured.csv")


def prepare() -> None:
    """Files of the working directory that calls read."""
    import pathlib

    pathlib.Path("folder.json").mkdir()
    _graph().save("graph.json")
    _program().save("program.json")
    _result().save("result.json")
    _table().save("table.json")
    ts.Profile("p", [], frozenset(), [], []).save("profile.json")
    pathlib.Path("trace.txt").write_text("R 0x0\nW 0x40\n", encoding="utf-8")
    rows = ["device,m,n,k,dtype,latency_ms"] + [
        f"h100,{m},{m},{m},bf16,{m**3 / 1e9}" for m in (64, 128, 256, 512, 1024, 2048)
    ]
    pathlib.Path("measured.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


# Constructors and methods work on these.
RECEIVERS: dict[str, Callable[[], Any]] = {
    "ts.Coverage": lambda: ts.coverage(_graph(), "edge-8"),
    "ts.Device": lambda: ts.Device.named("h100"),
    "ts.Estimate.timeline": _result,
    "ts.Estimate": lambda: ts.estimate(ts.workloads.matmul(4, 4, 4), "h100"),
    "ts.Graph": _graph,
    "ts.GraphBuilder": _receiver_builder,
    "ts.Machine": _sorts,
    "ts.MappingTable": _table,
    "ts.OperationTimes": lambda: ts.profile(_graph(), None, "edge-8", runs=1),
    "ts.Profile": lambda: ts.Profile("p", [], frozenset(), [], []),
    "ts.Program": lambda: ts.compile(_graph(), "edge-8"),
    "ts.Residency": lambda: ts.residency(_cached()),
    "ts.Result": _result,
    "ts.Roofline": lambda: ts.roofline(ts.workloads.matmul(4, 4, 4), "h100"),
    "ts.Store": _store,
    "ts.Study": _study,
    "ts.TileLatencies": _latencies,
    "ts.TileLatencies.fill": ts.TileLatencies,
    "ts.mapping.Product": _product,
    "ts.mapping.VectorKernel": _kernel,
    "ts.graph.Tensor": _receiver_tensor,
    "ts.memory.MemoryResult": _memory_result,
    "ts.memory.Part": lambda: Part.load("DDR4-2400"),
    "ts.network.NetworkResult": _network_result,
}

VALUES: dict[str, Callable[[], Any]] = {
    "a": _result,
    "against": lambda: "reference",
    "args": _torch_args,
    "axes": lambda: 0,
    "b": _result,
    "batch": lambda: 1,
    "book": lambda: _latencies().opened("edge-8"),
    "books": lambda: _latencies().books("edge-8"),
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
    "data": lambda: dict(_result().data),
    "depth": lambda: 4,
    "device": lambda: "h100",
    "dtype": lambda: "f32",
    "entries": lambda: {},
    "features": lambda: 4,
    "fidelity": lambda: "simple",
    "filters": lambda: 2,
    "function": lambda: "exp",
    "graph": _graph,
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
    "model": _graph,
    "module": _module,
    "n": lambda: 4,
    "name": lambda: "name",
    "nest": lambda: dict(_product().nest),
    "operation": lambda: "matmul",
    "other": _latencies,
    "output": lambda: 0,
    "part": lambda: "DDR4-2400",
    "parts": lambda: {"a": 1},
    "path": lambda: "written.json",
    "prefix": lambda: "a",
    "problem": lambda: _product().problem,
    "program": _program,
    "queries": lambda: 4,
    "requests": lambda: 50,
    "result": _result,
    "rows": lambda: {
        COMPUTE: dict.fromkeys(("busy", "weights_consumed", "consumed", "first", "done"), 1) | {"limit": "x"}
    },
    "scheme": lambda: "bf16",
    "shape": lambda: (4, 4),
    "sizes": lambda: {},
    "sort": lambda: "",
    "source": lambda: "graph.json",
    "state": lambda: "default",
    "tensor": _tensor(),
    "tensors": lambda: [_tensor()(), _tensor()()],
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
    "w": _tensor(),
    "x": _tensor(),
    "a_tensor": _tensor(),
}

_NET = {"k": lambda: 2, "packet": lambda: 1}
_SMALL = {"batch": lambda: 1, "image": lambda: 32, "sequence": lambda: 4, "context": lambda: 4}

CALLS: dict[str, dict[str, Callable[[], Any]]] = {
    "ts.compile": {"machine": lambda: "edge-8"},
    "ts.Coverage": {"rows": lambda: []},
    "ts.Device": {
        "levels": lambda: [ts.Level("memory", 1e9, 1e11)],
        "settings": lambda: {"matrix": {"f32": 1e12}, "name": "d"},
    },
    "ts.Device.at": {"state": lambda: 1e9},
    "ts.Device.load": {"source": lambda: "h100"},
    "ts.Device.named": {"text": lambda: "h100"},
    "ts.Device.rate": {"dtype": lambda: "bf16"},
    "ts.Device.replace": {"changes": lambda: {"units": 2}},
    "ts.Estimate": {"data": lambda: dict(RECEIVERS["ts.Estimate"]().data), "costs": lambda: []},
    "ts.Graph": {"core": lambda: _graph().core},
    "ts.Graph.from_json": {"text": lambda: _graph().to_json()},
    "ts.Graph.load": {"path": lambda: "graph.json"},
    "ts.Graph.load_weights": {"source": lambda: {"l.weight": ONES, "l.bias": ONES[0]}},
    "ts.Graph.set_source": {"source": lambda: ts.workloads.matmul(4, 4, 4)},
    "ts.Study.leave": {"rest": lambda: lambda: None},
    "ts.Graph.set_weight": {"name": lambda: "l.weight", "value": lambda: ONES},
    "ts.Graph.weight": {"name": lambda: "l.weight"},
    "ts.GraphBuilder.apply": {"function": lambda: "exp", "operands": lambda: [_tensor()()]},
    "ts.GraphBuilder.attention": {name: _tensor((1, 1, 4, 4)) for name in "qkv"} | {"more": lambda: {"scale": 0.5}},
    "ts.GraphBuilder.broadcast": {"shape": lambda: (2, 4, 4)},
    "ts.GraphBuilder.call": {"function": _function, "operands": lambda: [_tensor()()]},
    "ts.GraphBuilder.conv2d": {"x": _tensor((1, 2, 4, 4)), "w": _tensor((2, 2, 1, 1))},
    "ts.GraphBuilder.matmul": {"a": _tensor(), "b": _tensor()},
    "ts.GraphBuilder.op": {
        "kind": lambda: "softmax",
        "operands": lambda: [_tensor()()],
        "attributes": lambda: {"dim": 1},
    },
    "ts.GraphBuilder.pool2d": {"x": _tensor((1, 2, 4, 4))},
    "ts.Job": {"cores": lambda: [0]},
    "ts.Level": {"bytes": lambda: 1e6, "bytes_per_second": lambda: 1e9},
    "ts.Machine.get": {"path": lambda: "core.arrays"},
    "ts.Machine.only": {"sort": lambda: "big"},
    "ts.Machine.load": {"source": lambda: "edge-8"},
    "ts.MappingTable.load": {"path": lambda: "table.json"},
    "ts.OperationTimes": {"rows": lambda: []},
    "ts.Program.ended_by_data": {"trips": dict, "options": dict},
    "ts.Profile.find": {"operation": lambda: "gemm"},
    "ts.Profile.load": {"source": lambda: "profile.json"},
    "ts.Profile.open": {"source": lambda: "profile.json"},
    "ts.Profile.was_fitted": {"cells": lambda: ["1", "2"]},
    "ts.Program": {"core": lambda: _program().core},
    "ts.Program.load": {"path": lambda: "program.json"},
    "ts.Program.weight": {"name": lambda: "l.weight"},
    "ts.Rate": {"flops_per_second": lambda: 1e12},
    "ts.Residency": {"rows": lambda: []},
    "ts.Result.load": {"path": lambda: "result.json"},
    "ts.Roofline": {"device": lambda: ts.Device.named("h100"), "graph": lambda: ts.workloads.matmul(4, 4, 4)},
    "ts.Store": {"path": lambda: "store.db"},
    "ts.crossover": {"dtype": lambda: "fp8"},
    "ts.estimate": {"graph": lambda: ts.workloads.matmul(4, 4, 4), "device": lambda: "h100"},
    "ts.best_schemes": {"graph": lambda: ts.workloads.matmul(4, 4, 4, dtype="bf16")},
    "ts.calibrate": {"device": lambda: "h100"},
    "ts.from_jax": {"function": lambda: _jax_function, "args": lambda: [ONES]},
    "ts.from_onnx": {"source": _onnx},
    "ts.frontends.symbolic_sizes": {"source": _onnx, "context": lambda: None},
    "ts.from_torch": {"args": _torch_args},
    "ts.Estimate.load": {"path": lambda: "result.json"},
    "ts.Estimate.report": {"path": lambda: "written.html"},
    "ts.from_pytorch_ir": {"source": _pytorch_ir},
    "ts.from_stablehlo": {"source": _mlir},
    "ts.residency": {"program": _cached},
    "ts.profile": {"runs": lambda: 1},
    "ts.roofline": {"graph": lambda: ts.workloads.matmul(4, 4, 4)},
    "ts.sweep": {"graph": lambda: ts.workloads.matmul(4, 4, 4), "changes": lambda: {"core.arrays": [1]}},
    "ts.tune": {"graph": lambda: ts.workloads.matmul(4, 4, 4), "machine": lambda: "edge-8", "budget": lambda: 2},
    "ts.mapping.VectorKernel": {
        "operation": lambda: "exp",
        "nest": lambda: dict(_kernel().nest),
        "problem": lambda: _kernel().problem,
    },
    "ts.mapping.VectorKernel.legal": {"nest": lambda: dict(_kernel().nest)},
    "ts.graph.Tensor": {"builder": _new_builder, "value": lambda: 0},
    "ts.graph.Tensor.__matmul__": {"other": _tensor()},
    "ts.graph.Tensor.__add__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__radd__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__sub__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__mul__": {"other": lambda: 1.0},
    "ts.graph.Tensor.__truediv__": {"other": lambda: 1.0},
    "ts.graph.Tensor.reshape": {"shape": lambda: [16]},
    "ts.graph.Tensor.transpose": {"permutation": lambda: [1, 0]},
    "ts.memory.MemoryResult": {"data": lambda: dict(_memory_result().data), "part": lambda: Part.load("DDR4-2400")},
    "ts.memory.Part": {"core": lambda: Part.load("DDR4-2400").core},
    "ts.memory.Part.load": {"source": lambda: "DDR4-2400"},
    "ts.memory.Part.replace": {"controller": lambda: {"read_queue": 16}},
    "ts.memory.Trace": {"addresses": lambda: [0, 64]},
    "ts.memory.Trace.generate": {"name": lambda: "sequential_read", "requests": lambda: 50},
    "ts.memory.Trace.read": {"path": lambda: "trace.txt"},
    "ts.network.NetworkResult": {
        name: lambda name=name: getattr(_network_result(), name)
        for name in ts.network.NetworkResult.__dataclass_fields__
    },
    "ts.memory.run": {"requests": lambda: 50},
    "ts.models.build": {"name": lambda: "mlp"},
    "ts.models.mlp": {"sizes": lambda: (4, 4)},
    "ts.network.for_endpoints": {"name": lambda: "mesh", "count": lambda: 4},
    "ts.network.run": _NET,
    "ts.network.topology": {"name": lambda: "mesh", "k": lambda: 2},
    "ts.views.plot_links": {"source": _banks},
    "ts.views.plot_banks": {"result": _banks},
    "ts.views.plot_bandwidth": {"result": _banks},
    "ts.views.bandwidth_page": {"result": _banks},
    "ts.views.bandwidth_rows": {"result": _banks},
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
    return CALLS.get(name, {})


__all__ = ["CALLS", "RECEIVERS", "VALUES", "json", "of_call", "prepare"]
