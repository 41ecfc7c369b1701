"""Shows time by operation and unit, and the table of all operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...base import figures
from ...base.folding import fold
from ...base.palette import BOUND, STATE
from ...base.view import Bar, Bars, Column, Notes, Rows, Section
from ..names import Names

__all__ = ["folded", "longest", "operation_rows", "operations_section", "time_section"]

_LONGEST = 14
_UNITS = 8  # more equal units than this are shown as their mean
_NAMED = 400_000  # most characters of fused operations' names in a page


def operation_rows(result: Any) -> list[dict[str, Any]]:
    """Collects rows of all kernels for table, roofline and plots, longest first."""
    rows = [
        {
            "operation": name,
            "place": place,
            "runs": row["count"],
            "cycles": row["exclusive"],
            "elapsed": row["cycles"],
            "bound": row["bound"],
            "busy": row["bound_share"],
            "bytes": row["load_bytes"] + row["store_bytes"],
            "load_bytes": row["load_bytes"],
            "store_bytes": row["store_bytes"],
            "multiply_adds": row["multiply_adds"],
            "flops": 2 * row["multiply_adds"] + row["vector_operations"],
            "start": row["start"],
            "names": ", ".join(row["operation"]),
        }
        for place, (name, row) in enumerate(zip(Names(result.data).unique, result.data["operations"], strict=True))
    ]
    return sorted(rows, key=lambda row: -row["cycles"])


def folded(result: Any) -> list[tuple[int, str, str]]:
    """Folds repeated layers with equal bound; returns (cycles, name, bound), longest first."""
    groups = fold(operation_rows(result), lambda row: str(row["operation"]), lambda row: str(row["bound"]))
    found = [
        (sum(row["cycles"] for row in rows), f"{name} ({len(rows)})" if len(rows) > 1 else rows[0]["operation"], bound)
        for (name, bound), rows in groups.items()
    ]
    return sorted(found, key=lambda group: -group[0])


def longest(result: Any, most: int = _LONGEST) -> Bars:
    """Draws the longest operations with repeated layers folded, in the colour of their bound."""
    total = max(1, result.cycles)
    groups = folded(result)
    bars = [
        Bar(name, {bound: cycles}, f"{figures.percent(cycles / total)}  {figures.count(cycles)}")
        for cycles, name, bound in groups[:most]
    ]
    rest = groups[most:]
    caption = f"Cycles attributed to each operation; they add up to {figures.count(result.cycles)}."
    if rest:
        share = figures.percent(sum(cycles for cycles, _, _ in rest) / total)
        caption = f"and {len(rest):,} more: {share}. {caption}"
    return Bars(bars, BOUND, "count", 0.0, caption)


def _units(result: Any) -> Bars:
    """Draws each unit's share of time per state; for many equal units, the mean."""
    total = max(1, result.cycles)
    groups: dict[str, list[dict[str, Any]]] = {}
    for unit in result.data["units"]:
        groups.setdefault(re.sub(r"\d+", "*", unit["unit"]), []).append(unit)
    bars = []
    for name, members in groups.items():
        if len(members) <= _UNITS:
            shown = [(unit["unit"], unit["cycles"]) for unit in members]
        else:
            mean = {state: sum(unit["cycles"][state] for unit in members) / len(members) for state in STATE}
            shown = [(f"{name} (mean of {len(members)})", mean)]
        bars += [Bar(one, cycles, f"{figures.percent(cycles['busy'] / total)} busy") for one, cycles in shown]
    return Bars(bars, STATE, "count", total, "Each unit is in one state at each instant.")


def time_section(result: Any, every: bool) -> Section:
    """Shows bars of operations and of units."""
    parts: list[Any] = [longest(result)] if result.data["operations"] else []
    if result.data["units"]:
        parts.append(_units(result))
    return Section("Where the time goes", parts or ([Notes(["No operation takes time."])] if every else []), "time")


def operations_section(result: Any, reasons: Sequence[Any] = (), compared: Any = None) -> Section:
    """Shows the table of all operations."""
    rows = operation_rows(result)
    total, second = max(1, result.cycles), result.data["hertz"]
    columns = [
        Column("operation", "operation", "text"),
        Column("runs", "runs"),
        Column("cycles", "cycles"),
        Column("share", "share", "percent", ("cycles", "", 1 / total)),
        Column("time", "time", "duration", ("cycles", "", 1 / second)),
        *(compared.columns() if compared else ()),
        Column("bound", "bound by", "text"),
        Column("busy", "busy", "percent", added=False),
        Column("bytes", "bytes", "size"),
        Column("intensity", "FLOP / byte", "rate:", ("flops", "bytes", 1.0)),
        Column("attained", "attained", "rate:FLOP/s", ("flops", "elapsed", float(second))),
        Column("flops", "FLOP", "rate:", shown=False),
        Column("elapsed", "cycles from start to end of its runs", "count", shown=False),
        Column("load_bytes", "loaded", "size", shown=False),
        Column("store_bytes", "stored", "size", shown=False),
        Column("multiply_adds", "multiply-adds", "count", shown=False),
        Column("start", "starts at cycle", "count", added=False, shown=False),
    ]
    notes = "Click a row (or use the arrow keys) for an explanation, a header to sort."
    if sum(len(row["names"]) for row in rows) <= _NAMED:
        columns.append(Column("names", "operations of the graph", "text", shown=False))
    else:
        notes += " The graph operations of each kernel are left out for length; the result has them."
    if compared:
        rows = compared.joined(rows)
        notes += f" {compared.note}"
    table = Rows(
        "operations", columns, rows, "operation", "bound", BOUND, what="operations", hint=notes, least=1, order="cycles"
    )
    return Section("Operations", [table, *reasons], "operations")
