"""Which operations run on the machine and which on its host, so that the whole takes the least time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .mincut import MinCut

__all__ = ["Item", "Link", "Transfer", "cheapest", "cost", "phases", "transfers"]

PICOSECONDS = 10**12
_FOREVER = 1 << 100
_FINE = 1 << 20  # of equal times the one with fewer transfers


@dataclass(frozen=True)
class Item:
    """An operation to be placed: values read and made, picoseconds on either side (none: it cannot run there)."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    machine: int | None
    host: int | None


@dataclass(frozen=True)
class Link:
    """Between machine and host: bytes per second each way, picoseconds that every transfer takes beside."""

    bytes_per_second: int
    latency: int

    def picoseconds(self, size: int) -> int:
        """Time of one transfer.

        Args:
            size: bytes.

        Returns:
            Picoseconds, rounded up.
        """
        return self.latency - (-size * PICOSECONDS // self.bytes_per_second)


@dataclass(frozen=True)
class Transfer:
    """One value that crosses the link once."""

    value: str
    to_host: bool
    bytes: int


def _readers(items: Iterable[Item]) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {}
    for item in items:
        for value in dict.fromkeys(item.operands):
            readers.setdefault(value, []).append(item.name)
    return readers


def transfers(
    items: Sequence[Item], sizes: Mapping[str, int], outputs: Iterable[str], host: Iterable[str]
) -> list[Transfer]:
    """What crosses the link when some operations run on the host.

    Inputs and outputs of the whole lie in the machine's memory. A value crosses once, however often it is read there.

    Args:
        items: the operations in order.
        sizes: bytes by value; values without an entry (weights) lie on both sides.
        outputs: values that the whole gives.
        host: names of the operations on the host.

    Returns:
        The transfers, in the order of the values.
    """
    there = set(host)
    made = {value: item.name in there for item in items for value in item.results}
    readers, wanted = _readers(items), set(outputs)
    found = []
    for value, size in sizes.items():
        reading = [name in there for name in readers.get(value, [])] + [False] * (value in wanted)
        if made.get(value, False) and False in reading:
            found.append(Transfer(value, False, size))
        elif not made.get(value, False) and True in reading:
            found.append(Transfer(value, True, size))
    return found


def cost(
    items: Sequence[Item], sizes: Mapping[str, int], outputs: Iterable[str], link: Link, host: Iterable[str]
) -> int | None:
    """Time of a placement: operations one after another, and transfers.

    Args:
        items: the operations in order.
        sizes: bytes by value.
        outputs: values that the whole gives.
        link: between the two sides.
        host: names of the operations on the host.

    Returns:
        Picoseconds; none where an operation cannot run on its side.
    """
    there = set(host)
    total = 0
    for item in items:
        each = item.host if item.name in there else item.machine
        if each is None:
            return None
        total += each
    return total + sum(link.picoseconds(t.bytes) for t in transfers(items, sizes, outputs, there))


def cheapest(items: Sequence[Item], sizes: Mapping[str, int], outputs: Iterable[str], link: Link) -> set[str]:
    """The placement of least time, and of those one with the fewest transfers: a smallest cut.

    A value is an edge towards its readers on the other side that costs one transfer, however many they are: one further
    node per value and direction says so (Hu and Moerder 1985, hyperedges in flow networks).

    Args:
        items: the operations in order.
        sizes: bytes by value.
        outputs: values that the whole gives.
        link: between the two sides.

    Returns:
        Names of the operations on the host.
    """
    number = {item.name: i + 2 for i, item in enumerate(items)}
    made = {value: number[item.name] for item in items for value in item.results}
    readers, wanted = _readers(items), set(outputs)
    machine, host = 0, 1
    cut = MinCut(2 + len(items) + 2 * len(sizes))
    for item in items:
        cut.edge(machine, number[item.name], _FOREVER if item.host is None else item.host * _FINE)
        cut.edge(number[item.name], host, _FOREVER if item.machine is None else item.machine * _FINE)
    for i, (value, size) in enumerate(sizes.items()):
        producer = made.get(value, machine)
        price = link.picoseconds(size) * _FINE + 1
        reading = [number[name] for name in readers.get(value, [])] + [machine] * (value in wanted)
        down, up = 2 + len(items) + 2 * i, 3 + len(items) + 2 * i
        cut.edge(producer, down, price)
        cut.edge(up, producer, price)
        for reader in reading:
            cut.edge(down, reader, _FOREVER)
            cut.edge(reader, up, _FOREVER)
    stays = cut.source_side(machine, host)
    return {item.name for item in items if number[item.name] not in stays}


def phases(items: Sequence[Item], host: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """Turns of machine and host, as few as the operations' dependences allow.

    Each turn takes whatever is ready on its side: no order has fewer turns that starts on the same side; both starts
    are tried.

    Args:
        items: the operations in an order of their dependences.
        host: names of the operations on the host.

    Returns:
        Per turn whether it is the host's, and its operations in order.
    """
    there = set(host)
    found = [_turns(items, there, start) for start in (False, True)]
    return min(found, key=len)


def _turns(items: Sequence[Item], there: set[str], side: bool) -> list[tuple[bool, list[str]]]:
    made = {value for item in items for value in item.results}
    left, turns = list(items), []
    while left:
        names, later = [], []
        for item in left:
            if (item.name in there) == side and not made.intersection(item.operands):
                names.append(item.name)
                made.difference_update(item.results)
            else:
                later.append(item)
        if names:
            turns.append((side, names))
        left, side = later, not side
    return turns


def rows(data: Iterable[Transfer]) -> list[dict[str, Any]]:
    """Transfers as rows of a table.

    Args:
        data: the transfers.

    Returns:
        Rows with value, to, bytes.
    """
    return [{"value": t.value, "to": "host" if t.to_host else "machine", "bytes": t.bytes} for t in data]
