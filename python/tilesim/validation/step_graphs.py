"""Compares predicted with measured steps of complete graphs: Llama 3 with FSDP, ResNets with data parallelism."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..base.errors import unknown
from ..base.validation import graded, integer, positive
from ..cluster.cluster import Cluster
from ..cluster.partition import partition
from ..cluster.spmd import Spmd
from ..cluster.stepping import step
from ..models.llama_training import LLAMA3, llama3
from ..models.resnet_training import RESNETS, resnet_training_step

__all__ = ["COLUMNS", "predicted"]

_Row = dict[str, Any]
COLUMNS = ("system", "devices", "model", "measured_seconds")
#: system in a table -> cluster, device (None: the cluster's), collective library
SYSTEMS: dict[str, tuple[str, str | None, str]] = {
    "A100-40GB": ("dgx-a100", "a100-sxm4-40gb", "nccl"),
    "A100-80GB": ("dgx-a100", None, "nccl"),
    "H100": ("dgx-h100", None, "nccl"),
    "H200": ("dgx-h200", None, "nccl"),
    "B200": ("dgx-b200", None, "nccl"),
    "TPU-v3-8": ("tpu-v3-8", None, "xla-tpu"),
}


def predicted(given: _Row, overlap: str = "library") -> _Row:
    """Returns a row's report; for an invalid request, it has the reason."""
    row: _Row = {**given, "status": "ok", "reason": "", "measured_ms": None, "predicted_ms": None, "error": None}
    row["fitted"] = False
    with graded(row):
        row["measured_ms"] = positive(given, "measured_seconds") * 1e3
        devices, model = integer(given, "devices"), str(given["model"]).strip()
        images = integer(given, "images_per_device") if str(given.get("images_per_device") or "").strip() else 256
        cluster, library = _system(str(given["system"]).strip(), devices)
        found = step(_program(model, devices, images), cluster, overlap=overlap, library=library, check_memory=False)
        row.update(
            predicted_ms=found.seconds * 1e3,
            predicted_exposed_ms=found.exposed_seconds * 1e3,
            predicted_bubble_ms=found.bubble_seconds * 1e3,
            predicted_gib=found.peak_bytes / (1 << 30),
            framework="xla, graph",
        )
        row["error"] = row["predicted_ms"] / row["measured_ms"] - 1
    return row


@cache
def _program(model: str, devices: int, images: int) -> Spmd:
    if model in RESNETS:
        return partition(resnet_training_step(model, devices, images))
    if model not in LLAMA3:
        known = [*LLAMA3, *RESNETS]
        raise unknown("model", model, known, place="model")
    return partition(llama3(model, devices))


def _system(name: str, devices: int) -> tuple[Cluster, str]:
    known = {one.lower().replace("-", "").replace(" ", ""): one for one in SYSTEMS}
    key = known.get(name.lower().replace("-", "").replace(" ", ""))
    if key is None:
        raise unknown("system", name, SYSTEMS, place="system")
    base, device, library = SYSTEMS[key]
    cluster = Cluster.load(base if base.endswith(f"-{devices}") else f"{base}:{devices}")
    if device is not None:
        cluster.device = device
    return cluster, library
