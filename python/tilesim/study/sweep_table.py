"""The result of a sweep: rows, Pareto front, charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..base import figures, palette
from ..base.checked import checked_class
from ..base.drawing import axes_or_new
from ..base.errors import nearest, shown, user_error
from ..base.table import Table
from .metrics import LARGER_IS_BETTER
from .points import readable

__all__ = ["Sweep"]

PLOTS = ("lines", "heatmap", "pareto")
_NOTEBOOK_ROWS = 200  # most rows that a notebook shows
_KINDS = ("ok", "illegal", "failed", "excluded")
_PREFERRED = ("seconds", "cycles", "joules", "bytes")


@checked_class()
class Sweep(Table):
    """Rows of a sweep: settings, metrics, `status` and `flag` of each point, in a fixed order.

    `units` has the units of numeric columns (settings in base units: B/s, B, Hz, s, J); `settings` and `metrics` name
    the columns of each kind; `interrupted` is true if Ctrl-C stopped the sweep.
    """

    def __init__(
        self,
        rows: list[dict[str, Any]],
        settings: Sequence[str] = (),
        metrics: Sequence[str] = (),
        units: dict[str, str] | None = None,
        interrupted: bool = False,
    ) -> None:
        """Stores rows; `sweep` calls this."""
        super().__init__(rows)
        self.settings, self.metrics = list(settings), list(metrics)
        self.units, self.interrupted = dict(units or {}), interrupted

    def _with(self, rows: list[dict[str, Any]]) -> Sweep:
        return Sweep(rows, self.settings, self.metrics, self.units, self.interrupted)

    def ok(self) -> Sweep:
        """Returns the points with a result.

        Returns:
            The rows.
        """
        return self._with([row for row in self.rows if row["status"] == "ok"])

    def flags(self) -> Sweep:
        """Returns the points that are slower although they have more of a resource.

        Returns:
            The rows.
        """
        return self._with([row for row in self.rows if row["flag"]])

    def only(self, columns: Mapping[str, Any]) -> Sweep:
        """Returns the points with these values.

        Args:
            columns: dict from column to its value ({"graph": "bert-base"}), or to a list of values.

        Returns:
            The rows.

        Raises:
            UserError: for an unknown column.
        """
        known = list(self.rows[0]) if self.rows else list(columns)
        for name in columns:
            if name not in known:
                raise user_error("unknown column", value=shown(name), allowed=", ".join(known),
                                 suggestion=nearest(str(name), known))  # fmt: skip
        wanted = {name: one if isinstance(one, (list, tuple, set)) else [one] for name, one in columns.items()}
        return self._with([row for row in self.rows if all(row[name] in one for name, one in wanted.items())])

    def pareto(self, metrics: Sequence[str] = ("seconds", "bytes")) -> Sweep:
        """Returns the Pareto-optimal points of each graph.

        Args:
            metrics: numeric columns; less is better, except for tops_per_watt and utilisation.

        Returns:
            The rows by graph, sorted by the first metric; includes all of equal points.

        Raises:
            UserError: for an unknown column or one without numbers.
        """
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        if not names:
            raise user_error("a Pareto front needs a metric", place="metrics", allowed=", ".join(self.metrics))
        rows = self._numbers(names)
        signs = [-1 if name.split(".")[0] in LARGER_IS_BETTER else 1 for name in names]
        costs = {id(row): tuple(s * row[name] for s, name in zip(signs, names, strict=True)) for row in rows}
        kept: list[dict[str, Any]] = []
        for graph in dict.fromkeys(row.get("graph") for row in rows):
            own = [row for row in rows if row.get("graph") == graph]
            best: list[tuple[float, ...]] = []
            for cost in sorted({costs[id(row)] for row in own}):  # points that dominate others come first
                if not any(all(x <= y for x, y in zip(one, cost, strict=True)) for one in best):
                    best.append(cost)
            front = set(best)
            kept += sorted((row for row in own if costs[id(row)] in front), key=lambda row: costs[id(row)])
        return self._with(kept)

    def _numbers(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the rows with a number in each of these columns."""
        columns = [*self.settings, *self.metrics]
        for name in names:
            if name not in columns:
                raise user_error("unknown column", value=shown(name), allowed=", ".join(columns),
                                 suggestion=nearest(str(name), columns))  # fmt: skip
        rows = [row for row in self.rows if row["status"] == "ok" and all(_number(row[name]) for name in names)]
        if not rows and any(row["status"] == "ok" for row in self.rows):
            raise user_error("the column has no numbers", place=", ".join(names), allowed=", ".join(columns))
        return rows

    def plot(
        self,
        kind: str = "lines",
        x: str | None = None,
        y: str | None = None,
        value: str | None = None,
        axes: Any = None,
    ) -> Any:
        """Draws the points with a result.

        Args:
            kind: "lines" (a metric over a setting, one line per combination of the others), "heatmap" (a metric over
                two settings, the best of the others, for one graph), "pareto" (two metrics with each graph's Pareto
                front). The title names omitted points.
            x: a setting (for "pareto" a metric); default: the setting with the most values.
            y: the metric of "lines" and "pareto", or the second setting of "heatmap"; default: the first.
            value: the metric of "heatmap"; default: the first.
            axes: matplotlib axes; default: new ones.

        Returns:
            The matplotlib figure.

        Raises:
            UserError: for an unknown plot or column, a column without numbers, no point with a result, a heat map of
                several graphs (`only` selects one), or without matplotlib.
        """
        from . import sweep_plot

        if kind not in PLOTS:
            raise user_error("unknown plot of a sweep", value=shown(kind), allowed=", ".join(PLOTS),
                             suggestion=nearest(kind, PLOTS))  # fmt: skip
        if not any(row["status"] == "ok" for row in self.rows):
            first = next((row["status"] for row in self.rows), "")
            raise user_error("no point has a result", value=shown(first), allowed="a point with status ok")
        drawn = axes_or_new(axes)
        getattr(sweep_plot, kind)(self, drawn, x, y, value)
        return drawn.figure

    def rows_with(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Returns rows with numbers, for charts.

        Args:
            names: columns that must have a number.

        Returns:
            The rows.

        Raises:
            UserError: for an unknown column or one without numbers.
        """
        return self._numbers(names)

    def varied(self) -> list[str]:
        """Returns the numeric settings, most values first, which are the default axes of charts.

        Returns:
            The columns.
        """
        values = {name: {row[name] for row in self.rows if _number(row[name])} for name in self.settings}
        return sorted((name for name, own in values.items() if own), key=lambda name: -len(values[name]))

    def left_out(self, drawn: int) -> str:
        """Describes the points that a chart omits.

        Args:
            drawn: number of drawn points.

        Returns:
            The number of omitted points and the reason; "" if none is omitted.
        """
        without = len(self.rows) - drawn
        if not without:
            return ""
        counts = {kind: sum(row["status"].split(":")[0] == kind for row in self.rows) for kind in _KINDS[1:]}
        counts["without a number"] = without - sum(counts.values())
        why = ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number > 0)
        return f"{without:,} of {len(self.rows):,} points are not drawn: {why}"

    def metric(self) -> str:
        """Returns the default metric of charts.

        Returns:
            The column's name.
        """
        found = [name for name in _PREFERRED if name in self.metrics] or self.metrics
        return found[0] if found else ""

    def summary(self) -> str:
        """Describes the number of points by status, and the best point of a single graph.

        Returns:
            One line.
        """
        counts = {kind: sum(row["status"].split(":")[0] == kind for row in self.rows) for kind in _KINDS}
        parts = [f"{number:,} {kind}" for kind, number in counts.items() if number]
        flags = sum(bool(row["flag"]) for row in self.rows)
        parts += [f"{flags:,} slower with more of a resource"] if flags else []
        text = f"{len(self.rows):,} point{'s' * (len(self.rows) != 1)}: {', '.join(parts) or 'none'}"
        name = self.metric()
        rows = [row for row in self.rows if row["status"] == "ok" and _number(row.get(name))]
        if rows and len({row.get("graph") for row in rows}) == 1:
            best = (max if name.split(".")[0] in LARGER_IS_BETTER else min)(rows, key=lambda row: row[name])
            at = ", ".join(f"{key} = {self.shown(key, best[key])}" for key in self._head() if key in best)
            text += f"; best {name} {self.shown(name, best[name])}{f' at {at}' if at else ''}"
        return text + ("; interrupted" if self.interrupted else "")

    def _head(self) -> list[str]:
        return [*(key for key in ("graph", "machine", "mapping") if self.rows and key in self.rows[0]), *self.settings]

    def shown(self, column: str, value: Any) -> str:
        """Formats a value.

        Args:
            column: the value's column.
            value: a row's value.

        Returns:
            The text.
        """
        unit = self.units.get(column, "")
        if value is None or value != value:
            return "–"
        if not _number(value):
            return str(value)
        if column in self.settings:
            return readable(value, unit)
        if unit in ("s", "B"):
            return figures.duration(value) if unit == "s" else figures.size(value)
        if column.startswith("utilisation") or column.endswith("share"):
            return figures.percent(value)
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        return f"{text} {unit}".rstrip()

    def __str__(self) -> str:
        """Aligned columns, with units."""
        return str(Table([{key: self.shown(key, value) for key, value in row.items()} for row in self.rows]))

    def __repr__(self) -> str:
        """The summary, and the rows as a table."""
        return f"{self.summary()}\n{self}"

    def _repr_html_(self) -> str:
        keys = list(self.rows[0]) if self.rows else []
        head = "".join(f"<th>{escape(str(key))}</th>" for key in keys)
        lines = []
        for row in self.rows[:_NOTEBOOK_ROWS]:
            mark = f' style="border-left:4px solid {palette.RED}"' if row["flag"] or row["status"] != "ok" else ""
            cells = "".join(f"<td>{escape(self.shown(key, row[key]))}</td>" for key in keys)
            lines.append(f"<tr{mark}>{cells}</tr>")
        left = len(self.rows) - _NOTEBOOK_ROWS
        more = f"<p>and {left:,} more rows</p>" if left > 0 else ""
        return f"<p><b>{escape(self.summary())}</b></p><table><tr>{head}</tr>{''.join(lines)}</table>{more}"


def _number(value: Any) -> bool:
    """Whether a value is a number other than NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
