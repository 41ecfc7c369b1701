"""Where a program's tensors lie in the machine's memory, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..results.result import Table

__all__ = ["MemoryPlan"]


class MemoryPlan:
    """Addresses of a program's tensors: those that do not live at one time share bytes.

    Kernels are numbered as they run: those of a function anew in every call, those of a loop once, for all its trips.
    """

    def __init__(self, found: tuple[int, int, int, bool, Iterable[tuple[Any, ...]]]) -> None:
        """Wraps what the core has planned.

        Args:
            found: kernels, bytes at the peak and of the largest live set, whether tensors share bytes, the rows.
        """
        #: number of kernels
        self.kernels, peak, live = int(found[0]), int(found[1]), int(found[2])
        #: bytes by level of memory, from the lowest address to the highest one
        self.peak_bytes: dict[str, int] = {"memory": peak}
        #: bytes by level of the largest set of tensors that live at one time
        self.live_bytes: dict[str, int] = {"memory": live}
        #: whether tensors share bytes; not where the program has too many kernels to look at each
        self.shared = bool(found[3])
        self._rows = [
            {
                "tensor": name,
                "level": "memory",
                "core": None,
                "address": address,
                "bytes": size,
                "first": first,
                "last": last,
                "alias_of": alias_of,
            }
            for name, address, size, first, last, alias_of in found[4]
        ]

    def table(self) -> Table:
        """Every tensor's place.

        Returns:
            Rows with tensor, level, core (none: all of them), address and bytes, first and last (numbers of the kernels
            during which the bytes are taken, both included), alias_of (the tensor in whose bytes it lies; empty: its
            own). What a function makes in several calls has a row for each.
        """
        return Table(self._rows)

    def __repr__(self) -> str:
        """Its peak."""
        return f"<MemoryPlan {self.peak_bytes['memory']:,} bytes, {self.kernels} kernels>"
