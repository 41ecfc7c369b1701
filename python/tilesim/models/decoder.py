"""Language models that read and write token by token: Llama 3, Mistral, Qwen2.5, Mixtral.

Prefill reads `context` tokens at once and returns the cache of keys and values. Decode reads token number
`context` of every sequence: the cache holds the earlier tokens and a free slot for the new key and value (an alias, so
that only the written part moves), and attention reads the whole cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..graph import Graph, GraphBuilder, Tensor
from ._decoding import Head, Layer, ModelRun, assemble, attention_weights, check_run, gated_weights, rotary_tables
from ._layers import Weight, merge_heads, split_heads
from ._network import network
from .experts import Experts, expert_weights, mix

__all__ = [
    "DecoderConfig",
    "decoder",
    "deepseek_moe_16b",
    "llama_3_8b",
    "llama_3_70b",
    "mistral_7b",
    "mixtral_8x7b",
    "qwen2_5_1_5b",
]


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder in the manner of Llama (Touvron et al., 2023): RMSNorm, rotary positions, gated SiLU.

    `window`: tokens that attention looks back, 0 for all. `experts`: None for one dense network per layer;
    `dense_layers`: number of first layers without experts.
    """

    name: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    key_heads: int
    hidden: int
    head_width: int = 128
    epsilon: float = 1e-5
    rotary_base: float = 10000.0
    qkv_bias: bool = False
    tied: bool = False
    window: int = 0
    limit: int = 131072
    experts: Experts | None = None
    dense_layers: int = 0


# Configurations as published with the weights (config.json of each); they determine the parameter counts.
LLAMA_3_8B = DecoderConfig("llama-3-8b", 128256, 4096, 32, 32, 8, 14336, rotary_base=500000.0, limit=8192)
LLAMA_3_70B = DecoderConfig("llama-3-70b", 128256, 8192, 80, 64, 8, 28672, rotary_base=500000.0, limit=8192)
MISTRAL_7B = DecoderConfig("mistral-7b", 32000, 4096, 32, 32, 8, 14336, window=4096, limit=32768)
QWEN2_5_1_5B = DecoderConfig(
    "qwen2.5-1.5b", 151936, 1536, 28, 12, 2, 8960, epsilon=1e-6, rotary_base=1e6, qkv_bias=True, tied=True
)
MIXTRAL_8X7B = DecoderConfig(
    "mixtral-8x7b", 32000, 4096, 32, 32, 8, 14336, rotary_base=1e6, limit=32768, experts=Experts(count=8, chosen=2)
)
DEEPSEEK_MOE_16B = DecoderConfig(
    "deepseek-moe-16b", 102400, 2048, 28, 16, 16, 10944, epsilon=1e-6, limit=4096, dense_layers=1,
    experts=Experts(count=64, chosen=6, renormalised=False, hidden=1408, shared=2816),
)  # fmt: skip


class _DecoderLayer(Layer):
    def __init__(self, parent: GraphBuilder, kind: str, c: DecoderConfig, run: ModelRun) -> None:
        self.c = c
        self.experts = c.experts if kind == "layer" else None
        kept = (run.batch, c.key_heads, run.cached(c.window) or run.tokens, c.head_width)
        angles = (run.tokens, c.head_width)
        tables = {"rotary.cos": angles, "rotary.sin": angles}
        super().__init__(parent, kind, run, c.width, tables, {"keys": kept, "values": kept}, self._weights())

    def _weights(self) -> list[Weight]:
        c = self.c
        queries, keys = c.heads * c.head_width, c.key_heads * c.head_width
        gain = (2 * c.layers) ** -0.5  # gain of weights that add to the residual stream
        weights = attention_weights(c.width, queries, keys, gain, c.qkv_bias)
        if self.experts is not None:
            return weights + expert_weights("mlp", self.experts, c.width, c.hidden, gain)
        return weights + gated_weights("mlp", c.width, c.hidden, gain)

    def _attention(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        c = self.c
        q = self.rotate(split_heads(self.linear(x, "self_attn.q_proj"), c.heads))
        k = self.rotate(split_heads(self.linear(x, "self_attn.k_proj"), c.key_heads))
        v = split_heads(self.linear(x, "self_attn.v_proj"), c.key_heads)
        kept = {"keys": self.store("keys", k), "values": self.store("values", v)}
        settings: dict[str, Any] = {} if self.run.decode else {"causal": True, "window": c.window}
        out = self.b.attention(q, kept["keys"], kept["values"], name="self_attn", **settings)
        return merge_heads(out), kept

    def body(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        context, kept = self._attention(self.norm(x, "input_layernorm", self.c.epsilon))
        x = x + self.linear(context, "self_attn.o_proj")
        normed = self.norm(x, "post_attention_layernorm", self.c.epsilon)
        if self.experts is not None:
            return x + mix(self.b, normed, self.w, "mlp", self.experts), kept
        return x + self.gated(normed, "mlp"), kept


@network
def decoder(
    config: DecoderConfig, batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16"
) -> Graph:
    """A decoder of any size; the layer is one function, called once per layer."""
    c, run = config, check_run(config.name, config.limit, batch, context, phase)
    first = c.dense_layers if c.experts is not None else 0
    types = ["dense_layer"] * first + ["layer"] * (c.layers - first)
    tables = rotary_tables(range(context - run.tokens, context), c.head_width, c.rotary_base)
    head = Head(c.name, c.vocabulary, c.width, c.epsilon, c.tied)
    return assemble(head, run, dtype, types, lambda builder, kind: _DecoderLayer(builder, kind, c, run), tables)


@network
def llama_3_8b(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """Llama 3 8B (Grattafiori et al., 2024), 8,030,261,248 parameters; at most 8,192 tokens."""
    return decoder(LLAMA_3_8B, batch, context, phase, dtype)


@network
def llama_3_70b(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """Llama 3 70B (Grattafiori et al., 2024), 70,553,706,496 parameters; at most 8,192 tokens."""
    return decoder(LLAMA_3_70B, batch, context, phase, dtype)


@network
def mistral_7b(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """Mistral 7B (Jiang et al., 2023), 7,241,732,096 parameters; at most 32,768 tokens.

    Attention looks back 4,096 tokens, and the cache holds as many.
    """
    return decoder(MISTRAL_7B, batch, context, phase, dtype)


@network
def qwen2_5_1_5b(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """Qwen2.5 1.5B (Qwen team, 2024), 1,543,714,304 parameters; at most 131,072 tokens.

    The head shares the token embeddings.
    """
    return decoder(QWEN2_5_1_5B, batch, context, phase, dtype)


@network
def mixtral_8x7b(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """Mixtral 8x7B (Jiang et al., 2024), 46,702,792,704 parameters; at most 32,768 tokens.

    Each token takes two of eight experts.
    """
    return decoder(MIXTRAL_8X7B, batch, context, phase, dtype)


@network
def deepseek_moe_16b(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """DeepSeekMoE 16B (Dai et al., 2024), 16,375,728,128 parameters; at most 4,096 tokens.

    Each token takes six of 64 experts and two shared ones.
    """
    return decoder(DEEPSEEK_MOE_16B, batch, context, phase, dtype)
