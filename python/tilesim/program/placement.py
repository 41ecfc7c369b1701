"""Places operations on the machine or its host so that the total time is least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core

__all__ = ["Item", "Link", "Transfer", "cheapest", "cost", "phases", "transfers"]

_MOST = 1 << 62  # most picoseconds of an operation in the core (53 days)


@dataclass(frozen=True)
class Item:
    """An operation to be placed: values read and written, and picoseconds on either side (None: impossible)."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    machine: int | None
    host: int | None


@dataclass(frozen=True)
class Link:
    """The link between machine and host: bytes per second and direction, latency of a transfer in picoseconds."""

    bytes_per_second: int
    latency: int

    def picoseconds(self, size: int) -> int:
        """Returns the picoseconds of one transfer."""
        return int(_core.link_picoseconds(self.bytes_per_second, self.latency, size))


@dataclass(frozen=True)
class Transfer:
    """One transfer of a value over the link."""

    value: str
    to_host: bool
    bytes: int


def _sides(
    items: Sequence[Item], sizes: Mapping[str, int], outputs: Iterable[str] = (), link: Link | None = None
) -> _core.Sides:
    """Replaces names by numbers; values without a size come last."""
    numbers = {value: i for i, value in enumerate(sizes)}

    def of(values: Iterable[str]) -> list[int]:
        return [numbers.setdefault(value, len(numbers)) for value in values]

    def time(picoseconds: int | None) -> int | None:
        return None if picoseconds is None else min(picoseconds, _MOST)

    rows = [(of(item.operands), of(item.results), time(item.machine), time(item.host)) for item in items]
    wanted, way = set(outputs), link or Link(1, 0)
    values = [(size, value in wanted) for value, size in sizes.items()]
    return _core.Sides(rows, values, way.bytes_per_second, way.latency)


def transfers(
    items: Sequence[Item], sizes: Mapping[str, int], outputs: Iterable[str], host: Iterable[str]
) -> list[Transfer]:
    """Returns the transfers over the link if the operations `host` run on the host.

    Inputs and outputs of the program are in the machine's memory. A value crosses the link once for all readers.
    """
    there, names = set(host), list(sizes)
    crossing = _sides(items, sizes, outputs).crossings([item.name in there for item in items])
    return [Transfer(names[value], to_host, sizes[names[value]]) for value, to_host in crossing]


def cost(
    items: Sequence[Item], sizes: Mapping[str, int], outputs: Iterable[str], link: Link, host: Iterable[str]
) -> int | None:
    """Returns the picoseconds of a placement, sequential operations plus transfers; None if it is impossible."""
    there = set(host)
    total = 0
    for item in items:
        each = item.host if item.name in there else item.machine
        if each is None:
            return None
        total += each
    return total + sum(link.picoseconds(t.bytes) for t in transfers(items, sizes, outputs, there))


def cheapest(items: Sequence[Item], sizes: Mapping[str, int], outputs: Iterable[str], link: Link) -> set[str]:
    """Finds the fastest placement, with the fewest transfers among equals."""
    there = _sides(items, sizes, outputs, link).cheapest()
    return {item.name for item, host in zip(items, there, strict=True) if host}


def phases(items: Sequence[Item], host: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """Groups operations into the fewest turns of machine and host that the dependences allow."""
    there = set(host)
    turns = _sides(items, {}).turns([item.name in there for item in items])
    return [(side, [items[i].name for i in numbers]) for side, numbers in turns]


def rows(data: Iterable[Transfer]) -> list[dict[str, Any]]:
    """Converts transfers to rows of a table."""
    return [{"value": t.value, "to": "host" if t.to_host else "machine", "bytes": t.bytes} for t in data]
