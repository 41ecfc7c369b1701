"""Collects the data that explain operations of a result: rates, counts, operands, recorded intervals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..analytic.estimate import Estimate
from ..analytic.schemes import scheme
from ..program.mixed import MixedProgram
from ..results.rates import Rates
from ..results.result import Result
from ..timing.rerun import Rerun
from .facts import Facts, OperationCounts
from .operands import Operands
from .spans import Spans

__all__ = ["RECORDED", "Ground"]

RECORDED = 1_000_000
"""Largest number of tile operations for which a run is simulated again with intervals."""

_MEASURED = (
    "Each instant of the operation's time belongs to one state of each core, by the recorded "
    "intervals: the bounding part works, then other units, then transfers. The bounding part's work is split by its "
    "counters (useful, padded, moved again). While units wait for data, padding, values between kernels, repeated "
    "reads and the port are charged first, at the rates of memory and port; the rest is the wait."
)
_COUNTED = (
    "From the counters of the operation: the bounding part's work, split by its counters, and launches. Other units "
    "and waits are one term, because intervals are missing: {reason}."
)
_CLOSED = "An estimate, not a simulation: peak and launch are separate, the rest is one term; see `Estimate.terms`."
_UNKNOWN = " Without the program, repeated traffic is unknown and counts towards the bound."


class Ground:
    """A result with the data about all of its operations."""

    def __init__(self, result: Result, operands: bool = True) -> None:
        """Reads the result."""
        self.result = result
        self.again = result._again if isinstance(result._again, Rerun) else None
        self.rates = Rates(result.data)
        self.closed = result.data["source"] != "engine"
        self._counts = OperationCounts(result.data)
        self.operands = self._operands() if operands else None

    def _operands(self) -> Operands | None:
        again = self.again
        if again is None or isinstance(again.program, MixedProgram):
            return None
        if "operands" not in again.known:
            again.known["operands"] = Operands(again.program.core.to_json())
        found: Operands = again.known["operands"]
        return found

    @cached_property
    def _schemes(self) -> dict[str, set[str]]:
        """The schemes of an estimate, by operation."""
        found: dict[str, set[str]] = {}
        for row in self.result.terms().rows if isinstance(self.result, Estimate) else ():
            if row["scheme"]:
                found.setdefault(row["operation"], set()).add(row["scheme"])
        return found

    def counted(self, name: str) -> tuple[Any, ...]:
        """The counts of one kernel as a hashable key."""
        return tuple(self._counts.sums([name]).items())

    def facts(self, rows: Sequence[dict[str, Any]]) -> Facts:
        """Sums the figures of some operations."""
        found = Facts.of(self._counts, rows)
        if self.operands is not None:
            least, inner = self.operands.least([(row["name"], int(row["count"])) for row in rows])
            found.least_bytes, found.inner_bytes = min(found.bytes, least), inner
            found.least_known = True
            found.dtype = self.operands.dtype(found.names)
        if self.closed:  # cache hits move no bytes to or from memory
            busy = sum(row["memory_busy"] for row in rows)
            found.least_bytes = min(found.bytes, busy * self.rates.memory)
            dtypes = {scheme(one).arithmetic for name in found.names for one in self._schemes.get(name, ())}
            found.dtype = dtypes.pop() if len(dtypes) == 1 else ""
        return found

    def spans(self, intervals: bool = True, recorded: Result | None = None) -> tuple[Spans | None, str]:
        """The recorded intervals, or None and the reason."""
        data, again = self.result.data, self.again
        if self.closed:
            return None, "the result has none"
        if not data.get("intervals") and intervals and again is not None:
            if data["tile_operations"] > RECORDED:
                return None, f"runs of more than {RECORDED:,} tile operations are not recorded"
            if "spans" not in again.known:
                other = (recorded or again.recorded()).data
                whole = other["cycles"] == data["cycles"] and not other["intervals_dropped"]
                again.known["spans"] = Spans(other) if whole and other["intervals"] else None
            found: Spans | None = again.known["spans"]
            return found, "another run does not reproduce this result"
        if not data.get("intervals"):
            return None, "the result has none"
        if data["intervals_dropped"] or data.get("jobs"):
            return None, "the result has only a part of them" if data[
                "intervals_dropped"
            ] else "several jobs share them"
        return Spans(data), ""

    def attribution(self, measured: bool, reason: str) -> str:
        """Describes how time was attributed to terms."""
        if self.closed:
            return _CLOSED
        return (_MEASURED if measured else _COUNTED.format(reason=reason)) + ("" if self.operands else _UNKNOWN)
