"""Which closed form of this room a collective on a cluster has, if any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import user_error
from ..cluster import Cluster, Dimension
from ..hosts.faults import without_computing
from . import in_network, torus

__all__ = ["better", "priced_by_switch", "refuse"]

_SPREAD = ("all_reduce", "all_gather", "reduce_scatter")


def _circles(cluster: Cluster, group: Sequence[int]) -> tuple[list[tuple[int, int, int]], bool] | None:
    """Size, bytes per second and picoseconds of each circle of a torus that the group fills, and whether links lead
    both ways; none: it is another."""
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


def _switch(cluster: Cluster, group: Sequence[int]) -> tuple[Dimension, int] | None:
    """The dimension whose switches sum and in which alone the group lies, and its number."""
    stride = 1
    for number, dimension in enumerate(cluster.dimensions):
        places = {device // stride % dimension.size for device in group}
        if len(places) == len(group) and dimension.reduces and len({
            (device % stride, device // (stride * dimension.size)) for device in group
        }) == 1:  # fmt: skip
            return dimension, number
        stride *= dimension.size
    return None


def priced_by_switch(
    op: str, size: int, cluster: Cluster, group: Sequence[int], dtype_bytes: int, root: int = 0
) -> dict[str, Any] | None:
    """The answer of the algorithm `in-network`, executed on sets first.

    Args:
        op: operation.
        size: bytes.
        cluster: with dimensions.
        group: that takes part.
        dtype_bytes: of an element; sums of one byte are not made by switches.
        root: that broadcasts.

    Returns:
        As the core answers, and the share of the bytes that a port carries; none where no switch can do it.
    """
    if op not in in_network.OPERATIONS or len(group) < 2 or cluster.graph is not None:
        return None
    if dtype_bytes < 2 and op in ("all_reduce", "reduce_scatter"):
        return None
    found = _switch(cluster, group)
    if found is None:
        return None
    if len(group) <= 64:  # the pattern is the same for more
        in_network.check(op, len(group), in_network.transfers(op, len(group), root), root)
    ways = [cluster.core.route(group[0], group[-1])]
    if cluster.faults:  # the slowest port of all, out and in; all wait for it
        ways += [cluster.core.route(one, group[i - 1]) for i, one in enumerate(group)]
        if any(one.get("share") == 0 for one in without_computing(cluster.faults)):
            return None  # ways that go round a failed link are no ports of one switch
    rails = found[0].rails
    rate = min(int(link[2]) for way in ways for link in way)
    latency = sum(int(link[3]) for link in ways[0])
    if rails and rails < cluster.per_node:
        rate = rate * rails // cluster.per_node  # all devices of a node sum at once
    port = in_network.Port(rate, latency, found[0].kind == "fat_tree")
    share = in_network.sent(op, len(group), port.tree)
    time = in_network.picoseconds(op, size, len(group), port)
    answer = {"picoseconds": time, "algorithm": in_network.NAME, "model": "closed", "exact": True}
    return answer | {"classes": 1, "messages": 0, "share": float(share)}


def refuse(op: str, cluster: Cluster, dtype: str) -> Exception:
    """Why no switch does it.

    Args:
        op: operation.
        cluster: on whose network.
        dtype: of the elements.

    Returns:
        The error.
    """
    return user_error(
        "no switch of this network does this", place="algorithm", value=f"in-network {op} of {dtype} on {cluster.name}",
        allowed=f"{', '.join(in_network.OPERATIONS)}; inside one dimension with reduces; sums of two bytes and more",
    )  # fmt: skip


def better(op: str, answer: Mapping[str, Any], request: Mapping[str, Any], cluster: Cluster) -> dict[str, Any]:
    """An answer of closed forms, exact where a torus has axes of different sizes.

    Args:
        op: operation.
        answer: of the core.
        request: as it was asked for.
        cluster: on whose network.

    Returns:
        The answer, or the one with the time of the recursion.
    """
    same = dict(answer)
    if answer["model"] != "closed" or op not in _SPREAD or answer["algorithm"] not in ("torus", "hierarchical"):
        return same
    circles = _circles(cluster, request["devices"])
    if circles is None or len(set(circles[0])) == 1:  # equal axes share nothing: the formula is exact
        return same
    sizes, rates, latencies = (list(one) for one in zip(*circles[0], strict=True))
    same["picoseconds"] = torus.picoseconds(op, request["bytes"], sizes, rates, latencies, circles[1])
    return same | {"exact": True}
