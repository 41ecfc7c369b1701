"""Tables that fit a terminal: names lose their middle, texts wrap at words, and what matters least goes last."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base import figures, palette
from ..base.folding import fold
from . import screen
from .screen import Line, clean, fitted, wide

__all__ = ["ROWS", "Column", "bar", "bound", "cut", "folded", "layout", "name", "number", "percent", "text"]

GAP = "  "
BLOCKS = " ▏▎▍▌▋▊▉█"
BAR = 10
ROWS = 20
"""Rows that a command shows unless all are asked for."""


@dataclass(frozen=True)
class Column:
    """One column: its head (with the unit), what may happen to it on a narrow terminal, and how its cells look."""

    head: str
    sort: str = "number"
    drop: int = 0
    least: int = 0
    style: Callable[[str], str] | None = None

    @property
    def left(self) -> bool:
        """Whether cells start at the left."""
        return self.sort != "number"

    def smallest(self, natural: int) -> int:
        """The fewest cells it may be given, of those that it would take."""
        return min(natural, max(self.least, wide(self.head))) if self.sort in ("name", "text") else natural


def name(head: str, drop: int = 0, least: int = 16) -> Column:
    """Names, which lose their middle where they must.

    Args:
        head: of the column.
        drop: the higher, the sooner it is left out; 0: never.
        least: characters that stay of a name.

    Returns:
        The column.
    """
    return Column(head, "name", drop, least)


def text(head: str, drop: int = 0, least: int = 20) -> Column:
    """Words, which wrap.

    Args:
        head: of the column.
        drop: the higher, the sooner it is left out; 0: never.
        least: characters of a line.

    Returns:
        The column.
    """
    return Column(head, "text", drop, least)


def number(head: str, drop: int = 0) -> Column:
    """Numbers, aligned at the right.

    Args:
        head: what, and the unit: "time, ms".
        drop: the higher, the sooner it is left out; 0: never.

    Returns:
        The column.
    """
    return Column(head, "number", drop)


def bound(head: str = "bound by", drop: int = 0) -> Column:
    """What bounds an operation, in its colour.

    Args:
        head: of the column.
        drop: the higher, the sooner it is left out; 0: never.

    Returns:
        The column.
    """
    return Column(head, "word", drop, style=lambda cell: palette.TERMINAL.get(cell, ""))


def bar(head: str = "") -> Column:
    """Shares as bars: cells are numbers from 0 to 1, drawn on terminals that have room.

    Args:
        head: of the column.

    Returns:
        The column.
    """
    return Column(head, "bar", 1000)


def percent(share: float) -> str:
    """A share without its sign, which stands in the head: "share, %".

    Args:
        share: from 0 to 1.

    Returns:
        The text.
    """
    return figures.percent(share).removesuffix(" %")


def _drawn(share: Any) -> str:
    eighths = round(8 * BAR * min(1.0, max(0.0, float(share or 0))))
    return BLOCKS[8] * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")


def _bars() -> bool:
    import sys

    return screen.is_terminal() and "utf" in (getattr(sys.stdout, "encoding", "") or "").lower()


def _widths(columns: Sequence[Column], natural: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """Indices of the columns that stay, and the cells of each: the least, then what is left to the widest names."""
    kept = list(range(len(columns)))

    def least() -> int:
        return sum(columns[i].smallest(natural[i]) for i in kept) + len(GAP) * (len(kept) - 1)

    while least() > room and any(columns[i].drop for i in kept):
        kept.remove(max((i for i in kept if columns[i].drop), key=lambda i: (columns[i].drop, i)))
    sizes = {i: columns[i].smallest(natural[i]) for i in kept}
    over = least() - room
    for i in sorted(kept, key=lambda i: -sizes[i]):  # narrower than the columns that have to be there
        if over > 0 and columns[i].left:
            taken = min(over, sizes[i] - 4)
            sizes[i], over = sizes[i] - max(0, taken), over - max(0, taken)
    left = -over
    while left > 0 and (growing := [i for i in kept if sizes[i] < natural[i]]):
        share = max(1, left // len(growing))
        for i in growing:
            more = min(share, natural[i] - sizes[i], left)
            sizes[i], left = sizes[i] + more, left - more
    return kept, [sizes[i] for i in kept]


def _cell(column: Column, value: str, size: int) -> list[str]:
    """The lines of one cell."""
    if column.sort == "text" and wide(value) > size:
        words = " ".join(fitted(word, size) for word in value.split(" "))
        return textwrap.wrap(words, size, break_long_words=False, break_on_hyphens=False) or [""]
    return [fitted(value, size)]


def _padded(column: Column, value: str, size: int) -> str:
    space = " " * max(0, size - wide(value))
    return value + space if column.left else space + value


def layout(columns: Sequence[Column], rows: Sequence[Sequence[Any]], room: int | None = None) -> list[Line]:
    """Lines of aligned columns.

    Args:
        columns: of the table.
        rows: a cell each; texts, numbers as people read them, shares of a `bar`.
        room: characters of a line; none: the terminal's.

    Returns:
        The lines with their styles, the head first; at the end a note where columns are left out.
    """
    room = screen.width() if room is None else room
    drawn = _bars()
    shown = [i for i, column in enumerate(columns) if column.sort != "bar" or drawn]
    columns = [columns[i] for i in shown]
    cells = [
        [_drawn(row[i]) if column.sort == "bar" else clean(str(row[i])) for i, column in zip(shown, columns, strict=True)]
        for row in rows
    ]
    natural = [
        BAR if column.sort == "bar" else max([wide(column.head), *(wide(row[i]) for row in cells)])
        for i, column in enumerate(columns)
    ]
    kept, sizes = _widths(columns, natural, room)
    chosen = [columns[i] for i in kept]
    lines: list[Line] = [
        [(piece, "bold") for piece in _pieces([_padded(c, fitted(c.head, s), s) for c, s in zip(chosen, sizes, strict=True)])]
    ]
    for row in cells:
        lines += _row(chosen, [row[i] for i in kept], sizes)
    lost = [column.head for i, column in enumerate(columns) if i not in kept and column.sort != "bar"]
    if lost:
        whole = sum(natural) + len(GAP) * (len(columns) - 1)
        what = f"Left out on {room} characters: {', '.join(lost)} (all columns take {whole:,})"
        lines += [[(line, "dim")] for line in screen.wrapped(what)]
    return lines


def _pieces(cells: Sequence[str]) -> list[str]:
    return [cell + (GAP if i + 1 < len(cells) else "") for i, cell in enumerate(cells)]


def _row(columns: Sequence[Column], cells: Sequence[str], sizes: Sequence[int]) -> list[Line]:
    parts = [_cell(column, cell, size) for column, cell, size in zip(columns, cells, sizes, strict=True)]
    lines = []
    for at in range(max(map(len, parts))):
        here = [part[at] if at < len(part) else "" for part in parts]
        padded = [_padded(column, cell, size) for column, cell, size in zip(columns, here, sizes, strict=True)]
        styles = [_style(column, cell) for column, cell in zip(columns, cells, strict=True)]
        lines.append(list(zip(_pieces(padded), styles, strict=True)))
    return lines


def _style(column: Column, cell: str) -> str:
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
    """Rows of repeated layers as one each.

    Args:
        rows: of a table.
        sums: keys whose numbers are added up.
        key: of the name; that of several is their pattern and "×" how many.
        alike: keys whose values must be equal.
        means: keys whose numbers are averaged, by `weight`.
        weight: key of the weight.

    Returns:
        The rows with the first's other values, in the order of the largest first sum; each has its number in "folded".
    """
    groups = fold(rows, lambda row: str(row[key]), lambda row: tuple(row[one] for one in alike))
    found = []
    for (shape, _), members in groups.items():
        one = {**members[0], "folded": len(members)}
        if len(members) > 1:
            one[key] = f"{shape} ×{len(members)}"
        for each in sums:
            one[each] = sum(row[each] or 0 for row in members)
        total = sum(row[weight] for row in members) if weight else 0
        for each in means:
            weighted = sum(row[each] * (row[weight] if total else 1) for row in members)
            one[each] = weighted / (total or len(members))
        found.append(one)
    return sorted(found, key=lambda row: -row[sums[0]]) if sums else found


def cut(rows: Sequence[Any], everything: bool, said: Callable[[Sequence[Any]], str] | None = None, what: str = "operations") -> list[str]:
    """The line that tells of rows that are not shown.

    Args:
        rows: all of them; the first `ROWS` are shown.
        everything: whether all are.
        said: what else there is to say of those left out.
        what: they are.

    Returns:
        One line, or none.
    """
    left = rows[ROWS:]
    if everything or not left:
        return []
    count = sum(row.get("folded", 1) if isinstance(row, dict) else 1 for row in left)
    more = f", {said(left)}" if said else ""
    return screen.wrapped(f"... and {count:,} more {what}{more} (--all shows each)")
