"""The transformer layer: one function of the graph, called once per layer with that layer's weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.errors import user_error
from ..graph import GraphBuilder, Tensor


@dataclass(frozen=True)
class Weight:
    """A weight of one layer: its name after the layer's, its shape, and what its random elements look like."""

    name: str
    shape: tuple[int, ...]
    scale: float = 0.05
    offset: float = 0.0


def norm_weights(name: str, size: int) -> list[Weight]:
    return [Weight(f"{name}.weight", (size,), 0.1, 1.0), Weight(f"{name}.bias", (size,))]


def linear_weights(
    name: str, inputs: int, outputs: int, *, transposed: bool = False, gain: float = 1.0
) -> list[Weight]:
    """`transposed`: [inputs, outputs] as GPT-2 stores it, else torch's [outputs, inputs]."""
    shape = (inputs, outputs) if transposed else (outputs, inputs)
    return [Weight(f"{name}.weight", shape, gain * math.sqrt(3 / inputs)), Weight(f"{name}.bias", (outputs,))]


def declare(layer: GraphBuilder, weights: Sequence[Weight]) -> dict[str, Tensor]:
    """The weights as inputs of the layer's function."""
    return {weight.name: layer.input(weight.name, weight.shape) for weight in weights}


def create(builder: GraphBuilder, prefix: str, weights: Sequence[Weight]) -> list[Tensor]:
    """The weights of one layer in the calling function."""
    return [
        builder.weight(
            f"{prefix}.{weight.name}",
            weight.shape,
            scale=weight.scale,
            offset=weight.offset,
        )
        for weight in weights
    ]


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, S, H·D] to [B, H, S, D]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def merge_heads(x: Tensor) -> Tensor:
    """[B, H, S, D] to [B, S, H·D]."""
    batch, heads, length, depth = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * depth)


def check_sequence(model: str, sequence: int, limit: int) -> None:
    if not 1 <= sequence <= limit:
        raise user_error(
            "the sequence does not fit the position embeddings",
            place=f"model '{model}'",
            value=str(sequence),
            allowed=f"1 to {limit} tokens",
        )
