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
    """Costs of a graph's operations on one device; those without a specific closed form are streams at stated rates."""

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
        """Time of one operation in picoseconds, rounded up."""
        return math.ceil(self.seconds(op) * 1e12)

    def seconds(self, op: Mapping[str, Any]) -> float:
        """Time of one operation in seconds."""
        return self._seconds[op["name"]]
