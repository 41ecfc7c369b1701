"""Sums the energy of a result by part."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ..base import figures

__all__ = ["Energy"]

HOW = 'machine.replace({"energy.mac": "0.5 pJ", "energy.memory_byte": "20 pJ"}) sets them'


class Energy(dict[str, float]):
    """Joules by part; it prints one line per part."""

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        """Stores the parts with known energy."""
        super().__init__({row["part"]: row["femtojoules"] * 1e-15 for row in rows if row["known"]})
        self.unknown = [str(row["part"]) for row in rows if not row["known"]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the rows."""
        rows = [{"part": part, "femtojoules": joules * 1e15, "known": True} for part, joules in self.items()]
        return Energy, ([*rows, *({"part": part, "femtojoules": 0, "known": False} for part in self.unknown)],)

    def __repr__(self) -> str:
        """One line per part, followed by the unknown parts and how to set them."""
        if not self:
            return f"no energy, because the machine's energy.* settings are missing; {HOW}"
        width = max(len(part) for part in [*self, "total"])
        lines = [f"{part:{width}}  {figures.energy(joules)}" for part, joules in self.items()]
        if len(self) > 1:
            lines.append(f"{'total':{width}}  {figures.energy(sum(self.values()))}")
        if self.unknown:
            missing = ", ".join(part.removesuffix(" (ps)") for part in self.unknown)
            lines.append(f"not counted, because settings energy.* are missing: {missing}")
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
