"""Evaluates changes of a step: adjacent plans, overlap, faster network or device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..base import figures
from ..base.table import Table
from ..machine.device import Device, Rate
from .fabric import Fabric, faster
from .memory import GIB
from .plan import Plan
from .views.communication import dimensions

__all__ = ["adjacent_plans", "advice", "advice_lines"]

LEAST = 0.005  # least relative gain of listed advice
NOT_AGAIN = "a loaded step cannot be repeated for advice"
_SHARDS = {"none": "zero1", "zero1": "zero3", "zero2": "zero3"}


def adjacent_plans(plan: Plan, forward: bool = False) -> list[tuple[str, Plan]]:
    """Returns plans with one other option, or with a factor moved from one axis to another, and their texts."""
    micro = plan.micro_batch
    found: list[dict[str, Any]] = [{"recompute": name} for name in ("none", "selective") if plan.recompute != name]
    if plan.recompute == "none":
        found.pop()
    if plan.tensor > 1 and not plan.sequence:
        found.append({"sequence": True})
    found.append({"micro_batch": 2 * micro})
    if micro > 1:
        found.append({"micro_batch": micro // 2})
    for axis in ("tensor", "pipeline", "context"):
        size = getattr(plan, axis)
        single = {"virtual": 1, "schedule": "1f1b"} if axis == "pipeline" and plan.virtual > 1 else {}
        if size % 2 == 0:
            alone = {"sequence": False} if plan.sequence and size == 2 else {}
            lost = alone if axis == "tensor" else single if size == 2 else {}
            found.append({axis: size // 2, "data": plan.data * 2, **lost})
        if plan.data % 2 == 0:
            found.append({axis: size * 2, "data": plan.data // 2})
    if plan.context > 1:
        found.append({"context_kind": "ring" if plan.by_heads else "all_to_all"})
    if plan.pipeline > 1 and plan.virtual == 1 and plan.schedule in ("1f1b", "gpipe"):
        found.append({"virtual": 2, "schedule": "interleaved"})
    elif plan.virtual > 1:
        found.append({"virtual": 2 * plan.virtual})
    if plan.schedule == "gpipe":
        found.append({"schedule": "1f1b"})
    if plan.data * plan.context > 1 and plan.shard in _SHARDS:
        found.append({"shard": _SHARDS[plan.shard]})
    if plan.shard in ("zero2", "zero3"):
        found.append({"shard": "zero1"})
    if forward:
        for changes in found:
            if "data" in changes:
                changes["micro_batch"] = max(1, micro * plan.data // changes["data"])
    return [(_text(changes), plan.replace(**changes)) for changes in found]


def _text(changes: dict[str, Any]) -> str:
    return ",".join(f"{key}={str(value).lower()}" for key, value in changes.items())


def _faster(device: Device, by: float) -> Device:
    def rates(of: Any) -> dict[str, Rate]:
        return {key: replace(rate, flops_per_second=by * rate.flops_per_second) for key, rate in of.items()}

    return replaced(device, matrix=rates(device.matrix), vector=rates(device.vector))


def replaced(device: Device, **changes: Any) -> Device:
    """Copies a device with some fields changed."""
    fields = {name: getattr(device, name) for name in device.__dataclass_fields__}
    return Device(**{**fields, **changes})


def _wider(device: Device, by: float) -> Device:
    *near, last = device.levels
    return replaced(device, levels=(*near, replace(last, bytes_per_second=by * last.bytes_per_second)))


def _upgrades(fabric: Fabric, devices: int, offload: bool) -> Iterator[tuple[str, str, Callable[[Fabric], Fabric]]]:
    """Yields kind, text and function of each change of the fabric."""
    inside, between = dimensions(fabric)
    if devices > 1:
        yield "network", f"bandwidth inside a {inside} x 2", lambda one: faster(one, near=2.0)
    if devices > fabric.per_node:
        yield "network", f"bandwidth between {between} x 2", lambda one: faster(one, far=2.0)
    if devices > 1:
        yield "network", "latency / 2", lambda one: faster(one, latency=0.5)
    if offload and fabric.host_link:
        yield "network", "bandwidth to the host x 2", lambda one: replace(one, host_link=2 * one.host_link)
    yield "device", "arithmetic x 2", lambda one: replace(one, device=_faster(one.device, 2.0))
    yield "device", "memory bandwidth x 2", lambda one: replace(one, device=_wider(one.device, 2.0))


def advice(result: Any) -> Table:
    """Evaluates each change of a step; tabulates changes with their gains."""
    if result.again is None:
        return Table([], empty=NOT_AGAIN)
    runs: list[tuple[str, str, Any]] = []
    for text, plan in adjacent_plans(result.plan, result.workload.phase != "train"):
        if not plan.reasons(result.workload, result.devices):
            runs.append(("plan", text, result.again(plan)))
    for overlap in ("none", "ready", "library"):
        if overlap != result.overlap:
            runs.append(("overlap", f"overlap={overlap}", result.again(result.plan, overlap=overlap)))
    offload = any(row["axis"] == "offload" for row in result.communication)
    for kind, text, change in _upgrades(result.fabric, result.devices, offload):
        runs.append((kind, text, result.again(result.plan, fabric=change(result.fabric))))
    rows = []
    for kind, text, other in runs:
        gain = 1 - other.seconds / result.seconds
        if gain >= LEAST:
            fits = other.peak_bytes <= result.memory_bytes
            rows.append({"kind": kind, "change": text, "seconds": other.seconds, "gain": gain,
                         "peak_bytes": other.peak_bytes, "fits": fits})  # fmt: skip
    rows.sort(key=lambda row: (-row["gain"], row["change"]))
    return Table(rows, empty="no adjacent plan, faster network or device gains half a percent")


def advice_lines(rows: Table, memory_bytes: float, most: int = 4) -> list[str]:
    """Returns lines of advice: plan changes, then hardware changes, each sorted by gain."""

    def line(row: dict[str, Any]) -> str:
        text = f"{row['change']}: {figures.duration(row['seconds'])}, {figures.percent(row['gain'])} less"
        if not row["fits"]:
            text += f", but needs {row['peak_bytes'] / GIB:.1f} GiB of {memory_bytes / GIB:.1f}"
        return text

    chosen = [row for row in rows if row["kind"] in ("plan", "overlap")]
    fitting = [row for row in chosen if row["fits"]][:most]
    large = [row for row in chosen if not row["fits"]][: max(0, most - len(fitting))]
    bought = [row for row in rows if row["kind"] in ("network", "device")]
    lines = ["single changes, each evaluated:"] if fitting or large or bought else []
    return lines + [f"  {line(row)}" for row in (*fitting, *large, *bought)]
