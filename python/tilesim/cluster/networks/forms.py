"""Selects the closed form of a collective on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...base.errors import user_error
from ..cluster import Cluster, Dimension
from ..hosts.faults import without_computing
from . import in_network, torus

__all__ = ["better", "priced_by_switch", "spanned", "unsupported"]

_SPREAD = ("all_reduce", "all_gather", "reduce_scatter")


def _circles(cluster: Cluster, group: Sequence[int]) -> tuple[list[tuple[int, int, int]], bool] | None:
    """Returns size, bytes per second and picoseconds of each ring of a torus that the group fills; whether links are
    bidirectional; None for other networks."""
    if cluster.faults or cluster.graph is not None or list(group) != list(range(cluster.devices)):
        return None
    found, stride = [], 1
    ways = {bool(data.get("both_ways", True)) for data in cluster.network}
    if len(ways) > 1:
        return None
    for dimension in cluster.dimensions:
        if dimension.kind not in ("torus", "ring") or dimension.rails:
            return None
        for size in dimension.sizes:
            if size > 1:
                ((_, _, rate, latency, _),) = cluster.core.route(0, stride)
                found.append((size, int(rate), int(latency)))
            stride *= size
    return (found, ways.pop()) if len(found) > 1 else None


def spanned(cluster: Cluster, group: Sequence[int]) -> list[tuple[Dimension, list[list[int]]]]:
    """Returns the dimensions that a group spans, inner first, and the lines of its devices along each."""
    stride, found, members = 1, [], 1
    for one in cluster.dimensions:
        lines: dict[int, list[int]] = {}
        for device in group:
            lines.setdefault(device - device // stride % one.size * stride, []).append(device)
        stride *= one.size
        lengths = {len(line) for line in lines.values()}
        if lengths == {1}:
            continue
        if len(lengths) > 1:
            return []
        found.append((one, [sorted(line) for line in lines.values()]))
        members *= lengths.pop()
    return found if members == len(group) else []


def _port(cluster: Cluster, dimension: Dimension, lines: Sequence[Sequence[int]]) -> in_network.Port:
    """Returns the slowest port in both directions, for which all devices wait."""
    core = cluster.core
    ways = [core.route(lines[0][0], lines[0][-1])]
    if cluster.faults:
        ways += [core.route(one, line[at - 1]) for line in lines for at, one in enumerate(line)]
    rate, latency = min(int(link[2]) for way in ways for link in way), sum(int(link[3]) for link in ways[0])
    if dimension.rails and dimension.rails < cluster.per_node:
        rate = rate * dimension.rails // cluster.per_node  # all devices of a node reduce at the same time
    return in_network.Port(rate, latency, dimension.kind == "fat_tree")


def priced_by_switch(
    op: str, size: int, cluster: Cluster, group: Sequence[int], dtype_bytes: int, root: int = 0
) -> dict[str, Any] | None:
    """Returns the time of algorithm `in-network` after executing it on sets; None if no switch supports it."""
    if op not in in_network.OPERATIONS or len(group) < 2 or cluster.graph is not None:
        return None
    if dtype_bytes < 2 and op in ("all_reduce", "reduce_scatter"):
        return None
    if not any(one.reduces for one in cluster.dimensions):
        return None
    spans = spanned(cluster, group)
    if not spans or not all(one.reduces for one, _ in spans):
        return None
    if any(one.get("share") == 0 for one in without_computing(cluster.faults)):
        return None  # traffic around a failed link does not use the ports of one switch
    sizes = [len(lines[0]) for _, lines in spans]
    if len(group) <= 64:  # larger groups follow the same pattern
        in_network.check(op, len(group), in_network.transfers(op, sizes, root), root)
    ports = [_port(cluster, one, lines) for one, lines in spans]
    time, share = 0, Fraction(0)
    for at, what, inside in in_network.stages(op, sizes):
        time += in_network.picoseconds(what, -(-size // inside), sizes[at], ports[at])
        sent = in_network.sent(what, sizes[at], ports[at].tree)
        share += (Fraction(1, sizes[at]) if what == "all_gather" else sent) / inside
    answer = {"picoseconds": time, "algorithm": in_network.NAME, "model": "closed", "exact": True}
    return answer | {"classes": 1, "messages": 0, "share": float(share)}


def unsupported(op: str, cluster: Cluster, dtype: str) -> Exception:
    """Returns the error for an operation that no switch supports."""
    return user_error(
        "no switch of this network supports this collective",
        place="algorithm",
        value=f"in-network {op} of {dtype} on {cluster.name}",
        allowed=f"{', '.join(in_network.OPERATIONS)}; inside dimensions with reduces; sums of two bytes and more",
    )


def better(op: str, answer: Mapping[str, Any], request: Mapping[str, Any], cluster: Cluster) -> dict[str, Any]:
    """Replaces the closed form by the exact result on a torus with axes of unequal sizes."""
    same = dict(answer)
    if (
        answer["pieces"] > 1
        or answer["model"] != "closed"
        or op not in _SPREAD
        or answer["algorithm"] not in ("torus", "hierarchical")
    ):
        return same
    circles = _circles(cluster, request["devices"])
    if circles is None or len(set(circles[0])) == 1:  # parts on equal axes share no link, so the formula is exact
        return same
    sizes, rates, latencies = (list(one) for one in zip(*circles[0], strict=True))
    same["picoseconds"] = torus.picoseconds(op, request["bytes"], sizes, rates, latencies, circles[1])
    return same | {"exact": True}
