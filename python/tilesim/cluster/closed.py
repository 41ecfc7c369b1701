"""Computes training steps of many plans in closed form: compute, communication, pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .columns import Columns
from .fabric import Fabric
from .hosts.offload import exposed
from .hosts.straggling import slowed
from .pipelines.hops import SendCounts
from .pipelines.result import Pipeline
from .pipelines.stages import Stages, unlike
from .pipelines.stages import through as carried
from .plan import SCHEDULES
from .terms import DeviceWork, Pricer, work
from .training.outside_layers import gathers, gradients, hops, pipeline_traffic, tables, tied
from .training.passes import AxisTraffic, LayerSeconds, gathered_layer, layer_passes, state

__all__ = ["Detail", "StepTimes", "times"]

Array = NDArray[np.float64]
#: function that times schedules with a split backward pass; returns seconds and the simulated pipelines
Ordered = Callable[[list[str], Columns, Stages], tuple[Array, Mapping[int, Pipeline]]]


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a step by part, one number per plan; the parts add up to `seconds`."""

    seconds: Array
    compute: Array
    recompute: Array
    host: Array
    tensor: Array
    context: Array
    expert: Array
    pipeline: Array
    data: Array
    bubble: Array
    optimizer: Array
    offload: Array
    interference: Array
    stage_forward: Array
    stage_backward: Array
    work: DeviceWork
    pipes: Mapping[int, Pipeline] = field(default_factory=dict)
    detail: Detail | None = None
    stages: Stages | None = None

    @property
    def exposed(self) -> Array:
        """Seconds of exposed communication."""
        return self.tensor + self.context + self.expert + self.pipeline + self.data + self.offload


@dataclass(frozen=True)
class Detail:
    """Details of a step.

    `layers`: passes of a layer by name. Seconds: `slowest`: slowest stage per micro-batch, `whole`: sum of all stages,
    `through`: pipeline, `head`: extra time of the slowest stage for head and embedding, `waits`: due to slow devices,
    `first`: additional exposed gather of the first layer. `sent`: traffic of a stage per pass of a chunk (`sends` per
    micro-batch); `last`: traffic after the last pass, with exposed seconds; `tables`: traffic of sharded tables in all
    micro-batches, with their slow-down.
    """

    layers: Mapping[str, LayerSeconds]
    slowest: Array
    whole: Array
    through: Array
    head: Array
    waits: Array
    first: Array
    sent: tuple[AxisTraffic, ...]
    sends: Array
    last: tuple[tuple[AxisTraffic, Array], ...]
    tables: tuple[tuple[AxisTraffic, Array], ...] = ()
    tables_slow: Array | float = 0.0


_LAYER_PARTS = ("compute", "recompute", "host", "tensor", "context", "expert", "data", "offload", "interference")


def _by_order(
    c: Columns, fabric: Fabric, summed: Array, stages: Stages, ordered: Ordered
) -> tuple[Array, Mapping[int, Pipeline]]:
    """Returns the seconds of steps, with simulated pipelines for split backward passes or unequal stages."""
    carried = (c.schedule >= SCHEDULES.index("zb-h1")) | unlike(c, bool(fabric.slow), fabric.per_node)
    if not np.any(carried):
        return summed, {}
    names = [SCHEDULES[int(code)] if carry else "" for code, carry in zip(c.schedule, carried, strict=True)]
    seconds, pipes = ordered(names, c, stages)
    return np.where(np.isnan(seconds), summed, seconds), pipes


def stage_seconds(c: Columns, counted: SendCounts, layer: Array, fixed: Array, ends: Array) -> tuple[Array, Array]:
    """Returns a micro-batch's seconds on the fullest stage, and on the slowest one (with head or longer sends)."""
    fullest = c.stage_layers * layer + fixed + counted.full
    least = np.floor(c.layers / c.pipeline) * layer + fixed
    last = c.both_layers(c.pipeline - 1)[0] * layer + fixed + ends + counted.last
    return fullest, np.max([fullest, np.where(c.copies > 1, 0.0, least + counted.thin), last], axis=0)


def times(
    c: Columns, price: Pricer, fabric: Fabric, k: Mapping[str, float], ordered: Ordered = carried
) -> StepTimes:  # fmt: skip
    """Returns the seconds of training steps by part."""
    w = work(c, price, k)
    forward, backward = layer_passes(c, w, fabric, k)
    m, p, v = c.micro_batches, c.pipeline, c.virtual
    ends = w.head_forward + w.head_backward + w.embedding
    sending, gathered_ = hops(c, fabric, k), gathers(c, fabric, k)
    counted = sending.counted(c, back=True)
    sent = pipeline_traffic(c, sending, counted, gathered_, fabric)
    sends = counted.full + counted.calls * gathered_.seconds
    fixed = counted.calls * gathered_.seconds + k["host_microbatch"]
    layer = forward.seconds + backward.seconds
    fullest, headed = stage_seconds(c, counted, layer, fixed, ends)
    whole = c.layers * layer + ends + p * fixed + counted.in_sequence
    waited = (forward.compute + backward.compute + backward.recompute, ends)
    slowest, whole, more = slowed(c, fabric, fullest, headed, whole, waited)
    stages = Stages(
        forward.seconds, backward.seconds - w.weight_products, w.weight_products, w.head_forward + w.embedding,
        w.head_backward - w.head_weight, w.head_weight, fixed / (c.ways * v), forward.compute,
        backward.compute + backward.recompute - w.weight_products, fabric.slow, sending,
    )  # fmt: skip
    through, pipes = _by_order(c, fabric, m * slowest + (whole - slowest) / v, stages, ordered)
    ahead = c.stage_layers * forward.seconds + sends / 2
    sums, kept = (*gradients(c, fabric, k), tied(c, fabric, k)), state(c, fabric)
    table = sums[-1]
    of_tables, slowing_ = tables(c, fabric, k, ahead)
    reduced = np.sum([one.seconds for one in sums[:-1]] + [one for _, one in of_tables], axis=0)
    optimizer = w.optimizer / min((share for _, share in fabric.slow), default=1.0) + k["host_step"]
    away, slowing = exposed(kept.bytes, w.optimizer, fabric, k)
    slowing = slowing + slowing_
    # a layer's parameters are gathered during the previous layer; the first layer's gather is exposed
    gathered = gathered_layer(c, fabric, k)
    first = gathered - forward.data - forward.data_interference
    own = m * c.stage_layers
    parts = {name: own * (getattr(forward, name) + getattr(backward, name)) for name in _LAYER_PARTS}
    parts["compute"] = parts["compute"] + m * np.where(p > 1, 0.0, ends + more)
    parts["host"] = parts["host"] + m * k["host_microbatch"]
    parts["pipeline"] = m * sends
    bubble = through - sum(parts.values())
    bubble = np.where(np.abs(bubble) < 1e-12 * through, 0.0, bubble)  # differences this small come from rounding
    parts["pipeline"] = parts["pipeline"] + table.seconds
    parts["data"] = parts["data"] + reduced + gathered - forward.data
    parts["offload"] = parts["offload"] + away
    parts["interference"] = parts["interference"] - forward.data_interference + slowing
    return StepTimes(
        through + reduced + table.seconds + first + optimizer + away + slowing,
        **parts,
        bubble=bubble,
        optimizer=optimizer,
        stage_forward=ahead,
        stage_backward=slowest - ahead,
        work=w,
        pipes=pipes,
        stages=stages,
        detail=Detail(
            {"forward": forward, "backward": backward}, slowest, whole, through, headed - fullest, slowest - headed,
            first, sent, counted.calls, (*((one, one.seconds) for one in sums), (kept, away)),
            of_tables, slowing_,
        ),
    )  # fmt: skip
