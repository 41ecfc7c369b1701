"""Shows a machine in a notebook."""

from __future__ import annotations

import json
from typing import Any

from ..base import figures
from ..base.view import Card, Cards, Column, Rows, Section, fragment

__all__ = ["picture"]

_HIDDEN = ("schema", "version", "name", "description", "sources")


def _settings(value: Any, path: str, sources: dict[str, str]) -> list[dict[str, str]]:
    if isinstance(value, dict) and value:
        rows = []
        for key, inner in value.items():
            rows += _settings(inner, f"{path}.{key}" if path else key, sources)
        return rows
    text = value if isinstance(value, str) else json.dumps(value)
    return [{"setting": path, "value": figures.short(text, 60), "source": sources.get(path, "")}]


def picture(machine: Any) -> str:
    """Draws peak rates, memory, and every setting with its source."""
    view = machine.core.device()
    contents = machine.to_dict()
    rates = sorted(view["matrix_flops_per_second"].items(), key=lambda item: -item[1])
    sorts = {name: len(places) for name, places in machine.core.sorts.items()}
    count = sum(sorts.values()) or contents["core"]["count"]
    of = ", ".join(f"{number} {name}" for name, number in sorts.items())
    cards = [Card("cores", figures.count(count), of), Card("clock", figures.rate(machine.hertz, "Hz"))]
    if rates:
        cards.append(Card("products, peak", figures.rate(rates[0][1], "FLOP/s"), rates[0][0]))
    vector = view["vector_flops_per_second"].get("f32", 0.0)
    cards += [
        Card("vector unit, peak", figures.rate(vector, "FLOP/s"), "f32"),
        Card("memory", figures.rate(view["memory_bytes_per_second"], "B/s"), "peak"),
    ]
    settings = {key: value for key, value in contents.items() if key not in _HIDDEN}
    columns = [Column(key, key, "text") for key in ("setting", "value", "source")]
    rows = _settings(settings, "", machine.sources)
    table = Rows("settings", columns, rows, most=400, what="settings")
    return fragment(
        f"{machine.name}: {machine.description}", [Section("", [Cards(cards)]), Section("Settings", [table])]
    )
