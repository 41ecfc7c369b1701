"""Activation functions: one elementwise function, or a short composition computed in f32 or wider."""

from __future__ import annotations

import math
from typing import Any

from ...graph.tensor import Tensor
from .elementwise import elementwise
from .importing import Importer
from .table import handles


def in_float(importer: Importer, x: Any, formula: Any) -> Tensor:
    """Computes a formula in f32 for narrow dtypes and rounds the result once, as torch does."""
    compute = "f64" if importer.dtype == "f64" else "f32"
    result: Tensor = formula(importer.tensor(x, compute))
    return result.convert(importer.dtype)


@handles("aten.gelu.default")
def _gelu(importer: Importer, x: Any, approximate: str = "none") -> Tensor:
    return importer.apply("gelu_tanh" if approximate == "tanh" else "gelu_erf", importer.tensor(x))


@handles("aten.relu6.default")
def _relu6(importer: Importer, x: Any) -> Tensor:
    return elementwise(importer, "minimum", importer.apply("relu", importer.tensor(x)), 6)


@handles("aten.leaky_relu.default")
def _leaky_relu(importer: Importer, x: Any, slope: float = 0.01) -> Tensor:
    def formula(t: Tensor) -> Tensor:
        return importer.apply("select", importer.apply("greater", t, importer.builder.scalar(0, t.dtype)), t, t * slope)

    return in_float(importer, x, formula)


@handles("aten.elu.default")
def _elu(importer: Importer, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    def formula(t: Tensor) -> Tensor:
        below = importer.apply("expm1", t * input_scale if input_scale != 1 else t) * (alpha * scale)
        positive = importer.apply("greater", t, importer.builder.scalar(0, t.dtype))
        return importer.apply("select", positive, t * scale if scale != 1 else t, below)

    return in_float(importer, x, formula)


@handles("aten.hardsigmoid.default")
def _hardsigmoid(importer: Importer, x: Any) -> Tensor:
    return in_float(importer, x, lambda t: _six(importer, t) / 6.0)


@handles("aten.hardswish.default")
def _hardswish(importer: Importer, x: Any) -> Tensor:
    return in_float(importer, x, lambda t: t * _six(importer, t) / 6.0)


def _six(importer: Importer, t: Tensor) -> Tensor:
    """Computes min(max(x + 3, 0), 6)."""
    scalar = importer.builder.scalar
    return importer.apply("minimum", importer.apply("relu", t + 3.0), scalar(6, t.dtype))


@handles("aten.softplus.default")
def _softplus(importer: Importer, x: Any, beta: float = 1, threshold: float = 20) -> Tensor:
    """Computes softplus also above the threshold, where torch returns x; the difference is below exp(-20)."""

    def formula(t: Tensor) -> Tensor:
        soft = importer.apply("softplus", t * beta if beta != 1 else t)
        soft = soft / beta if beta != 1 else soft
        above = importer.apply("greater", t * beta if beta != 1 else t, importer.builder.scalar(threshold, t.dtype))
        return importer.apply("select", above, t, soft)

    return in_float(importer, x, formula)


@handles("aten.mish.default")
def _mish(importer: Importer, x: Any) -> Tensor:
    return in_float(importer, x, lambda t: t * importer.apply("tanh", importer.apply("softplus", t)))


@handles("aten.log_sigmoid.default", "aten.log_sigmoid_forward.default")
def _log_sigmoid(importer: Importer, x: Any) -> Any:
    value = in_float(importer, x, lambda t: -importer.apply("softplus", -t))
    return (value, None) if "forward" in str(importer.node.target) else value


@handles("aten.prelu.default", "aten._prelu_kernel.default")
def _prelu(importer: Importer, x: Any, weight: Any) -> Tensor:
    tensor, slope = importer.tensor(x), importer.tensor(weight)
    if tensor.ndim > 1 and slope.ndim == 1 and slope.shape[0] > 1:
        slope = slope.reshape(-1, *[1] * (tensor.ndim - 2))
    elif slope.ndim == 1 and slope.shape[0] == 1:
        slope = slope.reshape(*[1] * tensor.ndim)
    positive = importer.apply("greater", tensor, importer.builder.scalar(0, tensor.dtype))
    return importer.apply("select", positive, tensor, tensor * slope)


@handles("aten.log10.default", "prims.log10.default")
def _log10(importer: Importer, x: Any) -> Tensor:
    return in_float(importer, x, lambda t: importer.apply("log", t) * math.log10(math.e))
