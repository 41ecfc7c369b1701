"""Plans addresses and lifetimes of a program's tensors in the machine's memory and scratchpads."""

from __future__ import annotations

from typing import Any

from ..base.table import Tabled
from ..results.result import Table

__all__ = ["MemoryPlan"]


class MemoryPlan(Tabled):
    """Addresses of a program's tensors; tensors with disjoint lifetimes share bytes.

    Kernels are numbered in execution order; each call of a function has new numbers, a loop has one set for all trips.
    """

    def __init__(self, found: tuple[Any, ...]) -> None:
        """Stores the core's plan."""
        #: number of kernels
        self.kernels, peak, live = int(found[0]), int(found[1]), int(found[2])
        #: level -> peak bytes: "memory": from the lowest to the highest address; "scratchpad": of one core, tiles and
        #: tensors at one time
        self.peak_bytes: dict[str, int] = {"memory": peak, "scratchpad": int(found[5])}
        #: level -> bytes of the largest set of simultaneously live tensors
        self.live_bytes: dict[str, int] = {"memory": live, "scratchpad": int(found[6])}
        #: whether tensors share bytes; false for programs with too many kernels to check
        self.shared = bool(found[3])
        one_core = int(found[7]) == 1
        self._rows = [
            {
                "tensor": name,
                "level": "scratchpad" if stays else "memory",
                "core": 0 if stays and one_core else None,
                "address": address,
                "bytes": size,
                "first": first,
                "last": last,
                "alias_of": alias_of,
            }
            for name, address, size, first, last, alias_of, stays in found[4]
        ]

    def table(self) -> Table:
        """Tabulates the tensors with their addresses.

        Returns:
            Rows with tensor, level ("memory", or "scratchpad" for values resident between kernels), core (None for
            memory, or if all cores use the same address), address and bytes (in scratchpads: the most that one core
            stores), first and last (kernels that delimit the lifetime, both included), alias_of
            (the tensor whose bytes it shares, or empty). Each call of a function has a separate row.
        """
        return Table(self._rows)

    def __repr__(self) -> str:
        """The peak bytes and the number of kernels."""
        return f"<MemoryPlan {self.peak_bytes['memory']:,} bytes, {self.kernels} kernels>"
