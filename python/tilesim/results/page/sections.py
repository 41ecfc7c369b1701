"""Assembles the sections of a result's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.view import Section, document, fragment
from .baseline import against
from .drawn_graph import graph_section
from .head import cards, parts_section, subtitle
from .notes import advice_section, modelled_section
from .operations import operation_rows, operations_section, time_section
from .plan import plan_section
from .reasons import reasons_of
from .roof import roof_section
from .stored_data import graph_of, memory_of
from .timeline import timeline_section
from .traffic import traffic_section

__all__ = ["page", "picture"]

RECORDED = 300_000
"""Largest number of tile operations that a page simulates again to record a timeline (about a second)."""


def picture(result: Any) -> str:
    """Draws the notebook view of a result, without scripts."""
    sections = [Section("", [cards(result, None)]), time_section(result, False)]
    return fragment(title_of(result), [*sections, operations_section(result), traffic_section(result)])


def title_of(result: Any) -> str:
    """Names the program and the machine."""
    return f"{result.data['program']} on {result.data['machine']}"


def _recorded(result: Any, again: Any) -> tuple[Any, str]:
    """Returns a result with a timeline and a note on its recording; or None and the reason."""
    if result.data["intervals"]:
        return result, "recorded by this simulation"
    if result.data["source"] != "engine":
        return None, "An estimate has no timeline. Simulate the workload on a machine."
    if again is None:
        return (
            None,
            "No timeline was recorded. Simulate with timeline=True (tilesim run ... --timeline F).",
        )
    operations = again.program.operations
    if operations > RECORDED:
        return None, (
            f"Not recorded by default for {operations:,} tile operations (limit {RECORDED:,}): "
            "simulate with timeline=True, and write the page of that result."
        )
    return again.recorded(), "recorded by simulating once more"


def page(result: Any, advice: Sequence[Any] | None = None, left_out: str = "", baseline: Any = None) -> str:
    """Writes a self-contained HTML page."""
    again = getattr(result, "_again", None)
    program = getattr(again, "program", None)
    recorded, word = _recorded(result, again if program is not None else None)
    rows = operation_rows(result)
    order = [row["place"] for row in rows]
    at = {place: row for row, place in enumerate(order)}
    by_name: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        by_name.setdefault(row["operation"], []).append(i)
    compared = against(result, baseline) if baseline is not None else None
    sections = [
        Section("", [cards(result, program)]),
        *(compared.sections() if compared else []),
        time_section(result, True),
        operations_section(result, reasons_of(result, recorded, order), compared),
        timeline_section(recorded, word, by_name),
        roof_section(result),
        traffic_section(result),
        plan_section(result, memory_of(result)),
        graph_section(result, graph_of(result), [at[place] for place in range(len(order))]),
        *parts_section(result),
        advice_section(result, advice, left_out),
        modelled_section(result),
    ]
    return document(title_of(result), [one for one in sections if one.parts], subtitle(result))
