"""Stages of a layered step under schedules that divide the backward pass: their order is carried out, not summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from .calling import pipeline
from .many import program, run_many
from .result import PICO, Pipeline

__all__ = ["ORDERED", "PERIODIC", "Stages", "at_least", "carried_out", "through", "together"]

Array = NDArray[np.float64]
#: schedules whose time is that of their order
ORDERED = ("zb-h1", "zb-h2", "zb-v", "dualpipe")
#: those of them whose optimizer waits for no other stage: their time is the period
PERIODIC = ("zb-h2",)


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


def _seconds(schedule: str, rows: NDArray[np.int64], c: Columns, of: Stages) -> dict[str, Array]:
    """Seconds of passes by kind, shape [parts of the model, rows]; rows have one number of stages."""
    parts = int(c.pipeline[rows[0]]) * (2 if schedule == "zb-v" else 1)
    layers = _parts(int(c.layers[rows[0]]), parts)
    found = {}
    for name, layer, ends, sent in (
        ("forward", of.forward, of.ends_forward, 0.5),
        ("backward_input", of.backward_input, of.ends_input, 0.5),
        ("backward_weight", of.backward_weight, of.ends_weight, 0.0),
    ):
        found[name] = layers[:, None] * layer[rows] + sent * of.sends[rows]
        found[name][-1] += ends[rows]
    return found


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
    times: dict[str, Any] = {}
    for name, table in _seconds(schedule, np.array([row]), c, of).items():
        each = table[:, 0]
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
            seconds[row] = found[row].period_seconds if name in PERIODIC else found[row].seconds
    return seconds, found


def at_least(names: list[str], c: Columns, of: Stages) -> tuple[Array, dict[int, Pipeline]]:
    """Seconds that a schedule of `ORDERED` takes at least: a stage begins when the stages before it have done a forward
    pass, and does all its passes; the busiest is no shorter than the mean.

    Args:
        names: schedule of each plan.
        c: workloads and plans.
        of: seconds of stages.

    Returns:
        Seconds (not a number for other schedules), and no pipelines.
    """
    p, m, table = c.pipeline, c.micro_batches, np.array(names)
    layer = of.forward + of.backward_input + of.backward_weight
    ends = of.ends_forward + of.ends_input + of.ends_weight
    fixed = of.sends * c.ways
    mean = m * (c.layers / p * layer + fixed + ends / p)
    most, least = np.ceil(c.layers / p), np.floor(c.layers / p)
    before = (p - 1) * (least * of.forward + of.sends / 2)
    last = m * (least * layer + fixed + ends)
    first = m * (most * layer + fixed)
    one = np.maximum(np.maximum(first, before + last), mean)  # zb-h1
    period = np.maximum(np.maximum(first, last), mean)  # zb-h2
    folded = np.maximum(last, (p - 1) * (least / 2 * of.forward + of.sends / 2) + first)  # zb-v: layers divide
    found = np.select([table == "zb-h1", table == "zb-h2", table == "zb-v", table == "dualpipe"],
                      [one, period, folded, mean], np.nan)  # fmt: skip
    return found, {}


def together(names: list[str], c: Columns, of: Stages) -> tuple[Array, dict[int, Pipeline]]:
    """As `through`, for many plans: those of one schedule, stages and micro-batches are carried out at once.

    Args:
        names: schedule of each plan.
        c: workloads and plans.
        of: seconds of stages.

    Returns:
        Seconds (not a number for other schedules), and no pipelines.
    """
    seconds = np.full(len(c), np.nan)
    groups: dict[tuple[str, int, int], list[int]] = {}
    for row, name in enumerate(names):
        if name in ORDERED:
            groups.setdefault((name, int(c.pipeline[row]), int(c.micro_batches[row])), []).append(row)
    for (name, stages, micros), own in groups.items():
        rows = np.array(own)
        table = [_pico(one) for one in _seconds(name, rows, c, of).values()]
        begins, ends = run_many(program(name, stages, micros), table, stages)
        span = np.max(ends - begins, axis=0) if name in PERIODIC else np.max(ends, axis=0)
        seconds[rows] = span / PICO
    return seconds, {}


def _pico(seconds: Array) -> NDArray[np.int64]:
    """Whole picoseconds, rounded up."""
    return np.ceil(np.round(seconds * PICO, 3)).astype(np.int64)
