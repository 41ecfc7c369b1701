"""Devices that compute slower than the others: what waits for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..fabric import Fabric

__all__ = ["slowed"]

Array = NDArray[np.float64]


def _stretched(c: Columns, fabric: Fabric, layer: Array, ends: Array) -> list[tuple[Array, Array, Array]]:
    """Per slow device: its stage, whether that is the last one, and the seconds that it adds to a micro-batch there."""
    found = []
    for device, share in fabric.slow:
        stage = np.floor(device / (c.devices / c.pipeline))
        last = stage == c.pipeline - 1
        layers = np.where(last & (c.pipeline > 1), c.layers / c.pipeline, c.stage_layers)
        found.append((stage, last, (layers * layer + np.where(last, ends, 0.0)) * (1 / share - 1)))
    return found


def slowed(
    c: Columns, fabric: Fabric, fullest: Array, slowest: Array, whole: Array, computed: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Stages with slow devices: all of a stage's sums wait for the slowest of them.

    Args:
        c: workloads and plans.
        fabric: with slow devices.
        fullest: seconds of a micro-batch on a stage with most layers.
        slowest: on the slowest stage.
        whole: on all stages, one after another.
        computed: seconds that one layer computes in all its passes, and head and embedding on the last stage.

    Returns:
        `slowest` and `whole` with what slow devices add, and the most that one stage gets.
    """
    most, usual = np.zeros(len(c)), slowest
    before: list[tuple[Array, Array]] = []
    for stage, last, more in _stretched(c, fabric, *computed):
        end = fullest - c.stage_layers * computed[0] + c.layers / c.pipeline * computed[0] + computed[1]
        own = np.where(last, np.maximum(end, np.where(c.pipeline > 1, 0.0, usual)), fullest)
        counted = [np.where(other == stage, seconds, 0.0) for other, seconds in before]
        added = np.maximum(more - np.max([np.zeros(len(c)), *counted], axis=0), 0.0)  # a stage has one slowest device
        slowest, whole = np.maximum(slowest, own + more), whole + added
        most = np.maximum(most, more)
        before.append((stage, more))
    return slowest, whole, most
