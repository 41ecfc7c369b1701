"""What the command line says and lets say about how a model's file is read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.cli.main import app
from tilesim.loading import load

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tilesim[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


@pytest.fixture
def path(tmp_path: Path) -> str:
    """x @ w, then a spelled-out x * sigmoid(x); the batch is open."""
    w = numpy_helper.from_array(np.ones((16, 16), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in "xy"]
    net = helper.make_model(
        helper.make_graph(nodes, "net", ends[:1], ends[1:], [w]), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.save_model(net, tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def functions(graph: ts.Graph) -> list[str]:
    return [str(op["attributes"].get("function")) for op in graph.operations() if op["kind"] == "elementwise"]


@pytest.mark.parametrize("batch", [1, 4])
def test_an_open_batch_is_said(path: str, batch: int) -> None:
    found = CliRunner().invoke(app, ["run", path, "--batch", str(batch), "--json", "-", "--no-advice"])
    assert found.exit_code == 0
    notes = json.loads(found.stdout)["approximations"]
    assert f"dimension 'batch' of net.onnx is open: {batch} (--batch)" in notes


def test_assumptions_travel_with_the_graph(path: str) -> None:
    graph = load(path)
    assert isinstance(graph, ts.Graph) and len(graph.assumptions) == 1
    assert graph.copy().assumptions == pickle.loads(pickle.dumps(graph)).assumptions == graph.assumptions


def test_passes(path: str) -> None:
    assert functions(load(path)) == ["silu"]
    assert functions(load(path, passes="none")) == ["sigmoid", "multiply"]
    assert functions(load(path, passes="activations, constants")) == ["silu"]
    assert functions(load(path, passes="transposes")) == ["sigmoid", "multiply"]
    with pytest.raises(ts.UserError, match=r"unknown pass.*activation"):
        load(path, passes="activation")
    found = CliRunner().invoke(app, ["run", path, "--passes", "none", "--quiet"])
    assert found.exit_code == 0


def test_a_compiled_program_takes_none(path: str, tmp_path: Path) -> None:
    ts.compile(path).save(tmp_path / "net.tsim")
    with pytest.raises(ts.UserError, match="passes do not apply to a compiled program"):
        load(str(tmp_path / "net.tsim"), passes="none")


def test_copies_and_pickles_keep_all_that_is_known_of_a_graph() -> None:
    graph = ts.models.build("resnet18")
    graph.module, graph.assumptions, graph.defaults = "module {}", ["open sizes"], {"x": np.ones(2, np.float32)}
    assert graph.setting
    known = [name for name in vars(graph) if not name.startswith("_")]
    assert {"module", "setting"} <= set(known)
    for other in (graph.copy(), pickle.loads(pickle.dumps(graph))):
        assert other == graph
        for name in known:
            assert str(getattr(other, name)) == str(getattr(graph, name)), name
