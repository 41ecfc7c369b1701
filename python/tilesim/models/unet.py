"""The network of Stable Diffusion 1.5 that removes noise (Rombach et al., CVPR 2022), with the names of diffusers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..base.errors import user_error
from ..graph import Graph, GraphBuilder, Tensor
from ._layers import merge_heads, normed, split_heads, time_waves
from ._network import network

__all__ = ["UnetConfig", "stable_diffusion_1_5_unet", "unet"]


@dataclass(frozen=True)
class UnetConfig:
    """Sizes: channels per level (attention on all but the last), blocks per level, heads, width of the text."""

    name: str
    channels: tuple[int, ...] = (320, 640, 1280, 1280)
    blocks: int = 2
    heads: int = 8
    text: int = 768
    tokens: int = 77
    size: int = 64
    latent: int = 4
    groups: int = 32


STABLE_DIFFUSION_1_5 = UnetConfig("stable-diffusion-1.5-unet")


class _UNet:
    """Builds layers with named weights."""

    def __init__(self, b: GraphBuilder, c: UnetConfig) -> None:
        self.b, self.c = b, c

    def conv(self, x: Tensor, filters: int, kernel: int, name: str, stride: int = 1) -> Tensor:
        fan_in = x.shape[1] * kernel * kernel
        w = self.b.weight(f"{name}.weight", (filters, x.shape[1], kernel, kernel), scale=math.sqrt(3 / fan_in))
        bias = self.b.weight(f"{name}.bias", (filters,))
        return self.b.conv2d(x, w, bias, stride=stride, padding=kernel // 2, name=name)

    def group_norm(self, x: Tensor, name: str, epsilon: float) -> Tensor:
        scale = self.b.weight(f"{name}.weight", (x.shape[1],), scale=0.1, offset=1.0)
        bias = self.b.weight(f"{name}.bias", (x.shape[1],))
        y: Tensor = self.b.op(
            "normalize", x, scale, bias, mode="group", groups=self.c.groups, epsilon=epsilon, name=name
        )
        return y

    def residual(self, x: Tensor, time: Tensor, filters: int, name: str) -> Tensor:
        """Builds two convolutions, and adds the time step between them."""
        b = self.b
        y = b.apply("silu", self.group_norm(x, f"{name}.norm1", 1e-5), name=f"{name}.silu1")
        y = self.conv(y, filters, 3, f"{name}.conv1")
        step = b.linear(b.apply("silu", time, name=f"{name}.silu_time"), filters, name=f"{name}.time_emb_proj")
        y = y + step.reshape(*step.shape, 1, 1)
        y = b.apply("silu", self.group_norm(y, f"{name}.norm2", 1e-5), name=f"{name}.silu2")
        y = self.conv(y, filters, 3, f"{name}.conv2")
        kept = x if x.shape[1] == filters else self.conv(x, filters, 1, f"{name}.conv_shortcut")
        return b.apply("add", kept, y, name=f"{name}.add")

    def attend(self, x: Tensor, context: Tensor, name: str) -> Tensor:
        width = x.shape[-1]
        q = self.b.linear(x, width, name=f"{name}.to_q", bias=False)
        k, v = (self.b.linear(context, width, name=f"{name}.to_{part}", bias=False) for part in ("k", "v"))
        q, k, v = (split_heads(part, self.c.heads) for part in (q, k, v))
        return self.b.linear(merge_heads(self.b.attention(q, k, v, name=name)), width, name=f"{name}.to_out.0")

    def transformer(self, x: Tensor, text: Tensor, name: str) -> Tensor:
        """Builds self-attention, attention to the text and a gated network, with pixels as tokens."""
        b, (batch, width, height, length) = self.b, x.shape
        y = self.conv(self.group_norm(x, f"{name}.norm", 1e-6), width, 1, f"{name}.proj_in")
        y = y.transpose(0, 2, 3, 1).reshape(batch, height * length, width)
        inner = f"{name}.transformer_blocks.0"
        own = normed(b, y, f"{inner}.norm1")
        y = y + self.attend(own, own, f"{inner}.attn1")
        y = y + self.attend(normed(b, y, f"{inner}.norm2"), text, f"{inner}.attn2")
        both = b.linear(normed(b, y, f"{inner}.norm3"), 8 * width, name=f"{inner}.ff.net.0.proj")
        gate = b.apply("gelu_erf", both[..., 4 * width :], name=f"{inner}.ff.gelu")
        y = y + b.linear(both[..., : 4 * width] * gate, width, name=f"{inner}.ff.net.2")
        y = y.reshape(batch, height, length, width).transpose(0, 3, 1, 2)
        return self.conv(y, width, 1, f"{name}.proj_out") + x

    def doubled(self, x: Tensor, name: str) -> Tensor:
        """Repeats every pixel to 2×2, then convolves."""
        batch, width, height, length = x.shape
        wide = self.b.broadcast(x.reshape(batch, width, height, 1, length, 1), (batch, width, height, 2, length, 2))
        return self.conv(wide.reshape(batch, width, 2 * height, 2 * length), width, 3, name)


def _time(b: GraphBuilder, c: UnetConfig, batch: int) -> Tensor:
    """Computes sines and cosines of the time step, followed by two linear layers."""
    waves = time_waves(b, b.input("timestep", (batch,)), c.channels[0])
    hidden = b.linear(waves, 4 * c.channels[0], name="time_embedding.linear_1")
    return b.linear(b.apply("silu", hidden), 4 * c.channels[0], name="time_embedding.linear_2")


def _down(net: _UNet, x: Tensor, time: Tensor, text: Tensor) -> list[Tensor]:
    """Builds the way down; returns the result of each step."""
    c, kept = net.c, [x]
    for level, filters in enumerate(c.channels):
        name = f"down_blocks.{level}"
        for j in range(c.blocks):
            x = net.residual(x, time, filters, f"{name}.resnets.{j}")
            x = net.transformer(x, text, f"{name}.attentions.{j}") if level < len(c.channels) - 1 else x
            kept.append(x)
        if level < len(c.channels) - 1:
            x = net.conv(x, filters, 3, f"{name}.downsamplers.0.conv", stride=2)
            kept.append(x)
    return kept


def _up(net: _UNet, x: Tensor, time: Tensor, text: Tensor, skips: list[Tensor]) -> Tensor:
    c = net.c
    for level, filters in enumerate(reversed(c.channels)):
        name = f"up_blocks.{level}"
        for j in range(c.blocks + 1):
            x = net.b.concat([x, skips.pop()], axis=1, name=f"{name}.skip.{j}")
            x = net.residual(x, time, filters, f"{name}.resnets.{j}")
            x = net.transformer(x, text, f"{name}.attentions.{j}") if level > 0 else x
        x = net.doubled(x, f"{name}.upsamplers.0.conv") if level < len(c.channels) - 1 else x
    return x


@network
def unet(config: UnetConfig, batch: int = 1, dtype: str = "f32") -> Graph:
    """A network of any size."""
    c = config
    if c.size % (1 << (len(c.channels) - 1)):
        raise user_error(
            "each level halves the latent image", place=f"model '{c.name}'", value=str(c.size),
            allowed=f"multiples of {1 << (len(c.channels) - 1)}",
        )  # fmt: skip
    b = GraphBuilder(c.name, dtype=dtype)
    net = _UNet(b, c)
    sample = b.input("sample", (batch, c.latent, c.size, c.size))
    time = _time(b, c, batch)
    text = b.input("encoder_hidden_states", (batch, c.tokens, c.text))
    kept = _down(net, net.conv(sample, c.channels[0], 3, "conv_in"), time, text)
    x = net.residual(kept[-1], time, c.channels[-1], "mid_block.resnets.0")
    x = net.transformer(x, text, "mid_block.attentions.0")
    x = net.residual(x, time, c.channels[-1], "mid_block.resnets.1")
    x = _up(net, x, time, text, kept)
    x = b.apply("silu", net.group_norm(x, "conv_norm_out", 1e-5), name="conv_act")
    b.output(net.conv(x, c.latent, 3, "conv_out"), "noise")
    return b.build()


@network
def stable_diffusion_1_5_unet(batch: int = 2, dtype: str = "f16") -> Graph:
    """The network of Stable Diffusion 1.5 for images of 512×512, 859,520,964 parameters.

    The input holds `batch` latent images: 2 for one image with guidance.
    """
    return unet(STABLE_DIFFUSION_1_5, batch, dtype)
