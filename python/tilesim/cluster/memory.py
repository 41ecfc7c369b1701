"""Computes the memory of a device in a training step by reason, for many plans.

Activations are the tensors that each operation of a layer stores for its gradient, by Korthikanti et al.
(2205.05198): 34 bytes per token and width of an f16 layer without gates, and 5 per stored score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from .columns import Columns
from .plan import SCHEDULES

__all__ = ["GIB", "REASONS", "Memory", "fullest", "memory", "training_bytes"]

Array = NDArray[np.float64]
GIB = float(1 << 30)
REASONS = {
    "weights": "parameters in the products' dtype, and two gathered layers (or a stage's only one) with zero3",
    "gradients": "one per parameter, in the dtype of their reduction",
    "optimizer": "a master copy for products below f32, and two moments",
    "activations": "stored tensors of layers for gradients, times the micro-batches in flight",
    "working": "a recomputed layer; logits and their gradient; layers in transfer to and from the host; "
    "gradients of zero2 in reduction",
    "cache": "keys and values of a prefill or decode step",
}


@dataclass(frozen=True)
class Memory:
    """Bytes of a device by reason, one number per plan."""

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array
    working: Array
    middle_weights: Array
    middle_state: Array
    cache: Array | float = 0.0

    @property
    def peak(self) -> Array:
        """Total bytes of all reasons."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.working + self.cache


def layer_activations(c: Columns, dropout: bool) -> tuple[Array, Array]:
    """Returns the bytes that one layer stores per micro-batch, and the bytes of its input."""
    e, mask, t = c.element_bytes, 1.0 if dropout else 0.0, c.tensor
    shared = np.where(c.sequence_parallel, t, 1.0)
    per_token = c.hidden
    # inputs of two normalizations and of the operations that read them; two dropout masks
    whole = per_token * (4 * e + 2 * mask) / shared
    width = c.heads * c.head_size
    keys = 2 * c.local_kv_heads * c.head_size * e  # keys and values
    # if attention is sharded by heads, its fused output is stored in both shardings
    both = np.where(c.by_heads & ~c.unfused, width * e / t, 0.0)
    inside = 2 * width * e / t + keys + both
    chosen = np.where(c.experts > 0, c.experts_chosen, 1.0) * c.imbalance
    inner = c.ffn * np.where(c.gated, 3, 2) * e * chosen / t
    scores = c.heads * c.keys / t * (2 * e + mask)
    statistics = c.heads / t * 4
    kept_scores = np.where(c.unfused & (c.recompute != 1.0), scores, np.where(c.unfused, 0.0, statistics))
    again = c.recompute == 3.0  # "minimal" stores only the outputs of products
    minimal = (2 * width + c.hidden) * e / t + keys + c.ffn * np.where(c.gated, 2, 1) * e / t
    full = np.where(again, minimal + c.hidden * e / shared, whole + inside + inner + kept_scores)
    return c.tokens * full, c.tokens * c.hidden * e / shared


def gathered_parameters(c: Columns) -> Array:
    """Returns the number of parameters that zero3 gathers for the running layer."""
    return np.where(c.shard >= 3, _sharded_parameters(c), 0.0)


def _sharded_parameters(c: Columns) -> Array:
    """Returns the parameters of a layer that are sharded over more than one device."""
    shared = np.where(c.state_replicas > 1, c.shared_layer_parameters, 0.0)
    return shared + np.where(c.state_expert_replicas > 1, c.routed_layer_parameters, 0.0)


def held_micro_batches(c: Columns, stage: Array | float = 0.0) -> Array:
    """Returns the number of micro-batches whose activations a stage stores."""
    p, v, m = c.pipeline, c.virtual, c.micro_batches
    held = np.where(v > 1, p + (p - 1 - 2 * stage) / v, p - stage)
    late = np.isin(c.schedule, [SCHEDULES.index(name) for name in ("zb-h1", "zb-v")])  # weight gradients come later
    held = np.where(late, p, held)
    held = np.where(c.schedule == SCHEDULES.index("zb-h2"), 2 * p - 1, held)
    held = np.where(c.copies > 1, p + 1, held)
    return np.where(c.gpipe, m, np.minimum(m, held))


def training_bytes(c: Columns, k: Mapping[str, float], stage: Array | float) -> Memory:
    """Returns the bytes that a device of one stage needs in a training step."""
    e = c.parameter_bytes
    # for sharding of state, gradients, parameters: parameters of a device and of a layer
    every = [c.parameters(c.shard >= level, stage) for level in (1, 2, 3)]
    layer = [c.parameters_of_layer(c.shard >= level) for level in (1, 2, 3)]
    middle = [c.copies * c.stage_layers * one for one in layer]
    _, most = c.both_layers(stage)
    # the running layer and the next one are gathered at the same time
    two = np.minimum(2.0, most)
    gathered = two * gathered_parameters(c) * c.element_bytes
    kept, inputs = layer_activations(c, k["dropout"] > 0)
    once = np.where(c.recomputes_layers, inputs, kept)
    away = (c.offload == 2) | (c.recompute == 4.0)  # these activations move to the host
    # one recomputed layer, or two layers (or their state) in transfer to the host
    working = np.where(c.recomputes_layers, kept, 0.0) + np.where(away, two * once, 0.0)
    logits = c.tokens * c.vocab / c.tensor * (c.element_bytes + 4)
    state = 8.0 + (4.0 if e < 4 else 0.0)
    # gradients of the running layer, and of the previous one during its reduction
    working = working + np.where(c.shard == 2, two * _sharded_parameters(c) * k["gradient_bytes"], 0.0)
    offloaded = np.where(c.offload == 1, 0.0, 1.0)
    gradient = k["state_gradient_bytes"]
    working = working + np.where(c.offload == 1, two * layer[0] * state, 0.0)
    return Memory(
        weights=every[2] * e + gathered,
        gradients=every[1] * gradient,
        optimizer=offloaded * every[0] * state,
        activations=np.where(away, 0.0, once * most * held_micro_batches(c, stage)),
        working=working + np.where(c.has_head(stage), logits, 0.0),
        middle_weights=middle[2] * e,
        middle_state=middle[1] * gradient + middle[0] * offloaded * state,
    )


def fullest(c: Columns, of: Callable[[Array], Memory]) -> Memory:
    """Returns the bytes of the fullest stage: first (most activations), last (logits), or for dualpipe the middle."""
    found = of(np.zeros(len(c)))
    others = [c.pipeline - 1.0] if np.any(c.pipeline > 1) else []
    others += [np.floor(c.pipeline / 2)] if np.any(c.copies > 1) else []
    for stage in others:
        other = of(stage)
        more = other.peak > found.peak
        names = [one.name for one in fields(Memory)]
        found = Memory(**{name: np.where(more, getattr(other, name), getattr(found, name)) for name in names})
    return found


def memory(c: Columns, k: Mapping[str, float]) -> Memory:
    """Returns the bytes that a training step needs on its fullest device."""
    return fullest(c, lambda stage: training_bytes(c, k, stage))
