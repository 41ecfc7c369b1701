"""DeepSeek-V3 (DeepSeek-AI, 2024): latent attention, a mixture of 256 experts.

Keys and values of all heads are linear in one latent vector per token (and one rotary key). Prefill computes them.
Decode works in the latent space, so that the cache holds 576 numbers per token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..graph import Graph, GraphBuilder, Tensor
from ._decoding import (
    Head,
    Layer,
    ModelRun,
    Yarn,
    assemble,
    check_run,
    gated_weights,
    linear_weight,
    pairs_to_halves,
    rotary_tables,
)
from ._layers import Weight, merge_heads, split_heads
from ._network import network
from .experts import Experts, expert_weights, mix

__all__ = ["DeepseekConfig", "deepseek", "deepseek_v3"]


@dataclass(frozen=True)
class DeepseekConfig:
    """Sizes. `plain` and `rotary`: widths of the two parts of a key; ranks: widths of the latent vectors."""

    name: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    hidden: int
    query_rank: int
    latent: int
    plain: int
    rotary: int
    value: int
    experts: Experts
    dense_layers: int
    epsilon: float = 1e-6
    rotary_base: float = 10000.0
    yarn: Yarn | None = None
    limit: int = 163840

    @property
    def scale(self) -> float:
        """Scale of scores, times (0.1 · ln factor + 1)² for stretched positions (published mscale_all_dim = 1)."""
        plain = (self.plain + self.rotary) ** -0.5
        return plain if self.yarn is None else plain * (0.1 * math.log(self.yarn.factor) + 1) ** 2


DEEPSEEK_V3 = DeepseekConfig(
    "deepseek-v3", 129280, 7168, 61, 128, 18432, query_rank=1536, latent=512, plain=128, rotary=64, value=128,
    experts=Experts(
        count=256, chosen=8, scores="sigmoid", groups=8, chosen_groups=4, scale=2.5, hidden=2048, shared=2048
    ),
    dense_layers=3,
    yarn=Yarn(40.0, 4096),
)  # fmt: skip


class _DeepseekLayer(Layer):
    def __init__(self, parent: GraphBuilder, kind: str, c: DeepseekConfig, run: ModelRun) -> None:
        self.c, self.dense = c, kind == "dense_layer"
        kept = (run.batch, 1, run.context, c.latent + c.rotary)
        angles = (run.tokens, c.rotary)
        tables = {"rotary.cos": angles, "rotary.sin": angles}
        super().__init__(parent, kind, run, c.width, tables, {"latent": kept}, self._weights())

    def _weights(self) -> list[Weight]:
        c, gain = self.c, (2 * self.c.layers) ** -0.5
        weights = [
            Weight("input_layernorm.weight", (c.width,), 0.1, 1.0),
            *linear_weight("self_attn.q_a_proj", c.width, c.query_rank),
            Weight("self_attn.q_a_layernorm.weight", (c.query_rank,), 0.1, 1.0),
            *linear_weight("self_attn.q_b_proj", c.query_rank, c.heads * (c.plain + c.rotary)),
            *linear_weight("self_attn.kv_a_proj_with_mqa", c.width, c.latent + c.rotary),
            Weight("self_attn.kv_a_layernorm.weight", (c.latent,), 0.1, 1.0),
            *linear_weight("self_attn.kv_b_proj", c.latent, c.heads * (c.plain + c.value)),
            *linear_weight("self_attn.o_proj", c.heads * c.value, c.width, gain),
            Weight("post_attention_layernorm.weight", (c.width,), 0.1, 1.0),
        ]
        if self.dense:
            return weights + gated_weights("mlp", c.width, c.hidden, gain)
        return weights + expert_weights("mlp", c.experts, c.width, c.hidden, gain)

    def _turned(self, x: Tensor) -> Tensor:
        return self.rotate(pairs_to_halves(x))

    def _queries(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the plain and the rotary part of queries, [B, H, S, ...]."""
        c = self.c
        inner = self.norm(self.linear(x, "self_attn.q_a_proj"), "self_attn.q_a_layernorm", c.epsilon)
        q = split_heads(self.linear(inner, "self_attn.q_b_proj"), c.heads)
        return q[..., : c.plain], self._turned(q[..., c.plain :])

    def _new_latent(self, x: Tensor) -> Tensor:
        """Computes the normalized latent vector and the rotary key of each token, [B, 1, S, latent + rotary]."""
        c, b = self.c, self.b
        both = self.linear(x, "self_attn.kv_a_proj_with_mqa")
        batch, tokens, _ = both.shape
        latent = self.norm(both[..., : c.latent], "self_attn.kv_a_layernorm", c.epsilon)
        key = self._turned(both[..., c.latent :].reshape(batch, 1, tokens, c.rotary))
        return b.concat([latent.reshape(batch, 1, tokens, c.latent), key], axis=3, name="self_attn.latent")

    def _expanded(self, unrotated: Tensor, turned: Tensor, cached: Tensor) -> Tensor:
        c, b = self.c, self.b
        batch, _, tokens, _ = cached.shape
        latent = cached[..., : c.latent].reshape(batch, tokens, c.latent)
        both = split_heads(self.linear(latent, "self_attn.kv_b_proj"), c.heads)
        shared = b.broadcast(cached[..., c.latent :], (batch, c.heads, tokens, c.rotary))
        k = b.concat([both[..., : c.plain], shared], axis=3)
        q = b.concat([unrotated, turned], axis=3)
        return b.attention(q, k, both[..., c.plain :], causal=True, scale=c.scale, name="self_attn")

    def _absorbed(self, unrotated: Tensor, turned: Tensor, cached: Tensor) -> Tensor:
        c, b = self.c, self.b
        both = self.w["self_attn.kv_b_proj.weight"].reshape(c.heads, c.plain + c.value, c.latent)
        per_head: dict[str, Any] = {"a_batch": [1], "b_batch": [0], "a_contract": [3]}
        up, down = both[:, : c.plain], both[:, c.plain :]
        inner: Tensor = b.op("contract", unrotated, up, b_contract=[1], name="self_attn.absorb_keys", **per_head)
        q = b.concat([inner.transpose(1, 0, 2, 3), turned], axis=3)
        found = b.attention(q, cached, cached[..., : c.latent], scale=c.scale, name="self_attn")
        out: Tensor = b.op("contract", found, down, b_contract=[2], name="self_attn.absorb_values", **per_head)
        return out.transpose(1, 0, 2, 3)

    def body(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        normed = self.norm(x, "input_layernorm", self.c.epsilon)
        kept = self.store("latent", self._new_latent(normed))
        attend = self._absorbed if self.run.decode else self._expanded
        x = x + self.linear(merge_heads(attend(*self._queries(normed), kept)), "self_attn.o_proj")
        normed = self.norm(x, "post_attention_layernorm", self.c.epsilon)
        more = self.gated(normed, "mlp") if self.dense else mix(self.b, normed, self.w, "mlp", self.c.experts)
        return x + more, {"latent": kept}


@network
def deepseek(
    config: DeepseekConfig, batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16"
) -> Graph:
    """A model in the manner of DeepSeek-V3, of any size."""
    c, run = config, check_run(config.name, config.limit, batch, context, phase)
    types = ["dense_layer"] * c.dense_layers + ["layer"] * (c.layers - c.dense_layers)
    tables = rotary_tables(range(context - run.tokens, context), c.rotary, c.rotary_base, c.yarn)
    head = Head(c.name, c.vocabulary, c.width, c.epsilon)
    return assemble(head, run, dtype, types, lambda builder, kind: _DeepseekLayer(builder, kind, c, run), tables)


@network
def deepseek_v3(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """DeepSeek-V3, 671,026,419,200 parameters; at most 163,840 tokens.

    The layer that predicts one more token is left out.
    """
    return deepseek(DEEPSEEK_V3, batch, context, phase, dtype)
