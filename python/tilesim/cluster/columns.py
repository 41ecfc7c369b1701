"""Workloads and plans as columns of numbers, one row per step: what the closed forms compute with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ..models.layered import Layered
from .plan import OFFLOAD, RECOMPUTE, SHARDS, Plan

__all__ = ["Columns", "columns"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """One number per step in every field; extents of the whole model unless said otherwise."""

    layers: Array
    hidden: Array
    ffn: Array
    gated: Array
    heads: Array
    kv_heads: Array
    head_size: Array
    vocab: Array
    sequence: Array
    global_batch: Array
    unfused: Array
    experts: Array
    experts_chosen: Array
    keys: Array
    tensor: Array
    pipeline: Array
    virtual: Array
    data: Array
    context: Array
    expert: Array
    micro_batch: Array
    sequence_parallel: Array
    shard: Array
    recompute: Array
    gpipe: Array
    offload: Array
    element_bytes: float
    parameter_bytes: float

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def again(self) -> NDArray[np.bool_]:
        """Whether every layer is made again in the backward pass: full recompute, or layers' inputs on the host."""
        return (self.recompute == 2.0) | (self.recompute == 4.0)

    @property
    def tokens(self) -> Array:
        """Of a micro-batch on one device."""
        return self.micro_batch * self.sequence / self.context

    @property
    def micro_batches(self) -> Array:
        """Of a step and replica."""
        return self.global_batch / (self.data * self.micro_batch)

    @property
    def devices(self) -> Array:
        """All of them."""
        return self.tensor * self.pipeline * self.data * self.context

    @property
    def attention_parameters(self) -> Array:
        """Of a layer: projections of attention, with normalizations and biases."""
        width = (self.heads + 2 * self.kv_heads) * self.head_size
        return self.hidden * width + self.heads * self.head_size * self.hidden + width + 6 * self.hidden

    @property
    def expert_parameters(self) -> Array:
        """Of a layer: the feed-forward part, all experts."""
        one = np.where(self.gated, 3, 2) * self.hidden * self.ffn + self.ffn
        return one * np.maximum(1.0, self.experts) + self.experts * self.hidden

    @property
    def layer_parameters(self) -> Array:
        """Of one layer."""
        return self.attention_parameters + self.expert_parameters

    @property
    def stage_layers(self) -> Array:
        """Layers of the fullest stage."""
        return np.ceil(self.layers / self.pipeline)

    @property
    def table_parameters(self) -> Array:
        """Of the embedding."""
        return self.vocab * self.hidden

    @property
    def device_layer_parameters(self) -> Array:
        """Of one layer on one device, before any sharding over data."""
        return (self.attention_parameters + self.expert_parameters / self.expert) / self.tensor

    @property
    def device_parameters(self) -> Array:
        """Of the fullest device before any sharding over data: its layers and a table on the first stage."""
        return self.stage_layers * self.device_layer_parameters + self.table_parameters / self.tensor

    @property
    def owned_parameters(self) -> Array:
        """Whose optimizer state the fullest device keeps."""
        return self.device_parameters / np.where(self.shard >= 1, self.data * self.context, 1.0)

    @property
    def model_parameters(self) -> Array:
        """Of the model."""
        return self.layers * self.layer_parameters + self.table_parameters

    def take(self, index: NDArray[np.int64]) -> Columns:
        """The steps of some rows.

        Args:
            index: of the rows.

        Returns:
            Their columns.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Columns(**{key: value if np.isscalar(value) else value[index] for key, value in values.items()})


_OF_WORKLOAD = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_size", "vocab", "sequence", "global_batch")
_OF_PLAN = ("tensor", "pipeline", "virtual", "data", "context", "expert", "micro_batch")


def columns(steps: Sequence[tuple[Layered, Plan]]) -> Columns:
    """Steps as columns.

    Args:
        steps: workloads of one dtype, with their plans.

    Returns:
        The columns, in the same order.
    """
    workloads, plans = [step[0] for step in steps], [step[1] for step in steps]

    def numbers(values: list[float]) -> Array:
        return np.array(values, dtype=np.float64)

    table = {name: numbers([getattr(one, name) for one in workloads]) for name in _OF_WORKLOAD}
    table |= {name: numbers([getattr(one, name) for one in plans]) for name in _OF_PLAN}
    return Columns(
        **table,
        gated=np.array([one.gated for one in workloads]),
        unfused=np.array([one.attention == "unfused" for one in workloads]),
        experts=numbers([one.experts.count if one.experts else 0 for one in workloads]),
        experts_chosen=numbers([one.experts.chosen if one.experts else 1 for one in workloads]),
        keys=numbers([one.sequence for one in workloads]),
        sequence_parallel=np.array([one.sequence for one in plans], dtype=bool),
        shard=numbers([SHARDS.index(one.shard) for one in plans]),
        recompute=numbers([RECOMPUTE.index(one.recompute) for one in plans]),
        gpipe=np.array([one.schedule == "gpipe" for one in plans]),
        offload=numbers([OFFLOAD.index(one.offload) for one in plans]),
        element_bytes=2.0 if workloads[0].dtype != "f32" else 4.0,
        parameter_bytes=4.0 if workloads[0].dtype in ("f32", "bf16-amp") else 2.0,
    )
