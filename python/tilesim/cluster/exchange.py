"""Computes communication times of many plans in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .columns import Columns
from .fabric import Fabric

__all__ = ["AxisGroup", "all_reduce", "gather", "group", "permute", "sends", "slowest", "to_all"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AxisGroup:
    """Placement of an axis: number of members, most members in one node, concurrent groups per node, device stride.

    `fewest`: fewest members in any node of a group over several nodes; default: `inner`. Its outgoing traffic uses the
    adapters of these devices, to which `beside` refers.
    """

    size: Array
    inner: Array
    concurrent: Array
    stride: Array
    fewest: Array | None = None

    @property
    def crosses(self) -> NDArray[np.bool_]:
        """Whether the group spans nodes."""
        return self.size > self.inner


def group(c: Columns, axis: str, fabric: Fabric) -> AxisGroup:
    """Returns an axis's group (order: tensor innermost, context, data, pipeline); the slowest one if they differ."""
    one = np.ones(len(c))
    size, stride = {
        "tensor": (c.tensor, one),
        "context": (c.context, c.tensor),
        "data": (c.data * c.context, c.tensor),
        "expert": (c.expert, c.tensor),
        "pipeline": (c.pipeline, c.tensor * c.context * c.data),
    }[axis]
    node = np.minimum(fabric.per_node, c.devices)
    inner = np.clip(np.floor(node / stride), 1, size)
    fewest = inner
    span, wide = size * stride, (size > 1) & (stride < node)
    cut = wide & ~((node % span == 0) | ((node % stride == 0) & (span % node == 0)))
    if np.any(cut):
        inner, fewest = inner.copy(), inner.copy()
        for row in np.flatnonzero(cut):
            _, inner[row], fewest[row] = slowest(int(size[row]), int(stride[row]), int(node[row]), int(c.devices[row]))
    return AxisGroup(size, inner, np.maximum(1.0, node / fewest), stride, fewest)


@lru_cache(1 << 14)
def slowest(size: int, stride: int, per_node: int, devices: int) -> tuple[int, int, int]:
    """Finds the strided group with the fewest members in some node; returns the node, most and fewest members."""
    span = size * stride
    every = np.arange(min(devices, math.lcm(span, per_node)))
    nodes = int(every[-1]) // per_node + 1
    pairs, counts = np.unique((every // span * stride + every % stride) * nodes + every // per_node, return_counts=True)
    owner = pairs // nodes
    _, first, parts = np.unique(owner, return_index=True, return_counts=True)
    least, most = np.minimum.reduceat(counts, first), np.maximum.reduceat(counts, first)
    if not np.any(parts > 1):
        return 0, size, size
    found = min(np.flatnonzero(parts > 1).tolist(), key=lambda one: (least[one], most[one]))
    own = slice(int(first[found]), int(first[found] + parts[found]))
    at = own.start + int(np.argmin(counts[own]))
    return int(pairs[at]) % nodes, int(most[found]), int(least[found])


def _rates(members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> tuple[Array, Array]:
    """Returns bytes per second of a device's port inside its node, and of a group's share of its node's ports."""
    inside = np.full(len(members.size), fabric.link * constants["link_share"])
    return inside, fabric.node_link * constants["node_share"] / members.concurrent


def _steps(members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Returns the latency in seconds of a ring inside nodes plus a tree across nodes."""
    nodes = np.ceil(members.size / members.inner)
    inside = (members.inner - 1) * (fabric.latency + constants["link_step"])
    return inside + 2 * np.log2(np.maximum(1.0, nodes)) * (fabric.node_latency + constants["node_step"])


def _by_library(op: str, data: Array, members: AxisGroup, fabric: Fabric) -> Array:
    """Returns the seconds of a call by a communication library."""
    several = members.size > 1
    seconds = np.zeros(np.shape(members.size))
    if not np.any(several):
        return seconds
    size, inner, sent = (
        np.broadcast_to(value, several.shape)[several] for value in (members.size, members.inner, data)
    )
    seconds[several] = fabric.library.seconds_many(
        op, np.ceil(sent), "bf16", size.astype(np.int64), inner.astype(np.int64), link=fabric.link,
        node_link=fabric.node_link / fabric.per_node, generation=fabric.generation,
    )  # fmt: skip
    return seconds


def gather(data: Array, members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Returns the seconds of an all_gather or reduce_scatter."""
    if fabric.library is not None:
        return _by_library("all_gather", data, members, fabric)
    return _priced("all_gather", data, members, fabric, lambda sent: _gathered(sent, members, fabric, constants))


def _gathered(data: Array, members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Returns the seconds of a gather on two levels of switches."""
    inside, across = _rates(members, fabric, constants)
    wire = (members.size - 1) / members.size * data
    rate = np.where(members.crosses, np.minimum(inside, across), inside)
    seconds = constants["call"] + _steps(members, fabric, constants) + wire / rate
    return np.where(members.size > 1, seconds, 0.0)


def _priced(op: str, data: Array, members: AxisGroup, fabric: Fabric, form: Callable[[Array], Array]) -> Array:
    """Returns seconds by a closed formula, or by the prices of the actual network."""
    if fabric.prices is None:
        return form(data)
    return np.asarray(fabric.prices.seconds(op, data, members, form(data), form(0.0 * data)))


def all_reduce(data: Array, members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Returns the seconds of an all_reduce."""
    if fabric.library is not None:
        return _by_library("all_reduce", data, members, fabric)

    def twice(sent: Array) -> Array:
        both = 2 * _gathered(sent, members, fabric, constants) - np.where(members.size > 1, constants["call"], 0.0)
        return np.maximum(0.0, both)

    return _priced("all_reduce", data, members, fabric, twice)


def to_all(data: Array, members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Returns the seconds of an all_to_all."""
    if fabric.library is not None:
        return _by_library("all_to_all", data, members, fabric)
    inside, _ = _rates(members, fabric, constants)
    fewest = members.inner if members.fewest is None else members.fewest
    across = fabric.node_link * constants["node_share"] / np.minimum(fabric.per_node, fewest * members.concurrent)

    def turned(sent: Array) -> Array:
        outside = (members.size - fewest) / members.size * sent / across
        seconds = constants["call"] + _steps(members, fabric, constants)
        seconds = seconds + np.maximum((members.inner - 1) / members.size * sent / inside, outside)
        return np.where(members.size > 1, seconds, 0.0)

    return _priced("all_to_all", data, members, fabric, turned)


def permute(data: Array, members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Returns the seconds of a send to the next member; between nodes if the send of any member leaves its node."""

    def sent(each: Array) -> Array:
        near, far = _sends(each, members, fabric, constants)
        return np.where(members.crosses, far, near)

    return _priced("permute_devices", data, members, fabric, sent)


def sends(
    data: Array, members: AxisGroup, fabric: Fabric, constants: Mapping[str, float], wraps: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Returns the seconds of a send to the next member inside the node, and to another node.

    At most `stride` devices of a node send out concurrently, each over its own adapter or a share of an adapter.
    """
    forms = _sends(data, members, fabric, constants)
    return forms if fabric.prices is None else fabric.prices.sends(data, members, wraps, forms)


def _sends(data: Array, members: AxisGroup, fabric: Fabric, constants: Mapping[str, float]) -> tuple[Array, Array]:
    """Returns the seconds of sends on two levels of switches."""
    inside, _ = _rates(members, fabric, constants)
    senders = np.minimum(members.stride, fabric.per_node)
    across = fabric.node_link * constants["node_share"] / np.maximum(fabric.ports or fabric.per_node, senders)
    near = data / inside + fabric.latency + constants["link_step"]
    far = data / np.minimum(inside, across) + fabric.node_latency + constants["node_step"]
    several, call = members.size > 1, constants["call"]
    return np.where(several, call + near, 0.0), np.where(several, call + far, 0.0)
