"""Objects that junk arguments are given to, or stand beside, made once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import tilesim as ts

COMPUTE = "mma bf16 bf16 b1 m128 n128 k256 ko1 pipelined"
ONES = np.ones((4, 4), np.float32)


@functools.cache
def a_program() -> ts.Program:
    return ts.compile(ts.workloads.matmul(4, 4, 4), "edge-8")


@functools.cache
def a_result() -> ts.Result:
    return ts.simulate(a_program(), timeline=True)


@functools.cache
def a_banks() -> ts.Result:
    return ts.simulate(ts.compile(ts.workloads.matmul(4, 4, 4), "tpu-v3"), memory="bank", network="mesh", timeline=True)


@functools.cache
def a_product() -> Any:
    return ts.mapping.products(ts.workloads.matmul(4, 4, 4), "edge-8")[0]


@functools.cache
def a_kernel() -> Any:
    graph = ts.workloads.elementwise("exp", 4, 4)
    return next(k for k in ts.mapping.kernels(graph, "edge-8") if isinstance(k, ts.mapping.VectorKernel))


@functools.cache
def a_study() -> ts.study.Study:
    return ts.tune("matmul:4,4,4", "edge-8", budget=2)


@functools.cache
def a_memory_result() -> Any:
    return ts.memory.run("DDR4-2400", requests=50)


def a_builder() -> ts.GraphBuilder:
    """The builder whose tensor the last one of `tensor` is."""
    return a_LAST[0] if a_LAST else a_new_builder()


@functools.cache
def a_cached() -> ts.Program:
    cache = {"sets": 64, "ways": 4, "line": "128 B", "sector": "64 B", "managed": "software"}
    machine = ts.Machine.load("edge-8").replace({f"memory.cache.{key}": value for key, value in cache.items()})
    return ts.compile(ts.workloads.matmul(4, 4, 4), machine)


@functools.cache
def a_sorts() -> ts.Machine:
    sorts = [{"sort": name, "count": 1, "core": {}} for name in ("big", "little")]
    return ts.Machine.load("edge-8").replace({"cores": sorts})


def a_network_result() -> Any:
    return ts.network.run("mesh", 2)


a_LAST: list[Any] = []


def a_new_builder() -> ts.GraphBuilder:
    b = ts.GraphBuilder("g")
    a_LAST[:] = [b, b.input("x0", (4, 4)), {}]
    return b


def a_tensor(shape: tuple[int, ...] = (4, 4)) -> Callable[[], Any]:
    def make() -> Any:
        b = a_LAST[0] if a_LAST else a_new_builder()
        return b.input(f"in{len(a_LAST[2])}_{a_LAST[2].setdefault(len(a_LAST[2]), 0)}", shape)

    return make


def a_function() -> Any:
    b = a_LAST[0] if a_LAST else a_new_builder()
    made = b.function("callee")
    made.output(made.apply("exp", made.input("i", (4, 4))))
    return made


def a_receiver_builder() -> ts.GraphBuilder:
    """Its arguments were made just before."""
    b: ts.GraphBuilder = a_LAST[0] if a_LAST else a_new_builder()
    a_LAST.clear()
    return b


def a_receiver_tensor() -> Any:
    return a_receiver_builder().input("receiver", (4, 4))


def a_graph() -> ts.Graph:
    b = ts.GraphBuilder("g")
    b.output(b.linear(b.input("x", (4, 4)), 4, name="l"), "y")
    return b.build()


def a_latencies() -> ts.TileLatencies:
    table = ts.TileLatencies(source="measured")
    table.add("edge-8", COMPUTE, 100)
    return table


def a_store() -> ts.Store:
    store = ts.Store("store.db")
    store.put({"a": 1})
    return store


def a_table() -> ts.mapping.MappingTable:
    return ts.mapping.MappingTable({"4_4_4": {"TILE_M": 4, "TILE_N": 4, "TILE_K": 4}})


@functools.cache
def a_onnx() -> bytes:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 4]) for n in "xy")
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@functools.cache
def a_module() -> Any:
    import torch

    return torch.nn.Linear(4, 4)


def a_torch_args() -> Any:
    import torch

    return (torch.ones(4, 4),)


@functools.cache
def a_pytorch_ir() -> dict[str, Any]:
    return ts.frontends.to_pytorch_ir(a_module(), a_torch_args())


def a_mlir() -> str:
    return (
        "func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    )


def a_riscv() -> bytes:
    """A program for `ts.isa`, with a function `f`."""
    return ts.isa.assemble("_start: li a0, 0\nli a7, 93\necall\nf: ret")
