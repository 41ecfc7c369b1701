"""Parts that several models share: named weights, a layer as a function of the graph, heads, time steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import user_error
from ..graph import GraphBuilder, Tensor


@dataclass(frozen=True)
class Weight:
    """A weight of one layer: name without the layer's prefix, shape, and range of its random elements."""

    name: str
    shape: tuple[int, ...]
    scale: float = 0.05
    offset: float = 0.0


def norm_weights(name: str, size: int) -> list[Weight]:
    return [Weight(f"{name}.weight", (size,), 0.1, 1.0), Weight(f"{name}.bias", (size,))]


def linear_weights(
    name: str, inputs: int, outputs: int, *, transposed: bool = False, gain: float = 1.0
) -> list[Weight]:
    """Weights of a linear layer; `transposed`: [inputs, outputs] as in GPT-2, else torch's [outputs, inputs]."""
    shape = (inputs, outputs) if transposed else (outputs, inputs)
    return [Weight(f"{name}.weight", shape, gain * math.sqrt(3 / inputs)), Weight(f"{name}.bias", (outputs,))]


def declare(layer: GraphBuilder, weights: Sequence[Weight]) -> dict[str, Tensor]:
    """Declares the weights as inputs of the layer's function."""
    return {weight.name: layer.input(weight.name, weight.shape) for weight in weights}


def create(builder: GraphBuilder, prefix: str, weights: Sequence[Weight]) -> list[Tensor]:
    """Creates the weights of one layer in the calling function."""
    return [
        builder.weight(f"{prefix}.{weight.name}", weight.shape, scale=weight.scale, offset=weight.offset)
        for weight in weights
    ]


def normed(b: GraphBuilder, x: Tensor, name: str, epsilon: float = 1e-5) -> Tensor:
    """Normalizes layers with new weights."""
    scale, bias = create(b, name, [Weight("weight", (x.shape[-1],), 0.1, 1.0), Weight("bias", (x.shape[-1],))])
    return b.layer_norm(x, scale, bias, epsilon=epsilon, name=name)


def convolved(b: GraphBuilder, x: Tensor, filters: int, kernel: int, stride: int, name: str, groups: int = 1) -> Tensor:
    """Convolves without bias; uniform random weights have variance 2 / fan-in (He et al., ICCV 2015)."""
    inputs = x.shape[1] // groups
    shape, scale = (filters, inputs, kernel, kernel), math.sqrt(6 / (inputs * kernel * kernel))
    w = b.weight(f"{name}.weight", shape, scale=scale)
    return b.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups, name=name)


def batch_normed(b: GraphBuilder, x: Tensor, name: str, scale: float, offset: float) -> Tensor:
    """Normalizes a batch with new weights; `scale` and `offset` are those of the random gain."""
    channels = (x.shape[1],)
    parts = [
        b.weight(f"{name}.weight", channels, scale=scale, offset=offset),
        b.weight(f"{name}.bias", channels),
        b.weight(f"{name}.running_mean", channels, scale=0.1, trainable=False),
        b.weight(f"{name}.running_var", channels, scale=0.2, offset=1, trainable=False),
    ]
    y: Tensor = b.op("batch_norm", x, *parts, name=name, feature_dim=1, epsilon=1e-5)
    return y


def time_waves(b: GraphBuilder, step: Tensor, width: int) -> Tensor:
    """Cosines and sines of time steps [B], one pair per frequency: [B, width]."""
    half = width // 2
    frequencies = np.exp(-math.log(10000) * np.arange(half, dtype=np.float32) / half)
    angles = step.reshape(-1, 1) * b.weight("frequencies", data=frequencies, trainable=False).convert(b.dtype)
    return b.concat([b.apply("cos", angles), b.apply("sin", angles)], axis=1)


class Block:
    """One layer as a function of the graph, with named weights, called once per layer with that layer's weights.

    `inputs` holds shape and dtype (the builder's by default) of each; the caller adds the outputs.
    """

    def __init__(
        self,
        parent: GraphBuilder,
        name: str,
        weights: Sequence[Weight],
        inputs: Mapping[str, tuple[Any, ...]],
        *,
        transposed: bool = False,
        epsilon: float = 1e-5,
    ) -> None:
        self.parent, self.b, self.weights = parent, parent.function(name), list(weights)
        self.transposed, self.epsilon = transposed, epsilon
        self.inputs = {key: self.b.input(key, *one) for key, one in inputs.items()}
        self.w = declare(self.b, self.weights)

    def linear(self, x: Tensor, name: str, separator: str = ".") -> Tensor:
        multiply = self.b.matmul if self.transposed else self.b.project
        return multiply(x, self.w[f"{name}{separator}weight"], self.w[f"{name}{separator}bias"], name=name)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return self.b.layer_norm(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"], epsilon=self.epsilon, name=name)

    def call(self, prefix: str, *operands: Tensor) -> Any:
        """Runs the function with new weights named after `prefix`."""
        return self.parent.call(self.b, *operands, *create(self.parent, prefix, self.weights), name=prefix)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Converts [B, S, H·D] to [B, H, S, D]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def merge_heads(x: Tensor) -> Tensor:
    """Converts [B, H, S, D] to [B, S, H·D]."""
    batch, heads, length, depth = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * depth)


def check_sequence(model: str, sequence: int, limit: int) -> None:
    if not 1 <= sequence <= limit:
        raise user_error(
            "the sequence does not fit the position embeddings", place=f"model '{model}'", value=str(sequence),
            allowed=f"1 to {limit} tokens",
        )  # fmt: skip
