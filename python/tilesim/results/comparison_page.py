"""A comparison as text, in a notebook, and as one HTML page with tables and bars."""

from __future__ import annotations

import textwrap
from html import escape
from typing import Any

from ..base import figures, palette

__all__ = ["page", "picture", "text"]

_SHOWN = 20  # operations in a text
_PICTURE = 16  # operations in a notebook
_PAGE = 2000  # of a page
_SETTINGS = 8  # what differs, in a text
_NAME = 14  # characters of a name at least
_BAR = 260


def _signed(value: float, unit: str) -> str:
    """A difference with its sign."""
    if not value:
        return "0"
    shown = figures.duration(abs(value)) if unit == "s" else figures.count(abs(value))
    return f"{'+' if value > 0 else '−'}{shown}"


def _plain(value: float, unit: str) -> str:
    return figures.duration(value) if unit == "s" else figures.count(value)


def _change(row: dict[str, Any], letter: str) -> str:
    """How a figure changed from the first result to another."""
    if not row["a"]:
        return "new" if row[letter] else "0.0 %"
    share = row[letter] / row["a"] - 1
    return f"{'+' if share > 0 else '−' if share < 0 else ''}{figures.percent(abs(share))}"


def _total_cell(figure: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    shown = {"cycles": figures.count, "seconds": figures.duration, "memory_bytes": figures.size}
    return shown[figure](value) if figure in shown else f"{value:.4g} J"


def _totals(comparison: Any) -> list[list[str]]:
    """Cells of the totals, the head first."""
    head = ["", *comparison.letters, *(f"{letter}/a" for letter in comparison.letters[1:])]
    rows = []
    for row in comparison.table().rows:
        ratios = [row[key] for key in head[len(comparison.letters) + 1 :]]
        cells = [_total_cell(row["figure"], row[letter]) for letter in comparison.letters]
        told = [one if isinstance(one, str) else figures.ratio(one) for one in ratios]
        rows.append([row["figure"].replace("_", " "), *cells, *told])
    return [head, *rows]


def _operations(comparison: Any, rows: list[dict[str, Any]]) -> list[list[str]]:
    """Cells of the operations, the head first; of two results with the share, of more with the change of each."""
    unit = comparison.unit
    said = "" if unit == "s" else ", cycles"
    if len(comparison.results) == 2:
        cells = [
            [_plain(row["a"], unit), _plain(row["b"], unit), _signed(row["difference"], unit),
             figures.percent(row["share"])]
            for row in rows
        ]  # fmt: skip
        return [["operation" + said, "a", "b", "b − a", "share"]] + [
            [_title(row), *own] for row, own in zip(rows, cells, strict=True)
        ]
    head = ["operation" + said, "a"]
    for letter in comparison.letters[1:]:
        head += [f"{letter} − a", "change"]
    table = []
    for row in rows:
        cells_of_row = [_title(row), _plain(row["a"], unit)]
        for letter in comparison.letters[1:]:
            cells_of_row += [_signed(row[f"difference_{letter}"], unit), _change(row, letter)]
        table.append(cells_of_row)
    return [head, *table]


def _title(row: dict[str, Any]) -> str:
    return f"{row['operation']} ({row['layers']} ×)" if row["layers"] > 1 else str(row["operation"])


def _lines(cells: list[list[str]], width: int) -> list[str]:
    """Aligned columns: the first one gives way, then the last ones are left out."""
    columns = len(cells[0])
    widths = [max(len(row[i]) for row in cells) for i in range(columns)]
    while columns > 2 and _NAME + sum(2 + one for one in widths[1:columns]) > width:
        columns -= 1
    name = max(_NAME, min(widths[0], width - sum(2 + one for one in widths[1:columns])))
    lines = []
    for row in cells:
        rest = "".join(f"  {cell.rjust(one)}" for cell, one in zip(row[1:columns], widths[1:columns], strict=True))
        lines.append((figures.short(row[0], name).ljust(name) + rest).rstrip())
    left = len(cells[0]) - columns
    if left:
        lines += _wrapped(f"({left} more column{'s' * (left > 1)}: in a wider terminal, --json, --html)", width)
    return lines


def _wrapped(line: str, width: int, indent: str = "  ") -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=True, break_on_hyphens=False) or [""]


def _differences(comparison: Any) -> list[str]:
    """What differs, a line each."""
    lines = []
    for row in comparison.differences().rows:
        values = [str(row[letter]) or "–" for letter in comparison.letters]
        lines.append(f"{row['what']}: {' | '.join(figures.short(value, 60) for value in values)}")
    return lines


def text(comparison: Any, width: int = 100) -> str:
    """A comparison for a terminal.

    Args:
        comparison: what to show.
        width: characters of a line, 40 at least.

    Returns:
        Its lines.
    """
    width = max(40, width)
    lines: list[str] = []
    for line in comparison.headline().splitlines():
        lines += _wrapped(line, width)
    lines += ["", *_lines(_totals(comparison), width), ""]
    rows = comparison.folded()
    changed = [row for row in rows if _changes(comparison, row)]
    if changed:
        lines += _lines(_operations(comparison, changed[:_SHOWN]), width)
        left = changed[_SHOWN:]
        if left:
            lines += _wrapped(f"and {len(left):,} more: {_sums(comparison, left)}", width)
    alike = len(rows) - len(changed)
    if alike:
        number = f"{alike:,} operation{'s' * (alike > 1)}"
        lines += _wrapped(f"{number} (repeated layers as one) with the same time in all", width)
    differ = _differences(comparison)
    if differ:
        lines += ["", "What differs:"]
        for line in differ[:_SETTINGS]:
            lines += _wrapped(f"  {line}", width, "    ")
        if len(differ) > _SETTINGS:
            lines.append(f"  and {len(differ) - _SETTINGS} more")
    for note in comparison.notes:
        lines += _wrapped(f"Note: {note}", width)
    return "\n".join(lines)


def _changes(comparison: Any, row: dict[str, Any]) -> bool:
    return any(row[letter] != row["a"] for letter in comparison.letters[1:])


def _sums(comparison: Any, rows: list[dict[str, Any]]) -> str:
    """What rows that are not shown differ by."""
    told = []
    for letter in comparison.letters[1:]:
        difference = sum(row[letter] - row["a"] for row in rows)
        told.append(f"{letter} − a {_signed(difference, comparison.unit)}")
    return ", ".join(told) + ("" if comparison.unit == "s" else " cycles")


def _table(cells: list[list[str]], extra: list[str] | None = None) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in cells[0]) + ("<th></th>" if extra else "")
    body = "".join(
        "<tr>"
        + "".join(f'<td title="{escape(cell)}">{escape(figures.short(cell, 60))}</td>' for cell in row[:1])
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + (f"<td>{extra[i]}</td>" if extra else "")
        + "</tr>"
        for i, row in enumerate(cells[1:])
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _bars(comparison: Any, rows: list[dict[str, Any]]) -> list[str]:
    """For each row one thin bar per result, all on one scale."""
    most = max((row[letter] for row in rows for letter in comparison.letters), default=0) or 1
    return [_bar(comparison, row, most) for row in rows]


def _bar(comparison: Any, row: dict[str, Any], most: float) -> str:
    high = 7
    parts = []
    for i, letter in enumerate(comparison.letters):
        colour = palette.SERIES[i % len(palette.SERIES)]
        tip = escape(f"{comparison.called(i)}: {figures.amount_of(row[letter], comparison.unit)}")
        wide = _BAR * row[letter] / most
        parts.append(f'<rect y="{i * high}" width="{wide:.1f}" height="{high - 1}" fill="{colour}"><title>{tip}</title>'
                     "</rect>")  # fmt: skip
    tall = high * len(comparison.letters)
    return f'<svg viewBox="0 0 {_BAR} {tall}" width="{_BAR}" height="{tall}" role="img">{"".join(parts)}</svg>'


def _legend(comparison: Any) -> str:
    parts = []
    for i in range(len(comparison.letters)):
        colour = palette.SERIES[i % len(palette.SERIES)]
        square = f'<svg width="12" height="12"><rect width="12" height="12" fill="{colour}"/></svg>'
        parts.append(f'<span class="key">{square} {escape(comparison.called(i))}</span>')
    return f"<p>{' '.join(parts)}</p>"


def _headlines(comparison: Any) -> str:
    return "".join(f"<p><b>{escape(line)}</b></p>" for line in comparison.headline().splitlines())


def _shown(comparison: Any, most: int) -> str:
    """The table of operations with bars, and what it leaves out."""
    rows = comparison.folded()
    shown, left = rows[:most], rows[most:]
    html = _legend(comparison) + _table(_operations(comparison, shown), _bars(comparison, shown))
    return html + (f"<p>and {len(left):,} more: {escape(_sums(comparison, left))}</p>" if left else "")


_STYLE = (
    ".tilesim-compare{font:14px/1.4 system-ui,sans-serif}.tilesim-compare table{border-collapse:collapse}"
    ".tilesim-compare td,.tilesim-compare th{padding:2px 10px;text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}.tilesim-compare td:first-child,.tilesim-compare th:first-child{text-align:left}"
    ".tilesim-compare tbody tr:nth-child(even){background:rgba(128,128,128,.12)}"
    ".tilesim-compare .wide{overflow-x:auto}.tilesim-compare .key{margin-right:1.5em;white-space:nowrap}"
)


def picture(comparison: Any) -> str:
    """What a notebook shows.

    Args:
        comparison: what to show.

    Returns:
        HTML: headline, totals, the operations that differ most with a bar for each result.
    """
    body = _headlines(comparison) + _table(_totals(comparison)) + _shown(comparison, _PICTURE)
    notes = "".join(f"<p>{escape(note)}</p>" for note in comparison.notes)
    return f'<style>{_STYLE}</style><div class="tilesim-compare">{body}{notes}</div>'


def page(comparison: Any) -> str:
    """A whole document that opens in any browser and loads nothing.

    Args:
        comparison: what to show.

    Returns:
        The HTML text.
    """
    title = escape(" · ".join(comparison.called(i) for i in range(len(comparison.results))))
    differ = [["", *comparison.letters]]
    differ += [
        [str(row["what"]), *(str(row[letter]) or "–" for letter in comparison.letters)]
        for row in comparison.differences().rows
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
    modelled = "".join(
        f"<h3>{escape(comparison.called(i))}</h3><ul>"
        + "".join(f"<li>{escape(line)}</li>" for line in result.approximations)
        + "</ul>"
        for i, result in enumerate(comparison.results)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>:root{{color-scheme:light dark}}"
        "body{max-width:1100px;margin:1.5em auto;padding:0 1em;overflow-wrap:anywhere}"
        f"{_STYLE}</style></head>"
        f'<body class="tilesim-compare"><h1>{title}</h1>{_headlines(comparison)}{_table(_totals(comparison))}'
        + (f"<ul>{notes}</ul>" if notes else "")
        + f"<h2>Operations</h2>{_shown(comparison, _PAGE)}"
        + (f"<h2>What differs</h2>{_table(differ)}" if len(differ) > 1 else "")
        + f"<h2>What was modelled and how</h2>{modelled}</body></html>\n"
    )
