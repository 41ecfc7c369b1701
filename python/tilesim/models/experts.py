"""Mixtures of experts: a router sends each token to a few expert networks (Shazeer et al., 2017).

Rows are sorted by expert and multiplied in groups (kind ragged_contract): no token is dropped, and each expert's
weights are read at most once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..graph import GraphBuilder, Tensor
from ._layers import Weight

__all__ = ["Experts", "expert_weights", "mix"]


@dataclass(frozen=True)
class Experts:
    """Number of experts, experts per token, and the routing.

    `scores`: "softmax" over all experts, or "sigmoid" with a bias that only affects the choice (DeepSeek-V3). `groups`,
    `chosen_groups`: experts come from the groups whose two best experts have the highest sum. `renormalised`: weights
    of the chosen experts sum to one. `scale`: factor of the weights. `weighs_inputs`: weights multiply the inputs of
    the experts instead of their outputs (Llama 4). `hidden`: hidden width of one expert, 0 for the model's. `shared`:
    hidden width of the network that every token takes, 0 for none.
    """

    count: int
    chosen: int
    scores: str = "softmax"
    groups: int = 1
    chosen_groups: int = 1
    renormalised: bool = True
    scale: float = 1.0
    weighs_inputs: bool = False
    hidden: int = 0
    shared: int = 0
    router: str = "gate"
    shared_name: str = "shared_experts"
    transposed: bool = True  # whether weights are [experts, outputs, inputs]


def expert_weights(name: str, e: Experts, width: int, hidden: int, gain: float) -> list[Weight]:
    """Weights of the router, the experts and the shared network, as the usual implementation stores them."""
    hidden = e.hidden or hidden
    up, down = (e.count, 2 * hidden, width), (e.count, width, hidden)
    if not e.transposed:
        up, down = (e.count, width, 2 * hidden), (e.count, hidden, width)
    weights = [Weight(f"{name}.{e.router}.weight", (e.count, width), math.sqrt(3 / width))]
    if e.scores == "sigmoid" and not e.weighs_inputs:
        weights.append(Weight(f"{name}.{e.router}.e_score_correction_bias", (e.count,), 0.1))
    weights += [
        Weight(f"{name}.experts.gate_up_proj", up, math.sqrt(3 / width)),
        Weight(f"{name}.experts.down_proj", down, gain * math.sqrt(3 / hidden)),
    ]
    if e.shared:
        inner = f"{name}.{e.shared_name}"
        weights += [
            Weight(f"{inner}.gate_proj.weight", (e.shared, width), math.sqrt(3 / width)),
            Weight(f"{inner}.up_proj.weight", (e.shared, width), math.sqrt(3 / width)),
            Weight(f"{inner}.down_proj.weight", (width, e.shared), gain * math.sqrt(3 / e.shared)),
        ]
    return weights


def _rows(b: GraphBuilder, x: Tensor, indices: Tensor, name: str) -> Tensor:
    """Looks up rows of [N, W] by index."""
    y: Tensor = b.op("embedding", x, indices, name=name)
    return y


def _scored(b: GraphBuilder, logits: Tensor, bias: Tensor | None, e: Experts) -> tuple[Tensor, Tensor]:
    """Computes expert weights, and the values that select experts, from router outputs [T, E]."""
    if e.scores == "softmax":
        scores = logits.softmax()
        return scores, scores
    scores = b.apply("sigmoid", logits)
    if bias is None:
        return scores, logits
    choice = scores + bias.convert("f32")
    if e.groups == 1:
        return scores, choice
    tokens, size = logits.shape[0], e.count // e.groups
    best, _ = b.op(
        "top_k", choice.reshape(tokens, e.groups, size), dim=2, k=2, dtype="i32", name="router.best", results=2
    )
    _, kept = b.op("top_k", best.sum(2), dim=1, k=e.chosen_groups, dtype="i32", name="router.groups", results=2)
    numbers: Tensor = b.op("iota", shape=[1, 1, e.groups], dtype="i32", dim=2)
    match = b.apply("equal", kept.reshape(tokens, e.chosen_groups, 1), numbers)
    open_groups: Tensor = b.op("reduce", match, combiner="logical_or", dims=[1])
    wide = b.op("broadcast", open_groups, shape=[tokens, e.groups, size], dims=[0, 1]).reshape(tokens, e.count)
    return scores, b.apply("select", wide, choice, b.scalar(-math.inf, "f32"))


def _route(b: GraphBuilder, x: Tensor, w: Mapping[str, Tensor], name: str, e: Experts) -> tuple[Tensor, Tensor]:
    """Selects experts; returns their weights and indices for each token, both [T, chosen]."""
    router = f"{name}.{e.router}"
    logits = b.project(x, w[f"{router}.weight"], name=router).convert("f32")
    scores, choice = _scored(b, logits, w.get(f"{router}.e_score_correction_bias"), e)
    values, numbers = b.op("top_k", choice, dim=1, k=e.chosen, dtype="i32", name="router.top_k", results=2)
    if choice is not scores:  # looks up the scores of the chosen experts in the table of all scores
        tokens = x.shape[0]
        first: Tensor = b.op("iota", shape=[tokens, 1], dtype="i32", dim=0)
        values = _rows(b, scores.reshape(-1, 1), first * e.count + numbers, "router.scores").reshape(tokens, e.chosen)
    if e.renormalised:
        values = values / values.sum(1, keep_dims=True)
    return values * e.scale if e.scale != 1 else values, numbers


def mix(b: GraphBuilder, x: Tensor, w: Mapping[str, Tensor], name: str, e: Experts) -> Tensor:
    """Computes the experts' part of a layer."""
    width, count = x.shape[-1], math.prod(x.shape[:-1]) * e.chosen
    flat = x.reshape(-1, width)
    weights, numbers = _route(b, flat, w, name, e)
    chosen = numbers.reshape(count)
    places: Tensor = b.op("iota", shape=[count], dtype="i32", dim=0)
    _, order = b.op("sort", chosen, places, dim=0, name="router.order", results=2)
    _, back = b.op("sort", order, places, dim=0, name="router.back", results=2)
    experts: Tensor = b.op("iota", shape=[1, e.count], dtype="i32", dim=1)
    sizes = b.apply("equal", chosen.reshape(count, 1), experts).convert("i32").sum(0)
    rows = _rows(b, flat, b.apply("floor_divide", order, b.scalar(e.chosen, "i32")), f"{name}.rows")
    factors = _rows(b, weights.reshape(count, 1), order, "router.weights").convert(x.dtype)
    rows = rows * factors if e.weighs_inputs else rows
    inner: Tensor = b.op(
        "ragged_contract", rows, w[f"{name}.experts.gate_up_proj"], sizes, b_transposed=e.transposed,
        name=f"{name}.experts.gate_up_proj",
    )  # fmt: skip
    half = inner.shape[1] // 2
    inner = b.apply("silu", inner[:, :half], name=f"{name}.experts.act_fn") * inner[:, half:]
    outer: Tensor = b.op(
        "ragged_contract", inner, w[f"{name}.experts.down_proj"], sizes, b_transposed=e.transposed,
        name=f"{name}.experts.down_proj",
    )  # fmt: skip
    outer = outer if e.weighs_inputs else outer * factors
    total = _rows(b, outer, back, f"{name}.gathered").reshape(-1, e.chosen, width).sum(1)
    if e.shared:
        total = total + _shared(b, flat, w, f"{name}.{e.shared_name}")
    return total.reshape(*x.shape)


def _shared(b: GraphBuilder, x: Tensor, w: Mapping[str, Tensor], name: str) -> Tensor:
    gate = b.apply("silu", b.project(x, w[f"{name}.gate_proj.weight"], name=f"{name}.gate_proj"))
    inner = gate * b.project(x, w[f"{name}.up_proj.weight"], name=f"{name}.up_proj")
    return b.project(inner, w[f"{name}.down_proj.weight"], name=f"{name}.down_proj")
