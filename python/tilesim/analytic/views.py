"""Matplotlib plots of closed-form results."""

from __future__ import annotations

import math
from typing import Any

from ..base import figures
from ..base.drawing import axes_or_new, no_math
from ..base.figures import duration
from ..base.palette import BOUND
from ..base.view import Card, Cards, Column, Rows, Section, fragment
from ..results.result import Table
from .pages import roof_of

__all__ = [
    "plot_crossover",
    "plot_crossover_map",
    "plot_roofline",
    "plot_suite",
    "plot_terms",
    "plot_validation",
    "roofline_picture",
]


def plot_roofline(bound: Any, axes: Any = None) -> Any:
    """Plots ceilings per dtype, a slope per memory level, and operations as points; both axes are logarithmic."""
    axes = axes_or_new(axes)
    device = bound.device
    span = [2.0**i for i in range(-4, 17)]
    rates = {name: rate for name, rate in device.matrix.items() if rate.how != "absent"}
    top = max(rate.flops_per_second for rate in rates.values())
    for level in device.levels:
        values = [min(top, x * level.bytes_per_second) / 1e12 for x in span]
        axes.plot(span, values, color="0.6", linewidth=1)
        axes.annotate(no_math(level.name), (span[2], span[2] * level.bytes_per_second / 1e12), fontsize=8, color="0.35")
    for name, rate in rates.items():
        height = rate.flops_per_second / 1e12
        ridge = rate.flops_per_second / device.memory.bytes_per_second
        style = "--" if rate.how == "emulated" else "-"
        axes.plot([ridge, span[-1]], [height, height], style, linewidth=1.2)
        said = no_math(f"{name}{' (emulated)' if rate.how == 'emulated' else ''}")
        axes.annotate(said, (span[-1], height), fontsize=8, ha="right")
    rows = bound.table().rows
    axes.scatter([row["intensity"] for row in rows], [row["ceiling_tflops"] for row in rows], s=16, zorder=3)
    axes.set(xscale="log", yscale="log", xlabel="intensity, FLOP per byte", ylabel="TFLOP/s")
    axes.set_title(no_math(f"{bound.name} on {device.name}: at least {duration(bound.seconds)}"))
    return axes


def plot_crossover(question: Any, axes: Any = None) -> Any:
    """Plots the speed-up of a scheme over the intensity, with a band of one standard deviation of the model's error."""
    axes = axes_or_new(axes)
    rows = sorted(question.rows, key=lambda row: row["intensity"])
    x, y = [row["intensity"] for row in rows], [row["speedup"] for row in rows]
    axes.plot(x, y, marker="o")
    spread = math.exp(question.spread)
    axes.fill_between(x, [value / spread for value in y], [value * spread for value in y], color="0.88", zorder=0)
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    edge = question.threshold()
    if edge is not None:
        axes.axvline(edge, color="0.5", linestyle=":", linewidth=1)
    axes.set(
        xscale="log",
        xlabel="intensity of the baseline, FLOP per byte",
        ylabel=no_math(f"{question.against} time / {question.scheme} time"),
    )
    axes.set_title(no_math(question.summary()[:90]))
    return axes


def plot_crossover_map(summary: Any, axes: Any = None) -> Any:
    """Plots a map of the fastest schemes by shape."""
    axes = axes_or_new(axes)
    parts = [part for part in summary.parts if part.possible]
    shapes = [(row["m"], row["n"], row["k"]) for row in parts[0].rows] if parts else []
    image = [[math.log2(row["speedup"]) for row in part.rows] for part in parts]
    drawn = axes.imshow(image, cmap="RdBu", vmin=-1.5, vmax=1.5, aspect="auto")
    axes.set_yticks(range(len(parts)), [no_math(part.scheme) for part in parts])
    axes.set_xticks(
        range(len(shapes)), ["x".join(f"{x:g}" for x in shape) for shape in shapes], rotation=60, fontsize=7
    )
    axes.figure.colorbar(drawn, label=no_math(f"log2 of the speed-up over {summary.against}"))
    axes.set_title(no_math(f"{summary.device.name}: blue helps, red hurts"))
    return axes


def plot_terms(result: Any, axes: Any = None, most: int = 15) -> Any:
    """Plots the longest operations, each as one bar of its terms."""
    axes = axes_or_new(axes)
    rows = result.terms().rows[:most][::-1]
    skip = {"operation", "kind", "scheme", "model", "ms", "bound", "occupancy"}
    names = [name for name in (rows[0] if rows else {}) if name not in skip]
    places = list(range(len(rows)))
    left = [0.0] * len(rows)
    for name in names:
        values = [row[name] for row in rows]
        if any(values):
            axes.barh(places, values, left=left, label=no_math(name))
            left = [a + b for a, b in zip(left, values, strict=True)]
    axes.scatter(
        [row["ms"] for row in rows], places, color="black", marker="|", s=80, label="predicted (terms overlap)"
    )
    axes.set_yticks(places, [no_math(row["operation"][-32:]) for row in rows], fontsize=7)
    axes.set(xlabel="ms")
    axes.legend(fontsize=7)
    return axes


def plot_validation(report: dict[str, Any], axes: Any = None, band: float = 0.15) -> Any:
    """Plots predicted over measured times, one colour per group, with a band."""
    from .measured.tables import group_key

    axes = axes_or_new(axes)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in report["rows"]:
        if row["status"] == "ok":
            groups.setdefault(group_key(row), []).append(row)
    for key, rows in groups.items():
        measured, predicted = [row["measured_ms"] for row in rows], [row["predicted_ms"] for row in rows]
        axes.scatter(measured, predicted, s=4, label=no_math(f"{key} {report['groups'][key]['mean_abs_error']:.0%}"))
    every = [row["measured_ms"] for rows in groups.values() for row in rows] or [1.0]
    ends = [min(every), max(every)]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(ends, [x * (1 - band) for x in ends], [x * (1 + band) for x in ends], color="0.85", zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="measured ms", ylabel="predicted ms")
    axes.legend(fontsize=6)
    return axes


def plot_suite(table: Table, axes: Any = None) -> Any:
    """Plots a suite on several devices: milliseconds per workload."""
    axes = axes_or_new(axes)
    labels = list(dict.fromkeys(row["workload"] for row in table.rows))
    devices = list(dict.fromkeys(row["device"] for row in table.rows))
    width = 0.8 / max(1, len(devices))
    for index, device in enumerate(devices):
        rows = {row["workload"]: row["ms"] for row in table.rows if row["device"] == device}
        places = [i + index * width for i, label in enumerate(labels) if rows.get(label)]
        axes.bar(places, [rows[label] for label in labels if rows.get(label)], width, label=no_math(device))
    places = [i + 0.4 - width / 2 for i in range(len(labels))]
    axes.set_xticks(places, [no_math(label) for label in labels], rotation=60, fontsize=7, ha="right")
    axes.set(yscale="log", ylabel="ms")
    axes.legend(fontsize=7)
    return axes


def roofline_picture(bound: Any) -> str:
    """Draws the bound, the roofline, and the operations with the longest minimum time."""
    device = bound.device
    rows = [
        {**row, "ceiling": row["ceiling_tflops"] * 1e12, "least": row["least_ms"] / 1e3} for row in bound.table().rows
    ]
    cards = [
        Card("at least", figures.duration(bound.seconds), f"of {bound.bound}"),
        Card("products", figures.duration(bound.compute_seconds), "at the highest rate"),
        Card("memory", figures.duration(bound.memory_seconds), "compulsory bytes"),
    ]
    columns = [
        Column("operation", "operation", "text"),
        Column("least", "at least", "duration"),
        Column("bound", "bound by", "text"),
        Column("flops", "FLOP", "rate:"),
        Column("bytes", "bytes", "size"),
        Column("intensity", "FLOP / byte", "rate:"),
        Column("ceiling", "ceiling", "rate:FLOP/s"),
    ]
    sections = [Section("", [Cards(cards)])]
    if rows:
        sections.append(roof_of(bound))
    table = Rows("operations", columns, rows, choice="bound", colours=BOUND, what="operations")
    return fragment(f"{bound.name} on {device.name}", [*sections, Section("Operations", [table])])
