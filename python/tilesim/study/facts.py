"""Sums figures of a result over some operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..results.rates import Rates

__all__ = ["Facts", "OperationCounts"]


class OperationCounts:
    """The counts of a result by operation, read once."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Reads the counts of a result."""
        self.items: set[tuple[str, str]] = set()
        self._of: dict[str, dict[tuple[str, str], float]] = {}
        for count in data.get("counts", ()):
            item = (count["part"], count["item"])
            self.items.add(item)
            for name, number in count["operations"]:
                own = self._of.setdefault(name, {})
                own[item] = own.get(item, 0.0) + number

    def sums(self, names: Sequence[str]) -> dict[tuple[str, str], float]:
        """Sums the counts over some operations."""
        found: dict[tuple[str, str], float] = {}
        for name in dict.fromkeys(names):
            for item, number in self._of.get(name, {}).items():
                found[item] = found.get(item, 0.0) + number
        return found


@dataclass
class Facts:
    """Figures summed over some operations, in cycles and bytes."""

    rows: list[dict[str, Any]]
    names: list[str]
    cycles: int = 0
    spanned: int = 0
    launch: int = 0
    elsewhere: dict[str, int] = field(default_factory=dict)  # cycles in which the host or the link works
    runs: int = 0
    multiply_adds: float = 0.0
    padded_multiply_adds: float = 0.0
    array_busy: float = 0.0  # mean busy cycles over the cores
    vector_operations: float = 0.0
    bytes: float = 0.0  # without padding; with a cache, bytes that reach the memory
    padded_bytes: float = 0.0
    asked_bytes: float = 0.0  # bytes that cores request, with padding
    sent_bytes: float = 0.0
    least_bytes: float = 0.0
    inner_bytes: float = 0.0
    least_known: bool = False
    dtype: str = ""

    @classmethod
    def of(cls, counts: OperationCounts, rows: Sequence[dict[str, Any]]) -> Facts:
        """Sums figures over kernels."""
        own = cls(list(rows), [row["name"] for row in rows])
        for row in rows:
            own.cycles += int(row["exclusive"])
            own.spanned += int(row["cycles"])
            if row["bound"] in ("host", "link"):
                own.elsewhere[row["bound"]] = own.elsewhere.get(row["bound"], 0) + int(row["exclusive"])
            own.launch += int(row["launch"])
            own.array_busy += float(row["array_busy"])
            own.runs = max(own.runs, int(row["count"]))
            own.multiply_adds += row["multiply_adds"]
            own.vector_operations += row["vector_operations"]
            own.asked_bytes += row["load_bytes"] + row["store_bytes"]
        own.bytes = own.asked_bytes
        items = counts.sums(own.names)
        own.padded_multiply_adds = items.get(("arrays", "padded multiply-adds"), 0.0)
        if ("cache", "cache bytes") in counts.items:
            own.bytes = items.get(("memory", "memory bytes"), 0.0)
        else:
            own.padded_bytes = min(own.bytes, items.get(("memory", "padded memory bytes"), 0.0))
            own.bytes -= own.padded_bytes
        own.least_bytes = own.bytes
        own.sent_bytes = max(0.0, items.get(("network", "network bytes"), 0.0) - own.asked_bytes)
        return own

    def bounds(self, rates: Rates) -> dict[str, float]:
        """Returns the least cycles of memory, arrays and vector units."""
        peak = rates.multiply_adds(self.dtype)
        return {
            "memory": self.least_bytes / rates.memory if rates.memory else 0.0,
            "array": self.multiply_adds / peak if peak else 0.0,
            "vector": self.vector_operations / rates.vector if rates.vector else 0.0,
        }

    def point(self, rates: Rates) -> dict[str, Any]:
        """Returns the position of the operations on the roofline."""
        products = self.multiply_adds > 0
        flops = 2 * self.multiply_adds if products else self.vector_operations
        peak = (2 * rates.multiply_adds(self.dtype) if products else rates.vector) * rates.hertz
        moved = self.bytes + self.padded_bytes
        seconds = max(self.cycles, self.spanned) / rates.hertz
        bandwidth = rates.memory * rates.hertz
        intensity = flops / moved if moved else None
        return {
            "flops": flops,
            "of": "multiply-adds" if products else "vector operations",
            "bytes": moved,
            "intensity": intensity,
            "attained_flops_per_second": flops / seconds if seconds else 0.0,
            "attained_bytes_per_second": moved / seconds if seconds else 0.0,
            "peak_flops_per_second": peak,
            "peak_bytes_per_second": bandwidth,
            "ceiling_flops_per_second": peak
            if intensity is None or not bandwidth
            else min(peak, intensity * bandwidth),
        }
