"""Steps side by side: of different predictors, plans, clusters, networks; where the difference lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...base.checked import checked_class
from ...base.errors import shown, user_error
from ...base.table import Table, Tabled
from ...results.beside import Comparable
from ...results.side_by_side import SideBySide, finite
from .breakdown import called

__all__ = ["ComparableStep", "StepComparison"]

_TOLD = ("plan", "cluster", "device", "devices", "predictor", "network", "overlap", "framework")
_FIGURES = ("seconds", "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes")


@checked_class()
class StepComparison(SideBySide):
    """Steps side by side: the first one, and what differs from it in each other one.

    Results are called a, b, c, ... in the order in which they were given; `names` says what each of them is.
    """

    noun = "part"

    def __init__(self, results: Sequence[Any], names: Sequence[str] | None = None) -> None:
        """Holds results."""
        super().__init__(results, names, _told_apart)

    def total(self, index: int) -> float:
        """The time of one step.

        Args:
            index: of the result, from 0 on.

        Returns:
            Seconds.
        """
        return float(self.results[index].seconds)

    def table(self) -> Table:
        """Totals of all results and their ratios to the first.

        Returns:
            One row per figure: seconds, exposed_seconds, bubble_seconds, mfu, peak_bytes; columns figure, a, b, ...,
            b/a, ... (not a number where the first is zero).
        """
        return Table([self.ratios(name, [getattr(one, name) for one in self.results]) for name in _FIGURES])

    def breakdown(self) -> Table:
        """Per part of a step: its seconds in each result; the largest difference first.

        Returns:
            Rows part, dimension, a, b, ... (seconds), difference (b less a) and share (of the difference of the steps:
            they add up to 1; not a number where the steps are equal and the part is not), with the letter behind for
            three results and more. The columns add up to the steps' seconds.
        """
        return Table([dict(row) for row in self._rows])

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        each = [{(row["part"], row["dimension"]): row["seconds"] for row in result.breakdown}
                for result in self.results]  # fmt: skip
        rows = []
        for part, dimension in dict.fromkeys(key for one in each for key in one):
            own = self.apart([one.get((part, dimension), 0.0) for one in each])
            rows.append({"part": part, "dimension": dimension, **own})
        return self.largest(rows)

    def parts(self) -> list[dict[str, Any]]:
        """Rows of `breakdown`.

        Returns:
            The rows, with operation: what the part is called, as "data (nodes)".
        """
        return [{"operation": called(row), **row} for row in self._rows]

    def folded(self) -> list[dict[str, Any]]:
        """Rows of `breakdown`, of which nothing is folded.

        Returns:
            The rows, with operation: what the part is called, as "data (nodes)".
        """
        return [{**row, "layers": 1, "rows": [row]} for row in self.parts()]

    def totals(self, index: int) -> list[tuple[str, str, float, float]]:
        """What `check` holds one step to beside its parts: time and peak_bytes.

        Args:
            index: of the result, from 1 on.

        Returns:
            Name, unit, value in the first result, value in this one.
        """
        return [("time", "s", self.total(0), self.total(index)),
                ("peak_bytes", "B", self.results[0].peak_bytes, self.results[index].peak_bytes)]  # fmt: skip

    def modelled(self, index: int) -> list[str]:
        """What one step took for granted: notes, and where constants are from.

        Args:
            index: of the result, from 0 on.

        Returns:
            A line each.
        """
        result = self.results[index]
        return [*getattr(result, "notes", []), *(f"{name}: {source}" for name, source in result.provenance.items())]

    def differences(self) -> Table:
        """What the results are of, where that is not the same.

        Returns:
            Rows what (workload, plan, cluster, device, predictor, ...), a, b, ...
        """
        rows = []
        for name, values in _told(self.results).items():
            if len(set(values)) > 1:
                rows.append({"what": name, **dict(zip(self.letters, values, strict=True))})
        return Table(rows, empty="the results are of the same step")

    def to_dict(self) -> dict[str, Any]:
        """As a JSON value, schema `tilesim.cluster_comparison`: names, unit, headline, totals, differences, breakdown,
        notes.

        Returns:
            The value; figures that are not numbers are none.
        """
        tables = {"totals": self.table(), "differences": self.differences(), "breakdown": self.breakdown()}
        rows = {key: [{k: finite(v) for k, v in row.items()} for row in table] for key, table in tables.items()}
        return {"schema": "tilesim.cluster_comparison", "version": 2,
                "names": dict(zip(self.letters, self.names, strict=True)), "unit": self.unit,
                "headline": self.headline(), **rows, "notes": self.notes}  # fmt: skip


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


class ComparableStep(Comparable, Tabled):
    """A step of many devices, of this run or saved."""

    def beside(self, others: Sequence[Any], names: Sequence[str] | None = None) -> StepComparison:
        """This step and others side by side, as `ts.compare` asks for.

        Args:
            others: results of `ts.cluster.step`, or saved ones.
            names: what each is, this one first; none: what tells them apart.

        Returns:
            The comparison.

        Raises:
            UserError: for a result of another kind, or a number of names that is not theirs.
        """
        for number, one in enumerate(others, 1):
            if not isinstance(one, ComparableStep):
                raise user_error("a step of many devices stands beside others alone", place=f"result {number}",
                                 value=shown(one), allowed="results of ts.cluster.step, saved ones")  # fmt: skip
        return StepComparison([self, *others], names)
