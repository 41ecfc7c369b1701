"""Files of a few lines that stand for billions of operations are refused at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.mapping import foreign as mapping_import


def doubling(depth: int) -> dict[str, Any]:
    """Each function calls the next one twice."""
    functions = []
    for level in range(depth + 1):
        ops: list[dict[str, Any]] = []
        for i in range(2):
            op = {
                "name": f"c{i}",
                "operands": [f"y{i}"],
                "results": [{"name": f"y{i + 1}", "dtype": "f32", "shape": [8]}],
            }
            called = {"kind": "call", "functions": [f"f{level + 1}"]}
            ops.append(
                {**op, **(called if level < depth else {"kind": "elementwise", "attributes": {"function": "exp"}})}
            )
        name = f"f{level}" if level else "main"
        functions.append(
            {"name": name, "inputs": [{"name": "y0", "dtype": "f32", "shape": [8]}], "ops": ops, "outputs": ["y2"]}
        )
    return {"schema": "tilesim.graph", "version": 1, "name": "g", "main": "main", "functions": functions, "weights": {}}


def test_a_graph(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(doubling(3)), encoding="utf-8")
    assert len(ts.Graph.load(file).operations()) == 2
    file.write_text(json.dumps(doubling(60)), encoding="utf-8")
    with pytest.raises(ts.UserError, match="too many operations"):
        ts.Graph.load(file)


def calling(levels: int, callees_first: bool) -> str:
    """Each function calls the next one."""
    functions = []
    for level in range(levels):
        op: dict[str, Any] = {"name": "y", "kind": "copy", "operands": ["x"]}
        if level + 1 < levels:
            op.update(kind="call", functions=[f"f{level + 1}"])
        x = {"name": "x", "dtype": "f32", "shape": [2]}
        functions.append({"name": f"f{level}", "inputs": [x], "ops": [op], "outputs": ["y"]})
    order = functions[::-1] if callees_first else functions
    return json.dumps({"schema": "tilesim.graph", "version": 1, "main": "f0", "functions": order})


@pytest.mark.parametrize("callees_first", [True, False])
def test_calls_of_many_levels(callees_first: bool) -> None:
    """What follows calls by calls of its own has a stack for as many as a graph may have."""
    graph = ts.Graph.from_dict(calling(256, callees_first))
    assert graph.flops() is not None and graph.compulsory_bytes() > 0
    x = np.array([1, 2], np.float32)
    assert (ts.reference(graph, [x])["y"] == x).all()
    assert (ts.execute(ts.compile(graph, "edge-8"), [x])["y"] == x).all()
    for change in (
        ()
        if callees_first
        else ("inline_calls", "expand", "remove_dead_code", "optimize", "merge_common_subexpressions")
    ):
        copy = graph.copy()
        getattr(copy, change)()
        assert (ts.reference(copy, [x])["y"] == x).all()
    for levels in (257, 40_000):
        with pytest.raises(ts.UserError, match="too deeply"):
            ts.Graph.from_dict(calling(levels, callees_first))


def test_a_cycle_of_very_many_operations() -> None:
    """Found without a walk over all operations for each, and told in a few words."""
    count = 60_000
    ops: list[dict[str, Any]] = [{"name": "o0", "kind": "copy", "operands": [f"o{count - 1}"]}]
    ops += [{"name": f"o{i}", "kind": "copy", "operands": [f"o{i - 1}"]} for i in range(1, count)]
    functions = [{"name": "main", "inputs": [], "ops": ops, "outputs": ["o0"]}]
    with pytest.raises(ts.UserError, match="form a cycle") as caught:
        ts.Graph.from_dict(json.dumps({"schema": "tilesim.graph", "version": 1, "functions": functions}))
    assert len(str(caught.value)) < 1000


def test_stablehlo(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    kind = "tensor<8xf32>"
    body = [
        f"  func.func {'public @main' if level == 0 else f'private @f{level}'}(%a: {kind}) -> {kind} {{\n"
        f"    %b = call @f{level + 1}(%a) : ({kind}) -> {kind}\n    %c = call @f{level + 1}(%b) : ({kind}) -> {kind}\n"
        f"    return %c : {kind}\n  }}"
        for level in range(60)
    ]
    last = f"  func.func private @f60(%a: {kind}) -> {kind} {{\n    return %a : {kind}\n  }}"
    file = tmp_path / "module.mlir"
    file.write_text("module @m {\n" + "\n".join([*body, last]) + "\n}\n", encoding="utf-8")
    with pytest.raises(ts.UserError, match="expands to too many operations"):
        ts.from_stablehlo(file)


def test_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(60):
        callee, domain = (f"F{level + 1}", "own") if level < 59 else ("Exp", "")
        nodes = [helper.make_node(callee, [a], [b], domain=domain) for a, b in (("x", "y"), ("y", "z"))]
        functions.append(helper.make_function("own", f"F{level}", ["x"], ["z"], nodes, opset))
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in ("x", "z")]
    graph = helper.make_graph([helper.make_node("F0", ["x"], ["z"], domain="own")], "g", info[:1], info[1:])
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, functions=functions, ir_version=8), file)
    with pytest.raises(ts.Unsupported, match="nodes after functions are built"):
        ts.from_onnx(file)


def test_merge_keys_of_yaml(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    lines = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 20)}]}}" for i in range(1, 20))]
    file = tmp_path / "map.yaml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(ts.UserError, match="merge keys"):
        mapping_import.from_timeloop(file, ts.mapping.products(ts.workloads.matmul(8, 8, 8), "edge-8"))


def test_refreshes_of_a_far_request_end_at_ctrl_c() -> None:
    """Each gap takes microseconds: what runs long polls between them."""
    import signal
    import threading

    count = 4_000_000
    trace = ts.memory.Trace(np.zeros(count, np.int64), np.ones(count, bool), np.arange(count) * 10**11)
    timer = threading.Timer(0.5, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ts.memory.run(part="DDR4-3200", trace=trace)
