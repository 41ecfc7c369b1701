"""Which ports communication takes, and what of a port each has where several take it at the same time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..cluster import Cluster, Dimension
from ..trace import Trace, TraceNode

__all__ = ["OUT", "Sharing", "Use", "fair"]

#: a port of a device: its dimension, and whether what comes in takes it
Port = tuple[int, bool]
#: ports, and the share of each that a communication takes where it is alone (above 1: with its neighbours' on the port)
Use = tuple[tuple[Port, float], ...]
OUT, IN = False, True


def fair(shares: Sequence[float]) -> list[float]:
    """What a port of 1 gives to each of those that ask for shares of it, max-min fairly.

    Args:
        shares: above 0 each.

    Returns:
        Parts of what was asked for, up to 1.
    """
    left, waiting = 1.0, sorted(range(len(shares)), key=lambda one: shares[one])
    found = [1.0] * len(shares)
    for turn, one in enumerate(waiting):
        given = min(shares[one], left / (len(waiting) - turn))
        left -= given
        found[one] = given / shares[one]
    return found


@dataclass
class Sharing:
    """What the communication of a trace takes of the ports of a cluster's devices."""

    cluster: Cluster
    trace: Trace
    known: dict[tuple[object, ...], Use] = field(default_factory=dict)
    lies: dict[tuple[str, int], list[tuple[int, int, int, int, float]]] = field(default_factory=dict)
    ports: dict[tuple[str, int], int] = field(default_factory=dict)

    def collective(self, node: TraceNode, number: int, picoseconds: int) -> Use:
        """What a collective takes of each member's ports, in and out.

        Args:
            node: with operation, bytes and kind of groups.
            number: of the group in its kind.
            picoseconds: that it takes alone.

        Returns:
            Ports and shares.
        """
        key = (node.op, node.bytes, node.group, number, picoseconds)
        if key not in self.known:
            use = []
            for place, n, inside, own, times in self._lie(node.group, number):
                seconds = _sent(node.op, node.bytes, n, inside) * own / _rate(self.cluster.dimensions[place], n)
                if (share := _share(seconds, times, picoseconds)) > 0:
                    use += [((place, OUT), share), ((place, IN), share)]
            self.known[key] = tuple(use)
        return self.known[key]

    def message(self, node: TraceNode, source: int, target: int, picoseconds: int) -> Use:
        """What a message takes of the sender's ports out; of the receiver's in it is the same.

        Args:
            node: the send.
            source: device.
            target: device.
            picoseconds: that it takes alone.

        Returns:
            Ports and shares.
        """
        key = ("send", node.bytes, source, target, picoseconds)
        if key not in self.known:
            rows, stride = [], 1
            for number, one in enumerate(self.cluster.dimensions):
                if source // stride % one.size != target // stride % one.size:
                    rows.append((number, node.bytes / one.bandwidth_bytes_per_second))
                stride *= one.size
            self.known[key] = tuple(
                ((number, OUT), share) for number, took in rows if (share := _share(took, 1.0, picoseconds)) > 0
            )
        return self.known[key]

    def _lie(self, kind: str, number: int) -> list[tuple[int, int, int, int, float]]:
        """How a group lies in each dimension that it spans: the dimension, its members along it and in those inside,
        how many of them have one port, and how many times as many have it with the other groups of the kind."""
        if (kind, number) not in self.lies:
            groups = self.trace.groups[kind] if kind else [range(self.trace.devices)]
            group, found, stride, inside = groups[number], [], 1, 1
            for place, one in enumerate(self.cluster.dimensions):
                n = len({device // stride % one.size for device in group})
                if n > 1:
                    if (kind, place) not in self.ports:
                        self.ports[kind, place] = _sharers(one, stride, [one for each in groups for one in each])
                    own = _sharers(one, stride, group)
                    found.append((place, n, inside, own, self.ports[kind, place] / own))
                inside *= n
                stride *= one.size
            self.lies[kind, number] = found
        return self.lies[kind, number]


def _sent(op: str, size: float, n: int, inside: int) -> float:
    """Bytes that a device sends in a dimension: sums, gathers and scatters go on with what those inside left over."""
    if op == "broadcast_devices":
        return size
    if op in ("all_to_all", "gather", "scatter", "reduce"):
        return size * (n - 1) / n
    return (2 if op in ("all_reduce", "barrier") else 1) * size / inside * (n - 1) / n


def _rate(one: Dimension, n: int) -> float:
    """Bytes per second of all links of a device in a dimension."""
    if one.kind in ("ring", "torus", "mesh"):
        return one.bandwidth_bytes_per_second * sum(2 if size > 2 else 1 for size in one.sizes)
    return one.bandwidth_bytes_per_second * (n - 1 if one.kind == "full" else 1)


def _sharers(one: Dimension, stride: int, members: Sequence[int]) -> int:
    """Most members that have one port: devices of the dimensions inside, where rails are fewer than they."""
    if not 0 < one.rails < stride:
        return 1
    per_rail = stride // one.rails
    counts: dict[tuple[int, int], int] = {}
    for device in members:
        key = (device // stride, device % stride // per_rail)
        counts[key] = counts.get(key, 0) + 1
    return max(counts.values())


def _share(seconds: float, times: float, picoseconds: int) -> float:
    if picoseconds <= 0 or not math.isfinite(seconds):
        return 0.0
    return min(1.0, seconds * 1e12 / picoseconds) * times
