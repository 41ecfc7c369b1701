"""ONNX models made in tests: one call from nodes and arrays to outputs. Needs onnx."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

import tilesim as ts

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def declared(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))


def model(nodes, inputs, outputs, weights=(), opset=17, microsoft=False):
    """A model of nodes; outputs are names (their types are left open)."""
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(
        nodes,
        "test",
        [declared(name, array) for name, array in inputs.items()],
        results,
        [numpy_helper.from_array(array, name) for name, array in dict(weights).items()],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid("com.microsoft", 1)] if microsoft else [])]
    return helper.make_model(graph, opset_imports=opsets)


def run(nodes, inputs, outputs, weights=(), **more):
    graph = ts.from_onnx(model(nodes, inputs, outputs, weights, **more))
    return list(ts.reference(graph, {row["name"]: inputs[row["name"]] for row in graph.inputs}).values())
