"""Builds self-contained HTML pages of closed-form results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import figures
from ..base.palette import BOUND, OTHER_COLOUR, RED, SERIES
from ..base.view import Bar, Bars, Boxes, Notes, Points, Section, document, rows_of
from ..results.page.roof import lines, merged
from ..results.result import Table

__all__ = [
    "crossover_map_page",
    "crossover_page",
    "html_report",
    "roofline_page",
    "suite_page",
    "terms_page",
    "validation_page",
]

_NOT_TERMS = {"operation", "kind", "scheme", "model", "ms", "bound", "occupancy"}
_EVEN = 1.02  # ratio of times up to which they count as even


def _colours(names: Sequence[str]) -> dict[str, str]:
    return {name: SERIES[i % len(SERIES)] for i, name in enumerate(dict.fromkeys(names))}


def _table(title: str, rows: Sequence[dict[str, Any]], what: str) -> Section:
    anchor = title.lower().replace(" ", "-")
    return Section(title, [rows_of(anchor, rows, {}, what)], anchor)


def roof_of(bound: Any, estimate: Any = None) -> Section:
    """Draws the roofline with operations at their predicted rates; without an estimate, at the rates of the bound."""
    device = bound.device
    seconds = {cost.name: cost.seconds for cost in estimate.costs} if estimate else {}
    points = []
    for row in bound.table().rows:
        taken = seconds.get(row["operation"])
        rate = row["flops"] / taken if taken else row["ceiling_tflops"] * 1e12
        told = f"{row['operation']} (at least {figures.duration(row['least_ms'] / 1e3)}"
        told += f", {figures.duration(taken)} predicted)" if taken else ")"
        if row["intensity"] > 0 and rate > 0:
            points.append({"x": row["intensity"], "y": rate, "name": told, "sort": row["bound"]})
    known = {name: rate for name, rate in device.matrix.items() if rate.how != "absent"}
    rates = merged(
        {
            name if rate.how == "native" else f"{name} ({rate.how})": rate.flops_per_second
            for name, rate in known.items()
        }
    )
    spread = [point["x"] for point in points] or [1.0]
    roof = lines(rates, device.memory.bytes_per_second, min(spread), max(spread))
    top = max(rates.values())
    for level in device.levels[:-1]:
        low = min(spread)
        roof.append((level.name, [low, top / level.bytes_per_second], [low * level.bytes_per_second, top]))
    titles, forms = ("FLOP / byte", "attained"), ("rate:", "rate:FLOP/s")
    return Section("Roofline", [Points("roofline", points, titles, forms, roof, BOUND)], "roofline")


def _terms(result: Any, most: int) -> Section:
    """Draws stacked bars of the longest operations."""
    rows = result.terms().rows[:most]
    names = [key for key in (rows[0] if rows else {}) if key not in _NOT_TERMS and any(row[key] for row in rows)]
    bars = [
        Bar(
            row["operation"],
            {name: row[name] / 1e3 for name in names},
            f"{figures.duration(row['ms'] / 1e3)}, {row['bound']}",
        )
        for row in rows
    ]
    return Section("Where the time goes (terms overlap)", [Bars(bars, _colours(names), "duration")], "terms")


def roofline_page(bound: Any, estimate: Any = None) -> str:
    """Returns the page of the roofline, with operations at their predicted rates."""
    return document(f"{bound.name} on {bound.device.name}", [roof_of(bound, estimate)])


def terms_page(result: Any, most: int = 40) -> str:
    """Returns the page of the longest operations and their terms."""
    return document(result.summary(), [_terms(result, most)])


def html_report(result: Any, bound: Any) -> str:
    """Returns the page with roofline, stacked terms, caches, advice and ceilings."""
    advice = [repr(item) for item in result.explain() if item.worth_telling]
    sections = [
        roof_of(bound, result),
        _terms(result, 15),
        _table("Operations", result.terms().rows, "operations"),
        _table("Memory", result.caches().rows, "operations"),
        Section("What would help", [Notes(advice or ["none of the tried changes helps"])], "advice"),
        _table("Ceilings", bound.ceilings().rows, "ceilings"),
        Section("Modelled", [Notes(list(result.approximations))], "modelled"),
    ]
    return document(result.summary(), sections, repr(bound)[1:-1])


def validation_page(report: dict[str, Any], band: float = 0.15) -> str:
    """Returns the page of predicted over measured times with a band, and statistics by group."""
    from .measured.tables import group_key

    skip = {"status", "reason", "measured_ms", "predicted_ms", "error", "fitted", "latency_ms"}
    points = []
    for row in report["rows"]:
        if row["status"] == "ok":
            told = ", ".join(f"{key} {value}" for key, value in row.items() if key not in skip and value)
            seconds = {"x": row["measured_ms"] / 1e3, "y": row["predicted_ms"] / 1e3}
            points.append({**seconds, "name": told, "sort": group_key(row)})
    every = [point["x"] for point in points] or [1.0]
    ends = [min(every), max(every)]
    equal = [
        (name, ends, [x * factor for x in ends])
        for factor, name in ((1.0, "equal"), (1 + band, f"+{band:.0%}"), (1 - band, f"-{band:.0%}"))
    ]
    titles, forms = ("measured", "predicted"), ("duration", "duration")
    chart = Points("validation", points, titles, forms, equal, _colours([point["sort"] for point in points]))
    statistics = [{"group": key, **row} for key, row in report["groups"].items()]
    return document(
        "Predicted and measured times", [Section("Rows", [chart], "rows"), _table("Groups", statistics, "groups")]
    )


def suite_page(table: Table) -> str:
    """Returns the page of a suite on several devices."""
    bars = [
        Bar(f"{row['workload']}, {row['device']}", {row["device"]: row["ms"] / 1e3},
            f"{figures.duration(row['ms'] / 1e3)}, {row['speedup']:.3g}x, bound by {row['bound']}")
        if row["ms"]
        else Bar(f"{row['workload']}, {row['device']}", {}, str(row["reason"]))
        for row in table.rows
    ]  # fmt: skip
    chart = Bars(bars, _colours([row["device"] for row in table.rows]), "duration")
    return document("Suite", [Section("Times", [chart], "times"), _table("Rows", table.rows, "rows")])


def crossover_map_page(summary: Any) -> str:
    """Returns the page with a map of the fastest schemes by shape."""
    parts = [part for part in summary.parts if part.possible]
    boxes: list[tuple[float, float, float, float, int, int]] = []
    texts: list[str] = []
    for height, part in enumerate(parts):
        for place, row in enumerate(part.rows):
            sort = 0 if row["speedup"] > _EVEN else 2 if row["speedup"] < 1 / _EVEN else 1
            boxes.append((float(place), place + 1.0, float(height), height + 1.0, sort, len(texts)))
            shape = "x".join(f"{row[key]:g}" for key in "mnk")
            texts.append(f"{part.scheme}, {shape}: {row['speedup']:.2f}x, {row['probability']:.0%} that it helps")
    sorts = (("faster", SERIES[0]), ("as fast", OTHER_COLOUR), ("slower", RED))
    names = [part.scheme for part in parts]
    spans = (float(max((len(part.rows) for part in parts), default=1)), float(max(1, len(parts))))
    chart = Boxes("map", boxes, texts, sorts, (f"shapes, against {summary.against}", ""), ("count", ""), spans, names)
    told = [part.summary() for part in summary.parts]
    return document(
        f"Crossover on {summary.device.name}", [Section("Shapes", [chart], "map"), Section("", [Notes(told)])]
    )


def _tip(row: dict[str, Any]) -> str:
    times = f"{row['ms']:.4g} ms against {row['baseline_ms']:.4g} ms"
    helps = f"{row['verdict']}, {row['probability']:.0%} that it helps, bound by {row['bound']}"
    return f"{row['m']:g} x {row['n']:g} x {row['k']:g}: {times}, {helps}"


def crossover_page(answer: Any) -> str:
    """Returns the page with the speed-up curves of one scheme or all schemes, and their table."""
    parts = getattr(answer, "parts", [answer])
    points, curves = [], []
    for part in parts:
        rows = sorted(part.rows, key=lambda row: row["m"])
        square = all(row["m"] == row["n"] == row["k"] for row in rows)
        for n, k in dict.fromkeys((0, 0) if square else (row["n"], row["k"]) for row in rows):
            curve = [row for row in rows if square or (row["n"], row["k"]) == (n, k)]
            name = part.scheme if square else f"{part.scheme}, n {n:g}, k {k:g}"
            curves.append((name, [row["m"] for row in curve], [row["speedup"] for row in curve]))
            points += [{"x": row["m"], "y": row["speedup"], "sort": part.scheme, "name": _tip(row)} for row in curve]
    if points:
        ends = [min(point["x"] for point in points), max(point["x"] for point in points)]
        curves.append(("equal", ends, [1.0, 1.0]))
    titles, forms = ("rows m (edge, of squares)", f"speed-up over {answer.against}"), ("count", "ratio")
    chart = Points("crossover", points, titles, forms, curves, _colours([part.scheme for part in parts]))
    sections = [
        Section("Speed-up", [chart], "speed-up"),
        Section("", [Notes([part.summary() for part in parts])]),
        _table("Rows", answer.table().rows, "rows"),
    ]
    return document(f"Crossover on {answer.device.name}", sections)
