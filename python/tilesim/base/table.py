"""Tables that print as text and turn into pandas."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from .extras import need

__all__ = ["Table"]


class Table:
    """Rows of equal keys: prints as text, turns into pandas."""

    def __init__(self, rows: list[dict[str, Any]], empty: str = "(empty)") -> None:
        """Holds rows.

        Args:
            rows: dicts with the same keys.
            empty: what is printed where there are none: why.
        """
        self.rows, self._empty = rows, empty

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame.

        Returns:
            A DataFrame with one row per row.

        Raises:
            UserError: without pandas, naming what to install.
        """
        return need("pandas", "notebook").DataFrame(self.rows)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row by row."""
        return iter(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """One row, by its number."""
        return self.rows[number]

    def __str__(self) -> str:
        """Aligned columns; on a terminal they fit: names lose their middle, and what is left out is told."""
        if not self.rows:
            return self._empty
        from .columns import Column, layout
        from .screen import clean

        columns = []
        for number, key in enumerate(self.rows[0]):
            words = any(isinstance(row[key], str) and row[key] for row in self.rows)
            # as names: numbers go first, those on the right before others
            columns.append(Column(clean(str(key)), "name" if words else "word", 0 if words else number, least=12))
        lines = layout(columns, [[_text(row[column]) for column in self.rows[0]] for row in self.rows])
        return "\n".join("".join(part for part, _ in line).rstrip() for line in lines if not isinstance(line, str))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{escape(self._empty)}</p>"
        head = "".join(f"<th>{escape(str(key))}</th>" for key in self.rows[0])
        lines = ("".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) for row in self.rows)
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
