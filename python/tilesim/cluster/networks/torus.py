"""Times reductions, gathers and scatters on a torus; parts share links if axes have unequal sizes.

The data are split into 2 × axes parts. Each part visits the rings in another order of axes and direction. On equal axes
two parts never share a link. On unequal axes, a part that finishes a short axis early meets another part on the next
axis: both send one message in a common step; otherwise the part that is ready first goes first. All devices do the
same, so simulating one device with its 2 × axes links suffices: a recursion over (axes × sum of sizes) steps with
the same result as a simulation of each message.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Walk", "picoseconds", "walks"]


@dataclass(frozen=True)
class Walk:
    """One step of a part: step number, link (axis and direction), and number of blocks."""

    part: int
    step: int
    link: tuple[int, int]
    blocks: int


def _orders(sizes: Sequence[int], both_ways: bool) -> list[tuple[list[int], int]]:
    """Returns, for each part, the axes in the order of the scatter, and the direction."""
    count = len(sizes)
    ways = (0, 1) if both_ways and any(size > 2 for size in sizes) else (0,)
    return [([(i + turn) % count for i in range(count)], way) for turn in range(count) for way in ways]


def walks(op: str, sizes: Sequence[int], both_ways: bool = True) -> list[list[Walk]]:
    """Returns the steps of each part in order."""
    length = sum(sizes) - len(sizes)
    found = []
    for part, (order, way) in enumerate(_orders(sizes, both_ways)):
        gathered, held, start = [], 1, 0
        for axis in reversed(order):  # a gather visits the axes of the scatter in reverse
            link = (axis, way if sizes[axis] > 2 else 0)  # a ring of two devices has one link in each direction
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
    """Returns the picoseconds until the last step ends."""
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
