"""The base class of comparisons: results with letters and names, totals, parts, changes, page."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..base.checked import checked_class
from ..base.errors import user_error
from ..base.files import writing
from ..base.table import Table
from .headlines import headline, letters, tolerance_of

__all__ = ["Comparable", "SideBySide"]


class Comparable:
    """A result of a higher module that `compare` accepts."""

    @abstractmethod
    def beside(self, others: Sequence[Any], names: Sequence[str] | None = None) -> Any:
        """Compares this result with others of its type; `names` has this result's name first."""


@checked_class()
class SideBySide(ABC):
    """A comparison of results with the first one.

    Results are called a, b, c, ... in order; `names` describes them; `unit` is the unit of times, `noun` names the rows
    of `parts`, and `notes` has remarks.
    """

    noun = "operation"
    unit = "s"

    def __init__(self, results: Sequence[Any], names: Sequence[str] | None, told: Callable[[list[Any]], list[str]]):
        """Stores and names the results."""
        self.results: list[Any] = list(results)
        self.letters = [letter for letter, _ in zip(letters(), self.results, strict=False)]
        if names is not None and len(names) != len(self.results):
            number = f"{len(self.results)} names"
            raise user_error("a wrong number of names", place="names", value=f"{len(names)} names", allowed=number)
        self.names = list(names) if names is not None else told(self.results)
        self.notes: list[str] = []

    @abstractmethod
    def total(self, index: int) -> float:
        """The time of one result."""

    @abstractmethod
    def table(self) -> Table:
        """Totals of all results and their ratios to the first."""

    @abstractmethod
    def differences(self) -> Table:
        """Differences between the results other than times."""

    @abstractmethod
    def folded(self) -> list[dict[str, Any]]:
        """Parts of the results with repeated layers folded, largest difference first."""

    @abstractmethod
    def parts(self) -> list[dict[str, Any]]:
        """Parts of the results, largest difference first."""

    @abstractmethod
    def totals(self, index: int) -> list[tuple[str, str, float, float]]:
        """Totals that `check` compares."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON values."""

    @abstractmethod
    def modelled(self, index: int) -> list[str]:
        """Approximations of one result."""

    def column(self, name: str, letter: str) -> str:
        """Returns the name of a difference column.

        Args:
            name: "difference" or "share".
            letter: letter of the result.

        Returns:
            The name, with the letter for three results or more.
        """
        return name if len(self.results) == 2 else f"{name}_{letter}"

    def ratios(self, name: str, values: Sequence[float]) -> dict[str, Any]:
        """A row of `table`.

        Args:
            name: name of the figure.
            values: the figure's value in each result.

        Returns:
            figure, a, b, ..., b/a, ...; NaN if the first is zero.
        """
        ratios = {f"{letter}/a": value / values[0] if values[0] else math.nan
                  for letter, value in zip(self.letters[1:], values[1:], strict=True)}  # fmt: skip
        return {"figure": name, **dict(zip(self.letters, values, strict=True)), **ratios}

    def apart(self, times: Sequence[float]) -> dict[str, Any]:
        """A part's time in each result, its difference from the first and its share of the total difference.

        Args:
            times: the part's time in each result, in `unit`.

        Returns:
            Columns a, b, ..., difference, share; a share is NaN if only the totals are equal.
        """
        row: dict[str, Any] = dict(zip(self.letters, times, strict=True))
        for index, letter in enumerate(self.letters[1:], 1):
            difference, whole = times[index] - times[0], self.total(index) - self.total(0)
            row[self.column("difference", letter)] = difference
            row[self.column("share", letter)] = difference / whole if whole else 0.0 if not difference else math.nan
        return row

    def largest(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Sorts rows, largest difference first.

        Args:
            rows: rows with the columns of `apart`.

        Returns:
            The sorted rows.
        """
        columns = [self.column("difference", letter) for letter in self.letters[1:]]
        return sorted(rows, key=lambda row: (-max(abs(row[one]) for one in columns), -row["a"]))

    def headline(self) -> str:
        """The main differences, a line for each result after the first.

        Returns:
            Such as "b (tpu-v4) against a (tpu-v3): 1.13 × faster; 120 of 162 thousand cycles in intermediate.dense".
        """
        return "\n".join(headline(self, index) for index in range(1, len(self.results)))

    def called(self, index: int) -> str:
        """The name of one result in texts.

        Args:
            index: of the result, from 0 on.

        Returns:
            Such as "b (tpu-v4)".
        """
        name = self.names[index]
        return f"{self.letters[index]} ({name})" if name else self.letters[index]

    def check(self, tolerance: float | str = 0.02) -> Table:
        """Changes from the first result beyond a tolerance, for regression tests.

        Args:
            tolerance: share of a figure's value in the first result: 0.02, "2%".

        Returns:
            Rows with result (its letter), kind ("total", or `noun`), name, unit, before, after, change (share of the
            value before; infinite if that is 0), totals first, then parts by difference; empty if no change exceeds the
            tolerance.

        Raises:
            UserError: for an invalid tolerance.
        """
        most = tolerance_of(tolerance)
        rows = []
        for index, letter in enumerate(self.letters[1:], 1):
            own = [("total", *total) for total in self.totals(index)]
            own += [(self.noun, row["operation"], self.unit, row["a"], row[letter]) for row in self.parts()]
            for kind, name, unit, before, after in own:
                change = after / before - 1 if before else math.inf if after else 0.0
                if abs(after - before) > most * abs(before):
                    rows.append({"result": letter, "kind": kind, "name": name, "unit": unit, "before": before,
                                 "after": after, "change": change})  # fmt: skip
        return Table(rows)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a self-contained HTML page: totals, differences, parts with bars.

        Args:
            path: file to write.

        Raises:
            UserError: for a file that cannot be written.
        """
        from .comparison_page import page

        with writing(path) as file:
            file.write(page(self))

    def text(self, width: int = 100) -> str:
        """The comparison for a terminal.

        Args:
            width: characters of a line.

        Returns:
            Lines: headline, totals, differences, the parts that differ most.
        """
        from .comparison_page import text

        return text(self, width)

    def __str__(self) -> str:
        """The comparison in 100 columns."""
        return self.text()

    def __repr__(self) -> str:
        """Describes the result in one line."""
        return f"<Comparison {self.headline()}>"

    def _repr_html_(self) -> str:
        from .comparison_page import picture

        return picture(self)


def finite(value: Any) -> Any:
    """Converts a value for JSON: numbers that are not finite become None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
