"""Time of single operations in closed form, on a machine's device or on its host, in picoseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .analytic import vector
from .analytic.operations import Costs, cost_of
from .device import Device
from .errors import Unsupported
from .graph import Graph

__all__ = ["Estimator"]

# Each step needs the one before: one unit of the device works on a matrix, others on further ones of the batch.
SERIAL = {"linear_solve": 2, "sort": 1, "top_k": 1, "while": None}


class Estimator:
    """Costs of a graph's operations on one device; what has no closed form of its own is a stream at stated rates."""

    def __init__(self, graph: Graph, device: Device) -> None:
        """Takes the graph's readers and producers, so that what follows a kernel is fused.

        Args:
            graph: the workload; calls count as the sum of their operations.
            device: whose rates.
        """
        self.graph, self.device = graph, device
        self.notes: set[str] = set()
        self._costs = Costs(device, None, "", None)
        self._producers: dict[str, str] = {}
        self._uses: dict[str, int] = {}
        for op in graph.operations():
            self._producers.update({result["name"]: op["kind"] for result in op["results"]})
            for operand in op["operands"]:
                if operand is not None:
                    self._uses[operand["name"]] = self._uses.get(operand["name"], 0) + 1

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
        if op["kind"] in SERIAL:
            return self._stream(op)
        try:
            present = {**op, "operands": [operand for operand in op["operands"] if operand is not None]}
            return float(cost_of(present, self._costs, self._producers, self._uses).seconds)
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
