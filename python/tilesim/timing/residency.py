"""Which tensors should stay in a machine's cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .. import _core
from ..base.checked import checked, checked_class
from ..base.errors import user_error
from ..base.table import Tabled
from ..machine.machine import Machine, MachineLike
from ..program.program import Program
from ..results.result import Table

__all__ = ["Residency", "capacity_of", "residency"]


def capacity_of(machine: Machine) -> int:
    """Bytes of all slices of a machine's cache."""
    sets = int(machine.get("memory.cache.sets"))
    if sets == 0:
        return 0
    lines = sets * int(machine.get("memory.cache.ways")) * int(machine.get("memory.channels"))
    return lines * _bytes(machine.get("memory.cache.line"))


def _bytes(text: Any) -> int:
    number, unit = str(text).split(" ")
    return int(number) * {"B": 1, "KiB": 1024, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


@checked_class()
class Residency(Tabled):
    """A residency plan: an iterable of names for `simulate(resident=...)`, with what speaks for each."""

    def __init__(self, rows: list[dict[str, Any]], capacity: int) -> None:
        """Holds a plan; made by `residency`."""
        self.rows, self.capacity = rows, capacity

    @property
    def names(self) -> list[str]:
        """The tensors that stay."""
        return [row["tensor"] for row in self.rows if row["resident"]]

    @property
    def bytes(self) -> int:
        """Bytes of the cache that they take, whole pages."""
        return sum(row["bytes"] for row in self.rows if row["resident"])

    @property
    def saved_bytes(self) -> int:
        """Bytes of memory traffic that they save."""
        return sum(row["saved_bytes"] for row in self.rows if row["resident"])

    def table(self) -> Table:
        """All tensors, the most saving per byte first.

        Returns:
            Rows with tensor, resident, bytes (whole pages), moved_bytes (by the cores), saved_bytes, reuse (saved per
            byte held).
        """
        return Table(self.rows)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self.names)

    def __len__(self) -> int:
        """How many tensors stay."""
        return len(self.names)

    def __repr__(self) -> str:
        """The headline."""
        return (
            f"<Residency of {len(self)} tensors: {self.bytes:,} of {self.capacity:,} B, saves {self.saved_bytes:,} B "
            f"of traffic>"
        )


@checked()
def residency(
    program: Program, machine: MachineLike | None = None, *, tensors: dict[str, Any] | None = None
) -> Residency:
    """Proposes what stays in the cache: the largest saving of traffic per byte first, while it fits.

    What a tensor saves: all that the cores move of it; but what is only read comes from memory once, and what is only
    written goes there in the end. The bytes are counted by running the program with ideal memory.

    Args:
        program: a compiled program.
        machine: with a cache; none: the one that the program was compiled for.
        tensors: as for `simulate`.

    Returns:
        The plan.

    Raises:
        UserError: for a machine without a cache.
    """
    target = program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program does not say for which machine it is", suggestion="pass machine=...")
    capacity = capacity_of(target)
    if capacity == 0:
        raise user_error("the machine has no cache", place="memory.cache.sets", value=target.name)
    seen = target.replace({"memory.cache.managed": "hardware"})
    result = _core.simulate(program.core, seen.core, "ideal", False, dict(tensors or {}), network="simple")
    rows = [_row(use) for use in json.loads(result.to_json())["cache"]["tensors"]]
    rows.sort(key=lambda row: (-row["reuse"], row["bytes"], row["tensor"]))
    left = capacity
    for row in rows:
        row["resident"] = row["saved_bytes"] > 0 and row["bytes"] <= left
        left -= row["bytes"] if row["resident"] else 0
    return Residency(rows, capacity)


def _row(use: dict[str, Any]) -> dict[str, Any]:
    moved = use["read_bytes"] + use["written_bytes"]
    once = 0 if use["read_bytes"] and use["written_bytes"] else use["bytes"]
    saved = max(0, moved - once)
    return {
        "tensor": use["tensor"],
        "resident": False,
        "bytes": use["bytes"],
        "moved_bytes": moved,
        "saved_bytes": saved,
        "reuse": saved / max(1, use["bytes"]),
    }
