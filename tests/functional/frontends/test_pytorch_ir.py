"""pytorch-ir: what is written reads back with the values of the module."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim

torch = pytest.importorskip("torch", reason="needs torch: pip install 'tilesim[torch]'")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.fc = torch.nn.Linear(8 * 4 * 4, 10)
        self.last = torch.nn.LayerNorm(10)

    def forward(self, x):
        h = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        a, b = h.chunk(2, 1)
        h = torch.cat([b, a], 1)
        return self.last(self.fc(h.flatten(1))), h.mean((2, 3))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, ids):
        x = self.embedding(ids)
        q, k, v = (f(x).unflatten(-1, (2, 8)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.nn.functional.silu(y.transpose(1, 2).flatten(2)) * x


CASES = {"net": (Net, (torch.randn(2, 3, 8, 8),)), "block": (Block, (torch.randint(0, 50, (2, 5)),))}


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name, tmp_path):
    kind, args = CASES[name]
    torch.manual_seed(0)
    module = kind().eval()
    path = tmp_path / "program.json"
    written = ts.frontends.to_pytorch_ir(module, args, path)
    assert json.loads(path.read_text(encoding="utf-8")) == written
    assert {entry["name"] for entry in written["weights"]} == set(written["weight_name_mapping"])
    state = {key: value.detach().numpy() for key, value in module.state_dict().items()}
    graph = ts.frontends.from_pytorch_ir(path, weights=state)
    results = list(ts.reference(graph, [arg.numpy() for arg in args]).values())
    with torch.no_grad():
        wanted = module(*args)
    for ours, theirs in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)
    assert graph.parameters == sum(parameter.numel() for parameter in module.parameters())


def hand_written():
    """y = relu(x w), as text: what another program could have written."""
    x = {"name": "x", "shape": [4, 8], "dtype": "float32"}
    w = {"name": "p_w", "shape": [8, 3], "dtype": "float32"}
    m = {"name": "m", "shape": [4, 3], "dtype": "float32", "producer_node": "mm", "producer_output_idx": 0}
    y = {"name": "y", "shape": [4, 3], "dtype": "float32", "producer_node": "relu", "producer_output_idx": 0}
    return {
        "model_name": "small",
        "pytorch_version": "2",
        "graph_inputs": [x],
        "graph_outputs": [y],
        "weights": [w],
        "weight_name_mapping": {"p_w": "layer.w"},
        "nodes": [
            {"name": "mm", "op_type": "aten.mm.default", "inputs": [x, w], "outputs": [m], "attrs": {}},
            {"name": "relu", "op_type": "aten.relu.default", "inputs": [m], "outputs": [y], "attrs": {}},
        ],
    }


def test_by_hand():
    w = np.arange(24, dtype=np.float32).reshape(8, 3) - 12
    graph = ts.frontends.from_pytorch_ir(json.dumps(hand_written()), weights={"layer.w": w})
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    (y,) = ts.reference(graph, [x]).values()
    np.testing.assert_allclose(y, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-5)


def test_command_line(tmp_path):
    path = tmp_path / "program.json"
    path.write_text(json.dumps(hand_written()), encoding="utf-8")
    done = tilesim("run", str(path), "--quiet")
    assert done.returncode == 0, done.stderr
    assert "small on tpu-v3" in done.stdout


BAD = {
    "no nodes": (lambda d: d.pop("nodes"), "'nodes'"),
    "an unknown overload": (lambda d: d["nodes"][0].update(op_type="aten.secret.default"), "aten.secret"),
    "code in place of an overload": (lambda d: d["nodes"][0].update(op_type="os.system.call"), "os.system"),
    "an unknown tensor": (lambda d: d["nodes"][1]["inputs"][0].update(name="q"), "'q'"),
    "a negative extent": (lambda d: d["graph_inputs"][0].update(shape=[-4, 8]), "shape"),
    "a huge tensor": (lambda d: d["graph_inputs"][0].update(shape=[1 << 40, 8]), "too large"),
    "an unknown dtype": (lambda d: d["graph_inputs"][0].update(dtype="float33"), "float32"),
    "shapes that do not fit": (lambda d: d["weights"][0].update(shape=[7, 3]), "torch cannot run"),
    "arguments too many": (lambda d: d["nodes"][1].update(attrs={"alpha": 3}), "does not take"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_programs(what):
    change, message = BAD[what]
    data = json.loads(json.dumps(hand_written()))
    change(data)
    with pytest.raises(ts.Error, match=message):
        ts.frontends.from_pytorch_ir(data)


CODE = 'a")\n\x0cimport os\nos.environ["TILESIM_INJECTED"] = "1"\n#'


@pytest.mark.parametrize(
    "where", ["weight_name_mapping", "weights", "constants", "model_name", "graph_inputs", "attrs"]
)
def test_no_text_of_a_file_is_run(where, monkeypatch):
    """torch.fx writes names into a source text and runs it: no name of the file may come there."""
    import os

    monkeypatch.delenv("TILESIM_INJECTED", raising=False)
    data = json.loads(json.dumps(hand_written()))
    if where == "weight_name_mapping":
        data[where] = {"p_w": CODE}
    elif where in ("weights", "graph_inputs"):
        old = data[where][0]["name"]
        data = json.loads(json.dumps(data).replace(json.dumps(old), json.dumps(CODE)))
    elif where == "constants":
        data["constants"] = {CODE: {"data": [[1.0]], "dtype": "float32"}}
    elif where == "attrs":
        data["nodes"][1]["attrs"] = {CODE: 1}
    else:
        data[where] = CODE
    try:
        graph = ts.frontends.from_pytorch_ir(data)
    except ts.Error:
        assert where == "attrs"
    else:
        ts.reference(graph)
        if where == "weight_name_mapping":
            assert CODE in graph.weights()
    assert "TILESIM_INJECTED" not in os.environ


def test_no_overload_opens_a_file(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(16))
    data = json.loads(json.dumps(hand_written()))
    attrs = {"filename": str(secret), "shared": True, "size": 4, "dtype": "float32"}
    m = {"name": "f", "shape": [4], "dtype": "float32"}
    data["nodes"].append(
        {"name": "f", "op_type": "aten.from_file.default", "inputs": [], "outputs": [m], "attrs": attrs}
    )
    data["graph_outputs"] = [m]
    with pytest.raises(ts.Unsupported, match="may name a file"):
        ts.frontends.from_pytorch_ir(data)
