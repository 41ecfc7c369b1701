"""What passes between devices beside the passes of layers: from stage to stage, and at the end of a step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..exchange import Group, all_reduce, gather, group, sends
from ..fabric import Fabric
from ..pipelines.hops import Counted, Hops
from .passes import Moved, hidden
from .replicas import Replicated, replicated, sharded

__all__ = ["between", "gathers", "gradients", "hops", "tables", "tied"]

Array = NDArray[np.float64]


def hops(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Hops:
    """What a send from stage to stage takes, each tensor rank its part: stages may share a node."""
    along = group(c, "pipeline", fabric)
    near, far = sends(_wide(c) / c.tensor, along, fabric, k, c.virtual > 1)
    node = np.minimum(fabric.per_node, c.devices)
    mixed = along.crosses & (along.stride < node)
    one = np.where(along.crosses, far, near)
    return Hops(np.where(mixed, near, one), one, along.crosses, mixed, along.stride, node)


def _wide(c: Columns) -> Array:
    """Bytes of a micro-batch between two layers."""
    return c.tokens * c.hidden * c.element_bytes


def gathers(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Moved:
    """What the ranks of a stage gather of each other of what they were sent, unless the sequence is divided anyway."""
    tensor = group(c, "tensor", fabric)
    none = c.sequence_parallel | (c.pipeline == 1)
    whole = np.where(none, 0.0, gather(np.where(none, 0.0, _wide(c)), tensor, fabric, k))
    return Moved("tensor", "all_gather", _wide(c), np.ones(len(c)), whole, tensor)


def between(c: Columns, of: Hops, counted: Counted, gathered: Moved, fabric: Fabric) -> tuple[Moved, ...]:
    """What the slowest of the stages with most layers sends in a pass of one chunk, in the mean: between nodes, inside
    one, and the gathers.
    """
    along, bytes_ = group(c, "pipeline", fabric), _wide(c) / c.tensor
    inside = Group(along.size, along.size, along.beside, along.stride)
    out = counted.out / counted.calls
    return (
        Moved("pipeline", "permute", bytes_, out, of.far * out, along),
        Moved("pipeline", "permute", bytes_, 1 - out, of.near * (1 - out), inside),
        gathered,
    )


def gradients(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> tuple[Moved, ...]:
    """What passes once per step, after the last micro-batch: without zero, and of zero1, gradients are summed; of zero2
    the updated parameters are gathered. Experts pass over the devices that have them.
    """
    found = [_summed(c, part, fabric, k) for part in replicated(c, fabric)]
    if np.any(c.shard == 2):
        for part in sharded(c, fabric):
            every = part.all * c.element_bytes
            some = (c.shard == 2) & (every > 0)
            seconds = np.where(some, gather(np.where(some, every, 0.0), part.group, fabric, k), 0.0)
            found.append(Moved("data", "all_gather", every, np.ones(len(c)), seconds, part.group))
    return tuple(found)


def tables(
    c: Columns, fabric: Fabric, k: Mapping[str, float], ahead: Array
) -> tuple[tuple[tuple[Moved, Array], ...], Array]:
    """What passes of embedding and head once per micro-batch, where zero divides it: gradients (zero2, zero3), and
    parameters (zero3). Layers have theirs in `layer_passes`. The next micro-batch's forward pass, or the one before,
    hides it; one micro-batch of a step has none.
    """
    slowing, found = np.zeros(len(c)), []
    if not np.any(c.shard >= 2):
        return (), slowing
    m = c.micro_batches
    width = np.where(c.shard >= 3, c.parameter_bytes, k["gradient_bytes"])
    for part in sharded(c, fabric):
        for operation, bytes_, level in (
            ("reduce_scatter", part.tables * width, 2), ("all_gather", part.tables * c.element_bytes, 3),
        ):  # fmt: skip
            some = (c.shard >= level) & (bytes_ > 0)
            one = np.where(some, gather(np.where(some, bytes_, 0.0), part.group, fabric, k), 0.0)
            late, slowed = hidden(ahead, one, k["interference"])
            found.append((Moved("data", operation, bytes_, m, m * one, part.group), one + (m - 1) * late))
            slowing = slowing + (m - 1) * slowed
    return tuple(found), slowing


def tied(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Moved:
    """The gradient of an embedding that is the head's table too, summed between the first stage and the last where each
    has it, as Megatron-LM does behind the sums over replicas (its embedding group, Shoeybi et al. 2019, 1909.08053, and
    Narayanan et al. 2021, 2104.04473). What replicas divide before is summed part by part.
    """
    both, one = c.tied & (c.pipeline > 1) & (c.ways == 1) & (c.copies == 1), np.ones(len(c))
    bytes_ = c.table_parameters / c.tensor * k["gradient_bytes"] / np.where(c.shard >= 2, c.state_replicas, 1.0)
    stride = c.devices / c.pipeline
    inner = np.where(c.devices <= fabric.per_node, 2.0, 1.0)
    # every device of a node of these stages has a partner elsewhere: each its own adapter, or its share of them
    beside = np.maximum(fabric.ports or fabric.per_node, np.minimum(stride, fabric.per_node))
    pair = Group(2 * one, inner, beside * one, stride * (c.pipeline - 1))
    seconds = np.zeros(len(c))
    if np.any(both):
        seconds = np.where(both, all_reduce(np.where(both, bytes_, 0.0), pair, fabric, k), 0.0)
    return Moved("pipeline", "all_reduce", bytes_, one, seconds, pair)


def _summed(c: Columns, part: Replicated, fabric: Fabric, k: Mapping[str, float]) -> Moved:
    """The sum over devices that have the same."""
    data, one = part.group, np.ones(len(c))
    gradient = part.all * k["gradient_bytes"]
    some = (c.shard < 2) & (gradient > 0)
    whole = np.where(some, all_reduce(np.where(some, gradient, 0.0), data, fabric, k), 0.0)
    if not fabric.slices:
        return Moved("data", "all_reduce", gradient, one, whole, data)
    # what slices divide is summed over slices, each device its part
    node = np.full(len(c), float(fabric.per_node))
    across = Group(data.size / data.inner, one, node, np.maximum(node, data.stride))
    piece, divided = gradient / data.inner, c.shard >= 2
    group_ = Group(
        *(
            np.where(divided, getattr(across, name), getattr(data, name))
            for name in ("size", "inner", "beside", "stride")
        )
    )
    some = divided & (gradient > 0)
    seconds = np.where(some, all_reduce(np.where(some, piece, 0.0), across, fabric, k), whole)
    return Moved("data", "all_reduce", np.where(divided, piece, gradient), one, seconds, group_)
