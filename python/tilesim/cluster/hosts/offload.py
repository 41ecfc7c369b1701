"""Times the offload of activations or optimizer state to the host's memory.

A device's link to its host is full duplex. A layer's activations leave during its forward pass and return before its
backward pass; optimizer state passes through the device during its update. Only exposed transfers add time, but all use
memory bandwidth of the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...base.errors import user_error
from ..columns import Columns
from ..fabric import Fabric
from ..memory import layer_activations
from ..plan import Plan

__all__ = ["OffloadBytes", "check", "exposed", "offload_bytes", "seconds", "state_bytes"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OffloadBytes:
    """Bytes in each direction: `layer` per layer and micro-batch, `state` of the optimizer per step."""

    layer: Array
    state: Array


def check(plan: Plan, fabric: Fabric) -> None:
    """Raises an error for a plan with offload on a cluster without host link rate."""
    if plan.offload != "none" and not fabric.host_link:
        raise user_error(
            "missing rate of the cluster's host links", place="host_bytes_per_second",
            value=f"{fabric.name or fabric.device.name}: none", allowed="bytes per second of a device, each direction",
            suggestion="Set ts.Cluster(host_bytes_per_second=...)",
        )  # fmt: skip


def state_bytes(c: Columns) -> Array:
    """Returns the fullest device's bytes of optimizer state: two moments, and a master copy below f32."""
    return c.owned_parameters * (8.0 + (4.0 if c.parameter_bytes < 4 else 0.0))


def offload_bytes(c: Columns, dropout: bool) -> OffloadBytes:
    """Returns the bytes moved to and from the host."""
    kept, inputs = layer_activations(c, dropout)
    layer = np.where(
        c.offload == 2, np.where(c.recomputes_layers, inputs, kept), np.where(c.recompute == 4, inputs, 0.0)
    )
    return OffloadBytes(layer, np.where(c.offload == 1, state_bytes(c), 0.0))


def seconds(bytes_: Array, fabric: Fabric) -> Array:
    """Returns the seconds of a transfer in one direction."""
    return bytes_ / fabric.host_link if fabric.host_link else np.zeros(np.shape(bytes_))


def exposed(bytes_: Array, busy: Array, fabric: Fabric, k: Mapping[str, float]) -> tuple[Array, Array]:
    """Returns exposed seconds of a transfer during `busy` seconds of compute, and seconds by which compute slows."""
    nothing = np.zeros(np.shape(bytes_))
    if not np.any(bytes_) or not fabric.host_link:
        return nothing, nothing
    moving = seconds(bytes_, fabric)
    if k["interference"] == 1.0:
        return moving, nothing
    share = fabric.host_link / fabric.device.memory.bytes_per_second
    return np.maximum(moving - busy, 0.0), share * np.minimum(moving, busy)
