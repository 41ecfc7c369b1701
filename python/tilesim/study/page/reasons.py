"""Explains all operations of a result for its page, without simulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import models
from ...machine.device import Device
from ...machine.machine import Machine
from ...results.result import Result
from ..facts import Facts
from ..ground import Ground
from ..spans import Spans
from ..terms import terms_of
from ..why_text import tiles_text

__all__ = ["reasons"]

MEASURED = 400
"""Number of longest operations whose terms come from recorded intervals, as in `Result.why`."""
COUNTED = 20_000
"""Number of longest operations with terms."""
READ = 2_000
"""Largest number of kernels for which a program's statements are read."""
_TILES = 300_000  # most characters of tile texts
_FEW = "this page uses them only for the longest operations; `Result.why` uses them for each"


_SINGLE = ("name", "operation", "start", "finish")  # figures that only a single kernel has


class _SharedTexts:
    """Computes explanations; rows share equal terms and texts."""

    def __init__(self, result: Result, recorded: Result | None) -> None:
        self.result = result
        self.ground = Ground(result, operands=len(result.data["operations"]) <= READ)
        self.spans, self.reason = self.ground.spans(True, recorded) if recorded is not None else (None, "")
        if self.spans is None:
            self.reason = self.reason or "this page has none"
        self.terms: dict[tuple[str, str], int] = {}
        self._room = _TILES
        self._known: dict[Any, dict[str, Any]] = {}

    def row(self, rows: Sequence[dict[str, Any]], measured: bool) -> dict[str, Any]:
        """Returns the explanation of all kernels with one name; kernels with equal counts share it."""
        if measured or self.ground.operands is not None or len(rows) > 1 or self.ground.closed:
            return self._row(rows, measured)
        (row,) = rows
        key = (tuple(value for name, value in row.items() if name not in _SINGLE), self.ground.counted(row["name"]))
        if key not in self._known:
            self._known[key] = self._row(rows, False)
        return self._known[key]

    def _row(self, rows: Sequence[dict[str, Any]], measured: bool) -> dict[str, Any]:
        facts = self.ground.facts(rows)
        spans = self.spans if measured else None
        found, part = terms_of(facts, self.ground.rates, self.result.data, spans)
        shares = [
            (self.terms.setdefault((row["term"], row["meaning"]), len(self.terms)), row["share"]) for row in found
        ]
        point = facts.point(self.ground.rates)
        how = self.ground.attribution(spans is not None, _FEW if self.spans is not None else self.reason)
        if len(rows) > 1:
            how = f"Sum over the {len(rows)} kernels of this name. {how}"
        return {
            "shares": shares,
            "least": max(facts.bounds(self.ground.rates).values()) / len(rows),
            "part": part,
            "how": how,
            "peak": point["peak_flops_per_second"],
            "moved": point["bytes"] / len(rows),
            "tiles": self._tiles(facts),
        }

    def _tiles(self, facts: Facts) -> str:
        if self.ground.operands is None or self._room <= 0:
            return ""
        found = dict.fromkeys(tiles_text(one) for one in self.ground.operands.tiles(facts.names[:1]))
        text = "; ".join(list(found)[:2])
        self._room -= len(text)
        return text


def _remedy(result: Result) -> list[tuple[str, str, str]]:
    """Returns commands that simulate alternatives."""
    machine, program = str(result.data["machine"]), str(result.data["program"])
    target = f" --machine {machine}" if machine in (*Machine.names(), *Device.names()) else " --machine FILE"
    model = program if program in models.names() else "MODEL"
    what = "To simulate other mappings, lowerings, layouts and fusion: " if result.data["source"] == "engine" else (
        "In a terminal: ")  # fmt: skip
    behind = " (with the model, file or options of this run)" if model == "MODEL" else " (with the options of this run)"
    found = [(what, f"tilesim why {model} {{quoted}}{target}", behind)]
    return [*found, ("In Python: ", "result.why({name})", ".")]


def reasons(result: Result, recorded: Result | None = None) -> dict[str, Any]:
    """Lists the terms of every operation."""
    operations = result.data["operations"]
    told = _SharedTexts(result, recorded)
    by_name: dict[str, list[int]] = {}
    for place, row in enumerate(operations):
        by_name.setdefault(row["name"], []).append(place)
    longest = sorted(by_name, key=lambda name: -sum(operations[place]["exclusive"] for place in by_name[name]))
    rows: list[dict[str, Any] | None] = [None] * len(operations)
    for at, name in enumerate(longest[:COUNTED]):
        places = by_name[name]
        found = told.row([operations[place] for place in places], at < MEASURED and isinstance(told.spans, Spans))
        for place in places:
            rows[place] = found
    rates = (float(told.ground.rates.hertz), told.ground.rates.memory * told.ground.rates.hertz)
    return {"terms": list(told.terms), "rows": rows, "rates": rates, "remedy": _remedy(result)}
