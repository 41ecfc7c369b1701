"""The breakdown of a step's time, as terminal bars and as a chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base import figures
from ...base.columns import bar, layout, name, number, percent, text
from ...base.drawing import axes_or_new, no_math
from ...base.palette import BOUND, OTHER_COLOUR
from ...base.screen import Lines
from ...base.table import Table

__all__ = ["Breakdown", "breakdown", "called", "lines"]

#: colours of the parts other than communication, in the order of the chart
_COLOURS = {
    "compute": BOUND["compute"],
    "recompute": BOUND["vector"],
    "interference": BOUND["cache"],
    "host": BOUND["host"],
    "bubble": OTHER_COLOUR,
    "wait": OTHER_COLOUR,
    "optimizer": BOUND["launch"],
}
_EXPOSED = (BOUND["network"], BOUND["link"], BOUND["latency"], BOUND["memory"])


class Breakdown(Table):
    """Parts of a step that sum to its seconds: rows part, dimension (of communication, else empty), seconds, share,
    what; largest first."""

    def __init__(self, rows: list[dict[str, Any]], title: str) -> None:
        """Stores rows."""
        super().__init__(rows, lines)
        self.title = title

    def plot(self, axes: Any = None) -> Any:
        """Draws one stacked bar.

        Args:
            axes: matplotlib axes; default: new ones.

        Returns:
            The axes; time in seconds.

        Raises:
            UserError: without matplotlib.
        """
        axes = axes_or_new(axes, 2.6)
        left, exposed = 0.0, 0
        names = [*list(_COLOURS)[:4], "exposed", *list(_COLOURS)[4:]]
        order = {part: number for number, part in enumerate(names)}
        for row in sorted(self.rows, key=lambda row: order.get(row["part"], order["exposed"])):
            if row["part"] in _COLOURS:
                colour = _COLOURS[row["part"]]
            else:
                colour, exposed = _EXPOSED[exposed % len(_EXPOSED)], exposed + 1
            label = f"{called(row)} {figures.percent(row['share'])}"
            axes.barh(
                0, row["seconds"], left=left, color=colour, label=no_math(label), edgecolor="white", linewidth=0.5
            )
            left += row["seconds"]
        axes.set_yticks([])
        axes.set_xlim(0, left)
        axes.xaxis.set_major_formatter(lambda value, _: figures.duration(value) if value else "0")
        axes.set_title(no_math(self.title), fontsize=9)
        axes.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
        return axes


def called(row: Mapping[str, Any]) -> str:
    """Returns the displayed name of a part of a step."""
    return f"{row['part']} ({row['dimension']})" if row["dimension"] else str(row["part"])


def lines(rows: list[dict[str, Any]]) -> Lines:
    """Formats the table of a breakdown, with bars on terminals that can print them."""
    columns = [
        name("part", least=10),
        name("exposed on", 1, 6),
        number("time"),
        number("share, %"),
        bar(),
        text("what", 2),
    ]
    cells = [
        [
            row["part"],
            row["dimension"],
            figures.duration(row["seconds"]),
            percent(row["share"]),
            row["share"],
            row["what"],
        ]
        for row in rows
    ]
    return layout(columns, cells)


def breakdown(result: Any, meanings: Mapping[str, str]) -> Breakdown:
    """Builds the breakdown of a step's time."""
    found: dict[tuple[str, str], float] = {}
    for row in result.communication:
        part = "pipeline" if row["when"] == "sent" else row["axis"]
        key = part, row["dimension"]
        found[key] = found.get(key, 0.0) + row["exposed_seconds"]
    told = {part for part, _ in found}
    for part, value in result.parts.items():
        if part not in told:
            found[part, ""] = value
    rows = []
    for (part, dimension), value in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        if abs(value) > 1e-9 * result.seconds:
            rows.append({"part": part, "dimension": dimension, "seconds": value, "share": value / result.seconds,
                         "what": meanings.get(part, "")})  # fmt: skip
    title = f"{result.workload.name} on {result.devices:,} × {result.device}: {figures.duration(result.seconds)}"
    return Breakdown(rows, title)
