"""Draws the pictures of docs/tutorials and docs/how_to by the plots of the package: `page_pictures.py [NAME ...]`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import accuracy_page
import matplotlib
from matplotlib.figure import Figure

import tilesim as ts


def sizes(axes: Any) -> None:
    """Times of BERT on a small chip, by rows of the arrays and rate of the memory."""
    chip = {
        "schema": "tilesim.machine", "version": 1, "name": "my-chip", "memory": {"bandwidth": "256 GB/s", "channels": 8},
        "core": {"array": {"count": 2, "rows": 64, "columns": 64, "rates": {"bf16": 1.0}},
                 "vector": {"lanes": 64, "sublanes": 4}, "scratchpad": {"bytes": "8 MiB"}},
    }  # fmt: skip
    rows, rates = [16, 32, 64, 128, 256], ["64 GB/s", "128 GB/s", "256 GB/s"]
    graph = ts.models.build("bert-base", dtype="bf16")
    table = ts.sweep(graph, ts.Machine.load(chip), {"core.array.rows": rows, "memory.bandwidth": rates})
    table.plot("lines", x="core.array.rows", y="seconds", axes=axes)


PICTURES: dict[str, Callable[[Any], Any]] = {
    "crossover": lambda axes: ts.crossover("h100", "fp8", shapes=[(2**n, 4096, 4096) for n in range(14)]).plot(axes),
    "operations": lambda axes: ts.run("resnet18", machine="tpu-v3").plot("operations", axes),
    "plans": lambda axes: ts.cluster.step(
        ts.workloads.layered("llama-3-8b", batch=256), "dgx-h100:64", ts.Plan(tensor=8, data=8, sequence=True)
    ).breakdown.plot(axes),
    "sizes": sizes,
}


def main() -> None:
    """Draws those that are named, or all."""
    for name in sys.argv[1:] or PICTURES:
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 8}):
            figure = Figure(figsize=(6.4, 3.0), layout="constrained")
            PICTURES[name](figure.subplots())
            figure.savefig(accuracy_page.PICTURES / f"{name}.svg", format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
