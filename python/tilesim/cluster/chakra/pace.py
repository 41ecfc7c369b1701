"""How fast what runs at the same time goes on: ports are shared, and communication slows computing."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .matching import Quotient
from .sharing import Port, Use, fair

__all__ = ["Pace"]

_At = tuple[int, int]


@dataclass(slots=True, eq=False)
class _Item:
    """Something under way. `left` is of the time that it takes alone, of which a second takes `1 / rate` seconds."""

    nodes: Sequence[_At]
    uses: Sequence[tuple[int, Use]] | None  # per class of devices; none: it computes
    alone: int
    begin: int
    since: int
    left: float
    end: int
    rate: float = 1.0


class Pace:
    """What is under way on the devices of a quotient; `slowing` as of `run`."""

    def __init__(self, found: Quotient, slowing: float) -> None:
        self.slowing = slowing
        self.of: dict[_At, _Item] = {}
        self.talking: list[dict[int, tuple[_Item, Use]]] = [{} for _ in found.units]
        self.computing: list[dict[int, _Item]] = [{} for _ in found.units]
        self.changed: set[int] = set()
        self.ended: set[_At] = set()

    def begin(self, nodes: Sequence[_At], alone: int, now: int, uses: Sequence[tuple[int, Use]] | None) -> int:
        """Something begins.

        Args:
            nodes: that end with it.
            alone: picoseconds that it takes where nothing else runs.
            now: picoseconds.
            uses: of communication, per class of devices what it takes of ports; none: it computes.

        Returns:
            When it ends, if nothing changes.
        """
        item = _Item(nodes, uses, alone, now, now, alone, now + alone)
        if not alone:
            return now
        for node in nodes:
            self.of[node] = item
        if uses is None:
            number = nodes[0][0]
            self.computing[number][id(item)] = item
            if self.slowing:
                self.changed.add(number)
        for number, use in uses or ():
            mine = self.talking[number]
            known = mine.get(id(item))  # a class whose devices send to each other: out and in
            mine[id(item)] = (item, use if known is None else known[1] + use)
            self.changed.add(number)
        return item.end

    def due(self, at: _At, now: int) -> bool:
        """Whether a node ends now.

        Args:
            at: class of devices and place.
            now: picoseconds.

        Returns:
            False where it was slowed or sped up since that was said, or ended by what was said before.
        """
        item = self.of.get(at)
        return at not in self.ended if item is None else item.end == now

    def end(self, at: _At, now: int) -> int:
        """A node ends.

        Args:
            at: class of devices and place.
            now: picoseconds.

        Returns:
            By how many picoseconds it was slowed.
        """
        self.ended.add(at)
        item = self.of.pop(at, None)
        if item is None:
            return 0
        if item.uses is None:
            self.computing[at[0]].pop(id(item))
        for number, _ in item.uses or ():
            if self.talking[number].pop(id(item), None) is not None:
                self.changed.add(number)
        return max(0, now - item.begin - item.alone)

    def adjust(self, now: int, heap: list[tuple[int, int, int]]) -> None:
        """New rates where something began or ended; new ends go on the heap.

        Args:
            now: picoseconds.
            heap: of (end, class, place).
        """
        asked: dict[int, _Item] = {}
        for number in self.changed:
            for item, _ in self.talking[number].values():
                asked[id(item)] = item
            if self.slowing:
                asked.update(self.computing[number])
        known: dict[int, dict[int, float]] = {}
        for number in {number for item in asked.values() for number, _ in item.uses or ()}:
            known[number] = self._rates(number)
        self.changed.clear()
        for item in asked.values():
            if item.uses is None:
                rate = 1.0 - self.slowing if self.talking[item.nodes[0][0]] else 1.0
            else:
                rate = min((known[number][id(item)] for number, _ in item.uses), default=1.0)
            if rate == item.rate:
                continue
            item.left -= (now - item.since) * item.rate
            item.since, item.rate = now, rate
            end = now + math.ceil(max(0.0, item.left) / rate - 1e-3)
            if end != item.end:
                item.end = end
                for at in item.nodes:
                    heapq.heappush(heap, (end, *at))

    def _rates(self, number: int) -> dict[int, float]:
        """Of what devices of a class send and receive."""
        mine = self.talking[number]
        if len(mine) == 1:
            ((one, (_, use)),) = mine.items()
            return {one: min((1 / share for _, share in use if share > 1), default=1.0)}
        ports: dict[Port, list[tuple[int, float]]] = {}
        for one, (_, use) in mine.items():
            for port, share in use:
                ports.setdefault(port, []).append((one, share))
        rates = dict.fromkeys(mine, 1.0)
        for asking in ports.values():
            for (one, _), part in zip(asking, fair([share for _, share in asking]), strict=True):
                rates[one] = min(rates[one], part)
        return rates
