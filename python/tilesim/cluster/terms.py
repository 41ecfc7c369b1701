"""Seconds of layers, head and optimizer on one device for many plans, by the closed forms of `tilesim.analytic`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analytic import attention, gemm
from ..analytic.gpu.serving import in_the_mean, reached
from ..analytic.operations import by_default
from ..analytic.schemes import scheme
from ..machine.device import Device
from .columns import Columns

__all__ = ["DeviceWork", "PassSeconds", "Pricer", "layer_attention", "layer_bytes", "layer_products"]

Array = NDArray[np.float64]
_TOTAL = attention.TERMS.index("total")


@dataclass(frozen=True)
class PassSeconds:
    """Seconds of a micro-batch's pass by operation type, one number per plan."""

    products: Array
    attention: Array
    vector: Array

    @property
    def seconds(self) -> Array:
        """Seconds of all types of operations."""
        return self.products + self.attention + self.vector


@dataclass(frozen=True)
class DeviceWork:
    """Compute of one device: forward pass, backward pass and recompute of a layer; head; optimizer.

    `weight_products`, `head_weight`: the part of `backward` and `head_backward` for weight gradients.
    """

    forward: PassSeconds
    backward: PassSeconds
    recompute: PassSeconds
    head_forward: Array
    head_backward: Array
    embedding: Array
    optimizer: Array
    weight_products: Array
    head_weight: Array


class Pricer:
    """Times products and attention on one device; evaluates each distinct shape once."""

    def __init__(self, device: Device, dtype: str) -> None:
        self.device = device
        self.dtype = {"f16": "fp16"}.get(dtype, dtype)
        if device.kind == "tpu" and self.dtype == "fp16":
            self.dtype = "bf16"
        self._model = gemm.estimator(device, by_default(scheme(self.dtype, device), device)).core()
        phases = (attention.constants_of(device, phase, self.dtype, self.dtype) for phase in ("prefill", "decode"))
        self._prefill, self._decode = (
            attention.core_of(device, self.dtype, self.dtype, entry.constants) for entry in phases
        )
        self._known: dict[tuple[float, ...], float] = {}

    def _priced(self, kind: float, columns: list[Array], price: Any) -> Array:
        arrays = np.broadcast_arrays(*columns)
        table = np.stack([array.ravel() for array in arrays], axis=1)
        if len(table) > 16:
            distinct, index = distinct_rows(table)
        else:
            distinct, index = table, np.arange(len(table))
        keys = [(kind, *row) for row in distinct.tolist()]
        missing = [number for number, key in enumerate(keys) if key not in self._known]
        if missing:
            found = price(*distinct[missing].T)
            self._known.update(zip((keys[number] for number in missing), found.tolist(), strict=True))
        return np.array([self._known[key] for key in keys])[index].reshape(arrays[0].shape)

    def product(self, m: Array, n: Array, k: Array, batch: Array | float = 1.0) -> Array:
        """Returns the seconds of `batch` products of [m, k] by [k, n]; extents are rounded up."""
        columns = [np.ceil(np.asarray(value, dtype=np.float64)) for value in (m, n, k, batch)]

        def price(m: Array, n: Array, k: Array, batch: Array) -> Array:
            return np.asarray(self._model.seconds(*(np.ascontiguousarray(one) for one in (batch, m, n, k))))

        return self._priced(0.0, columns, price)

    def flash(self, batch: Array, queries: Array, keys: Array, heads: Array, kv_heads: Array, depth: Array) -> Array:
        """Returns the forward seconds of fused causal attention."""
        columns = [np.ceil(np.asarray(value, dtype=np.float64)) for value in (batch, queries, keys, heads, kv_heads)]

        def price(batch: Array, queries: Array, keys: Array, heads: Array, kv_heads: Array, depth: Array) -> Array:
            shapes = dict(batch=batch, queries=queries, keys=keys, heads=heads, key_heads=kv_heads, depth=depth)
            arrays = {name: np.ascontiguousarray(value) for name, value in shapes.items()}
            window = np.zeros(len(batch))
            terms = np.asarray(self._prefill.terms(**arrays, window=window, causal=True, decode=self._decode))
            return np.array(terms[:, _TOTAL])

        return self._priced(1.0, [*columns, depth], price)


def distinct_rows(table: Array) -> tuple[Array, NDArray[np.int64]]:
    """Returns the distinct rows of a table, and the index of each row among these."""
    order = np.lexsort(table.T)
    ordered = table[order]
    first = np.ones(len(table), dtype=bool)
    first[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    index = np.empty(len(table), dtype=np.int64)
    index[order] = np.cumsum(first) - 1
    return ordered[first], index


def layer_products(c: Columns, price: Pricer, backward: bool = True) -> tuple[Array, Array, Array]:
    """Returns forward, backward and weight-gradient seconds of a layer's products."""
    forward, back, weights = (np.zeros(len(c)) for _ in range(3))
    chosen = np.where(c.experts > 0, c.experts_chosen, 1.0) * c.imbalance  # tokens on the slowest device
    reached = reached_experts(c)
    for n, k, expert in (
        ((c.heads / c.tensor + 2 * c.local_kv_heads) * c.head_size, c.hidden, False),
        (c.hidden, c.heads * c.head_size / c.tensor, False),
        (np.where(c.gated, 2, 1) * c.ffn / c.tensor, c.hidden, True),
        (c.hidden, c.ffn / c.tensor, True),
    ):
        rows = c.tokens * chosen / reached if expert else c.tokens
        batch = reached if expert else np.ones(len(c))
        forward = forward + in_the_mean(batch, partial(price.product, rows, n, k))
        if backward:
            weight = in_the_mean(batch, partial(price.product, k, n, rows))
            back = back + in_the_mean(batch, partial(price.product, rows, k, n)) + weight
            weights = weights + weight
    return forward, back, weights


def reached_experts(c: Columns) -> Array:
    """Returns the number of experts on the slowest device that receive any token of a micro-batch.

    With E equal experts and k per token, B tokens reach E (1 - (1 - k / E)^B) in the mean; tokens of all devices of the
    expert axis are combined.
    """
    every = np.maximum(1.0, c.experts)
    found = reached(every, c.experts_chosen / every * c.imbalance, c.tokens * c.expert) / c.expert
    return np.where(c.experts > 0, np.maximum(1.0, found), 1.0)


def layer_attention(c: Columns, price: Pricer, constants: Mapping[str, float]) -> tuple[Array, Array]:
    """Returns forward and backward seconds of a layer's attention."""
    depth, batch, keys = c.head_size, c.micro_batch, c.keys
    over = np.where(c.by_heads, c.context, 1.0)  # if sharded by heads, a device has all tokens of some heads
    heads, queries = c.heads / c.tensor / over, c.queries * over
    # balanced shards of a sequence attend to half of all keys plus half of their shard
    seen = np.where((c.context > 1) & ~c.by_heads, (keys + queries) / 2, keys)
    seen = np.where(c.decode, np.ceil(keys / c.context), seen)  # a device attends to its shard of the cache
    kv_heads = np.minimum(np.ceil(c.local_kv_heads / over), np.ceil(heads))
    fused = price.flash(batch, queries, seen, heads, kv_heads, depth)
    # the backward pass has five products, the forward pass two
    older = price.device.family in ("volta", "turing", "ampere", "ada")
    newer = 1.0 if older or price.device.kind != "gpu" else constants["mma_share"]
    forward = fused / (constants["flash_share"] * newer)
    backward = 2.5 * fused / (constants["flash_backward_share"] * newer)
    if np.any(c.unfused):
        keys = np.where(c.decode, seen, keys)
        count = np.ceil(batch * heads)
        scores = price.product(queries, keys, depth, count)
        context = price.product(queries, depth, keys, count)
        back = scores + 2 * context + price.product(keys, depth, queries, count)
        forward, backward = np.where(c.unfused, scores + context, forward), np.where(c.unfused, back, backward)
    return forward, backward


def layer_bytes(c: Columns, constants: Mapping[str, float]) -> tuple[Array, Array, Array]:
    """Returns the bytes of a layer's operations between products (forward, backward and recompute)."""
    e = c.element_bytes
    shared = np.where(c.sequence_parallel, c.tensor, 1.0)
    wide = c.tokens * c.hidden * e / shared
    inner = c.tokens * c.ffn * np.where(c.experts > 0, c.experts_chosen, 1.0) * c.imbalance * e / c.tensor
    heads = c.query_bytes + c.key_bytes
    # an all-to-all copies its data into the order of the other sharding: one read and one write
    turned = np.where(c.by_heads, 2 * (2 * c.query_bytes + 2 * c.key_bytes), 0.0)
    drop = constants["dropout"]
    # two normalizations read and write; two residual sums read twice and write; dropout also moves its mask
    forward = wide * (4 + 6 + 2 * 0.5 * drop) + inner * np.where(c.gated, 3, 2) + heads * 2 + turned
    backward = wide * (6 + 4 + 2 * (2 + 0.5) * drop) + inner * np.where(c.gated, 5, 3) + heads * 3 + turned
    scores = c.micro_batch * c.heads / c.tensor * c.queries * np.where(c.decode, c.keys / c.context, c.keys) * e
    passes = np.where(c.unfused, scores * (2 + 2.5 * drop) * constants["scores"], 0.0)
    return (
        forward + passes,
        backward + np.where(c.unfused, scores * (3 + 2.5 * drop) * constants["scores"], 0.0),
        passes,
    )


def work(c: Columns, price: Pricer, constants: Mapping[str, float]) -> DeviceWork:
    """Returns one device's compute per layer and micro-batch."""
    memory = price.device.memory.bytes_per_second * constants["memory_share"]
    rate = constants["product_share"]
    products_f, products_b, products_w = (value / rate for value in layer_products(c, price))
    attention_f, attention_b = layer_attention(c, price, constants)
    share = np.where(c.unfused, rate, 1.0)
    attention_f, attention_b = attention_f / share, attention_b / share
    bytes_f, bytes_b, passes = layer_bytes(c, constants)
    forward = PassSeconds(products_f, attention_f, bytes_f / memory)
    backward = PassSeconds(products_b, attention_b, bytes_b / memory)
    full = c.recomputes_layers
    selective = c.recompute == 1.0
    minimal = c.recompute == 3.0  # minimal recompute repeats only the operations between products
    zero = np.zeros(len(c))
    recompute = PassSeconds(
        np.where(full, products_f, zero),
        np.where(full | (selective & c.unfused) | (minimal & ~c.unfused), attention_f, zero),
        np.where(full | minimal, forward.vector, np.where(selective, passes / memory, zero)),
    )
    vocabulary = c.vocab / c.tensor
    logits = c.tokens * vocabulary
    head = price.product(c.tokens, vocabulary, c.hidden) / rate
    head_w = price.product(c.hidden, vocabulary, c.tokens) / rate
    head_b = price.product(c.tokens, c.hidden, vocabulary) / rate + head_w
    table = c.tokens * c.hidden * c.element_bytes
    return DeviceWork(
        forward,
        backward,
        recompute,
        head + logits * constants["loss_bytes"] / 2 / memory,
        head_b + logits * constants["loss_bytes"] / 2 / memory,
        (table * 6 + vocabulary * c.hidden * c.element_bytes) / memory,
        c.owned_parameters * constants["optimizer_bytes"] / memory,
        products_w,
        head_w,
    )
