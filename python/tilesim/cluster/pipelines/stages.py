"""Stages of a layered step under schedules that divide the backward pass: their order is carried out, not summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from .calling import pipeline
from .result import Pipeline

__all__ = ["ORDERED", "Stages", "carried_out", "through"]

Array = NDArray[np.float64]
#: schedules whose time is that of their order
ORDERED = ("zb-h1", "zb-h2", "zb-v", "dualpipe")


@dataclass(frozen=True)
class Stages:
    """Seconds per micro-batch, one number per plan: of a layer, of what the last part has besides, of every stage.

    `ends_…`: head and embedding; `sends`: from a stage and to it, forward and back together, with the host's part.
    """

    forward: Array
    backward_input: Array
    backward_weight: Array
    ends_forward: Array
    ends_input: Array
    ends_weight: Array
    sends: Array


def _parts(layers: int, parts: int) -> NDArray[np.float64]:
    """Layers of each part of a model: the first have one more where they do not divide."""
    least, more = divmod(layers, parts)
    return np.array([least + (part < more) for part in range(parts)], dtype=np.float64)


def carried_out(schedule: str, row: int, c: Columns, of: Stages) -> Pipeline:
    """The passes of one plan in their order.

    Args:
        schedule: of `ts.cluster.pipeline`.
        row: number of the plan.
        c: workloads and plans.
        of: seconds of stages.

    Returns:
        The pipeline.
    """
    stages, two = int(c.pipeline[row]), schedule == "zb-v"
    parts = stages * (2 if two else 1)
    layers = _parts(int(c.layers[row]), parts)
    times: dict[str, Any] = {}
    for name, layer, ends, sent in (
        ("forward", of.forward, of.ends_forward, 0.5),
        ("backward_input", of.backward_input, of.ends_input, 0.5),
        ("backward_weight", of.backward_weight, of.ends_weight, 0.0),
    ):
        each = layers * layer[row] + sent * of.sends[row]
        each[-1] += ends[row]
        # as a V the last part lies beside the first one
        times[name] = [[each[s], each[parts - 1 - s]] for s in range(stages)] if two else each.tolist()
    return pipeline(schedule, stages, int(c.micro_batches[row]), **times)


def through(names: list[str], c: Columns, of: Stages) -> tuple[Array, dict[int, Pipeline]]:
    """Seconds until all micro-batches are through, of those plans whose schedule is one of `ORDERED`.

    Of `zb-h2` it is the period: its optimizer does not wait for the other stages, and the next step follows as closely.

    Args:
        names: schedule of each plan.
        c: workloads and plans.
        of: seconds of stages.

    Returns:
        Seconds (not a number for other schedules), and the pipelines by number of the plan.
    """
    seconds, found = np.full(len(c), np.nan), {}
    for row, name in enumerate(names):
        if name in ORDERED:
            found[row] = carried_out(name, row, c, of)
            seconds[row] = found[row].period_seconds if name == "zb-h2" else found[row].seconds
    return seconds, found
