"""What looks like an activation but is none, from PyTorch, JAX and ONNX: values of the framework itself on numbers that
tell them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

LIMITS = np.finfo(np.float32)
NUMBERS = [0, 0.1, 0.3, 0.5, 0.6, 1, 1.7, 2.5, 3, 5.9, 6.1, 19.9, 20.1, 88, 90, 254, 256, 999, 1001, 1e4, np.inf]
NUMBERS += [float(LIMITS.max), float(LIMITS.tiny), 1e-6, 1e-3, 1e-7]
SPECIAL = np.array([*NUMBERS, *(-value for value in NUMBERS), np.nan, np.nan, np.nan, np.nan], np.float32)
X = np.concatenate([SPECIAL, np.random.default_rng(0).standard_normal(-len(SPECIAL) % 8).astype(np.float32)])
X = X.reshape(-1, 8)


def agree(names: list[str], graph: ts.Graph, wanted: list[Any], made: dict[str, int]) -> None:
    """Each output has the framework's values; `made`: functions that were recognised, and how often."""
    found = ts.reference(graph, tuple(X for _ in graph.inputs)).values()
    wrong = []
    for name, got, right in zip(names, found, wanted, strict=True):
        a, b = np.asarray(right, np.float64), np.asarray(got, np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= 3e-6 * np.maximum(np.abs(a), np.minimum(np.abs(X), 16)) + 1e-37
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | near
        if not same.all():
            wrong.append(f"{name}: {X[~same][:4]} gives {b[~same][:4]}, not {a[~same][:4]}")
    assert not wrong, "\n".join(wrong)
    found = [row["after"] for row in graph.changes if row["pass"] == "activations"]
    assert {name: found.count(name) for name in found} == made, str(graph.changes)


def test_torch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch.nn import functional as F

    cases = {
        "clamp 1000": lambda x: x.clamp(0, 1000),
        "clamp 255": lambda x: torch.clamp(x, 0, 255),
        "clamp 1e38": lambda x: x.clamp(0, 1e38),
        "clamp from 1e-3": lambda x: x.clamp(min=1e-3),
        "threshold": lambda x: F.threshold(x, 0.5, 0),
        "threshold with a value": lambda x: F.threshold(x, 0, 1e-3),
        "threshold below 0": lambda x: F.threshold(x, -1e-3, 0),
        "where 0 x": lambda x: torch.where(x > 0, x, 0 * x),
        "where 0": lambda x: torch.where(x > 0, x, 0.0),
        "where and 1": lambda x: torch.where(x > 1, x, 0.0),
        "where >= 0": lambda x: torch.where(x >= 0, x, 0.0),
        "mask": lambda x: x * (x > 0),
        "nan to num": lambda x: x.nan_to_num().relu(),
        "silu with a bound": lambda x: F.silu(x).clamp(max=1e3),
        "leaky": lambda x: F.leaky_relu(x, 1e-6),
        "relu6": F.relu6,
        "hardtanh": lambda x: F.hardtanh(x, 0, 1e4),
        "elu": lambda x: F.elu(x, 1e-6),
        "softshrink": lambda x: F.softshrink(x.relu(), 1e-6),
        "half of x and its size": lambda x: (x + x.abs()) / 2,
        "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "almost silu": lambda x: x * torch.sigmoid(1.0001 * x),
        "almost gelu": lambda x: 0.5 * x * (1 + torch.erf(x * 0.7072)),
        "almost gelu by tanh": lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.0447 * x * x * x))),
        "softplus of 2 x": lambda x: F.softplus(x, beta=2),
        "softplus that overflows": lambda x: torch.log1p(torch.exp(x)),
        "softplus from 5 on": lambda x: torch.where(x > 5, x, torch.log1p(torch.exp(x))),
        "sigmoid in bf16": lambda x: 1 / (1 + torch.exp(-x).bfloat16().float()),
        "relu": F.relu,
        "relu by clamp": lambda x: x.clamp(min=0),
        "relu by where": lambda x: torch.where(x <= 0, 0.0, x),
        "relu by threshold": lambda x: F.threshold(x, 0, 0),
        "silu": lambda x: x / (1 + torch.exp(-x)),
        "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
    }

    class Module(torch.nn.Module):
        def forward(self, *xs: Any) -> Any:
            return tuple(case(x) for case, x in zip(cases.values(), xs, strict=True))

    xs = tuple(torch.from_numpy(X) for _ in cases)  # each case has its own: shared parts keep patterns from matching
    graph = ts.from_torch(Module(), xs)
    # relu: four spellings, and the lower bound (0, then a minimum) of three clips
    agree(list(cases), graph, list(Module()(*xs)), {"relu": 7, "silu": 1, "gelu_erf": 1})


def test_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    cases = {
        "clip 255": lambda x: jnp.clip(x, 0, 255), "clip 1e38": lambda x: jnp.clip(x, 0, 1e38),
        "maximum 1e-3": lambda x: jnp.maximum(x, 1e-3), "where": lambda x: jnp.where(x > 0, x, 0),
        "where 0 x": lambda x: jnp.where(x > 0, x, 0 * x), "leaky": lambda x: jax.nn.leaky_relu(x, 1e-6),
        "nan to num": lambda x: jax.nn.relu(jnp.nan_to_num(x)),
        "silu with a bound": lambda x: jnp.minimum(jax.nn.silu(x), 1e3),
        "softplus that overflows": lambda x: jnp.log1p(jnp.exp(x)),
        "quick gelu": lambda x: x * jax.nn.sigmoid(1.702 * x), "relu6": jax.nn.relu6, "relu": jax.nn.relu,
        "clip from 0": lambda x: jnp.clip(x, 0), "softplus": jax.nn.softplus, "silu": jax.nn.silu,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    }  # fmt: skip

    def all_of(*xs: Any) -> Any:
        return tuple(case(x) for case, x in zip(cases.values(), xs, strict=True))

    xs = [jnp.asarray(X) for _ in cases]
    graph = ts.from_jax(all_of, *xs)
    # relu: two spellings, after nan_to_num, and the lower bound of three clips
    with np.errstate(all="ignore"):
        wanted = [np.asarray(y) for y in all_of(*xs)]
    agree(list(cases), graph, wanted, {"relu": 6, "silu": 2, "softplus": 1, "gelu_erf": 1, "sigmoid": 1})


def test_onnx() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    bounds = {"zero": 0.0, "many": 255.0, "more": 1000.0, "half": 0.5}
    constants = [helper.make_node("Constant", [], [name], value_float=value) for name, value in bounds.items()]
    nodes = [
        helper.make_node("ThresholdedRelu", ["x"], ["threshold"], alpha=0.5),
        helper.make_node("ThresholdedRelu", ["x"], ["threshold at 0"], alpha=0.0),
        helper.make_node("Clip", ["x", "zero", "many"], ["clip 255"]),
        helper.make_node("Clip", ["x", "zero", "more"], ["clip 1000"]),
        helper.make_node("Clip", ["x", "zero"], ["clip from 0"]),
        helper.make_node("Clip", ["x", "half"], ["clip from 0.5"]),
        helper.make_node("LeakyRelu", ["x"], ["leaky"], alpha=1e-6),
        helper.make_node("Elu", ["x"], ["elu"], alpha=1e-6),
        helper.make_node("Relu", ["x"], ["relu"]),
        helper.make_node("Max", ["x", "zero"], ["maximum"]),
        helper.make_node("Max", ["x", "half"], ["maximum with 0.5"]),
    ]
    names = [node.output[0] for node in nodes]
    model = helper.make_model(
        helper.make_graph(
            [*constants, *nodes],
            "near misses",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, X.shape) for name in names],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    onnx.checker.check_model(model)
    graph = ts.from_onnx(model)
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(model).run(None, {"x": X})
    # Relu is one already; the clips share their lower bound
    agree(names, graph, wanted, {"relu": 2})
