"""Draws Matplotlib charts of a sweep."""

from __future__ import annotations

from typing import Any

from ..base import figures, palette
from ..base.drawing import no_math
from ..base.errors import user_error
from .metrics import LARGER_IS_BETTER

__all__ = ["heatmap", "lines", "pareto"]

_LABELS = 10  # charts with more lines have no legend


def _labelled(sweep: Any, name: str) -> str:
    unit = sweep.units.get(name, "")
    return no_math(f"{name} ({unit})" if unit else name)


def _setting(sweep: Any, name: str | None, taken: tuple[str, ...] = ()) -> str:
    """Returns the named setting, or the setting with the most values."""
    if name is not None:
        return name
    found = [one for one in sweep.varied() if one not in taken]
    if not found:
        what = "the plot needs more numeric settings"
        raise user_error(what, value=", ".join(sweep.settings) or "none", allowed="a numeric setting per axis")
    return str(found[0])


def _title(sweep: Any, axes: Any, drawn: int, *more: str) -> None:
    """Sets a title that states which points the chart omits or merges."""
    texts = [text for text in (*more, sweep.left_out(drawn)) if text]
    if texts:
        axes.set_title(no_math("\n".join(texts)), fontsize=9)


def _line_key(sweep: Any, row: dict[str, Any], taken: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Returns the values that identify the line to which a row belongs."""
    names = [key for key in ("graph", "machine", "mapping") if key in row] + sweep.settings
    return tuple((name, sweep.shown(name, row[name])) for name in names if name not in taken)


def lines(sweep: Any, axes: Any, x: str | None, y: str | None, value: str | None = None) -> None:
    """Draws a metric over a setting."""
    x, y = _setting(sweep, x), y or sweep.metric()
    groups: dict[Any, list[dict[str, Any]]] = {}
    points = sweep.rows_with([x, y])
    for row in points:
        groups.setdefault(_line_key(sweep, row, (x,)), []).append(row)
    same = set.intersection(*(set(key) for key in groups)) if groups else set()
    for i, (key, rows) in enumerate(groups.items()):
        rows.sort(key=lambda row: row[x])
        label = no_math(", ".join(f"{name} {text}" for name, text in key if (name, text) not in same))
        colour = palette.SERIES[i % len(palette.SERIES)]
        axes.plot([row[x] for row in rows], [row[y] for row in rows], "o-", ms=4, color=colour, label=label or None)
        flags = [row for row in rows if row["flag"]]
        axes.plot([row[x] for row in flags], [row[y] for row in flags], "x", ms=10, color=palette.RED)
    axes.set_xlabel(_labelled(sweep, x))
    axes.set_ylabel(_labelled(sweep, y))
    axes.set_ylim(bottom=0)
    if 1 < len(groups) <= _LABELS:
        axes.legend(fontsize=8)
    many = f"{len(groups)} combinations of the other settings" if len(groups) > _LABELS else ""
    _title(sweep, axes, len(points), many)


def heatmap(sweep: Any, axes: Any, x: str | None, y: str | None, value: str | None = None) -> None:
    """Draws a metric over two settings for one graph, with the best value over all other settings."""
    x = _setting(sweep, x, (y,) if y else ())
    y, value = _setting(sweep, y, (x,)), value or sweep.metric()
    rows = sweep.rows_with([x, y, value])
    graphs = list(dict.fromkeys(str(row["graph"]) for row in rows if "graph" in row))
    if len(graphs) > 1:
        raise user_error("a heat map needs a single graph", place="heatmap", value=", ".join(graphs),
                         suggestion=f'Select one: .only({{"graph": "{graphs[0]}"}})')  # fmt: skip
    across, up = sorted({row[x] for row in rows}), sorted({row[y] for row in rows})
    best: dict[tuple[int, int], float] = {}
    choose = max if value.split(".")[0] in LARGER_IS_BETTER else min
    for row in rows:
        place = (up.index(row[y]), across.index(row[x]))
        best[place] = choose(best.get(place, row[value]), row[value])
    cells = [[best.get((i, j), float("nan")) for j in range(len(across))] for i in range(len(up))]
    image = axes.imshow(cells, origin="lower", aspect="auto", cmap="cividis")
    axes.figure.colorbar(image, ax=axes, label=_labelled(sweep, value))
    axes.set_xticks(range(len(across)), [no_math(sweep.shown(x, one)) for one in across], rotation=45, ha="right")
    axes.set_yticks(range(len(up)), [no_math(sweep.shown(y, one)) for one in up])
    axes.set_xlabel(no_math(x))
    axes.set_ylabel(no_math(y))
    many = len(rows) // max(1, len(best))
    _title(sweep, axes, len(rows), "cells show the best of the other settings and machines" if many > 1 else "")
    if len(best) <= 100:
        for (i, j), number in best.items():
            share = (number - min(best.values())) / ((max(best.values()) - min(best.values())) or 1)
            axes.text(j, i, no_math(sweep.shown(value, number)), ha="center", va="center", fontsize=8,
                      color="black" if share > 0.5 else "white")  # fmt: skip


def pareto(sweep: Any, axes: Any, x: str | None, y: str | None, value: str | None = None) -> None:
    """Draws two metrics of all points, with the Pareto front of each graph."""
    numbers = [name for name in sweep.metrics if any(isinstance(row[name], (int, float)) for row in sweep.rows)]
    x = x or sweep.metric()
    y = y or next((name for name in numbers if name != x and {name, x} != {"cycles", "seconds"}), None)
    if y is None:
        raise user_error("a Pareto front needs two metrics", allowed='sweep(..., metrics=["seconds", "bytes"])')
    rows, best = sweep.rows_with([x, y]), sweep.pareto([x, y]).rows
    axes.plot([row[x] for row in rows], [row[y] for row in rows], "o", ms=4, color=palette.OTHER_COLOUR,
              label=f"{figures.count(len(rows))} points")  # fmt: skip
    graphs = list(dict.fromkeys(row.get("graph") for row in rows))
    for i, graph in enumerate(graphs):
        front = [row for row in best if row.get("graph") == graph]
        colour = palette.SERIES[i % len(palette.SERIES)] if len(graphs) > 1 else palette.BLUE
        label = "front" if len(graphs) == 1 else no_math(f"front of {graph}") if i < _LABELS else None
        axes.plot([row[x] for row in front], [row[y] for row in front], "o-", ms=5, color=colour, label=label)
    _title(sweep, axes, len(rows))
    axes.set_xlabel(_labelled(sweep, x))
    axes.set_ylabel(_labelled(sweep, y))
    axes.legend(fontsize=8)
