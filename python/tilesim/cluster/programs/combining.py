"""Which communications run as one, and in which order they are issued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...graph.devices import bytes_of, groups_of
from .flat import COMMUNICATION, FREE, Flat

__all__ = ["COMBINED_BYTES", "Reach", "bytes_moved", "combined", "reach"]

#: up to so many bytes XLA puts small collectives of one kind into one call: its flags
#: xla_gpu_{all_reduce,all_gather,reduce_scatter}_combine_threshold_bytes, by default 30 MiB
COMBINED_BYTES = 30 << 20
_COMBINES = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(slots=True)
class Reach:
    """Communications before and after each operation, as bits of `groups`, which lists the operations of each."""

    before: list[int]
    after: list[int]
    groups: list[list[int]]


def bytes_moved(entry: dict[str, Any]) -> int:
    """The larger of what a device puts into a communication and takes out.

    Args:
        entry: the operation.

    Returns:
        Bytes.
    """
    return max(bytes_of(entry["operands"][0]), bytes_of(entry["results"][0]))


def reach(flat: Flat) -> Reach:
    """What comes before and after what.

    Args:
        flat: the operations.

    Returns:
        One bit per communication, in the order in which they are issued: by the last operation that one waits for;
        where it waits for none, by the first that waits for it.
    """
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
    """Where each communication stands in the order of issue: never before one that it waits for."""
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
    """Puts neighbours in the order of issue that do the same for the same groups into one call.

    Args:
        flat: the operations.
        found: of `reach`.
        devices: of the program.
        limit: bytes of a call of more than one.

    Returns:
        The same with fewer bits.
    """
    groups: list[list[int]] = []
    group_of: list[int] = []
    key, size = None, 0
    for number, (i,) in enumerate(found.groups):
        entry = flat.operations[i].entry
        attributes = {name: value for name, value in entry["attributes"].items() if name in ("combiner", "partitions")}
        mine = (entry["kind"], groups_of(entry, devices), entry["operands"][0]["dtype"], attributes)
        more = bytes_moved(entry)
        joins = entry["kind"] in _COMBINES and mine == key and size + more <= limit
        if joins and not any(found.before[i] >> other & 1 for other in range(number - len(groups[-1]), number)):
            groups[-1].append(i)
            size += more
        else:
            groups.append([i])
            key, size = mine, more
        group_of.append(len(groups) - 1)
    if len(groups) == len(found.groups):
        return found
    first = _closed(found, [found.before[i] for (i,) in found.groups], group_of, range(len(groups)))
    last = _closed(found, [found.after[i] for (i,) in found.groups], group_of, range(len(groups) - 1, -1, -1))
    return Reach(_mapped(found.before, group_of, first), _mapped(found.after, group_of, last), groups)


def _bits(mask: int) -> list[int]:
    return [at for at, one in enumerate(reversed(bin(mask)[2:])) if one == "1"]


def _closed(found: Reach, masks: list[int], group_of: list[int], order: range) -> list[int]:
    """Groups before (or after) each group, through all its members."""
    members: list[list[int]] = [[] for _ in order]
    for number, group in enumerate(group_of):
        members[group].append(number)
    closed = [0] * len(members)
    for group in order:
        for other in {group_of[at] for number in members[group] for at in _bits(masks[number])}:
            closed[group] |= closed[other] | 1 << other
    return closed


def _mapped(masks: list[int], group_of: list[int], closed: list[int]) -> list[int]:
    known: dict[int, int] = {0: 0}
    for mask in masks:
        if mask not in known:
            made = 0
            for group in {group_of[at] for at in _bits(mask)}:
                made |= closed[group] | 1 << group
            known[mask] = made
    return [known[mask] for mask in masks]
