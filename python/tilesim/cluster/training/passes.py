"""Times a layer's forward and backward pass: compute, communication and its exposed part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..exchange import AxisGroup, all_reduce, gather, group, permute, to_all
from ..fabric import Fabric
from ..hosts.offload import exposed, seconds
from ..hosts.offload import offload_bytes as to_host
from ..terms import DeviceWork
from .replicas import sharded

__all__ = ["AxisTraffic", "LayerSeconds", "gathered_layer", "hidden", "layer_passes", "state"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AxisTraffic:
    """Communication over one axis: operation, bytes per call, calls, seconds of all calls including overlapped ones.
    `group` None is a device and its host."""

    axis: str
    operation: str
    bytes: Array
    calls: Array
    seconds: Array
    group: AxisGroup | None


@dataclass(frozen=True)
class LayerSeconds:
    """Seconds of one layer and pass; `moved` has all communication. `interference`: slow-down of compute by overlapped
    communication; `data_interference`: the part due to parameters and gradients."""

    compute: Array
    recompute: Array
    host: Array
    tensor: Array
    expert: Array
    context: Array
    data: Array
    offload: Array
    interference: Array
    data_interference: Array
    traffic: tuple[AxisTraffic, ...] = ()

    @property
    def seconds(self) -> Array:
        """The sum of all parts in seconds."""
        passed = self.tensor + self.expert + self.context + self.data + self.offload
        return self.compute + self.recompute + self.host + passed + self.interference


def hidden(compute: Array, moved: Array, share: float) -> tuple[Array, Array]:
    """Returns the exposed seconds of communication that overlaps compute, and the slow-down of compute."""
    if share == 1.0:
        return moved, np.zeros(np.shape(moved))
    return np.maximum(moved - compute, 0.0), share * np.minimum(moved, compute)


def hidden_by_split_products(c: Columns, products: Array, sums: Array, k: Mapping[str, float]) -> tuple[Array, Array]:
    """Returns the exposed part of a tensor group's reductions that overlap split products, and the slow-down. Of n
    parts (one per device), n - 1 overlap."""
    return hidden(k["tensor_overlap"] * (c.tensor - 1) / c.tensor * products, sums, k["interference"])


def _waits(busy: Array, launch: Array, blend: float) -> Array:
    """Seconds in which a device waits for its host: launches are early for long kernels and late for short ones, so a
    smooth maximum applies."""
    larger, smaller = np.maximum(busy, launch), np.minimum(busy, launch)
    ratio = smaller / np.where(larger > 0, larger, 1.0)
    return larger * (1.0 + ratio**blend) ** (1.0 / blend) - busy


def _sharded_traffic(
    c: Columns, fabric: Fabric, k: Mapping[str, float], operation: str, width: Array | float, level: int = 3
) -> tuple[AxisTraffic, ...]:
    """Returns the traffic of a layer's parameters or gradients, which zero shards from `level` on."""
    found = []
    for part in sharded(c, fabric):
        bytes_ = part.layer * width
        some = (c.shard >= level) & (bytes_ > 0)
        seconds = np.where(some, gather(np.where(some, bytes_, 0.0), part.group, fabric, k), 0.0)
        found.append(AxisTraffic("data", operation, bytes_, np.ones(len(c)), seconds, part.group))
    return tuple(found)


def gathered_layer(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Array:
    """Returns the seconds to gather the sharded parameters of a layer."""
    return np.sum([one.seconds for one in _sharded_traffic(c, fabric, k, "all_gather", c.element_bytes)], axis=0)


def state(c: Columns, fabric: Fabric) -> AxisTraffic:
    """Returns the transfers of the optimizer state from and to the host, once per step."""
    bytes_ = to_host(c, False).state
    calls = np.where(bytes_ > 0, 2.0, 0.0)
    return AxisTraffic("offload", "copy", bytes_, calls, seconds(bytes_, fabric), None)


def layer_passes(
    c: Columns, w: DeviceWork, fabric: Fabric, k: Mapping[str, float]
) -> tuple[LayerSeconds, LayerSeconds]:
    """Returns the forward and backward pass of a layer, with recompute and communication."""
    tensor = group(c, "tensor", fabric)
    wide = c.tokens * c.hidden * c.element_bytes
    sums = 2 * all_reduce(wide, tensor, fabric, k)
    again = np.where(c.recomputes_layers, sums, 0.0)
    experts, around = group(c, "expert", fabric), group(c, "context", fabric)
    sent = wide * np.maximum(1.0, c.experts_chosen) * c.imbalance / c.tensor
    routed = np.where(c.expert > 1, 2 * to_all(sent, experts, fabric, k), 0.0)
    kv = 2 * c.key_bytes
    ring = np.where(c.by_heads, 0.0, (c.context - 1) * permute(kv, around, fabric, k))
    # all-to-alls of queries, outputs, keys and values convert token shards to head shards and back
    turned = [np.where(c.by_heads, 2 * to_all(one, around, fabric, k), 0.0) for one in (c.query_bytes, c.key_bytes)]
    turn = turned[0] + turned[1]
    whole = _sharded_traffic(c, fabric, k, "all_gather", c.element_bytes)
    width = np.where(c.shard >= 3, c.parameter_bytes, k["gradient_bytes"])
    scattered = _sharded_traffic(c, fabric, k, "reduce_scatter", width, level=2)
    gathered, summed = (np.sum([one.seconds for one in rows], axis=0) for rows in (whole, scattered))
    forward, backward, recompute = w.forward.seconds, w.backward.seconds, w.recompute.seconds
    share = k["interference"]
    # processes launch independently, and synchronize at each reduction
    launch = k["host_pass"] + k["host_straggler"] * (c.tensor - 1)
    tensor_f, parts_f = hidden_by_split_products(c, w.forward.products, sums, k)
    tensor_b, parts_b = hidden_by_split_products(c, w.backward.products + w.recompute.products, sums + again, k)
    host_f = _waits(forward + tensor_f + routed + turn, launch, k["host_blend"])
    back = backward + recompute
    passes = 1 + np.where(c.recomputes_layers, 1.0, 0.0)
    host_b = _waits(back + tensor_b + 2 * routed + passes * turn, passes * launch, k["host_blend"])
    ring_f = hidden(w.forward.attention, ring, share)
    ring_b = hidden(w.backward.attention, 2 * ring, share)
    busy_f, busy_b = forward + host_f + tensor_f, back + host_b + tensor_b
    zero, one = np.zeros(len(c)), np.ones(len(c))
    away = to_host(c, k["dropout"] > 0).layer
    copied = AxisTraffic(
        "offload", "copy", away, one, seconds(away, fabric), None
    )  # the forward pass sends bytes to the host, and the backward pass reads them back

    def moved(times: int, repeated: Array) -> tuple[AxisTraffic, ...]:
        return (
            AxisTraffic("tensor", "all_reduce", wide, 2 * repeated, sums * repeated, tensor),
            AxisTraffic("expert", "all_to_all", sent, 2 * times * one, times * routed, experts),
            AxisTraffic("context", "permute", kv, times * (c.context - 1), times * ring, around),
            AxisTraffic("context", "all_to_all", c.query_bytes, 2 * repeated, turned[0] * repeated, around),
            AxisTraffic("context", "all_to_all", c.key_bytes, 2 * repeated, turned[1] * repeated, around),
            *whole,
            copied,
        )

    data_f, slow_f = hidden(busy_f, gathered, share)
    data_b, slow_b = hidden(busy_b, gathered + summed, share)
    away_f, away_b = exposed(away, busy_f, fabric, k), exposed(away, busy_b, fabric, k)
    return (
        LayerSeconds(forward, zero, host_f, tensor_f, routed, ring_f[0] + turn, data_f, away_f[0],
              ring_f[1] + slow_f + away_f[1] + parts_f, slow_f, moved(1, one)),
        LayerSeconds(backward, recompute, host_b, tensor_b, 2 * routed, ring_b[0] + passes * turn, data_b, away_b[0],
              ring_b[1] + slow_b + away_b[1] + parts_b, slow_b, (*moved(2, passes), *scattered)),
    )  # fmt: skip
