"""Finds replicas: devices with equal parameters, or with equal experts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..exchange import AxisGroup, group
from ..fabric import Fabric

__all__ = ["Replicated", "placed", "replicated", "sharded"]

Array = NDArray[np.float64]


class Replicated(NamedTuple):
    """Parameters that a group of devices replicates: per layer, in all layers and tables, in tables."""

    layer: Array
    all: Array
    group: AxisGroup
    tables: Array


def _alike(c: Columns, fabric: Fabric) -> AxisGroup:
    """Returns the group of devices with the same experts, which are innermost in the data axis."""
    size, stride = c.data * c.context / c.expert, c.tensor * c.expert
    node = np.minimum(fabric.per_node, c.devices)
    inner = np.clip(np.floor(node / stride), 1, size)
    return AxisGroup(size, inner, np.maximum(1.0, node / inner), stride)


def _paired_group(c: Columns, axis_group: AxisGroup, fabric: Fabric) -> AxisGroup:
    """Adds the devices of the second model copy, if any, to a group; they are on another stage."""
    if not np.any(c.copies > 1):
        return axis_group
    inner = np.where(c.devices <= fabric.per_node, axis_group.inner * c.copies, axis_group.inner)
    return AxisGroup(axis_group.size * c.copies, inner, axis_group.concurrent, axis_group.stride)


def replicated(c: Columns, fabric: Fabric) -> tuple[Replicated, ...]:
    """Returns the parameters of a device by the group that replicates them."""
    layers = c.copies * c.stage_layers
    shared, routed = c.shared_layer_parameters, c.routed_layer_parameters
    tables = c.copies * c.tables(0.0) * c.table_parameters / c.tensor
    found = (Replicated(shared, layers * shared + tables, _paired_group(c, group(c, "data", fabric), fabric), tables),)
    if not np.any(c.expert > 1):
        return found
    return (*found, Replicated(routed, layers * routed, _paired_group(c, _alike(c, fabric), fabric), 0.0 * tables))


def sharded(c: Columns, fabric: Fabric) -> tuple[Replicated, ...]:
    """Returns the groups over which parameters or gradients are sharded: all replicas, or those within a slice."""
    parts = replicated(c, fabric)
    if not fabric.slices:
        return parts
    return tuple(
        part._replace(group=AxisGroup(part.group.inner, part.group.inner, part.group.concurrent, part.group.stride))
        for part in parts
    )


def placed(c: Columns, fabric: Fabric) -> Columns:
    """Sets the numbers of devices that shard parameters, gradients and optimizer state: those of `sharded` for
    zero2 and zero3; all replicas for zero1, whose gradients are reduced over all replicas."""
    if not fabric.slices:
        return c
    sizes = [part.group.size for part in sharded(c, fabric)]
    every = (c.replicas, c.expert_replicas)
    over = [np.where(c.shard >= 2, size, whole) for size, whole in zip(sizes, every, strict=False)]
    return replace(c, state_devices=over[0], state_expert_devices=over[1] if len(over) > 1 else None)
