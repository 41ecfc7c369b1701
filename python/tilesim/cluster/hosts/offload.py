"""What is kept in the host's memory: activations of layers, or the optimizer's state.

A device's link to its host carries both directions at once. Activations of a layer leave while the layer computes and
come back before its gradient; the state passes through the device while it is updated. Only what that does not hide is
counted, and what it hides takes its bytes from the rate of the device's memory.
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

__all__ = ["Moved", "check", "exposed", "moved", "seconds", "state_bytes"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Moved:
    """Bytes in each direction: of a layer and micro-batch, and of the optimizer's state once a step."""

    layer: Array
    state: Array


def check(plan: Plan, fabric: Fabric) -> None:
    """Whether the host's link is known where a plan needs it."""
    if plan.offload != "none" and not fabric.host_link:
        raise user_error(
            "the cluster does not say how fast its hosts' links are", place="host_bytes_per_second",
            value=f"{fabric.name or fabric.device.name}: none", allowed="bytes per second of a device, each direction",
            suggestion="ts.Cluster(host_bytes_per_second=...)",
        )  # fmt: skip


def state_bytes(c: Columns) -> Array:
    """The optimizer's state of the parameters that the fullest device owns: two moments, a master copy below f32."""
    return c.owned_parameters * (8.0 + (4.0 if c.parameter_bytes < 4 else 0.0))


def moved(c: Columns, dropout: bool) -> Moved:
    """Bytes that go to the host and come back."""
    kept, inputs = layer_activations(c, dropout)
    layer = np.where(c.offload == 2, np.where(c.again, inputs, kept), np.where(c.recompute == 4, inputs, 0.0))
    return Moved(layer, np.where(c.offload == 1, state_bytes(c), 0.0))


def seconds(bytes_: Array, fabric: Fabric) -> Array:
    """Seconds of a transfer in one direction, hidden or not."""
    return bytes_ / fabric.host_link if fabric.host_link else np.zeros(np.shape(bytes_))


def exposed(bytes_: Array, busy: Array, fabric: Fabric, k: Mapping[str, float]) -> tuple[Array, Array]:
    """Seconds that a transfer in one direction adds to what the device does meanwhile."""
    nothing = np.zeros(np.shape(bytes_))
    if not np.any(bytes_) or not fabric.host_link:
        return nothing, nothing
    moving = seconds(bytes_, fabric)
    if k["interference"] == 1.0:
        return moving, nothing
    share = fabric.host_link / fabric.device.memory.bytes_per_second
    return np.maximum(moving - busy, 0.0), share * np.minimum(moving, busy)
