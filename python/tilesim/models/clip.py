"""CLIP ViT-B/32 (Radford et al., ICML 2021): an image tower, a text tower, their similarity."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..base.errors import user_error
from ..graph import Graph, GraphBuilder, Tensor
from ._layers import Block, linear_weights, merge_heads, norm_weights, normed, split_heads
from ._network import network

__all__ = ["ClipConfig", "Tower", "clip", "clip_vit_b_32"]


@dataclass(frozen=True)
class Tower:
    """Sizes of one transformer."""

    width: int
    layers: int
    heads: int
    hidden: int


@dataclass(frozen=True)
class ClipConfig:
    """Sizes of both towers."""

    name: str
    image: Tower
    text: Tower
    pixels: int = 224
    patch: int = 32
    vocabulary: int = 49408
    tokens: int = 77
    features: int = 512
    epsilon: float = 1e-5


CLIP_VIT_B_32 = ClipConfig("clip-vit-b-32", Tower(768, 12, 12, 3072), Tower(512, 12, 8, 2048))


class _Encoder(Block):
    """The layers of one tower: one function, called once per layer."""

    def __init__(self, parent: GraphBuilder, name: str, tower: Tower, batch: int, tokens: int, c: ClipConfig) -> None:
        self.name, self.tower = name, tower
        gain = (2 * tower.layers) ** -0.5
        weights = [
            *linear_weights("self_attn.q_proj", tower.width, tower.width),
            *linear_weights("self_attn.k_proj", tower.width, tower.width),
            *linear_weights("self_attn.v_proj", tower.width, tower.width),
            *linear_weights("self_attn.out_proj", tower.width, tower.width, gain=gain),
            *norm_weights("layer_norm1", tower.width),
            *linear_weights("mlp.fc1", tower.width, tower.hidden),
            *linear_weights("mlp.fc2", tower.hidden, tower.width, gain=gain),
            *norm_weights("layer_norm2", tower.width),
        ]
        inputs = {"x": ((batch, tokens, tower.width),)}
        super().__init__(parent, f"{name}_layer", weights, inputs, epsilon=c.epsilon)
        self.b.output(self._layer(self.inputs["x"]), "y")

    def _layer(self, x: Tensor) -> Tensor:
        normed = self.norm(x, "layer_norm1")
        q, k, v = (
            split_heads(self.linear(normed, f"self_attn.{part}_proj"), self.tower.heads) for part in ("q", "k", "v")
        )
        causal = self.name == "text_model"
        context = merge_heads(self.b.attention(q, k, v, causal=causal, name="self_attn"))
        x = x + self.linear(context, "self_attn.out_proj")
        inner = self.linear(self.norm(x, "layer_norm2"), "mlp.fc1")
        inner = inner * self.b.apply("sigmoid", inner * 1.702, name="mlp.quick_gelu")
        return x + self.linear(inner, "mlp.fc2")

    def run(self, x: Tensor) -> Tensor:
        for i in range(self.tower.layers):
            x = self.call(f"{self.name}.encoder.layers.{i}", x)
        return x


def _projection(b: GraphBuilder, x: Tensor, features: int, name: str) -> Tensor:
    """Projects features and scales them to length one."""
    y = b.linear(x, features, name=name, bias=False)
    return y / b.apply("sqrt", (y * y).sum(1, keep_dims=True))


def _image_features(b: GraphBuilder, c: ClipConfig, batch: int) -> Tensor:
    width, patches = c.image.width, (c.pixels // c.patch) ** 2
    encoder = _Encoder(b, "vision_model", c.image, batch, patches + 1, c)
    pixels = b.input("pixel_values", (batch, 3, c.pixels, c.pixels))
    inner = "vision_model.embeddings"
    fan_in = 3 * c.patch * c.patch
    w = b.weight(f"{inner}.patch_embedding.weight", (width, 3, c.patch, c.patch), scale=math.sqrt(3 / fan_in))
    x = b.conv2d(pixels, w, stride=c.patch, name=f"{inner}.patch_embedding")
    x = x.reshape(batch, width, patches).transpose(0, 2, 1)
    token = b.weight(f"{inner}.class_embedding", (width,)).reshape(1, 1, width)
    x = b.concat([b.broadcast(token, (batch, 1, width)), x], axis=1, name="tokens")
    x = x + b.weight(f"{inner}.position_embedding.weight", (patches + 1, width), scale=0.035)
    x = encoder.run(normed(b, x, "vision_model.pre_layrnorm", c.epsilon))
    pooled = normed(b, x[:, 0], "vision_model.post_layernorm", c.epsilon)
    return _projection(b, pooled, c.features, "visual_projection")


def _text_features(b: GraphBuilder, c: ClipConfig, batch: int, tokens: int) -> Tensor:
    """Computes features at the end-of-text token, which has the highest id of the vocabulary."""
    encoder = _Encoder(b, "text_model", c.text, batch, tokens, c)
    ids = b.input("input_ids", (batch, tokens), "i32")
    inner = "text_model.embeddings"
    table = b.weight(f"{inner}.token_embedding.weight", (c.vocabulary, c.text.width), scale=0.035)
    positions = b.weight(f"{inner}.position_embedding.weight", (c.tokens, c.text.width), scale=0.035)
    words: Tensor = b.op("embedding", table, ids, name=f"{inner}.token_embedding")
    x = normed(b, encoder.run(words + positions[:tokens]), "text_model.final_layer_norm", c.epsilon)
    last = b.op("reduce", ids, combiner="argmax", dims=[1], dtype="i32", name="end_of_text")
    first: Tensor = b.op("iota", shape=[batch], dtype="i32", dim=0)
    rows = b.op("embedding", x.reshape(batch * tokens, c.text.width), first * tokens + last, name="pooled")
    return _projection(b, rows, c.features, "text_projection")


@network
def clip(config: ClipConfig, batch: int = 1, sequence: int = 77, dtype: str = "f32") -> Graph:
    """CLIP of any size."""
    if not 1 <= sequence <= config.tokens:
        raise user_error("the text does not fit", place=f"model '{config.name}'", value=str(sequence),
                         allowed=f"1 to {config.tokens} tokens")  # fmt: skip
    b = GraphBuilder(config.name, dtype=dtype)
    image = _image_features(b, config, batch)
    text = _text_features(b, config, batch, sequence)
    scale = b.apply("exp", b.weight("logit_scale", (), scale=0.0, offset=2.6592))
    b.output(image, "image_embeds")
    b.output(text, "text_embeds")
    b.output(b.project(image, text, name="similarity") * scale, "logits_per_image")
    return b.build()


@network
def clip_vit_b_32(batch: int = 1, sequence: int = 77, dtype: str = "f32") -> Graph:
    """CLIP ViT-B/32, 151,277,313 parameters: `batch` images and as many texts of at most 77 tokens."""
    return clip(CLIP_VIT_B_32, batch, sequence, dtype)
