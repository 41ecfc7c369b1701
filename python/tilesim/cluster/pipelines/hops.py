"""Maps model parts to stages, and counts sends inside and between nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..plan import SCHEDULES
from ..terms import distinct_rows
from .order import Placement
from .schedules import PLACED, chunks_of

__all__ = ["Hops", "Layout", "SendCounts", "layout", "part_layers"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Arrays over chunks of stages (index chunk × stages + stage): the stage, the model part, whether it is the last
    part, and the borders over which its pass and gradient send. Border s is between stages s and s + 1; the last border
    is between the last stage and the first."""

    stage: Integers
    part: Integers
    last: NDArray[np.bool_]
    forward: Integers
    backward: Integers


@lru_cache(256)
def layout(schedule: str, stages: int, virtual: int = 1) -> Layout:
    """Returns the layout of a schedule. A pass without a send (its next part is on the same stage, or it is the last
    part) counts as long as one that sends over the border from which it received.
    """
    placed = Placement(PLACED[schedule], stages, chunks_of(schedule, virtual))
    places = [(stage, chunk) for chunk in range(placed.chunks) for stage in range(stages)]

    def border(one: int, other: int) -> int:
        low, high = sorted((one, other))
        return high if stages > 2 and low == 0 and high == stages - 1 else low

    def way(place: tuple[int, int], first: bool) -> int:
        ways = (placed.after, placed.before) if first else (placed.before, placed.after)
        for neighbours in ways:
            other = neighbours[place]
            if other is not None and other[0] != place[0]:
                return border(place[0], other[0])
        return 0

    part = np.array([placed.position(*place) for place in places])
    stage = np.array([place[0] for place in places])
    sends = [np.array([way(place, first) for place in places]) for first in (True, False)]
    return Layout(stage, part, part == part.max(), *sends)


def part_layers(layers: int, parts: int) -> Array:
    """Returns the number of layers of each model part; the first parts get the remainder."""
    least, more = divmod(layers, parts)
    return np.array([least + (part < more) for part in range(parts)], dtype=np.float64)


@lru_cache(1 << 12)
def _crosses_nodes(stages: int, stride: int, node: int) -> NDArray[np.bool_]:
    """Whether any device of each stage sends to another node to reach the next stage (from the last, the first)."""
    devices = np.arange(stages * stride).reshape(stages, stride) // node
    return np.asarray(np.any(devices != np.roll(devices, -1, axis=0), axis=1))


@lru_cache(1 << 12)
def _counts(schedule: str, sizes: tuple[int, ...], back: bool) -> tuple[float, ...]:
    """Counts a micro-batch's sends between nodes; `sizes`: stages, chunks, devices per stage, devices per node,
    layers. Returns most and fewest of stages with most layers, most and fewest of others, the last's, and the sum."""
    stages, virtual, stride, node, layers = sizes
    places, far = layout(schedule, stages, virtual), _crosses_nodes(stages, stride, node)
    copies = 2 if PLACED[schedule] == "both_ways" else 1
    own = np.zeros(stages)
    np.add.at(own, places.stage, (far[places.forward] + (far[places.backward] if back else 0.0)) / copies)
    held = part_layers(layers, stages)
    held = held + held[::-1] if copies > 1 else held
    full, thin = own[held == held.max()], own[held < held.max()]
    thin = thin if len(thin) else full
    return full.max(), full.min(), thin.max(), thin.min(), own[-1], own.sum()


@dataclass(frozen=True)
class SendCounts:
    """Sends of a micro-batch, one number per plan. `calls`: per stage; `out`: those that leave the node on the slowest
    stage with most layers. Seconds of sends on that stage (`full`), on the slowest other stage (`thin`), on the `last`,
    and on all stages in sequence (`whole`)."""

    calls: Array
    out: Array
    full: Array
    thin: Array
    last: Array
    in_sequence: Array


@dataclass(frozen=True)
class Hops:
    """Seconds of a send to the next stage, one number per plan: inside a node, and between nodes. Plans that are not
    `mixed` have one kind of send, and both numbers are equal. `out`: whether a send leaves its node; `stride`: devices
    of a stage; `node`: devices of a node."""

    near: Array
    far: Array
    out: NDArray[np.bool_]
    mixed: NDArray[np.bool_]
    stride: Array
    node: Array

    @property
    def least(self) -> Array:
        """Returns the seconds of each plan's shortest send."""
        return np.minimum(self.near, self.far)

    def node_borders(self, row: int, stages: int) -> NDArray[np.bool_]:
        """Returns which borders between a plan's stages are between nodes."""
        if not self.mixed[row]:
            return np.full(stages, bool(self.out[row]))
        return _crosses_nodes(stages, int(self.stride[row]), int(self.node[row]))

    def borders(self, rows: Integers, stages: int) -> Array:
        """Returns the seconds of a send over every border."""
        found = np.repeat(self.far[rows][None], stages, axis=0)
        mixed = np.flatnonzero(self.mixed[rows])
        keys, index = distinct_rows(np.stack([self.stride[rows][mixed], self.node[rows][mixed]], axis=1))
        for number, (stride, node) in enumerate(keys.tolist()):
            own = mixed[index == number]
            way = _crosses_nodes(stages, int(stride), int(node))[:, None]
            found[:, own] = np.where(way, self.far[rows[own]], self.near[rows[own]])
        return found

    def counted(self, c: Columns, back: bool) -> SendCounts:
        """Counts each stage's sends per micro-batch; `back` includes those of backward passes."""
        calls = (2.0 if back else 1.0) * c.ways * c.virtual
        full = calls * self.far
        thin, last, whole, out = full.copy(), full.copy(), c.pipeline * full, np.where(self.out, calls, 0.0)
        mixed = np.flatnonzero(self.mixed)
        if not len(mixed):
            return SendCounts(calls, out, full, thin, last, whole)
        table = (c.schedule, c.pipeline, c.virtual, self.stride, self.node, c.layers)
        keys, index = distinct_rows(np.stack([one[mixed] for one in table], axis=1))
        counts = np.array([
            _counts(SCHEDULES[int(row[0])], tuple(map(int, row[1:])), back) for row in keys.tolist()
        ])[index].T  # fmt: skip
        near, far, every = self.near[mixed], self.far[mixed], calls[mixed]
        longer = far >= near
        out[mixed] = np.where(longer, counts[0], counts[1])
        for found, count, stages in (
            (full, out[mixed], 1.0), (thin, np.where(longer, counts[2], counts[3]), 1.0), (last, counts[4], 1.0),
            (whole, counts[5], c.pipeline[mixed]),
        ):  # fmt: skip
            found[mixed] = count * far + (stages * every - count) * near
        return SendCounts(calls, out, full, thin, last, whole)
