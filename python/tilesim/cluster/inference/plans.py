"""Checks of plans for inference."""

from __future__ import annotations

from typing import Any

from ...models.layered import Layered

__all__ = ["reasons"]


def reasons(plan: Any, workload: Layered) -> list[tuple[str, str, str, str]]:
    """Problems of a plan for a prefill or decode step."""
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
