"""Reads files of public measurement sets: CSV, Parquet, workbooks, XLA's performance tables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from ... import _core
from ...base.errors import path_text
from ...base.extras import need
from ...base.files import check_regular, read_text, unreadable
from ...base.validation import MAX_BYTES, read_csv
from ...graph import user_error

__all__ = ["Line", "cells_of_file"]

MAX_ROWS = 1 << 20  # most rows of a workbook's sheet or a Parquet table
MAX_WORKBOOK = 256 << 20  # most bytes of a workbook's unpacked members

Line = tuple[int, dict[str, str]]  # line number in the file, and cells by column


def cells_of_file(path: str | os.PathLike[str]) -> tuple[list[str], list[Line]]:
    """Returns columns and rows of a file in any supported format."""
    name = path_text(path)
    suffix = Path(name).suffix.lower()
    if suffix in _BY_SUFFIX:
        check_regular(name)  # a CSV table may come through a pipe; other formats need a regular file
        try:
            return _BY_SUFFIX[suffix](name)
        except OSError as error:
            raise unreadable(name, error) from None
    named = _NAMELESS.match(Path(name).name)
    if named and (found := _without_header(name, named[1].lower(), named[2])):
        return found
    header, rows = read_csv(path)
    if header and header[0].split("{")[0].strip() == "entries":
        return _performance_table(name)
    return header, [(number, row) for number, row in enumerate(rows, 2)]


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _parquet(name: str) -> tuple[list[str], list[Line]]:
    parquet = need("pyarrow.parquet", "tables")
    lines: list[Line] = []
    with _read_as("a Parquet table", name), parquet.ParquetFile(name) as file:
        for batch in file.iter_batches():
            rows = batch.to_pylist()
            lines += [
                (i, {key: _text(cell) for key, cell in row.items()}) for i, row in enumerate(rows, len(lines) + 1)
            ]
            _few_rows(len(lines), name)
    return list(lines[0][1]) if lines else [], lines


@contextmanager
def _read_as(what: str, name: str) -> Iterator[None]:
    """Converts any error of another library to a `UserError` that names the file."""
    try:
        yield
    except (OSError, _core.Error):
        raise
    except Exception as error:
        raise user_error(f"the file is not {what}", place=name, value=str(error)[:300]) from None


def _few_rows(count: int, name: str) -> None:
    """Raises an error for too many rows, because a small compressed file can contain any number."""
    if count > MAX_ROWS:
        raise user_error("the table has too many rows", place=name, allowed=f"at most {MAX_ROWS}")


# Headings of workbook tables of products or convolutions.
_HEADINGS = {
    "m", "n", "k", "w", "h", "c", "r", "s", "transa", "transb", "ms", "pad", "stride", "filters", "pad_w", "pad_h",
    "stride_w", "stride_h", "forward", "usec",
}  # fmt: skip
_SPELLED = (
    (re.compile(r"(a|op ?a|trans(pose)? ?a|a ?\^?t(ranspose)?)$"), "transa"),
    (re.compile(r"(b|op ?b|trans(pose)? ?b|b ?\^?t(ranspose)?)$"), "transb"),
    (re.compile(r"(precision)$"), "dtype"),
    (re.compile(r"(fwd|forward).*(usec|us)"), "forward_us"),
    (re.compile(r"(fwd|forward)"), "forward"),
    (re.compile(r"(bwd|backward)"), ""),
    (re.compile(r"(time|latency)?.*\b(usec|us|microseconds)\b"), "usec"),
    (re.compile(r"(time|latency)?.*\b(msec|ms|milliseconds)\b"), "ms"),
)


def _heading(value: Any) -> str:
    plain = _text(value).strip().lower().replace("_", " ")
    if plain.replace(" ", "_") in _HEADINGS:
        return plain.replace(" ", "_")
    return next((word for pattern, word in _SPELLED if pattern.match(plain)), plain)


def _dtype_of_sheet(title: str) -> str:
    words = title.lower()
    return next((dtype for dtype in ("int8", "fp16", "fp32") if dtype in words or dtype[-2:] + " bit" in words), "")


def _workbook(name: str) -> tuple[list[str], list[Line]]:
    """Reads the tables of every sheet: headings and the numeric rows below; the sheet's title has the dtype."""
    openpyxl = need("openpyxl", "tables")
    with _read_as("a workbook", name):
        with ZipFile(name) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MAX_WORKBOOK:
            raise user_error("the workbook is too large", place=name, value=f"{size} B", allowed=f"{MAX_WORKBOOK} B")
        book = openpyxl.load_workbook(name, read_only=True, data_only=True)
        try:
            lines = _lines_of_sheets(book.worksheets, name)
        finally:
            book.close()
    names = [column for _, cells in lines for column in cells]
    return list(dict.fromkeys(names)), lines


def _lines_of_sheets(sheets: Iterable[Any], name: str) -> list[Line]:
    lines: list[Line] = []
    for sheet in sheets:
        headings: dict[int, str] = {}
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            _few_rows(number, name)
            words = {index: word for index, cell in enumerate(row) if cell is not None and (word := _heading(cell))}
            if {"m", "n", "k"} <= set(words.values()) or {"w", "h", "c", "n"} <= set(words.values()):
                headings = _first_of_each(words)
                continue
            cells = {word: _text(row[index]) for index, word in headings.items() if index < len(row)}
            if any(_is_number(cells.get(word)) for word in ("ms", "usec", "forward", "forward_us")):
                lines.append((number, {"device": Path(name).stem, "dtype": _dtype_of_sheet(sheet.title), **cells}))
    return lines


def _first_of_each(words: Mapping[int, str]) -> dict[int, str]:
    taken: dict[str, int] = {}
    for index, word in words.items():
        taken.setdefault(word, index)
    return {index: word for word, index in taken.items()}


def _is_number(text: str | None) -> bool:
    try:
        return float(text or "") > 0
    except ValueError:
        return False


_NAMELESS = re.compile(r"(matmul|softmax|layernorm|gelu)_(\w+)\.csv$", re.IGNORECASE)


def _without_header(name: str, operation: str, device: str) -> tuple[list[str], list[Line]] | None:
    """Reads LLMCompass's files: products as m, n, k, time and rate with units; others as extents and 1e9 elements/s."""
    count = {"matmul": 5, "gelu": 2}.get(operation, 3)
    text = read_text(name, MAX_BYTES)
    lines: list[Line] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip():
            continue
        if len(cells) != count or not cells[0].isdigit():
            return None
        columns = {"compass": operation, "device": device}
        lines.append((number, {**columns, **{f"column{index}": cell for index, cell in enumerate(cells)}}))
    return (list(lines[0][1]), lines) if lines else None


_TOKEN = re.compile(r'[{}]|"[^"]*"|[\w.]+')


def _performance_table(name: str) -> tuple[list[str], list[Line]]:
    """Reads XLA's form: entries { key: "sm_90" value { entries { b: 1 m: 256 n: 256 k: 256 flops { ... } } } }."""
    text = read_text(name, MAX_BYTES)
    lines: list[Line] = []
    device, key = "", ""
    shape: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = _TOKEN.findall(line.replace(":", " "))
        for at, word in enumerate(words):
            following = words[at + 1] if at + 1 < len(words) else ""
            if word == "key" and following.startswith('"'):
                key = following.strip('"')
                device = key if key.startswith("sm_") else device
            elif word == "entries":
                shape = {}
            elif word in ("b", "m", "n", "k"):
                shape[word] = following
            elif word == "value" and following not in ("", "{"):
                lines.append((number, {"xla": key.lower(), "device": device, "b": "1", **shape, "flops": following}))
    return list(lines[0][1]) if lines else ["entries"], lines


_BY_SUFFIX: dict[str, Callable[[str], tuple[list[str], list[Line]]]] = {
    ".parquet": _parquet,
    ".xlsx": _workbook,
    ".pbtxt": _performance_table,
    ".textproto": _performance_table,
}
