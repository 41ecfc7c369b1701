"""What a file of somebody makes torch or a reader do: nothing beyond memory, no work without bound, no wait."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.base.validation import read_csv

BASE: dict[str, Any] = {
    "model_name": "m",
    "graph_inputs": [{"name": "x", "shape": [2, 3], "dtype": "float32"}],
    "weights": [],
    "graph_outputs": [{"name": "y"}],
}


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> dict[str, Any]:
    return {
        "op_type": kind,
        "inputs": [{"name": one} for one in inputs],
        "outputs": [{"name": output}],
        "attrs": attributes,
    }


def constant(*values: int) -> dict[str, Any]:
    return {"dtype": "int64", "data": list(values)}


@pytest.mark.parametrize(
    "kind",
    [
        "aten._convert_indices_from_csr_to_coo.default",
        "aten._convert_indices_from_coo_to_csr.default",
        "aten._sparse_coo_tensor_unsafe.default",
        "aten.segment_reduce.default",
    ],
)
def test_no_kernel_that_trusts_its_operands(kind: str) -> None:
    pytest.importorskip("torch")
    document = BASE | {"constants": {"c": constant(0, 2**40), "d": constant(0)}}
    document["nodes"] = [node(kind, ["c", "d"], "y")]
    with pytest.raises(ts.Error):
        ts.frontends.from_pytorch_ir(document)


def test_fresh_memory_is_not_read() -> None:
    pytest.importorskip("torch")
    document = BASE | {"constants": {}}
    document["nodes"] = [
        node("aten.empty.memory_format", [], "a", size=[6000], dtype="uint8"),
        node("aten.clone.default", ["a"], "y"),
    ]
    graph = ts.frontends.from_pytorch_ir(document)
    (y,) = ts.reference(graph, [np.zeros((2, 3), np.float32)]).values()
    assert not np.asarray(y).any()


def test_no_work_without_bound() -> None:
    pytest.importorskip("torch")
    document = BASE | {"constants": {}}
    document["nodes"] = [
        node("aten.full.default", [], "a", size=[3000, 3000], fill_value=1.0),
        node("aten.linalg_eigvalsh.default", ["a"], "y"),
    ]
    with pytest.raises(ts.Unsupported):
        ts.frontends.from_pytorch_ir(document)


@pytest.mark.parametrize("name", ["overloads", "op", "_op", "_dir", "_overload_names", "_qualified_op_name"])
def test_names_of_torch_itself(name: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ts.Unsupported):
        ts.frontends.from_pytorch_ir(BASE | {"constants": {}, "nodes": [node(f"aten.relu.{name}", ["x"], "y")]})


@pytest.mark.parametrize("shape", [[0, 2**70], [2**63, 0], [0, 2**62, 2**62]])
def test_shapes_of_nothing_with_large_extents(shape: list[int]) -> None:
    pytest.importorskip("torch")
    inputs = [{"name": "x", "shape": shape, "dtype": "float32"}]
    with pytest.raises(ts.UserError, match="too large"):
        ts.frontends.from_pytorch_ir(
            BASE | {"graph_inputs": inputs, "constants": {}, "nodes": [node("aten.relu.default", ["x"], "y")]}
        )


#: bytearray(3 TB), as pickles of several protocols ask for it; the last hides the name behind an escape.
PICKLES = {
    "global": b"cbuiltins\nbytearray\n(I3298534883328\ntR.",
    "long": b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x03\x85R.",
    "stack": b"\x80\x04\x8c\x08builtins\x8c\tbytearray\x93\x8a\x06\x00\x00\x00\x00\x00\x03\x85R.",
    "escaped": b"\x80\x04V\\u0062uiltins\nV\\u0062ytearray\n\x93\x8a\x06\x00\x00\x00\x00\x00\x03\x85R.",
}


@pytest.mark.parametrize("name", PICKLES)
@pytest.mark.parametrize("zipped", [True, False])
def test_weights_that_ask_for_memory(tmp_path: Path, name: str, zipped: bool) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "w.pt"
    if zipped:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", PICKLES[name])
            archive.writestr("archive/version", b"3")
    else:
        path.write_bytes(PICKLES[name])
    with pytest.raises(ts.UserError, match="other objects than weights"):
        ts.models.build("mlp").load_weights(path)


@pytest.mark.parametrize("name", ["x.parquet", "x.xlsx"])
def test_tables_that_are_pipes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(ts.UserError, match="a pipe"):
        ts.analytic.calibrate(path, "h100")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
def test_tables_that_are_devices(tmp_path: Path, device: str) -> None:
    """Also behind a link; each reader of a table in CSV."""
    path = tmp_path / "x.csv"
    path.symlink_to(device)
    for name in (device, path):
        with pytest.raises(ts.UserError, match="a device; allowed: a regular file"):
            ts.analytic.calibrate(name, device="t4")
        with pytest.raises(ts.UserError, match="a device"):
            read_csv(name)


def test_tables_without_end(tmp_path: Path) -> None:
    """A file by its length; a pipe, which has none, while it is read."""
    path = tmp_path / "x.csv"
    with path.open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(ts.UserError, match=r"too long.*1073741825 bytes.*1073741824 bytes"):
        ts.analytic.calibrate(path, device="t4")
    ends = os.pipe()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            while True:
                os.write(ends[1], bytes(1 << 16))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        with pytest.raises(ts.UserError, match=r"too long.*letters in a line"):
            read_csv(f"/dev/fd/{ends[0]}")
    finally:
        os.close(ends[0])
        writer.join()
        os.close(ends[1])


def test_shards_that_are_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"layers.0.weight": "a.safetensors"}}), encoding="utf-8")
    with pytest.raises(ts.UserError, match="a pipe"):
        ts.models.build("mlp").load_weights(index)


@pytest.mark.parametrize("count", [3, 2**22, 2**31])
def test_splits_into_other_than_their_outputs(tmp_path: Path, count: int) -> None:
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    split = onnx.helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=count)
    graph = onnx.helper.make_graph(
        [split], "g", [value("x", 1, [2, 3])], [value("a", 1, [1, 3]), value("b", 1, [1, 3])]
    )
    path = tmp_path / "split.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), path)
    with pytest.raises(ts.UserError, match="one output per part"):
        ts.from_onnx(path)


@pytest.mark.parametrize(("extent", "part"), [(2**20 + 1, 0), (2**40, 0), (2**20 + 1, 1), (2**40, 2**10)])
def test_splits_into_more_parts_than_nodes(tmp_path: Path, extent: int, part: int) -> None:
    """Refused before a list of them is made; 0: the node leaves the size of its parts out, which is 1 then."""
    onnx = pytest.importorskip("onnx")
    helper, value = onnx.helper, onnx.helper.make_tensor_value_info
    given = [helper.make_tensor("i", 7, [], [0]), helper.make_tensor("s", 7, [], [part])]
    split = helper.make_node("SplitToSequence", ["x", "s"] if part else ["x"], ["q"], axis=0)
    nodes = [split, helper.make_node("SequenceAt", ["q", "i"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [extent])], [value("y", 1, None)], given)
    path = tmp_path / "split.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    with pytest.raises(ts.Unsupported, match="more than 1048576 nodes after loops, functions and splits"):
        ts.from_onnx(path)
