"""Bytes of a device in a prefill or decode step, with reasons, for many plans at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..memory import Memory, gathered_parameters

__all__ = ["cache_bytes", "memory"]

Array = NDArray[np.float64]


def cache_bytes(c: Columns) -> Array:
    """Keys and values of all sequences of a replica that lie on one device of the fullest stage.

    A device has at least one head of keys: a tensor axis longer than `kv_heads` stores copies. A context axis divides
    the tokens of each sequence.

    Args:
        c: workloads and plans.

    Returns:
        Bytes.
    """
    heads = c.own_kv_heads
    tokens = np.ceil(c.sequence / c.context) * c.global_batch / c.data
    return 2 * heads * c.head_size * c.element_bytes * tokens * c.stage_layers


def memory(c: Columns) -> Memory:
    """Bytes of a step without gradients.

    Args:
        c: workloads and plans.

    Returns:
        The bytes by reason; the largest working set is that of attention or the feed-forward part, or the logits.
    """
    e, zero = c.element_bytes, np.zeros(len(c))
    divided = c.shard >= 3
    two = np.minimum(2.0, c.stage_layers)  # the layer that runs and the next
    gathered = two * gathered_parameters(c) * e
    tables = np.where(~c.tied & (c.pipeline == 1), c.table_parameters / c.tensor, 0.0)
    every = c.kept(divided) + tables / np.where(divided, c.replicas, 1.0)
    attended = (2 * c.heads / c.tensor + 2 * c.own_kv_heads) * c.head_size * e
    attended = attended + np.where(c.unfused, c.heads / c.tensor * c.keys / c.context * e, 0.0)
    chosen = np.where(c.experts > 0, c.experts_chosen, 1.0) * c.imbalance
    inner = c.ffn * np.where(c.gated, 3, 2) * chosen / c.tensor * e
    tokens = c.tokens * (2 * c.hidden * e + np.maximum(attended, inner))
    logits = c.micro_batch * c.vocab / c.tensor * (e + 4)
    return Memory(
        weights=every * e + gathered,
        gradients=zero,
        optimizer=zero,
        activations=zero,
        working=np.maximum(tokens, np.where(c.pipeline == 1, logits, 0.0)),
        middle_weights=c.stage_layers * c.kept_of_layer(divided) * e,
        middle_state=zero,
        held=np.ones(len(c)),
        cache=cache_bytes(c),
    )
