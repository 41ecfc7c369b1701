"""Adds a baseline to a result's page: each operation's time in the baseline, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import figures
from ...base.view import Column, Notes, Section, rows_of
from ..comparison_page import differences_table, totals_table
from ..result_calls import ASKED

__all__ = ["Baseline", "against"]

_ONLY = 200  # most operations that a page lists among those that only the baseline has


class Baseline:
    """A result and its baseline, operation by operation."""

    def __init__(self, result: Any, baseline: Any) -> None:
        """Matches the operations of both."""
        self.comparison = found = ASKED["compare"](baseline, result, names=["baseline", "this result"])
        self._form = "count" if found.unit == "cycles" else "duration"
        self._times, self.joined_kernels, self._alone = self._matched(result)
        self.only = [match for match in found._matches if match.rows[0] and not match.rows[1]]

    def _time(self, cycles: int) -> float:
        own = self.comparison
        return cycles if own.unit == "cycles" else cycles / own.a.data["hertz"]

    def _matched(self, result: Any) -> tuple[dict[int, float | None], int, int]:
        """Returns baseline times by operation index, and the numbers of operations matched in groups and unmatched."""
        places = {id(row): place for place, row in enumerate(result.data["operations"])}
        times: dict[int, float | None] = {}
        joined = alone = 0
        for match in self.comparison._matches:
            mine = match.rows[1]
            if not match.rows[0]:
                alone += len(mine)
                times.update((places[id(row)], None) for row in mine)
                continue
            joined += len(mine) if len(mine) > 1 else 0
            whole, before = sum(row["exclusive"] for row in mine), self._time(match.cycles(0))
            for row in mine:
                part = row["exclusive"] / whole if whole else 1 / len(mine)
                times[places[id(row)]] = before * part
        return times, joined, alone

    def columns(self) -> list[Column]:
        """Returns the columns of baseline time, difference and change."""
        return [
            Column("before", "baseline", self._form),
            Column("difference", "difference", f"+{self._form}"),
            Column("change", "change", "+percent", ("difference", "before", 1.0)),
        ]

    def joined(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Adds the values of `columns` to the rows of the table of operations."""
        second = 1.0 if self.comparison.unit == "cycles" else 1 / self.comparison.b.data["hertz"]
        found = []
        for row in rows:
            before, now = self._times[row["place"]], row["cycles"] * second
            found.append({**row, "before": before, "difference": now - (before or 0.0)})
        return found

    @property
    def note(self) -> str:
        """Explains the columns of `columns`."""
        said = "Difference: this result minus the baseline."
        if self.joined_kernels:
            said += (
                f" {self.joined_kernels:,} kernels are matched in groups with the baseline's; the baseline's time is "
            )
            said += "distributed in proportion to theirs."
        said += f" {self._alone:,} have no match there." if self._alone else ""
        return said

    def sections(self) -> list[Section]:
        """Returns the sections: headline, totals, differences, operations that only the baseline has."""
        own = self.comparison
        parts: list[Any] = [Notes([own.headline(), *own.notes]), totals_table(own, "totals")]
        if (differ := differences_table(own, "differences")) is not None:
            parts.append(differ)
        if self.only:
            alone = sorted(self.only, key=lambda match: -match.cycles(0))
            rows = []
            for match in alone[:_ONLY]:
                longest = match.longest(0)
                rows.append({"only in the baseline": longest["name"] if longest else "", "time":
                             self._time(match.cycles(0))})  # fmt: skip
            left = alone[_ONLY:]
            parts.append(rows_of("only", rows, {"time": self._form}, "operations"))
            if left:
                sums = self._time(sum(match.cycles(0) for match in left))
                parts.append(Notes([f"and {len(left):,} more: {figures.amount_of(sums, own.unit)}"]))
        return [Section("Against the baseline", parts, "baseline")]


def against(result: Any, baseline: Any) -> Baseline:
    """Compares a result with its baseline."""
    return Baseline(result, baseline)
