"""The best times of plans by their tensor and pipeline axes, and why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import figures
from ...base.columns import layout, number
from ...base.drawing import axes_or_new, plain
from ...base.screen import Lines, wrapped
from ...base.table import Table
from ...models.layered import Layered
from ..memory import GIB
from ..plan import Plan

__all__ = ["PlanMap", "cells"]

Array = NDArray[np.float64]
SHORT = {"memory": "too large", "shape": "–", "not tried": "?"}


class PlanMap(Table):
    """Rows tensor, pipeline, seconds (of the best plan that fits), plan, peak_bytes, kind ("", "memory", "shape", "not
    tried"), reason; it prints as a grid and `.plot()` draws it."""

    def __init__(self, rows: list[dict[str, Any]], title: str) -> None:
        """Holds rows.

        Args:
            rows: of `cells`.
            title: of the picture.
        """
        super().__init__(rows, _lines)
        self.title = title

    def plot(self, axes: Any = None) -> Any:
        """Tensor down, pipeline across: times of the best plans, and in grey what does not fit or divide.

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
            place = tensors.index(tensor), pipelines.index(pipeline)
            if row["seconds"] is not None:
                times[place] = np.log10(row["seconds"])
            label = SHORT[row["kind"]] if row["kind"] else figures.duration(row["seconds"])
            axes.text(place[1], place[0], plain(label), ha="center", va="center", fontsize=7)
        axes.set_facecolor("0.9")
        axes.imshow(times, cmap="YlGn_r", aspect="auto")
        axes.set_xticks(range(len(pipelines)), [str(one) for one in pipelines])
        axes.set_yticks(range(len(tensors)), [str(one) for one in tensors])
        axes.set(xlabel="pipeline", ylabel="tensor")
        axes.set_title(plain(self.title), fontsize=9)
        return axes


def _grid(rows: Sequence[dict[str, Any]]) -> tuple[list[int], list[int], dict[tuple[int, int], dict[str, Any]]]:
    at = {(row["tensor"], row["pipeline"]): row for row in rows}
    return sorted({key[0] for key in at}), sorted({key[1] for key in at}), at


def _lines(rows: list[dict[str, Any]]) -> Lines:
    tensors, pipelines, at = _grid(rows)
    best = min((row["seconds"] for row in rows if row["seconds"] is not None), default=None)
    columns = [number("tensor"), *(number(f"pipeline {one}" if not i else str(one)) for i, one in enumerate(pipelines))]
    grid = []
    for tensor in tensors:
        line = [str(tensor)]
        for pipeline in pipelines:
            row = at.get((tensor, pipeline))
            if row is None:
                line.append("")
            elif row["kind"]:
                line.append(SHORT[row["kind"]])
            else:
                line.append(figures.duration(row["seconds"]) + (" *" if row["seconds"] == best else ""))
        grid.append(line)
    told: dict[str, str] = {}
    for row in rows:
        if row["kind"] == "shape":
            told.setdefault(row["reason"], f"–: tensor {row['tensor']}, pipeline {row['pipeline']}: {row['reason']}")
    notes = [line for text in list(told.values())[:3] for line in wrapped(text, hang="  ")]
    return [*layout(columns, grid), *[line if isinstance(line, list) else [(line, "")] for line in notes]]


def cells(
    w: Layered, devices: int, table: dict[str, Array], seconds: Array, peak: Array, fits: NDArray[np.bool_], whole: bool
) -> list[dict[str, Any]]:
    """One row per tensor and pipeline axis that the devices divide into, up to the workload's heads and layers.

    Args:
        w: the workload.
        devices: all of them are used.
        table: columns "tensor" and "pipeline" of the plans that were priced.
        seconds: of each.
        peak: bytes of each.
        fits: which fit.
        whole: whether all plans were priced.

    Returns:
        Rows tensor, pipeline, seconds, number (of the plan), peak_bytes (of it, or the least), kind, reason.
    """
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
    """Why no plan has these axes; empty where one may."""
    plan = Plan(tensor=tensor, pipeline=pipeline, data=devices // tensor // pipeline)
    return "; ".join(f"{what}: {axis} {value}" for what, axis, value, _ in plan.reasons(w))
