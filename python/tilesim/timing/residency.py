"""Proposes tensors to keep in a machine's cache."""

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
    """Returns the bytes of a machine's cache over all slices."""
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
    """A residency plan: an iterable of names for `simulate(resident=...)`, with the saving of each."""

    def __init__(self, rows: list[dict[str, Any]], capacity: int) -> None:
        """Stores a plan; `residency` calls this."""
        self.rows, self.capacity = rows, capacity

    @property
    def names(self) -> list[str]:
        """The resident tensors."""
        return [row["tensor"] for row in self.rows if row["resident"]]

    @property
    def bytes(self) -> int:
        """Bytes of the resident tensors in the cache, in full pages."""
        return sum(row["bytes"] for row in self.rows if row["resident"])

    @property
    def saved_bytes(self) -> int:
        """Saved bytes of memory traffic."""
        return sum(row["saved_bytes"] for row in self.rows if row["resident"])

    def table(self) -> Table:
        """Tabulates all tensors, largest saving per byte first.

        Returns:
            Rows with tensor, resident, bytes (whole pages), moved_bytes (by the cores), saved_bytes, reuse (saved per
            byte).
        """
        return Table(self.rows)

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of resident tensors."""
        return iter(self.names)

    def __len__(self) -> int:
        """Number of resident tensors."""
        return len(self.names)

    def __repr__(self) -> str:
        """The headline and the table."""
        return (
            f"<Residency of {len(self)} tensors: {self.bytes:,} of {self.capacity:,} B, saves {self.saved_bytes:,} B "
            f"of traffic>"
        )


@checked()
def residency(
    program: Program, machine: MachineLike | None = None, *, tensors: dict[str, Any] | None = None
) -> Residency:
    """Proposes tensors to keep in the cache, by saved traffic per byte, while they fit.

    A resident tensor saves its traffic, minus one transfer if it is only read or only written. The bytes come from
    a simulation with ideal memory.

    Args:
        program: a compiled program.
        machine: a machine with a cache; default: the program's machine.
        tensors: as for `simulate`.

    Returns:
        The plan.

    Raises:
        UserError: for a machine without a cache.
    """
    target = program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program has no machine", suggestion="Add machine=...")
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
