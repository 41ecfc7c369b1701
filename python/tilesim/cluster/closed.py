"""A training step in closed form, for many plans at once: computing, what passes between devices, the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_error
from .columns import Columns
from .exchange import Group, all_reduce, gather, group, permute, to_all
from .fabric import Fabric
from .hosts.offload import exposed, moved
from .hosts.straggling import slowed
from .pipelines.result import Pipeline
from .pipelines.stages import ORDERED, Stages
from .pipelines.stages import through as ordered
from .plan import SCHEDULES
from .terms import Pricer, Work, work

__all__ = ["Times", "gathered_layer", "layer_passes", "times"]

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
    offload: Array
    stage_forward: Array
    stage_backward: Array
    work: Work
    pipes: Mapping[int, Pipeline] = field(default_factory=dict)

    @property
    def exposed(self) -> Array:
        """What passes between devices while nothing is computed."""
        return self.tensor + self.context + self.expert + self.pipeline + self.data + self.offload


@dataclass(frozen=True)
class _Layer:
    """Seconds of one layer and pass."""

    compute: Array
    recompute: Array
    host: Array
    tensor: Array
    expert: Array
    context: Array
    data: Array
    offload: Array

    @property
    def seconds(self) -> Array:
        passed = self.tensor + self.expert + self.context + self.data + self.offload
        return self.compute + self.recompute + self.host + passed


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


def gathered_layer(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Array:
    """Seconds in which a layer's parameters are gathered, where they are divided.

    Args:
        c: workloads and plans.
        fabric: links.
        k: constants of the framework.

    Returns:
        Seconds; 0 where each device has them.
    """
    whole = c.layer_parameters / c.tensor * c.element_bytes
    return np.where(c.shard >= 3, gather(whole, _sharded(c, fabric), fabric, k), 0.0)


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
    sent = wide * np.maximum(1.0, c.experts_chosen) * c.imbalance / c.tensor
    routed = np.where(c.expert > 1, 2 * to_all(sent, group(c, "expert", fabric), fabric, k), 0.0)
    kv = 2 * c.tokens * c.own_kv_heads * c.head_size * c.element_bytes
    around = group(c, "context", fabric)
    ring = (c.context - 1) * permute(kv, around, fabric, k)
    weights = c.layer_parameters / c.tensor
    gathered = gathered_layer(c, fabric, k)
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
    zero = np.zeros(len(c))
    away = moved(c, k["dropout"] > 0).layer
    return (
        _Layer(forward, zero, host_f, sums, routed, ring_f, _hidden(busy_f, gathered, share),
               exposed(away, busy_f, fabric, k)),
        _Layer(backward, recompute, host_b, sums + again, 2 * routed, ring_b,
               _hidden(busy_b, gathered + summed, share), exposed(away, busy_b, fabric, k)),
    )  # fmt: skip


_OF_LAYERS = ("compute", "recompute", "host", "tensor", "context", "expert", "data", "offload")


def _replicas(c: Columns, fabric: Fabric) -> Group:
    """Devices that sum the same gradients; the two copies of dualpipe lie on different stages."""
    data = group(c, "data", fabric)
    return Group(data.size * c.copies, data.inner, data.beside)


def _reduced(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Array:
    """Seconds in which gradients are summed after the last micro-batch."""
    data = _replicas(c, fabric)
    gradient = c.device_parameters * k["gradient_bytes"]
    reduced = np.where(c.shard < 3, all_reduce(gradient, data, fabric, k), 0.0)
    if fabric.slices:  # gradients of a slice's part are summed over slices
        across = Group(data.size / data.inner, np.ones(len(c)), np.full(len(c), float(fabric.per_node)))
        part = c.device_parameters * k["gradient_bytes"] / data.inner
        reduced = np.where(c.shard >= 3, all_reduce(part, across, fabric, k), reduced)
    return reduced


def _by_order(
    c: Columns,
    w: Work,
    fabric: Fabric,
    layers: tuple[_Layer, _Layer],
    summed: Array,
    sends: Array,
    k: Mapping[str, float],
) -> tuple[Array, Mapping[int, Pipeline], Array]:
    """Seconds until all are through, of schedules that divide the backward pass; their pipelines; their sends."""
    names = [SCHEDULES[int(code)] for code in c.schedule] if np.any(c.schedule >= SCHEDULES.index("zb-h1")) else []
    if not any(name in ORDERED for name in names):
        return summed, {}, sends
    if fabric.slow:
        raise user_error("slow devices have no closed form under this schedule", place="faults", value=names[0],
                         allowed="1f1b, gpipe, interleaved")  # fmt: skip
    forward, backward = layers
    sends = np.where(c.schedule == SCHEDULES.index("zb-v"), 2 * sends, sends)  # a micro-batch passes a stage twice
    parts = np.where(c.schedule == SCHEDULES.index("zb-v"), 2.0, 1.0)
    stages = Stages(
        forward.seconds, backward.seconds - w.weight_products, w.weight_products, w.head_forward + w.embedding,
        w.head_backward - w.head_weight, w.head_weight, (sends + k["host_microbatch"]) / parts,
    )  # fmt: skip
    seconds, pipes = ordered(names, c, stages)
    return np.where(np.isnan(seconds), summed, seconds), pipes, sends


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
    # each tensor rank sends its part; the next stage gathers it, unless the sequence is divided anyway
    wide = c.tokens * c.hidden * c.element_bytes
    sends = permute(wide / c.tensor, group(c, "pipeline", fabric), fabric, k)
    gathers = np.where(c.sequence_parallel, 0.0, gather(wide, group(c, "tensor", fabric), fabric, k))
    sends = 2 * v * np.where(p > 1, sends + gathers, 0.0)
    layer = forward.seconds + backward.seconds
    fullest = c.stage_layers * layer + sends + k["host_microbatch"]
    # the last stage has the head too; a stage with fewer layers waits for it
    slowest = np.maximum(fullest, per_stage * layer + sends + k["host_microbatch"] + ends)
    whole = c.layers * layer + ends + p * (sends + k["host_microbatch"])
    waited = (forward.compute + backward.compute + backward.recompute, ends)
    slowest, whole, more = slowed(c, fabric, fullest, slowest, whole, waited)
    through = m * slowest + (whole - slowest) / v
    through, pipes, sends = _by_order(c, w, fabric, (forward, backward), through, sends, k)
    reduced = _reduced(c, fabric, k)
    optimizer = w.optimizer / min((share for _, share in fabric.slow), default=1.0) + k["host_step"]
    state = exposed(moved(c, False).state, w.optimizer, fabric, k)
    # each layer's parameters are gathered while the one before runs; before the first there is none
    reduced = reduced + gathered_layer(c, fabric, k) - forward.data
    seconds = through + reduced + optimizer + state
    own = m * c.stage_layers

    def both(name: str) -> Array:
        return own * (getattr(forward, name) + getattr(backward, name))

    parts = {name: both(name) for name in _OF_LAYERS}
    parts["compute"] = parts["compute"] + m * np.where(p > 1, 0.0, ends + more)
    parts["host"] = parts["host"] + m * k["host_microbatch"]
    parts["pipeline"] = m * sends
    bubble = through - sum(parts.values())
    parts["data"] = parts["data"] + reduced
    parts["offload"] = parts["offload"] + state
    ahead = c.stage_layers * forward.seconds + sends / 2
    return Times(
        seconds,
        **parts,
        bubble=bubble,
        optimizer=optimizer,
        stage_forward=ahead,
        stage_backward=slowest - ahead,
        work=w,
        pipes=pipes,
    )
