"""Groups that do the same at the same time, and meet on links: what closed forms of one group do not know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..cluster import Cluster
from . import in_network

__all__ = ["met"]

FEW = 256  # devices whose messages are taken one by one


def met(cluster: Cluster, requests: Sequence[dict[str, Any]], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Closed forms of several groups, each alone, as they are where the groups share links.

    Args:
        cluster: the network.
        requests: of each group.
        answers: of each group alone.

    Returns:
        The same where no link is shared. Of up to 256 devices in all the time of all messages one by one, as `chunks`
        takes them; beyond, an estimate: as much longer as the busiest link has more to carry. No such time is exact.
    """
    if len(requests) < 2 or _apart(cluster):
        return answers
    if any(answer["algorithm"] == in_network.NAME for answer in answers):
        return answers
    named = [{**one, "algorithm": answer["algorithm"]} if len(one["devices"]) > 1 else one
             for one, answer in zip(requests, answers, strict=True)]  # fmt: skip
    loads: dict[int, float] = {}
    own, shared = 0.0, False
    for links, each in cluster.core.loads([one for one in named if len(one["devices"]) > 1]):
        own = max([own, *each.tolist()])
        for link, one in zip(links.tolist(), each.tolist(), strict=True):
            shared = shared or (one > 0 and loads.get(link, 0.0) > 0)
            loads[link] = loads.get(link, 0.0) + one
    if not shared:
        return answers
    if sum(len(one["devices"]) for one in named) <= FEW:
        found = cluster.core.price(named, "chunks", True)
        return [{**one, "model": "closed", "exact": False} for one in found]
    more = max(loads.values()) / own
    return [{**one, "picoseconds": math.ceil(one["picoseconds"] * max(1.0, more)), "exact": False} for one in answers]


def _apart(cluster: Cluster) -> bool:
    """Whether every device has ports of its own, and nothing between them is shared."""
    return bool(cluster.dimensions) and all(
        one.kind in ("switch", "full") and not one.rails for one in cluster.dimensions
    )
