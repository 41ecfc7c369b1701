"""Computes rates of concurrent nodes: communications share links, and communication slows computing."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .matching import Quotient
from .sharing import Demand, rates

__all__ = ["ConcurrentRates"]

_At = tuple[int, int]


@dataclass(slots=True, eq=False)
class _RunningNode:
    """A running node; `left` is its remaining time at full rate, and takes `left / rate`."""

    nodes: Sequence[_At]
    units: Sequence[int]  # devices that communicate
    demand: Demand | None
    standalone: int
    begin: int
    since: int
    remaining: float
    end: int
    rate: float = 1.0


class ConcurrentRates:
    """The running nodes of all device classes; `slowing` as for `run`."""

    def __init__(self, quotient: Quotient, slowing: float) -> None:
        self.slowing = slowing
        self.demands = quotient.demands
        self.of: dict[_At, _RunningNode] = {}
        self.talking: list[set[int]] = [set() for _ in quotient.units]
        self.computing: list[dict[int, _RunningNode]] = [{} for _ in quotient.units]
        self.on: dict[int, dict[int, _RunningNode]] = {}  # link -> nodes that use it
        self.changed: set[int] = set()  # classes of devices whose nodes changed
        self.touched: set[int] = set()  # links whose nodes changed
        self.ended: set[_At] = set()

    def begin(self, nodes: Sequence[_At], alone: int, now: int, units: Sequence[int] = ()) -> int:
        """Begins a node; returns its expected end."""
        demand = self.demands.get(nodes[0]) if units else None
        item = _RunningNode(nodes, units, demand, alone, now, now, alone, now + alone)
        if not alone:
            return now
        for node in nodes:
            self.of[node] = item
        if not units:
            number = nodes[0][0]
            self.computing[number][id(item)] = item
            if self.slowing:
                self.changed.add(number)
        if demand is not None:  # communication without bytes has no demand
            for number in units:
                self.talking[number].add(id(item))
                self.changed.add(number)
            for link in demand.links:
                self.on.setdefault(link, {})[id(item)] = item
                self.touched.add(link)
        return item.end

    def due(self, at: _At, now: int) -> bool:
        """Whether a node ends now."""
        item = self.of.get(at)
        return at not in self.ended if item is None else item.end == now

    def end(self, at: _At, now: int) -> int:
        """Ends a node; returns the delay by concurrent nodes."""
        self.ended.add(at)
        item = self.of.pop(at, None)
        if item is None:
            return 0
        if not item.units:
            self.computing[at[0]].pop(id(item))
        elif item.demand is not None:
            for number in item.units:
                self.talking[number].discard(id(item))
                self.changed.add(number)
            for link in item.demand.links:
                if self.on[link].pop(id(item), None) is not None:
                    self.touched.add(link)
        return max(0, now - item.begin - item.standalone)

    def adjust(self, now: int, heap: list[tuple[int, int, int]]) -> None:
        """Updates rates after nodes began or ended, and pushes their new ends on the heap."""
        found: list[tuple[_RunningNode, float]] = []
        if self.slowing:
            for number in self.changed:
                rate = 1.0 - self.slowing if self.talking[number] else 1.0
                found += [(item, rate) for item in self.computing[number].values()]
        for items in self._meeting():
            found += zip(items, rates([item.demand for item in items if item.demand is not None]), strict=True)
        self.changed.clear()
        self.touched.clear()
        for item, rate in found:
            if rate == item.rate:
                continue
            item.remaining -= (now - item.since) * item.rate
            item.since, item.rate = now, rate
            end = now + math.ceil(max(0.0, item.remaining) / rate - 1e-3)
            if end != item.end:
                item.end = end
                for at in item.nodes:
                    heapq.heappush(heap, (end, *at))

    def _meeting(self) -> list[list[_RunningNode]]:
        """Returns the nodes that use changed links, in groups that share links."""
        found: list[list[_RunningNode]] = []
        seen: set[int] = set()
        for first in sorted(self.touched):
            stack, items = [first], {}
            while stack:
                link = stack.pop()
                if link in seen:
                    continue
                seen.add(link)
                for name, item in self.on[link].items():
                    if name not in items and item.demand is not None:
                        items[name] = item
                        stack.extend(item.demand.links)
            if items:
                found.append(sorted(items.values(), key=lambda item: tuple(item.nodes)))
        return found
