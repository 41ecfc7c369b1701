"""Tables that print as text and convert to pandas."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from html import escape
from typing import Any

from . import figures
from .extras import need

TYPE_CHECKING = False  # importing typing is slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from .screen import Lines

__all__ = ["Table", "Tabled", "keyed"]


class Tabled:
    """A result that has a table."""

    def table(self) -> Table:
        """The rows.

        Returns:
            A table.
        """
        raise NotImplementedError

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the table as a self-contained HTML page whose rows sort and filter.

        Args:
            path: file to write.

        Raises:
            UserError: when the file cannot be written.
        """
        from .files import writing
        from .view import Section, document, rows_of

        rows = self.table().rows
        title = "" if isinstance(self, Table) else repr(self).partition("\n")[0].strip("<>")
        with writing(path) as file:
            file.write(document(title or "Table", [Section("", [rows_of("rows", rows, {}, "rows")])]))


class Table(Tabled):
    """Rows with equal keys, as text, pandas DataFrame or HTML page."""

    def __init__(
        self,
        rows: list[dict[str, Any]],
        printed: Callable[[list[dict[str, Any]]], Lines] | None = None,
        empty: str = "(empty)",
    ) -> None:
        """Holds rows."""
        self.rows, self._printed, self._empty = rows, printed, empty

    def table(self) -> Table:
        """The table itself.

        Returns:
            This table.
        """
        return self

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame.

        Returns:
            A DataFrame with one row per row.

        Raises:
            UserError: when pandas is not installed.
        """
        return need("pandas", "notebook").DataFrame(self.rows)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterates over the rows."""
        return iter(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Returns a row by index."""
        return self.rows[number]

    def __str__(self) -> str:
        """Aligned columns that fit the terminal; a line names omitted columns."""
        if not self.rows:
            return self._empty
        from .screen import without_styles

        return without_styles(self._printed(self.rows) if self._printed is not None else keyed(self.rows))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{escape(self._empty)}</p>"
        head = "".join(f"<th>{escape(str(key))}</th>" for key in self.rows[0])
        lines = ("".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) for row in self.rows)
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def keyed(
    rows: list[dict[str, Any]], forms: dict[str, Callable[[Any], str]] | None = None, room: int | None = None
) -> Lines:
    """Formats rows as aligned columns with their keys as headers."""
    from .columns import TextColumn, layout
    from .screen import clean

    columns = []
    for number, key in enumerate(rows[0]):
        words = any(isinstance(row[key], str) and row[key] for row in rows)
        # columns of numbers are left out first, from the right
        columns.append(TextColumn(clean(str(key)), "name" if words else "word", 0 if words else number, min_width=12))
    write = {key: (forms or {}).get(key, _text) for key in rows[0]}
    return layout(columns, [[write[key](row[key]) for key in rows[0]] for row in rows], room)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        large = math.isfinite(value) and 1e4 <= abs(value) < 1e15
        return figures.count(value) if large else f"{value:.4g}"
    if isinstance(value, int) and abs(value) >= 10_000:  # smaller numbers may be years
        return f"{value:,}"
    return str(value)
