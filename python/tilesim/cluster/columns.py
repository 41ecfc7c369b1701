"""Converts workloads and plans to arrays with one element per step, for the closed forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models.layered import Layered
from .experts.routing import imbalance
from .plan import CONTEXTS, OFFLOAD, RECOMPUTE, SCHEDULES, SHARDS, Plan

__all__ = ["Columns", "columns", "columns_of_table"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Arrays with one number per step; extents are those of the complete model unless noted."""

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
    unfused: NDArray[np.bool_]
    experts: Array
    experts_chosen: Array
    keys: Array
    decode: NDArray[np.bool_]
    tied: NDArray[np.bool_]
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
    schedule: Array
    offload: Array
    context_kind: Array
    imbalance: Array
    element_bytes: float
    parameter_bytes: float
    state_devices: Array | None = None  # replaces `state_replicas` if the cluster has slices
    state_expert_devices: Array | None = None

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def recomputes_layers(self) -> NDArray[np.bool_]:
        """Whether the backward pass recomputes every layer (full recompute, or layer inputs on the host)."""
        return (self.recompute == 2.0) | (self.recompute == 4.0)

    @property
    def local_kv_heads(self) -> Array:
        """Key heads on one device, at least one: a tensor axis larger than the number of heads replicates them."""
        return np.ceil(self.kv_heads / self.tensor)

    @property
    def tokens(self) -> Array:
        """Tokens of a micro-batch on one device."""
        return self.micro_batch * self.queries

    @property
    def queries(self) -> Array:
        """Tokens of a sequence that one device processes: its context shard, or one token in decode."""
        return np.where(self.decode, 1.0, self.sequence / self.context)

    @property
    def by_heads(self) -> NDArray[np.bool_]:
        """Whether attention is sharded by heads over the context axis."""
        return (self.context > 1) & (self.context_kind == CONTEXTS.index("all_to_all"))

    @property
    def query_bytes(self) -> Array:
        """Bytes of a micro-batch's queries (and of its attention outputs) in a layer on one device."""
        return self.tokens * self.heads / self.tensor * self.head_size * self.element_bytes

    @property
    def key_bytes(self) -> Array:
        """Bytes of a micro-batch's keys (and of its values) in a layer on one device."""
        return self.tokens * self.local_kv_heads * self.head_size * self.element_bytes

    @property
    def micro_batches(self) -> Array:
        """Micro-batches per step and replica."""
        return self.global_batch / (self.data * self.micro_batch)

    @property
    def gpipe(self) -> NDArray[np.bool_]:
        """Whether the schedule is gpipe: all forward passes precede the backward passes."""
        return self.schedule == SCHEDULES.index("gpipe")

    @property
    def copies(self) -> Array:
        """Number of model copies: two in opposite directions for dualpipe, else one."""
        return np.where(self.schedule == SCHEDULES.index("dualpipe"), 2.0, 1.0)

    @property
    def ways(self) -> Array:
        """Number of passes of a micro-batch over a stage: two for a V schedule, else one."""
        return np.where(self.schedule == SCHEDULES.index("zb-v"), 2.0, 1.0)

    @property
    def devices(self) -> Array:
        """Number of devices."""
        return self.tensor * self.pipeline * self.data * self.context

    @property
    def attention_parameters(self) -> Array:
        """Attention parameters of a layer, including normalizations and biases."""
        width = (self.heads + 2 * self.kv_heads) * self.head_size
        return self.hidden * width + self.heads * self.head_size * self.hidden + width + 6 * self.hidden

    @property
    def expert_parameters(self) -> Array:
        """Feed-forward parameters of a layer, including all experts."""
        one = np.where(self.gated, 3, 2) * self.hidden * self.ffn + self.ffn
        return one * np.maximum(1.0, self.experts) + self.experts * self.hidden

    @property
    def layer_parameters(self) -> Array:
        """Parameters of one layer."""
        return self.attention_parameters + self.expert_parameters

    @property
    def shared_layer_parameters(self) -> Array:
        """Parameters of one layer on one device except experts, including the router, before sharding over data."""
        routed = self.expert_parameters - self.experts * self.hidden
        return (self.layer_parameters - np.where(self.expert > 1, routed, 0.0)) / self.tensor

    @property
    def routed_layer_parameters(self) -> Array:
        """Expert parameters of one layer on one device of an expert axis, before sharding over data."""
        routed = self.expert_parameters - self.experts * self.hidden
        return np.where(self.expert > 1, routed / self.expert, 0.0) / self.tensor

    @property
    def replicas(self) -> Array:
        """Number of devices that replicate parameters, except those of experts."""
        return self.data * self.context * self.copies

    @property
    def expert_replicas(self) -> Array:
        """Number of devices with the same experts."""
        return self.replicas / self.expert

    @property
    def state_replicas(self) -> Array:
        """Number of devices that shard parameters, gradients and optimizer state, except those of experts."""
        return self.replicas if self.state_devices is None else self.state_devices

    @property
    def state_expert_replicas(self) -> Array:
        """Number of devices that shard parameters, gradients and optimizer state of experts."""
        return self.expert_replicas if self.state_expert_devices is None else self.state_expert_devices

    @property
    def stage_layers(self) -> Array:
        """Number of layers of the fullest stage; for dualpipe the mean of a device's two model parts."""
        more = np.mod(self.layers, self.pipeline)
        pair = np.floor(self.layers / self.pipeline) + np.select(
            [more == 0, 2 * more <= self.pipeline], [0.0, 0.5], 1.0
        )
        return np.where(self.copies > 1, pair, np.ceil(self.layers / self.pipeline))

    def part_layers(self, stage: Array | float) -> Array:
        """Returns the layers of a model part; the first parts have one more if the division has a remainder."""
        return np.floor(self.layers / self.pipeline) + (stage < np.mod(self.layers, self.pipeline))

    def both_layers(self, stage: Array | float) -> tuple[Array, Array]:
        """Returns mean and largest number of layers over a stage's model parts (two for dualpipe, else one)."""
        one = self.part_layers(stage)
        other = np.where(self.copies > 1, self.part_layers(self.pipeline - 1 - stage), one)
        return (one + other) / 2, np.maximum(one, other)

    def has_head(self, stage: Array | float) -> NDArray[np.bool_]:
        """Whether a stage computes logits: the last; in dualpipe also the first; in a V schedule only the first."""
        first, last = np.equal(stage, 0), np.equal(stage, self.pipeline - 1)
        return np.select([self.ways > 1, self.copies > 1], [first, first | last], last)

    def tables(self, stage: Array | float) -> Array:
        """Returns a stage's tables per model copy: embedding and head, or one if both are tied on one device."""
        first, head = np.equal(stage, 0), self.has_head(stage)
        both = np.where(self.tied, 1.0, 2.0)
        return np.where(first & head & (self.copies == 1), both, np.where(first | head, 1.0, 0.0))

    @property
    def table_parameters(self) -> Array:
        """Parameters of the embedding."""
        return self.vocab * self.hidden

    @property
    def device_layer_parameters(self) -> Array:
        """Parameters of one layer on one device, before sharding over data."""
        return self.shared_layer_parameters + self.routed_layer_parameters

    @property
    def device_parameters(self) -> Array:
        """Parameters that the fullest device has before sharding over data."""
        return self.parameters(self.shard < 0)

    @property
    def owned_parameters(self) -> Array:
        """Parameters whose optimizer state the fullest device stores."""
        return self.parameters(self.shard >= 1)

    def parameters_of_layer(self, sharded: NDArray[np.bool_]) -> Array:
        """Returns the parameters of one layer on one device; where `sharded`, divided over their replicas."""
        shared = self.shared_layer_parameters / np.where(sharded, self.state_replicas, 1.0)
        return shared + self.routed_layer_parameters / np.where(sharded, self.state_expert_replicas, 1.0)

    def parameters(self, sharded: NDArray[np.bool_], stage: Array | float | None = None) -> Array:
        """Returns the parameters of a device, in layers and tables, of a stage or (None) of the fullest stage."""
        layers = self.stage_layers if stage is None else self.both_layers(stage)[0]
        tables = self.tables(0.0 if stage is None else stage) * self.table_parameters / self.tensor
        tables = tables / np.where(sharded, self.state_replicas, 1.0)
        return self.copies * (layers * self.parameters_of_layer(sharded) + tables)

    @property
    def model_parameters(self) -> Array:
        """Parameters of the model."""
        return self.layers * self.layer_parameters + self.table_parameters


_WORKLOAD_FIELDS = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_size", "vocab", "sequence", "global_batch")
_PLAN_FIELDS = ("tensor", "pipeline", "virtual", "data", "context", "expert", "micro_batch")
_CODES = {"shard": SHARDS, "recompute": RECOMPUTE, "schedule": SCHEDULES, "offload": OFFLOAD,
          "context_kind": CONTEXTS}  # fmt: skip


def _workload_columns(workloads: Sequence[Layered]) -> dict[str, Any]:
    table: dict[str, Any] = {
        name: np.array([getattr(one, name) for one in workloads], dtype=np.float64) for name in _WORKLOAD_FIELDS
    }
    dtype = workloads[0].dtype
    return table | {
        "gated": np.array([one.gated for one in workloads]),
        "unfused": np.array([one.attention == "unfused" for one in workloads]),
        "experts": np.array([one.experts for one in workloads], dtype=np.float64),
        "experts_chosen": np.array([max(1, one.experts_chosen) for one in workloads], dtype=np.float64),
        "keys": table["sequence"],
        "decode": np.array([one.phase == "decode" for one in workloads]),
        "tied": np.array([one.tied for one in workloads]),
        "element_bytes": 4.0 if dtype == "f32" else 2.0,
        "parameter_bytes": 4.0 if dtype in ("f32", "bf16-amp") else 2.0,
    }


def columns(steps: Sequence[tuple[Layered, Plan]]) -> Columns:
    """Converts steps, pairs of workload and plan, to columns."""
    plans = [step[1] for step in steps]
    table = {name: np.array([getattr(one, name) for one in plans], dtype=np.float64) for name in _PLAN_FIELDS}
    for name, known in _CODES.items():
        table[name] = np.array([known.index(getattr(one, name)) for one in plans], dtype=np.float64)
    sequence = np.array([one.sequence for one in plans], dtype=bool)
    return _table([step[0] for step in steps], 1, table, sequence)


def columns_of_table(workload: Layered, plans: Mapping[str, Array]) -> Columns:
    """Converts many plans of one workload to columns."""
    count = len(plans["tensor"])
    table = {name: np.asarray(value) for name, value in plans.items() if name != "sequence"}
    for name in ("offload", "context_kind"):
        table.setdefault(name, np.zeros(count))
    return _table([workload], count, table, plans["sequence"].astype(bool))


def _table(
    workloads: Sequence[Layered], times: int, plans: Mapping[str, Array], sequence: NDArray[np.bool_]
) -> Columns:
    """Joins columns of workloads, repeated `times` times, with columns of plans."""
    given = _workload_columns(workloads)
    if times != 1:
        given = {key: value if np.isscalar(value) else np.repeat(value, times) for key, value in given.items()}
    columns: dict[str, Any] = {**given, **plans, "sequence_parallel": sequence}
    found = Columns(**columns, imbalance=np.ones(len(sequence)))
    if all(one.routing is None for one in workloads):
        return found
    return replace(found, imbalance=imbalance(workloads, found.expert, found.tokens))
