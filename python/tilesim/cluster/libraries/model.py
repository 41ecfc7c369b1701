"""Cost model of a communication library: formulas for algorithms and protocols over arrays of calls.

A call moves S bytes (the larger of a device's input and output) among n devices; x = S / n is one part. Each formula
has a cost per call, a latency per step and bytes over a share of the link rate; steps and bytes of a ring overlap, so
they combine as the root of the sum of squares. Times never fall with S.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Piece", "Query", "costs", "fastest_choice", "pieces"]

Array = NDArray[np.float64]
RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast_devices")
BELIEVED = tuple(f"believed_{key}{step}_seconds" for key in ("ll", "ll128", "simple") for step in ("", "_step"))
NEEDED = (
    *("call_seconds", "ll_step_seconds", "ll_share", "spread_seconds", "spread_step_seconds", "spread_bytes"),
    *("simple_call_seconds", "simple_step_seconds", "simple_share", "copy_share", "sum_cost_one_byte"),
    *("peer_call_seconds", "peer_step_seconds", "peer_spread_seconds", "peer_simple_call_seconds", "peer_share"),
    *("peer_copy_share", "peer_fill_seconds", "peer_fill_bytes", "node_ll_step_seconds", "node_simple_step_seconds"),
    *("node_ll_share", "node_simple_share", "believed_share", "believed_ll_rate", "believed_ll128_share", *BELIEVED),
)
PEER_LL_BYTES = 16384.0  # NCCL_P2P_LL_THRESHOLD: the largest point-to-point message that uses LL
NVLS_BYTES = float(1 << 20)
NVLS_DEVICES = 5  # least devices in a node; measurements of Hopper and Blackwell show rings for fewer
#: NCCL's own estimate of a step between nodes in seconds (src/graph/tuning.cc): ring, tree
NET_STEP = {"ll": (2.7e-6, 5.0e-6), "ll128": (4.0e-6, 8.5e-6), "simple": (14e-6, 14e-6)}
#: NCCL's own estimate of a tree's step inside a node over NVLink, relative to a ring's step
TREE_INSIDE = {"ll": 1.0, "ll128": 1.25 / 1.9, "simple": 4.0 / 3.4}
TREE_SHARE = 0.92  # rate of a tree, relative to a ring's


@dataclass(frozen=True)
class Query:
    """Calls of one operation: arrays of equal length, `rate` and `node_rate` in bytes per second and device.

    The library estimates with these rates; `share` and `node_share` are the remaining shares of faulty links.
    """

    op: str
    bytes: Array
    devices: Array
    nodes: Array
    rate: Array
    node_rate: Array
    one_byte: bool = False
    in_network: bool = True
    share: float = 1.0
    node_share: float = 1.0

    @property
    def link(self) -> Array:
        """Remaining bytes per second inside a node."""
        return self.rate * self.share

    @property
    def node_link(self) -> Array:
        """Remaining bytes per second between nodes."""
        return self.node_rate * self.node_share

    def steps(self) -> tuple[Array, Array]:
        """Returns the numbers of ring steps inside nodes and between nodes."""
        rounds = 2.0 if self.op == "all_reduce" else 1.0
        return rounds * (self.devices - self.nodes), rounds * (self.nodes - 1)

    def tree_steps(self) -> tuple[Array, Array]:
        """Returns the numbers of steps of a tree all-reduce: chains inside nodes, a binary tree between nodes."""
        return 2.0 * (self.devices / self.nodes - 1), 2.0 * np.ceil(np.log2(self.nodes))

    def ring_bytes(self) -> Array:
        """Returns the bytes that a ring sends per device."""
        return self.bytes * self.share_moved()

    def share_moved(self) -> Array:
        """Returns the sent bytes per byte of the call."""
        if self.op == "broadcast_devices":
            return np.ones_like(self.devices)
        rounds = 2.0 if self.op == "all_reduce" else 1.0
        result: Array = rounds * (self.devices - 1) / self.devices
        return result

    def at(self, most: Array) -> Query:
        """Returns the same calls with bytes limited to `most`."""
        return replace(self, bytes=np.minimum(self.bytes, most))


@dataclass(frozen=True)
class Piece:
    """An algorithm with a protocol, for calls of more than `above` and up to `upto` bytes."""

    algorithm: str
    protocol: str
    above: Array
    upto: Array


def _rates(c: Mapping[str, float], q: Query) -> Array:
    """Returns a device's rate inside its node; PCIe devices share the rate of a socket."""
    if "socket_share" not in c:
        return q.link
    local = q.devices / q.nodes
    share = np.where(local <= 2, 1.0, np.where(local <= 4, c["socket_share"], c["sockets_share"]))
    result: Array = q.link * share
    return result


def _ring_path(c: Mapping[str, float], q: Query, share: float, node_share: float) -> Array:
    """Returns the rate of the slowest link of the rings; each device of a node has one ring."""
    inside = _rates(c, q) * share
    across = np.where(q.nodes > 1, q.node_link * (q.devices / q.nodes) * node_share, np.inf)
    one_each = q.devices == q.nodes
    result: Array = np.where(one_each, across, np.minimum(inside, across))
    return np.where((q.nodes == 1), inside, result)


def _ring(c: Mapping[str, float], q: Query, protocol: str) -> dict[str, Array]:
    x = q.bytes / q.devices
    inner, outer = q.steps()
    call = np.full_like(x, c["simple_call_seconds"] if protocol == "Simple" else c["call_seconds"])
    if protocol == "LL":
        spread = x * x / (x * x + c["spread_bytes"] ** 2)
        call = call + spread * (c["spread_seconds"] + c["spread_step_seconds"] * inner)
    key = {"LL": "ll", "LL128": "ll128", "Simple": "simple"}[protocol]
    node = "ll" if protocol == "LL" else "simple"
    latency = inner * c[f"{key}_step_seconds"] + outer * c[f"node_{node}_step_seconds"]
    sums = 0.0 if q.op in ("all_gather", "broadcast_devices") else c["sum_cost_one_byte"] if q.one_byte else 0.0
    moved = q.ring_bytes() + sums * (q.devices - 1) * x
    transfer = moved / _ring_path(c, q, c[f"{key}_share"], c[f"node_{node}_share"])
    copied = 0.0 if q.op == "broadcast_devices" else 1.0
    return {
        "call": call,
        "steps": np.hypot(latency, transfer),
        "copy": copied * x / (q.rate * c["copy_share"]),
    }


def _tree(c: Mapping[str, float], q: Query, protocol: str) -> dict[str, Array]:
    """Returns the terms of an all-reduce over a binary tree of nodes with chains inside nodes."""
    inner, outer = q.tree_steps()
    key = {"LL": "ll", "LL128": "ll128", "Simple": "simple"}[protocol]
    node = "ll" if protocol == "LL" else "simple"
    ring, tree = NET_STEP[key]
    steps = inner * TREE_INSIDE[key] * c[f"{key}_step_seconds"] + outer * tree / ring * c[f"node_{node}_step_seconds"]
    rate = TREE_SHARE * _ring_path(c, q, c[f"{key}_share"], c[f"node_{node}_share"])
    sums = c["sum_cost_one_byte"] if q.one_byte else 0.0
    return {
        "call": np.full_like(q.bytes, c["simple_call_seconds"] if protocol == "Simple" else c["call_seconds"]),
        "steps": np.hypot(steps, (2.0 + sums) * q.bytes / rate),
    }


def _nvls(c: Mapping[str, float], q: Query) -> dict[str, Array]:
    """Returns the terms of an all-reduce in the switch: a device sends its data once, and a reduced part to all."""
    fill = c["nvls_fill_seconds"] * q.bytes / (q.bytes + c["nvls_fill_bytes"])
    return {
        "call": np.full_like(q.bytes, c["nvls_call_seconds"]),
        "fill": fill,
        "steps": q.bytes * (1 + 1 / q.devices) / (q.link * c["nvls_share"]),
    }


def _peers(c: Mapping[str, float], q: Query, protocol: str) -> dict[str, Array]:
    """Returns the terms of a call in which every device sends to all others, or to one."""
    one = q.op == "permute_devices"
    x = q.bytes if one else q.bytes / q.devices
    local = q.devices / q.nodes
    inside = np.where(q.nodes > 1, 0.0, 1.0) * x if one else (local - 1) * x
    outside = np.where(q.nodes > 1, 1.0, 0.0) * x if one else (q.devices - local) * x
    across = np.where(q.nodes > 1, outside / (q.node_link * c["node_simple_share"]), 0.0)
    reach = np.where(q.nodes > 1, c["node_ll_step_seconds" if protocol == "LL" else "node_simple_step_seconds"], 0.0)
    rate = _rates(c, q)
    copy = np.zeros_like(x) if one else x / (q.rate * c["peer_copy_share"])
    if protocol == "LL":
        call = c["peer_call_seconds"] + c["peer_spread_seconds"] * np.minimum(1.0, x / PEER_LL_BYTES)
        latency = c["peer_step_seconds"] * (np.ones_like(x) if one else np.log2(q.devices))
        steps = latency + np.maximum(inside / (rate * c["ll_share"]), across)
        return {"call": call + reach, "steps": steps, "copy": copy}
    total = q.bytes
    return {
        "call": c["peer_simple_call_seconds"] + reach,
        "fill": c["peer_fill_seconds"] * total / (total + c["peer_fill_bytes"]),
        "steps": np.maximum(inside / (rate * c["peer_share"]), across),
        "copy": copy,
    }


def costs(c: Mapping[str, float], q: Query, algorithm: str, protocol: str) -> dict[str, Array]:
    """Returns the seconds of each term of calls with one algorithm and protocol."""
    if algorithm == "nvls":
        return _nvls(c, q)
    if algorithm == "tree":
        return _tree(c, q, protocol)
    return _peers(c, q, protocol) if algorithm == "peers" else _ring(c, q, protocol)


def _ring_limits(c: Mapping[str, float], q: Query) -> tuple[Array, Array]:
    """Returns the bytes above which NCCL stops using LL and LL128, by its own estimates of latency and rate."""
    inner, outer = q.steps()
    node = np.where(q.nodes > 1, q.node_rate * q.devices / q.nodes, np.inf)
    share = np.where(q.devices / q.nodes > 4, c.get("believed_sockets_share", c["believed_share"]), c["believed_share"])
    bus = np.minimum(share * q.rate, node)
    per_byte = q.share_moved()
    rates = (
        np.minimum(c["believed_ll_rate"], bus * 0.5),
        np.minimum(bus, c["believed_ll128_share"] * c["believed_share"] * q.rate) if "ll128_share" in c else None,
        bus,
    )
    latency = [
        c[f"believed_{key}_seconds"] + inner * c[f"believed_{key}_step_seconds"] + outer * net
        for key, (net, _) in NET_STEP.items()
    ]

    def crossing(first: int, second: int) -> Array:
        slow, fast = rates[first], rates[second]
        assert slow is not None and fast is not None
        gain = per_byte / slow - per_byte / fast
        late = latency[second] - latency[first]
        with np.errstate(divide="ignore", invalid="ignore"):
            where = np.where(gain > 0, late / gain, np.inf)
        return np.maximum(where, 0.0)

    straight = crossing(0, 2)
    if rates[1] is None:
        return straight, straight
    first = crossing(0, 1)
    taken = first < straight
    return np.where(taken, first, straight), np.where(taken, np.maximum(crossing(1, 2), first), straight)


def pieces(c: Mapping[str, float], q: Query) -> list[Piece]:
    """Returns algorithm and protocol by range of bytes, in ascending order."""
    zero, most = np.zeros_like(q.bytes), np.full_like(q.bytes, np.inf)
    if q.op not in RINGS:
        limit = PEER_LL_BYTES * (np.ones_like(q.bytes) if q.op == "permute_devices" else q.devices)
        return [Piece("peers", "LL", zero, limit), Piece("peers", "Simple", limit, most)]
    first, second = _ring_limits(c, q)
    inside = np.zeros(len(q.bytes), dtype=bool)
    if q.op == "all_reduce" and q.in_network and not q.one_byte and "nvls_share" in c:
        inside = (q.nodes == 1) & (q.devices >= NVLS_DEVICES)
    end = np.where(inside, NVLS_BYTES, np.inf)
    first, second = np.minimum(first, end), np.minimum(second, end)
    found = [
        Piece("ring", "LL", zero, first),
        Piece("ring", "LL128", first, second),
        Piece("ring", "Simple", second, end),
    ]
    return [*found, Piece("nvls", "Simple", end, most)] if inside.any() else found


def seconds(c: Mapping[str, float], q: Query) -> Array:
    """Returns the seconds of each call, at least those at the end of smaller ranges; all-reduces over nodes use
    trees if faster."""
    result = _along(c, q, pieces(c, q))
    for protocol in _tree_protocols(c, q):
        result = np.where(q.nodes > 1, np.minimum(result, sum(_tree(c, q, protocol).values())), result)
    return result


def fastest_choice(c: Mapping[str, float], q: Query) -> tuple[str, str]:
    """Returns algorithm and protocol of one call."""
    ranges = pieces(c, q)
    trees = {one: sum(float(term[0]) for term in _tree(c, q, one).values()) for one in _tree_protocols(c, q)}
    best = min(trees, key=trees.__getitem__, default="")
    if best and trees[best] < _along(c, q, ranges)[0]:
        return "tree", best
    found = next(one for one in ranges if one.above[0] < one.upto[0] and q.bytes[0] <= one.upto[0])
    return found.algorithm, found.protocol


def _tree_protocols(c: Mapping[str, float], q: Query) -> tuple[str, ...]:
    """Returns the protocols of trees, of which the library is assumed to use the fastest."""
    if q.op != "all_reduce" or not (q.nodes > 1).any():
        return ()
    return ("LL", "LL128", "Simple") if "ll128_share" in c else ("LL", "Simple")


def _along(c: Mapping[str, float], q: Query, ranges: list[Piece]) -> Array:
    result = np.zeros_like(q.bytes)
    for piece in ranges:
        if "ll128_share" not in c and piece.protocol == "LL128":
            continue
        active = (q.bytes > piece.above) & (piece.upto > piece.above)
        if not active.any():
            continue
        terms = costs(c, q.at(piece.upto), piece.algorithm, piece.protocol)
        total: Any = sum(terms.values())
        result = np.where(active, np.maximum(result, total), result)
    return result
