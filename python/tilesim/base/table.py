"""Tables that print as text and turn into pandas."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from .extras import need

__all__ = ["Table"]


class Table:
    """Rows of equal keys: prints as text, turns into pandas."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        """Holds rows.

        Args:
            rows: dicts with the same keys.
        """
        self.rows = rows

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
        """Aligned columns."""
        if not self.rows:
            return "(empty)"
        keys = list(self.rows[0])
        cells = [[_text(row[key]) for key in keys] for row in self.rows]
        widths = [max(len(key), *(len(line[i]) for line in cells)) for i, key in enumerate(keys)]
        lines = ["  ".join(key.ljust(width) for key, width in zip(keys, widths, strict=True))]
        lines += ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.rows:
            return "<p>(empty)</p>"
        head = "".join(f"<th>{escape(str(key))}</th>" for key in self.rows[0])
        lines = ("".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) for row in self.rows)
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
