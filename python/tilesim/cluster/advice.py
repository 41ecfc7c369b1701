"""Neighbours of a plan, each computed: what would be faster, and what would not fit."""

from __future__ import annotations

from typing import Any

from ..base.errors import UserError
from ..machine.device import Device
from .memory import GIB
from .plan import Plan

__all__ = ["advice", "neighbours"]


def neighbours(plan: Plan) -> list[tuple[str, Plan]]:
    """Plans that differ in one thing.

    Args:
        plan: to start from.

    Returns:
        What differs, and the plan.
    """
    found: list[tuple[str, dict[str, object]]] = []
    if plan.recompute != "none":
        found.append(("recompute=none", {"recompute": "none"}))
    if plan.recompute not in ("none", "selective"):
        found.append(("recompute=selective", {"recompute": "selective"}))
    if plan.tensor > 1 and not plan.sequence:
        found.append(("sequence=true", {"sequence": True}))
    found.append((f"micro_batch={2 * plan.micro_batch}", {"micro_batch": 2 * plan.micro_batch}))
    if plan.micro_batch > 1:
        found.append((f"micro_batch={plan.micro_batch // 2}", {"micro_batch": plan.micro_batch // 2}))
    if plan.tensor % 2 == 0:
        halved: dict[str, object] = {"tensor": plan.tensor // 2, "data": plan.data * 2}
        halved["sequence"] = plan.sequence and plan.tensor > 2
        found.append((f"tensor={plan.tensor // 2},data={plan.data * 2}", halved))
    if plan.pipeline > 1 and plan.virtual == 1 and plan.schedule == "1f1b":
        found.append(("virtual=2,schedule=interleaved", {"virtual": 2, "schedule": "interleaved"}))
    return [(text, plan.replaced(**changes)) for text, changes in found]


def advice(result: Any, most: int = 3) -> list[str]:
    """What neighbouring plans would take.

    Args:
        result: the StepResult of the plan.
        most: lines.

    Returns:
        Lines, the fastest first; those that do not fit last.
    """
    lines: list[tuple[bool, float, str]] = []
    for text, plan in neighbours(result.plan) if result.again else []:
        if plan.reasons(result.workload, result.devices):
            continue
        try:
            other = result.again(plan)
        except UserError:
            continue
        gain = 1 - other.seconds / result.seconds
        if gain < 0.005:
            continue
        room = Device.load(result.device).memory.bytes
        fits = other.peak_bytes <= room
        told = f"{text}: {other.seconds * 1e3:,.1f} ms, {gain:.1%} less"
        if not fits:
            told += f", but {other.peak_bytes / GIB:.1f} GiB do not fit into {room / GIB:.1f}"
        lines.append((not fits, -gain, told))
    return [line for *_, line in sorted(lines)[:most]]
