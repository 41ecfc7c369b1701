"""Energy of a result by part, with units and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ..base import figures

__all__ = ["Energy"]

HOW = 'machine.replace({"energy.mac": "0.5 pJ", "energy.memory_byte": "20 pJ"}) sets them'


class Energy(dict[str, float]):
    """Joules by part; printed, a line for each."""

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        """Of the parts whose energy is known."""
        super().__init__({row["part"]: row["femtojoules"] * 1e-15 for row in rows if row["known"]})
        self.unknown = [str(row["part"]) for row in rows if not row["known"]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as its rows."""
        rows = [{"part": part, "femtojoules": joules * 1e15, "known": True} for part, joules in self.items()]
        return Energy, ([*rows, *({"part": part, "femtojoules": 0, "known": False} for part in self.unknown)],)

    def __repr__(self) -> str:
        """A part a line; what is unknown, and how it is set."""
        if not self:
            return f"no energy: the machine's file names no figures for it (settings energy.*); {HOW}"
        width = max(len(part) for part in [*self, "together"])
        lines = [f"{part:{width}}  {figures.energy(joules)}" for part, joules in self.items()]
        if len(self) > 1:
            lines.append(f"{'together':{width}}  {figures.energy(sum(self.values()))}")
        if self.unknown:
            lines.append(f"not known: {', '.join(self.unknown)} (settings energy.*)")
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
