"""Reads measured tables and writes validation files in one layout."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from .errors import Unsupported, UserError, nearest, path_text, shown, user_error
from .files import check_length, check_no_device, unreadable

MAX_BYTES = 1 << 30  # most bytes of a table as text
MAX_LINE = 1 << 24


@dataclass
class MeasuredCase:
    """One measured row: cells, parsed numbers, prediction status."""

    row: dict[str, Any]
    status: str = "ok"
    reason: str = ""
    measured_ms: float = 0.0


def read_csv(path: str | os.PathLike[str]) -> tuple[list[str], list[dict[Any, Any]]]:
    """Reads header and rows of a CSV file; accepts a byte order mark and CRLF."""
    name = path_text(path)
    check_no_device(name)
    check_length(name, MAX_BYTES)
    try:
        with open(name, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(_lines(file, name))
            rows = list(reader)
            return [name for name in reader.fieldnames or [] if name], rows
    except OSError as error:
        raise unreadable(name, error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise user_error("the file is not a CSV table", place=name, value=str(error)) from None


def _lines(file: IO[str], name: str) -> Iterator[str]:
    """Yields at most MAX_BYTES of lines, because a pipe may never end."""
    length = 0
    while line := file.readline(MAX_LINE):
        length += len(line)
        if len(line) == MAX_LINE or length > MAX_BYTES:
            allowed = f"{MAX_BYTES} bytes, {MAX_LINE} letters in a line"
            raise user_error("the file is too long", place=name, value=f"over {length - 1} letters", allowed=allowed)
        yield line


def positive(row: dict[str, Any], column: str) -> float:
    """Reads the positive number of a cell."""
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = -1.0
    if not 0 < value < 1e15:
        raise user_error(f"{column} is not a positive number", value=shown(row[column]))
    return value


def integer(row: dict[str, Any], column: str, most: int = 10**15) -> int:
    """Parses an integer cell, such as 8 or 8.0."""
    value = positive(row, column)
    if value != int(value) or value > most:
        raise user_error(f"{column} is not a whole number in range", value=shown(row[column]), allowed=f"1 to {most}")
    return int(value)


@contextmanager
def graded(row: MutableMapping[str, Any]) -> Iterator[None]:
    """Turns errors into the status and the reason of a row."""
    try:
        yield
    except Unsupported as error:
        row.update(status="unsupported", reason=str(error))
    except UserError as error:
        row.update(status="invalid", reason=str(error))


def read_cases(cases: str | os.PathLike[str], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Reads the rows of a CSV file."""
    header, table = read_csv(cases)
    missing = [column for column in wanted if column not in header]
    if missing:
        raise user_error(
            f"missing column {missing[0]}",
            place=path_text(cases),
            value=", ".join(header) or "an empty file",
            allowed=", ".join(wanted),
            suggestion=nearest(missing[0], header),
        )
    if not table:
        raise user_error("the table has no rows", place=path_text(cases), value="only a header")
    for number, row in enumerate(table, 2):
        cells = sum(cell is not None for key, cell in row.items() if key is not None) + len(row.get(None) or [])
        if cells != len(row) - (None in row):
            place = f"{path_text(cases)}:{number}"
            raise user_error(
                "a row has a wrong number of cells", place=place, value=str(cells), allowed=f"{len(header)}"
            )
    return table


def statistics(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Computes mean, median and largest absolute error; rows that are not ok count as error 1."""
    errors = sorted(abs(row["error"]) if row["status"] == "ok" else 1.0 for row in rows)
    n = len(errors)
    middle = (errors[(n - 1) // 2] + errors[n // 2]) / 2 if n else 0.0
    return {
        "mean_abs_error": sum(errors) / n if n else 0.0,
        "median_abs_error": middle,
        "max_abs_error": errors[-1] if n else 0.0,
        "n": n,
        "n_unsupported": sum(row["status"] != "ok" for row in rows),
    }


def envelope(
    table: str, settings: dict[str, Any], rows: list[dict[str, Any]], key: Callable[[dict[str, Any]], str]
) -> dict[str, Any]:
    """Builds the validation file."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return {
        "schema": "tilesim.validation",
        "version": 1,
        "table": table,
        "settings": settings,
        "rows": rows,
        "groups": {name: statistics(members) for name, members in groups.items()},
        **statistics(rows),
    }
