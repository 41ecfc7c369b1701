"""Reads, checks and groups measured tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import path_text
from ...graph import nearest, user_error
from ...machine.device import Device
from .formats import Line, cells_of_file
from .readers import REFUSED, Converter, recognise

__all__ = ["MeasuredRow", "group_key", "kinds_of", "read"]

# Kind of table -> required and optional columns.
COLUMNS: dict[str, tuple[list[str], list[str]]] = {
    "gemm": (["device", "dtype", "m", "n", "k", "latency_ms"], ["source", "engine", "batch", "ta", "tb"]),
    "attention": (
        [
            *("device", "phase", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "attn_dtype"),
            *("kv_cache_dtype", "step", "window_size", "latency_ms"),
        ],
        ["source", "engine"],
    ),
    "conv": (
        [
            *("device", "dtype", "batch", "in_channels", "out_channels", "size", "kernel", "stride", "padding"),
            "latency_ms",
        ],
        ["source", "engine"],
    ),
    "vector": (["device", "dtype", "op", "rows", "width", "latency_ms"], ["source", "engine"]),
}
_TEXT = {"device", "dtype", "source", "engine", "op", "phase", "attn_dtype", "kv_cache_dtype"}
_MAY_BE_ZERO = {"padding", "step", "window_size", "ta", "tb"}
_MAY_BE_EMPTY = {"ta", "tb", "source", "engine"}


@dataclass
class MeasuredRow:
    """One row of a measured table: cells, parsed numbers, status and reason."""

    line: int
    cells: dict[str, Any]
    numbers: dict[str, float]
    status: str = "ok"
    reason: str = ""

    def text(self, key: str) -> str:
        """Returns the text of a cell; "" if it is absent."""
        return str(self.cells.get(key) or "").strip()

    @property
    def seconds(self) -> float:
        """The measured time in seconds."""
        return self.numbers["latency_ms"] * 1e-3


def check_header(path: str, header: Sequence[str]) -> None:
    """Raises `UserError` for a file without columns or with another separator."""
    if not header:
        raise user_error("the file is empty", place=path)
    if len(header) == 1 and (mark := next((one for one in ";\t|" if one in header[0]), "")):
        raise user_error("the columns are not separated by commas", place=path, value=repr(mark))


def _missing(table: str, path: str, header: Sequence[str]) -> None:
    check_header(path, header)
    needed = COLUMNS[table][0]
    missing = [column for column in needed if column not in header]
    if not missing:
        return
    unit = next((name for name in header if name.startswith("latency") and "latency_ms" in missing), "")
    times = "Give times in milliseconds in a column latency_ms" if "latency_ms" in missing else ""
    device = "Name the device in a column, or with --device" if "device" in missing else ""
    raise user_error(
        f"the column {unit} has another unit" if unit else f"the table lacks columns: {', '.join(missing)}",
        place=path,
        value=", ".join(header),
        allowed=", ".join(needed),
        suggestion=times if unit else ". ".join(filter(None, (device, times))) or nearest(missing[0], header),
    )


def _number(column: str, text: Any) -> float:
    value = float(str(text).strip())
    zero = column in _MAY_BE_ZERO
    if not (value > 0 or (zero and value == 0)) or value == float("inf"):
        raise ValueError(f"{column} must be {'zero or ' if zero else ''}positive, got {text!r}")
    if column != "latency_ms" and value != int(value):
        raise ValueError(f"{column} must be a whole number, got {text!r}")
    return value


def read(table: str, path: str | os.PathLike[str], device: str | None = "auto") -> list[MeasuredRow]:
    """Reads a measured table."""
    name = path_text(path)
    if table not in COLUMNS:
        known = ", ".join(COLUMNS)
        raise user_error("unknown kind of table", value=f"'{table}'", allowed=known, suggestion=nearest(table, COLUMNS))
    header, lines = cells_of_file(path)
    if header and not lines:
        raise user_error("the table has no rows", place=name, value=f"only the line {', '.join(header)}")
    if (convert := recognise(header)) is not None:
        found = _renamed(convert, lines, name)
        if table not in found:
            raise user_error(
                "the file has no rows of this kind", place=name, value=table, allowed=", ".join(found) or "none"
            )
        lines = found[table]
        header = list(dict.fromkeys(column for _, cells in lines for column in cells))
    if device not in (None, "auto") and "device" not in header and header:
        header = [*header, "device"]
        lines = [(number, {**cells, "device": str(device)}) for number, cells in lines]
    _missing(table, name, header)
    rows = [_measured(table, number, cells, header) for number, cells in lines]
    _one_device(rows, name, device)
    return rows


def _measured(table: str, number: int, cells: dict[Any, Any], header: Sequence[str]) -> MeasuredRow:
    more = cells.pop(None, None)
    refused = cells.pop(REFUSED, "")
    row = MeasuredRow(number, dict(cells), {})
    for column in [*COLUMNS[table][0], *COLUMNS[table][1]]:
        if column in _TEXT or column not in header:
            continue
        text = cells.get(column)
        if column in _MAY_BE_EMPTY and not (text or "").strip():
            continue
        try:
            row.numbers[column] = _number(column, text)
        except ValueError as error:
            said = f"{column}: not a number (got {text!r})" if "could not convert" in str(error) else error
            row.status, row.reason = "invalid", f"line {number}: {said}"
    if more or None in cells.values():
        missing = ", ".join(str(column) for column, cell in cells.items() if cell is None)
        said = f"too few cells, missing: {missing}" if missing else "more cells than columns"
        row.status, row.reason = "invalid", f"line {number}: {said}"
    if refused:
        row.status, row.reason = "unsupported", refused
    return row


def _renamed(convert: Converter, lines: Sequence[Line], path: str) -> dict[str, list[Line]]:
    """Groups the rows of a public format by kind of table."""
    found: dict[str, list[Line]] = {}
    for number, cells in lines:
        try:
            for table, row in convert(cells, path):
                found.setdefault(table, []).append((number, row))
        except KeyError as error:
            what = f"the column {error} has no value"
            raise user_error("invalid row of a public format", place=f"{path}:{number}", value=what) from None
        except (ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
            raise user_error("invalid row of a public format", place=f"{path}:{number}", value=str(error)) from None
    return found


def kinds_of(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Lists the kinds of tables in a file of a public format."""
    header, lines = cells_of_file(path)
    convert = recognise(header)
    found = _renamed(convert, lines, path_text(path)) if convert else {}
    return [table for table in COLUMNS if table in found], header


def _one_device(rows: Sequence[MeasuredRow], path: str, device: str | None) -> None:
    if device in (None, "auto"):
        return
    wanted = Device.load(str(device)).name
    for row in rows:
        if Device.named(row.text("device")).name != wanted:
            raise user_error(
                "a row of another device",
                place=f"{path}:{row.line}",
                value=f"'{row.text('device')}'",
                allowed=wanted,
                suggestion="Give --device auto to take devices from the column",
            )


def group_key(cells: Mapping[str, Any]) -> str:
    """Builds the key source|engine|device|scheme from the columns that exist."""
    names = ("source", "engine", "device", "dtype", "attn_dtype", "kv_cache_dtype")
    return "|".join(str(cells.get(name) or "").strip() for name in names if name in cells)


def cells_of(table: str, row: MeasuredRow) -> list[Any]:
    """Returns the cells that identify a measurement, in a fixed order."""
    return [table, *(row.cells.get(name) for part in COLUMNS[table] for name in part)]
