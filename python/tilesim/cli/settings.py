"""Terminal tables of machines and their settings."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.columns import layout, name, number, text
from ..base.figures import ratio
from ..base.screen import Line, wrapped
from ..base.table import Table
from ..machine.machine import Machine
from ..machine.settings import Setting, shown_value

__all__ = ["shown_differences", "shown_machine", "shown_settings"]

_INDENT = "    "


def shown_machine(machine: Machine) -> list[Line | str]:
    """Returns a table of all settings of a machine."""
    rows = machine.table().rows
    counted = {origin: sum(row["from"] == origin for row in rows) for origin in ("file", "default", "replaced")}
    told = ", ".join(f"{count} {origin}" for origin, count in counted.items() if count)
    head = wrapped(f"{machine.label}: {machine.description}", hang=_INDENT)
    columns = [name("setting"), text("value", 0, 8), text("from", 2, 8), text("source", 1)]
    cells = [[row["setting"], shown_value(row["value"]), row["from"], row["source"] or ""] for row in rows]
    return [*head, f"{len(rows)} settings by origin: {told}", "", *layout(columns, cells)]


def shown_settings(settings: Sequence[Setting]) -> list[str]:
    """Returns lines that describe settings: unit, range, default, meaning, effect."""
    lines = []
    for one in settings:
        limits = f"one of {', '.join(one.allowed)}" if one.allowed else one.range
        kind = [one.unit] if one.unit != "value" else []
        told = ", ".join([*kind, *([limits] if limits else []), f"default {shown_value(one.default)}"])
        lines += wrapped(f"{one.path}  ({told})", hang=_INDENT)
        lines += wrapped(one.meaning, _INDENT)
        lines += wrapped(f"effect: {one.effect}", _INDENT) if one.effect not in ("", "none") else []
    return lines


def shown_differences(table: Table, a: str, b: str) -> list[Line | str]:
    """Returns a table of the settings that differ between machines `a` and `b`."""
    if not len(table):
        return list(wrapped(f"{a} and {b} have equal settings"))
    cells = [
        [
            row["setting"],
            shown_value(row["a"]),
            shown_value(row["b"]),
            "" if row["ratio"] is None else ratio(row["ratio"]),
        ]
        for row in table.rows
    ]
    return list(layout([name("setting"), text(a, 0, 8), text(b, 0, 8), number("b / a", 1)], cells))
