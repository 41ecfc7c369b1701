"""Time of single operations in closed form, on a machine's device or on its host, in picoseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..analytic import vector
from ..analytic.operations import Costs, cost_of
from ..base.errors import Unsupported
from ..graph import Graph
from ..machine.device import Device

__all__ = ["Estimator"]

# Each step needs the one before: one unit of the device works on a matrix, others on further ones of the batch.
SERIAL = {"linear_solve": 2, "sort": 1, "top_k": 1, "while": None}
_FREE = ("reshape", "bitcast", "constant")


class Estimator:
    """Costs of a graph's operations on one device; what has no closed form of its own is a stream at stated rates."""

    def __init__(self, graph: Graph, device: Device) -> None:
        """Every operation is a kernel of its own: where its operands were made is not known before all are placed.

        Args:
            graph: the workload; calls count as the sum of their operations.
            device: whose rates.
        """
        self.graph, self.device = graph, device
        self.notes: set[str] = set()
        self._costs = Costs(device, None, "", None)

    def picoseconds(self, op: Mapping[str, Any]) -> int:
        """Time of one operation.

        Args:
            op: as `Graph.operations` gives it.

        Returns:
            Picoseconds, rounded up.
        """
        return math.ceil(self.seconds(op) * 1e12)

    def seconds(self, op: Mapping[str, Any]) -> float:
        """Time of one operation.

        Args:
            op: as `Graph.operations` gives it.

        Returns:
            Seconds.
        """
        if op["functions"] and op["kind"] in ("call", "while", "branch", "fused"):
            return self._control(op)
        return max(self._closed_form(op), self.roofline(op))

    def roofline(self, op: Mapping[str, Any]) -> float:
        """The least time that the device's peak rates allow: bytes over bandwidth, arithmetic over its rate.

        Args:
            op: as `Graph.operations` gives it.

        Returns:
            Seconds; 0 for what gives the same bytes another shape or type, and for constants.
        """
        if op["kind"] in _FREE:
            return 0.0
        matrix = max(rate.flops_per_second for rate in self.device.matrix.values())
        others = math.fsum(count for kind, count in op["flops"].items() if kind != "matrix")
        dtype = op["results"][0]["dtype"] if op["results"] else "f32"
        moved = float(op["bytes"]) / self.device.memory.bytes_per_second
        return max(moved, op["flops"]["matrix"] / matrix, others / self._vector_peak(dtype))

    def _vector_peak(self, dtype: str) -> float:
        return max(self.device.vector_rate(dtype), self.device.vector_rate("f32"))

    def _closed_form(self, op: Mapping[str, Any]) -> float:
        if op["kind"] in SERIAL or op["kind"] == "iota":
            return self._stream(op)
        try:
            present = {**op, "operands": [operand for operand in op["operands"] if operand is not None]}
            return float(cost_of(present, self._costs, {}, {}).seconds)
        except Unsupported:
            return self._stream(op)

    def _control(self, op: Mapping[str, Any]) -> float:
        bodies = [sum(map(self.seconds, self.graph.operations(name))) for name in op["functions"]]
        if op["kind"] == "branch":
            return max(bodies, default=0.0)
        trips = 1
        if op["kind"] == "while":
            trips = int(op["attributes"].get("trips", 0))
            if trips <= 0:
                self.notes.add(f"{op['name']}: the number of trips is not known, one is counted")
                trips = 1
        return sum(bodies) * trips

    def _stream(self, op: Mapping[str, Any]) -> float:
        """Launch, then arithmetic at half the peak of the units that can work, or bytes at the memory's usual rate."""
        shares = vector.constants_of(self.device, "copy", "fp32").constants
        shape = op["operands"][0]["shape"] if op["operands"] and op["operands"][0] else ()
        own = SERIAL.get(op["kind"], 0) or 0
        alike = math.prod(shape[: max(0, len(shape) - own)]) if op["kind"] in SERIAL else self.device.units
        units = max(1, min(self.device.units, alike))
        rate = self.device.vector_rate("f32") * shares["lanes_share"] * units / self.device.units
        moved = float(op["bytes"]) / (self.device.memory.bytes_per_second * shares["memory_share"])
        self.notes.add(
            f"{op['kind']}: no closed form of its own; {shares['lanes_share']:.0%} of the peak rate of {units} "
            f"{self.device.unit}{'s' * (units > 1)}, {shares['memory_share']:.0%} of the memory's"
        )
        return float(shares["launch"] + max(sum(op["flops"].values()) / rate, moved))
