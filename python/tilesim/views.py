"""Plots of bandwidth over time, DRAM banks and link loads (matplotlib, or an HTML page)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from .base.arguments import one_of
from .base.checked import checked
from .base.drawing import axes_or_new, no_math
from .base.lazy import listed
from .base.view import Section, Steps, document
from .graph import user_error

if TYPE_CHECKING:
    from .network import NetworkResult
    from .results.result import Result

__all__ = ["bandwidth_page", "bandwidth_rows", "plot_bandwidth", "plot_banks", "plot_links"]
__dir__ = listed(__all__)

_Links = list[tuple[int, int, float]]
_Points = list[tuple[str, int, float]]
_REPLAYED = "simulate with memory 'simple' or 'bank' and replay=False"


def _memory(result: Result) -> dict[str, Any]:
    memory = result.data.get("memory")
    if not memory or not any(memory["channel_bytes"]):
        raise user_error("the result lacks traffic of memory channels", suggestion=_REPLAYED)
    return dict(memory)


@checked()
def bandwidth_rows(result: Result) -> list[list[float]]:
    """Bandwidth of each memory channel over time.

    Args:
        result: of `simulate`.

    Returns:
        Per channel, bytes per second in each step of `result.data["memory"]["step_cycles"]` cycles of its clock.

    Raises:
        UserError: for a result without memory traffic (memory "ideal" of the simple network, or a replayed program).
    """
    memory = _memory(result)
    steps = max(len(row) for row in memory["channel_bytes"])
    per_second = memory["hertz"] / memory["step_cycles"]
    return [[value * per_second for value in row] + [0.0] * (steps - len(row)) for row in memory["channel_bytes"]]


@checked()
def plot_bandwidth(result: Result, axes: Any = None) -> Any:
    """Plots the bandwidth over time, stacked by channel.

    Args:
        result: of `simulate`.
        axes: matplotlib axes; new ones by default.

    Returns:
        The axes; time in microseconds, bandwidth in GB/s.

    Raises:
        UserError: as `bandwidth_rows`.
    """
    rows = bandwidth_rows(result)
    memory = _memory(result)
    axes = axes_or_new(axes, 4.2)
    step = memory["step_cycles"] / memory["hertz"] * 1e6
    times = [step * i for i in range(len(rows[0]))]
    axes.stackplot(times, [[value / 1e9 for value in row] for row in rows], step="post")
    axes.set(xlabel="time, µs", ylabel="GB/s", xlim=(0, max(times) + step))
    axes.set_title(no_math(f"{result.data['program']}: {result.memory_bytes:,} B over {len(rows)} memory channels"))
    return axes


@checked()
def plot_banks(result: Result, axes: Any = None, what: str = "columns") -> Any:
    """Plots the commands of every DRAM bank as a heat map: one row per channel, one column per bank.

    Args:
        result: of `simulate` with memory "bank".
        axes: matplotlib axes; new ones by default.
        what: "columns" (reads and writes), "activates", or "hits" (share of reads and writes that needed no activate).

    Returns:
        The axes.

    Raises:
        UserError: for a result without banks, or an unknown `what`.
    """
    one_of("unknown count of banks", "what", what, "columns", "activates", "hits")
    banks = (result.data.get("memory") or {}).get("banks")
    if not banks:
        raise user_error("the result lacks banks", suggestion="simulate with memory='bank' and replay=False")
    axes = axes_or_new(axes, 4.2)

    def value(activates: int, columns: int) -> float:
        if what == "hits":
            return max(0.0, 1 - activates / columns) if columns else math.nan
        return columns if what == "columns" else activates

    image = axes.imshow([[value(*bank) for bank in row] for row in banks], aspect="auto", interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, label=what if what != "hits" else "row hits, share")
    axes.set(xlabel="bank", ylabel="channel", title=no_math(f"{result.data['program']}: {what} per bank"))
    return axes


def _places(topology: str, routers: int) -> list[tuple[float, float]]:
    """Returns the positions of routers: on a grid for mesh, cmesh and torus, else on a circle."""
    found = re.match(r"(mesh|cmesh|torus)_([1-9][0-9]{0,6})x([0-9]+)", topology)
    if found and routers % int(found[2]) == 0:
        return [(float(r % int(found[2])), float(r // int(found[2]))) for r in range(routers)]
    if routers == 1:
        return [(0.0, 0.0)]
    angle = 2 * math.pi / routers
    return [(routers / 5 * math.cos(angle * r), routers / 5 * math.sin(angle * r)) for r in range(routers)]


def _loads(source: Result | NetworkResult) -> tuple[str, _Links, _Points, int]:
    """Returns topology, links and endpoints with flits per cycle, and number of routers."""
    from .network import NetworkResult

    if isinstance(source, NetworkResult):
        routers = 1 + max((max(link[:2]) for link in source.links), default=0)
        return source.topology, list(source.links), [], routers
    network = source.data.get("network")
    if not network:
        raise user_error("the result lacks routers", suggestion="simulate with network='mesh' and replay=False")
    cycles = max(1, network["cycles"])
    links = [(a, b, flits / cycles) for a, b, flits in network["links"]]
    points = [(row["name"], row["router"], (row["sent"] + row["taken"]) / cycles) for row in network["endpoints"]]
    return network["topology"], links, points, network["routers"]


@checked()
def plot_links(source: Result | NetworkResult, axes: Any = None) -> Any:
    """Plots the load of every link in flits per cycle by colour; the two directions are drawn side by side.

    Args:
        source: a result of `simulate` with a network of routers, or of `ts.network.run`.
        axes: matplotlib axes; new ones by default.

    Returns:
        The axes. Squares are core ports, circles memory channels (load: sent plus received flits), dots routers.

    Raises:
        UserError: for a result without routers.
    """
    topology, links, points, routers = _loads(source)
    axes = axes_or_new(axes, 4.2)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    places = _places(topology, routers)
    top = max([load for *_, load in links] + [load for *_, load in points] + [1e-9])
    shade: Any = ScalarMappable(Normalize(0, top), "viridis_r")
    for a, b, load in links:
        (xa, ya), (xb, yb) = places[a], places[b]
        length = math.hypot(xb - xa, yb - ya) or 1.0
        dx, dy = -(yb - ya) / length * 0.07, (xb - xa) / length * 0.07
        bent = length > 1.5 and topology.startswith("torus")  # a wrap-around link
        xs, ys = [xa + dx, xb + dx], [ya + dy, yb + dy]
        axes.plot(xs, ys, color=shade.to_rgba(load), linewidth=2.5, linestyle=":" if bent else "-", zorder=1)
    axes.scatter([x for x, _ in places], [y for _, y in places], s=14, color="0.3", zorder=2)
    at: dict[int, int] = {}
    for _, router, _ in points:
        at[router] = at.get(router, 0) + 1
    seen: dict[int, int] = {}
    for name, router, load in points:
        turn = seen[router] = seen.get(router, 0) + 1
        angle = math.pi / 4 + 2 * math.pi * turn / at[router]
        away = 0.28 if routers > 1 else 1.0
        x, y = places[router][0] + away * math.cos(angle), places[router][1] + away * math.sin(angle)
        axes.plot([places[router][0], x], [places[router][1], y], color=shade.to_rgba(load), linewidth=1.2, zorder=1)
        marker = "s" if name.startswith("core") else "o"
        axes.scatter([x], [y], s=34, marker=marker, color=[shade.to_rgba(load)], zorder=3)
    axes.figure.colorbar(shade, ax=axes, label="flits per cycle")
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(no_math(topology))
    return axes


@checked()
def bandwidth_page(result: Result) -> str:
    """Draws the bandwidth over time as an HTML page.

    Args:
        result: of `simulate`.

    Returns:
        A self-contained HTML page.

    Raises:
        UserError: as `bandwidth_rows`.
    """
    memory = _memory(result)
    step = memory["step_cycles"] / memory["hertz"]
    series = [(f"channel {channel}", row) for channel, row in enumerate(bandwidth_rows(result))]
    chart = Steps("bandwidth", step, series, ("time", "bandwidth"), ("duration", "rate:B/s"))
    return document(str(result.data["program"]), [Section("Bandwidth", [chart], "bandwidth")])
