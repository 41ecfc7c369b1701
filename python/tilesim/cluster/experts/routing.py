"""Computes the imbalance of tokens over the devices of an expert axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...models.layered import Layered

__all__ = ["imbalance", "spread"]

Array = NDArray[np.float64]


def spread(counts: Sequence[float], devices: int) -> float:
    """Returns the ratio of the fullest device's tokens to the mean; device d has the d-th part of the experts."""
    each = np.asarray(counts, dtype=np.float64).reshape(devices, -1).sum(axis=1)
    return float(each.max() / each.mean())


@lru_cache(maxsize=4096)
def _seeded(seed: int, experts: int, tokens: int, chosen: int, devices: int) -> float:
    """Returns the imbalance if tokens choose experts independently at random."""
    counts = np.random.default_rng(seed).multinomial(tokens * chosen, [1.0 / experts] * experts)
    return spread(np.minimum(counts, tokens).tolist(), devices)


def imbalance(workloads: Sequence[Layered], expert: Array, tokens: Array) -> Array:
    """Returns the load imbalance of each step: highest load on an expert axis over the mean."""
    found = np.ones(len(expert))
    if all(one.routing is None for one in workloads):
        return found
    for row, devices in enumerate(expert.astype(int).tolist()):
        one = workloads[row if len(workloads) > 1 else 0]
        if devices == 1 or one.routing is None:
            continue
        if isinstance(one.routing, tuple):
            found[row] = spread(one.routing, devices)
        else:
            count = int(np.ceil(tokens[row])) * devices
            found[row] = _seeded(one.routing, one.experts, count, one.experts_chosen, devices)
    return found
