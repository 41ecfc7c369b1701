"""Draws the notebook view beside the sliders: speed-up, longest operations, roofline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...base.figures import count, duration, percent, ratio
from ...base.view import Card, Cards, Section, fragment
from ...results.page.operations import longest
from ...results.page.roof import roof_section
from ...results.page.sections import title_of
from ...results.result import Result

__all__ = ["page"]

_ROWS = 8


def page(before: Result, now: Result, error: str, took: float, notes: Sequence[str] = ()) -> str:
    """Draws the view as an HTML fragment."""
    change = ratio(before.seconds / now.seconds) if now.seconds else "–"
    cards = [
        Card("time", duration(now.seconds), f"simulated in {duration(took)}"),
        Card("speed-up", change, f"{duration(before.seconds)} at the start"),
        Card("cycles", count(now.cycles)),
        Card("bound by", now.bottleneck, f"busy {percent(now.data['bottleneck_share'])} of the time"),
    ]
    sections = [Section("", [Cards(cards)])]
    if now.data["operations"]:
        sections.append(Section("", [longest(now, _ROWS)]))
    wrong = ""
    if error:
        style = "border-left:4px solid #ee6677;padding:4px 8px;margin:4px 0"
        wrong = f'<p class="error" style="{style}">{escape(error)}<br>Below: the last legal settings.</p>'
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return said + wrong + fragment(title_of(now), [*sections, roof_section(now)])
