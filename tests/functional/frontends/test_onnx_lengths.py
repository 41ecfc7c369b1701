"""Attention of ONNX with the length of each row's cache, against ONNX's own reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import tilesim as ts


def model(shapes: dict[str, list[int]], **attributes: Any) -> Any:
    """Opset 24; inputs in the order of the operator's, lengths the last."""
    types = {"mask": TensorProto.BOOL, "lengths": TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), s) for name, s in shapes.items()]
    names = ["q", "k", "v", "mask" if "mask" in shapes else "", "", "", "lengths"]
    node = helper.make_node("Attention", names, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_model(
        helper.make_graph([node], "attention", inputs, [output]), opset_imports=[helper.make_opsetid("", 24)]
    )
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_lengths_are_those_of_the_standard(causal: int, mask: bool, flat: bool) -> None:
    """Rows that are whole, have one key, have none; fewer keys than queries too."""
    shapes = {"q": [4, 6, 3, 8], "k": [4, 2, 20, 8], "v": [4, 2, 20, 5]}
    more: dict[str, Any] = {"is_causal": causal}
    if flat:
        shapes = {"q": [4, 3, 48], "k": [4, 20, 16], "v": [4, 20, 10]}
        more |= {"q_num_heads": 6, "kv_num_heads": 2}
    if mask:
        shapes["mask"] = [3, 20]
    shapes["lengths"] = [4]
    random = np.random.default_rng(causal)
    values: dict[str, Any] = {name: random.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    values["lengths"] = np.array([20, 1, 0, 11], np.int64)
    if mask:
        values["mask"] = random.random((3, 20)) < 0.7
    proto = model(shapes, **more)
    graph = ts.from_onnx(proto)
    (op,) = (row for row in graph.operations() if row["kind"] == "attention")
    assert len(op["operands"]) == 5
    wanted = ReferenceEvaluator(proto).run(None, values)[0]
    found = ts.reference(graph, values)
    np.testing.assert_allclose(next(iter(found.values())), wanted, rtol=1e-4, atol=1e-5)
    program = ts.compile(graph, "edge-8", fuse="all")
    assert ts.verify(program, values).ok
    some = ts.simulate(program, tensors={"lengths": values["lengths"]})
    assert some.cycles <= ts.simulate(program).cycles
