"""Devices that have the same parameters: replicas; of experts, those of the data axis whose experts are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..exchange import Group, group
from ..fabric import Fabric

__all__ = ["Replicated", "placed", "replicated", "sharded"]

Array = NDArray[np.float64]


class Replicated(NamedTuple):
    """Parameters of a device that one group of devices has: of a layer, of all its layers and tables, of tables."""

    layer: Array
    all: Array
    group: Group
    tables: Array


def _alike(c: Columns, fabric: Fabric) -> Group:
    """Devices with the same experts: experts lie innermost in the data axis."""
    size, stride = c.data * c.context / c.expert, c.tensor * c.expert
    node = np.minimum(fabric.per_node, c.devices)
    inner = np.clip(np.floor(node / stride), 1, size)
    return Group(size, inner, np.maximum(1.0, node / inner), stride)


def _both(c: Columns, of: Group, fabric: Fabric) -> Group:
    """The devices of a group and, where a plan has two copies of the model, those that have the other one: on another
    stage, in the same node where all devices are."""
    if not np.any(c.copies > 1):
        return of
    inner = np.where(c.devices <= fabric.per_node, of.inner * c.copies, of.inner)
    return Group(of.size * c.copies, inner, of.beside, of.stride)


def replicated(c: Columns, fabric: Fabric) -> tuple[Replicated, ...]:
    """Parameters of a device by the group that has them."""
    layers = c.copies * c.stage_layers
    shared, routed = c.shared_layer_parameters, c.routed_layer_parameters
    tables = c.copies * c.tables(0.0) * c.table_parameters / c.tensor
    found = (Replicated(shared, layers * shared + tables, _both(c, group(c, "data", fabric), fabric), tables),)
    if not np.any(c.expert > 1):
        return found
    return (*found, Replicated(routed, layers * routed, _both(c, _alike(c, fabric), fabric), 0.0 * tables))


def sharded(c: Columns, fabric: Fabric) -> tuple[Replicated, ...]:
    """Devices over which parameters or their gradients are divided: those that have the same; inside a slice where
    slices are joined by another network.
    """
    parts = replicated(c, fabric)
    if not fabric.slices:
        return parts
    return tuple(
        part._replace(group=Group(part.group.inner, part.group.inner, part.group.beside, part.group.stride))
        for part in parts
    )


def placed(c: Columns, fabric: Fabric) -> Columns:
    """Plans that know over how many devices they divide parameters, gradients and the optimizer's state: over those of
    `sharded`, which scatter gradients of zero2 and zero3 and gather what these updated. zero1 sums whole gradients over
    all replicas, which is a scatter over all and a gather of what each updated: its state is divided over all.
    """
    if not fabric.slices:
        return c
    sizes = [part.group.size for part in sharded(c, fabric)]
    every = (c.replicas, c.expert_replicas)
    over = [np.where(c.shard >= 2, size, whole) for size, whole in zip(sizes, every, strict=False)]
    return replace(c, state_devices=over[0], state_expert_devices=over[1] if len(over) > 1 else None)
