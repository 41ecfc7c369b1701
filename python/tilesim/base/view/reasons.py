"""Explanations of table rows, which a page shows when a row is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .elements import indexed, packed

__all__ = ["Reason", "Reasons"]

_PARTS = 100_000  # a share is stored as this many parts


@dataclass(frozen=True)
class Reason:
    """Explanation of one row: shares of terms (by index, adding up to 1), and lower bound."""

    shares: Sequence[tuple[int, float]]
    least: float = 0.0
    part: str = ""
    how: str = ""
    peak: float = 0.0
    moved: float = 0.0
    tiles: str = ""


@dataclass(frozen=True)
class Reasons:
    """Reasons of the rows of a table, shown by a page's script only.

    `terms` are name, meaning and colour of each; `columns` name those of the table with cycles, cycles from start to
    end, multiply-adds and FLOPs; `rates` are cycles per second and the most bytes per second. `remedy` has lines of a
    text, code, and a text behind it; in the code {name} is the row's name as a text of Python, {quoted} as a shell's.
    """

    table: str
    terms: Sequence[tuple[str, str, str]]
    rows: Sequence[Reason | None]
    columns: tuple[str, str, str, str]
    rates: tuple[float, float]
    remedy: Sequence[tuple[str, str, str]] = ()
    missing: str = ""

    def html(self, live: bool = False) -> str:
        """Returns "": a notebook shows no reasons."""
        return ""

    def data(self) -> dict[str, Any] | None:
        """The data, with equal shares stored once."""
        given = [row or Reason(()) for row in self.rows]
        places: dict[tuple[int, ...], int] = {}
        packs = {id(row): _integer_terms(row.shares) for row in {id(row): row for row in given}.values()}
        at = [places.setdefault(packs[id(row)], len(places)) if row.shares else -1 for row in given]
        found: dict[str, Any] = {
            "kind": "reasons",
            "name": "why",
            "table": self.table,
            "terms": [list(one) for one in self.terms],
        }
        found |= {"packs": [list(one) for one in places], "at": at, "columns": list(self.columns)}
        found |= {
            "rates": list(self.rates),
            "remedy": [list(one) for one in self.remedy],
            "missing": self.missing,
            "parts": _PARTS,
        }
        numbers = {"least": [row.least for row in given], "peak": [row.peak for row in given]}
        numbers["moved"] = [row.moved for row in given]
        found |= {key: packed([float(value) for value in values]) for key, values in numbers.items()}
        texts = {"part": [row.part for row in given], "how": [row.how for row in given]}
        texts["tiles"] = [row.tiles for row in given]
        return found | {key: indexed(values) for key, values in texts.items()}


def _integer_terms(shares: Sequence[tuple[int, float]]) -> tuple[int, ...]:
    """Rounds shares to integer parts that have the same sum."""
    exact = [(term, share * _PARTS) for term, share in shares]
    parts = [int(value) for _, value in exact]
    left = round(sum(value for _, value in exact)) - sum(parts)
    order = sorted(range(len(parts)), key=lambda i: parts[i] - exact[i][1])
    for i in order[: max(0, left)]:
        parts[i] += 1
    return tuple(one for (term, _), part in zip(exact, parts, strict=True) if part for one in (term, part))
