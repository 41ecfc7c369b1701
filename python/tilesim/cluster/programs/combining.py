"""Combines communications into fewer calls, and orders the calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...graph.devices import bytes_of, groups_of
from .flat import COMMUNICATION, FREE, Flat

__all__ = ["COMBINED_BYTES", "Reach", "bytes_moved", "combined", "reach"]

#: bytes up to which XLA combines collectives of one kind into a call, by its flags
#: xla_gpu_{all_reduce,all_gather,reduce_scatter}_combine_threshold_bytes, by default 30 MiB
COMBINED_BYTES = 30 << 20
_COMBINES = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(slots=True)
class Reach:
    """Communications before and after each operation, as bit sets; `groups` has the operations of each bit."""

    before: list[int]
    after: list[int]
    groups: list[list[int]]


def bytes_moved(entry: dict[str, Any]) -> int:
    """Returns the larger of a device's input and output bytes in a communication."""
    return max(bytes_of(entry["operands"][0]), bytes_of(entry["results"][0]))


def reach(flat: Flat) -> Reach:
    """Finds the communications before and after each operation."""
    talking = [i for i, op in enumerate(flat.operations) if op.kind in COMMUNICATION]
    place = _places(flat)
    order = sorted(talking, key=lambda i: (place[i], i))
    bit = {i: 1 << number for number, i in enumerate(order)}
    before, after = [0] * len(flat.operations), [0] * len(flat.operations)
    for i, op in enumerate(flat.operations):
        for value in op.reads:
            if (maker := flat.makers[value]) >= 0:
                before[i] |= before[maker] | bit.get(maker, 0)
    for i in range(len(flat.operations) - 1, -1, -1):
        behind = after[i] | bit.get(i, 0)
        for value in flat.operations[i].reads:
            if (maker := flat.makers[value]) >= 0:
                after[maker] |= behind
    return Reach(before, after, [[i] for i in order])


def _places(flat: Flat) -> list[int]:
    """Returns positions of communications in an issue order that respects dependences."""
    count = len(flat.operations)
    ready, first = [-1] * count, [count] * count
    for i, op in enumerate(flat.operations):
        for value in op.reads:
            if (maker := flat.makers[value]) >= 0:
                own = maker if flat.operations[maker].kind not in FREE else -1
                ready[i] = max(ready[i], ready[maker], own)
    for i in range(count - 1, -1, -1):
        place = first[i] if flat.operations[i].kind in FREE else i
        for value in flat.operations[i].reads:
            if (maker := flat.makers[value]) >= 0:
                first[maker] = min(first[maker], place)
    issued = [-1] * count
    for i, op in enumerate(flat.operations):
        before = max((issued[flat.makers[value]] for value in op.reads if flat.makers[value] >= 0), default=-1)
        own = (ready[i] if ready[i] >= 0 else first[i]) if op.kind in COMMUNICATION else -1
        issued[i] = max(before, own)
    return issued


def combined(flat: Flat, found: Reach, devices: int, limit: int = COMBINED_BYTES) -> Reach:
    """Combines calls of equal operation and groups that are adjacent in the issue order."""
    groups: list[list[int]] = []
    key, size, own = None, 0, 0  # `own` has the bits of the last group
    for number, (i,) in enumerate(found.groups):
        entry = flat.operations[i].entry
        attributes = {name: value for name, value in entry["attributes"].items() if name in ("combiner", "partitions")}
        mine = (entry["kind"], groups_of(entry, devices), entry["operands"][0]["dtype"], attributes)
        more = bytes_moved(entry)
        joins = entry["kind"] in _COMBINES and mine == key and size + more <= limit
        if joins and not found.before[i] & own:
            groups[-1].append(i)
            size += more
            own |= 1 << number
        else:
            groups.append([i])
            key, size, own = mine, more, 1 << number
    if len(groups) == len(found.groups):
        return found
    sources: list[list[int]] = [[] for _ in flat.operations]
    readers: list[list[int]] = [[] for _ in flat.operations]
    for i, op in enumerate(flat.operations):
        for value in op.reads:
            if (maker := flat.makers[value]) >= 0:
                sources[i].append(maker)
                readers[maker].append(i)
    order = range(len(groups))
    return Reach(_through(sources, groups, order), _through(readers, groups, reversed(order)), groups)


def _through(beside: list[list[int]], groups: list[list[int]], order: Iterable[int]) -> list[int]:
    """Returns the groups before (or after) each operation as bits; `order` is a topological order of groups."""
    group_of = {i: number for number, group in enumerate(groups) for i in group}
    bits: list[int] = [-1] * len(beside)
    whole = [0] * len(groups)  # bits of the group and of all predecessors of its members

    def find(i: int) -> int:
        waiting = [i]
        while waiting:
            one = waiting[-1]
            missing = [other for other in beside[one] if bits[other] < 0] if bits[one] < 0 else []
            waiting += missing
            if missing:
                continue
            if bits[one] < 0:
                made = 0
                for other in beside[one]:
                    made |= bits[other] | (whole[group_of[other]] if other in group_of else 0)
                bits[one] = made
            waiting.pop()
        return bits[i]

    for number in order:
        for i in groups[number]:
            whole[number] |= find(i)
        whole[number] |= 1 << number
    return [find(i) for i in range(len(beside))]
