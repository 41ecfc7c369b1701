"""Simulates communication inside a device: memory, DMA, and the units that add."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...base.table import Table
from ..chakra.matching import Quotient
from ..chakra.pricing import Communication
from ..communication import CollectiveResult
from ..networks import in_network
from ..pipelines.result import PICO
from .predicting import Engine, Predicted
from .sending import Exchange

__all__ = ["DeviceCommunication", "exchange_of"]


def exchange_of(result: CollectiveResult, latency_ps: int) -> Exchange:
    """Returns the bytes at a device's port in a collective.

    A device sends from memory and receives into memory. In an all-reduce over links, it adds half of the received
    bytes to its own data, in a reduce-scatter all of them, and none if switches reduce.
    """
    sent = received = math.ceil(result.wire_bytes)
    summed = {"all_reduce": -(-sent // 2), "reduce_scatter": sent}.get(result.op, 0)
    if result.algorithm == in_network.NAME:
        summed, n = 0, result.devices // result.groups
        received = {"all_gather": result.bytes - result.bytes // n, "reduce_scatter": -(-result.bytes // n)}.get(
            result.op, sent
        )
    latency = min(latency_ps, result.picoseconds)
    return Exchange(sent, received, summed, result.dtype, latency, result.picoseconds - latency)


@dataclass
class DeviceCommunication(Communication):
    """Times communication on the simulated device; `predicted` caches simulations by content."""

    predicted: dict[str, Predicted] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def picoseconds(self, key: Any, size: int, priced: Callable[[int], CollectiveResult]) -> int:
        """Returns a collective's picoseconds on the simulated device, at least the network's time."""
        found = priced(size)
        exchange = exchange_of(found, priced(1).picoseconds)
        if not exchange.sent and not exchange.received:
            return found.picoseconds
        name = f"exchange {exchange}"
        if name not in self.predicted:
            self.predicted[name] = Engine.exchanged(exchange, self.cluster.device)
        took = self.predicted[name]
        self.rows[name] = {
            "op": found.op, "bytes": size, "devices": found.devices, "seconds": took.seconds,
            "network_seconds": found.seconds, "sent_bytes": exchange.sent, "received_bytes": exchange.received,
            "loaded_bytes": exchange.loaded, "bound": max(took.terms, key=lambda name: took.terms[name]),
            **{f"{name}_seconds": value for name, value in took.terms.items()},
        }  # fmt: skip
        inside = math.ceil(round(took.seconds * PICO, 3))
        self.within[key] = found.picoseconds, inside
        return max(found.picoseconds, inside)

    def note(self, quotient: Quotient) -> None:
        """Adds simulated times to a trace's nodes, so that written files have them."""
        of_message = {(size, *pair): self.within[key] for key in sorted(self.within, key=self.cached.__getitem__)
                      if key[0] == "permute" for size in key[1:2] for pair in key[2]}  # fmt: skip
        for unit in quotient.units:
            for at, node in enumerate(unit.part.nodes):
                within = None
                if node.kind == "collective":
                    within = self.within.get((node.op, node.bytes, quotient.groups[unit.groups[node.group]]))
                elif node.kind == "send":
                    within = of_message.get((node.bytes, unit.devices[0], node.peers[unit.at]))
                if within is not None:
                    unit.within[at] = within

    def table(self) -> Table:
        """Lists the simulation of each distinct communication."""
        return Table(list(self.rows.values()), empty="not simulated")
