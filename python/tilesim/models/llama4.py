"""Llama 4 Scout (Meta, 2025): its language model.

Three of four layers have rotary positions and attend within their chunk of the context. The fourth has no positions,
attends to everything, and sharpens its scores with the distance from the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..graph import Graph, GraphBuilder, Tensor
from ._decoding import Head, Layer, ModelRun, assemble, attention_weights, check_run, pairs_to_halves, rotary_tables
from ._layers import Weight, merge_heads, split_heads
from ._network import network
from .experts import Experts, expert_weights, mix

__all__ = ["Llama4Config", "llama4", "llama_4_scout"]


@dataclass(frozen=True)
class Llama4Config:
    """Sizes. `chunk`: tokens that attention with positions sees together; `sharpen`, `floor`: for other layers."""

    name: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    key_heads: int
    experts: Experts
    head_width: int = 128
    epsilon: float = 1e-5
    rotary_base: float = 500000.0
    chunk: int = 8192
    sharpen: float = 0.1
    floor: float = 8192.0
    limit: int = 131072


LLAMA_4_SCOUT = Llama4Config(
    "llama-4-scout", 202048, 5120, 48, 40, 8,
    Experts(
        count=16, chosen=1, scores="sigmoid", renormalised=False, weighs_inputs=True, hidden=8192, shared=8192,
        router="router", shared_name="shared_expert", transposed=False,
    ),
)  # fmt: skip


class _Llama4Layer(Layer):
    def __init__(self, parent: GraphBuilder, kind: str, c: Llama4Config, run: ModelRun) -> None:
        self.c, self.chunked = c, kind == "chunked_layer"
        length = run.context
        if self.chunked and run.decode:
            length = (run.context - 1) % c.chunk + 1
        kept = (run.batch, c.key_heads, length, c.head_width)
        angles = (run.tokens, c.head_width)
        tables = {"rotary.cos": angles, "rotary.sin": angles} if self.chunked else {"sharpening": (run.tokens, 1)}
        super().__init__(parent, kind, run, c.width, tables, {"keys": kept, "values": kept}, self._weights())

    def _weights(self) -> list[Weight]:
        c, gain = self.c, (2 * self.c.layers) ** -0.5
        weights = attention_weights(c.width, c.heads * c.head_width, c.key_heads * c.head_width, gain)
        return weights + expert_weights("feed_forward", c.experts, c.width, c.experts.hidden, gain)

    def _placed(self, x: Tensor) -> Tensor:
        """Applies rotary positions, then scales to length sqrt(D), without weights."""
        y: Tensor = self.b.op(
            "normalize", self.rotate(pairs_to_halves(x)), mode="rms", dims=[3], epsilon=self.c.epsilon,
            name="self_attn.qk_norm",
        )  # fmt: skip
        return y

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Computes causal attention, chunk by chunk if the layer is chunked."""
        if self.run.decode:
            return self.b.attention(q, k, v, name="self_attn")
        size = self.c.chunk if self.chunked else self.run.tokens
        parts = [
            self.b.attention(*(t[:, :, first : first + size] for t in (q, k, v)), causal=True, name="self_attn")
            for first in range(0, self.run.tokens, size)
        ]
        return parts[0] if len(parts) == 1 else self.b.concat(parts, axis=2)

    def body(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        c = self.c
        normed = self.norm(x, "input_layernorm", c.epsilon)
        q = split_heads(self.linear(normed, "self_attn.q_proj"), c.heads)
        k = split_heads(self.linear(normed, "self_attn.k_proj"), c.key_heads)
        v = split_heads(self.linear(normed, "self_attn.v_proj"), c.key_heads)
        q, k = (self._placed(q), self._placed(k)) if self.chunked else (q * self.tables["sharpening"], k)
        kept = {"keys": self.store("keys", k), "values": self.store("values", v)}
        context = merge_heads(self._attend(q, kept["keys"], kept["values"]))
        x = x + self.linear(context, "self_attn.o_proj")
        normed = self.norm(x, "post_attention_layernorm", c.epsilon)
        return x + mix(self.b, normed, self.w, "feed_forward", c.experts), kept


@network
def llama4(
    config: Llama4Config, batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16"
) -> Graph:
    """A model in the manner of Llama 4 Scout, of any size."""
    c, run = config, check_run(config.name, config.limit, batch, context, phase)
    types = ["full_layer" if i % 4 == 3 else "chunked_layer" for i in range(c.layers)]
    positions = range(context - run.tokens, context)
    tables = rotary_tables(positions, c.head_width, c.rotary_base)
    steps = np.floor((np.asarray(positions, np.float32) + 1) / np.float32(c.floor))
    tables["sharpening"] = (np.log1p(steps) * np.float32(c.sharpen) + 1).astype(np.float32).reshape(-1, 1)
    head = Head(c.name, c.vocabulary, c.width, c.epsilon)
    return assemble(head, run, dtype, types, lambda builder, kind: _Llama4Layer(builder, kind, c, run), tables)


@network
def llama_4_scout(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """The language model of Llama 4 Scout, 107,769,861,120 parameters; at most 131,072 tokens.

    Its rotary positions are not stretched.
    """
    return llama4(LLAMA_4_SCOUT, batch, context, phase, dtype)
