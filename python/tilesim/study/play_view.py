"""The picture beside the sliders: time against the start, the longest operations, the roofline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from ..base.figures import count, duration, percent, rate, ratio, short
from ..base.folding import fold
from ..base.palette import BOUND, OTHER
from ..graph import Graph
from ..machine.machine import Machine
from ..results.result import Result

__all__ = ["page"]

_ROWS = 8
_WIDTH, _HEIGHT, _EDGE = 420, 240, 44


def page(
    graph: Graph, machine: Machine, before: Result, now: Result, error: str, took: float, notes: Sequence[str] = ()
) -> str:
    """A fragment of HTML.

    Args:
        graph: the workload.
        machine: of the result.
        before: result of the start.
        now: result of the settings as they stand.
        error: what is wrong with them; then `now` is of the last legal ones.
        took: seconds of the last turn.
        notes: what sliders leave out.

    Returns:
        The text.
    """
    parts = ['<div class="tilesim-play" style="font:13px sans-serif;max-width:640px">']
    parts += [f'<p class="note">{escape(note)}</p>' for note in notes]
    if error:
        style = "border-left:4px solid #ee6677;padding:4px 8px;margin:4px 0"
        parts.append(f'<p class="error" style="{style}">{escape(error)}<br>Below: the last settings that work.</p>')
    change = ratio(before.seconds / now.seconds) if now.seconds else "–"
    colour = BOUND.get(now.bottleneck, OTHER)
    parts.append(f"<p><b>{escape(str(now.data['program']))} on {escape(str(now.data['machine']))}</b></p>")
    parts.append(
        f'<p><span style="font-size:22px">{duration(now.seconds)}</span> · {count(now.cycles)} cycles · '
        f"{change} as fast as at the start · bound by "
        f'<b style="border-bottom:3px solid {colour}">{escape(now.bottleneck)}</b> '
        f"({percent(now.data['bottleneck_share'])} busy) · simulated in {duration(took)}</p>"
    )
    return "".join([*parts, _operations(now), _roofline(graph, machine, now), "</div>"])


def _operations(result: Result) -> str:
    """The longest operations, layers folded, as bars."""
    folded = [
        (name, sum(row["share"] for row in rows), bound, len(rows))
        for (name, bound), rows in fold(
            result.table().rows, lambda row: str(row["operation"]), lambda row: row["bound"]
        ).items()
    ]
    folded.sort(key=lambda one: -one[1])
    lines = []
    for name, share, bound, many in folded[:_ROWS]:
        bar = (
            f'<div style="width:{max(1, round(160 * share))}px;height:10px;background:{BOUND.get(bound, OTHER)}"></div>'
        )
        times = f" × {many}" if many > 1 else ""
        lines.append(
            f"<tr><td>{escape(short(name, 44))}{times}</td><td>{bar}</td><td>{percent(share)}</td>"
            f"<td>{escape(str(bound))}</td></tr>"
        )
    rest = sum(one[1] for one in folded[_ROWS:])
    if rest:
        lines.append(f"<tr><td>{len(folded) - _ROWS} more</td><td></td><td>{percent(rest)}</td><td></td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _points(result: Result) -> list[tuple[float, float, str, str]]:
    """Intensity, FLOP/s, bound and name of the kernels with products."""
    hertz, found = float(result.data["hertz"]), []
    for row in result.table().rows:
        if row["multiply_adds"] > 0 and row["bytes"] > 0 and row["cycles"] > 0:
            flops = 2.0 * float(row["multiply_adds"])
            found.append((flops / row["bytes"], flops / (row["cycles"] / hertz), row["bound"], str(row["operation"])))
    return found


def _roofline(graph: Graph, machine: Machine, result: Result) -> str:
    """Peaks of the machine, and its kernels with products as points; both axes logarithmic."""
    points = _points(result)
    view = machine.core.device()
    memory = float(view["memory_bytes_per_second"])
    rates = {name: float(value) for name, value in view["matrix_flops_per_second"].items() if value > 0}
    if not points or not rates:
        return "<p>No kernel with products: no roofline.</p>"
    read = {str(one["dtype"]) for op in graph.operations() for one in op["operands"][:1] if op["flops"]["matrix"] > 0}
    peaks = {name: value for name, value in rates.items() if name in read} or rates
    top = max(peaks.values())
    xs = [x for x, _, _, _ in points] + [top / memory]
    ys = [y for _, y, _, _ in points] + [top]
    left, right = math.log10(min(xs)) - 0.3, math.log10(max(xs)) + 0.5
    low, high = math.log10(min(ys)) - 0.3, math.log10(max(ys)) + 0.3

    def at(x: float, y: float) -> tuple[float, float]:
        across = _EDGE + (math.log10(x) - left) / (right - left) * (_WIDTH - _EDGE - 8)
        return across, 8 + (high - math.log10(y)) / (high - low) * (_HEIGHT - _EDGE - 8)

    first = max(10**left, 10**low / memory)
    line = " ".join(
        f"{a:.1f},{b:.1f}" for a, b in (at(first, first * memory), at(top / memory, top), at(10**right, top))
    )
    marks = "".join(_mark(at(x, y), x, y, bound, name) for x, y, bound, name in points[:2000])
    peak = f"{rate(top, 'FLOP/s')} {', '.join(sorted(peaks))}"
    label = f'<text x="{_WIDTH - 8}" y="{at(top / memory, top)[1] - 3:.1f}" text-anchor="end">{peak}</text>'
    axes = (
        f'<text x="{_EDGE}" y="{_HEIGHT - 24}">{10**left:.2g}</text>'
        f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 24}" text-anchor="end">{10**right:.2g}</text>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle">FLOP per byte from memory</text>'
        f'<text x="2" y="18">{rate(10**high, "")}</text><text x="2" y="{_HEIGHT - _EDGE}">{rate(10**low, "")}</text>'
    )
    more = f"<p>{len(points) - 2000} more kernels are not drawn.</p>" if len(points) > 2000 else ""
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" aria-label="roofline" '
        f'style="font:10px sans-serif" fill="currentColor"><polyline points="{line}" fill="none" stroke="#777777"/>'
        f"{label}{axes}{marks}</svg>{more}"
    )


def _mark(place: tuple[float, float], x: float, y: float, bound: Any, name: str) -> str:
    title = f"{name}: {rate(y, 'FLOP/s')} at {x:.3g} FLOP per byte, bound by {bound}"
    colour = BOUND.get(str(bound), OTHER)
    return (
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="3" fill="{colour}"><title>{escape(title)}</title></circle>'
    )
