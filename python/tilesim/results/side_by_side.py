"""What every comparison is: results with letters and names, totals, rows of their parts, what changed, one page."""

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

__all__ = ["SideBySide"]


@checked_class()
class SideBySide(ABC):
    """Results side by side: the first one, and what differs from it in each other one.

    Results are called a, b, c, ... in the order in which they were given; `names` says what each of them is; `unit`
    is that of times; `noun` what the rows of `parts` are; `notes` what a reader has to know.
    """

    noun = "operation"
    unit = "s"

    def __init__(self, results: Sequence[Any], names: Sequence[str] | None, told: Callable[[list[Any]], list[str]]):
        """Names results."""
        self.results: list[Any] = list(results)
        self.letters = [letter for letter, _ in zip(letters(), self.results, strict=False)]
        if names is not None and len(names) != len(self.results):
            number = f"{len(self.results)} names"
            raise user_error("each result has one name", place="names", value=f"{len(names)} names", allowed=number)
        self.names = list(names) if names is not None else told(self.results)
        self.notes: list[str] = []

    @abstractmethod
    def total(self, index: int) -> float:
        """The time of one result.

        Args:
            index: of the result, from 0 on.

        Returns:
            In `unit`.
        """

    @abstractmethod
    def table(self) -> Table:
        """Totals of all results and their ratios to the first.

        Returns:
            One row per figure.
        """

    @abstractmethod
    def differences(self) -> Table:
        """What differs between the results beside their times.

        Returns:
            Rows with what, and its value in each result.
        """

    @abstractmethod
    def folded(self) -> list[dict[str, Any]]:
        """Parts of the results, the largest difference first.

        Returns:
            Rows with operation (what the part is called), a, b, ..., difference, share, layers, rows.
        """

    @abstractmethod
    def parts(self) -> list[dict[str, Any]]:
        """Parts of the results, each by itself, the largest difference first.

        Returns:
            Rows with operation (what the part is called), a, b, ..., difference, share.
        """

    @abstractmethod
    def totals(self, index: int) -> list[tuple[str, str, float, float]]:
        """What `check` holds one result to beside its parts.

        Args:
            index: of the result, from 1 on.

        Returns:
            Name, unit, value in the first result, value in this one.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON values.

        Returns:
            Names, unit, headline, totals, differences, parts, notes; numbers that are not finite are none.
        """

    @abstractmethod
    def modelled(self, index: int) -> list[str]:
        """What one result took for granted.

        Args:
            index: of the result, from 0 on.

        Returns:
            A line each.
        """

    def column(self, name: str, letter: str) -> str:
        """A column of one difference.

        Args:
            name: "difference" or "share".
            letter: of the result.

        Returns:
            The name, with the letter where there are three results or more.
        """
        return name if len(self.results) == 2 else f"{name}_{letter}"

    def ratios(self, name: str, values: Sequence[float]) -> dict[str, Any]:
        """A row of `table`.

        Args:
            name: of the figure.
            values: in each result.

        Returns:
            figure, a, b, ..., b/a, ...; not a number where the first is zero.
        """
        ratios = {f"{letter}/a": value / values[0] if values[0] else math.nan
                  for letter, value in zip(self.letters[1:], values[1:], strict=True)}  # fmt: skip
        return {"figure": name, **dict(zip(self.letters, values, strict=True)), **ratios}

    def apart(self, times: Sequence[float]) -> dict[str, Any]:
        """A part's time in each result, its difference to the first and what share of the whole difference that is.

        Args:
            times: of the part in each result, in `unit`.

        Returns:
            Columns a, b, ..., difference, share; a share is not a number where the totals are equal and it is not.
        """
        row: dict[str, Any] = dict(zip(self.letters, times, strict=True))
        for index, letter in enumerate(self.letters[1:], 1):
            difference, whole = times[index] - times[0], self.total(index) - self.total(0)
            row[self.column("difference", letter)] = difference
            row[self.column("share", letter)] = difference / whole if whole else 0.0 if not difference else math.nan
        return row

    def largest(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows, the largest difference first.

        Args:
            rows: with the columns of `apart`.

        Returns:
            Them, sorted.
        """
        columns = [self.column("difference", letter) for letter in self.letters[1:]]
        return sorted(rows, key=lambda row: (-max(abs(row[one]) for one in columns), -row["a"]))

    def headline(self) -> str:
        """Where the difference lies, in a line for each result beside the first.

        Returns:
            As "b (tpu-v4) against a (tpu-v3): 1.13 × faster; 120 of 162 thousand cycles in intermediate.dense".
        """
        return "\n".join(headline(self, index) for index in range(1, len(self.results)))

    def called(self, index: int) -> str:
        """One result as texts name it.

        Args:
            index: of the result, from 0 on.

        Returns:
            As "b (tpu-v4)".
        """
        name = self.names[index]
        return f"{self.letters[index]} ({name})" if name else self.letters[index]

    def check(self, tolerance: float | str = 0.02) -> Table:
        """What changed from the first result by more than a tolerance, for tests of one version against another.

        Args:
            tolerance: share of a figure's value in the first result: 0.02, "2%".

        Returns:
            Rows with result (its letter), kind ("total", or `noun`), name, unit, before, after, change (share of the
            value before; infinite where that is 0), totals first, then parts with the largest difference first; none
            where nothing changed by more.

        Raises:
            UserError: for a tolerance that is no share.
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
        """Writes one HTML page that loads nothing: totals, what differs, parts with bars.

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
            Lines: headline, totals, what differs, the parts that differ most.
        """
        from .comparison_page import text

        return text(self, width)

    def __str__(self) -> str:
        """The comparison in 100 columns."""
        return self.text()

    def __repr__(self) -> str:
        """The headline."""
        return f"<Comparison {self.headline()}>"

    def _repr_html_(self) -> str:
        from .comparison_page import picture

        return picture(self)


def finite(value: Any) -> Any:
    """A value as JSON has it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
