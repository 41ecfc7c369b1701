"""Shows advice, approximations and sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import figures
from ...base.palette import SERIES
from ...base.view import Bar, Bars, Notes, Rows, Section
from ...base.view.elements import Column
from .head import mapping

__all__ = ["advice_section", "modelled_section"]

WORTH = 1.01
"""Least speed-up of a listed change."""


def advice_section(result: Any, advice: Sequence[Any] | None, left_out: str) -> Section:
    """Shows simulated changes, best first."""
    again = "estimated" if result.estimated else "simulated"
    title = f"Advice: {again} changes"
    if not advice:
        why = left_out or (f"A stored result is not {again} again." if advice is None else "")
        return Section(title, [Notes([why or "Advice has no change to try."])], "advice")
    found = [item for item in advice if item.gain >= WORTH]
    if not found:
        tried = f"None of {len(advice)} changes makes it faster by {figures.percent(WORTH - 1)} or more."
        return Section(title, [Notes([tried])], "advice")
    before = float(result.cycles)
    bars = [
        Bar(str(item), {"cycles after": float(item.cycles), "saved": max(0.0, before - item.cycles)},
            figures.ratio(item.gain))
        for item in found
    ]  # fmt: skip
    colours = {"cycles after": SERIES[0], "saved": SERIES[3]}
    small = len(advice) - len(found)
    caption = f"{small} more changes gain less than {figures.percent(WORTH - 1)}." if small else ""
    return Section(title, [Bars(bars, colours, "count", before, caption, whole_names=True)], "advice")


def _sources(configuration: dict[str, Any]) -> list[dict[str, Any]]:
    stated = mapping(configuration.get("sources")) or mapping(mapping(configuration.get("device")).get("sources"))
    return [{"setting": name, "source": str(text)} for name, text in stated.items()]


def modelled_section(result: Any) -> Section:
    """Shows approximations, fidelities, options, data sources, and sources of the machine's numbers."""
    data = result.data
    parts: list[Any] = [Notes(result.approximations or ["Nothing was approximated."])]
    facts = [("fidelity of " + name, text) for name, text in mapping(data.get("fidelity")).items()]
    facts += [("lowering", result.lowering)] if result.lowering else []
    facts += [("option " + name, str(text)) for name, text in mapping(data.get("options")).items()]
    facts += [("data of " + name, str(text)) for name, text in result.data_sources.items()]
    facts += [("version of " + name, str(text)) for name, text in mapping(data.get("versions")).items()]
    names = [Column("what", "what", "text"), Column("value", "value", "text")]
    if facts:
        parts.append(Rows("facts", names, [{"what": a, "value": b} for a, b in facts], what="facts", most=60))
    if sources := _sources(mapping(data.get("configuration"))):
        columns = [Column("setting", "setting", "text"), Column("source", "source", "text")]
        parts.append(Rows("sources", columns, sources, what="sources of the machine's numbers", most=60))
    return Section("How it was modelled", parts, "modelled")
