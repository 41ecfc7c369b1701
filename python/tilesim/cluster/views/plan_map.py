"""The best plans by tensor and pipeline axes, and reasons for missing ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import figures
from ...base.columns import layout, number
from ...base.drawing import axes_or_new, no_math
from ...base.screen import Lines, wrapped
from ...base.table import Table
from ...models.layered import Layered
from ..memory import GIB
from ..plan import Plan

__all__ = ["PlanMap", "cells", "lines"]

Array = NDArray[np.float64]
SHORT = {"": "", "memory": "too large", "shape": "–", "not tried": "?"}


class PlanMap(Table):
    """Rows tensor, pipeline, seconds (of the best plan that fits), plan, peak_bytes, kind ("", "memory", "shape", "not
    tried"), reason; it prints as a grid and `.plot()` draws it."""

    def __init__(self, rows: list[dict[str, Any]], title: str) -> None:
        """Stores rows and title."""
        super().__init__(rows, lines)
        self.title = title

    def plot(self, axes: Any = None) -> Any:
        """Draws times of the best plans over tensor (rows) and pipeline (columns); grey cells have no legal plan.

        Args:
            axes: matplotlib axes; none: new ones.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib.
        """
        axes = axes_or_new(axes, 4.2)
        tensors, pipelines, at = _grid(self.rows)
        times = np.full((len(tensors), len(pipelines)), np.nan)
        for (tensor, pipeline), row in at.items():
            if tensor not in tensors or pipeline not in pipelines:
                continue
            place = tensors.index(tensor), pipelines.index(pipeline)
            if row["seconds"] is not None:
                times[place] = np.log10(row["seconds"])
            label = SHORT[row["kind"]] or figures.duration(row["seconds"])
            axes.text(place[1], place[0], no_math(label), ha="center", va="center", fontsize=7)
        axes.set_facecolor("0.9")
        axes.imshow(times, cmap="YlGn_r", aspect="auto", alpha=0.5)
        axes.set_xticks(range(len(pipelines)), [str(one) for one in pipelines])
        axes.set_yticks(range(len(tensors)), [str(one) for one in tensors])
        axes.set(xlabel="pipeline", ylabel="tensor")
        axes.set_title(no_math(self.title), fontsize=9)
        return axes


def _grid(rows: Sequence[dict[str, Any]]) -> tuple[list[int], list[int], dict[tuple[int, int], dict[str, Any]]]:
    """Returns the sizes of legal tensor axes and pipeline axes, and the rows by both."""
    at = {(row["tensor"], row["pipeline"]): row for row in rows}
    legal = [key for key, row in at.items() if row["kind"] != "shape"]
    return sorted({key[0] for key in legal}), sorted({key[1] for key in legal}), at


def lines(rows: list[dict[str, Any]]) -> Lines:
    """Formats rows of `cells` as a grid, with reasons for empty cells."""
    tensors, pipelines, at = _grid(rows)
    best = min((row["seconds"] for row in rows if row["seconds"] is not None), default=None)
    own = next((row["pipeline"] for row in rows if best is not None and row["seconds"] == best), 1)
    near = sorted(pipelines, key=lambda one: abs(math.log(one / own)))  # a narrow terminal keeps columns near the best
    columns = [number("tensor \\ pipeline"), *(number(str(one), near.index(one)) for one in pipelines)]
    grid = []
    for tensor in tensors:
        line = [str(tensor)]
        for pipeline in pipelines:
            row = at.get((tensor, pipeline))
            best_ = " *" if row is not None and best is not None and row["seconds"] == best else ""
            line.append("" if row is None else SHORT[row["kind"]] or figures.duration(row["seconds"]) + best_)
        grid.append(line)
    told: dict[str, list[str]] = {}
    for row in rows:
        if row["kind"] == "shape" and row["tensor"] in tensors and row["pipeline"] in pipelines:
            told.setdefault(row["reason"], []).append(f"tensor {row['tensor']} × pipeline {row['pipeline']}")
        elif row["kind"] == "shape" and row["pipeline"] == 1:
            told.setdefault(row["reason"], []).append(f"tensor {row['tensor']}")
    notes = [f"{', '.join(where)}: {why}" for why, where in told.items()]
    if any(row["kind"] == "memory" for row in rows):
        notes.insert(0, "too large: no plan with these axes fits into memory")
    grid_ = layout(columns, grid) if grid else []
    return [*grid_, *([(line, "")] for text in notes for line in wrapped(text, hang="  "))]


def cells(
    w: Layered, devices: int, table: dict[str, Array], seconds: Array, peak: Array, fits: NDArray[np.bool_], whole: bool
) -> list[dict[str, Any]]:
    """Makes one row per tensor and pipeline size that divide the devices, up to the workload's heads and layers."""
    rows = []
    divisors = [one for one in range(1, max(w.heads, w.layers) + 1) if devices % one == 0]
    for tensor in (one for one in divisors if one <= w.heads):
        for pipeline in (one for one in divisors if one <= w.layers and devices % (one * tensor) == 0):
            own = np.flatnonzero((table["tensor"] == tensor) & (table["pipeline"] == pipeline))
            row: dict[str, Any] = {"tensor": tensor, "pipeline": pipeline, "seconds": None, "number": None,
                                   "peak_bytes": None, "kind": "", "reason": ""}  # fmt: skip
            good = own[fits[own]]
            if len(good):
                best = good[np.lexsort((peak[good], seconds[good]))[0]]
                row |= {"seconds": float(seconds[best]), "number": int(best), "peak_bytes": int(peak[best])}
            elif len(own):
                least = int(peak[own].min())
                row |= {"peak_bytes": least, "kind": "memory", "reason": f"at least {least / GIB:.1f} GiB of a device"}
            else:
                why = _shape(w, devices, tensor, pipeline)
                row |= {"kind": "shape" if whole or why else "not tried", "reason": why or "not tried"}
            rows.append(row)
    return rows


def _shape(w: Layered, devices: int, tensor: int, pipeline: int) -> str:
    """Returns the reasons why no plan can have these sizes; "" if a plan can."""
    plan = Plan(tensor=tensor, pipeline=pipeline, data=devices // tensor // pipeline)
    return "; ".join(dict.fromkeys(what for what, *_ in plan.reasons(w)))
