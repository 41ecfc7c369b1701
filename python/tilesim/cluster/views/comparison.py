"""Steps side by side: of different predictors, plans, clusters, networks; where the difference lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base import figures
from ...base.columns import layout, number, percent, text
from ...base.errors import shown, user_error
from ...base.screen import Lines
from ...base.table import Table
from ...results.headlines import letters

__all__ = ["StepComparison", "beside"]

_TOLD = ("plan", "cluster", "device", "devices", "predictor", "network", "overlap", "framework")
_FIGURES = ("seconds", "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes")


class StepComparison:
    """Steps side by side: the first one, and what differs from it in each other one.

    Results are called a, b, c, ... in the order in which they were given; `names` says what each of them is.
    """

    def __init__(self, results: Sequence[Any], names: Sequence[str] | None = None) -> None:
        """Holds results.

        Args:
            results: of `ts.cluster.step`, two or more.
            names: what each is; none: what tells them apart (plan, cluster, predictor, ...).

        Raises:
            UserError: for a number of names that is not that of the results.
        """
        self.results = list(results)
        self.letters = [letter for letter, _ in zip(letters(), self.results, strict=False)]
        if names is not None and len(names) != len(self.results):
            number_ = f"{len(self.results)} names"
            raise user_error("each result has one name", place="names", value=f"{len(names)} names", allowed=number_)
        self.names = list(names) if names is not None else _told_apart(self.results)

    def table(self) -> Table:
        """Totals of all results and their ratios to the first.

        Returns:
            One row per figure: seconds, exposed_seconds, bubble_seconds, mfu, peak_bytes; columns figure, a, b, ...,
            b/a, ... (not a number where the first is zero).
        """
        rows = []
        for name in _FIGURES:
            own = [getattr(result, name) for result in self.results]
            ratios = {f"{letter}/a": value / own[0] if own[0] else math.nan
                      for letter, value in zip(self.letters[1:], own[1:], strict=True)}  # fmt: skip
            rows.append({"figure": name, **dict(zip(self.letters, own, strict=True)), **ratios})
        return Table(rows)

    def column(self, name: str, letter: str) -> str:
        """A column of one difference.

        Args:
            name: "difference" or "share".
            letter: of the result.

        Returns:
            The name, with the letter where there are three results or more.
        """
        return name if len(self.results) == 2 else f"{name}_{letter}"

    def breakdown(self) -> Table:
        """Per part of a step: its seconds in each result; the largest difference first.

        Returns:
            Rows part, dimension, a, b, ... (seconds), difference (b less a) and share (of the difference of the steps:
            they add up to 1; not a number where the steps are equal), with the letter behind for three results and
            more. The columns add up to the steps' seconds.
        """
        each = [{(row["part"], row["dimension"]): row["seconds"] for row in result.breakdown}
                for result in self.results]  # fmt: skip
        total = [result.seconds for result in self.results]
        rows = []
        for part, dimension in dict.fromkeys(key for one in each for key in one):
            own = [one.get((part, dimension), 0.0) for one in each]
            row: dict[str, Any] = {"part": part, "dimension": dimension, **dict(zip(self.letters, own, strict=True))}
            for at, letter in enumerate(self.letters[1:], 1):
                difference, whole = own[at] - own[0], total[at] - total[0]
                row[self.column("difference", letter)] = difference
                row[self.column("share", letter)] = difference / whole if whole else math.nan
            rows.append(row)
        columns = [self.column("difference", letter) for letter in self.letters[1:]]
        return Table(sorted(rows, key=lambda row: (-max(abs(row[one]) for one in columns), -row["a"])))

    def differs(self) -> Table:
        """What the results are of, where that is not the same.

        Returns:
            Rows what (workload, plan, cluster, device, predictor, ...), a, b, ...
        """
        rows = []
        for name, values in _told(self.results).items():
            if len(set(values)) > 1:
                rows.append({"what": name, **dict(zip(self.letters, values, strict=True))})
        return Table(rows, empty="the results are of the same step")

    def headline(self, index: int = 1) -> str:
        """Where the difference of one result from the first lies.

        Args:
            index: of the result, from 1 on.

        Returns:
            A sentence.
        """
        first, other = self.results[0], self.results[index]
        letter = self.letters[index]
        if other.seconds == first.seconds:
            return f"{letter} takes as long as a"
        more = "more" if other.seconds > first.seconds else "less"
        change = figures.percent(abs(other.seconds / first.seconds - 1)) if first.seconds else "all"
        row = max(self.breakdown(), key=lambda row: abs(row[self.column("difference", letter)]))
        part = f"{row['part']} ({row['dimension']})" if row["dimension"] else row["part"]
        by = row[self.column("difference", letter)]
        sign = "+" if by >= 0 else "-"
        return f"{letter} takes {change} {more} than a: {sign}{figures.duration(abs(by))} {part}"

    def lines(self) -> list[str]:
        """The comparison as text: names, totals, breakdown, headlines.

        Returns:
            Lines of at most 120 characters where the names are short.
        """
        listed = zip(self.letters, self.names, strict=True)
        found = [f"{letter}: {told}" for letter, told in listed]
        columns = [text("figure"), *(number(letter) for letter in self.letters),
                   *(number(f"{letter}/a") for letter in self.letters[1:])]  # fmt: skip
        cells = []
        for row in self.table():
            own = [_shown(row["figure"], row[letter]) for letter in self.letters]
            ratios = [row[f"{letter}/a"] for letter in self.letters[1:]]
            cells.append([row["figure"], *own, *("–" if math.isnan(one) else f"{one:.3g}" for one in ratios)])
        found += _plain(layout(columns, cells))
        columns = [text("part"), text("exposed on"), *(number(letter) for letter in self.letters)]
        for letter in self.letters[1:]:
            columns += [number(self.column("difference", letter)), number(self.column("share", letter) + ", %")]
        cells = []
        for row in self.breakdown():
            cell = [row["part"], row["dimension"], *(figures.duration(row[letter]) for letter in self.letters)]
            for letter in self.letters[1:]:
                by, share = row[self.column("difference", letter)], row[self.column("share", letter)]
                cell += [f"{'-' if by < 0 else '+'}{figures.duration(abs(by))}",
                         "–" if math.isnan(share) else percent(share)]  # fmt: skip
            cells.append(cell)
        found += _plain(layout(columns, cells))
        return found + [self.headline(at) for at in range(1, len(self.results))]

    def text(self) -> str:
        """The lines as one text.

        Returns:
            The text.
        """
        return "\n".join(self.lines())

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """As a JSON value, schema `tilesim.cluster_comparison`: names, differs, table, breakdown.

        Returns:
            The value; figures that are not numbers are none.
        """

        def rows(table: Table) -> list[dict[str, Any]]:
            return [{key: None if isinstance(value, float) and not math.isfinite(value) else value
                     for key, value in row.items()} for row in table]  # fmt: skip

        return {"schema": "tilesim.cluster_comparison", "version": 1,
                "names": dict(zip(self.letters, self.names, strict=True)), "differs": rows(self.differs()),
                "table": rows(self.table()), "breakdown": rows(self.breakdown())}  # fmt: skip


def _plain(lines: Lines) -> list[str]:
    return [one if isinstance(one, str) else "".join(piece for piece, _ in one) for one in lines]


def _shown(figure: str, value: float) -> str:
    if figure.endswith("seconds"):
        return figures.duration(value)
    return figures.percent(value) if figure == "mfu" else f"{value / (1 << 30):,.1f} GiB"


def _told(results: Sequence[Any]) -> dict[str, list[str]]:
    """What results are of, by what is told."""
    found = {"workload": [str(result.workload.name) for result in results]}
    for name in _TOLD:
        found[name] = [
            one.text() if hasattr(one, "text") else "" if one is None else str(one)
            for one in (getattr(result, name) for result in results)
        ]
    return found


def _told_apart(results: Sequence[Any]) -> list[str]:
    """What each result is, in the words in which they differ."""
    told = {name: values for name, values in _told(results).items() if len(set(values)) > 1}
    if "cluster" in told:
        told.pop("device", None)
    return [", ".join(filter(None, (values[at] for values in told.values()))) or "the same step"
            for at in range(len(results))]  # fmt: skip


def beside(results: Sequence[Any], names: Sequence[str] | None, kind: type) -> StepComparison:
    """Results of steps side by side.

    Args:
        results: two or more.
        names: of each.
        kind: that all of them are.

    Returns:
        The comparison.

    Raises:
        UserError: for a result of another kind.
    """
    for number_, one in enumerate(results):
        if not isinstance(one, kind):
            raise user_error("a step of many devices stands beside others alone", place=f"result {number_}",
                             value=shown(one), allowed="results of ts.cluster.step")  # fmt: skip
    return StepComparison(results, names)
