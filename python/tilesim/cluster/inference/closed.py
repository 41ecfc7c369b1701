"""Computes prefill and decode steps of many plans in closed form.

Prefill processes all tokens of each sequence. Decode processes one token with a cache of `sequence` tokens; a
context axis shards the cache, each device computes all tokens' products and attends to its shard, and the weighted
outputs are reduced. Only a sequence's last token has logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...analytic.gpu.serving import launch
from ..closed import Detail, StepTimes, stage_seconds
from ..columns import Columns
from ..exchange import all_reduce, group
from ..fabric import Fabric
from ..pipelines.stages import Stages, forward_stages
from ..terms import DeviceWork, PassSeconds, Pricer, layer_attention, layer_bytes, layer_products
from ..training.outside_layers import gathers, hops, pipeline_traffic
from ..training.passes import AxisTraffic, LayerSeconds, gathered_layer, layer_passes

__all__ = ["KERNELS", "times", "work"]

Array = NDArray[np.float64]
#: kernels of a layer besides its products: two normalizations with residual sums, rotation that also writes keys and
#: values, activation (and routing with experts), as in `analytic.gpu.serving`
KERNELS = 4
STATISTICS_BYTES = 8  # per query and head, in f32: the largest score and the sum of exponentials


def work(c: Columns, price: Pricer, k: Mapping[str, float]) -> DeviceWork:
    """Returns one device's compute in a forward pass per layer and micro-batch."""
    zero = np.zeros(len(c))
    memory = price.device.memory.bytes_per_second * k["memory_share"]
    rate = k["product_share"]
    products, *_ = layer_products(c, price, backward=False)
    tiled = 64 * np.ceil(np.maximum(1.0, c.experts) / 64)  # the router's columns are padded to a tile
    routed = np.where(c.experts > 0, price.product(c.tokens, tiled, c.hidden), 0.0)
    attended, _ = layer_attention(c, price, k)
    bytes_, *_ = layer_bytes(c, {**k, "dropout": 0.0})
    wide = c.tokens * c.hidden * c.element_bytes
    bytes_ = bytes_ - 2 * wide / np.where(c.sequence_parallel, c.tensor, 1.0) + 2 * c.key_bytes
    bytes_ = bytes_ - np.where(c.gated, 0.0, 2 * c.query_bytes)  # models with learned positions need no rotation
    bytes_ = bytes_ + np.where(c.experts > 0, 2 * c.experts_chosen * wide, 0.0)  # rows per expert, written and reduced
    started = launch(price.device, price.dtype)
    attention = attended / np.where(c.unfused, rate, 1.0)
    between_ = bytes_ / memory + (KERNELS + (c.experts > 0)) * started
    nothing = PassSeconds(zero, zero, zero)
    head = price.product(c.micro_batch, c.vocab / c.tensor, c.hidden) / rate
    return DeviceWork(
        PassSeconds((products + routed) / rate, attention, between_), nothing, nothing, head, zero,
        2 * wide / memory + started, zero, zero, zero,
    )  # fmt: skip


def _layer(c: Columns, w: DeviceWork, fabric: Fabric, k: Mapping[str, float]) -> LayerSeconds:
    """A layer's pass. In decode with a sharded cache no ring runs; f32 outputs of the shards and their statistics are
    reduced."""
    one, _ = layer_passes(c, w, fabric, k)
    along = group(c, "context", fabric)
    each = c.micro_batch * c.heads / c.tensor * (4 * c.head_size + STATISTICS_BYTES)
    merged = np.where(c.decode, all_reduce(each, along, fabric, k), 0.0)
    moved = [
        replace(row, seconds=np.where(c.decode, 0.0, row.seconds)) if row.axis == "context" else row
        for row in one.traffic
    ]
    moved.append(AxisTraffic("context", "all_reduce", each, np.ones(len(c)), merged, along))
    slowed_ = np.where(c.decode, one.data_interference, one.interference)  # decode has no ring during attention
    return replace(one, context=np.where(c.decode, merged, one.context), interference=slowed_, traffic=tuple(moved))


def times(c: Columns, price: Pricer, fabric: Fabric, k: Mapping[str, float]) -> StepTimes:
    """Returns the seconds until each sequence has its next token, by part."""
    w = work(c, price, k)
    one, zero = _layer(c, w, fabric, k), np.zeros(len(c))
    m, p, v = c.micro_batches, c.pipeline, c.virtual
    ends = w.head_forward + w.embedding
    sending, gathered_ = hops(c, fabric, k), gathers(c, fabric, k)
    counted = sending.counted(c, back=False)
    sent = pipeline_traffic(c, sending, counted, gathered_, fabric)
    sends = counted.full + counted.calls * gathered_.seconds
    fixed = counted.calls * gathered_.seconds + k["host_microbatch"]
    fullest, headed = stage_seconds(c, counted, one.seconds, fixed, ends)
    whole = c.layers * one.seconds + ends + p * fixed + counted.in_sequence
    passes = Stages(one.seconds, zero, zero, ends, zero, zero, 2 * fixed / v, one.compute, zero, fabric.slow, sending)
    slowest, whole = forward_stages(c, passes) if fabric.slow else (headed, whole)
    waits = slowest - headed
    gathered = gathered_layer(c, fabric, k)
    first = gathered - one.data - one.data_interference  # the first layer has no previous layer to overlap with
    through = m * slowest + (whole - slowest) / v
    seconds = through + k["host_step"] + first
    own = m * c.stage_layers
    parts: dict[str, Any] = {
        name: own * getattr(one, name)
        for name in ("compute", "host", "tensor", "context", "expert", "data", "interference")
    }
    parts["compute"] = parts["compute"] + m * np.where(p > 1, 0.0, ends + waits)
    parts["host"] = parts["host"] + m * k["host_microbatch"] + k["host_step"]
    parts["data"] = parts["data"] + gathered - one.data
    parts["interference"] = parts["interference"] - one.data_interference
    parts |= {"pipeline": m * sends, "offload": zero}
    bubble = seconds - sum(parts.values())
    bubble = np.where(np.abs(bubble) < 1e-12 * seconds, 0.0, bubble)  # differences this small come from rounding
    detail = Detail({"forward": one}, slowest, whole, through, headed - fullest, waits, first, sent, counted.calls, ())
    return StepTimes(
        seconds, **parts, recompute=zero, bubble=bubble, optimizer=zero, stage_forward=slowest, stage_backward=zero,
        work=w, detail=detail, stages=passes,
    )  # fmt: skip
