"""Times equal groups that communicate concurrently and share links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..cluster import Cluster
from . import forms, in_network

__all__ = ["chosen", "met"]

FEW = 256  # number of devices up to which each message is simulated
MESSAGES = 1 << 18  # most simulated messages for more devices


def met(cluster: Cluster, requests: Sequence[dict[str, Any]], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Corrects closed-form times for several groups that share links."""
    if len(requests) < 2 or _share_no_link(cluster, requests):
        return answers
    if any(answer["algorithm"] == in_network.NAME for answer in answers):
        return answers
    named = _named(requests, answers)
    busiest = _busiest(cluster, named)
    if busiest is None:
        return answers
    best = _together(cluster, named, answers, busiest)
    if any(one["algorithm"] != "auto" for one in requests):
        return best
    for algorithm, pieces in _alternatives(cluster, requests, answers):
        tried = [{**one, "algorithm": algorithm, "pieces": pieces} for one in requests]
        own, all_ = _busiest(cluster, tried) or (0.0, 0.0)
        least = max(one["picoseconds"] for one in best)
        if all_ * requests[0]["bytes"] * 1e12 * (1 - 1e-9) >= least:
            continue
        found = _together(cluster, tried, None, (own, all_))
        if max(one["picoseconds"] for one in found) < least:
            best = found
    return best


def chosen(cluster: Cluster, requests: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Returns the requests of several groups with the algorithm that `met` selects for them."""
    several = len(requests) > 1 and all(one["algorithm"] == "auto" and len(one["devices"]) > 1 for one in requests)
    if not several or requests[0]["operation"] == "permute_devices" or _share_no_link(cluster, requests):
        return requests
    return _named(requests, met(cluster, requests, list(cluster.core.price(list(requests), "closed", True))))


def _named(requests: Sequence[dict[str, Any]], answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "algorithm": answer["algorithm"], "pieces": answer["pieces"]} if len(one["devices"]) > 1 else one
            for one, answer in zip(requests, answers, strict=True)]  # fmt: skip


def _busiest(cluster: Cluster, named: Sequence[dict[str, Any]]) -> tuple[float, float] | None:
    """Returns the busiest link's seconds per byte for one group and for all groups; None without shared links."""
    found = cluster.core.busiest([one for one in named if len(one["devices"]) > 1])
    return None if found is None else (float(found[0]), float(found[1]))


def _together(
    cluster: Cluster,
    named: list[dict[str, Any]],
    alone: Sequence[dict[str, Any]] | None,
    busiest: tuple[float, float],
) -> list[dict[str, Any]]:
    """Simulates all messages together if they are few; else scales each group's standalone time (`alone`)."""
    few = sum(len(one["devices"]) for one in named) <= FEW
    found = cluster.core.price(named, "chunks", True, 0 if few else MESSAGES)
    if found is not None:
        return [{**one, "model": "closed", "exact": False} for one in found]
    if alone is None:
        answers = cluster.core.price(named, "closed", True)
        alone = [forms.better(one["operation"], answer, one, cluster)
                 for one, answer in zip(named, answers, strict=True)]  # fmt: skip
    own, all_ = busiest
    more = max(1.0, all_ / own) if own else 1.0
    return [
        {**one, "picoseconds": math.ceil(one["picoseconds"] * more), "exact": False, "messages": 0} for one in alone
    ]


def _alternatives(
    cluster: Cluster, requests: Sequence[dict[str, Any]], answers: Sequence[dict[str, Any]]
) -> list[tuple[str, int]]:
    """Returns algorithms and pieces that support all groups, fastest first, except the current choice."""
    if requests[0]["operation"] == "permute_devices" or any(len(one["devices"]) < 2 for one in requests):
        return []
    sizes = {len(one["devices"]): one for one in requests}
    tried = [{(name, pieces): time for name, pieces, time in cluster.core.tried(one)} for one in sizes.values()]
    common = [key for key in tried[0] if all(key in one for one in tried)]
    taken = {(one["algorithm"], one["pieces"]) for one in answers}
    return sorted((key for key in common if {key} != taken), key=lambda key: (tried[0][key], key))


def _share_no_link(cluster: Cluster, requests: Sequence[dict[str, Any]]) -> bool:
    """Whether groups provably share no link: each device has separate ports, and a message inside a box uses only
    ports of that box. For other groups and faulty links, the loads are compared."""
    ports = all(one.kind in ("switch", "full") and not one.rails for one in cluster.dimensions)
    return bool(cluster.dimensions) and ports and not cluster.faults and all(
        _box(cluster, one["devices"]) for one in requests
    )  # fmt: skip


def _box(cluster: Cluster, group: Sequence[int]) -> bool:
    """Whether a group is a box: the product of its coordinates along the dimensions."""
    stride, found = 1, 1
    for one in cluster.dimensions:
        found *= len({device // stride % one.size for device in group})
        stride *= one.size
    return found == len(group)
