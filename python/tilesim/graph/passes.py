"""Selects pattern recognition passes, and lists their replacements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .. import _core
from ..base.errors import unknown

#: names of the passes in the order in which they run
NAMES: tuple[str, ...] = tuple(_core.recognition_passes())
#: passes for machines whose arrays multiply i8: `compile` runs them there; elsewhere they run only by name
BY_MACHINE = ("integer_products",)


class Changes(Sequence[dict[str, str]]):
    """Replacements in order: pass, function, operation, before, after, source (place in the user's model) of each."""

    def __init__(self, rows: Iterable[dict[str, str]] = ()) -> None:
        """Stores the rows."""
        self.rows = list(rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(self.rows)

    def counts(self) -> dict[str, int]:
        """Replacements by pass.

        Returns:
            Number of replacements of each pass that made any.
        """
        return dict(Counter(row["pass"] for row in self.rows))

    def __str__(self) -> str:
        """Formats the replacements as a diff, one paragraph each."""
        lines = []
        for row in self.rows:
            place = f"  ({row['source']})" if row["source"] else ""
            lines += [f"@ {row['function']}: {row['operation']} [{row['pass']}]{place}"]
            lines += [f"- {row['before']}", f"+ {row['after']}"]
        return "\n".join(lines) or "no changes"

    def __repr__(self) -> str:
        return f"<Changes: {', '.join(f'{count} {name}' for name, count in self.counts().items()) or 'none'}>"


def chosen(passes: str | Sequence[str] | None, without: Sequence[str] = ()) -> list[str]:
    """Selects passes, in the order in which they run."""
    if passes is None or passes == "all":
        wanted = [name for name in NAMES if name not in BY_MACHINE]
    elif passes == "none":
        wanted = []
    else:
        wanted = [passes] if isinstance(passes, str) else list(passes)
    for name in [*wanted, *without]:
        if name not in NAMES:
            raise unknown("pass", name, NAMES)
    return [name for name in NAMES if name in wanted and name not in without]
