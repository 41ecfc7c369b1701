"""Converts results to pandas DataFrames and matplotlib charts."""

from __future__ import annotations

from typing import Any

from ..base import figures
from ..base.drawing import axes_or_new, no_math
from ..base.errors import nearest, shown, user_error
from ..base.extras import need
from ..base.palette import BOUND, OTHER_COLOUR, SERIES
from .page.operations import folded, operation_rows
from .page.plan import live_bytes, plan_of, tensor_rows
from .page.roof import ceilings, lines, roof_points
from .page.timeline import spans
from .page.traffic import COLOURS, level_rows

__all__ = ["WHAT", "frame", "plot"]

WHAT = ("bytes", "memory", "operations", "roofline", "timeline")

_MOST = 20


def frame(result: Any) -> Any:
    """Makes a DataFrame of all operations, longest first."""
    pandas = need("pandas", "notebook")
    hertz, total = result.data["hertz"], max(1, result.cycles)
    rows = []
    for row in operation_rows(result):
        flops, moved, elapsed = row["flops"], row["bytes"], row["elapsed"]
        rows.append(
            {
                "operation": row["operation"],
                "count": row["runs"],
                "cycles": row["cycles"],
                "seconds": row["cycles"] / hertz,
                "share": row["cycles"] / total,
                "bound": row["bound"],
                "busy": row["busy"],
                "bytes": moved,
                "load_bytes": row["load_bytes"],
                "store_bytes": row["store_bytes"],
                "multiply_adds": row["multiply_adds"],
                "flops": flops,
                "intensity": flops / moved if moved else float("nan"),
                "flops_per_second": flops * hertz / elapsed if elapsed else float("nan"),
            }
        )
    return pandas.DataFrame(rows)


def plot(result: Any, what: str, axes: Any) -> Any:
    """Draws one chart."""
    makers = {
        "bytes": _bytes,
        "memory": _memory,
        "operations": _operations,
        "roofline": _roofline,
        "timeline": _timeline,
    }
    if what not in makers:
        hint, allowed = nearest(what, WHAT) if isinstance(what, str) else "", ", ".join(WHAT)
        raise user_error("unknown plot", place="what", value=shown(what), allowed=allowed, suggestion=hint)
    return makers[what](result, axes)


def _named(result: Any) -> str:
    return no_math(f"{result.data['program']} on {result.data['machine']}: {figures.duration(result.seconds)}")


def _legend(axes: Any, colours: dict[str, str]) -> None:
    """Adds a legend of colours."""
    if colours:
        from matplotlib.patches import Patch

        handles = [Patch(color=colour, label=no_math(name)) for name, colour in colours.items()]
        axes.legend(handles=handles, fontsize=8, loc="upper right")


def _format_axis(axis: Any, form: Any) -> None:
    axis.set_major_formatter(lambda value, _: form(value))


def _operations(result: Any, axes: Any) -> Any:
    axes = axes_or_new(axes)
    groups = folded(result)
    shown = groups[:_MOST]
    rest = sum(cycles for cycles, _, _ in groups) - sum(cycles for cycles, _, _ in shown)
    places = list(range(len(shown)))
    axes.barh(places, [one[0] for one in shown], color=[BOUND.get(one[2], OTHER_COLOUR) for one in shown])
    axes.set_yticks(places, [no_math(figures.short(one[1], 32)) for one in shown], fontsize=8)
    axes.invert_yaxis()
    _format_axis(axes.xaxis, figures.count)
    axes.set(xlabel="cycles", title=_named(result))
    if rest:
        axes.set_xlabel(
            f"cycles; {len(groups) - len(shown):,} more operations: {figures.percent(rest / result.cycles)}"
        )
    _legend(axes, {one[2]: BOUND.get(one[2], OTHER_COLOUR) for one in shown})
    return axes


def _roofline(result: Any, axes: Any) -> Any:
    points, left = roof_points(result)
    if not points:
        raise user_error("no operation both computes and accesses memory", place="what", value="'roofline'")
    axes = axes_or_new(axes)
    rates, memory = ceilings(result)
    spread = [row["intensity"] for row in points]
    for name, xs, ys in lines(rates, memory, min(spread), max(spread)):
        axes.plot(xs, ys, color="0.5", linewidth=1)
        axes.annotate(no_math(name), (xs[-1], ys[-1]), fontsize=8, ha="right", va="bottom")
    colours = [BOUND.get(row["bound"], OTHER_COLOUR) for row in points]
    axes.scatter(spread, [row["attained"] for row in points], c=colours, s=18, zorder=3)
    axes.set(xscale="log", yscale="log", title=_named(result), ylabel="attained")
    axes.set_xlabel("FLOP / byte" + (f"; {left:,} operations without compute or memory accesses" if left else ""))
    _format_axis(axes.yaxis, lambda value: figures.rate(value, "FLOP/s"))
    _legend(axes, {row["bound"]: BOUND.get(row["bound"], OTHER_COLOUR) for row in points})
    return axes


def _timeline(result: Any, axes: Any) -> Any:
    data = result.data
    if not data["intervals"]:
        raise user_error("no timeline was recorded", suggestion="Simulate with timeline=True")
    found, _ = spans(data, 4_000)
    units = list(dict.fromkeys(unit for unit, *_ in found))
    axes = axes_or_new(axes)
    busiest: dict[int, int] = {}
    for _, label, start, finish in found:
        busiest[label] = busiest.get(label, 0) + finish - start
    order = sorted(busiest, key=lambda label: -busiest[label])
    colours = {label: SERIES[i] if i < len(SERIES) - 1 else OTHER_COLOUR for i, label in enumerate(order)}
    scale = 1 / data["hertz"]
    for place, unit in enumerate(units):
        own = [one for one in found if one[0] == unit]
        times = [(start * scale, (finish - start) * scale) for _, _, start, finish in own]
        axes.broken_barh(times, (place - 0.4, 0.8), facecolors=[colours[label] for _, label, _, _ in own])
    axes.set_yticks(range(len(units)), [no_math(data["units"][unit]["unit"]) for unit in units], fontsize=8)
    axes.invert_yaxis()
    _format_axis(axes.xaxis, figures.duration)
    axes.set(xlabel="time", xlim=(0, max(1, data["cycles"]) * scale), title=_named(result))
    _legend(axes, {figures.short(data["labels"][label], 32): colours[label] for label in order[: len(SERIES) - 1]})
    return axes


def _memory(result: Any, axes: Any) -> Any:
    plan, why = plan_of(getattr(getattr(result, "_again", None), "program", None))
    if plan is None:
        raise user_error("this result has no memory plan", place="what", value="'memory'", suggestion=why)
    axes = axes_or_new(axes)
    rows = tensor_rows(plan, "memory")
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    for stays, colour in ((True, SERIES[0]), (False, SERIES[1])):
        own = [row for row in rows if (row["first"] <= 0 and row["last"] >= plan.kernels - 1) == stays][:4_000]
        boxes = [Rectangle((row["first"], row["address"]), row["last"] + 1 - row["first"], row["bytes"]) for row in own]
        axes.add_collection(PatchCollection(boxes, facecolor=colour, edgecolor="white", linewidth=0.3))
    live = live_bytes(rows, plan.kernels)
    axes.step(range(len(live)), live, color="black", linewidth=1, where="post")
    peak = plan.peak_bytes["memory"]
    axes.set(xlim=(0, max(1, plan.kernels)), ylim=(0, 1.05 * peak or 1), xlabel="kernel", ylabel="address")
    axes.set_title(no_math(f"{result.data['program']}: {figures.size(peak)} at the peak; line: bytes in use"))
    _format_axis(axes.yaxis, figures.size)
    _legend(axes, {"permanent": SERIES[0], "temporary": SERIES[1]})
    return axes


def _bytes(result: Any, axes: Any) -> Any:
    axes = axes_or_new(axes)
    rows = level_rows(result)
    used: dict[str, str] = {}
    for place, (_, parts) in enumerate(rows):
        left = 0.0
        for name, moved in parts.items():
            if moved:
                used[name] = COLOURS.get(name, OTHER_COLOUR)
                axes.barh(place, moved, left=left, color=used[name])
                left += moved
    axes.set_yticks(range(len(rows)), [no_math(name) for name, _ in rows])
    axes.invert_yaxis()
    _format_axis(axes.xaxis, figures.size)
    axes.set(xlabel="bytes", title=_named(result))
    _legend(axes, used)
    return axes
