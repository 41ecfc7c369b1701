"""Cost model with three constants: seconds per call, per step of a bidirectional ring, and share of the rate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .model import RINGS, Query

__all__ = ["costs", "seconds"]

NEEDED = ("call_seconds", "step_seconds", "share")
Array = NDArray[np.float64]


def costs(c: Mapping[str, float], q: Query) -> dict[str, Array]:
    """Returns the seconds of each term of calls."""
    local = q.devices / q.nodes
    if q.op in RINGS:
        steps = np.floor(q.devices / 2) * (2.0 if q.op == "all_reduce" else 1.0)
        path = np.where(q.nodes > 1, np.minimum(np.where(local > 1, q.link, np.inf), q.node_link * local), q.link)
        transfer = q.ring_bytes() / path
    elif q.op == "permute_devices":
        steps = np.ones_like(q.bytes)
        transfer = q.bytes / np.where(q.nodes > 1, q.node_link, q.link)
    else:
        steps = np.floor(q.devices / 2)
        part = q.bytes / q.devices
        across = np.where(q.nodes > 1, (q.devices - local) * part / q.node_link, 0.0)
        transfer = np.maximum((local - 1) * part / q.link, across)
    return {
        "call": np.full_like(q.bytes, c["call_seconds"]),
        "latency": steps * c["step_seconds"],
        "transfer": transfer / c["share"],
    }


def seconds(c: Mapping[str, float], q: Query) -> Array:
    """Returns the seconds of each call."""
    terms = costs(c, q)
    result: Array = terms["call"] + terms["latency"] + terms["transfer"]
    return result
