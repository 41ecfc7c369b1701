"""Draws the pictures of the documentation from shipped data: `page_pictures.py [NAME ...]`."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accuracy_page
import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tilesim as ts
from tilesim.base.palette import SERIES

LOADS = [0.05, 0.15, 0.25, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8]
PITCHES = [256, 512, 1024, 2048, 4096, 8192, 16384]
PLANS = {
    "recompute\nfull": ts.Plan(tensor=8, pipeline=8, recompute="full"),
    "recompute\nselective": ts.Plan(tensor=8, pipeline=8, recompute="selective"),
    "selective,\nsequence": ts.Plan(tensor=8, pipeline=8, recompute="selective", sequence=True),
    "and\ninterleaved": ts.Plan(tensor=8, pipeline=8, virtual=3, recompute="selective", sequence=True),
}


def network(axes: Axes) -> None:
    """Packet latency until saturation, 16 nodes."""
    for number, (topology, k) in enumerate((("mesh", 4), ("torus", 4), ("crossbar", 16))):
        points = []
        for load in LOADS:
            result = ts.network.run(topology=topology, k=k, traffic="uniform", load=load, packet=5)
            if result.state != "stable":
                break
            points.append((load, result.packet_latency))
        axes.plot(
            *zip(*points, strict=True), color=SERIES[number], marker="o", markersize=3, label=f"{topology}, 16 nodes"
        )
    axes.set(xlabel="load, flits per node and cycle", ylabel="packet latency, cycles", ylim=(0, 200))
    axes.legend(frameon=False)


def memory(axes: Axes) -> None:
    """Bandwidth of one channel for tiles of 256 bytes that lie a pitch apart."""
    for number, part in enumerate(("HBM2-2000", "DDR4-3200", "LPDDR5-6400")):
        found = [
            ts.memory.run(part=part, trace=f"tile_256B_pitch_{pitch}B", requests=5000).bandwidth / 1e9
            for pitch in PITCHES
        ]
        axes.plot(PITCHES, found, color=SERIES[number], marker="o", markersize=3, label=part)
    axes.set(xscale="log", xlabel="distance between pieces of 256 B, bytes", ylabel="bandwidth of a channel, GB/s")
    axes.set_xticks(PITCHES, [str(pitch) for pitch in PITCHES])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def pipelines(axes: Axes) -> None:
    """Passes of four stages and eight micro-batches under three schedules; strokes of a colour are one path."""
    height = 0
    passes = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}
    strokes: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in passes}
    for schedule in ("gpipe", "1f1b", "zb-h1"):
        pipe = ts.cluster.pipeline(
            schedule, stages=4, microbatches=8, forward=1e-3, backward_input=1e-3, backward_weight=1e-3
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            pipe.timeline(path)
            trace = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        for row in trace:
            if row["ph"] == "X":
                x, y = strokes[row["name"][0]]
                start, end = row["ts"] / 1000, (row["ts"] + row["dur"]) / 1000 - 0.12
                x += [start, end, float("nan")]
                y += [height + row["tid"]] * 3
        axes.text(-0.5, height + 2.5, f"{schedule}\n{pipe.seconds * 1e3:.0f} ms", ha="right", va="center")
        height += 5
    for number, (name, (x, y)) in enumerate(strokes.items()):
        axes.plot(x, y, color=SERIES[number], linewidth=8, solid_capstyle="butt", label=passes[name])
    axes.set(xlim=(0, 36), ylim=(height + 0.5, -1.5), yticks=[], xlabel="time, ms")
    legend = axes.legend(frameon=False, loc="upper center", ncols=4)
    for handle in legend.get_lines():
        handle.set_linewidth(4)


def step(axes: Axes) -> None:
    """Seconds of a step of GPT-3 175B on 64 A100 by part."""
    below = [0.0] * len(PLANS)
    results = [ts.cluster.step("gpt3-175b", "dgx-a100:64", plan, check_memory=False) for plan in PLANS.values()]
    tables = [[(row["part"], row["seconds"]) for row in result.breakdown] for result in results]
    parts = list(dict.fromkeys(part for table in tables for part, _ in table))
    for number, part in enumerate(parts):
        seconds = [sum(value for name, value in table if name == part) for table in tables]
        if max(seconds) > 1:
            axes.bar(list(PLANS), seconds, bottom=below, color=SERIES[number % len(SERIES)], label=part, width=0.6)
            below = [low + more for low, more in zip(below, seconds, strict=True)]
    axes.set(ylabel="seconds per step", ylim=(0, 1.3 * max(below)))
    axes.legend(frameon=False, loc="upper center", ncols=3)


def sizes(axes: Axes) -> None:
    """Times of BERT on a small chip, by rows of the arrays and rate of the memory."""
    chip = {
        "schema": "tilesim.machine", "version": 1, "name": "chip", "memory": {"bandwidth": "256 GB/s", "channels": 8},
        "core": {"array": {"count": 2, "rows": 64, "columns": 64, "rates": {"bf16": 1.0}},
                 "vector": {"lanes": 64, "sublanes": 4}, "scratchpad": {"bytes": "8 MiB"}},
    }  # fmt: skip
    rows, rates = [16, 32, 64, 128, 256], ["64 GB/s", "128 GB/s", "256 GB/s"]
    graph = ts.models.build("bert-base", dtype="bf16")
    table = ts.sweep(graph, ts.Machine.load(chip), {"core.array.rows": rows, "memory.bandwidth": rates})
    table.plot("lines", x="core.array.rows", y="seconds", axes=axes)


PICTURES: dict[str, tuple[Callable[[Axes], Any], str]] = {
    "network-load": (network, "Packet latency over load on three networks"),
    "memory-pitch": (memory, "Bandwidth of a DRAM channel over the distance of pieces"),
    "pipelines": (pipelines, "Passes of three pipeline schedules"),
    "step-parts": (step, "Parts of a training step of GPT-3 175B on 64 A100"),
    "sizes": (sizes, "Time of BERT over the rows of the arrays, for three memory rates"),
    "crossover": (
        lambda axes: ts.crossover("h100", "fp8", shapes=[(2**n, 4096, 4096) for n in range(14)]).plot(axes),
        "Speedup of fp8 over bf16 for a product on an H100",
    ),
    "operations": (
        lambda axes: ts.run("resnet18", machine="tpu-v3").plot("operations", axes),
        "Cycles of each operation of ResNet-18 on a TPU v3 core",
    ),
    "plans": (
        lambda axes: ts.cluster.step(
            ts.workloads.layered("llama-3-8b", batch=256), "dgx-h100:64", ts.Plan(tensor=8, data=8, sequence=True)
        ).breakdown.plot(axes),
        "Where the time of a training step of Llama-3-8B goes",
    ),
}


def main() -> None:
    """Draws the named pictures, or all."""
    for name in sys.argv[1:] or PICTURES:
        draw, title = PICTURES[name]
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 8}):
            figure = Figure(figsize=(6.0, 3.0), layout="constrained")
            axes = figure.subplots()
            draw(axes)
            axes.spines[["top", "right"]].set_visible(False)
            path = accuracy_page.PICTURES / f"{name}.svg"
            figure.savefig(path, format="svg", metadata={"Date": None, "Title": title})
        text = re.sub(r"([ \"(]-?\d+\.\d)\d+", r"\1", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
