"""Computes the use of links by communications, and the rates of concurrent ones.

The paths of all messages give a communication's bytes on a link. Its share of the link is the time of these bytes over
its standalone time; latency uses no share. Links with equal loads from equal communications are merged to one
link, so the cost depends on the irregularity of a network, not on its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cluster import Cluster
from ..communication import request
from ..networks import forms, in_network
from ..trace import Trace, TraceNode
from .pricing import Communication

__all__ = ["Demand", "Sharing", "Use", "rates"]

#: use by a communication: index of its load, and factor from seconds per byte to link shares
Use = tuple[int, float]
_Whole = NDArray[np.int64]
#: operation without a network model -> operation with equal bytes on the busiest port
_AS = {"barrier": "all_reduce", "reduce": "reduce_scatter", "gather": "all_gather", "scatter": "reduce_scatter"}


@dataclass(frozen=True)
class Demand:
    """Use of links by all communications of one class.

    Attributes:
        own: the largest share of any link that one communication uses, at most 1.
        links: link -> sum of the shares of all communications.
    """

    own: float
    links: Mapping[int, float]


def rates(demands: Sequence[Demand]) -> list[float]:
    """Max-min fair rates on links of capacity 1: all grow equally on their busiest link until they have their share or
    one of their links is full.
    """
    left: dict[int, float] = {}
    asking: dict[int, float] = {}  # link -> use by growing communications per share of their busiest link
    of_link: dict[int, list[int]] = {}
    for number, one in enumerate(demands):
        for link, share in one.links.items():
            left.setdefault(link, 1.0)
            asking[link] = asking.get(link, 0.0) + share / one.own
            of_link.setdefault(link, []).append(number)
    level = [0.0] * len(demands)
    growing = set(range(len(demands)))
    while growing:
        wanted = min(demands[number].own for number in growing)
        narrow = {link: max(0.0, left[link]) / ask for link, ask in asking.items() if ask > 1e-12}
        at = min([wanted, *narrow.values()])
        done = {number for number in growing if demands[number].own <= at * (1 + 1e-12)}
        for link, limit in narrow.items():
            if limit <= at * (1 + 1e-12):
                done.update(growing.intersection(of_link[link]))
        growing -= done
        for number in sorted(done):
            level[number] = at
            for link, share in demands[number].links.items():
                asking[link] -= share / demands[number].own
                left[link] -= share / demands[number].own * at
        for link in {link for number in done for link in demands[number].links}:
            if growing.isdisjoint(of_link[link]):
                asking[link] = 0.0
    return [round(min(1.0, at / one.own), 12) for at, one in zip(level, demands, strict=True)]


@dataclass
class Sharing:
    """Use of a cluster's links by a trace's communication."""

    cluster: Cluster
    trace: Trace
    price: Communication
    numbers: dict[Any, int] = field(default_factory=dict)  # request -> index of its load
    calls: dict[Any, int] = field(default_factory=dict)  # (operation, bytes, group) -> index of its load
    requests: list[dict[str, Any]] = field(default_factory=list)
    parts: list[float] = field(default_factory=list)  # fraction of a request's bytes that counts
    most: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # for each load, seconds of its busiest link
    entries: tuple[_Whole, _Whole, NDArray[np.float64], _Whole] = field(init=False)  # load, link, seconds, their index

    def collective(self, node: TraceNode, number: int, picoseconds: int) -> Use | None:
        """Returns the use of links by a collective, counted later by `count_loads`; None without bytes."""
        if picoseconds <= 0 or not node.bytes:
            return None
        call = (node.op, node.bytes, node.group, number)
        if call not in self.calls:
            group = tuple(self.trace.groups[node.group][number]) if node.group else tuple(range(self.trace.devices))
            way = self.price.ways.get((node.op, node.bytes, group), "auto")
            key = (node.op, node.group, number, way if isinstance(way, str) else id(way))
            if key not in self.numbers and len(group) > 1:
                self._ask(key, _AS.get(node.op, node.op), node.bytes, group, way)
            self.calls[call] = self.numbers.get(key, -1)
        return None if self.calls[call] < 0 else (self.calls[call], node.bytes * 1e12 / picoseconds)

    def message(self, node: TraceNode, source: int, target: int, picoseconds: int) -> Use | None:
        """Returns the use of links by a message; None without bytes."""
        if picoseconds <= 0 or not node.bytes or source == target:
            return None
        if ("send", source, target) not in self.numbers:
            self._ask(("send", source, target), "permute_devices", node.bytes, (source, target), "direct", [(0, 1)])
        return self.numbers["send", source, target], node.bytes * 1e12 / picoseconds

    def _ask(self, key: Any, op: str, size: int, group: Sequence[int], way: Any, pairs: Any = None) -> None:

        part = 1.0
        if way == in_network.NAME:
            spans = forms.spanned(self.cluster, group)
            way = "hierarchical"  # the same bytes on ports: reduce-scatter inside, all-reduce across, all-gather inside
            if len(spans) == 1:  # a ring of messages uses each port and each link between switches once
                part = float(in_network.sent(op, len(group), spans[0][0].kind == "fat_tree"))
                op, way, pairs = "permute_devices", "direct", [(at, (at + 1) % len(group)) for at in range(len(group))]
        self.numbers[key] = len(self.numbers)
        self.parts.append(part)
        self.requests.append(request(op, size, list(group), way, {"pairs": pairs}))

    def count_loads(self) -> None:
        """Computes the seconds per byte of each request on each link."""
        loads = self.cluster.core.loads(self.requests)
        sizes = [len(links) for links, _ in loads]
        owner = np.repeat(np.arange(len(loads)), sizes)
        seconds = np.concatenate(
            [part * each for part, (_, each) in zip(self.parts, loads, strict=True)] or [self.most]
        )
        link = np.unique(np.concatenate([links for links, _ in loads] or [owner]), return_inverse=True)[1]
        self.most = np.zeros(len(loads))
        np.maximum.at(self.most, owner, seconds)
        self.entries = (owner, link.astype(np.int64), seconds, np.unique(seconds, return_inverse=True)[1])

    def finer(self, colours: _Whole) -> _Whole:
        """Splits loads of one colour whose links carry loads of different colours."""
        owner, link, _, value = self.entries
        met = self._links(colours)
        sums = np.zeros(len(colours), np.uint64)
        np.add.at(sums, owner, _mixed(met[link], value))
        return np.unique(np.stack([colours.astype(np.uint64), sums]), axis=1, return_inverse=True)[1].ravel()

    def _links(self, colours: _Whole) -> NDArray[np.uint64]:
        """Returns, for each link, a hash of the colours and seconds of its loads."""
        owner, link, _, value = self.entries
        sums = np.zeros(int(link.max(initial=-1)) + 1, np.uint64)
        np.add.at(sums, link, _mixed(colours[owner].astype(np.uint64), value))
        return sums

    def demands(self, colours: _Whole) -> list[dict[int, float]]:
        """Returns each colour's use of links; merges equal links, and keeps the busiest of the links without another
        colour.
        """
        owner, link, seconds, _ = self.entries
        first = np.zeros(int(link.max(initial=-1)) + 1, bool)
        first[np.unique(self._links(colours), return_index=True)[1]] = True
        found: list[dict[int, float]] = [{} for _ in range(int(colours.max(initial=-1)) + 1)]
        users: dict[int, set[int]] = {}
        for at in np.flatnonzero(first[link]):
            colour, name = int(colours[owner[at]]), int(link[at])
            found[colour][name] = found[colour].get(name, 0.0) + float(seconds[at])
            users.setdefault(name, set()).add(colour)
        for links in found:
            alone = sorted((name for name in links if len(users[name]) == 1), key=lambda name: -links[name])
            for name in alone[1:]:
                del links[name]
        return found


def _mixed(names: NDArray[np.uint64], values: _Whole) -> NDArray[np.uint64]:
    """Hashes pairs; sums of hashes identify multisets of pairs (SplitMix64: Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (names + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + values.astype(np.uint64) * np.uint64(
            0xD1342543DE82EF95
        )
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed
