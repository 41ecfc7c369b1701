"""Times pipeline stages of a layered step; simulates schedules that split the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..plan import SCHEDULES
from ..terms import distinct_rows
from .calling import MOST_STAGES, pipeline
from .hops import Hops, layout, part_layers
from .result import PICO, Pipeline
from .schedules import program, run_many

__all__ = [
    "ORDERED", "PERIODIC", "SUMMED", "Stages", "at_least", "carried_out", "forward_stages", "late", "lengths",
    "through", "together", "unlike",
]  # fmt: skip

Array = NDArray[np.float64]
#: schedules whose order Tilesim simulates
ORDERED = ("zb-h1", "zb-h2", "zb-v", "dualpipe")
#: schedules of `ORDERED` whose optimizer waits for no other stage, so the step takes the period
PERIODIC = ("zb-h2",)
#: schedules whose time is a sum for equal stages; unequal stages are simulated
SUMMED = ("1f1b", "gpipe", "interleaved")
MOST_UNLIKE = 1 << 17  # most simulated passes of unequal stages; the bound is close for more


@dataclass(frozen=True)
class Stages:
    """Seconds per micro-batch, one number per plan, of a layer, of head and embedding, and of every stage.

    `ends_…`: head and embedding; `fixed`: every forward and backward pass together, without the sends (`hops`);
    `computed_…`: the part of a layer that a slow device extends; `slow`: slow devices and shares of their rate.
    """

    forward: Array
    backward_input: Array
    backward_weight: Array
    ends_forward: Array
    ends_input: Array
    ends_weight: Array
    fixed: Array
    computed_forward: Array
    computed_input: Array
    slow: tuple[tuple[int, float], ...] = ()
    hops: Hops | None = None

    @property
    def sends(self) -> Array:
        """Returns the least seconds of a stage's forward and backward pass without its layers."""
        return self.fixed + (0.0 if self.hops is None else 2 * self.hops.least)


def lengths(schedule: str, rows: NDArray[np.int64], c: Columns, of: Stages, summed: bool = False) -> dict[str, Array]:
    """Returns the seconds of each kind of pass by stage and chunk."""
    stages = int(c.pipeline[rows[0]])
    places = layout(schedule, stages, int(c.virtual[rows[0]]))
    parts = int(places.part.max()) + 1
    layers = part_layers(int(c.layers[rows[0]]), parts)[places.part][:, None]
    slow = late(stages, c.devices[rows], of.slow)[places.stage] if of.slow else None
    head, share = (places.stage == stages - 1, c.virtual[rows]) if summed else (places.last, np.ones(len(rows)))
    borders = None if of.hops is None else of.hops.borders(rows, stages)
    found = {}
    for name, layer, ends, way, computed in (
        ("forward", of.forward, of.ends_forward, places.forward, of.computed_forward),
        ("backward_input", of.backward_input, of.ends_input, places.backward, of.computed_input),
        ("backward_weight", of.backward_weight, of.ends_weight, None, of.backward_weight),
    ):
        own = layers * layer[rows] + (0.0 if way is None else 0.5 * of.fixed[rows])
        if way is not None and borders is not None:
            own += borders[way]
        own[head] += ends[rows] / share
        if slow is not None:
            own += slow * layers * computed[rows]
            own[head] += slow[head] * ends[rows] / share
        found[name] = own
    return found


def late(stages: int, devices: Array, slow: tuple[tuple[int, float], ...]) -> Array:
    """Returns each stage's delay relative to its compute time, because all devices of a stage wait for the slowest."""
    found = np.zeros((stages, len(devices)))
    for device, share in slow:
        stage, plans = (device // (devices / stages)).astype(np.int64), np.arange(len(devices))
        found[stage, plans] = np.maximum(found[stage, plans], 1 / share - 1)
    return found


def forward_stages(c: Columns, of: Stages) -> tuple[Array, Array]:
    """A micro-batch's forward pass with each stage's own times, including slow devices. Without backward passes and
    with equal micro-batches, all m of them (multiples of the stages if these have v chunks) end after m times the
    slowest stage and one chunk of each other stage: the slowest stage never waits after its start.
    """
    slowest, whole = np.empty(len(c)), np.empty(len(c))
    kinds = np.stack([c.schedule, c.pipeline, c.virtual, c.layers], axis=1)
    keys, index = distinct_rows(kinds)
    for number, (schedule, stages, virtual, _) in enumerate(keys.tolist()):
        rows = np.flatnonzero(index == number)
        passes = lengths(SCHEDULES[int(schedule)], rows, c, of, summed=True)["forward"]
        own = passes.reshape(int(virtual), int(stages), len(rows)).sum(axis=0)
        slowest[rows], whole[rows] = own.max(axis=0), own.sum(axis=0)
    return slowest, whole


def unlike(c: Columns, slow: bool, per_node: float) -> NDArray[np.bool_]:
    """Whether a plan of `SUMMED` has stages that differ in layers, computing or sends, so that sums are only a bound.
    Tilesim then simulates its order if it has at most `MOST_UNLIKE` passes.
    """
    p, m, v = c.pipeline, c.micro_batches, c.virtual
    mixed = (c.devices > per_node) & (c.devices / p < per_node)
    different = (p > 1) if slow else (p > 1) & ((c.layers % p != 0) | mixed)
    known = (p <= MOST_STAGES) & (2 * p * v * m <= MOST_UNLIKE) & ((v == 1) | (m % p == 0))
    return np.asarray(different & known & (c.schedule < SCHEDULES.index("zb-h1")))


def _summed_at_least(names: NDArray[np.str_], c: Columns, stages: Stages) -> Array:
    """Least seconds of a schedule of `SUMMED`: for the last stage, the last stage with most layers, the first stage and
    slow stages: the passes, the time before the first and after the last pass, and (one chunk) the wait before the
    first backward pass."""
    p, m, v = c.pipeline, c.micro_batches, c.virtual
    layer = stages.forward + stages.backward_input + stages.backward_weight
    ends, fixed = stages.ends_forward + stages.ends_input + stages.ends_weight, stages.sends * v
    most, least = np.ceil(c.layers / p), np.floor(c.layers / p)
    full, thin = most * layer + fixed, least * layer + fixed
    found = m * (thin + ends) + (c.layers * layer + p * fixed - thin) / v
    top = np.where(most > least, c.layers % p, p - 1)  # stages with most layers; the last stage has the head
    for stage in (top - 1, np.zeros(len(c))):
        ahead = np.where(names == "gpipe", m, np.minimum(m, p - stage))
        behind = (top - 1 - stage) * full + (p - top) * thin + ends
        gap = behind - (ahead - 1) * (most * stages.forward + fixed / 2)
        found = np.maximum(found, stage * full / v + m * full + np.where(v > 1, 0.0, np.maximum(gap, 0.0)))
    computed = stages.computed_forward + stages.computed_input + stages.backward_weight
    for device, share in stages.slow:
        stage = np.floor(device / (c.devices / p))
        layers, last = np.where(stage < c.layers % p, most, least), stage == p - 1
        own = layers * (layer + (1 / share - 1) * computed) + fixed + np.where(last, ends / share, 0.0)
        found = np.maximum(found, stage * thin / v + m * own)
    return np.asarray(found)


def carried_out(schedule: str, row: int, c: Columns, of: Stages) -> Pipeline:
    """Simulates the pipeline of one plan."""
    stages, virtual = int(c.pipeline[row]), int(c.virtual[row])
    times: dict[str, Any] = {
        name: table[:, 0].reshape(-1, stages).T.tolist()
        for name, table in lengths(schedule, np.array([row]), c, of).items()
    }
    return pipeline(schedule, stages, int(c.micro_batches[row]), virtual, **times)


def through(names: list[str], c: Columns, stages: Stages) -> tuple[Array, dict[int, Pipeline]]:
    """Simulates plans with a schedule name; returns the seconds until all micro-batches end, and the pipelines.

    For `zb-h2`, the time is the period: its optimizer does not wait for other stages, so the next step starts early.
    """
    seconds, found = np.full(len(c), np.nan), {}
    for row, name in enumerate(names):
        if name in ORDERED:
            found[row] = carried_out(name, row, c, stages)
            seconds[row] = found[row].period_seconds if name in PERIODIC else found[row].seconds
    if any(name in SUMMED for name in names):
        others = together([name if name in SUMMED else "" for name in names], c, stages)[0]
        seconds = np.where(np.isnan(seconds), others, seconds)
    return seconds, found


def at_least(names: list[str], c: Columns, stages: Stages) -> tuple[Array, dict[int, Pipeline]]:
    """Returns a schedule's least seconds. A stage begins after a forward pass of the earlier stages, and runs all its
    passes; the busiest stage needs at least the mean.
    """
    p, m, table = c.pipeline, c.micro_batches, np.array(names)
    layer = stages.forward + stages.backward_input + stages.backward_weight
    ends = stages.ends_forward + stages.ends_input + stages.ends_weight
    fixed = stages.sends * c.ways
    mean = m * (c.layers / p * layer + fixed + ends / p)
    most, least = np.ceil(c.layers / p), np.floor(c.layers / p)
    before = (p - 1) * (least * stages.forward + stages.sends / 2)
    last = m * (least * layer + fixed + ends)
    first = m * (most * layer + fixed)
    one = np.maximum(np.maximum(first, before + last), mean)  # zb-h1
    period = np.maximum(np.maximum(first, last), mean)  # zb-h2
    folded = np.maximum(last, (p - 1) * (least / 2 * stages.forward + stages.sends / 2) + first)  # zb-v: layers divide
    found = np.select([table == "zb-h1", table == "zb-h2", table == "zb-v", table == "dualpipe"],
                      [one, period, folded, mean], np.nan)  # fmt: skip
    if any(name in SUMMED for name in names):
        found = np.where(np.isin(table, SUMMED), _summed_at_least(table, c, stages), found)
    return found, {}


def together(names: list[str], c: Columns, of: Stages) -> tuple[Array, dict[int, Pipeline]]:
    """Does the same as `through`, but simulates plans with equal schedule, stages and micro-batches together."""
    seconds = np.full(len(c), np.nan)
    groups: dict[tuple[str, int, int, int], list[int]] = {}
    for row, name in enumerate(names):
        if name:
            shape = int(c.pipeline[row]), int(c.micro_batches[row]), int(c.virtual[row])
            groups.setdefault((name, *shape), []).append(row)
    for (name, stages, micros, virtual), own in groups.items():
        rows = np.array(own)
        table = [_pico(one) for one in lengths(name, rows, c, of).values()]
        begins, ends = run_many(program(name, stages, micros, virtual), table)
        span = np.max(ends - begins, axis=0) if name in PERIODIC else np.max(ends, axis=0)
        seconds[rows] = span / PICO
    return seconds, {}


def _pico(seconds: Array) -> NDArray[np.int64]:
    """Converts seconds to integer picoseconds, rounded up."""
    return np.ceil(np.round(seconds * PICO, 3)).astype(np.int64)
