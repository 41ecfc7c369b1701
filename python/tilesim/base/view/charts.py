"""Charts: draws static SVG; in a page, Bokeh draws the same data with zoom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from .. import figures
from ..palette import OTHER_COLOUR, SERIES
from .elements import as_text, picks

__all__ = ["Boxes", "Points", "Steps"]

_WIDTH = 860
_LEFT, _RIGHT, _TOP, _BOTTOM = 150, 16, 10, 44
_STILL = 700  # most shapes of one kind in a static drawing


@dataclass(frozen=True)
class _Axis:
    """Maps values to positions, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        if self.log:
            low, high, value = math.log10(self.low), math.log10(self.high), math.log10(max(value, 1e-300))
        else:
            low, high = self.low, self.high
        part = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            each = max(1, math.ceil((last - first + 1) / most))
            return [10.0**power for power in range(first, last + 1, each)]
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        raw = span / most
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * nice for nice in (1, 2, 5, 10) if unit * nice >= raw * 0.999)
        first = math.ceil(self.low / step)
        return [step * i for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _frame(
    across: _Axis, up: _Axis | None, titles: tuple[str, str], forms: tuple[str, str], height: float
) -> list[str]:
    """Draws axes, ticks and titles."""
    right, bottom = _WIDTH - _RIGHT, height - _BOTTOM
    parts = [f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>']
    for value in across.ticks():
        x = across.at(value)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{escape(as_text(forms[0], value))}</text>'
        )
    for value in up.ticks(5) if up else ():
        y = up.at(value) if up else 0.0
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(as_text(forms[1], value))}</text>'
        )
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{escape(titles[0])}</text>')
    if titles[1]:
        y = (_TOP + bottom) / 2
        parts.append(f'<text transform="translate(14 {y})rotate(-90)" text-anchor="middle">{escape(titles[1])}</text>')
    return parts


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _figure(chart: Any, svg: str, live: bool) -> str:
    caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
    keys = "".join(
        f'<span class="key"><i style="background:{colour}"></i>{escape(name.replace("_", " "))}</span>'
        for name, colour in chart.keys().items()
    )
    legend = f'<div class="legend">{keys}</div>' if keys else ""
    tall = f' style="min-height:{chart.height():.0f}px"' if live else ""
    return (
        f'<figure class="chart"{f""" id="chart-{escape(chart.name)}" """ if live else ""}>{legend}'
        f'<div class="drawn"{tall}><div class="window still">{svg}</div></div>{caption}</figure>'
    )


@dataclass(frozen=True)
class Points:
    """Points with lines, such as a roofline. In a page the points may be rows of a table (`table`: its name; `keys_of`
    then names columns, and `row` is the row's index there)."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    titles: tuple[str, str]
    forms: tuple[str, str]
    lines: Sequence[tuple[str, Sequence[float], Sequence[float]]] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    keys_of: tuple[str, str, str, str] = ("x", "y", "name", "sort")
    caption: str = ""

    def keys(self) -> dict[str, str]:
        """The names of the legend with their colours."""
        used = {str(row[self.keys_of[3]]) for row in self.rows}
        return {name: colour for name, colour in self.colours.items() if name in used}

    def height(self) -> float:
        """Height in pixels."""
        return 400

    def _spans(self) -> tuple[_Axis, _Axis]:
        x, y = self.keys_of[:2]
        xs = [row[x] for row in self.rows] + [value for line in self.lines for value in line[1]]
        ys = [row[y] for row in self.rows] + [value for line in self.lines for value in line[2]]
        xs, ys = [v for v in xs if v > 0] or [1.0], [v for v in ys if v > 0] or [1.0]
        across = _Axis(min(xs) / 2, max(xs) * 2, _LEFT, _WIDTH - _RIGHT, True)
        return across, _Axis(min(ys) / 2, max(ys) * 2, self.height() - _BOTTOM, _TOP, True)

    def html(self, live: bool = False) -> str:
        """Draws the lines and the first points."""
        across, up = self._spans()
        parts = _frame(across, up, self.titles, self.forms, self.height())
        for name, xs, ys in self.lines:
            path = "L".join(f"{across.at(a):.1f} {up.at(b):.1f}" for a, b in zip(xs, ys, strict=True))
            parts.append(f'<path class="line" d="M{path}"><title>{escape(name)}</title></path>')
            end = f'x="{across.at(xs[-1]):.1f}" y="{up.at(ys[-1]) - 5:.1f}"'
            parts.append(f'<text {end} text-anchor="end">{escape(name)}</text>')
        x, y, name, sort = self.keys_of
        for row in self.rows[: 150 if live else 200]:
            tip = f"{row[name]}: {as_text(self.forms[0], row[x])}, {as_text(self.forms[1], row[y])}, {row[sort]}"
            place = f'cx="{across.at(row[x]):.1f}" cy="{up.at(row[y]):.1f}"'
            fill = self.colours.get(str(row[sort]), OTHER_COLOUR)
            pick = picks(self.table, [row["row"]]) if live and self.table and "row" in row else ""
            parts.append(f'<circle {place} r="4" fill="{fill}"{pick}><title>{escape(tip)}</title></circle>')
        return _figure(self, _svg(parts, self.height(), self.caption), live)

    def data(self) -> dict[str, Any] | None:
        """Lines, and points unless a table stores them."""
        found: dict[str, Any] = {"kind": "points", "name": self.name, "titles": self.titles, "forms": self.forms}
        found |= {"lines": [[name, list(xs), list(ys)] for name, xs, ys in self.lines], "keys": list(self.keys_of)}
        found |= {"colours": dict(self.colours), "other": OTHER_COLOUR, "height": self.height(), "table": self.table}
        across, up = self._spans()
        found |= {"ranges": [[across.low, across.high], [up.low, up.high]]}
        return found if self.table else found | {"points": [[row[key] for key in self.keys_of] for row in self.rows]}


@dataclass(frozen=True)
class Boxes:
    """Rectangles: intervals of units over time, tensors over time and address.

    With `rows` (names) the second value is the row; else a box has a low and a high end. `picks` has, for each text,
    its rows in the table `table`.
    """

    name: str
    boxes: Sequence[tuple[float, float, float, float, int, int]]
    texts: Sequence[str]
    sorts: Sequence[tuple[str, str]]
    titles: tuple[str, str]
    forms: tuple[str, str]
    spans: tuple[float, float]
    rows: Sequence[str] = ()
    linked: str = ""
    scale: float = 1.0
    caption: str = ""
    table: str = ""
    picks: Sequence[Sequence[int]] = ()

    def keys(self) -> dict[str, str]:
        """The names of the legend with their colours."""
        used = {box[4] for box in self.boxes}
        return {name: colour for i, (name, colour) in enumerate(self.sorts) if i in used}

    def height(self) -> float:
        """Height in pixels."""
        return max(120, 24 * len(self.rows) + _TOP + _BOTTOM) if self.rows else 340

    def html(self, live: bool = False) -> str:
        """Draws the largest boxes, to scale."""
        bottom = self.height() - _BOTTOM
        across = _Axis(0, self.spans[0] or 1, _LEFT, _WIDTH - _RIGHT)
        up = _Axis(0, self.spans[1] or 1, *((_TOP, bottom) if self.rows else (bottom, _TOP)))
        shown = _Axis(0, self.spans[0] * self.scale or 1, _LEFT, _WIDTH - _RIGHT)
        parts = _frame(shown, None if self.rows else up, self.titles, self.forms, self.height())
        for i, name in enumerate(self.rows):
            y = up.at(i + 0.5) + 4
            parts.append(
                f'<text x="{_LEFT - 6}" y="{y:.1f}" text-anchor="end">{escape(figures.short(name, 22))}</text>'
            )
        most = 400 if live else _STILL // 2
        drawn = sorted(self.boxes, key=lambda box: -(box[1] - box[0]) * (box[3] - box[2]))[:most]
        for x0, x1, y0, y1, sort, text in drawn:
            top, low = sorted((up.at(y0), up.at(y1)))
            gap = 2 if self.rows else 0
            tip = escape(figures.short(self.texts[text], 60))
            place = f'x="{across.at(x0):.1f}" y="{top + gap:.1f}"'
            extent = (
                f'width="{max(0.4, across.at(x1) - across.at(x0)):.1f}" height="{max(0.4, low - top - 2 * gap):.1f}"'
            )
            pick = picks(self.table, self.picks[text]) if live and self.table else ""
            parts.append(f'<rect {place} {extent} fill="{self.sorts[sort][1]}"{pick}><title>{tip}</title></rect>')
        return _figure(self, _svg(parts, self.height(), self.caption), live)

    def data(self) -> dict[str, Any] | None:
        """All boxes, one list per coordinate."""
        found: dict[str, Any] = {"kind": "boxes", "name": self.name, "titles": self.titles, "forms": self.forms}
        found |= {"boxes": [list(column) for column in zip(*self.boxes, strict=True)] or [[] for _ in range(6)]}
        found |= {"table": self.table, "picks": [list(rows) for rows in self.picks]} if self.table else {}
        found |= {"texts": list(self.texts), "sorts": [list(one) for one in self.sorts], "spans": self.spans}
        return found | {"rows": list(self.rows), "linked": self.linked, "scale": self.scale, "height": self.height()}


@dataclass(frozen=True)
class Steps:
    """Stacked step functions: bandwidth, live bytes."""

    name: str
    step: float
    series: Sequence[tuple[str, Sequence[float]]]
    titles: tuple[str, str]
    forms: tuple[str, str]
    limit: tuple[str, float] | None = None
    linked: str = ""
    scale: float = 1.0
    caption: str = ""

    def keys(self) -> dict[str, str]:
        """The names of the legend with their colours."""
        return {name: SERIES[i % len(SERIES)] for i, (name, _) in enumerate(self.series)}

    def height(self) -> float:
        """Height in pixels."""
        return 200

    def tops(self) -> list[list[float]]:
        """The upper edges of the stacked series."""
        found: list[list[float]] = []
        for _, values in self.series:
            below = found[-1] if found else [0.0] * len(values)
            found.append([a + b for a, b in zip(below, values, strict=True)])
        return found

    def html(self, live: bool = False) -> str:
        """Draws the series; many steps are merged by their maximum."""
        tops = self.tops()
        length = max((len(row) for row in tops), default=0)
        high = max([max(row, default=0.0) for row in tops] + [self.limit[1] if self.limit else 0.0]) or 1.0
        across = _Axis(0, length * self.step or 1, _LEFT, _WIDTH - _RIGHT)
        shown = _Axis(0, length * self.step * self.scale or 1, _LEFT, _WIDTH - _RIGHT)
        up = _Axis(0, high * 1.05, self.height() - _BOTTOM, _TOP)
        parts = _frame(shown, up, self.titles, self.forms, self.height())
        each = max(1, math.ceil(length / 300))
        for i in reversed(range(len(tops))):
            path = [f"M{across.at(0):.1f} {up.at(0):.1f}"]
            for first in range(0, length, each):
                value = max(tops[i][first : first + each])
                path.append(f"V{up.at(value):.1f}H{across.at(min(length, first + each) * self.step):.1f}")
            colour = SERIES[i % len(SERIES)]
            parts.append(f'<path fill="{colour}" d="{"".join(path)}V{up.at(0):.1f}Z"/>')
        if self.limit:
            y = up.at(self.limit[1])
            parts.append(f'<path class="line" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            parts.append(
                f'<text x="{_WIDTH - _RIGHT}" y="{y - 4:.1f}" text-anchor="end">{escape(self.limit[0])}</text>'
            )
        return _figure(self, _svg(parts, self.height(), self.caption), live)

    def data(self) -> dict[str, Any] | None:
        """The stacked series."""
        found: dict[str, Any] = {"kind": "steps", "name": self.name, "titles": self.titles, "forms": self.forms}
        found |= {"step": self.step, "scale": self.scale, "linked": self.linked, "height": self.height()}
        found |= {"names": [name for name, _ in self.series], "colours": list(self.keys().values())}
        rounded = [[float(f"{value:.4g}") for value in row] for row in self.tops()]
        return found | {"tops": rounded, "limit": self.limit}
