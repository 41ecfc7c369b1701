"""Shows a comparison as text, notebook view and HTML page."""

from __future__ import annotations

import textwrap
from typing import Any

from ..base import figures, palette
from ..base.view import Bar, Bars, Column, Notes, Rows, Section, document, fragment

__all__ = ["differences_table", "page", "picture", "text", "totals_table"]

_TEXT_ROWS = 20  # most operations in a text
_PICTURE = 16  # most operations in a notebook
_PAGE = 2000  # most operations in a page
_SETTINGS = 8  # most differences in a text
_NAME = 14  # least characters of a name
_NEVER = 10**9  # least rows of a table with sorting and filters: disables them
_NOTHING = ["No approximation was made."]


def _signed(value: float, unit: str) -> str:
    """Formats a difference with its sign."""
    return figures.signed(value, figures.duration if unit == "s" else figures.count)


def _number_text(value: float, unit: str) -> str:
    return figures.duration(value) if unit == "s" else figures.count(value)


def _change(row: dict[str, Any], letter: str) -> str:
    """Formats the relative change of a figure from the first result to another."""
    if not row["a"]:
        return "new" if row[letter] else "0.0 %"
    share = row[letter] / row["a"] - 1
    return figures.signed(share, figures.percent) if share else "0.0 %"


def _total_cell(figure: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if figure.endswith("seconds"):
        return figures.duration(value)
    if figure.endswith("bytes"):
        return figures.size(value)
    shown = {"cycles": figures.count, "mfu": figures.percent}
    return shown[figure](value) if figure in shown else f"{value:.4g} J"


def _totals(comparison: Any) -> list[list[str]]:
    """Returns the header and the cells of the totals."""
    head = ["", *comparison.letters, *(f"{letter}/a" for letter in comparison.letters[1:])]
    rows = []
    for row in comparison.table().rows:
        ratios = [row[key] for key in head[len(comparison.letters) + 1 :]]
        cells = [_total_cell(row["figure"], row[letter]) for letter in comparison.letters]
        told = [one if isinstance(one, str) else figures.ratio(one) for one in ratios]
        rows.append([row["figure"].replace("_", " "), *cells, *told])
    return [head, *rows]


def _differ_in_one_direction(comparison: Any) -> bool:
    """Whether all operations differ in the direction of the total, up to rounding."""
    return all(-5e-4 < row["share"] < 1.0005 for row in comparison.folded())


def _operations(comparison: Any, rows: list[dict[str, Any]]) -> list[list[str]]:
    """Returns header and cells of the operations: shares of the difference for two results, else changes."""
    unit = comparison.unit
    said = "" if unit == "s" else ", cycles"
    if len(comparison.results) == 2:
        whole = _differ_in_one_direction(comparison)  # else gains and losses cancel, so shares mean little
        cells = [
            [_number_text(row["a"], unit), _number_text(row["b"], unit), _signed(row["difference"], unit),
             figures.percent(row["share"]) if whole else _change(row, "b")]
            for row in rows
        ]  # fmt: skip
        return [[comparison.noun + said, "a", "b", "b − a", "share" if whole else "change"]] + [
            [_title(row), *own] for row, own in zip(rows, cells, strict=True)
        ]
    head = [comparison.noun + said, "a"]
    for letter in comparison.letters[1:]:
        head += [f"{letter} − a", "change"]
    table = []
    for row in rows:
        cells_of_row = [_title(row), _number_text(row["a"], unit)]
        for letter in comparison.letters[1:]:
            cells_of_row += [_signed(row[f"difference_{letter}"], unit), _change(row, letter)]
        table.append(cells_of_row)
    return [head, *table]


def _title(row: dict[str, Any]) -> str:
    return f"{row['operation']} ({row['layers']} ×)" if row["layers"] > 1 else str(row["operation"])


def _lines(cells: list[list[str]], width: int) -> list[str]:
    """Aligns columns in `width` characters: shortens the first column, then omits the last ones."""
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
        lines += _wrapped(f"({left} more column{'s' * (left > 1)}: use a wider terminal, --json or --html)", width)
    return lines


def _wrapped(line: str, width: int, indent: str = "  ") -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=True, break_on_hyphens=False) or [""]


def _differences(comparison: Any) -> list[str]:
    """Formats differences, one line each."""
    lines = []
    for row in comparison.differences().rows:
        values = [str(row[letter]) or "–" for letter in comparison.letters]
        lines.append(f"{row['what']}: {' | '.join(figures.short(value, 60) for value in values)}")
    return lines


def text(comparison: Any, width: int = 100) -> str:
    """Formats a comparison for a terminal."""
    width = max(40, width)
    lines: list[str] = []
    for line in comparison.headline().splitlines():
        lines += _wrapped(line, width)
    lines += ["", *_lines(_totals(comparison), width), ""]
    rows = comparison.folded()
    changed = [row for row in rows if _changes(comparison, row)]
    if changed:
        lines += _lines(_operations(comparison, changed[:_TEXT_ROWS]), width)
        left = changed[_TEXT_ROWS:]
        if left:
            lines += _wrapped(f"and {len(left):,} more: {_sums(comparison, left)}", width)
    alike = len(rows) - len(changed)
    if alike:
        number = f"{alike:,} {comparison.noun}{'s' * (alike > 1)}"
        folded = " (repeated layers folded)" if comparison.noun == "operation" else ""
        lines += _wrapped(f"{number}{folded} with equal times", width)
    differ = _differences(comparison)
    if differ:
        lines += ["", "Other differences:"]
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
    """Formats the summed differences of omitted rows."""
    told = []
    for letter in comparison.letters[1:]:
        difference = sum(row[letter] - row["a"] for row in rows)
        told.append(f"{letter} − a {_signed(difference, comparison.unit)}")
    return ", ".join(told) + ("" if comparison.unit == "s" else " cycles")


def _forms(comparison: Any) -> str:
    return "duration" if comparison.unit == "s" else "count"


def totals_table(comparison: Any, name: str) -> Rows:
    """Makes a table of the totals."""
    head, *lines = _totals(comparison)
    keys = ["figure", *head[1:]]
    rows = [dict(zip(keys, line, strict=True)) for line in lines]
    return Rows(name, [Column(key, key, "text") for key in keys], rows, what="figures", most=20, least=_NEVER)


def differences_table(comparison: Any, name: str) -> Rows | None:
    """Makes a table of differences other than times."""
    rows = comparison.differences().rows
    columns = [Column("what", "difference", "text")]
    columns += [Column(letter, comparison.called(i), "text") for i, letter in enumerate(comparison.letters)]
    plain = [{key: str(value) or "–" for key, value in row.items()} for row in rows]
    return Rows(name, columns, plain, what="differences", most=12) if rows else None


def _bars(comparison: Any, rows: list[dict[str, Any]]) -> Bars:
    """Draws a bar per operation and result on one scale."""
    called = [comparison.called(i) for i in range(len(comparison.letters))]
    colours = {name: palette.SERIES[i % len(palette.SERIES)] for i, name in enumerate(called)}
    bars = []
    for row in rows:
        for i, letter in enumerate(comparison.letters):
            said = _number_text(row[letter], comparison.unit)
            if i:
                difference = row[comparison.column("difference", letter)]
                said += f"  ({_signed(difference, comparison.unit)}, {_change(row, letter)})"
            bars.append(Bar(_title(row) if i == 0 else "", {called[i]: row[letter]}, said))
    return Bars(bars, colours, _forms(comparison))


def _rows_of_page(comparison: Any) -> tuple[list[dict[str, Any]], str]:
    """Returns a page's rows (all kernels, or folded layers if they are many) and a note about omitted rows."""
    rows = comparison.parts()
    if len(rows) <= _PAGE:
        return rows, ""
    rows = comparison.folded()
    left = rows[_PAGE:]
    return rows[:_PAGE], f"and {len(left):,} more: {_sums(comparison, left)}" if left else ""


def _table(comparison: Any) -> tuple[Rows, str]:
    rows, left = _rows_of_page(comparison)
    form = _forms(comparison)
    columns = [Column("operation", comparison.noun, "text"), Column("a", comparison.called(0), form)]
    for i, letter in enumerate(comparison.letters[1:], 1):
        difference = comparison.column("difference", letter)
        columns += [
            Column(letter, comparison.called(i), form),
            Column(difference, f"{letter} − a", f"+{form}"),
            Column(f"change_{letter}", "change", "+percent", (difference, "a", 1.0)),
        ]
        if len(comparison.results) == 2 and _differ_in_one_direction(comparison):
            columns.append(Column("share", "share", "percent"))
    columns += [
        Column(f"bound_{letter}", f"{letter} bound by", "text", shown=i < 2) for i, letter in
        enumerate(comparison.letters) if rows and f"bound_{letter}" in rows[0]
    ]  # fmt: skip
    shares = len(comparison.results) == 2 and _differ_in_one_direction(comparison)
    hint = "Shares refer to the difference of the totals." if shares else ""
    what = f"{comparison.noun}s"
    return Rows("operations", columns, rows, "operation", most=_PICTURE, what=what, hint=hint, least=2), left


def picture(comparison: Any) -> str:
    """Draws HTML for a notebook."""
    rows = comparison.folded()
    left = rows[_PICTURE:]
    said = [f"and {len(left):,} more: {_sums(comparison, left)}"] if left else []
    parts: list[Any] = [Notes(comparison.headline().splitlines()), totals_table(comparison, "totals")]
    parts += [_bars(comparison, rows[:_PICTURE]), Notes([*said, *comparison.notes])]
    return fragment("", [Section("", parts)])


def page(comparison: Any) -> str:
    """Writes a self-contained HTML page whose tables sort, filter and fold."""
    title = " · ".join(comparison.called(i) for i in range(len(comparison.results)))
    table, left = _table(comparison)
    sections = [
        Section("", [Notes(comparison.headline().splitlines()), totals_table(comparison, "totals")]),
        Section("", [Notes(comparison.notes)] if comparison.notes else []),
        Section("Largest differences", [_bars(comparison, comparison.folded()[:_PICTURE])], "difference"),
        Section(f"{comparison.noun.capitalize()}s", [table, *([Notes([left])] if left else [])], "operations"),
    ]
    if (differ := differences_table(comparison, "differences")) is not None:
        sections.append(Section("Other differences", [differ], "differs"))
    for i in range(len(comparison.results)):
        said = f"How {comparison.called(i)} was modelled"
        sections.append(Section(said, [Notes(comparison.modelled(i) or _NOTHING)], f"modelled-{i}"))
    return document(title, [one for one in sections if one.parts], "")
