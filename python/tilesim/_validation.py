"""The validation file: one envelope for every table of measured figures."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from typing import Any

from ._errors import user_error


def read_cases(cases: str | os.PathLike[str], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a CSV file.

    Args:
        cases: its path.
        wanted: columns that it must have.

    Returns:
        One dict of texts per row, in order.

    Raises:
        UserError: for a file that cannot be read, is empty, or lacks a column.
    """
    try:
        with open(cases, encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise user_error("the file cannot be read", place=os.fspath(cases), value=str(error)) from None
    missing = [column for column in wanted if not table or column not in table[0]]
    if missing:
        raise user_error(
            "the table lacks a column",
            place=os.fspath(cases),
            value=", ".join(map(str, table[0] if table else [])),
            allowed=", ".join(wanted),
        )
    return table


def statistics(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean, median and largest absolute error; rows that are not ok count as error 1.

    Args:
        rows: with "status" and "error".

    Returns:
        The statistics of the envelope.
    """
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
    """The validation file.

    Args:
        table: its name.
        settings: what was run.
        rows: one per input row.
        key: the group of a row.

    Returns:
        The file's content.
    """
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
