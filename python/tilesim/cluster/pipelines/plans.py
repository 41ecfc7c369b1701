"""Checks a plan against its schedule and against inference."""

from __future__ import annotations

from typing import Any

from ...models.layered import Layered

__all__ = ["phase_reasons", "schedule_reasons"]


def schedule_reasons(plan: Any, workload: Layered) -> list[tuple[str, str, str, str]]:
    """Returns problems of a plan with its schedule: (what, where, value, allowed)."""
    p, found = plan.pipeline, []
    micros = workload.global_batch // (plan.data * plan.micro_batch)
    if plan.virtual > 1 and (micros == 0 or micros % p):
        found.append(("interleaved stages need whole groups of micro-batches", "micro-batches", str(micros),
                      f"multiples of the stages, {p}"))  # fmt: skip
    if plan.schedule == "zb-v" and workload.layers % (2 * p):
        found.append(("the layers cannot be split into two chunks per stage", "pipeline", str(p),
                      f"divisors of {workload.layers} / 2"))  # fmt: skip
    if plan.schedule == "dualpipe":
        if p % 2:
            found.append(("dualpipe needs an even number of stages", "pipeline", str(p), "even numbers"))
        elif micros % 2 or micros < 2 * p:
            found.append(("dualpipe needs micro-batches for both directions", "micro-batches", str(micros),
                          f"even numbers from {2 * p}"))  # fmt: skip
    return found


def phase_reasons(plan: Any, workload: Layered) -> list[tuple[str, str, str, str]]:
    """Returns problems of a plan for a prefill or decode step: (what, where, value, allowed)."""
    if workload.phase == "train":
        return []
    found = []
    if plan.shard in ("zero1", "zero2"):
        found.append(("inference has no optimizer state to shard", "shard", plan.shard,
                      "none, zero3"))  # fmt: skip
    if plan.recompute != "none":
        found.append(("inference has no recompute", "recompute", plan.recompute, "none"))
    if plan.offload != "none":
        found.append(("inference has no activations or state to offload", "offload",
                      plan.offload, "none"))  # fmt: skip
    if plan.schedule not in ("1f1b", "gpipe", "interleaved"):
        found.append(("the schedule needs backward passes", "schedule", plan.schedule,
                      "1f1b, gpipe (equivalent here), interleaved"))  # fmt: skip
    if workload.phase == "decode" and plan.sequence:
        found.append(("a single token cannot be sharded", "sequence", "True", "False in decode steps"))
    if workload.phase == "decode" and plan.by_heads:
        found.append(("a decode step shards the cache by tokens", "context_kind",
                      plan.context_kind, "ring in decode steps"))  # fmt: skip
    return found
