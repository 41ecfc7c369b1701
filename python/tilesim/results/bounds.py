"""Lower bounds of a workload's bytes and time."""

from __future__ import annotations

from typing import Any

from ..base.figures import size
from ..base.table import Table, Tabled

__all__ = ["Bound"]

_PARTS = {"array": "arrays", "vector": "vector units", "memory": "memory"}


class Bound(Tabled):
    """Schedule-independent lower bounds of bytes and seconds, from the graph and the machine's parameters.

    `bytes` (off-chip) is the larger of `compulsory_bytes` (inputs, weights and outputs once; parameters that fold
    into one another count once; gathers count only rows that must be distinct) and `capacity_bytes` (of products
    that exceed on-chip memory: 2 multiply-adds / sqrt(S) - 2 S words for S words of scratchpads and caches, Hong and
    Kung 1981; convolutions divide by the square root of kernel area over stride area; less if an operand or result
    fits on chip, zero for attention). `seconds` is the longest of `array_seconds` (complete array tiles in the
    better orientation, at least the load of their weights; products that are faster on the vector unit count there),
    `vector_seconds` (functions by class; half of row reductions, since the cross-lane unit may take the rest) and
    `memory_seconds` (`bytes` over the attainable bandwidth: the peak times `memory.efficiency`, or the peak where banks
    are simulated).
    """

    def __init__(self, data: dict[str, Any]) -> None:
        """Stores the JSON form."""
        self.data = data

    def and_further(self, further: float) -> Bound:
        """Returns the bound with additional compulsory bytes.

        Args:
            further: additional compulsory bytes, known only from the data.

        Returns:
            The larger bound.
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
        """Least bytes between chip and memory."""
        return int(self.data["bytes"])

    @property
    def compulsory_bytes(self) -> int:
        """Bytes of inputs, weights and outputs, each once; updated ones count reads and writes."""
        return int(self.data["compulsory_bytes"])

    @property
    def capacity_bytes(self) -> int:
        """Least bytes that matrix products move because they exceed on-chip memory; 0 if they fit."""
        return int(self.data["capacity_bytes"])

    @property
    def seconds(self) -> float:
        """Least time in seconds."""
        return float(self.data["seconds"])

    @property
    def array_seconds(self) -> float:
        """Least seconds of all arrays together."""
        return float(self.data["array_seconds"])

    @property
    def vector_seconds(self) -> float:
        """Least seconds of all vector units together."""
        return float(self.data["vector_seconds"])

    @property
    def memory_seconds(self) -> float:
        """Seconds for the bytes at the attainable memory bandwidth."""
        return float(self.data["memory_seconds"])

    @property
    def part(self) -> str:
        """The part with the longest time: "array", "vector", "memory", or "none" if all times are 0."""
        return str(self.data["part"])

    @property
    def why(self) -> str:
        """The bound in a sentence."""
        kept = self.data["capacity_bytes"] > self.data["compulsory_bytes"]
        moved = "traffic of products that exceed on-chip memory" if kept else "inputs, weights and outputs once"
        text = f"{size(self.bytes)}: {moved}"
        if self.part == "none":
            return f"{text}; no operation takes time"
        return f"{text}; {self.seconds * 1e3:.4g} ms of the {_PARTS[self.part]}"

    def table(self) -> Table:
        """Lower bounds per computing operation, longest first.

        Returns:
            Rows with operation, kind, count (runs), multiply_adds, array_seconds, vector_seconds (sums over all
            runs, on all cores together).
        """
        rows = sorted(self.data["operations"], key=lambda row: -(row["array_seconds"] + row["vector_seconds"]))
        return Table([dict(row) for row in rows])

    def __repr__(self) -> str:
        """The bound in a line."""
        return f"<Bound {self.why}>"
