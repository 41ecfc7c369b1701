"""Finds the groups of a plan's axis that share links; the other groups have the same times.

The first network axis is innermost in device numbers, and a group's members have a constant stride. An axis
that a group spans completely or not at all is irrelevant. On the other axes, equal blocks of devices have separate
links, and adjacent groups share the links of common rows.
"""

from __future__ import annotations

import itertools
import operator
from functools import lru_cache

from ..cluster import Cluster, Dimension

__all__ = ["every_group", "meeting_groups"]


def every_group(cluster: Cluster, size: int, stride: int) -> list[list[int]]:
    """Returns all groups of an axis."""
    return _listed(cluster, size, stride, range(0, cluster.devices, size * stride), range(stride))


def _listed(cluster: Cluster, size: int, stride: int, blocks: range, beside: range) -> list[list[int]]:
    every = (range(one + place, one + place + size * stride, stride) for one in blocks for place in beside)
    return [list(one) for one in every if one[-1] < cluster.devices]


def meeting_groups(cluster: Cluster, size: int, stride: int) -> tuple[Cluster, list[list[int]]]:
    """Returns the groups that share links with an axis's first group if groups are equal, else all groups."""
    part, stride = _within(cluster, size, stride)
    blocks, beside = range(0, part.devices, size * stride), range(stride)
    if _are_separate(part, size * stride):
        blocks, beside = blocks[:1], _interleaved(part, stride)
    return part, _listed(part, size, stride, blocks, beside)


@lru_cache(4096)
def _within(cluster: Cluster, size: int, stride: int) -> tuple[Cluster, int]:
    """Returns the network axes relevant to a group, and its stride on them: devices outside belong to other groups, and
    devices inside have separate links."""
    if cluster.graph is not None or cluster.faults:
        return cluster, stride
    lengths = [length for one in cluster.dimensions for length in _axes(one)]
    products = [1, *itertools.accumulate(lengths, operator.mul)]
    last = next((at for at, found in enumerate(products) if found % (size * stride) == 0), len(lengths))
    first = 0
    if not any(one.rails for one in cluster.dimensions):
        first = max(at for at in range(max(last, 1)) if stride % products[at] == 0 and _begins(cluster, at, last))
    return _some_axes(cluster, first, last), stride // products[first]


def _axes(dimension: Dimension) -> tuple[int, ...]:
    """Returns the axis lengths of a dimension; each axis of a grid has separate links."""
    return dimension.sizes if dimension.kind in ("ring", "torus", "mesh") else (dimension.size,)


def _strides(cluster: Cluster) -> list[tuple[Dimension, int, int]]:
    """Returns dimension, stride and length of each axis of a network."""
    found, stride = [], 1
    for one in cluster.dimensions:
        for length in _axes(one):
            found.append((one, stride, length))
            stride *= length
    return found


@lru_cache(4096)
def _are_separate(cluster: Cluster, block: int) -> bool:
    """Whether blocks of `block` devices are equal and have separate links: full boxes of the network, or adjacent
    parts of its outermost axis. Paths inside a row do not leave it, except on a one-way ring; trunks of trees and
    dragonflies connect several blocks."""
    if not cluster.dimensions or cluster.faults or cluster.devices % block:
        return False
    for one, inner, length in _strides(cluster):
        inside, outside = inner * length <= block, inner >= block
        if one.kind in ("fat_tree", "dragonfly") and not inside:
            return False
        if inside or outside:
            continue
        if block % inner or length % (block // inner) or (one.kind in ("ring", "torus") and not _duplex(cluster)):
            return False
    return True


def _duplex(cluster: Cluster) -> bool:
    return all(one.get("both_ways", True) for one in cluster.network)


@lru_cache(4096)
def _interleaved(cluster: Cluster, stride: int) -> range:
    """Returns first devices of groups with this stride that share links with the first group: on a grid, those in its
    row. Other devices have separate links unless they share ports."""
    if any(one.rails for one in cluster.dimensions):
        return range(stride)
    for one, inner, length in _strides(cluster):
        if stride == inner:
            return range(1)
        if inner < stride < inner * length and not (stride % inner or length % (stride // inner)):
            return range(1) if one.kind in ("switch", "full") else range(0, stride, inner)
    return range(stride)


def _begins(cluster: Cluster, first: int, last: int) -> bool:
    """Whether algorithms stay the same without the axes before `first`: rings treat the devices on a switch in
    the first dimension as nodes."""
    axes = _strides(cluster)
    kept = [one for one, _, _ in axes[first:last]]
    return first == 0 or not kept or kept[0].kind in ("ring", "torus", "mesh") or all(one is kept[0] for one in kept)


@lru_cache(256)
def _some_axes(cluster: Cluster, first: int, last: int) -> Cluster:
    """Copies some of the axes of a network."""
    found, at = [], 0
    for one, data in zip(cluster.dimensions, cluster.network, strict=True):
        lengths = _axes(one)
        kept = lengths[max(0, first - at) : max(0, last - at)]
        at += len(lengths)
        if kept == lengths:
            found.append(data)
        elif kept:
            found.append({**{key: value for key, value in data.items() if key != "size"}, "sizes": list(kept)})
    return cluster if len(found) == len(cluster.network) and first == 0 and last >= at else Cluster(network=found)
