"""What a step of a layered workload takes, and what for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..base.files import writing
from ..base.table import Table
from ..models.layered import Layered
from .advice import advice
from .closed import Times
from .columns import Columns
from .fabric import Fabric
from .frameworks import Framework
from .memory import GIB, Memory
from .plan import Plan
from .timeline import events

__all__ = ["PARTS", "StepResult"]

#: part of a step: what it is
PARTS = {
    "compute": "products, attention and passes of layers and head",
    "recompute": "layers, or parts of them, made again in the backward pass",
    "host": "the device waits for launches",
    "tensor": "sums and gathers over the tensor axis that nothing hides",
    "context": "keys and values passed round that attention does not hide",
    "expert": "tokens sent to their experts and back",
    "pipeline": "sends between stages",
    "data": "gradients summed, parameters gathered, as far as not hidden",
    "bubble": "stages wait for the first and the last micro-batch, or for the slowest stage",
    "optimizer": "the update of parameters",
}
_EXPOSED = ("tensor", "context", "expert", "pipeline", "data")


@dataclass(frozen=True)
class StepResult:
    """Time and memory of one step.

    `parts` sum to `seconds`, each the critical stage's share; `exposed_seconds` is communication that nothing hides;
    `mfu` counts FLOPs without recompute, causal attention halved; `peak_bytes` is of the fullest device, and `memory`
    says what for.
    """

    workload: Any  # a Layered workload, or an Spmd
    plan: Any  # how the workload is divided; none where it says so itself
    cluster: str
    device: str
    devices: int
    framework: str
    predictor: str
    network: str
    overlap: str
    seconds: float
    parts: dict[str, float]
    mfu: float
    memory: dict[str, int]
    classes: list[dict[str, Any]]
    stage: dict[str, float]
    provenance: dict[str, str] = field(default_factory=dict)
    again: Callable[..., StepResult] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(
        workload: Layered,
        plan: Plan,
        fabric: Fabric,
        framework: Framework,
        table: Columns,
        found: Times,
        held: Memory,
        overlap: str,
    ) -> StepResult:
        """The result of one row.

        Args:
            workload: that ran.
            plan: how.
            fabric: on what.
            framework: under which.
            table: columns with one row.
            found: its times.
            held: its bytes.
            overlap: as asked for.

        Returns:
            The result.
        """
        seconds = float(found.seconds[0])
        dtype = {"bf16-amp": "bf16"}.get(workload.dtype, workload.dtype)
        peak = fabric.device.rate("bf16" if fabric.device.kind == "tpu" else dtype).flops_per_second
        reasons = ("weights", "gradients", "optimizer", "activations", "working")
        bytes_ = {name: int(getattr(held, name)[0]) for name in reasons}
        return StepResult(
            workload, plan, fabric.name, fabric.device.name, plan.devices, framework.name, "closed", "closed", overlap,
            seconds, {name: float(getattr(found, name)[0]) for name in PARTS},
            workload.flops / (seconds * plan.devices * peak), bytes_, _classes(plan, table, held),
            {"forward": float(found.stage_forward[0]), "backward": float(found.stage_backward[0])},
            dict(framework.provenance),
        )  # fmt: skip

    @property
    def exposed_seconds(self) -> float:
        """Communication that nothing hides, in seconds."""
        return sum(self.parts[name] for name in _EXPOSED)

    @property
    def bubble_seconds(self) -> float:
        """Seconds in which stages wait for each other."""
        return self.parts["bubble"]

    @property
    def peak_bytes(self) -> int:
        """Bytes of the fullest device."""
        return sum(self.memory.values())

    def table(self) -> Table:
        """Parts of the step, the largest first.

        Returns:
            Rows: part, seconds, share, what.
        """
        rows = [
            {"part": name, "seconds": value, "share": value / self.seconds, "what": PARTS[name]}
            for name, value in sorted(self.parts.items(), key=lambda item: -item[1])
            if abs(value) > 1e-9 * self.seconds
        ]
        return Table(rows)

    def explain(self) -> str:
        """Where the time goes, what fills memory, and what neighbouring plans would take, each of them computed.

        Returns:
            Lines of text.
        """
        lines = [
            f"{self.workload.name} on {self.devices} × {self.device} ({self.cluster}), plan {self.plan.text()}: "
            f"{self.seconds * 1e3:,.1f} ms, {self.mfu:.1%} of peak",
            f"predictor {self.predictor}, network {self.network}, framework {self.framework}",
        ]
        lines += [
            f"  {row['share']:6.1%}  {row['part']}: {row['seconds'] * 1e3:,.1f} ms, {row['what']}"
            for row in self.table()
        ]
        kept = ", ".join(f"{name} {value / GIB:.1f}" for name, value in self.memory.items() if value)
        lines.append(f"  {self.peak_bytes / GIB:.1f} GiB on the fullest device: {kept}")
        lines += [f"  {text}" for text in advice(self)]
        return "\n".join(lines)

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes trace events for Perfetto: a process per stage, passes of micro-batches in order.

        Args:
            path: of a JSON file.

        Raises:
            UserError: where it cannot be written.
        """
        with writing(path) as file:
            json.dump({"displayTimeUnit": "ms", "traceEvents": events(self)}, file)

    def json(self) -> dict[str, Any]:
        """As a JSON value, schema `tilesim.cluster_result`.

        Returns:
            The value.
        """
        return {
            "schema": "tilesim.cluster_result",
            "version": 1,
            "workload": self.workload.json(),
            "plan": self.plan.json(),
            "cluster": self.cluster,
            "device": self.device,
            "devices": self.devices,
            "framework": self.framework,
            "predictor": self.predictor,
            "network": self.network,
            "overlap": self.overlap,
            "seconds": self.seconds,
            "exposed_seconds": self.exposed_seconds,
            "bubble_seconds": self.bubble_seconds,
            "mfu": self.mfu,
            "peak_bytes": self.peak_bytes,
            "parts": self.parts,
            "memory": self.memory,
            "classes": self.classes,
            "provenance": self.provenance,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the result.

        Args:
            path: of the file, JSON.

        Raises:
            UserError: where it cannot be written.
        """
        with writing(path) as file:
            json.dump(self.json(), file, indent=1)
            file.write("\n")


def _classes(plan: Plan, table: Columns, held: Memory) -> list[dict[str, Any]]:
    """Classes of devices: one per pipeline stage, with the bytes of its weights, state and activations."""
    per_stage = plan.devices // plan.pipeline
    table_bytes = float((held.weights + held.gradients + held.optimizer)[0])
    middle = float((held.middle_weights + held.middle_state)[0])
    activations = float(held.activations[0])
    whole = float(held.held[0])
    rows = []
    for stage in range(plan.pipeline):
        ends = stage in (0, plan.pipeline - 1)
        later = max(1.0, whole - stage) / whole if plan.schedule != "gpipe" else 1.0
        rows.append({
            "stage": stage,
            "devices": per_stage,
            "state_bytes": int(table_bytes if ends else middle),
            "activation_bytes": int(activations * later),
        })  # fmt: skip
    return rows
