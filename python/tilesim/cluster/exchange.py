"""Seconds of what passes between devices, for many plans at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns import Columns
from .fabric import Fabric

__all__ = ["Group", "all_reduce", "gather", "group", "permute", "to_all"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Where members of an axis lie: how many, how many of them in one node, groups of a node that talk at once, devices
    from one member to the next."""

    size: Array
    inner: Array
    beside: Array
    stride: Array

    @property
    def crosses(self) -> NDArray[np.bool_]:
        """Whether the group spans nodes."""
        return self.size > self.inner


def group(c: Columns, axis: str, fabric: Fabric) -> Group:
    """The group of an axis, tensor innermost, then context, data, pipeline.

    Args:
        c: plans.
        axis: tensor, context, data (gradients: context too), pipeline.
        fabric: how many devices a node has.

    Returns:
        The group.
    """
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
    return Group(size, inner, np.maximum(1.0, node / inner), stride)


def _rates(of: Group, fabric: Fabric, constants: Mapping[str, float]) -> tuple[Array, Array]:
    """Bytes per second of a device's port in its node, and of a group's share of the node's ports."""
    inside = np.full(len(of.size), fabric.link * constants["link_share"])
    return inside, fabric.node_link * constants["node_share"] / of.beside


def _steps(of: Group, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Seconds of latency of one walk around: a ring inside the node, a tree over nodes."""
    nodes = np.ceil(of.size / of.inner)
    inside = (of.inner - 1) * (fabric.latency + constants["link_step"])
    return inside + 2 * np.log2(np.maximum(1.0, nodes)) * (fabric.node_latency + constants["node_step"])


def _by_library(op: str, data: Array, of: Group, fabric: Fabric) -> Array:
    """Seconds as a communication library prices a call."""
    several = of.size > 1
    seconds = np.zeros(np.shape(of.size))
    if not np.any(several):
        return seconds
    size, inner, sent = (np.broadcast_to(value, several.shape)[several] for value in (of.size, of.inner, data))
    seconds[several] = fabric.library.seconds_many(
        op, np.ceil(sent), "bf16", size.astype(np.int64), inner.astype(np.int64), link=fabric.link,
        node_link=fabric.node_link / fabric.per_node, generation=fabric.generation,
    )  # fmt: skip
    return seconds


def gather(data: Array, of: Group, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Seconds of an all_gather or reduce_scatter.

    Args:
        data: bytes of the whole, per plan.
        of: the group.
        fabric: links.
        constants: of the library.

    Returns:
        Seconds; 0 for groups of one.
    """
    if fabric.flows is not None:
        return np.asarray(fabric.flows.seconds("all_gather", data, of))
    if fabric.library is not None:
        return _by_library("all_gather", data, of, fabric)
    inside, across = _rates(of, fabric, constants)
    wire = (of.size - 1) / of.size * data
    rate = np.where(of.crosses, np.minimum(inside, across), inside)
    seconds = constants["call"] + _steps(of, fabric, constants) + wire / rate
    return np.where(of.size > 1, seconds, 0.0)


def all_reduce(data: Array, of: Group, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Seconds of an all_reduce.

    Args:
        data: bytes of the whole, per plan.
        of: the group.
        fabric: links.
        constants: of the library.

    Returns:
        Seconds; 0 for groups of one.
    """
    if fabric.flows is not None:
        return np.asarray(fabric.flows.seconds("all_reduce", data, of))
    if fabric.library is not None:
        return _by_library("all_reduce", data, of, fabric)
    return np.maximum(0.0, 2 * gather(data, of, fabric, constants) - np.where(of.size > 1, constants["call"], 0.0))


def to_all(data: Array, of: Group, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Seconds of an all_to_all.

    Args:
        data: bytes that a device holds, its own part included.
        of: the group.
        fabric: links.
        constants: of the library.

    Returns:
        Seconds; 0 for groups of one.
    """
    if fabric.flows is not None:
        return np.asarray(fabric.flows.seconds("all_to_all", data, of))
    if fabric.library is not None:
        return _by_library("all_to_all", data, of, fabric)
    inside, _ = _rates(of, fabric, constants)
    across = fabric.node_link * constants["node_share"] / np.minimum(fabric.per_node, of.inner * of.beside)
    outside = (of.size - of.inner) / of.size * data / across
    seconds = constants["call"] + _steps(of, fabric, constants)
    seconds = seconds + np.maximum((of.inner - 1) / of.size * data / inside, outside)
    return np.where(of.size > 1, seconds, 0.0)


def permute(data: Array, of: Group, fabric: Fabric, constants: Mapping[str, float]) -> Array:
    """Seconds of a send to the next member.

    Args:
        data: bytes of the message.
        of: the group.
        fabric: links.
        constants: of the library.

    Returns:
        Seconds; 0 for groups of one.
    """
    if fabric.flows is not None:
        return np.asarray(fabric.flows.seconds("permute_devices", data, of))
    inside, across = _rates(of, fabric, constants)
    near = data / inside + fabric.latency + constants["link_step"]
    far = data / np.minimum(inside, across) + fabric.node_latency + constants["node_step"]
    seconds = constants["call"] + np.where(of.crosses, far, near)
    return np.where(of.size > 1, seconds, 0.0)
