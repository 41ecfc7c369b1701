"""The least that a workload needs, beside what was reached."""

from __future__ import annotations

from typing import Any

from ..base.figures import size
from ..base.table import Table, Tabled

__all__ = ["Bound"]

_PARTS = {"array": "arrays", "vector": "vector units", "memory": "memory"}


class Bound(Tabled):
    """Bytes and seconds that no schedule undercuts, from the graph and the machine's figures alone.

    `bytes` (off-chip) is the larger of `compulsory_bytes` (inputs, weights and outputs once, parameters that fold into
    one another as one, rows that indices choose as far as they must differ) and `capacity_bytes`
    (products of which so little fits on the chip: 2 multiply-adds / sqrt(S) - 2 S words for S words of scratchpads and
    caches, Hong and Kung 1981; convolutions divided by the square root of kernel area over stride area; less where an
    operand or result need not pass through memory, nothing for attention).
    `seconds` is the longest of `array_seconds` (whole tiles of the arrays in the better orientation, at least the load
    of their weights; a product that the vector unit alone does sooner counts there), `vector_seconds` (functions by
    class; of what is combined along rows a half, since the cross-lane unit may take the rest) and
    `memory_seconds` (`bytes` over the bandwidth that the memory reaches: the peak times
    `memory.efficiency`, the peak alone where banks are simulated).
    """

    def __init__(self, data: dict[str, Any]) -> None:
        """Wraps the JSON form, as results hold it."""
        self.data = data

    def and_further(self, further: float) -> Bound:
        """The bound of a run of which more is known.

        Args:
            further: compulsory bytes that this one leaves out, since data alone say that they are read.

        Returns:
            Another one.
        """
        if further <= 0:
            return self
        data = dict(self.data)
        data["compulsory_bytes"] += further
        data["bytes"] = max(data["compulsory_bytes"], data["capacity_bytes"])
        if self.data["bytes"] > 0:
            data["memory_seconds"] = self.data["memory_seconds"] / self.data["bytes"] * data["bytes"]
        data["seconds"] = max(data[f"{part}_seconds"] for part in ("array", "vector", "memory"))
        data["part"] = next(
            (p for p in ("memory", "array", "vector") if 0 < data[f"{p}_seconds"] == data["seconds"]), "none"
        )
        return Bound(data)

    @property
    def bytes(self) -> int:
        """Bytes that pass between chip and memory at least."""
        return int(self.data["bytes"])

    @property
    def compulsory_bytes(self) -> int:
        """Bytes of inputs, weights and outputs once: what is read of them, what is written of updated ones."""
        return int(self.data["compulsory_bytes"])

    @property
    def capacity_bytes(self) -> int:
        """Bytes that products move at least with the memory that the chip has; 0 where they fit."""
        return int(self.data["capacity_bytes"])

    @property
    def seconds(self) -> float:
        """Seconds at least."""
        return float(self.data["seconds"])

    @property
    def array_seconds(self) -> float:
        """Seconds of all arrays together at least."""
        return float(self.data["array_seconds"])

    @property
    def vector_seconds(self) -> float:
        """Seconds of all vector units together at least."""
        return float(self.data["vector_seconds"])

    @property
    def memory_seconds(self) -> float:
        """Seconds in which the memory moves the bytes at its peak."""
        return float(self.data["memory_seconds"])

    @property
    def part(self) -> str:
        """Which part the time is of: array, vector, memory; none where nothing takes time."""
        return str(self.data["part"])

    @property
    def why(self) -> str:
        """What the bound is made of, in a sentence."""
        kept = self.data["capacity_bytes"] > self.data["compulsory_bytes"]
        moved = "products of which so little fits on the chip" if kept else "inputs, weights and outputs once"
        text = f"{size(self.bytes)}: {moved}"
        if self.part == "none":
            return f"{text}; nothing takes time"
        return f"{text}; {self.seconds * 1e3:.4g} ms of the {_PARTS[self.part]}"

    def table(self) -> Table:
        """Per operation that computes, the longest first.

        Returns:
            Rows with operation, kind, count (runs), multiply_adds, array_seconds, vector_seconds: the least of all its
            runs with every core at work on it.
        """
        rows = sorted(self.data["operations"], key=lambda row: -(row["array_seconds"] + row["vector_seconds"]))
        return Table([dict(row) for row in rows])

    def __repr__(self) -> str:
        """The bound in a line."""
        return f"<Bound {self.why}>"
