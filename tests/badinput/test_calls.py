"""What a newcomer types first: names for graphs, objects of other libraries, wrong kinds of arguments, odd paths."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.mistakes import assert_refused

ONES = np.ones((8, 8), np.float32)


def graph() -> ts.Graph:
    return ts.workloads.matmul(8, 8, 8)


def program() -> ts.Program:
    return ts.compile(graph(), "edge-8")


def builder() -> tuple[ts.GraphBuilder, Any]:
    b = ts.GraphBuilder("small")
    return b, b.input("x", (4, 8))


def product(shape: tuple[int, int]) -> Any:
    b, x = builder()
    return b.matmul(x, b.input("w", shape))


def machine(**changes: Any) -> ts.Machine:
    return ts.Machine.load("tpu-v3").replace({path.replace("__", "."): value for path, value in changes.items()})


# name: (the mistake, words of the message)
MISTAKES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    # what is no graph
    "a number for a model": (lambda: ts.run(3), ["not a model", "int", "torch.nn.Module"]),
    "nothing for a model": (lambda: ts.compile(None), ["not a model", "NoneType"]),  # type: ignore[arg-type]
    "a function for a model": (lambda: ts.run(lambda x: x), ["not a model", "ts.from_jax"]),
    "an unknown network": (lambda: ts.run("resnet19"), ["unknown model", "resnet18"]),
    "a directory": (lambda: ts.run("/"), ["/", "a directory", ".onnx"]),
    "passes on a name": (lambda: ts.optimize("resnet18"), ["in place", "ts.models.build('resnet18')"]),  # type: ignore[arg-type]
    "a name for a program": (lambda: ts.execute("mlp"), ["not a program", "ts.compile('mlp', machine)"]),  # type: ignore[arg-type]
    "a graph for a program": (lambda: ts.verify(graph()), ["not a program", "Graph"]),  # type: ignore[arg-type]
    "a number for a result": (lambda: ts.compare(3, 4), ["not a result"]),  # type: ignore[arg-type]
    "a product without sizes": (lambda: ts.run("matmul:8,8"), ["matmul:M,N,K"]),
    "a product of nothing": (lambda: ts.run("matmul:8,0,8"), ["N is not a size", "'0'"]),
    # sizes and dtypes
    "a fraction for a size": (lambda: ts.workloads.matmul(1.5, 4, 4), ["m: not a whole number", "1.5"]),  # type: ignore[arg-type]
    "a text for a size": (lambda: ts.workloads.matmul(4, "4", 4), ["n: not a whole number", "Write 4, without quotes"]),  # type: ignore[arg-type]
    "a size beyond 64 bits": (
        lambda: ts.workloads.matmul(4, 4, 2**63),
        ["k: out of range", "at most 2^63 - 1"],
    ),
    "a number for a shape": (lambda: builder()[0].input("y", 8), ["input 'y'", "as (8,)"]),  # type: ignore[arg-type]
    "a negative extent": (lambda: builder()[0].input("y", (4, -1)), ["extent of axis 1", "-1"]),
    "a fraction in a stride": (
        lambda: ts.workloads.conv2d(1, 3, 8, 8, 4, stride=1.5),
        ["stride of the height", "1.5", "from 1 on"],
    ),  # type: ignore[arg-type]
    "three strides": (lambda: ts.workloads.conv2d(1, 3, 8, 8, 4, stride=(1, 2, 3)), ["one number, or two"]),
    "no dtype": (lambda: ts.workloads.matmul(4, 4, 4, dtype=3), ["not a dtype"]),  # type: ignore[arg-type]
    "a batch that is text": (lambda: ts.models.build("mlp", batch="2"), ["batch: not a whole number"]),  # type: ignore[arg-type]
    "a fraction of cores": (
        lambda: ts.compile(graph(), "mesh-16", cores=1.5),
        ["cores", "1 to 16", "Leave it out for all cores"],
    ),  # type: ignore[arg-type]
    "no cores": (lambda: ts.compile(graph(), "mesh-16", cores=0), ["cores: out of range", "1 to 16"]),
    "too many cores": (lambda: ts.compile(graph(), "mesh-16", cores=17), ["cores: out of range", "1 to 16"]),
    # builder
    "a function as a kind": (lambda: builder()[0].op("exp"), ["unknown kind", "b.apply('exp', x, ...)"]),
    "a method as a kind": (lambda: builder()[0].op("matmul"), ["unknown kind", "b.matmul(...)"]),
    "a method of tensors as a kind": (lambda: builder()[0].op("mean"), ["unknown kind", "x.mean(...)"]),
    "a text in arithmetic": (lambda: builder()[1] + "q", ["neither a tensor nor a number", "'q'"]),
    # machines
    "a number for a machine": (
        lambda: ts.run(graph(), machine=3),
        ["not a machine", "3", "tilesim machine list", "a dict"],
    ),
    "a directory for a machine": (lambda: ts.run(graph(), machine="/"), ["a directory"]),
    "a bandwidth without a unit": (lambda: machine(memory__bandwidth=900), ["needs a unit", "GB/s"]),
    "not a number": (lambda: machine(memory__efficiency=float("nan")), ["memory.efficiency", "nan", "finite numbers"]),
    "an object for a value": (lambda: machine(memory__efficiency=object()), ["memory.efficiency"]),
    "a list of changes": (lambda: ts.Machine.load("tpu-v3").replace([1]), ["not a dict", "setting path"]),  # type: ignore[arg-type]
    "a number for a fidelity": (lambda: ts.simulate(program(), memory=3), ["memory", "ideal, simple, bank"]),  # type: ignore[arg-type]
    # execution
    "an unknown input": (lambda: ts.execute(program(), {"a": ONES, "z": ONES}), ["unknown: z", "missing: b"]),
    "an array for two inputs": (lambda: ts.execute(program(), ONES), ["a dict or a sequence", "a, b"]),
    "a text for inputs": (lambda: ts.execute(program(), "ab"), ["a dict or a sequence"]),
    "unknown numerics": (lambda: ts.execute(program(), numerics="fast"), ["machine, exact"]),
    "a fraction for a seed": (lambda: ts.execute(program(), seed=1.5), ["seed: not a whole number"]),  # type: ignore[arg-type]
    "a huge seed": (lambda: ts.execute(program(), seed=2**70), ["seed: out of range", "at most 2^63 - 1"]),
    # results and files
    "no timeline": (lambda: ts.run(graph()).timeline("x.pftrace"), ["timeline=True"]),
    "a result of a pickle": (
        lambda: pickle.loads(pickle.dumps(ts.run(graph()))).explain(),
        ["Simulate the program first"],
    ),
    "a number for a path": (lambda: ts.run(graph()).save(3), ["not a path", "3"]),  # type: ignore[arg-type]
    "a graph from a number": (lambda: ts.Graph.load(3), ["not a path"]),  # type: ignore[arg-type]
    "a program from nothing": (lambda: ts.Program.load(None), ["not a path"]),  # type: ignore[arg-type]
    "a result into no folder": (
        lambda: ts.run(graph()).save("/nowhere/r.json"),
        ["/nowhere/r.json", "directory /nowhere does not exist"],
    ),
    "a report into a folder": (lambda: ts.run(graph()).to_html("/"), ["/", "cannot be written"]),
    "a program into no folder": (lambda: program().save("/nowhere/p.json"), ["cannot be written"]),
    # memory and network alone
    "half a request": (lambda: ts.memory.run(requests=1.5), ["requests: not a whole number"]),  # type: ignore[arg-type]
    "a number for a part": (lambda: ts.memory.run(3), ["not a DRAM part"]),  # type: ignore[arg-type]
    "a folder for a trace": (lambda: ts.memory.run(trace="/tmp"), ["/tmp", "a directory"]),
    "a number for a network": (lambda: ts.network.run(3), ["not a network"]),  # type: ignore[arg-type]
    "a text for a load": (
        lambda: ts.network.run(load="0.1"),
        ["load: not a number", "'0.1'", "0 to 1", "without quotes"],
    ),  # type: ignore[arg-type]
    "a load of two": (lambda: ts.network.run(load=2, packet=1), ["load", "0 to 1"]),
    # closed form
    "an unknown engine": (lambda: ts.estimate(graph(), "h100", engine="vLMM"), ["unknown engine", "'vLLM'"]),
    "an engine for a crossover": (
        lambda: ts.crossover("h100", dtype="fp8", engine="x"),
        ["unknown engine", "TensorRT-LLM"],
    ),
    "a number for shapes": (lambda: ts.crossover("h100", dtype="fp8", shapes=5), ["three or four", "5"]),  # type: ignore[arg-type]
    "a number for a scheme": (lambda: ts.crossover("h100", dtype=8), ["not a dtype", "8"]),  # type: ignore[arg-type]
    "a number for an executor": (
        lambda: ts.tune("matmul:8,8,8", budget=2, executor=3),
        ["not an executor", "jobs"],
    ),
    "a number for a store": (lambda: ts.tune("matmul:8,8,8", budget=2, store=3), ["not a path"]),  # type: ignore[arg-type]
    "a number for MLIR": (lambda: ts.from_stablehlo(3), ["not a path", "3"]),  # type: ignore[arg-type]
    "a number for a device": (lambda: ts.estimate(graph(), 3), ["not a machine or device", "tilesim device list"]),  # type: ignore[arg-type]
    # attributes, and steps left out
    "a setting as an attribute": (
        lambda: setattr(machine(), "bandwidth", 3),
        ["machine.replace({'memory.bandwidth': '3 B/s'})"],
    ),
    "a property as a setting": (lambda: setattr(machine(), "hertz", 3), ["Machine.hertz", "machine.replace"]),
    "a setting of the core": (
        lambda: setattr(machine().core.array, "rows", 64),
        ["machine.replace", "core.array.rows"],
    ),
    "an attribute of a device": (
        lambda: setattr(ts.Device.load("h100"), "bandwidth", 3),
        ["cannot be assigned", "replace"],
    ),
    "a field of a plan": (lambda: setattr(ts.Plan(), "tensor", 3), ["Plan.tensor", "replace(tensor=3)"]),
    "an attribute of a graph": (lambda: setattr(graph(), "machine", 3), ["Graph.machine", "cannot be assigned"]),
    "settings of a device in a dict": (lambda: ts.Device.load("h100").replace({"year": 1}), ["Write keywords: year=1"]),  # type: ignore[call-arg]
    "an attribute of a result": (
        lambda: ts.run(graph()).latency,
        ["Result has no attribute 'latency'", "'milliseconds'"],
    ),  # type: ignore[attr-defined]
    "numpy's transpose": (lambda: builder()[1].T, ["Tensor has no attribute 'T'", "'transpose'"]),  # type: ignore[attr-defined]
    "a method of tensors of a builder": (lambda: builder()[0].softmax(0), ["x.softmax(...)"]),  # type: ignore[attr-defined]
    "a comparison": (lambda: builder()[1] > 0, ["builder.apply('greater'"]),
    "a value before execution": (lambda: float(builder()[1]), ["no value before execution", "ts.execute"]),
    "a class for a function": (lambda: ts.Sweep, ["no attribute 'Sweep'", "'sweep'"]),  # type: ignore[attr-defined]
    "a method of classes": (lambda: ts.load, ["no attribute 'load'", "ts.Graph.load"]),  # type: ignore[attr-defined]
    "a name of other plans": (lambda: ts.Plan(zero=3), ["Plan: unknown argument", 'Write shard="zero3"']),  # type: ignore[call-arg]
    "matrices of which one is transposed": (lambda: product((4, 16)), ["Transpose a: a.transpose(1, 0)"]),
    "matrices of which the second is transposed": (lambda: product((16, 8)), ["Transpose b"]),
    "a function of another library": (
        lambda: ts.GraphBuilder("g").apply("swish"),
        ["unknown function", "Did you mean 'silu'"],
    ),
    "a path for a module": (lambda: ts.from_torch("model.pt", ()), ["'model.pt'", "torch.load("]),
    "a weight of two shapes": (
        lambda: ts.GraphBuilder("g").weight("w", (8, 4), data=[[1.0, 2.0]]),
        ["weight 'w'", "(1, 2)", "(8, 4)", "Leave the shape out"],
    ),
    "a module without inputs": (lambda: ts.from_jax(lambda x: x), ["missing a required argument", "ts.from_jax(f, x)"]),
    "a short name of a plan": (lambda: ts.Plan.load("tp=8"), ["unknown key", "Write tensor=8"]),
    "a class of machines called": (lambda: ts.Machine("tpu-v3"), ["not a machine", "ts.Machine.load('tpu-v3')"]),  # type: ignore[arg-type]
    "a builder for a model": (lambda: ts.run(builder()[0]), ["not a model", "builder.build()"]),
    "a graph for a job": (lambda: ts.Job(graph()), ["not a program", "ts.compile(graph, machine)"]),  # type: ignore[arg-type]
    "names for results": (lambda: ts.compare("tpu-v3", "edge-8"), ["not a result", "ts.run(model, machine)"]),  # type: ignore[arg-type]
    "a graph without outputs": (lambda: ts.run(builder()[0].build()), ["no outputs", "builder.output(tensor)"]),
    "an array as an operand": (lambda: builder()[1] @ ONES, ["not a tensor", "builder.weight(name, data=array)"]),  # type: ignore[operator]
    "a tensor of another builder": (lambda: builder()[1] + builder()[1], ["another GraphBuilder"]),
    "an image without a batch": (
        lambda: ts.GraphBuilder("b").conv2d(builder()[1], builder()[1]),
        ["conv2d", "N, C, H, W"],
    ),
    "a stride of zero": (lambda: ts.workloads.conv2d(1, 3, 8, 8, 4, stride=0), ["stride of the height", "from 1 on"]),
    "jobs of two machines": (
        lambda: ts.simulate([ts.Job(program()), ts.Job(ts.compile(graph(), "tpu-v3"))]),
        ["different machines", "edge-8, tpu-v3"],
    ),
    "an arrival in words": (lambda: ts.simulate([ts.Job(program(), arrival="soon")]), ["arrival", "needs a number"]),
    "a machine for a device": (lambda: ts.Device.load("edge-8"), ["edge-8 is a machine", "ts.Machine.load"]),
    "a cluster for a machine": (lambda: ts.run("mlp", machine="dgx-h100:64"), ["is a cluster", "ts.cluster.step"]),
    "a device for a cluster": (lambda: ts.Cluster.load("h100"), ["h100 is a device", "dgx-h100"]),
    "two machines for one": (lambda: ts.run("mlp", machine=["tpu-v3", "edge-8"]), ["one machine per call", "ts.sweep"]),  # type: ignore[arg-type]
    "a backend for a machine": (lambda: ts.run("mlp", machine="cuda"), ["'cuda'", "such as 'h100'"]),
    "four bits": (lambda: ts.quantize(graph(), "int4"), ["unknown quantization", "'w4a16'"]),
    "a size of a graph": (lambda: ts.run(graph(), batch=4), ["a name or a file only", "ts.models.build"]),
    "a size as a fraction of zero": (lambda: ts.run("mlp", batch=4.0), ["not a whole number", "Write 4"]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    assert_refused(*MISTAKES[name])


def test_a_name_is_enough() -> None:
    by_name = ts.run("mlp")
    assert by_name.cycles == ts.run(ts.models.mlp()).cycles == ts.simulate("mlp").cycles
    assert ts.simulate(ts.compile("MLP")).cycles == by_name.cycles
    assert ts.estimate("mlp", "t4").milliseconds == ts.estimate(ts.models.mlp(), "t4").milliseconds
    assert ts.run("matmul:8,16,24,bf16").cycles == ts.run(ts.workloads.matmul(8, 16, 24, dtype="bf16")).cycles
    assert ts.coverage("mlp").result.cycles == by_name.cycles
    assert ts.roofline("mlp", "t4").seconds > 0
    table = ts.sweep("mlp", "tpu-v3", {"core.arrays": [1, 2]})
    assert [row["core.arrays"] for row in table.rows] == [1, 2]


def test_a_file_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "ü 测试.json"
    graph().save(path)
    assert ts.run(path).cycles == ts.run(str(path)).cycles == ts.run(graph()).cycles
    compiled = tmp_path / "p.tsim"
    program().save(compiled)
    assert ts.simulate(compiled).cycles == ts.simulate(program()).cycles


def test_dtypes_of_other_libraries() -> None:
    for dtype in (np.float32, np.dtype("float32"), "float32", "f32", "fp32"):
        assert ts.workloads.matmul(4, 4, 4, dtype=dtype).inputs[0]["dtype"] == "f32"  # type: ignore[arg-type]
    assert ts.workloads.matmul(np.int64(4), np.uint8(4), 4).inputs[0]["shape"] == (4, 4)
    assert machine(core__array__rows=np.int64(64)).get("core.array.rows") == 64


def test_a_table_of_mappings_by_its_file(tmp_path: Path) -> None:
    study = ts.tune("matmul:64,64,64", "edge-8", budget=4)
    path = tmp_path / "best.json"
    study.best.save(path)
    cycles = [
        ts.simulate(ts.compile(study.graph, "edge-8", mapping=table)).cycles for table in (study.best, path, str(path))
    ]
    assert len(set(cycles)) == 1


def test_sweep_over_an_array() -> None:
    table = ts.sweep("matmul:64,64,64", "tpu-v3", {"core.arrays": np.array([1, 2])})
    assert [row["core.arrays"] for row in table.rows] == [1, 2]


def test_arrays_for_a_module() -> None:
    torch = pytest.importorskip("torch")
    module, x = torch.nn.Linear(4, 4), np.zeros((2, 4), np.float32)
    assert ts.run(module, (x,)).cycles == ts.run(module, (torch.zeros(2, 4),)).cycles == ts.run(module, x).cycles
    with pytest.raises(ts.UserError, match=r"Linear: missing example inputs.*Linear.forward"):
        ts.run(module)


def test_inputs_that_a_module_does_not_take() -> None:
    torch = pytest.importorskip("torch")
    module, x = torch.nn.Linear(4, 4), torch.zeros(2, 4)
    mistakes: dict[str, tuple[Callable[[], Any], list[str]]] = {
        "a shape": (lambda: ts.run(module, (2, 4)), ["inputs must be tensors", "(torch.zeros(2, 4),)"]),
        "an input too many": (lambda: ts.run(module, (x, x)), ["forward does not take", "forward(input"]),
        "another shape": (lambda: ts.run(module, (torch.zeros(2, 3),)), ["of these shapes", "[2, 3] X [4, 4]"]),
        "the class": (lambda: ts.run(torch.nn.Linear, (x,)), ["the class Linear", "Make an instance: Linear(...)"]),
        "the weights": (lambda: ts.run(module.state_dict()), ["state_dict", "pass the module"]),
    }
    for make, words in mistakes.values():
        assert_refused(make, words)


def test_extents_as_a_sequence() -> None:
    x = builder()[1]
    assert x.reshape((8, 4)).shape == x.reshape(8, 4).shape == x.transpose((1, 0)).shape == (8, 4)


def test_functions_of_jax() -> None:
    pytest.importorskip("jax")
    with pytest.raises(ts.UserError, match="arguments do not fit"):
        ts.from_jax(lambda x: x)
    with pytest.raises(ts.UserError, match="not a function"):
        ts.from_jax(3)  # type: ignore[arg-type]


def test_numerics() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    compiled = ts.compile(ts.workloads.matmul(32, 32, 32), "tpu-v3")
    exact = ts.execute(compiled, (a, b), numerics="exact")["y"]
    rounded = ts.execute(compiled, (a, b))["y"]
    assert np.abs(exact - a @ b).max() < 1e-4 < np.abs(rounded - a @ b).max()


def test_placement_of_a_program_on_the_machine_alone() -> None:
    assert not program().placement.rows and not program().transfers.rows


def test_a_single_input_needs_no_tuple() -> None:
    x = np.ones((4, 8), np.float32)
    compiled = ts.compile(ts.workloads.softmax(4, 8), "edge-8")
    assert np.array_equal(ts.execute(compiled, x)["y"], ts.execute(compiled, (x,))["y"])


def test_what_is_pickled_comes_back() -> None:
    b = ts.GraphBuilder("weights")
    w = b.weight("w", data=np.arange(24, dtype=np.float32).reshape(8, 3))
    b.output(b.input("x", (4, 8)) @ w, "y")
    made = b.build()
    again = pickle.loads(pickle.dumps(made))
    assert again == made and np.array_equal(again.weight("w"), made.weight("w"))
    compiled = ts.compile(made, "edge-8")
    other = pickle.loads(pickle.dumps(compiled))
    assert ts.verify(other).ok and ts.simulate(other).cycles == ts.simulate(compiled).cycles
    target = machine(core__arrays=4)
    assert pickle.loads(pickle.dumps(target)).core.hash() == target.core.hash()
    for value in (ts.simulate(compiled), ts.estimate(made, "t4"), ts.memory.run(requests=100)):
        assert pickle.loads(pickle.dumps(value)).cycles == value.cycles
    part = ts.memory.Part.load("DDR4-2400")
    assert pickle.loads(pickle.dumps(part)).to_dict() == part.to_dict()


def test_crossover_compares_with_another_dtype() -> None:
    found = ts.crossover("t4", dtype="fp16")
    assert "fp16 against fp32" in found.summary()
    assert "against bf16" in ts.crossover("h100", dtype="fp8").summary()


def test_a_table_in_a_notebook() -> None:
    html = ts.run("mlp").table()._repr_html_()
    assert html.startswith("<table>") and "layers.0" in html
