"""Draws docs/pictures/overview.svg, the README's picture, from shipped data: `readme_picture.py`.

Left: the units of a TPU v3 core during the first tiles of an attention kernel. Right: predicted over measured for every
row of the shipped samples.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from pathlib import Path

import accuracy_page
import matplotlib
from matplotlib.figure import Figure

import tilesim as ts
from tilesim.base.palette import SERIES

PICTURE = accuracy_page.PICTURES / "overview.svg"
UNITS = {
    "load0": "load",
    "array0": "array 0",
    "array1": "array 1",
    "vector": "vector",
    "store0": "store",
}
MICROSECONDS = 24
ROWS = 150  # of a table, at random; errors beyond a factor of two stand at the edge


def strokes(
    axes: matplotlib.axes.Axes, lines: list[tuple[float, float, float]], colour: str, width: float, ends: str
) -> None:
    """Horizontal strokes (from, to, height) as one path, which keeps the file small."""
    gap = float("nan")
    x = [value for start, end, _ in lines for value in (start, end, gap)]
    y = [value for _, _, height in lines for value in (height, height, gap)]
    axes.plot(x, y, color=colour, linewidth=width, solid_capstyle=ends)


def timeline(axes: matplotlib.axes.Axes) -> None:
    """Intervals of each unit."""
    program = ts.compile(ts.workloads.attention(1, 12, 512, 64), "tpu-v3", lowering="best")
    result = ts.simulate(program, timeline=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        result.timeline(path)
        trace = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    tracks = {row["tid"]: row["args"]["name"] for row in trace if row["name"] == "thread_name"}
    rows = [(tracks[row["tid"]], row["ts"], row["dur"]) for row in trace if row["ph"] == "X"]
    for number, (unit, name) in enumerate(UNITS.items()):
        spans = [
            (start, length)
            for track, start, length in rows
            if track == f"core0.{unit}" and start + length < MICROSECONDS
        ]
        strokes(axes, [(start, start + length, number) for start, length in spans], SERIES[number], 15, "butt")
        axes.text(-0.4, number, name, ha="right", va="center")
    axes.set(xlim=(0, MICROSECONDS), ylim=(len(UNITS) - 0.5, -0.5), yticks=[], xlabel="time, µs")
    axes.set_title(
        f"attention on a TPU v3 core: {result.cycles:,} cycles, bound by the {result.bottleneck} unit", fontsize=8
    )


def errors(axes: matplotlib.axes.Axes) -> None:
    """Predicted over measured, a line of points for each table."""
    draw = random.Random(0)
    found = accuracy_page.reports()
    for number, (name, report) in enumerate(found.items()):
        ratios = [min(2.0, max(0.5, predicted / measured)) for _, measured, predicted in accuracy_page.points(report)]
        ratios = draw.sample(ratios, min(len(ratios), ROWS))
        heights = [number + draw.uniform(-0.3, 0.3) for _ in ratios]
        dots = [(x, x * 1.0001, y) for x, y in zip(ratios, heights, strict=True)]
        strokes(axes, dots, SERIES[number % len(SERIES)], 2.4, "round")
        axes.text(0.485, number, name, ha="right", va="center")
    axes.axvline(1, color="#777777", linewidth=0.8, zorder=0)
    axes.set(xscale="log", xlim=(0.5, 2), ylim=(len(found) - 0.5, -0.5), yticks=[], xlabel="predicted / measured")
    axes.set_xticks([0.5, 0.8, 1, 1.25, 2], ["0.5", "0.8", "1", "1.25", "2"])
    axes.minorticks_off()
    axes.set_title("shipped rows of the validation tables", fontsize=8)


def main() -> None:
    """Draws both."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "overview", "font.size": 8}):
        figure = Figure(figsize=(9.2, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
        timeline(left)
        errors(right)
        for axes in (left, right):
            axes.spines[["top", "right", "left"]].set_visible(False)
        figure.savefig(
            PICTURE, format="svg", metadata={"Date": None, "Title": "Timeline of attention; errors of tables"}
        )
    text = PICTURE.read_text(encoding="utf-8")
    PICTURE.write_text(
        re.sub(r"([ \"(]-?\d+\.\d)\d+", r"\1", text), encoding="utf-8"
    )  # tenths of a point: a smaller file


if __name__ == "__main__":
    main()
