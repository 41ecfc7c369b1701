"""Times communication outside layers: sends between stages, gradients and tables at the end of a step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..exchange import AxisGroup, all_reduce, gather, group, sends
from ..fabric import Fabric
from ..pipelines.hops import Hops, SendCounts
from .passes import AxisTraffic, hidden
from .replicas import Replicated, replicated, sharded

__all__ = ["gathers", "gradients", "hops", "pipeline_traffic", "tables", "tied"]

Array = NDArray[np.float64]


def hops(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Hops:
    """Returns the seconds of sends between stages; each tensor rank sends one part, and stages may share a node."""
    along = group(c, "pipeline", fabric)
    near, far = sends(_wide(c) / c.tensor, along, fabric, k, c.virtual > 1)
    node = np.minimum(fabric.per_node, c.devices)
    mixed = along.crosses & (along.stride < node)
    one = np.where(along.crosses, far, near)
    return Hops(np.where(mixed, near, one), one, along.crosses, mixed, along.stride, node)


def _wide(c: Columns) -> Array:
    """Returns the bytes of a micro-batch's activations between two layers."""
    return c.tokens * c.hidden * c.element_bytes


def gathers(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> AxisTraffic:
    """Gathers the received parts within a stage, unless the sequence is sharded."""
    tensor = group(c, "tensor", fabric)
    none = c.sequence_parallel | (c.pipeline == 1)
    whole = np.where(none, 0.0, gather(np.where(none, 0.0, _wide(c)), tensor, fabric, k))
    return AxisTraffic("tensor", "all_gather", _wide(c), np.ones(len(c)), whole, tensor)


def pipeline_traffic(
    c: Columns, of: Hops, counted: SendCounts, gathered: AxisTraffic, fabric: Fabric
) -> tuple[AxisTraffic, ...]:
    """Mean communication of the slowest full stage per chunk's pass: between nodes, inside a node, gathers."""
    along, bytes_ = group(c, "pipeline", fabric), _wide(c) / c.tensor
    inside = AxisGroup(along.size, along.size, along.concurrent, along.stride)
    out = counted.out / counted.calls
    return (
        AxisTraffic("pipeline", "permute", bytes_, out, of.far * out, along),
        AxisTraffic("pipeline", "permute", bytes_, 1 - out, of.near * (1 - out), inside),
        gathered,
    )


def gradients(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> tuple[AxisTraffic, ...]:
    """Returns the traffic after the last micro-batch: all-reduce of gradients without zero and with zero1,
    gather of updated parameters with zero2. Experts communicate within their replicas."""
    found = [_summed(c, part, fabric, k) for part in replicated(c, fabric)]
    if np.any(c.shard == 2):
        for part in sharded(c, fabric):
            every = part.all * c.element_bytes
            some = (c.shard == 2) & (every > 0)
            seconds = np.where(some, gather(np.where(some, every, 0.0), part.group, fabric, k), 0.0)
            found.append(AxisTraffic("data", "all_gather", every, np.ones(len(c)), seconds, part.group))
    return tuple(found)


def tables(
    c: Columns, fabric: Fabric, k: Mapping[str, float], prefetched: Array
) -> tuple[tuple[tuple[AxisTraffic, Array], ...], Array]:
    """Returns the traffic of sharded embedding and head per micro-batch: gradients (zero2, zero3) and parameters
    (zero3). The adjacent micro-batch's forward pass overlaps with it, except for one micro-batch of a step."""
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
            late, slowed = hidden(prefetched, one, k["interference"])
            found.append((AxisTraffic("data", operation, bytes_, m, m * one, part.group), one + (m - 1) * late))
            slowing = slowing + (m - 1) * slowed
    return tuple(found), slowing


def tied(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> AxisTraffic:
    """Returns the all-reduce of a tied embedding's gradient between first and last stage, as in Megatron-LM after the
    reduction over replicas (its embedding group, Shoeybi et al. 2019, 1909.08053, and Narayanan et al. 2021,
    2104.04473). Sharded gradients are reduced shard by shard.
    """
    both, one = c.tied & (c.pipeline > 1) & (c.ways == 1) & (c.copies == 1), np.ones(len(c))
    bytes_ = c.table_parameters / c.tensor * k["gradient_bytes"] / np.where(c.shard >= 2, c.state_replicas, 1.0)
    stride = c.devices / c.pipeline
    inner = np.where(c.devices <= fabric.per_node, 2.0, 1.0)
    # each device and its partner in another node use their own adapter, or a share of adapters
    beside = np.maximum(fabric.ports or fabric.per_node, np.minimum(stride, fabric.per_node))
    pair = AxisGroup(2 * one, inner, beside * one, stride * (c.pipeline - 1))
    seconds = np.zeros(len(c))
    if np.any(both):
        seconds = np.where(both, all_reduce(np.where(both, bytes_, 0.0), pair, fabric, k), 0.0)
    return AxisTraffic("pipeline", "all_reduce", bytes_, one, seconds, pair)


def _summed(c: Columns, part: Replicated, fabric: Fabric, k: Mapping[str, float]) -> AxisTraffic:
    """Returns the all-reduce of gradients over replicas."""
    data, one = part.group, np.ones(len(c))
    gradient = part.all * k["gradient_bytes"]
    some = (c.shard < 2) & (gradient > 0)
    whole = np.where(some, all_reduce(np.where(some, gradient, 0.0), data, fabric, k), 0.0)
    if not fabric.slices:
        return AxisTraffic("data", "all_reduce", gradient, one, whole, data)
    # state that is sharded within slices is reduced over slices, shard by shard
    node = np.full(len(c), float(fabric.per_node))
    across = AxisGroup(data.size / data.inner, one, node, np.maximum(node, data.stride))
    piece, divided = gradient / data.inner, c.shard >= 2
    group_ = AxisGroup(
        *(
            np.where(divided, getattr(across, name), getattr(data, name))
            for name in ("size", "inner", "concurrent", "stride")
        )
    )
    some = divided & (gradient > 0)
    seconds = np.where(some, all_reduce(np.where(some, piece, 0.0), across, fabric, k), whole)
    return AxisTraffic("data", "all_reduce", np.where(divided, piece, gradient), one, seconds, group_)
