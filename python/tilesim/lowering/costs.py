"""Times single operations in closed form, on a machine's device or on its host, in picoseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import _core
from ..analytic.operations import Costs
from ..graph import Graph
from ..machine.device import Device

__all__ = ["Estimator"]


class Estimator:
    """Prices a graph's operations on one device; operations without a closed form cost their FLOPs and bytes."""

    def __init__(self, graph: Graph, device: Device) -> None:
        """Prices every operation as a separate kernel, because the placement is not known yet."""
        fastest = max(rate.flops_per_second for rate in device.matrix.values())
        lanes = {name: device.vector_rate(name) for name in _core.dtype_names()}
        found = Costs(device, None, "", None).complete(
            lambda model: _core.price_on_host(model, fastest, lanes, device.unit, graph.core)
        )
        self.notes = set(found.notes)
        self._seconds = dict(found.seconds)

    def picoseconds(self, op: Mapping[str, Any]) -> int:
        """Returns the time of one operation in picoseconds, rounded up."""
        return math.ceil(self.seconds(op) * 1e12)

    def seconds(self, op: Mapping[str, Any]) -> float:
        """Returns the time of one operation in seconds."""
        return self._seconds[op["name"]]
