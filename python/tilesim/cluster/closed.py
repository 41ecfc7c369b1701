"""A training step in closed form, for many plans at once: computing, what passes between devices, the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns import Columns
from .exchange import Group, all_reduce, gather, group, permute, to_all
from .fabric import Fabric
from .terms import Pricer, Work, work

__all__ = ["Detail", "Moved", "Times", "layer_passes", "times"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Times:
    """Seconds of a step by part, one number per plan; parts sum to `seconds`."""

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
    stage_forward: Array
    stage_backward: Array
    work: Work
    detail: Detail | None = None

    @property
    def exposed(self) -> Array:
        """What passes between devices while nothing is computed."""
        return self.tensor + self.context + self.expert + self.pipeline + self.data


@dataclass(frozen=True)
class Moved:
    """What passes over one axis: calls of an operation, bytes of each, seconds of all calls, hidden or not."""

    axis: str
    operation: str
    bytes: Array
    calls: Array
    seconds: Array
    group: Group


@dataclass(frozen=True)
class _Layer:
    """Seconds of one layer and pass; `moved` says what passes between devices, hidden or not."""

    compute: Array
    recompute: Array
    host: Array
    tensor: Array
    expert: Array
    context: Array
    data: Array
    moved: tuple[Moved, ...] = ()

    @property
    def seconds(self) -> Array:
        return self.compute + self.recompute + self.host + self.tensor + self.expert + self.context + self.data


@dataclass(frozen=True)
class Detail:
    """What a step is made of: a layer's passes; seconds of the slowest stage per micro-batch, of all stages one after
    the other, of the pipeline, and by how much a head makes the slowest stage slower than the fullest; what a stage
    sends in a pass of a chunk; what follows the last pass."""

    forward: _Layer
    backward: _Layer
    slowest: Array
    whole: Array
    through: Array
    head: Array
    sent: tuple[Moved, ...]
    last: tuple[Moved, ...]


def _hidden(compute: Array, moved: Array, share: float) -> Array:
    """What is exposed of bytes that move while something is computed; computing is slowed by `share` of the time."""
    return np.where(moved > 0, np.maximum(moved - compute, 0.0) + share * np.minimum(moved, compute), 0.0)


def _waits(busy: Array, launch: Array, blend: float) -> Array:
    """Seconds in which a device waits for its host: launches run ahead of long kernels and behind short ones, and a
    pass has both, so the larger wins smoothly."""
    larger, smaller = np.maximum(busy, launch), np.minimum(busy, launch)
    ratio = smaller / np.where(larger > 0, larger, 1.0)
    return larger * (1.0 + ratio**blend) ** (1.0 / blend) - busy


def _sharded(c: Columns, fabric: Fabric) -> Group:
    """Devices over which parameters are divided: the data axis; inside a slice where slices are joined by another
    network."""
    data = group(c, "data", fabric)
    return Group(data.inner, data.inner, data.beside) if fabric.slices else data


def layer_passes(c: Columns, w: Work, fabric: Fabric, k: Mapping[str, float]) -> tuple[_Layer, _Layer]:
    """A layer forward and backward, with what it recomputes and what passes between devices.

    Args:
        c: workloads and plans.
        w: what a device computes.
        fabric: links.
        k: constants of the framework.

    Returns:
        Both, in seconds.
    """
    tensor, data = group(c, "tensor", fabric), _sharded(c, fabric)
    wide = c.tokens * c.hidden * c.element_bytes
    sums = 2 * all_reduce(wide, tensor, fabric, k)
    again = np.where(c.again, sums, 0.0)
    sent, experts = wide * np.maximum(1.0, c.experts_chosen) / c.tensor, group(c, "expert", fabric)
    routed = np.where(c.expert > 1, 2 * to_all(sent, experts, fabric, k), 0.0)
    kv = 2 * c.tokens * c.kv_heads * c.head_size * c.element_bytes / c.tensor
    around = group(c, "context", fabric)
    ring = (c.context - 1) * permute(kv, around, fabric, k)
    weights = c.layer_parameters / c.tensor
    gathered = np.where(c.shard >= 3, gather(weights * c.element_bytes, data, fabric, k), 0.0)
    summed = np.where(c.shard >= 3, gather(weights * c.parameter_bytes, data, fabric, k), 0.0)
    forward, backward, recompute = w.forward.seconds, w.backward.seconds, w.recompute.seconds
    share = k["interference"]
    # processes that launch apart meet at each sum: the last decides
    launch = k["host_pass"] + k["host_straggler"] * (c.tensor - 1)
    host_f = _waits(forward + sums + routed, launch, k["host_blend"])
    back = backward + recompute
    passes = 1 + np.where(c.again, 1.0, 0.0)
    host_b = _waits(back + sums + again + 2 * routed, passes * launch, k["host_blend"])
    ring_f = _hidden(w.forward.attention, ring, share)
    ring_b = _hidden(w.backward.attention, 2 * ring, share)
    busy_f, busy_b = forward + host_f + sums, back + host_b + sums + again
    zero, one = np.zeros(len(c)), np.ones(len(c))

    def moved(times: int, repeated: Array) -> tuple[Moved, ...]:
        return (
            Moved("tensor", "all_reduce", wide, 2 * repeated, sums * repeated, tensor),
            Moved("expert", "all_to_all", sent, 2 * times * one, times * routed, experts),
            Moved("context", "permute", kv, times * (c.context - 1), times * ring, around),
            Moved("data", "all_gather", weights * c.element_bytes, one, gathered, data),
        )

    scattered = Moved("data", "reduce_scatter", weights * c.parameter_bytes, one, summed, data)
    return (
        _Layer(forward, zero, host_f, sums, routed, ring_f, _hidden(busy_f, gathered, share), moved(1, one)),
        _Layer(backward, recompute, host_b, sums + again, 2 * routed, ring_b,
               _hidden(busy_b, gathered + summed, share), (*moved(2, passes), scattered)),
    )  # fmt: skip


def _between(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> tuple[Moved, ...]:
    """Of a pass of one chunk: each tensor rank sends its part to the next stage, which gathers it, unless the sequence
    is divided anyway."""
    wide, one = c.tokens * c.hidden * c.element_bytes, np.ones(len(c))
    along, tensor = group(c, "pipeline", fabric), group(c, "tensor", fabric)
    several = c.pipeline > 1
    sends = np.where(several, permute(wide / c.tensor, along, fabric, k), 0.0)
    gathers = np.where(several, np.where(c.sequence_parallel, 0.0, gather(wide, tensor, fabric, k)), 0.0)
    return (
        Moved("pipeline", "permute", wide / c.tensor, one, sends, along),
        Moved("tensor", "all_gather", wide, one, gathers, tensor),
    )


def _gradients(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Moved:
    """Gradients that are summed once per step."""
    data, one = group(c, "data", fabric), np.ones(len(c))
    gradient = c.device_parameters * k["gradient_bytes"]
    whole = np.where(c.shard < 3, all_reduce(gradient, data, fabric, k), 0.0)
    if not fabric.slices:
        return Moved("data", "all_reduce", gradient, one, whole, data)
    # what slices divide is summed over slices, each device its part
    across = Group(data.size / data.inner, one, np.full(len(c), float(fabric.per_node)))
    part, divided = gradient / data.inner, c.shard >= 3
    group_ = Group(
        *(np.where(divided, getattr(across, name), getattr(data, name)) for name in ("size", "inner", "beside"))
    )
    seconds = np.where(divided, all_reduce(part, across, fabric, k), whole)
    return Moved("data", "all_reduce", np.where(divided, part, gradient), one, seconds, group_)


def times(c: Columns, price: Pricer, fabric: Fabric, k: Mapping[str, float]) -> Times:
    """Seconds of training steps.

    Args:
        c: workloads and plans.
        price: of products and attention.
        fabric: links.
        k: constants of the framework.

    Returns:
        The times.
    """
    w = work(c, price, k)
    forward, backward = layer_passes(c, w, fabric, k)
    m, p, v = c.micro_batches, c.pipeline, c.virtual
    per_stage = c.layers / p
    ends = w.head_forward + w.head_backward + w.embedding
    sent = _between(c, fabric, k)
    sends = 2 * v * sum(one.seconds for one in sent)
    layer = forward.seconds + backward.seconds
    fullest = c.stage_layers * layer + sends + k["host_microbatch"]
    # the last stage has the head too; a stage with fewer layers waits for it
    slowest = np.maximum(fullest, per_stage * layer + sends + k["host_microbatch"] + ends)
    whole = c.layers * layer + ends + p * (sends + k["host_microbatch"])
    through = m * slowest + (whole - slowest) / v
    last = _gradients(c, fabric, k)
    reduced = last.seconds
    optimizer = w.optimizer + k["host_step"]
    seconds = through + reduced + optimizer
    own = m * c.stage_layers

    def both(name: str) -> Array:
        return own * (getattr(forward, name) + getattr(backward, name))

    parts = {name: both(name) for name in ("compute", "recompute", "host", "tensor", "context", "expert", "data")}
    parts["compute"] = parts["compute"] + m * np.where(p > 1, 0.0, ends)
    parts["host"] = parts["host"] + m * k["host_microbatch"]
    parts["pipeline"] = m * sends
    bubble = through - sum(parts.values())
    parts["data"] = parts["data"] + reduced
    ahead = c.stage_layers * forward.seconds + sends / 2
    return Times(
        seconds,
        **parts,
        bubble=bubble,
        optimizer=optimizer,
        stage_forward=ahead,
        stage_backward=slowest - ahead,
        work=w,
        detail=Detail(forward, backward, slowest, whole, through, slowest - fullest, sent, (last,)),
    )
