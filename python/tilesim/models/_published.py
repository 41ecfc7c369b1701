"""Text networks as the published PyTorch code spells them out: attention in its parts, GELU by its formula.

Each framework's compiler decides which of these operations it fuses; `ts.models` holds the same networks with one
operation for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..base.errors import nearest, user_error
from ..graph import Graph, GraphBuilder, Tensor
from ._layers import Block, create, linear_weights, merge_heads, norm_weights, split_heads

__all__ = ["FAMILIES", "TextSizes", "spelled_out"]

_LOWEST = -3.4e38


@dataclass(frozen=True)
class TextSizes:
    """Sizes of a text network; `family` is "bert", "gpt2" or "opt"."""

    family: str
    layers: int
    width: int
    heads: int
    ffn: int
    vocabulary: int
    positions: int


def _dropped(b: GraphBuilder, x: Tensor, keep: Tensor | None) -> Tensor:
    """Applies dropout as one kernel: a byte per element marks the elements that stay."""
    return x if keep is None else b.apply("select", keep, x, b.scalar(0.0), name="dropout")


def _attention(
    b: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, family: str, keep: Tensor | None
) -> Tensor:
    """Attention as products around a softmax; the mask is added to the scores, or selects them (gpt2)."""
    depth = q.shape[-1]
    scores = b.matmul(q, k.transpose(0, 1, 3, 2), name="scores")
    if family == "opt":  # queries are already scaled; sums that overflow become the lowest number
        scores = b.apply("maximum", scores + mask, b.scalar(_LOWEST), name="lifted")
    elif family == "bert":
        scores = scores / math.sqrt(depth) + mask
    else:
        scores = b.apply("select", mask, scores / math.sqrt(depth), b.scalar(_LOWEST), name="causal")
    return merge_heads(b.matmul(_dropped(b, scores.softmax(), keep), v, name="context"))


def _gelu(b: GraphBuilder, x: Tensor) -> Tensor:
    """Computes 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), operation by operation."""
    inner = (x + b.apply("power", x, b.scalar(3.0)) * 0.044715) * math.sqrt(2 / math.pi)
    return (x * 0.5) * (b.apply("tanh", inner) + 1.0)


class _TextLayer(Block):
    """One layer's function: (x, mask, [kept scores, kept rows], weights...) -> y."""

    def __init__(self, builder: GraphBuilder, sizes: TextSizes, batch: int, sequence: int, training: bool) -> None:
        self.s, width = sizes, sizes.width
        turned = sizes.family == "gpt2"
        joined = [("qkv", width, 3 * width)] if turned else [(name, width, width) for name in ("q", "k", "v")]
        linears = [*joined, ("out", width, width), ("up", width, sizes.ffn), ("down", sizes.ffn, width)]
        weights = [w for name in ("norm1", "norm2") for w in norm_weights(name, width)]
        for name, taken, given in linears:
            weights += linear_weights(name, taken, given, transposed=turned)
        if turned:
            mask: tuple[tuple[int, ...], str | None] = (1, 1, sequence, sequence), "bool"
        else:
            mask = (batch, 1, sequence if sizes.family == "opt" else 1, sequence), None
        kept = {name: (shape, "bool") for name, shape in (_masks(sizes, batch, sequence) if training else {}).items()}
        inputs = {"x": ((batch, sequence, width),), "mask": mask, **kept}
        super().__init__(builder, "layer", weights, inputs, transposed=turned)
        self.scores, self.rows = self.inputs.get("kept_scores"), self.inputs.get("kept_rows")
        x, hidden = self.inputs["x"], self.inputs["mask"]
        self.b.output(self._bert(x, hidden) if sizes.family == "bert" else self._decoder(x, hidden), "y")

    def _heads(self, x: Tensor, mask: Tensor) -> Tensor:
        width, family = self.s.width, self.s.family
        if family == "gpt2":
            joined = self.linear(x, "qkv")
            q, k, v = (joined[..., i * width : (i + 1) * width] for i in range(3))
        else:
            q, k, v = (self.linear(x, name) for name in ("q", "k", "v"))
        if family == "opt":
            q = q * (width // self.s.heads) ** -0.5
        q, k, v = (split_heads(part, self.s.heads) for part in (q, k, v))
        return self._residual(_attention(self.b, q, k, v, mask, family, self.scores), "out")

    def _residual(self, x: Tensor, name: str) -> Tensor:
        return _dropped(self.b, self.linear(x, name), self.rows)

    def _bert(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self._heads(x, mask) + x, "norm1")
        hidden = self.b.apply("gelu_erf", self.linear(x, "up"), name="gelu")
        return self.norm(self._residual(hidden, "down") + x, "norm2")

    def _decoder(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self._heads(self.norm(x, "norm1"), mask)
        hidden = self.linear(self.norm(x, "norm2"), "up")
        hidden = _gelu(self.b, hidden) if self.s.family == "gpt2" else self.b.apply("relu", hidden, name="relu")
        return x + self._residual(hidden, "down")


def _masks(sizes: TextSizes, batch: int, sequence: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the dropout masks."""
    return {"kept_scores": (batch, sizes.heads, sequence, sequence), "kept_rows": (batch, sequence, sizes.width)}


def _norm(b: GraphBuilder, x: Tensor, name: str) -> Tensor:
    scale, bias = create(b, name, norm_weights("norm", x.shape[-1]))
    return b.layer_norm(x, scale, bias, name=name)


def _classifier(b: GraphBuilder, x: Tensor, tokens: Tensor, sizes: TextSizes) -> Tensor:
    pooled = b.apply("tanh", b.linear(x[:, 0], sizes.width, name="pooler"), name="pooler.tanh")
    return b.linear(pooled, 2, name="classifier")


def _pretraining_heads(b: GraphBuilder, x: Tensor, tokens: Tensor, sizes: TextSizes) -> Tensor:
    """Builds the masked-language head over every position, without the next-sentence head."""
    hidden = b.apply("gelu_erf", b.linear(x, sizes.width, name="transform"), name="transform.gelu")
    hidden = _norm(b, hidden, "transform")
    return b.project(hidden, tokens, b.weight("head.bias", (sizes.vocabulary,)), name="head")


def _language_head(b: GraphBuilder, x: Tensor, tokens: Tensor, sizes: TextSizes) -> Tensor:
    return b.project(_norm(b, x, "norm"), tokens, name="head")


#: family -> the head after the layers
FAMILIES: dict[str, Callable[[GraphBuilder, Tensor, Tensor, TextSizes], Tensor]] = {
    "bert": _classifier,
    "gpt2": _language_head,
    "opt": _language_head,
}


def spelled_out(sizes: TextSizes, batch: int, sequence: int, dtype: str = "f32", training: bool = False) -> Graph:
    """Builds the forward pass of a text network."""
    if sizes.family not in FAMILIES:
        close = nearest(sizes.family, FAMILIES)
        raise user_error("unknown family", value=f"'{sizes.family}'", allowed=", ".join(FAMILIES), suggestion=close)
    if sizes.width % sizes.heads:
        raise user_error("the width is not a multiple of the heads", value=f"{sizes.width} / {sizes.heads}")
    if sequence > sizes.positions:
        raise user_error("the sequence is longer than the positions", value=str(sequence),
                         allowed=f"at most {sizes.positions} tokens")  # fmt: skip
    b = GraphBuilder(sizes.family, dtype=dtype)
    layer = _TextLayer(b, sizes, batch, sequence, training)
    ids = b.input("input_ids", (batch, sequence), "i32")
    tokens = b.weight("tokens", (sizes.vocabulary, sizes.width))
    x: Tensor = b.op("embedding", tokens, ids, name="words")
    if sizes.family == "bert":
        types = b.input("token_type_ids", (batch, sequence), "i32")
        x = x + b.op("embedding", b.weight("types", (2, sizes.width)), types, name="kinds")
    x = x + b.weight("positions", (sizes.positions, sizes.width))[:sequence]
    if sizes.family == "bert":
        x = _norm(b, x, "embeddings.norm")
    rows = {"bert": (batch, 1, 1, sequence), "opt": (batch, 1, sequence, sequence)}
    mask = b.input(
        "mask", rows.get(sizes.family, (1, 1, sequence, sequence)), dtype if sizes.family in rows else "bool"
    )
    kept = _masks(sizes, batch, sequence) if training else {}
    drops = [b.input(name, shape, "bool") for name, shape in kept.items()]
    for i in range(sizes.layers):
        x = layer.call(f"layer.{i}", x, mask, *drops)
    head = _pretraining_heads if training and sizes.family == "bert" else FAMILIES[sizes.family]
    b.output(head(b, x, tokens, sizes), "logits")
    return b.build()
