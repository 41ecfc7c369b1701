"""Rows of the last table carry the names of the user's modules, from every front end."""

from __future__ import annotations

import pytest

import tilesim as ts


def products(graph: ts.Graph) -> set[str]:
    """Rows of products in the table of a simulation."""
    return {str(row["operation"]) for row in ts.run(graph).table().rows if row["multiply_adds"]}


def test_torch_and_onnx_name_rows_alike(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    import numpy as np

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

        def forward(self, x):
            return x + self.fc2(torch.relu(self.fc1(x)))

    module = torch.nn.Sequential()
    for name in ("first", "second"):
        module.add_module(name, Block())
    wanted = {f"{block}.{layer}" for block in ("first", "second") for layer in ("fc1", "fc2")}
    assert products(ts.from_torch(module.eval(), (torch.randn(4, 32),))) == wanted

    nodes, last = [], "x"
    weights = {}
    for block in ("first", "second"):
        for layer, shape in (("fc1", (32, 64)), ("fc2", (64, 32))):
            weights[f"{block}.{layer}.w"] = np.ones(shape, np.float32)
            made = f"{block}.{layer}.y"
            name = f"/{block}/{layer}/MatMul"
            nodes.append(onnx.helper.make_node("MatMul", [last, f"{block}.{layer}.w"], [made], name=name))
            last = made
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "net", [value("x", 1, [4, 32])], [value(last, 1, [4, 32])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)]), tmp_path / "net.onnx")
    assert products(ts.from_onnx(tmp_path / "net.onnx", passes="none")) == wanted


def test_scopes_of_jax():
    jax = pytest.importorskip("jax", reason="jax is not installed")

    def network(x, w):
        with jax.named_scope("encoder"), jax.named_scope("dense"):
            h = jax.nn.relu(x @ w)
        with jax.named_scope("head"):
            return h @ w

    graph = ts.from_jax(network, jax.numpy.ones((4, 32)), jax.numpy.ones((32, 32)))
    assert products(graph) == {"encoder.dense", "head"}
