"""Front ends: bytecode that is none or makes its reader spin; libraries that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import tilesim as ts
from tilesim.frontends.stablehlo import entry as stablehlo


def test_bytecode():
    pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    for data in (b"ML\xefR", b"ML\xefR" + bytes(range(256))):
        with pytest.raises(ts.UserError, match="bytecode"):
            ts.from_stablehlo(data)


def test_bytecode_whose_reader_spins(monkeypatch):
    """The reader is made to: it stops by its process time, however long that takes on a loaded machine."""
    pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    monkeypatch.setattr(stablehlo, "TRANSLATE", stablehlo.TRANSLATE.partition("with made")[0] + "while True: pass")
    monkeypatch.setattr(stablehlo, "MAX_WORK", 0)
    with pytest.raises(ts.UserError, match="takes too long to read"):
        ts.from_stablehlo(b"ML\xefR")


@pytest.mark.parametrize("what", ["onnx", "jax", "torch"])
def test_without_a_library_the_error_names_it(what):
    """The import is made to fail; everything else goes on."""
    calls = {
        "onnx": "ts.from_onnx(b'')",
        "jax": "ts.from_stablehlo('module {}')",
        "torch": "ts.frontends.from_pytorch_ir({'graph_inputs': [], 'graph_outputs': [], 'weights': [], 'nodes': []})",
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
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def onnx_bytes(folder):
    """A model with a name, a symbolic extent, an attribute and external data, as bytes."""
    onnx = pytest.importorskip("onnx")
    (folder / "weight.bin").write_bytes(bytes(16))
    weight = onnx.TensorProto(name="weight", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="weight.bin")
    nodes = [
        onnx.helper.make_node("Add", ["input", "weight"], ["sum"], name="addition"),
        onnx.helper.make_node("Flatten", ["sum"], ["result"], axis=0),
    ]
    inputs = [onnx.helper.make_tensor_value_info("input", 1, ["extent", 4])]
    outputs = [onnx.helper.make_tensor_value_info("result", 1, None)]
    graph = onnx.helper.make_graph(nodes, "network", inputs, outputs, [weight])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()


TEXTS = [b"input", b"weight.bin", b"weight", b"sum", b"addition", b"axis", b"Flatten", b"extent", b"location"]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_onnx_that_are_no_utf8(text, tmp_path):
    """protobuf gives such a text as bytes, wherever it stands."""
    model = onnx_bytes(tmp_path)
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    assert ts.from_onnx(path, sizes={"extent": 2}).outputs[0]["shape"] == (1, 8)
    assert text in model
    path.write_bytes(model.replace(text, b"\xff" + text[1:]))
    with pytest.raises(ts.UserError, match="a text is not UTF-8"):
        ts.from_onnx(path, sizes={"extent": 2})


def test_a_value_without_a_name():
    b = ts.GraphBuilder("twice")
    b.output(b.apply("relu", b.input("x", (4,)), name="positive"), "y")
    text = b.build().core.to_json()
    for name in ('"x"', '"positive"'):
        assert name in text
    with pytest.raises(ts.UserError, match="A value has no name"):
        ts.Graph.from_dict(text.replace('"x"', '""'))


def test_a_window_of_onnx_that_does_not_fit():
    """ONNX has no empty result there."""
    onnx = pytest.importorskip("onnx")
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[10, 2])
    graph = onnx.helper.make_graph([node], "pool", [info("x", 1, [1, 3, 9, 10])], [info("y", 1, None)])
    with pytest.raises(ts.UserError, match="larger than the padded operand"):
        ts.from_onnx(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]))


def test_modules_that_torch_cannot_export() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(ts.UserError, match=r"ModuleList.*no forward.*torch\.nn\.Sequential"):
        ts.from_torch(torch.nn.ModuleList([torch.nn.Linear(2, 2)]), (torch.zeros(1, 2),))
    with pytest.raises(ts.UserError, match=r"module\.to\(torch\.bfloat16\)"):
        ts.run(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), dtype="bf16")

    class Loss(torch.nn.Module):
        def forward(self, x: Any, target: Any, length: Any) -> Any:
            return torch.nn.functional.ctc_loss(x, target, length, length)

    whole = torch.ones(1, dtype=torch.long)
    with pytest.raises(ts.UserError, match=r"Loss: torch\.export fails .*DynamicOutputShape.*: aten\._ctc_loss"):
        ts.from_torch(Loss(), (torch.zeros(2, 1, 3), whole[None], whole))


def test_functions_that_jax_cannot_trace() -> None:
    numpy = pytest.importorskip("jax.numpy", reason="needs jax: pip install 'tilesim[jax]'")
    with pytest.raises(ts.Unsupported, match=r"cannot trace.*jnp\.where"):
        ts.from_jax(lambda x: x if x.sum() > 0 else -x, numpy.zeros((2, 3)))
    with pytest.raises(ts.Unsupported, match="same shape"):
        ts.from_jax(lambda x, w: x @ w, numpy.zeros(4), numpy.zeros(5))
