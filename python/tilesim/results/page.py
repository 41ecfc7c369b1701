"""A result as one HTML page: headline, where the time goes, what every unit did. Plain SVG, no package needed."""

from __future__ import annotations

import re
from html import escape
from typing import Any

__all__ = ["page", "picture"]

_BOUND = {"compute": "#4477aa", "memory": "#ee6677", "network": "#228833", "latency": "#ccbb44", "vector": "#66ccee"}
_STATE = {
    "busy": "#4477aa",
    "wait_load": "#ee6677",
    "wait_store": "#aa3377",
    "wait_dependency": "#ccbb44",
    "wait_port": "#228833",
    "idle": "#dddddd",
}
_OTHER = "#999999"
_SHOWN = 16
_ROW = 18
_LABEL, _BAR, _NOTE = 230, 460, 200


def _rectangle(x: float, y: int, width: float, colour: str, tip: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y + 3}" width="{max(width, 0.5):.1f}" height="{_ROW - 5}" fill="{colour}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def _words(x: int, y: int, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y + _ROW - 6}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(name: str, most: int = 30) -> str:
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2 - 1) :]}"


def _svg(rows: list[str], height: int) -> str:
    width = _LABEL + _BAR + _NOTE
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'style="font:12px sans-serif;fill:currentColor;max-width:100%">{"".join(rows)}</svg>'
    )


def _legend(colours: dict[str, str], y: int) -> list[str]:
    parts = []
    for i, (name, colour) in enumerate(colours.items()):
        x = _LABEL + 128 * i
        parts += [_rectangle(x, y, 12, colour, name), _words(x + 16, y, name.replace("_", " "))]
    return parts


def _operations(result: Any) -> str:
    """The operations that take the most cycles, one bar each, in the colour of what bounds them."""
    total = max(1, result.cycles)
    rows = sorted(result.table().rows, key=lambda row: -row["cycles"])
    shown, rest = rows[:_SHOWN], rows[_SHOWN:]
    parts = _legend({name: _BOUND.get(name, _OTHER) for name in sorted({row["bound"] for row in shown})}, 0)
    longest = max((row["cycles"] for row in rows), default=1) or 1
    for i, row in enumerate(shown):
        y = (i + 1) * _ROW
        share = row["cycles"] / total
        tip = f"{row['operation']}: {row['cycles']:,} cycles, {share:.1%}, bound by {row['bound']}"
        parts += [
            _words(_LABEL - 6, y, _short(row["operation"]), "end"),
            _rectangle(_LABEL, y, _BAR * row["cycles"] / longest, _BOUND.get(row["bound"], _OTHER), tip),
            _words(_LABEL + _BAR + 6, y, f"{share:.1%}  {row['cycles']:,}"),
        ]
    y = (len(shown) + 1) * _ROW
    if rest:
        share = sum(row["cycles"] for row in rest) / total
        parts.append(_words(_LABEL, y, f"and {len(rest)} more operations: {share:.1%}"))
    return _svg(parts, y + _ROW)


def _alike(units: list[dict[str, Any]]) -> list[tuple[str, dict[str, float]]]:
    """Units whose names differ only in their numbers, as the mean of their states where there are over eight."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for unit in units:
        groups.setdefault(re.sub(r"\d+", "*", unit["unit"]), []).append(unit)
    rows: list[tuple[str, dict[str, float]]] = []
    for pattern, members in groups.items():
        if len(members) <= 8:
            rows += [(unit["unit"], unit["cycles"]) for unit in members]
            continue
        mean = {state: sum(u["cycles"].get(state, 0) for u in members) / len(members) for state in _STATE}
        rows.append((f"{pattern} (mean of {len(members)})", mean))
    return rows


def _units(data: dict[str, Any]) -> str:
    """One stacked bar per unit: the share of its time in each state."""
    total = max(1, data["cycles"])
    parts = _legend(_STATE, 0)
    rows = _alike(data["units"])
    for i, (name, cycles) in enumerate(rows):
        y = (i + 1) * _ROW
        parts.append(_words(_LABEL - 6, y, _short(name), "end"))
        x = float(_LABEL)
        for state, spent in cycles.items():
            width = _BAR * spent / total
            if width > 0:
                colour = _STATE.get(state, _OTHER)
                parts.append(_rectangle(x, y, width, colour, f"{name}: {state.replace('_', ' ')} {spent / total:.1%}"))
            x += width
        parts.append(_words(_LABEL + _BAR + 6, y, f"{cycles.get('busy', 0) / total:.1%} busy"))
    return _svg(parts, (len(rows) + 1) * _ROW + 4)


def picture(result: Any) -> str:
    """What a notebook shows of a result.

    Args:
        result: of a simulation or an estimate.

    Returns:
        HTML: the headline, the operations by time, the states of the units.
    """
    data = result.data
    parts = [f"<p><b>{escape(result.summary())}</b></p>"]
    if data.get("operations"):
        parts.append(_operations(result))
    if data.get("units"):
        parts.append(_units(data))
    return "".join(parts)


def page(result: Any, advice: list[Any] | None = None, left_out: str = "") -> str:
    """A whole document that opens in any browser and loads nothing.

    Args:
        result: of a simulation or an estimate.
        advice: changes that were simulated again, as `Result.explain` gives them.
        left_out: why there are none, in words.

    Returns:
        The HTML text.
    """
    title = escape(f"{result.data['program']} on {result.data['machine']}")
    rows = result.table().rows
    head = "".join(f"<th>{escape(str(key))}</th>" for key in (rows[0] if rows else {}))
    body = "".join("<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in row.values()) + "</tr>" for row in rows)
    helps = "".join(
        f"<li>{escape(text)}</li>"
        for text in [*(repr(item) for item in advice or [] if item.worth_telling), *([left_out] if left_out else [])]
    )
    modelled = "".join(f"<li>{escape(text)}</li>" for text in result.approximations)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:14px sans-serif;max-width:920px;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td,th{padding:2px 8px;text-align:right}td:first-child{text-align:left}"
        "tr:nth-child(even){background:#f4f4f4}</style>"
        f"<h1>{title}</h1>{picture(result)}"
        + (f"<h2>What would help, simulated again</h2><ul>{helps}</ul>" if helps else "")
        + f"<h2>Operations</h2><table><tr>{head}</tr>{body}</table>"
        + f"<h2>What was modelled and how</h2><ul>{modelled}</ul></html>\n"
    )
