"""Splits the cycles of a timed run by function, line, instruction and unit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache, partial
from heapq import heappop, heappush
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from .. import _core
from ..base.columns import layout, number
from ..base.columns import name as named
from ..base.files import writing
from ..base.screen import Lines
from ..base.table import Table
from .elf import Elf

__all__ = ["Log", "functions_of", "roofline_of", "table_lines", "table_of", "trace_of", "write_pipeline"]

INTERVALS = 1_000_000
"""Intervals of a trace; further ones are omitted and counted."""

MOST_LOGGED = 1_000_000
"""Instructions that a run keeps: 64 bytes each in memory, some 200 in a file."""

_TIMES = ("issue", "dispatch", "start", "end", "result")
_AT_ONCE = 4096  # number of rows that are read together
_ROW = np.dtype(
    [("address", "<u8"), ("bits", "<u4"), ("unit", "<u2"), ("waited_for", "<u2")]
    + [(key, "<f8") for key in (*_TIMES, "waited")]
)
_KONATA = (".kanata", ".konata")


def functions_of(program: Any, elf: Elf) -> list[dict[str, Any]]:
    """Profiles a timed run by function."""
    found: dict[str, dict[str, list[int]]] = {}
    for address, instructions, cycles in program.profile:
        sums = found.setdefault(elf.function(address), {}).setdefault(elf.line(address), [0, 0])
        sums[0] += instructions
        sums[1] += cycles
    rows = []
    for function, lines in found.items():
        whole = {"instructions": sum(n for n, _ in lines.values()), "cycles": sum(c for _, c in lines.values())}
        by_line = (
            [{"line": line, "instructions": n, "cycles": c} for line, (n, c) in lines.items()] if any(lines) else []
        )
        rows.append({"function": function, **whole, "lines": sorted(by_line, key=_busiest_first)})
    return sorted(rows, key=_busiest_first)


def _busiest_first(row: dict[str, Any]) -> tuple[int, int, str]:
    return -row["cycles"], -row["instructions"], row.get("line", row.get("function", ""))


def table_of(rows: list[dict[str, Any]], cycles: int) -> Table:
    """Formats a profile as a table."""
    kept = [key for key in ("function", "line", "instructions", "cycles") if rows and key in rows[0]]
    shares = [{**{key: row[key] for key in kept}, "share": row["cycles"] / max(cycles, 1)} for row in rows]
    return Table(shares, _printed, "(no rows: the run was not timed, or the program has no line numbers)")


def marks_of(program: Any) -> list[dict[str, Any]]:
    """Reads the marked regions of a program with their counts; `path` includes the enclosing regions."""
    rows: list[dict[str, Any]] = []
    for row in program.marks:
        within = row.pop("within")
        path = f"{row['region']}" if within < 0 else f"{rows[within]['path']}/{row['region']}"
        rows.append({"region": row.pop("region"), "path": path, **row})
    return rows


def marks_table(rows: list[dict[str, Any]]) -> Table:
    """Formats regions as a table."""
    return Table(rows, _printed_marks, "(the program marked no regions)")


def marks_lines(rows: list[dict[str, Any]], most: int) -> Lines:
    """Formats the first regions, and the number of further ones."""
    if not rows:
        return []
    rest = len(rows) - most
    return [*_printed_marks(rows[:most]), *([[(f"and {rest:,} more regions", "")]] if rest > 0 else [])]


def _printed_marks(rows: list[dict[str, Any]]) -> Lines:
    names = ("times", "cycles", "instructions", "vector_instructions", "operations", "bytes_loaded", "bytes_stored")
    keys = [key for key in (*names, "bytes_moved") if any(row[key] for row in rows)]
    columns = [named("region"), *(number(key.replace("_", " ")) for key in keys)]
    cells = [[row["path"] + (" (open)" if row["open"] else ""), *(f"{row[key]:,}" for key in keys)] for row in rows]
    return layout(columns, cells)


def _printed(rows: list[dict[str, Any]]) -> Lines:
    keys = [key for key in ("function", "line") if key in rows[0]]
    columns = [named(key) for key in keys] + [number("cycles"), number("share, %", 2)]
    columns += [number("instructions", 1), number("cycles per instruction", 3)]
    cells = [
        [
            *(row[key] or "–" for key in keys),
            f"{row['cycles']:,}",
            f"{100 * row['share']:.1f}",
            f"{row['instructions']:,}",
            f"{row['cycles'] / max(row['instructions'], 1):.2f}",
        ]
        for row in rows
    ]
    return layout(columns, cells)


def table_lines(table: Table, most: int) -> Lines:
    """Formats the first rows of a profile, and the share of the rest."""
    rows = list(table)
    lines = _printed(rows[:most])
    rest = rows[most:]
    if rest:
        share = sum(row["share"] for row in rest)
        lines = [*lines, [(f"and {len(rest):,} more with {100 * share:.1f} % of the cycles", "")]]
    return lines


def roofline_of(program: Any) -> dict[str, Any]:
    """Compares a run with the roofline of the core."""
    work, cycles = program.work, max(program.cycles, 1)
    operations, bytes_ = sum(work["operations"]), work["bytes_loaded"] + work["bytes_stored"]
    peaks = work["peak_operations"]
    # the time that each width takes at its own peak, added up
    least = sum(count / peak for count, peak in zip(work["operations"], peaks, strict=True) if count)
    peak = operations / least if least else peaks[2]
    intensity = operations / bytes_ if bytes_ else None
    slope = None if intensity is None else intensity * work["peak_bytes"]
    roof = peak if slope is None else min(peak, slope)
    return {
        "operations": operations,
        "bytes_loaded": work["bytes_loaded"],
        "bytes_stored": work["bytes_stored"],
        "operations_per_byte": intensity,
        "operations_per_cycle": operations / cycles,
        "bytes_per_cycle": bytes_ / cycles,
        "peak_operations_per_cycle": peak,
        "peak_bytes_per_cycle": work["peak_bytes"],
        "roof_operations_per_cycle": roof,
        "bound": "arithmetic" if roof == peak else "memory",
    }


class Log:
    """The first instructions of a run, 64 bytes each, converted to rows on access."""

    def __init__(self, program: Any, elf: Elf, held: Any = None) -> None:
        """The first instructions of a run, 64 bytes each; converts them to rows on access."""
        told = program.log
        self._rows, self._words = np.frombuffer(told["rows"], _ROW), told["words"]
        self.left_out = int(told["left_out"])
        self._text, self._place = cache(partial(_core.isa_disassemble, set=held)), cache(elf.symbol)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows one by one."""
        for begin in range(0, len(self._rows), _AT_ONCE):
            for address, bits, unit, waited_for, *times, waited in self._rows[begin : begin + _AT_ONCE].tolist():
                yield {
                    "address": address,
                    "unit": self._words[unit],
                    **dict(zip(_TIMES, times, strict=True)),
                    "waited_for": self._words[waited_for],
                    "waited": waited,
                    "instruction": self._text(bits, address),
                    "symbol": self._place(address),
                }


def trace_of(program: Any, elf: Elf, starts: list[int]) -> dict[str, Any]:
    """The busy intervals of a run in the form that `write_trace` takes."""
    told = program.intervals
    units = ["function", *program.units]
    labels: dict[str, int] = {}
    number_of = {unit: index for index, unit in enumerate(units)}
    intervals = []
    for index, start, end in told["visits"]:
        label = elf.function(starts[index - 1]) if index else "?"
        intervals.append((0, labels.setdefault(label, len(labels)), start, end))
    for unit, label, start, end in told["intervals"]:
        intervals.append((number_of[unit], labels.setdefault(label, len(labels)), start, end))
    return {
        "hertz": 1e9,
        "units": [{"unit": unit} for unit in units],
        "labels": list(labels),
        "intervals": intervals,
        "left_out": told["left_out"],
    }


def write_pipeline(log: Log, head: str, path: str | os.PathLike[str]) -> None:
    """Writes the instructions of a run one by one."""
    konata = os.path.splitext(os.fspath(path))[1].lower() in _KONATA
    with writing(path) as file:
        for line in _konata(log) if konata else _text(log, head):
            file.write(line + "\n")


def _text(log: Log, head: str) -> Iterator[str]:
    yield f"# {head}; times in cycles"
    yield "# issue: leaves the front end; dispatch: leaves its queue; start, end: of its unit; result: is available"
    titles = f"{'issue':>9}  {'dispatch':>9}  {'start':>9}  {'end':>9}  {'result':>9}  {'unit':<12}  {'waited for':<16}"
    yield f"{'number':>8}  {titles}  {'address':>10}  {'instruction':<32}  symbol"
    for index, row in enumerate(log, 1):
        waited = f"{row['waited_for']} {_cycles(row['waited'])}" if row["waited_for"] else ""
        times = "  ".join(f"{_cycles(row[key]):>9}" for key in ("issue", "dispatch", "start", "end", "result"))
        line = f"{index:>8}  {times}  {row['unit']:<12}  {waited:<16}  {row['address']:>10x}  {row['instruction']:<32}"
        yield f"{line}  {row['symbol']}".rstrip()
    if log.left_out:
        yield f"# {log.left_out:,} more instructions are omitted"


def _cycles(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _stages(row: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Yields the first full cycle of each stage, and the end as stage ""; omits stages without time."""
    parts = [(row["issue"], "Is")]
    if row["unit"] != "front":
        parts += [(row["dispatch"], "Qu"), (row["start"], "Ex"), (row["end"], "Wb")]
        last = max(row["end"], row["result"])
    else:
        last = row["result"]
    begins = [(int(start), stage) for start, stage in parts] + [(max(int(last), int(row["issue"]) + 1), "")]
    for (start, stage), (after, _) in pairwise(begins):
        if after > start:
            yield start, stage
    yield begins[-1]


def _konata(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Writes Kanata 0004: commands in order of cycles (documented with the viewer, github.com/shioyadan/Konata)."""
    yield "Kanata\t0004"
    now = None
    for at, group in groupby(_events(rows), itemgetter(0)):
        yield f"C=\t{at}" if now is None else f"C\t{at - now}"
        now = at
        for event in group:
            yield event[3]


def _events(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[int, int, int, str]]:
    """Yields cycle, row, number within it, lines, by cycle. Rows issue in order, so that few wait for their turn."""
    events: list[tuple[int, int, int, str]] = []
    for index, row in enumerate(rows):
        while events and events[0][0] < int(row["issue"]):
            yield heappop(events)
        stages = list(_stages(row))
        before = ""
        for order, (at, stage) in enumerate(stages):
            lines = []
            if order == 0:
                lines += [f"I\t{index}\t{index}\t0", f"L\t{index}\t0\t{row['address']:x}: {row['instruction']}"]
                waited = f", waited {_cycles(row['waited'])} for {row['waited_for']}" if row["waited_for"] else ""
                lines.append(f"L\t{index}\t1\t{row['unit']}{waited}; {row['symbol']}")
            if before:
                lines.append(f"E\t{index}\t0\t{before}")
            lines.append(f"S\t{index}\t0\t{stage}" if stage else f"R\t{index}\t{index}\t0")
            heappush(events, (at, index, order, "\n".join(lines)))
            before = stage
    while events:
        yield heappop(events)
