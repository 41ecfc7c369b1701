"""Conditions of schedules on the sizes of a plan."""

from __future__ import annotations

from typing import Any

from ...models.layered import Layered

__all__ = ["reasons"]


def reasons(plan: Any, workload: Layered) -> list[tuple[str, str, str, str]]:
    """Why a schedule does not accept a plan."""
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
            found.append(
                (
                    "dualpipe needs micro-batches for both directions",
                    "micro-batches",
                    str(micros),
                    f"even numbers from {2 * p}",
                )
            )
    return found
