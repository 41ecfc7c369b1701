"""Sums, gathers and scatters on a torus of any sizes, whose links are shared where axes differ.

The data are cut in 2 × axes parts; each walks round the circles in another order of axes, both ways round. Parts of
equal axes never meet. Of unequal ones, a part that is done with a short axis finds another on the next: what both send
in one step is one message, and otherwise the first that is ready goes first. All devices do the same, so one of them
and its 2 × axes links say when: a recursion over its steps, (axes × sum of sizes) of them, that gives what the
simulation message by message gives.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Walk", "picoseconds", "walks"]


@dataclass(frozen=True)
class Walk:
    """A step of one part: its number, the link (axis and way), and how many blocks it carries."""

    part: int
    step: int
    link: tuple[int, int]
    blocks: int


def _orders(sizes: Sequence[int], both_ways: bool) -> list[tuple[list[int], int]]:
    """Axes in the order in which each part scatters, and its way round."""
    count = len(sizes)
    ways = (0, 1) if both_ways and any(size > 2 for size in sizes) else (0,)
    return [([(i + turn) % count for i in range(count)], way) for turn in range(count) for way in ways]


def walks(op: str, sizes: Sequence[int], both_ways: bool = True) -> list[list[Walk]]:
    """The steps of each part, in their order."""
    length = sum(sizes) - len(sizes)
    found = []
    for part, (order, way) in enumerate(_orders(sizes, both_ways)):
        gathered, held, start = [], 1, 0
        for axis in reversed(order):  # a gather ends with the axis with which a scatter begins
            link = (axis, way if sizes[axis] > 2 else 0)  # a circle of two has one link each way
            gathered += [Walk(part, start + step, link, held) for step in range(sizes[axis] - 1)]
            start += sizes[axis] - 1
            held *= sizes[axis]
        scattered = [Walk(part, length - 1 - one.step, one.link, one.blocks) for one in reversed(gathered)]
        later = length if op == "all_reduce" else 0
        gathered = [Walk(part, one.step + later, one.link, one.blocks) for one in gathered]
        found.append({"all_gather": gathered, "reduce_scatter": scattered}.get(op, scattered + gathered))
    return found


def picoseconds(
    op: str,
    bytes_: int,
    sizes: Sequence[int],
    rates: Sequence[int],
    latencies: Sequence[int],
    both_ways: bool = True,
) -> int:
    """When all is done."""
    parts = walks(op, sizes, both_ways)
    pieces = len(parts)
    for size in sizes:
        pieces *= size
    messages: dict[tuple[int, tuple[int, int]], list[Walk]] = {}
    for steps in parts:
        for one in steps:
            messages.setdefault((one.step, one.link), []).append(one)
    after: dict[tuple[int, tuple[int, int]], list[tuple[int, tuple[int, int]]]] = {}
    waits = dict.fromkeys(messages, 0)
    for steps in parts:
        for before, then in pairwise(steps):
            after.setdefault((before.step, before.link), []).append((then.step, then.link))
            waits[then.step, then.link] += 1
    ready = dict.fromkeys(messages, 0)
    heap = [(0, key) for key, count in waits.items() if not count]
    heapq.heapify(heap)
    free: dict[tuple[int, int], int] = {}
    end = 0
    while heap:
        time, key = heapq.heappop(heap)
        blocks = sum(one.blocks for one in messages[key])
        axis = key[1][0]
        spent = -(-bytes_ * blocks * 10**12 // (pieces * rates[axis]))
        start = max(time, free.get(key[1], 0))
        free[key[1]] = start + spent
        arrival = start + spent + latencies[axis]
        end = max(end, arrival)
        for later in after.get(key, ()):
            ready[later] = max(ready[later], arrival)
            waits[later] -= 1
            if not waits[later]:
                heapq.heappush(heap, (ready[later], later))
    return end
