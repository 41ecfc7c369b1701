"""Computes the memory of a device in an inference step by reason, for many plans."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..memory import Memory, fullest, gathered_parameters

__all__ = ["cache_bytes", "inference_bytes", "memory"]

Array = NDArray[np.float64]


def cache_bytes(c: Columns, stage: Array | float = 0.0) -> Array:
    """Returns the bytes of keys and values of all sequences of a replica on one device of a stage.

    A device has at least one key head: a tensor axis longer than `kv_heads` replicates them. A context axis shards the
    tokens of each sequence.
    """
    heads = c.local_kv_heads
    tokens = np.ceil(c.sequence / c.context) * c.global_batch / c.data
    return 2 * heads * c.head_size * c.element_bytes * tokens * c.part_layers(stage)


def memory(c: Columns) -> Memory:
    """Returns the bytes of an inference step on its fullest device."""
    return fullest(c, lambda stage: inference_bytes(c, stage))


def inference_bytes(c: Columns, stage: Array | float) -> Memory:
    """Returns the bytes of a device of one stage in an inference step."""
    e, zero = c.element_bytes, np.zeros(len(c))
    divided = c.shard >= 3
    two = np.minimum(2.0, c.part_layers(stage))  # the running layer and the next one
    gathered = two * gathered_parameters(c) * e
    attended = (2 * c.heads / c.tensor + 2 * c.local_kv_heads) * c.head_size * e
    # if attention is sharded by heads, send and receive buffers of the outputs coexist
    attended = attended + np.where(c.by_heads, c.heads / c.tensor * c.head_size * e, 0.0)
    attended = attended + np.where(c.unfused, c.heads / c.tensor * c.keys / c.context * e, 0.0)
    chosen = np.where(c.experts > 0, c.experts_chosen, 1.0) * c.imbalance
    inner = c.ffn * np.where(c.gated, 3, 2) * chosen / c.tensor * e
    tokens = c.tokens * (2 * c.hidden * e + np.maximum(attended, inner))
    logits = c.micro_batch * c.vocab / c.tensor * (e + 4)
    return Memory(
        weights=c.parameters(divided, stage) * e + gathered,
        gradients=zero,
        optimizer=zero,
        activations=zero,
        working=np.maximum(tokens, np.where(c.has_head(stage), logits, 0.0)),
        middle_weights=c.stage_layers * c.parameters_of_layer(divided) * e,
        middle_state=zero,
        cache=cache_bytes(c, stage),
    )
