"""Compares DRAM runs with those of a reference simulator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .. import memory
from ..base.errors import path_text, unknown, user_error
from ..base.files import read_json
from ..base.progress import followed
from ..base.validation import envelope, graded, positive, read_cases
from ..machine.dram_reference import is_reference_form, part_from_reference

_COLUMNS = ("part", "pattern", "inject_every_cycles", "requests", "cycles")
# column of the table -> key of the statistic
_FIGURES = {
    "cycles": "cycles",
    "avg_read_latency_cycles": "mean_latency",
    "max_read_latency_cycles": "max_latency",
    "row_hits": "hits",
    "row_misses": "misses",
    "row_conflicts": "conflicts",
}


def _parts_beside(cases: str | os.PathLike[str], parts: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Reads parts in reference form from `parts`, or from dram_parts.json beside the table."""
    path = Path(parts) if parts is not None else Path(cases).parent / "dram_parts.json"
    if parts is None and not path.is_file():
        return {}
    data = read_json(path)
    if not isinstance(data, dict):
        raise user_error("the file of parts is not a JSON object", place=path_text(path), value=type(data).__name__)
    return {name: entry for name, entry in data.items() if isinstance(entry, dict) and is_reference_form(entry)}


def _number(row: dict[str, Any], column: str) -> float:
    """Parses a number that may be zero, such as the read latency of a row without reads."""
    text = str(row[column]).strip()
    return 0.0 if text and not text.strip("0.") else positive(row, column)


def _load(name: str, others: dict[str, Any]) -> memory.Part:
    """Loads a part by name from the table's parts file, or else a shipped part."""
    if name in others:
        return memory.Part.load(part_from_reference(others[name], name))
    known = memory.Part.names()
    if name not in known:  # a cell must be a name, not a path
        raise unknown("part", name, known)
    return memory.Part.load(name)


def dram(cases: str | os.PathLike[str], parts: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Simulates every row of a table of DRAM runs: one channel, wrapping addresses, span 2^28 bytes."""
    table = read_cases(cases, _COLUMNS)
    others = _parts_beside(cases, parts)
    loaded: dict[str, memory.Part] = {}
    rows = []
    for given in followed(table):
        row: dict[str, Any] = {**given, "status": "ok", "reason": "", "error": None, "fitted": False}
        figures = {column: figure for column, figure in _FIGURES.items() if column in given}
        for figure in figures.values():
            row[f"measured_{figure}"] = row[f"predicted_{figure}"] = None
        with graded(row):
            row["measured_cycles"] = positive(given, "cycles")
            for column, figure in figures.items():
                if (given[column] or "").strip():
                    row[f"measured_{figure}"] = _number(given, column)
            name = given["part"]
            if name not in loaded:
                loaded[name] = _load(name, others)
            result = memory.run(
                loaded[name],
                given["pattern"],
                requests=round(_number(given, "requests")),
                inject_every=round(_number(given, "inject_every_cycles")),
                wrap=True,
            )
            for figure in figures.values():
                row[f"predicted_{figure}"] = getattr(result, figure)
            row["error"] = result.cycles / row["measured_cycles"] - 1
        rows.append(row)
    settings: dict[str, Any] = {
        "channels": 1,
        "span_bytes": 1 << 28,
        "parts": {name: part.core.hash() for name, part in loaded.items()},
        "from_table": sorted(name for name in loaded if name in others),
    }
    return envelope("dram", settings, rows, lambda row: str(row["part"]))
