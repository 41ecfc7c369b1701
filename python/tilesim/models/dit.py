"""DiT (Peebles, Xie, ICCV 2023): a transformer that removes noise, conditioned by layer normalization."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..base.errors import user_error
from ..graph import Graph, GraphBuilder, Tensor
from ._layers import Block, linear_weights, merge_heads, split_heads, time_waves
from ._network import network

__all__ = ["DitConfig", "dit", "dit_xl_2"]


@dataclass(frozen=True)
class DitConfig:
    """Sizes: latent of `size`×`size` with `channels`, patches of `patch`×`patch`; twice the channels come out."""

    name: str
    width: int
    layers: int
    heads: int
    size: int = 32
    patch: int = 2
    channels: int = 4
    classes: int = 1000
    frequencies: int = 256


DIT_XL_2 = DitConfig("dit-xl-2", 1152, 28, 16)


def position_table(width: int, side: int) -> np.ndarray:
    """Sines and cosines of column and row, [side², width]."""
    frequencies = 1.0 / 10000 ** (np.arange(width // 4, dtype=np.float64) / (width / 4))

    def half(places: np.ndarray) -> np.ndarray:
        angles = places.reshape(-1)[:, None] * frequencies[None]
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    columns, rows = np.meshgrid(np.arange(side, dtype=np.float64), np.arange(side, dtype=np.float64))
    return np.concatenate([half(columns), half(rows)], axis=1).astype(np.float32)


def _modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Computes x·(1 + scale) + shift for each image."""
    batch, width = shift.shape
    return x * (scale.reshape(batch, 1, width) + 1.0) + shift.reshape(batch, 1, width)


class _Block(Block):
    """The function of one block: (x, condition, weights...) -> y."""

    def __init__(self, parent: GraphBuilder, c: DitConfig, batch: int, tokens: int) -> None:
        self.c = c
        weights = [
            *linear_weights("attn.qkv", c.width, 3 * c.width),
            *linear_weights("attn.proj", c.width, c.width),
            *linear_weights("mlp.fc1", c.width, 4 * c.width),
            *linear_weights("mlp.fc2", 4 * c.width, c.width),
            *linear_weights("adaLN_modulation.1", c.width, 6 * c.width, gain=0.2),
        ]
        inputs = {"x": ((batch, tokens, c.width),), "condition": ((batch, c.width),)}
        super().__init__(parent, "block", weights, inputs)
        self.b.output(self._build(*self.inputs.values()), "y")

    def _build(self, x: Tensor, condition: Tensor) -> Tensor:
        c, batch = self.c, x.shape[0]
        steering = self.linear(self.b.apply("silu", condition, name="adaLN_modulation.0"), "adaLN_modulation.1")
        parts = [steering[:, i * c.width : (i + 1) * c.width] for i in range(6)]
        normed = _modulate(self.b.layer_norm(x, epsilon=1e-6, name="norm1"), parts[0], parts[1])
        qkv = self.linear(normed, "attn.qkv")
        q, k, v = (split_heads(qkv[..., i * c.width : (i + 1) * c.width], c.heads) for i in range(3))
        context = self.linear(merge_heads(self.b.attention(q, k, v, name="attn")), "attn.proj")
        x = x + context * parts[2].reshape(batch, 1, c.width)
        normed = _modulate(self.b.layer_norm(x, epsilon=1e-6, name="norm2"), parts[3], parts[4])
        inner = self.b.apply("gelu_tanh", self.linear(normed, "mlp.fc1"), name="mlp.act")
        return x + self.linear(inner, "mlp.fc2") * parts[5].reshape(batch, 1, c.width)


def _condition(b: GraphBuilder, c: DitConfig, batch: int) -> Tensor:
    """Adds the class to the time (sines and cosines, two linear layers)."""
    time, label = b.input("t", (batch,)), b.input("y", (batch,), "i32")
    waves = time_waves(b, time, c.frequencies)
    hidden = b.apply("silu", b.linear(waves, c.width, name="t_embedder.mlp.0"), name="t_embedder.mlp.1")
    table = b.weight("y_embedder.embedding_table.weight", (c.classes + 1, c.width), scale=0.035)
    classes: Tensor = b.op("embedding", table, label, name="y_embedder")
    return b.linear(hidden, c.width, name="t_embedder.mlp.2") + classes


@network
def dit(config: DitConfig, batch: int = 1, dtype: str = "f32") -> Graph:
    """A DiT of any size."""
    c, side = config, config.size // config.patch
    if c.size % c.patch:
        raise user_error("the latent is cut into patches", place=f"model '{c.name}'", value=str(c.size),
                         allowed=f"multiples of {c.patch}")  # fmt: skip
    b = GraphBuilder(c.name, dtype=dtype)
    block = _Block(b, c, batch, side * side)
    latent = b.input("x", (batch, c.channels, c.size, c.size))
    fan_in = c.channels * c.patch**2
    w = b.weight("x_embedder.proj.weight", (c.width, c.channels, c.patch, c.patch), scale=math.sqrt(3 / fan_in))
    x = b.conv2d(latent, w, b.weight("x_embedder.proj.bias", (c.width,)), stride=c.patch, name="x_embedder.proj")
    x = x.reshape(batch, c.width, side * side).transpose(0, 2, 1)
    # The published implementation counts this table among the parameters, although training does not change it.
    positions = position_table(c.width, side).reshape(1, side * side, c.width)
    x = x + b.weight("pos_embed", data=positions).convert(b.dtype)
    condition = _condition(b, c, batch)
    for i in range(c.layers):
        x = block.call(f"blocks.{i}", x, condition)
    steering = b.linear(b.apply("silu", condition), 2 * c.width, name="final_layer.adaLN_modulation.1")
    shift, scale = steering[:, : c.width], steering[:, c.width :]
    x = _modulate(b.layer_norm(x, epsilon=1e-6, name="final_layer.norm_final"), shift, scale)
    x = b.linear(x, 2 * c.channels * c.patch**2, name="final_layer.linear")
    x = x.reshape(batch, side, side, c.patch, c.patch, 2 * c.channels).transpose(0, 5, 1, 3, 2, 4)
    b.output(x.reshape(batch, 2 * c.channels, c.size, c.size), "noise")
    return b.build()


@network
def dit_xl_2(batch: int = 1, dtype: str = "f32") -> Graph:
    """DiT-XL/2 at 256×256, 675,129,632 parameters (the position table included, as published).

    The input holds `batch` latent images, 32×32 with 4 channels.
    """
    return dit(DIT_XL_2, batch, dtype)
