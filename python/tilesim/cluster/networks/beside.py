"""Which groups of an axis of a plan meet on links: what those of one place do, those of all places do.

Devices are numbered with the first axis of a network innermost, and a group has members at even strides of that number.
Axes that a group spans not at all, or all of, need not be looked at; of the others blocks of devices lie alike, each on
links of its own, and groups that begin beside each other meet on the rows that both go along.
"""

from __future__ import annotations

import itertools
import operator
from functools import lru_cache

from ..cluster import Cluster, Dimension

__all__ = ["every_group", "meeting_groups"]


def every_group(cluster: Cluster, size: int, stride: int) -> list[list[int]]:
    """All groups of an axis."""
    return _listed(cluster, size, stride, range(0, cluster.devices, size * stride), range(stride))


def _listed(cluster: Cluster, size: int, stride: int, blocks: range, beside: range) -> list[list[int]]:
    every = (range(one + place, one + place + size * stride, stride) for one in blocks for place in beside)
    return [list(one) for one in every if one[-1] < cluster.devices]


def meeting_groups(cluster: Cluster, size: int, stride: int) -> tuple[Cluster, list[list[int]]]:
    """The groups that meet the first one of an axis, where all others lie alike; else all."""
    part, stride = _within(cluster, size, stride)
    blocks, beside = range(0, part.devices, size * stride), range(stride)
    if _apart(part, size * stride):
        blocks, beside = blocks[:1], _interleaved(part, stride)
    return part, _listed(part, size, stride, blocks, beside)


@lru_cache(4096)
def _within(cluster: Cluster, size: int, stride: int) -> tuple[Cluster, int]:
    """The axes of the network that matter to a group, and its stride there: what lies outside of it is another
    group's, and devices of one place inside have links of their own."""
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
    """Lengths of what a dimension divides into: the axes of a grid have links of their own."""
    return dimension.sizes if dimension.kind in ("ring", "torus", "mesh") else (dimension.size,)


def _strides(cluster: Cluster) -> list[tuple[Dimension, int, int]]:
    """Each axis of a network: its dimension, stride and length."""
    found, stride = [], 1
    for one in cluster.dimensions:
        for length in _axes(one):
            found.append((one, stride, length))
            stride *= length
    return found


@lru_cache(4096)
def _apart(cluster: Cluster, block: int) -> bool:
    """Whether blocks of so many devices lie alike, on links of their own: whole boxes of the network, of the outermost
    axis a part in a row. Ways inside a row stay there, but round a circle of one direction; trunks of trees and
    dragonflies join devices of several blocks."""
    if not cluster.dimensions or cluster.faults or cluster.devices % block:
        return False
    for one, inner, length in _strides(cluster):
        inside, outside = inner * length <= block, inner >= block
        if one.kind in ("fat_tree", "dragonfly") and not inside:
            return False
        if inside or outside:
            continue
        if block % inner or length % (block // inner) or (one.kind in ("ring", "torus") and not _both_ways(cluster)):
            return False
    return True


def _both_ways(cluster: Cluster) -> bool:
    return all(one.get("both_ways", True) for one in cluster.network)


@lru_cache(4096)
def _interleaved(cluster: Cluster, stride: int) -> range:
    """Where groups of so long a stride begin that meet the first one: in its row, if that is a grid's; devices of other
    places have links of their own, but behind ports that they share."""
    if any(one.rails for one in cluster.dimensions):
        return range(stride)
    for one, inner, length in _strides(cluster):
        if stride == inner:
            return range(1)
        if inner < stride < inner * length and not (stride % inner or length % (stride // inner)):
            return range(1) if one.kind in ("switch", "full") else range(0, stride, inner)
    return range(stride)


def _begins(cluster: Cluster, first: int, last: int) -> bool:
    """Whether algorithms are the same without the axes before one: rings go through what a switch that is the first
    dimension joins as nodes, which others are not."""
    axes = _strides(cluster)
    kept = [one for one, _, _ in axes[first:last]]
    return first == 0 or not kept or kept[0].kind in ("ring", "torus", "mesh") or all(one is kept[0] for one in kept)


@lru_cache(256)
def _some_axes(cluster: Cluster, first: int, last: int) -> Cluster:
    """A network of some of the axes of another."""
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
