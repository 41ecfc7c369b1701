"""Lists the distinct legal plans of a workload as rows of numbers, and defines their canonical form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.layered import Layered
from ..columns import Columns, columns_of_table
from ..fabric import Fabric
from ..pipelines.calling import MOST_PASSES, MOST_STAGES
from ..pipelines.stages import unlike
from ..plan import CONTEXTS, OFFLOAD, RECOMPUTE, SCHEDULES, SHARDS, Plan

__all__ = ["AXES", "candidates", "canonical", "in_order", "plan_of", "replicas", "table_of"]

Array = NDArray[np.float64]
AXES = (
    "tensor", "pipeline", "data", "context", "expert", "virtual", "micro_batch", "schedule", "sequence", "shard",
    "recompute", "offload", "context_kind",
)  # fmt: skip
_CODES = {"schedule": SCHEDULES, "shard": SHARDS, "recompute": RECOMPUTE, "offload": OFFLOAD,
          "context_kind": CONTEXTS}  # fmt: skip
_LAYOUT = 7  # number of the axes that are sizes
_ROWS = 1 << 16  # number of plans that are converted to columns at once


def _divisors(number: int) -> list[int]:
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})


def _layouts(w: Layered, devices: int) -> Iterator[tuple[int, ...]]:
    """Yields the sizes of the first `_LAYOUT` axes that divide workload and devices."""
    for tensor in _divisors(devices):
        if w.heads % tensor or w.ffn % tensor:
            continue
        for pipeline in _divisors(devices // tensor):
            if pipeline > w.layers:
                continue
            for context in _divisors(devices // tensor // pipeline):
                data = devices // tensor // pipeline // context
                if w.sequence % context or w.global_batch % data:
                    continue
                batch = w.global_batch // data
                chunks = [v for v in _divisors(w.layers // pipeline) if v == 1 or w.layers % (v * pipeline) == 0]
                experts = [e for e in _divisors(w.experts) if (data * context) % e == 0] if w.experts else [1]
                for expert in experts:
                    for virtual in chunks if pipeline > 1 else [1]:
                        for micro in _divisors(batch):
                            yield tensor, pipeline, data, context, expert, virtual, micro


def _schedules(w: Layered, layouts: Array) -> Array:
    """Combines layouts with every distinct schedule."""
    _, pipeline, data, _, _, virtual, micro = layouts.T
    batches = w.global_batch / (data * micro)
    interleaved, plain = virtual > 1, (virtual == 1) & (pipeline > 1)
    found = []
    for code, name in enumerate(SCHEDULES):
        if name == "1f1b":
            keep = virtual == 1
        elif name == "interleaved":
            keep = interleaved & (batches % pipeline == 0)
        elif w.phase != "train":
            continue
        elif name == "gpipe":
            keep = plain & (batches > 1)  # with one micro-batch, gpipe equals 1f1b
        else:
            two = 2 if name == "zb-v" else 1
            keep = plain & (pipeline <= MOST_STAGES) & (3 * two * pipeline * batches <= MOST_PASSES)
            if name == "zb-v":
                keep &= w.layers % (2 * pipeline) == 0
            if name == "dualpipe":
                keep &= (pipeline % 2 == 0) & (batches % 2 == 0) & (batches >= 2 * pipeline)
        own = layouts[keep]
        found.append(np.column_stack([own, np.full(len(own), float(code))]))
    return np.concatenate(found)


def _recomputes(w: Layered, fabric: Fabric) -> list[tuple[int, int]]:
    """Lists the distinct choices of recompute and offload."""
    if w.phase != "train":
        return [(0, 0)]
    names = ["none", "full", "minimal"] if w.attention == "flash" else ["none", "selective", "full", "minimal"]
    pairs = [(name, "none") for name in names]
    if fabric.host_link:
        pairs += [(name, away) for away in ("optimizer", "activations") for name in names]
        pairs.append(("offload", "optimizer"))  # offloads layer inputs and the optimizer state
    return [(RECOMPUTE.index(name), OFFLOAD.index(away)) for name, away in pairs]


def _choices(w: Layered, fabric: Fabric) -> Array:
    """Lists the distinct choices of sequence, shard, recompute, offload and context_kind."""
    sequences = (False,) if w.phase == "decode" else (False, True)
    shards = range(len(SHARDS)) if w.phase == "train" else (SHARDS.index("none"), SHARDS.index("zero3"))
    kinds = range(1 if w.phase == "decode" else len(CONTEXTS))
    rows = [(s, z, *kept, kind) for s in sequences for z in shards for kept in _recomputes(w, fabric) for kind in kinds]
    return np.array(rows, dtype=np.float64)


def candidates(w: Layered, fabric: Fabric) -> Array:
    """Returns the distinct legal plans of a workload as rows."""
    layouts = np.array(list(_layouts(w, fabric.devices)), dtype=np.float64).reshape(-1, _LAYOUT)
    left = _schedules(w, layouts)
    copies = np.where(left[:, -1] == SCHEDULES.index("dualpipe"), 2, 1)
    tensor, _, data, context = left[:, :4].T
    rows = []
    for choice in _choices(w, fabric):
        sequence, shard = choice[:2]
        keep = np.ones(len(left), dtype=bool)
        if sequence:
            keep &= (tensor > 1) & (w.sequence % (tensor * context) == 0)
        if shard:
            keep &= data * context * copies > 1
        if choice[-1]:
            keep &= (context > 1) & (w.heads % (tensor * context) == 0) & (w.kv_heads % (tensor * context) == 0)
        own = left[keep]
        rows.append(np.column_stack([own, np.tile(choice, (len(own), 1))]))
    return np.concatenate(rows)


def replicas(w: Layered, fabric: Fabric) -> int:
    """Returns the fewest replicas of any layout over all devices, of which the batch must be a multiple."""
    every = replace(w, global_batch=fabric.devices)
    return min(data for _, _, data, *_ in _layouts(every, fabric.devices))


def in_order(w: Layered, rows: Array, fabric: Fabric) -> NDArray[np.bool_]:
    """Whether the schedules of plans must be simulated."""
    found = rows[:, AXES.index("schedule")] >= SCHEDULES.index("zb-h1")
    for at in range(0, len(rows) if w.phase == "train" else 0, _ROWS):
        part = slice(at, at + _ROWS)
        found[part] |= unlike(table_of(w, rows[part]), bool(fabric.slow), fabric.per_node)
    return np.asarray(found)


def canonical(plan: Plan, w: Layered) -> Plan:
    """Returns a plan's canonical form; plans with equal forms are equivalent."""
    changes: dict[str, Any] = {}
    plan = plan.filled(w)
    batches = w.global_batch // (plan.data * plan.micro_batch)
    if plan.recompute == "selective" and w.attention == "flash":
        changes["recompute"] = "none"  # fused attention stores no scores that could be recomputed
    if plan.recompute == "offload" and plan.offload != "optimizer":
        changes |= {"recompute": "full", "offload": "activations"}
    one_order = plan.schedule == "gpipe" and (batches == 1 or w.phase != "train")
    if plan.virtual == 1 and (plan.pipeline == 1 or one_order):
        changes["schedule"] = "1f1b"
    if plan.tensor == 1 and plan.sequence:
        changes["sequence"] = False
    if plan.context == 1:
        changes["context_kind"] = "ring"
    copies = 2 if plan.schedule == "dualpipe" else 1
    if plan.data * plan.context * copies == 1:
        changes["shard"] = "none"
    return plan.replace(**changes)


def plan_of(row: Sequence[float], phase: str) -> Plan:
    """Converts a row to a plan."""
    values: dict[str, Any] = {name: int(value) for name, value in zip(AXES, row, strict=True)}
    values["sequence"] = bool(values["sequence"])
    for name, names in _CODES.items():
        values[name] = names[values[name]]
    if phase == "train" and values["micro_batch"] == 1:
        values.pop("micro_batch")
    return Plan(**values)


def table_of(w: Layered, rows: Array) -> Columns:
    """Converts rows to columns."""
    return columns_of_table(w, {name: rows[:, number] for number, name in enumerate(AXES)})
