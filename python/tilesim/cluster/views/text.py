"""Texts of a step's result."""

from __future__ import annotations

from typing import Any

from ...base import figures
from ..memory import GIB

__all__ = ["collective_text", "filled", "heading", "headline"]

#: note on closed forms with shared links and too many messages to simulate (docs/explanation/clusters.md)
APPROXIMATE = "; approximate: the wait of messages for shared links is estimated, not simulated"


def headline(result: Any) -> str:
    """Describes workload, devices, time and share of the peak."""
    plan = f", plan {result.plan.text()}" if result.plan is not None else ""
    every = getattr(result, "cluster_devices", 0)
    where = f"{result.devices:,} of {every:,} devices of {result.cluster}" if every > result.devices else result.cluster
    work = result.workload
    phase = "" if getattr(work, "phase", "train") == "train" else f" {work.phase}"
    setting = f"{phase}, {work.global_batch:,} × {work.sequence:,} tokens" if hasattr(work, "global_batch") else ""
    return (
        f"{result.workload.name}{setting} on {result.devices:,} × {result.device} ({where}){plan}: "
        f"{figures.duration(result.seconds)}, {figures.percent(result.mfu)} of peak"
    )


def heading(result: Any) -> list[str]:
    """Describes workload, devices, time and models."""
    work = result.workload
    setting = [": ".join(filter(None, (work.setting, work.source)))] if hasattr(work, "setting") else []
    return [
        headline(result),
        *setting,
        f"predictor {result.predictor}, network {result.network}, framework {result.framework}",
        *([f"communication: {told}"] if (told := result.provenance.get("communication")) else []),
    ]


def filled(result: Any) -> list[str]:
    """Describes the memory of the fullest device by reason."""
    kept = ", ".join(f"{name} {value / GIB:.1f}" for name, value in result.memory.items() if value)
    room = f" of {result.memory_bytes / GIB:.1f}" if result.memory_bytes else ""
    return [f"{result.peak_bytes / GIB:.1f}{room} GiB on the fullest device: {kept}"]


def collective_text(result: Any, each: str = "") -> str:
    """Describes time, model and exactness of a collective."""
    how = f"costs of {result.library}" if result.library else f"{result.algorithm}, {result.model}"
    how += "" if result.exact else ", message by message" if result.messages else ", an estimate"
    alone = "" if result.library else ", network only, without library costs"
    rough = not (result.exact or result.messages or result.library) and result.model == "closed"
    devices = each or f"{result.devices:,} device{'s' if result.devices > 1 else ''}"
    time = figures.duration(result.seconds)
    return f"{result.op} of {result.bytes:,} bytes on {devices}: {time} ({how}){alone}{APPROXIMATE if rough else ''}"
