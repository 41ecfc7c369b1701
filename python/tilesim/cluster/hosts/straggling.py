"""Models stragglers, devices with slower compute."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...base.checked import is_integer, is_number
from ...base.errors import shown, user_error
from ..columns import Columns
from ..fabric import Fabric

__all__ = ["factors_of", "slowed", "slower"]

Array = NDArray[np.float64]


def slower(fabric: Fabric, factors: Mapping[int, float] | None) -> Fabric:
    """Adds slower devices to a fabric."""
    if not factors:
        return fabric
    shares = dict(fabric.slow)
    for device, factor in factors_of(factors, fabric.devices).items():
        shares[device] = shares.get(device, 1.0) / factor
    return replace(fabric, slow=tuple(sorted((device, share) for device, share in shares.items() if share < 1)))


def factors_of(slow: Mapping[int, float], devices: int) -> dict[int, float]:
    """Checks the option `slow` of a step; returns slow-down factors by device."""
    found = {}
    for device, factor in slow.items():
        if not (is_integer(device) and 0 <= device < devices and is_number(factor) and 1 <= factor < math.inf):
            raise user_error("not a slow device", place="slow", value=f"{shown(device)}: {shown(factor)}",
                             allowed=f"a device from 0 to {devices - 1} with a factor of at least 1",
                             suggestion="" if devices else "Name a cluster with a number of devices")  # fmt: skip
        found[operator.index(device)] = float(factor)
    return found


def _stretched(c: Columns, fabric: Fabric, layer: Array, ends: Array) -> list[tuple[Array, Array, Array]]:
    """Returns, per slow device, its stage, whether this is the last one, and the extra seconds per micro-batch."""
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
    """Extends stage times by slow devices, because a stage waits for its slowest device."""
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
