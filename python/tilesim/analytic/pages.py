"""Pages of the closed-form side: plotly to hover over, and one report that needs no script."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from ..base.drawing import plotly
from ..results.result import Table

__all__ = [
    "crossover_map_page", "crossover_page", "html_report", "roofline_page", "suite_page", "terms_page",
    "validation_page",
]  # fmt: skip

_SPAN = [2.0**i for i in range(-4, 17)]
_NOT_TERMS = {"operation", "kind", "scheme", "model", "ms", "bound", "occupancy"}


def _page(figure: Any) -> str:
    return str(figure.to_html(include_plotlyjs="cdn"))


def roofline_page(bound: Any, estimate: Any = None) -> str:
    """The roofline as a page to hover over."""
    figure = plotly().Figure()
    device = bound.device
    rates = {name: rate for name, rate in device.matrix.items() if rate.how != "absent"}
    top = max(rate.flops_per_second for rate in rates.values())
    for name, rate in rates.items():
        values = [min(rate.flops_per_second, x * device.memory.bytes_per_second) / 1e12 for x in _SPAN]
        figure.add_scatter(x=_SPAN, y=values, mode="lines", name=f"{name} ({rate.how})")
    for level in device.levels[:-1]:
        values = [min(top, x * level.bytes_per_second) / 1e12 for x in _SPAN]
        figure.add_scatter(x=_SPAN, y=values, mode="lines", name=level.name, line={"dash": "dot"})
    points = _points(bound, estimate)
    figure.add_scatter(
        x=[point[0] for point in points],
        y=[point[1] for point in points],
        mode="markers",
        name="predicted" if estimate else "bound",
        text=[point[2] for point in points],
    )
    figure.update_xaxes(type="log", title="intensity, FLOP per byte")
    figure.update_yaxes(type="log", title="TFLOP/s")
    figure.update_layout(title=f"{bound.name} on {device.name}")
    return _page(figure)


def _points(bound: Any, estimate: Any) -> list[tuple[float, float, str]]:
    """Per operation: intensity, TFLOP/s (predicted, or of the bound), what to say about it."""
    seconds = {cost.name: cost.seconds for cost in estimate.costs} if estimate else {}
    points = []
    for row in bound.table().rows:
        taken = seconds.get(row["operation"])
        rate = row["flops"] / taken / 1e12 if taken else row["ceiling_tflops"]
        text = f"{row['operation']}: {row['least_ms']:.4g} ms at least, {row['bound']}"
        points.append((row["intensity"], rate, text + (f", {taken * 1e3:.4g} ms predicted" if taken else "")))
    return points


def terms_page(result: Any, most: int = 40) -> str:
    """The longest operations and their terms, stacked, as a page to hover over."""
    figure = plotly().Figure()
    rows = result.terms().rows[:most][::-1]
    labels = [row["operation"] for row in rows]
    for name in [key for key in (rows[0] if rows else {}) if key not in _NOT_TERMS]:
        if any(row[name] for row in rows):
            figure.add_bar(y=labels, x=[row[name] for row in rows], name=name, orientation="h")
    told = [f"{row['ms']:.4g} ms, {row['bound']}, {row['scheme']}, {row['model']}" for row in rows]
    times = [row["ms"] for row in rows]
    figure.add_scatter(y=labels, x=times, mode="markers", name="predicted (terms overlap)", text=told)
    figure.update_layout(barmode="stack", title=result.summary())
    figure.update_xaxes(title="ms")
    return _page(figure)


def validation_page(report: dict[str, Any], band: float = 0.15) -> str:
    """Predicted over measured times with a band, as a page to hover over; the statistics of every group."""
    from .measured.tables import group_key

    figure = plotly().Figure()
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in report["rows"]:
        if row["status"] == "ok":
            groups.setdefault(group_key(row), []).append(row)
    every = [row["measured_ms"] for rows in groups.values() for row in rows] or [1.0]
    ends = [min(every), max(every)]
    for factor, name in ((1.0, "equal"), (1 + band, f"+{band:.0%}"), (1 - band, f"-{band:.0%}")):
        dash = "solid" if factor == 1 else "dot"
        figure.add_scatter(x=ends, y=[x * factor for x in ends], mode="lines", name=name, line={"dash": dash})
    skip = {"status", "reason", "measured_ms", "predicted_ms", "error", "fitted", "latency_ms"}
    for key, rows in groups.items():
        told = [", ".join(f"{k} {v}" for k, v in row.items() if k not in skip and v) for row in rows]
        figure.add_scattergl(
            x=[row["measured_ms"] for row in rows],
            y=[row["predicted_ms"] for row in rows],
            mode="markers",
            marker={"size": 4},
            name=f"{key}: {report['groups'][key]['mean_abs_error']:.1%}",
            text=told,
        )
    figure.update_xaxes(type="log", title="measured ms")
    figure.update_yaxes(type="log", title="predicted ms")
    statistics = [{"group": key, **row} for key, row in report["groups"].items()]
    return _page(figure).replace("</body>", f"{_html_table(statistics)}</body>")


def suite_page(table: Table) -> str:
    """A suite across devices, as a page to hover over."""
    figure = plotly().Figure()
    for device in dict.fromkeys(row["device"] for row in table.rows):
        rows = [row for row in table.rows if row["device"] == device]
        told = [
            f"{row['speedup']:.3g}x, bound by {row['bound']}, pressure {row['pressure']}"
            if row["ms"]
            else row["reason"]
            for row in rows
        ]
        figure.add_bar(x=[row["workload"] for row in rows], y=[row["ms"] for row in rows], name=device, text=told)
    figure.update_yaxes(type="log", title="ms")
    figure.update_layout(barmode="group")
    return _page(figure).replace("</body>", f"{_html_table(table.rows)}</body>")


def crossover_map_page(summary: Any) -> str:
    """Which schemes help at which shape: a map to hover over."""
    figure = plotly().Figure()
    parts = [part for part in summary.parts if part.possible]
    rows = parts[0].rows if parts else []
    figure.add_heatmap(
        z=[[math.log2(row["speedup"]) for row in part.rows] for part in parts],
        x=["x".join(f"{row[key]:g}" for key in "mnk") for row in rows],
        y=[part.scheme for part in parts],
        text=[[f"{row['speedup']:.2f}x, {row['probability']:.0%} that it helps" for row in p.rows] for p in parts],
        colorscale="RdBu",
        zmid=0,
        colorbar={"title": f"log2 of the speed-up over {summary.against}"},
    )
    lines = "".join(f"<li>{escape(part.summary())}</li>" for part in summary.parts)
    return _page(figure).replace("</body>", f"<ul>{lines}</ul></body>")


def crossover_page(answer: Any) -> str:
    """Crossover as a page to hover over: speed-up curves of one or every scheme, and the table."""
    figure = plotly().Figure()
    parts = getattr(answer, "parts", [answer])
    for part in parts:
        curves: dict[tuple[float, float], list[dict[str, Any]]] = {}
        rows = sorted(part.rows, key=lambda row: row["m"])
        square = all(row["m"] == row["n"] == row["k"] for row in rows)
        for row in rows:
            curves.setdefault((0.0, 0.0) if square else (row["n"], row["k"]), []).append(row)
        for (n, k), curve in curves.items():
            figure.add_scatter(
                x=[row["m"] for row in curve],
                y=[row["speedup"] for row in curve],
                mode="lines+markers",
                name=part.scheme if square else f"{part.scheme}, n {n:g}, k {k:g}",
                text=[
                    f"{row['m']:g} x {row['n']:g} x {row['k']:g}: {row['ms']:.4g} ms against {row['baseline_ms']:.4g} "
                    f"ms, {row['verdict']}, {row['probability']:.0%} that it helps, bound by {row['bound']}"
                    for row in curve
                ],
            )
    figure.add_hline(y=1.0, line_width=1)
    figure.update_xaxes(type="log", title="rows m (edge, of squares)")
    figure.update_yaxes(type="log", title=f"speed-up over {answer.against}")
    figure.update_layout(title=f"Crossover on {answer.device.name}")
    lines = "".join(f"<li>{escape(part.summary())}</li>" for part in parts)
    return _page(figure).replace("</body>", f"<ul>{lines}</ul>{_html_table(answer.table().rows)}</body>")


def _html_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{escape(str(key))}</th>" for key in rows[0])
    cells = (
        "<tr>"
        + "".join(f"<td>{escape(f'{v:.4g}' if isinstance(v, float) else str(v))}</td>" for v in row.values())
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{''.join(cells)}</table>"


_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#000000")
_WIDTH, _HEIGHT = 760, 360


def _svg_roofline(bound: Any, result: Any) -> str:
    """Log-log: the slope of the memory, a ceiling per dtype, operations at their predicted rates, told on hovering."""
    device = bound.device
    rates = {name: rate for name, rate in device.matrix.items() if rate.how != "absent"}
    top = max(rate.flops_per_second for rate in rates.values()) / 1e12
    memory = device.memory.bytes_per_second / 1e12
    points = [point for point in _points(bound, result) if point[0] > 0 and point[1] > 0]
    left, right = min([_SPAN[0], *(p[0] for p in points)]), max([_SPAN[-1], *(p[0] for p in points)])
    low = min([left * memory, *(p[1] for p in points)])

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / left) / math.log(right / left)
        return 50 + (_WIDTH - 60) * across, 10 + (_HEIGHT - 40) * (1 - math.log(y / low) / math.log(2 * top / low))

    def line(x0: float, y0: float, x1: float, y1: float, told: str) -> str:
        (a, b), (c, d) = place(x0, y0), place(x1, y1)
        return f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" stroke="#888"><title>{told}</title></line>'

    parts = [line(left, left * memory, top / memory, top, escape(f"{device.memory.name}: {memory * 1e3:.4g} GB/s"))]
    for name, rate in rates.items():
        height = rate.flops_per_second / 1e12
        parts.append(line(height / memory, height, right, height, escape(f"{name} ({rate.how}): {height:.4g} TFLOP/s")))
    for x, y, told in points:
        a, b = place(x, y)
        parts.append(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{_COLOURS[0]}"><title>{escape(told)}</title></circle>'
        )
    ends = f"{left:.3g} to {right:.3g} FLOP per byte; {low:.3g} to {2 * top:.3g} TFLOP/s"
    axis = f'<text x="50" y="{_HEIGHT - 6}">{ends}</text>'
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" font-size="12">{"".join(parts)}{axis}</svg>'


def _svg_terms(result: Any, most: int = 15) -> str:
    """Stacked bars of the longest operations."""
    rows = result.terms().rows[:most]
    names = [key for key in (rows[0] if rows else {}) if key not in _NOT_TERMS and any(row[key] for row in rows)]
    longest = max((sum(row[name] for name in names) for row in rows), default=1.0) or 1.0
    colours = dict(zip(names, _COLOURS * 3, strict=False))
    parts = []
    for index, row in enumerate(rows):
        y, x = 22 + 20 * index, 260.0
        parts.append(f'<text x="0" y="{y + 12}">{escape(row["operation"][-36:])}</text>')
        for name in names:
            width = (_WIDTH - 270) * row[name] / longest
            told = escape(f"{row['operation']}: {name} {row[name]:.4g} ms of {row['ms']:.4g}")
            box = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="15" fill="{colours[name]}"'
            parts.append(f"<rect {box}><title>{told}</title></rect>")
            x += width
    legend = "".join(f'<tspan fill="{colours[name]}">&#9632;</tspan><tspan> {escape(name)}  </tspan>' for name in names)
    return (
        f'<svg width="{_WIDTH}" height="{30 + 20 * len(rows)}" font-size="12"><text x="260" y="12">{legend}</text>'
        f"{''.join(parts)}</svg>"
    )


def html_report(result: Any, bound: Any) -> str:
    """One page: headline, roofline, stacked terms, caches, what would help, ceilings."""
    notes = "".join(f"<li>{escape(text)}</li>" for text in result.approximations)
    advice = "".join(f"<li>{escape(repr(item))}</li>" for item in result.explain() if item.worth_telling)
    return (
        f"<!doctype html><meta charset='utf-8'><title>{escape(result.summary())}</title>"
        f"<h1>{escape(result.summary())}</h1>"
        f"<p>{escape(repr(bound)[1:-1])}</p><h2>Roofline</h2>{_svg_roofline(bound, result)}"
        f"<h2>Where the time goes (terms overlap)</h2>{_svg_terms(result)}"
        f"<h2>Operations</h2>{_html_table(result.terms().rows[:40])}"
        f"<h2>Memory</h2>{_html_table(result.caches().rows[:40])}"
        f"<h2>What would help</h2><ul>{advice}</ul><h2>Ceilings</h2>{_html_table(bound.ceilings().rows)}"
        f"<h2>Modelled</h2><ul>{notes}</ul>"
    )
