"""What of a plan means something where there are no gradients."""

from __future__ import annotations

from typing import Any

from ...models.layered import Layered

__all__ = ["reasons"]


def reasons(plan: Any, workload: Layered) -> list[tuple[str, str, str, str]]:
    """Why a plan is none for a prefill or decode step."""
    if workload.phase == "train":
        return []
    found = []
    if plan.shard in ("zero1", "zero2"):
        found.append(("no state of an optimizer is divided where nothing is trained", "shard", plan.shard,
                      "none, zero3"))  # fmt: skip
    if plan.recompute != "none":
        found.append(("nothing is made again where there are no gradients", "recompute", plan.recompute, "none"))
    if plan.offload != "none":
        found.append(("neither activations nor a state are kept where there are no gradients", "offload",
                      plan.offload, "none"))  # fmt: skip
    if plan.schedule not in ("1f1b", "gpipe", "interleaved"):
        found.append(("the schedule orders backward passes, and there are none", "schedule", plan.schedule,
                      "1f1b, gpipe (both: one micro-batch after the other), interleaved"))  # fmt: skip
    if workload.phase == "decode" and plan.sequence:
        found.append(("one token of a sequence is not divided", "sequence", "True", "False in decode steps"))
    if workload.phase == "decode" and plan.by_heads:
        found.append(("one token of a sequence is not sent to all: its cache is divided by tokens", "context_kind",
                      plan.context_kind, "ring in decode steps"))  # fmt: skip
    return found
