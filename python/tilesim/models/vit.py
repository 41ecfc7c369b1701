"""ViT-B/16: Dosovitskiy et al., "An image is worth 16×16 words" (ICLR 2021), as in torchvision."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..base.errors import user_error
from ..graph import Graph, GraphBuilder
from ._layers import Block, Weight, linear_weights, merge_heads, norm_weights, normed, split_heads
from ._network import network

__all__ = ["VitConfig", "vit", "vit_b_16"]


@dataclass(frozen=True)
class VitConfig:
    """Sizes."""

    name: str
    width: int
    layers: int
    heads: int
    patch: int
    classes: int = 1000


VIT_B_16 = VitConfig("vit-b-16", 768, 12, 12, 16)


def _layer(b: GraphBuilder, batch: int, tokens: int, width: int, heads: int) -> Block:
    bound = math.sqrt(3 / width)
    weights = [
        *norm_weights("ln_1", width),
        Weight("self_attention.in_proj_weight", (3 * width, width), bound),
        Weight("self_attention.in_proj_bias", (3 * width,)),
        *linear_weights("self_attention.out_proj", width, width, gain=0.5),
        *norm_weights("ln_2", width),
        *linear_weights("mlp.0", width, 4 * width),
        *linear_weights("mlp.3", 4 * width, width, gain=0.5),
    ]
    f = Block(b, "encoder_layer", weights, {"x": ((batch, tokens, width),)}, epsilon=1e-6)
    x = f.inputs["x"]
    qkv = f.linear(f.norm(x, "ln_1"), "self_attention.in_proj", "_")
    q, k, v = (split_heads(qkv[..., part * width : (part + 1) * width], heads) for part in range(3))
    context = merge_heads(f.b.attention(q, k, v, name="self_attention"))
    x = x + f.linear(context, "self_attention.out_proj")
    hidden = f.b.apply("gelu_erf", f.linear(f.norm(x, "ln_2"), "mlp.0"), name="mlp.gelu")
    f.b.output(x + f.linear(hidden, "mlp.3"), "y")
    return f


@network
def vit(config: VitConfig, batch: int = 1, image: int = 224, dtype: str = "f32") -> Graph:
    """A vision transformer of any size."""
    patch, width = config.patch, config.width
    if image < patch or image % patch:
        raise user_error(f"the image is cut into patches of {patch}", place=f"model '{config.name}'", value=str(image),
                         allowed=f"multiples of {patch}")  # fmt: skip
    patches = (image // patch) ** 2
    b = GraphBuilder(config.name, dtype=dtype)
    layer = _layer(b, batch, patches + 1, width, config.heads)
    x = b.input("x", (batch, 3, image, image))
    w = b.weight("conv_proj.weight", (width, 3, patch, patch), scale=math.sqrt(1 / patch**2))
    x = b.conv2d(x, w, b.weight("conv_proj.bias", (width,)), stride=patch, name="conv_proj")
    x = x.reshape(batch, width, patches).transpose(0, 2, 1)
    token = b.broadcast(b.weight("class_token", (1, 1, width)), (batch, 1, width), name="class_token.repeated")
    x = b.concat([token, x], axis=1, name="tokens")
    x = x + b.weight("encoder.pos_embedding", (1, patches + 1, width), scale=0.035)
    for i in range(config.layers):
        x = layer.call(f"encoder.layers.encoder_layer_{i}", x)
    x = normed(b, x, "encoder.ln", 1e-6)
    b.output(b.linear(x[:, 0], config.classes, name="heads.head"), "logits")
    return b.build()


@network
def vit_b_16(batch: int = 1, image: int = 224, dtype: str = "f32") -> Graph:
    """ViT-B/16, 86,567,656 parameters (with the position embeddings of 224×224 images).

    The image is a multiple of 16. Input x [batch, 3, image, image], output logits [batch, 1000].
    """
    return vit(VIT_B_16, batch, image, dtype)
