"""Tables that fit a terminal: long names are shortened in the middle, texts wrap, least important columns are left
out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import figures, palette, screen
from .folding import fold
from .screen import Line, Lines, clean, fitted, wide

__all__ = ["ROWS", "TextColumn", "bar", "bound", "cut", "folded", "layout", "name", "number", "percent", "text"]

GAP = "  "
BLOCKS = " ▏▎▍▌▋▊▉█"
BAR = 10
MOST_WORD = 24  # on a narrow terminal, longer words of a text column are shortened
ROWS = 20
"""Rows that a command shows without --all."""


@dataclass(frozen=True)
class TextColumn:
    """A table column: header (with unit), behaviour on narrow terminals, and style of its cells."""

    head: str
    sort: str = "number"
    drop: int = 0
    min_width: int = 0
    style: Callable[[str], str] | None = None

    @property
    def left(self) -> bool:
        """Whether cells are left-aligned."""
        return self.sort != "number"

    def smallest(self, natural: int) -> int:
        """Returns the smallest width of a column with this natural width."""
        return min(natural, max(self.min_width, self.word)) if self.sort in ("name", "text") else natural

    @property
    def word(self) -> int:
        """Returns the width of the header's longest word."""
        return max(map(wide, self.head.split(" ")))


def name(head: str, drop: int = 0, least: int = 16) -> TextColumn:
    """A column of names, which are shortened in the middle if they do not fit."""
    return TextColumn(head, "name", drop, least)


def text(head: str, drop: int = 0, least: int = 20) -> TextColumn:
    """A column of texts, which wrap."""
    return TextColumn(head, "text", drop, least)


def number(head: str, drop: int = 0) -> TextColumn:
    """A column of numbers, right-aligned."""
    return TextColumn(head, "number", drop)


def bound(head: str = "bound by", drop: int = 0) -> TextColumn:
    """A column for the part that bounds an operation, in its colour."""
    return TextColumn(head, "word", drop, style=lambda cell: palette.TERMINAL.get(cell, ""))


def bar(head: str = "") -> TextColumn:
    """A column of shares as bars, the largest at full width; drawn on terminals only."""
    return TextColumn(head, "bar", 1000)


def percent(share: float) -> str:
    """Formats a share without the percent sign, which the header has: "share, %"."""
    return figures.percent(share).removesuffix(" %")


def _bar(share: float, most: float) -> str:
    eighths = round(8 * BAR * max(0.0, share) / most) if most > 0 else 0
    return BLOCKS[8] * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")


def _widths(columns: Sequence[TextColumn], natural: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """Indices of the columns that stay, and their widths: first the smallest ones, then names get the rest first."""
    kept = list(range(len(columns)))

    def least() -> int:
        return sum(columns[i].smallest(natural[i]) for i in kept) + len(GAP) * (len(kept) - 1)

    while least() > room and any(columns[i].drop for i in kept):
        kept.remove(max((i for i in kept if columns[i].drop), key=lambda i: (columns[i].drop, i)))
    sizes = {i: columns[i].smallest(natural[i]) for i in kept}
    over = least() - room
    for i in sorted(kept, key=lambda i: -sizes[i]):  # even the smallest widths do not fit
        if over > 0 and columns[i].left:
            taken = min(over, sizes[i] - 4)
            sizes[i], over = sizes[i] - max(0, taken), over - max(0, taken)
    left = -over
    for sorts in (("name",), ("text", "word", "number", "bar")):  # names first, because texts can wrap
        while left > 0 and (growing := [i for i in kept if sizes[i] < natural[i] and columns[i].sort in sorts]):
            share = max(1, left // len(growing))
            for i in growing:
                more = min(share, natural[i] - sizes[i], left)
                sizes[i], left = sizes[i] + more, left - more
    return kept, [sizes[i] for i in kept]


def _wrapped_lines(value: str, size: int) -> list[str]:
    """Breaks a value between words into lines of at most `width` characters."""
    return screen.wrapped(value, limit=size)


def _distinct_width(column: TextColumn, names: Sequence[str]) -> int:
    """The smallest width at which shortened names still differ; the column's least width if more does not help."""
    different = len(set(names))
    sizes = range(column.min_width, column.min_width + MOST_WORD)
    return next((size for size in sizes if len(set(screen.fitted_all(names, size))) == different), column.min_width)


def _cell(column: TextColumn, value: str, size: int) -> list[str]:
    """Formats the lines of one cell."""
    return _wrapped_lines(value, size) if column.sort == "text" else [fitted(value, size)]


def _padded(column: TextColumn, value: str, size: int) -> str:
    space = " " * max(0, size - wide(value))
    return value + space if column.left else space + value


def _bars() -> bool:
    return screen.is_terminal() and "utf" in (getattr(sys.stdout, "encoding", "") or "").lower()


def layout(columns: Sequence[TextColumn], rows: Sequence[Sequence[Any]], room: int | None = None) -> Lines:
    """Aligns columns to lines, with bars on terminals that can print them."""
    drawn = _bars()
    room = screen.width() if room is None else room
    shown = [i for i, column in enumerate(columns) if column.sort != "bar" or drawn]
    most = {i: max([0.0, *(float(row[i]) for row in rows)]) for i in shown if columns[i].sort == "bar"}
    columns = [columns[i] for i in shown]
    cells = [[_bar(row[i], most[i]) if i in most else clean(str(row[i])) for i in shown] for row in rows]
    if not columns:
        return []
    body = [max([0, *(wide(row[i]) for row in cells)]) if c.sort != "bar" else BAR for i, c in enumerate(columns)]
    natural = [max(wide(column.head), size) for column, size in zip(columns, body, strict=True)]
    whole = sum(natural) + len(GAP) * (len(columns) - 1)
    if whole > room:  # headers may wrap
        natural = [max(column.word, size) for column, size in zip(columns, body, strict=True)]
    words = [max([0, *(wide(one) for row in cells for one in row[i].split(" "))]) for i in range(len(columns))]
    columns = [
        replace(c, min_width=max(c.min_width, min(word, MOST_WORD))) if c.sort == "text" else c
        for c, word in zip(columns, words, strict=True)
    ]
    if whole > room:
        columns = [
            replace(c, min_width=_distinct_width(c, [row[i] for row in cells])) if c.sort == "name" else c
            for i, c in enumerate(columns)
        ]
    kept, sizes = _widths(columns, natural, room)
    chosen = [columns[i] for i in kept]
    lines = _head(chosen, sizes)
    for i, size in zip(kept, sizes, strict=True):
        if columns[i].sort == "name":
            told = screen.fitted_all([row[i] for row in cells], size)
            cells = [[*row[:i], one, *row[i + 1 :]] for row, one in zip(cells, told, strict=True)]
    for row in cells:
        lines += _row(chosen, [row[i] for i in kept], sizes)
    lost = [column.head for i, column in enumerate(columns) if i not in kept and column.sort != "bar"]
    if lost:
        what = f"Left out: {'; '.join(lost)} (all columns need {whole:,} characters)"
        lines += [[(line, "dim")] for line in screen.wrapped(what, limit=room)]
    return lines


def _pieces(cells: Sequence[str]) -> list[str]:
    return [cell + (GAP if i + 1 < len(cells) else "") for i, cell in enumerate(cells)]


def _head(columns: Sequence[TextColumn], sizes: Sequence[int]) -> list[Line]:
    """Formats headers, aligned at their last lines."""
    parts = [_wrapped_lines(column.head, size) for column, size in zip(columns, sizes, strict=True)]
    lines: list[Line] = []
    tall = max(map(len, parts))
    for at in range(tall):
        here = [part[at - tall + len(part)] if at >= tall - len(part) else "" for part in parts]
        padded = [_padded(column, cell, size) for column, cell, size in zip(columns, here, sizes, strict=True)]
        lines.append([(piece, "bold") for piece in _pieces(padded)])
    return lines


def _row(columns: Sequence[TextColumn], cells: Sequence[str], sizes: Sequence[int]) -> list[Line]:
    parts = [_cell(column, cell, size) for column, cell, size in zip(columns, cells, sizes, strict=True)]
    lines: list[Line] = []
    for at in range(max(map(len, parts))):
        here = [part[at] if at < len(part) else "" for part in parts]
        padded = [_padded(column, cell, size) for column, cell, size in zip(columns, here, sizes, strict=True)]
        styles = [_style(column, cell) for column, cell in zip(columns, cells, strict=True)]
        lines.append(list(zip(_pieces(padded), styles, strict=True)))
    return lines


def _style(column: TextColumn, cell: str) -> str:
    if column.sort == "bar":
        return "blue"
    return column.style(cell) if column.style else ""


def folded(
    rows: Sequence[dict[str, Any]],
    sums: Sequence[str],
    key: str = "operation",
    alike: Sequence[str] = (),
    means: Sequence[str] = (),
    weight: str = "",
) -> list[dict[str, Any]]:
    """Folds the rows of repeated layers into one."""
    groups = fold(rows, lambda row: str(row[key]), lambda row: tuple(row[one] for one in alike))
    found = []
    for (shape, _), members in groups.items():
        one = {**members[0], "folded": len(members)}
        if len(members) > 1:
            one[key] = f"{shape} ×{len(members)}"
        for each in sums:
            there = [row[each] for row in members if row[each] is not None]
            one[each] = sum(there) if there else None
        total = sum(row[weight] for row in members) if weight else 0
        for each in means:
            weighted = sum(row[each] * (row[weight] if total else 1) for row in members)
            one[each] = weighted / (total or len(members))
        found.append(one)
    return sorted(found, key=lambda row: -(row[sums[0]] or 0)) if sums else found


def cut(
    rows: Sequence[Any],
    everything: bool,
    shown: Callable[[Sequence[Any]], str] | None = None,
    what: str = "operations",
    how: str = "--all shows every one",
) -> list[str]:
    """Returns a line about the omitted rows; empty without omitted rows."""
    left = rows[ROWS:]
    if everything or not left:
        return []
    count = sum(row.get("folded", 1) if isinstance(row, dict) else 1 for row in left)
    more = f", {shown(left)}" if shown else ""
    return [*screen.wrapped(f"... and {count:,} more {what}{more}"), f"    {how}"]
