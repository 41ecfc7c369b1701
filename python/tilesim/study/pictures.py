"""Draws the notebook view of a study."""

from __future__ import annotations

from typing import Any

from ..base import figures
from ..base.view import Card, Cards, Notes, Section, fragment, rows_of

__all__ = ["picture"]


def picture(study: Any) -> str:
    """Draws the gain, and each distinct operation before and after tuning, without simulations."""
    simulated = sum(row["cycles"] is not None for row in study.rows)
    cards = [Card("candidates", figures.count(len(study.rows)), f"{simulated:,} simulated")]
    if study.interrupted:
        cards.append(Card("gain", "–", "interrupted; .gain simulates the whole graph"))
    elif study.result is not None and study.baseline is not None:
        before, after = figures.count(study.baseline.cycles), figures.count(study.result.cycles)
        cards.append(Card("gain", figures.ratio(study.gain), f"{before} cycles before, {after} after"))
    rows = [{key: _axis_text(value) for key, value in row.items()} for row in study.operations]
    table = rows_of("operations", rows, {"gap": "percent", "gain": "ratio", "lower_bound": "count"}, "operations")
    sections = [Section("", [Cards(cards)]), Section("Operations", [table])]
    sections += [Section("Notes", [Notes(study.notes[:12])])] if study.notes else []
    return fragment(f"tuning of {study.graph.name} on {study.machine.name}", sections)


def _axis_text(value: object) -> object:
    return value if isinstance(value, (int, float, str, type(None))) else figures.short(str(value), 60)
