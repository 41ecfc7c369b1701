"""Shows the answer of `why` as an HTML page and in notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base import figures
from ...base.palette import OTHER_COLOUR, SERIES
from ...base.view import Bar, Bars, Card, Cards, Column, Notes, Rows, Section, document, fragment
from ..why_text import head_lines, roofline_text, speed_text, tiles_text

__all__ = ["page", "picture"]

_TILES = 40
_NEVER = 10**9  # least rows of a table with sorting and filters: disables them


def _cards(data: Mapping[str, Any]) -> Cards:
    runs = f"in {data['runs']:,} runs" if data["runs"] > 1 else "in one run"
    found = [
        Card("time", figures.duration(data["seconds"]), runs),
        Card("cycles", figures.count(data["cycles"]), f"{figures.percent(data['share'])} of the program"),
        Card("at least", figures.count(data["bound_cycles"]), "cycles"),
    ]
    if data["bound_cycles"] > 0:
        found.append(Card("time / bound", figures.ratio(data["cycles"] / data["bound_cycles"])))
    return Cards(found)


def _sections(data: Mapping[str, Any]) -> list[Section]:
    rows = data["terms"]
    colours = {row["term"]: SERIES[i] if i < len(SERIES) - 1 else OTHER_COLOUR for i, row in enumerate(rows)}
    bar = Bar("", {row["term"]: row["cycles"] for row in rows}, f"{figures.count(data['cycles'])} cycles")
    columns = [Column("term", "term", "text"), Column("cycles", "cycles"), Column("share", "share", "percent")]
    columns.append(Column("meaning", "meaning", "text", whole=True))
    terms: list[Any] = [
        Bars([bar], colours),
        Rows("terms", columns, rows, choice="term", colours=colours, what="terms", most=40, least=_NEVER),
        Notes([data["attribution"]]),
    ]
    found = [Section("", [_cards(data), Notes(head_lines(data, 10_000))])]
    if len(data["parts"]) > 1:
        kernels = [Column("kernel", "kernel", "text"), Column("cycles", "cycles"), Column("share", "share", "percent")]
        found.append(Section("Kernels", [Rows("kernels", kernels, data["parts"], what="kernels")], "kernels"))
    found += [
        Section("Terms", terms, "terms"),
        Section("Roofline", [Notes([roofline_text(data["roofline"])])], "roofline"),
    ]
    if data["tiles"]:
        lines = [f"{one['kernel']}: {tiles_text(one)}" for one in data["tiles"][:_TILES]]
        left = len(data["tiles"]) - len(lines)
        found.append(Section("Tiles", [Notes([*lines, *([f"and {left:,} more kernels"] if left else [])])], "tiles"))
    if data.get("alternatives"):
        columns = [Column("what", "alternative", "text"), Column("own_cycles", "cycles of these operations")]
        columns += [Column("own", "", "text"), Column("cycles", "cycles of the program"), Column("all", "", "text")]
        others = [
            {**row, "own": speed_text(row["own_gain"]), "all": speed_text(row["gain"])} for row in data["alternatives"]
        ]
        table = Rows("alternatives", columns, others, what="alternatives", most=40, least=_NEVER)
        found.append(Section("Alternatives", [table], "alternatives"))
    return found


def picture(data: Mapping[str, Any]) -> str:
    """Draws the notebook view."""
    return fragment(f"Why: {data['operation']}", _sections(data))


def page(data: Mapping[str, Any]) -> str:
    """Draws a self-contained HTML page."""
    return document(f"Why: {data['operation']}", _sections(data), f"{data['program']} on {data['machine']}")
