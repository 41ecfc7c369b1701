"""BERT (Devlin et al., 2019; Hugging Face `BertModel` with pooler) and GPT-2 small (Radford et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import Graph, GraphBuilder, Tensor
from ._decoding import ModelRun, check_run
from ._layers import Block, check_sequence, linear_weights, merge_heads, norm_weights, normed, split_heads
from ._network import network

__all__ = ["TextConfig", "bert", "bert_base", "bert_large", "gpt", "gpt2"]

_EMBEDDING = 0.035  # uniform with the standard deviation 0.02 of the published initializations


@dataclass(frozen=True)
class TextConfig:
    """Sizes; `limit` is the number of positions."""

    name: str
    layers: int
    width: int
    heads: int
    vocabulary: int
    limit: int


BERT_BASE = TextConfig("bert-base", 12, 768, 12, 30522, 512)
BERT_LARGE = TextConfig("bert-large", 24, 1024, 16, 30522, 512)
GPT2 = TextConfig("gpt2", 12, 768, 12, 50257, 1024)


def _bert_layer(b: GraphBuilder, batch: int, sequence: int, width: int, heads: int) -> Block:
    weights = [
        *linear_weights("attention.self.query", width, width),
        *linear_weights("attention.self.key", width, width),
        *linear_weights("attention.self.value", width, width),
        *linear_weights("attention.output.dense", width, width),
        *norm_weights("attention.output.LayerNorm", width),
        *linear_weights("intermediate.dense", width, 4 * width),
        *linear_weights("output.dense", 4 * width, width),
        *norm_weights("output.LayerNorm", width),
    ]
    f = Block(b, "layer", weights, {"x": ((batch, sequence, width),)}, epsilon=1e-12)
    x = f.inputs["x"]
    q, k, v = (split_heads(f.linear(x, f"attention.self.{part}"), heads) for part in ("query", "key", "value"))
    context = merge_heads(f.b.attention(q, k, v, name="attention.self"))
    x = f.norm(f.linear(context, "attention.output.dense") + x, "attention.output.LayerNorm")
    hidden = f.b.apply("gelu_erf", f.linear(x, "intermediate.dense"), name="intermediate.gelu")
    f.b.output(f.norm(f.linear(hidden, "output.dense") + x, "output.LayerNorm"), "y")
    return f


@network
def bert(config: TextConfig, batch: int = 1, sequence: int = 128, dtype: str = "f32") -> Graph:
    """BERT of any size; every token is attended to."""
    check_sequence(config.name, sequence, config.limit)
    width = config.width
    b = GraphBuilder(config.name, dtype=dtype)
    layer = _bert_layer(b, batch, sequence, width, config.heads)
    ids = b.input("input_ids", (batch, sequence), "i32")
    types = b.input("token_type_ids", (batch, sequence), "i32")

    def table(which: str, rows: int) -> Tensor:
        return b.weight(f"embeddings.{which}_embeddings.weight", (rows, width), scale=_EMBEDDING)

    words: Tensor = b.op("embedding", table("word", config.vocabulary), ids, name="embeddings.words")
    kinds: Tensor = b.op("embedding", table("token_type", 2), types, name="embeddings.types")
    x = words + kinds + table("position", config.limit)[:sequence]
    x = normed(b, x, "embeddings.LayerNorm", 1e-12)
    for i in range(config.layers):
        x = layer.call(f"encoder.layer.{i}", x)
    b.output(x, "last_hidden_state")
    pooled = b.linear(x[:, 0], width, name="pooler.dense")
    b.output(b.apply("tanh", pooled, name="pooler.tanh"), "pooler_output")
    return b.build()


@network
def bert_base(batch: int = 1, sequence: int = 128, dtype: str = "f32") -> Graph:
    """BERT-base, 109,482,240 parameters; every token is attended to. At most 512 tokens.

    Returns:
        Graph with inputs input_ids and token_type_ids [batch, sequence], and outputs last_hidden_state
        [batch, sequence, 768] and pooler_output [batch, 768].
    """
    return bert(BERT_BASE, batch, sequence, dtype)


@network
def bert_large(batch: int = 1, sequence: int = 128, dtype: str = "f32") -> Graph:
    """BERT-large, 335,141,888 parameters; every token is attended to. At most 512 tokens.

    Returns:
        Graph with inputs input_ids and token_type_ids [batch, sequence], and outputs last_hidden_state
        [batch, sequence, 1024] and pooler_output [batch, 1024].
    """
    return bert(BERT_LARGE, batch, sequence, dtype)


class _GptLayer(Block):
    """The function of one layer: (x, [keys, values], weights...) -> (y, [keys, values])."""

    def __init__(self, builder: GraphBuilder, c: TextConfig, run: ModelRun, caches: bool) -> None:
        # GPT-2 scales the weights that add to the residual stream by 1 / sqrt(2 · layers).
        width, gain = c.width, (2 * c.layers) ** -0.5
        self.c, self.run = c, run
        weights = [
            *norm_weights("ln_1", width),
            *linear_weights("attn.c_attn", width, 3 * width, transposed=True),
            *linear_weights("attn.c_proj", width, width, transposed=True, gain=gain),
            *norm_weights("ln_2", width),
            *linear_weights("mlp.c_fc", width, 4 * width, transposed=True),
            *linear_weights("mlp.c_proj", 4 * width, width, transposed=True, gain=gain),
        ]
        kept = ((run.batch, c.heads, run.context, width // c.heads),)
        past = {"keys": kept, "values": kept} if run.decode else {}
        super().__init__(builder, "layer", weights, {"x": ((run.batch, run.tokens, width),), **past}, transposed=True)
        x, *self.past = self.inputs.values()
        y, *new = self._body(x)
        self.b.output(y, "y")
        for tensor, name in zip(new if caches else [], ("new.keys", "new.values"), strict=False):
            self.b.output(tensor, name)

    def _body(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        width, b = self.c.width, self.b
        qkv = self.linear(self.norm(x, "ln_1"), "attn.c_attn")
        q, k, v = (split_heads(qkv[..., i * width : (i + 1) * width], self.c.heads) for i in range(3))
        if self.past:
            zero, slot = b.scalar(0, "i32"), b.scalar(self.run.context - 1, "i32")
            starts = (zero, zero, slot, zero)
            k, v = (b.op("dynamic_update", old, new, *starts) for old, new in zip(self.past, (k, v), strict=True))
        context = b.attention(q, k, v, causal=not self.past, name="attn")
        x = x + self.linear(merge_heads(context), "attn.c_proj")
        hidden = b.apply("gelu_tanh", self.linear(self.norm(x, "ln_2"), "mlp.c_fc"), name="mlp.gelu")
        return x + self.linear(hidden, "mlp.c_proj"), k, v


@network
def gpt(config: TextConfig, batch: int = 1, sequence: int = 128, dtype: str = "f32", phase: str | None = None) -> Graph:
    """GPT-2 of any size; the head shares the token embeddings."""
    width = config.width
    check_sequence(config.name, sequence, config.limit)
    run = check_run(config.name, config.limit, batch, sequence, phase or "prefill")
    b = GraphBuilder(config.name, dtype=dtype)
    layer = _GptLayer(b, config, run, phase is not None)
    ids = b.input("input_ids", (batch, run.tokens), "i32")
    kept = (batch, config.heads, sequence, width // config.heads)
    past = [
        [b.input(f"past.{i}.{name}", kept) for name in ("keys", "values")] if run.decode else []
        for i in range(config.layers)
    ]
    tokens = b.weight("wte.weight", (config.vocabulary, width), scale=_EMBEDDING)
    positions = b.weight("wpe.weight", (config.limit, width), scale=_EMBEDDING)
    words: Tensor = b.op("embedding", tokens, ids, name="wte")
    x, new = words + positions[sequence - run.tokens : sequence], []
    for i in range(config.layers):
        found = layer.call(f"h.{i}", x, *past[i])
        x = found if phase is None else found[0]
        new += [] if phase is None else list(found[1:])
    b.output(b.project(normed(b, x, "ln_f"), tokens, name="lm_head"), "logits")
    for i, tensor in enumerate(new):
        b.output(tensor, f"cache.{i // 2}.{'values' if i % 2 else 'keys'}")
        if run.decode:
            b.alias(1 + i, 1 + i)
    return b.build()


@network
def gpt2(batch: int = 1, sequence: int = 128, dtype: str = "f32", phase: str | None = None) -> Graph:
    """GPT-2 small, 124,439,808 parameters; the head shares the token embeddings. At most 1,024 tokens.

    Without a phase the graph reads the sequence and keeps no cache.
    """
    return gpt(GPT2, batch, sequence, dtype, phase)
