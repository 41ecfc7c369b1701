"""Collects the times of a step's passes by stage and chunk, for timelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..plan import SCHEDULES
from .calling import pipeline
from .hops import layout, part_layers
from .result import Pipeline
from .stages import Stages, late, lengths

__all__ = ["PassTimes", "passes_of_step"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PassTimes:
    """Passes in their order. For each stage and chunk, shape [stages, chunks]: layers; by kind F and B the seconds of
    head, embedding and send, and whether the send leaves the node; and the relative compute time that a slow device
    adds."""

    pipe: Pipeline
    layers: Array
    ends: dict[str, Array]
    sends: dict[str, Array]
    out: dict[str, NDArray[np.bool_]]
    late: Array


def passes_of_step(c: Columns, of: Stages, summed: bool, forward: bool) -> PassTimes:
    """Returns the passes of one step."""
    schedule, stages = SCHEDULES[int(c.schedule[0])], int(c.pipeline[0])
    virtual, row = int(c.virtual[0]), np.array([0])
    places = layout(schedule, stages, virtual)

    def table(values: Any) -> Any:
        return values.reshape(-1, stages).T

    head, share = (places.stage == stages - 1, virtual) if summed else (places.last, 1)
    ends = {"F": of.ends_forward[0], "B": of.ends_input[0] + of.ends_weight[0]}
    assert of.hops is not None
    borders, out = of.hops.borders(row, stages)[:, 0], of.hops.node_borders(0, stages)
    ways = {"F": places.forward, "B": places.backward}
    each = {name: table(one[:, 0]).tolist() for name, one in lengths(schedule, row, c, of, summed).items()}
    micros = int(c.micro_batches[0])
    if forward:  # gpipe runs the forward passes first; backward passes take no time
        pipe = pipeline("gpipe", stages, micros, forward=each["forward"], backward_input=0.0)
    else:
        pipe = pipeline(schedule, stages, micros, virtual, **each)
    slow = late(stages, c.devices, of.slow)[places.stage, 0] if of.slow else np.zeros(len(places.stage))
    layers = part_layers(int(c.layers[0]), int(places.part.max()) + 1)
    heads = {kind: table(np.where(head, one / share, 0.0)) for kind, one in ends.items()}
    sends, leaves = ({kind: table(of_border[way]) for kind, way in ways.items()} for of_border in (borders, out))
    return PassTimes(pipe, table(layers[places.part]), heads, sends, leaves, table(slow))
