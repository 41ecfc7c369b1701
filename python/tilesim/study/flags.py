"""Flags points of a sweep that are slower although they have more of a resource."""

from __future__ import annotations

import itertools
from typing import Any

from ..base import figures
from ..base.folding import pattern
from .points import better, readable, unit_of

__all__ = ["LONGEST", "SLOWER", "flagged", "longest"]

LONGEST = 24  # number of operations stored per point
SLOWER = 1.001  # least slow-down beyond rounding


def longest(operations: list[dict[str, Any]]) -> list[list[Any]]:
    """Returns names and cycles of the longest operations; repeated layers are folded."""
    sums: dict[str, int] = {}
    for row in operations:
        name = pattern(str(row["name"]))
        sums[name] = sums.get(name, 0) + int(row["exclusive"])
    return [[name, cycles] for name, cycles in sorted(sums.items(), key=lambda one: -one[1])[:LONGEST]]


def flagged(points: list[dict[str, Any]], settings: list[str]) -> dict[int, str]:
    """Returns, by index, the flags of points that are slower than the adjacent point with less of one resource.

    Adjacent points differ by one step of one setting; less latency counts as more of a resource.
    """
    found: dict[int, list[str]] = {}
    for path in settings:
        towards = better(path)
        if not towards:
            continue
        lines: dict[Any, list[int]] = {}
        for i, point in enumerate(points):
            value = point["settings"][path]
            if point["seconds"] is not None and isinstance(value, (int, float)) and not isinstance(value, bool):
                others = tuple((name, repr(one)) for name, one in point["settings"].items() if name != path)
                lines.setdefault((point["same"], others), []).append(i)
        for line in lines.values():
            line.sort(key=lambda i: towards * points[i]["settings"][path])
            for less, more in itertools.pairwise(line):
                a, b = points[less], points[more]
                if b["seconds"] > SLOWER * a["seconds"] and a["settings"][path] != b["settings"][path]:
                    found.setdefault(more, []).append(_why(a, b, path))
    return {i: "; ".join(texts) for i, texts in found.items()}


def _why(less: dict[str, Any], more: dict[str, Any], path: str) -> str:
    value = less["settings"][path]
    share = figures.percent(more["seconds"] / less["seconds"] - 1) if less["seconds"] else "longer, from 0 s"
    text = f"{share} slower than with {path} = {readable(value, unit_of(path))}"
    before = {name: cycles / less["hertz"] for name, cycles in less["operations"]}
    after = {name: cycles / more["hertz"] for name, cycles in more["operations"]}
    both = {name: after[name] - before[name] for name in after if name in before}
    name = max(both, key=lambda one: both[one], default="")
    whole = more["seconds"] - less["seconds"]
    if name and both[name] > 0:
        longer = figures.duration(both[name])
        where = f"{figures.short(name, 60)} takes {longer} longer ({figures.duration(whole)} in all)"
    else:
        where = "kernels are split or fused differently"
    if more["bottleneck"] != less["bottleneck"]:
        where += f", bound by {more['bottleneck']} instead of {less['bottleneck']}"
    return f"{text}: {where}"
