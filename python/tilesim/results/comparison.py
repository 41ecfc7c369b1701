"""Compares results: totals, matched operations, main differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..base import figures
from ..base.checked import checked_class
from ..base.folding import fold
from ..base.table import Table
from .differing import differing, summaries
from .matching import Match, joined, matches, operations_of, same_names
from .names import Names
from .result import Result
from .side_by_side import SideBySide, finite

__all__ = ["Comparison"]

OUTSIDE = "(outside of operations)"


@checked_class()
class Comparison(SideBySide):
    """A comparison of results with the first one.

    Results are called a, b, c, ... in order; `names` describes them. Times are cycles if all clocks are equal,
    otherwise seconds (`unit`).
    """

    def __init__(self, a: Result, b: Result, *more: Result, names: Sequence[str] | None = None) -> None:
        """Matches the operations of all results."""
        super().__init__([a, b, *more], names, summaries)
        clocks = {result.data["hertz"] for result in self.results}
        self.unit = "cycles" if len(clocks) == 1 else "s"
        self._matches = self._matched()

    @property
    def a(self) -> Result:
        """The first result."""
        return self.results[0]

    @property
    def b(self) -> Result:
        """The second result."""
        return self.results[1]

    def _matched(self) -> list[Match]:
        rows = [result.data["operations"] for result in self.results]
        aliases: list[dict[str, str]] = [{} for _ in rows]
        if len({result.data.get("source") for result in self.results}) > 1:
            self.notes.append("estimates and simulations are mixed: part of the difference comes from the models")
            closed = [result.data.get("source") != "engine" for result in self.results]
            sides = [[row for own, one in zip(rows, closed, strict=True) if one == side for row in own]
                     for side in (False, True)]  # fmt: skip
            both = same_names(*sides)
            aliases = [both[one] for one in closed]
        found = matches(rows, aliases)
        used = [{name for row in one for name in operations_of(row)} for one in rows]
        for index in range(1, len(rows)):
            self._shared(found, used, index)
        return found

    def _shared(self, found: list[Match], used: list[set[str]], index: int) -> None:
        """Adds a note if only some operations of two results match."""
        both = [match for match in found if match.rows[0] and match.rows[index]]
        if used[0] and used[index] and not both:
            first, other = (self.results[i].data["program"] for i in (0, index))
            self.notes.append(f"{self.letters[index]} ({other}) and a ({first}) have no operation in common: "
                              "every operation belongs to one of them")  # fmt: skip
            return
        known = used[0] | used[index]
        matched = {name for match in both for name in match.operations} & known
        if len(matched) < len(known):
            shares = [
                sum(match.cycles(i) for match in both) / max(1, self.results[i].cycles) if self.results[i].cycles else 1
                for i in (0, index)
            ]
            told = [f"{figures.percent(s)} of {self.letters[i]}" for s, i in zip(shares, (0, index), strict=True)]
            self.notes.append(
                f"{len(matched):,} of {len(known):,} operations of a and {self.letters[index]} matched: "
                f"{', '.join(told)} by time; the others have separate rows"
            )

    def total(self, index: int) -> float:
        """The time of one result.

        Args:
            index: index of the result, from 0 on.

        Returns:
            Cycles or seconds (`unit`).
        """
        return self._time(index, self.results[index].cycles)

    def _time(self, index: int, cycles: int) -> Any:
        return cycles if self.unit == "cycles" else cycles / self.results[index].data["hertz"]

    def table(self) -> Table:
        """Totals of all results and their ratios to the first.

        Returns:
            One row per figure: cycles, seconds, memory_bytes, joules (if all results have them), bottleneck.
        """
        rows = []
        names = ["cycles", "seconds", "memory_bytes"]
        values = {name: [getattr(result, name) for result in self.results] for name in names}
        if all(result.energy for result in self.results):
            values["joules"] = [math.fsum(result.energy.values()) for result in self.results]
        for name, own in values.items():
            rows.append(self.ratios(name, own))
        told = dict(zip(self.letters, [result.bottleneck for result in self.results], strict=True))
        rows.append({"figure": "bottleneck", **told, **{f"{letter}/a": "" for letter in self.letters[1:]}})
        return Table(rows)

    def operations(self) -> Table:
        """Tabulates each operation's time in each result and its share of the difference; largest difference first.

        Kernels are matched by the graph operations that they compute. If results group operations differently, a row
        has all kernels of the smallest common groups.

        Returns:
            Rows with operation (the longest kernel), operations (all names), a, b, ... (cycles or seconds: `unit`),
            difference (b less a) and share (of the difference of the totals: they add up to 1; nan where the totals
            are equal), `difference_b`, `share_b`, `difference_c`, ... for three results and more, bound_a, bound_b, ...
            (of the longest kernel), kernels (number in each result) and joined (why several kernels share a row).
            Time without an operation has a separate row, so that the columns add up to the totals.
        """
        return Table([dict(row) for row in self._rows])

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        rows = [self._row(match) for match in self._matches]
        rest = [
            result.cycles - sum(match.cycles(index) for match in self._matches)
            for index, result in enumerate(self.results)
        ]
        if any(rest):
            rows.append(self._figures(OUTSIDE, [], rest) | self._parts(None))
        return self.largest(rows)

    def _row(self, match: Match) -> dict[str, Any]:
        cycles = [match.cycles(index) for index in range(len(self.results))]
        name = self._name(match)
        return self._figures(name, match.operations, cycles) | self._parts(match)

    def _name(self, match: Match) -> str:
        """Returns the longest kernel's name in a form that `why` of every result in this row accepts."""
        there = [index for index, rows in enumerate(match.rows) if rows]
        longest = [(row, index) for index in there if (row := match.longest(index))]
        longest.sort(key=lambda one: -one[0]["exclusive"])
        names = [self._named[index].joint_name(match.rows[index], row) for row, index in longest]
        names += [str(row["name"]) for row, _ in longest] + match.operations
        wanted = {at: {id(row) for row in match.rows[at]} for at in there}
        for name in names:
            if all({id(row) for row in self._named[at].kernels_named(name)} == wanted[at] for at in there):
                return name
        return next((name for name in names if all(self._named[at].knows(name) for at in there)), names[0])

    @cached_property
    def _named(self) -> list[Names]:
        return [Names(result.data) for result in self.results]

    def _figures(self, name: str, operations: list[str], cycles: list[int]) -> dict[str, Any]:
        times = [self._time(index, one) for index, one in enumerate(cycles)]
        return {"operation": name, "operations": operations, **self.apart(times)}

    def _parts(self, match: Match | None) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for index, letter in enumerate(self.letters):
            longest = match.longest(index) if match else None
            row[f"bound_{letter}"] = str(longest["bound"]) if longest else ""
        row["kernels"] = [len(one) for one in match.rows] if match else [0] * len(self.results)
        return row | {"joined": joined(match, self.letters) if match else ""}

    def parts(self) -> list[dict[str, Any]]:
        """Returns the rows of `operations`.

        Returns:
            The rows.
        """
        return self._rows

    def totals(self, index: int) -> list[tuple[str, str, float, float]]:
        """Returns the totals that `check` compares: time, memory_bytes, and joules if both results have them.

        Args:
            index: of the result, from 1 on.

        Returns:
            Name, unit, value in the first result, value in this one.
        """
        other = self.results[index]
        found = [("time", self.unit, self.total(0), self.total(index)),
                 ("memory_bytes", "B", self.a.memory_bytes, other.memory_bytes)]  # fmt: skip
        if self.a.energy and other.energy:
            joules = [math.fsum(one.energy.values()) for one in (self.a, other)]
            found.append(("joules", "J", joules[0], joules[1]))
        return found

    def modelled(self, index: int) -> list[str]:
        """Approximations of one result.

        Args:
            index: of the result, from 0 on.

        Returns:
            One line per approximation.
        """
        return list(self.results[index].approximations)

    def folded(self) -> list[dict[str, Any]]:
        """`operations` with repeated layers folded, largest difference first.

        Returns:
            Rows of `operations` with layers (their number) and rows (the folded ones); the name has "*" for layer
            numbers.
        """
        return list(self._folded)

    @cached_property
    def _folded(self) -> list[dict[str, Any]]:
        columns = [self.column("difference", letter) for letter in self.letters[1:]]
        shares = [self.column("share", letter) for letter in self.letters[1:]]
        added = [*self.letters, *columns, *shares]
        found = []
        for (name, _), rows in fold(self._rows, lambda row: str(row["operation"])).items():
            sums = {key: sum(row[key] for row in rows) for key in added}
            found.append(
                {**rows[0], **sums, "operation": name if len(rows) > 1 else rows[0]["operation"]}
                | {"layers": len(rows), "rows": rows}
            )
        return self.largest(found)

    def differences(self) -> Table:
        """Differences between the results other than times: program, machine, settings, versions, options.

        Returns:
            Rows with what, and its value in each result.
        """
        return Table([{"what": what, **dict(zip(self.letters, own, strict=True))} for what, own in
                      differing(self.results)])  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON values.

        Returns:
            names, unit, headline, totals, differences, operations, notes; numbers that are not finite become None.
        """
        tables = {"totals": self.table(), "differences": self.differences(), "operations": self.operations()}
        rows = {key: [{k: finite(v) for k, v in row.items()} for row in table.rows] for key, table in tables.items()}
        names = dict(zip(self.letters, self.names, strict=True))
        return {"names": names, "unit": self.unit, "headline": self.headline(), **rows, "notes": self.notes}
