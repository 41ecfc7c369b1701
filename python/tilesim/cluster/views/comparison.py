"""Comparison of steps with different predictors, plans, clusters or networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...base.checked import checked_class
from ...base.errors import shown, user_error
from ...base.table import Table, Tabled
from ...results.side_by_side import Comparable, SideBySide, finite
from .breakdown import called

__all__ = ["ComparableStep", "StepComparison"]

_FACTS = ("plan", "cluster", "device", "devices", "predictor", "network", "overlap", "framework")
_FIGURES = ("seconds", "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes")


@checked_class()
class StepComparison(SideBySide):
    """A comparison of steps with the first one.

    Results are called a, b, c, ... in order; `names` describes them.
    """

    noun = "part"

    def __init__(self, results: Sequence[Any], names: Sequence[str] | None = None) -> None:
        """Stores results."""
        super().__init__(results, names, _distinct_descriptions)

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
            b/a, ... (NaN if the first is zero).
        """
        return Table([self.ratios(name, [getattr(one, name) for one in self.results]) for name in _FIGURES])

    def breakdown(self) -> Table:
        """Seconds of each part of a step in each result, largest difference first.

        Returns:
            Rows with part, dimension, a, b, ... (seconds), difference (b minus a) and share (of the steps' difference:
            they add up to 1; NaN if only the steps are equal), with a letter suffix for three results or more. The
            columns add up to the steps' seconds.
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
            The rows, with operation: the part's name, such as "data (nodes)".
        """
        return [{"operation": called(row), **row} for row in self._rows]

    def folded(self) -> list[dict[str, Any]]:
        """Rows of `breakdown`, without folding.

        Returns:
            The rows, with operation: the part's name, such as "data (nodes)".
        """
        return [{**row, "layers": 1, "rows": [row]} for row in self.parts()]

    def totals(self, index: int) -> list[tuple[str, str, float, float]]:
        """Totals that `check` compares: time and peak_bytes.

        Args:
            index: of the result, from 1 on.

        Returns:
            Name, unit, value in the first result, value in this one.
        """
        return [("time", "s", self.total(0), self.total(index)),
                ("peak_bytes", "B", self.results[0].peak_bytes, self.results[index].peak_bytes)]  # fmt: skip

    def modelled(self, index: int) -> list[str]:
        """Assumptions of one step: notes, and sources of constants.

        Args:
            index: of the result, from 0 on.

        Returns:
            One line per assumption.
        """
        result = self.results[index]
        return [*getattr(result, "notes", []), *(f"{name}: {source}" for name, source in result.provenance.items())]

    def differences(self) -> Table:
        """Differences in the results' subjects.

        Returns:
            Rows what (workload, plan, cluster, device, predictor, ...), a, b, ...
        """
        rows = []
        for name, values in _facts_by_name(self.results).items():
            if len(set(values)) > 1:
                rows.append({"what": name, **dict(zip(self.letters, values, strict=True))})
        return Table(rows, empty="the results describe the same step")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, schema `tilesim.cluster_comparison`: names, unit, headline, totals, differences, breakdown,
        notes.

        Returns:
            The value; numbers that are not finite become None.
        """
        tables = {"totals": self.table(), "differences": self.differences(), "breakdown": self.breakdown()}
        rows = {key: [{k: finite(v) for k, v in row.items()} for row in table] for key, table in tables.items()}
        return {"schema": "tilesim.cluster_comparison", "version": 2,
                "names": dict(zip(self.letters, self.names, strict=True)), "unit": self.unit,
                "headline": self.headline(), **rows, "notes": self.notes}  # fmt: skip


def _facts_by_name(results: Sequence[Any]) -> dict[str, list[str]]:
    """Groups the facts of results by name."""
    found = {"workload": [str(result.workload.name) for result in results]}
    for name in _FACTS:
        found[name] = [
            one.text() if hasattr(one, "text") else "" if one is None else str(one)
            for one in (getattr(result, name) for result in results)
        ]
    return found


def _distinct_descriptions(results: Sequence[Any]) -> list[str]:
    """Describes results by their differences."""
    told = {name: values for name, values in _facts_by_name(results).items() if len(set(values)) > 1}
    if "cluster" in told:
        told.pop("device", None)
    return [", ".join(filter(None, (values[at] for values in told.values()))) or "the same step"
            for at in range(len(results))]  # fmt: skip


class ComparableStep(Comparable, Tabled):
    """A cluster step, new or loaded."""

    def beside(self, others: Sequence[Any], names: Sequence[str] | None = None) -> StepComparison:
        """Compares this step with others, for `ts.compare`.

        Args:
            others: results of `ts.cluster.step`, or saved ones.
            names: names of the results, this one first; default: texts of their differences.

        Returns:
            The comparison.

        Raises:
            UserError: for a result of another type, or a wrong number of names.
        """
        for number, one in enumerate(others, 1):
            if not isinstance(one, ComparableStep):
                raise user_error("a cluster step can be compared only with cluster steps", place=f"result {number}",
                                 value=shown(one), allowed="results of ts.cluster.step, new or loaded")  # fmt: skip
        return StepComparison([self, *others], names)
