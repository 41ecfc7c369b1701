"""Networks in torch whose usual packages are not needed for the tests, with their parameter names."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def mobilenet_v2(settings: Any, last: int = 1280) -> nn.Module:
    """Inverted residuals: rows of expansion, channels, blocks, stride."""

    def conv(a: int, b: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(b)]

    class Block(nn.Module):
        def __init__(self, a: int, b: int, stride: int, expansion: int) -> None:
            super().__init__()
            hidden = a * expansion
            parts: list[nn.Module] = [nn.Sequential(*conv(a, hidden, 1), nn.ReLU6())] if expansion > 1 else []
            parts += [nn.Sequential(*conv(hidden, hidden, 3, stride, hidden), nn.ReLU6()), *conv(hidden, b, 1)]
            self.conv, self.adds = nn.Sequential(*parts), stride == 1 and a == b

        def forward(self, x: Any) -> Any:
            return x + self.conv(x) if self.adds else self.conv(x)

    layers: list[nn.Module] = [nn.Sequential(*conv(3, 32, 3, 2), nn.ReLU6())]
    width = 32
    for expansion, filters, blocks, stride in settings:
        for i in range(blocks):
            layers.append(Block(width, filters, stride if i == 0 else 1, expansion))
            width = filters
    layers.append(nn.Sequential(*conv(width, last, 1), nn.ReLU6()))
    net = nn.Sequential()
    net.add_module("features", nn.Sequential(*layers))
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("classifier", nn.Sequential(nn.Dropout(), nn.Linear(last, 1000)))
    return net


def vgg(stages: Any, hidden: int, classes: int) -> nn.Module:
    """Stages of 3x3 convolutions and a maximum, then three linear layers."""
    layers: list[nn.Module] = []
    width = 3
    for stage in stages:
        for filters in stage:
            layers += [nn.Conv2d(width, filters, 3, padding=1), nn.ReLU()]
            width = filters
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(49 * width, hidden), nn.ReLU(), nn.Dropout()]
    head += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, classes)]
    net = nn.Sequential()
    net.add_module("features", nn.Sequential(*layers))
    net.add_module("avgpool", nn.AdaptiveAvgPool2d(7))
    net.add_module("flatten", nn.Flatten())
    net.add_module("classifier", nn.Sequential(*head))
    return net


class DeepseekExperts(nn.Module):
    """Mixture of DeepSeekMoE (Dai et al., 2024): softmax over all experts, the chosen ones' weights as they are, and
    experts that every token takes."""

    def __init__(self, width: int, count: int, chosen: int, hidden: int, shared: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.Module()
        self.experts.gate_up_proj = nn.Parameter(torch.zeros(count, 2 * hidden, width))
        self.experts.down_proj = nn.Parameter(torch.zeros(count, width, hidden))
        names = {"gate_proj": (width, shared), "up_proj": (width, shared), "down_proj": (shared, width)}
        self.shared_experts = nn.ModuleDict({name: nn.Linear(*size, bias=False) for name, size in names.items()})

    def forward(self, x: Any) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        weights, numbers = self.gate(flat).float().softmax(-1).topk(self.chosen, -1)
        out = torch.zeros_like(flat)
        for expert, (up, down) in enumerate(zip(self.experts.gate_up_proj, self.experts.down_proj, strict=True)):
            token, place = torch.where(numbers == expert)
            gate, inner = (flat[token] @ up.T).chunk(2, -1)
            out.index_add_(0, token, (F.silu(gate) * inner) @ down.T * weights[token, place, None])
        s = self.shared_experts
        out = out + s["down_proj"](F.silu(s["gate_proj"](flat)) * s["up_proj"](flat))
        return out.reshape(x.shape)


class Dlrm(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.emb_l = nn.ModuleList([nn.EmbeddingBag(rows, c.width, mode="sum") for rows in c.rows])

        def network(inputs: int, widths: Any, last: nn.Module) -> nn.Module:
            layers: list[nn.Module] = []
            for width in widths:
                layers += [nn.Linear(inputs, width), nn.ReLU()]
                inputs = width
            return nn.Sequential(*layers[:-1], last)

        count = len(c.rows) + 1
        self.bot_l = network(c.dense, c.bottom, nn.ReLU())
        self.top_l = network(c.width + count * (count - 1) // 2, c.top, nn.Sigmoid())

    def forward(self, dense: Any, *ids: Any) -> Any:
        x = self.bot_l(dense)
        features = torch.stack([x, *[bag(i) for bag, i in zip(self.emb_l, ids, strict=True)]], dim=1)
        products = features @ features.mT
        rows, columns = torch.tril_indices(features.shape[1], features.shape[1], offset=-1)
        return self.top_l(torch.cat([x, products[:, rows, columns]], dim=1))


def sines(t: Any, width: int) -> Any:
    frequencies = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
    angles = t[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=1)


class Dit(nn.Module):
    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
            self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})
            self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

        def forward(self, x: Any, c: Any) -> Any:
            b, n, w = x.shape
            s1, a1, g1, s2, a2, g2 = (part[:, None] for part in self.adaLN_modulation(c).chunk(6, 1))
            y = F.layer_norm(x, (w,), eps=1e-6) * (1 + a1) + s1
            q, k, v = self.attn["qkv"](y).reshape(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w)
            x = x + g1 * self.attn["proj"](y)
            y = F.layer_norm(x, (w,), eps=1e-6) * (1 + a2) + s2
            return x + g2 * self.mlp["fc2"](F.gelu(self.mlp["fc1"](y), approximate="tanh"))

    def __init__(self, c: Any, positions: Any) -> None:
        super().__init__()
        self.c = c
        self.x_embedder = nn.ModuleDict({"proj": nn.Conv2d(c.channels, c.width, c.patch, c.patch)})
        layers = nn.Sequential(nn.Linear(c.frequencies, c.width), nn.SiLU(), nn.Linear(c.width, c.width))
        self.t_embedder = nn.ModuleDict({"mlp": layers})
        self.y_embedder = nn.ModuleDict({"embedding_table": nn.Embedding(c.classes + 1, c.width)})
        self.pos_embed = nn.Parameter(positions, requires_grad=False)
        self.blocks = nn.ModuleList([self.Block(c.width, c.heads) for _ in range(c.layers)])
        steering = nn.Sequential(nn.SiLU(), nn.Linear(c.width, 2 * c.width))
        last = nn.Linear(c.width, 2 * c.channels * c.patch**2)
        self.final_layer = nn.ModuleDict({"linear": last, "adaLN_modulation": steering})

    def forward(self, x: Any, t: Any, y: Any) -> Any:
        c = self.c
        x = self.x_embedder["proj"](x).flatten(2).mT + self.pos_embed
        condition = self.t_embedder["mlp"](sines(t, c.frequencies)) + self.y_embedder["embedding_table"](y)
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.final_layer["adaLN_modulation"](condition)[:, None].chunk(2, 2)
        x = self.final_layer["linear"](F.layer_norm(x, (c.width,), eps=1e-6) * (1 + scale) + shift)
        side = c.size // c.patch
        x = x.reshape(x.shape[0], side, side, c.patch, c.patch, 2 * c.channels)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(x.shape[0], 2 * c.channels, c.size, c.size)


class Residual(nn.Module):
    def __init__(self, inputs: int, filters: int, time: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, inputs), nn.GroupNorm(groups, filters)
        self.conv1 = nn.Conv2d(inputs, filters, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inputs, filters, 1) if inputs != filters else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        y = self.conv1(F.silu(self.norm1(x))) + self.time_emb_proj(F.silu(time))[:, :, None, None]
        return self.conv_shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k, self.to_v = (nn.Linear(context, width, bias=False) for _ in range(2))
        self.to_out = nn.Sequential(nn.Linear(width, width))

    def forward(self, x: Any, context: Any) -> Any:
        q, k, v = (
            t.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for t in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    class Inner(nn.Module):
        def __init__(self, width: int, text: int, heads: int) -> None:
            super().__init__()
            self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
            self.attn1, self.attn2 = Attention(width, width, heads), Attention(width, text, heads)
            gate = nn.ModuleDict({"proj": nn.Linear(width, 8 * width)})
            self.ff = nn.ModuleDict({"net": nn.ModuleList([gate, nn.Dropout(), nn.Linear(4 * width, width)])})

        def forward(self, x: Any, text: Any) -> Any:
            y = self.norm1(x)
            x = x + self.attn1(y, y)
            x = x + self.attn2(self.norm2(x), text)
            inner, gate = self.ff["net"][0]["proj"](self.norm3(x)).chunk(2, 2)
            return x + self.ff["net"][2](inner * F.gelu(gate))

    def __init__(self, width: int, text: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, eps=1e-6)
        self.proj_in, self.proj_out = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([self.Inner(width, text, heads)])

    def forward(self, x: Any, text: Any) -> Any:
        y = self.proj_in(self.norm(x)).flatten(2).mT
        y = self.transformer_blocks[0](y, text).mT.unflatten(2, x.shape[2:])
        return x + self.proj_out(y)


class Unet(nn.Module):
    class Level(nn.Module):
        """Residual blocks, attention, and a convolution that changes the size."""

        def __init__(self, inputs: list[int], filters: int, c: Any, attends: bool, sampler: str) -> None:
            super().__init__()
            time = 4 * c.channels[0]
            self.resnets = nn.ModuleList([Residual(n, filters, time, c.groups) for n in inputs])
            blocks = [Transformer(filters, c.text, c.heads, c.groups) for _ in inputs] if attends else []
            self.attentions = nn.ModuleList(blocks)
            conv = nn.Conv2d(filters, filters, 3, 2 if sampler == "downsamplers" else 1, 1)
            self.sampler = sampler
            if sampler:
                self.add_module(sampler, nn.ModuleList([nn.ModuleDict({"conv": conv})]))

        def block(self, i: int, x: Any, time: Any, text: Any) -> Any:
            x = self.resnets[i](x, time)
            return self.attentions[i](x, text) if len(self.attentions) else x

        def sample(self, x: Any) -> Any:
            return getattr(self, self.sampler)[0]["conv"](x)

    def __init__(self, c: Any) -> None:
        super().__init__()
        self.c, first, time = c, c.channels[0], 4 * c.channels[0]
        self.conv_in = nn.Conv2d(c.latent, first, 3, padding=1)
        self.time_embedding = nn.ModuleDict({"linear_1": nn.Linear(first, time), "linear_2": nn.Linear(time, time)})
        self.down_blocks, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        kept, width, last = [first], first, len(c.channels) - 1
        for level, filters in enumerate(c.channels):
            inputs = [width] + [filters] * (c.blocks - 1)
            self.down_blocks.append(
                self.Level(inputs, filters, c, level < last, "downsamplers" if level < last else "")
            )
            kept += [filters] * (c.blocks + (level < last))
            width = filters
        self.mid_block = self.Level([width, width], width, c, True, "")
        del self.mid_block.attentions[1]
        for level, filters in enumerate(reversed(c.channels)):
            inputs = []
            for _ in range(c.blocks + 1):
                inputs.append(width + kept.pop())
                width = filters
            self.up_blocks.append(self.Level(inputs, filters, c, level > 0, "upsamplers" if level < last else ""))
        self.conv_norm_out = nn.GroupNorm(c.groups, first)
        self.conv_out = nn.Conv2d(first, c.latent, 3, padding=1)

    def forward(self, x: Any, t: Any, text: Any) -> Any:
        time = self.time_embedding["linear_1"](sines(t, self.c.channels[0]))
        time = self.time_embedding["linear_2"](F.silu(time))
        x = self.conv_in(x)
        kept = [x]
        for level in self.down_blocks:
            for i in range(len(level.resnets)):
                x = level.block(i, x, time, text)
                kept.append(x)
            if level.sampler:
                x = level.sample(x)
                kept.append(x)
        x = self.mid_block.attentions[0](self.mid_block.resnets[0](x, time), text)
        x = self.mid_block.resnets[1](x, time)
        for level in self.up_blocks:
            for i in range(len(level.resnets)):
                x = level.block(i, torch.cat([x, kept.pop()], 1), time, text)
            x = level.sample(F.interpolate(x, scale_factor=2.0)) if level.sampler else x
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class Vit(nn.Module):
    class Layer(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
            inner = [nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(), nn.Linear(4 * width, width)]
            self.mlp = nn.Sequential(*inner)

        def forward(self, x: Any) -> Any:
            y = self.ln_1(x)
            x = x + self.self_attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(self.ln_2(x))

    def __init__(self, c: Any, image: int) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, c.width, c.patch, c.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, c.width))
        layers = nn.Sequential()
        for i in range(c.layers):
            layers.add_module(f"encoder_layer_{i}", self.Layer(c.width, c.heads))
        self.encoder = nn.ModuleDict({"layers": layers, "ln": nn.LayerNorm(c.width, eps=1e-6)})
        positions = torch.zeros(1, (image // c.patch) ** 2 + 1, c.width)
        self.encoder.register_parameter("pos_embedding", nn.Parameter(positions))
        self.heads = nn.ModuleDict({"head": nn.Linear(c.width, c.classes)})

    def forward(self, x: Any) -> Any:
        x = self.conv_proj(x).flatten(2).mT
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.encoder.pos_embedding
        return self.heads["head"](self.encoder["ln"](self.encoder["layers"](x))[:, 0])
