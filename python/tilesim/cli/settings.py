"""How machines and their settings look on a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

from ..base.figures import ratio, short
from ..base.table import Table
from ..machine.machine import Machine
from ..machine.settings import Setting, shown_value
from .show import columns

__all__ = ["shown_differences", "shown_machine", "shown_settings", "terminal_width"]

_LEAST, _MOST = 40, 200  # columns
_INDENT = "    "


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none.

    Returns:
        The number, from 40 to 200.
    """
    return min(_MOST, max(_LEAST, shutil.get_terminal_size().columns))


def wrapped(text: str, width: int, first: str = _INDENT, indent: str = _INDENT) -> list[str]:
    """A text in lines that fit, broken between words alone.

    Args:
        text: any.
        width: columns.
        first: before the first line.
        indent: before the others.

    Returns:
        The lines.
    """
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def shown_machine(machine: Machine, width: int) -> list[str]:
    """Every setting of a machine.

    Args:
        machine: any.
        width: columns.

    Returns:
        Lines.
    """
    rows = machine.table().rows
    wide = max(len(row["setting"]) for row in rows)
    values = [shown_value(row["value"]) for row in rows]
    value_width = min(20, max(map(len, values)))
    counted = {origin: sum(row["from"] == origin for row in rows) for origin in ("file", "default", "replaced")}
    told = ", ".join(f"{count} {origin}" for origin, count in counted.items() if count)
    lines = [*wrapped(f"{machine.label}: {machine.description}", width, "", _INDENT)]
    lines += [f"{len(rows)} settings, where each comes from: {told}", ""]
    for row, value in zip(rows, values, strict=True):
        head = f"{row['setting']:<{wide}}  {value:<{value_width}}  {row['from']:<8}"
        room = width - len(head) - 2
        if len(head.rstrip()) > width:
            lines += [row["setting"], *wrapped(f"{value}  ({row['from']})", width)]
            lines += wrapped(row["source"], width) if row["source"] else []
        elif len(value) > value_width:
            lines += [f"{row['setting']:<{wide}}  {'':<{value_width}}  {row['from']}".rstrip()]
            lines += wrapped(value, width)
            lines += wrapped(row["source"], width) if row["source"] else []
        elif row["source"] and room >= 30:
            lines += wrapped(row["source"], width, head + "  ", " " * (len(head) + 2))
        else:
            lines += [head.rstrip(), *(wrapped(row["source"], width) if row["source"] else [])]
    return lines


def shown_settings(settings: Sequence[Setting], width: int) -> list[str]:
    """What settings mean.

    Args:
        settings: declarations.
        width: columns.

    Returns:
        Lines.
    """
    lines = []
    for one in settings:
        limits = f"one of {', '.join(one.allowed)}" if one.allowed else one.range
        kind = [one.unit] if one.unit != "value" else []
        told = ", ".join([*kind, *([limits] if limits else []), f"default {shown_value(one.default)}"])
        lines += wrapped(f"{one.path}  ({told})", width, "")
        lines += wrapped(one.meaning, width)
        lines += wrapped(f"effect: {one.effect}", width) if one.effect not in ("", "none") else []
    return lines


def shown_differences(table: Table, a: str, b: str, width: int) -> list[str]:
    """The settings in which two machines differ.

    Args:
        table: of `Machine.diff`.
        a: name of the first.
        b: name of the second.
        width: columns.

    Returns:
        Lines.
    """
    if not len(table):
        return wrapped(f"{a} and {b}: every setting is the same", width, "")
    wide = max(len(row["setting"]) for row in table.rows)
    wide = min(wide, width - 16 - 6 - 10)
    each = max(8, (width - wide - 6 - 10) // 2)
    cells = [["setting", short(a, each), short(b, each), "b / a"]]
    for row in table.rows:
        many = "" if row["ratio"] is None else ratio(row["ratio"])
        values = (short(shown_value(row[key]), each) for key in ("a", "b"))
        cells.append([short(row["setting"], wide), *values, many])
    return columns(cells)
