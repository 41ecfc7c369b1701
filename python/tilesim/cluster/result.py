"""The result of a step: time and memory with their parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..base import figures
from ..base.errors import user_error
from ..base.files import Saved
from ..base.late_calls import LateCalls
from ..base.table import Table
from ..models.layered import Layered
from .advice import advice, advice_lines
from .closed import StepTimes
from .columns import Columns
from .fabric import Fabric, communication_of
from .frameworks import Framework
from .inference.memory import inference_bytes as forward_stage
from .memory import GIB, REASONS, Memory, training_bytes
from .pipelines.pass_times import PassTimes, passes_of_step
from .pipelines.result import Pipeline, write_trace
from .pipelines.stages import unlike
from .plan import Plan
from .timeline import trace
from .views.breakdown import Breakdown, breakdown
from .views.communication import communication, stage_seconds
from .views.comparison import ComparableStep
from .views.parts import PARTS, parts_table
from .views.text import filled, heading, headline

__all__ = ["PARTS", "StepResult"]

SCHEMA, VERSION = "tilesim.cluster_result", 1
_ABOVE: dict[str, Callable[..., StepResult]] = LateCalls()
_EXPOSED = ("tensor", "context", "expert", "pipeline", "data", "offload")


@dataclass(frozen=True)
class StepResult(ComparableStep, Saved):
    """Time and memory of one step.

    `parts` of the critical stage add up to `seconds`; `exposed_seconds` is communication without overlap; `mfu`
    counts FLOPs without recompute, with causal attention halved; `peak_bytes` is of the fullest device, split in
    `memory`. `communication` has a row per axis, operation and part of the step: network dimension, calls, bytes of a
    call, total wire_bytes of the fullest device, seconds of all calls and their exposed part. `memory_bytes` is a
    device's capacity.
    """

    workload: Any  # a Layered workload or an Spmd
    plan: Any  # the parallel plan; None for a program
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
    communication: list[dict[str, Any]] = field(default_factory=list, repr=False)
    memory_bytes: float = 0.0
    fabric: Fabric | None = field(default=None, repr=False, compare=False)
    again: Callable[..., StepResult] | None = field(default=None, repr=False, compare=False)
    pipe: Pipeline | None = field(default=None, repr=False, compare=False)
    passes: Callable[[], PassTimes] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(
        workload: Layered,
        plan: Plan,
        fabric: Fabric,
        framework: Framework,
        table: Columns,
        found: StepTimes,
        held: Memory,
        overlap: str,
        network: str = "closed",
    ) -> StepResult:
        """Builds the result of one step.

        Args:
            workload: layered workload.
            plan: plan of the step.
            fabric: links of the cluster.
            framework: constants of the framework.
            table: columns with one row.
            found: times of the step.
            held: bytes of the step.
            overlap: requested overlap.
            network: requested network model.

        Returns:
            The result.
        """
        seconds = float(found.seconds[0])
        dtype = {"bf16-amp": "bf16"}.get(workload.dtype, workload.dtype)
        peak = fabric.device.rate("bf16" if fabric.device.kind == "tpu" else dtype).flops_per_second
        bytes_ = {name: int(np.ravel(getattr(held, name))[0]) for name in REASONS}
        forward = workload.phase != "train"
        summed = forward or not bool(unlike(table, bool(fabric.slow), fabric.per_node)[0])
        return StepResult(
            workload, plan, fabric.name, fabric.device.name, plan.devices, framework.name, "closed", network, overlap,
            seconds, {name: float(getattr(found, name)[0]) for name in PARTS},
            workload.flops / (seconds * plan.devices * peak), bytes_, _classes(workload.phase, plan, table, framework),
            stage_seconds(table, found),
            {**framework.provenance, "communication": communication_of(fabric, framework)},
            communication(table, found, fabric),
            float(fabric.device.memory.bytes), fabric, pipe=found.pipes.get(0),
            passes=partial(passes_of_step, table, found.stages, summed, forward) if found.stages else None,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for pickling, without the function that repeats the step."""
        return {**self.__dict__, "again": None}

    @property
    def exposed_seconds(self) -> float:
        """Seconds of communication that does not overlap compute."""
        return sum(self.parts[name] for name in _EXPOSED)

    @property
    def bubble_seconds(self) -> float:
        """Seconds of the pipeline bubble."""
        return self.parts["bubble"]

    @property
    def peak_bytes(self) -> int:
        """Bytes that the fullest device needs."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether the step fits into the fullest device's memory; true if the capacity is unknown."""
        return not self.memory_bytes or self.peak_bytes <= self.memory_bytes

    def table(self) -> Table:
        """Tabulates the parts of the step, largest first.

        Returns:
            Rows with part, seconds, share, what.
        """
        return parts_table(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {headline(self)}>"

    def explain(self) -> str:
        """Explains time and memory, with simulated advice on plans, overlap, network and device.

        Returns:
            Lines of text.
        """
        lines = heading(self)
        for row in self.breakdown:
            part = f"{row['part']} ({row['dimension']})" if row["dimension"] else row["part"]
            time = figures.duration(row["seconds"])
            lines.append(f"  {figures.percent(row['share']):>7}  {part}: {time}, {row['what']}")
        return "\n".join([*lines, *filled(self), *advice_lines(self.advice(), self.memory_bytes)])

    def advice(self) -> Table:
        """Evaluates alternatives: adjacent plans, overlap, a network of twice the bandwidth or half the
        latency, a device of twice the arithmetic or memory bandwidth.

        Returns:
            Rows: kind (plan, overlap, network, device), change, seconds, gain, peak_bytes, fits; largest gain first.
        """
        return advice(self)

    @property
    def breakdown(self) -> Breakdown:
        """Breakdown of the step's time: compute, exposed communication by network dimension, bubble, recompute,
        optimizer; rows sum to `seconds`. It prints as bars; `.plot()` draws it."""
        return breakdown(self, PARTS)

    def plot(self, axes: Any = None) -> Any:
        """Plots the breakdown as a bar.

        Args:
            axes: matplotlib axes; default: new ones.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib.
        """
        return self.breakdown.plot(axes)

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes trace events for Perfetto: a process per device class, tracks of compute and of each network dimension
        and axis, flows from sends to receivers, counters of bytes per dimension.

        Args:
            path: file to write, .json.

        Raises:
            UserError: for another extension, or when the file cannot be written.
        """
        write_trace(trace(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Converts all figures to the schema `tilesim.cluster_result`.

        Returns:
            A dict for JSON.
        """
        names = ("cluster", "device", "devices", "framework", "predictor", "network", "overlap", "seconds",
                 "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes", "memory_bytes", "fits", "parts", "memory",
                 "classes", "stage", "communication", "provenance")  # fmt: skip
        work, plan = self.workload, self.plan
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "workload": work.to_dict() if plan is not None else {"name": work.name, "devices": work.devices},
            "plan": None if plan is None else plan.to_dict(),
            **{name: getattr(self, name) for name in names},
            "breakdown": self.breakdown.rows,
        }

    @staticmethod
    def load(path: str | os.PathLike[str] | Mapping[str, Any]) -> StepResult:
        """Reads a file of `save` or `tilesim cluster step --json`.

        Args:
            path: path of the file, or the dict of `to_dict`.

        Returns:
            The step; its `advice` and `timeline` are empty, because they need to repeat the step.

        Raises:
            UserError: for an invalid file.
        """
        return _ABOVE["loaded_step"](path)


def too_large(result: StepResult, place: str, advice: str) -> Exception:
    """Returns the error for a step that exceeds a device's memory."""
    reasons = ", ".join(f"{key} {value / GIB:.1f}" for key, value in result.memory.items() if value)
    what = "plan" if result.plan is not None else "program"
    return user_error(
        f"the {what} does not fit into memory", place=place,
        value=f"{result.peak_bytes:,} bytes, {result.peak_bytes / GIB:.1f} GiB: {reasons}",
        allowed=f"{int(result.memory_bytes):,} bytes, {result.memory_bytes / GIB:.1f} GiB, of one {result.device}",
        suggestion=advice,
    )  # fmt: skip


def _classes(phase: str, plan: Plan, table: Columns, framework: Framework) -> list[dict[str, Any]]:
    """Device classes, one per pipeline stage, with bytes of state (weights, gradients, optimizer), activations, working
    set and cache."""
    rows = []
    for stage in range(plan.pipeline):
        at = float(stage)
        held = training_bytes(table, framework.constants, at) if phase == "train" else forward_stage(table, at)
        bytes_ = {
            "state_bytes": held.weights + held.gradients + held.optimizer,
            "activation_bytes": held.activations,
            "working_bytes": held.working,
            "cache_bytes": held.cache,
        }
        sizes = {name: int(np.ravel(value)[0]) for name, value in bytes_.items()}
        rows.append({"stage": stage, "devices": plan.devices // plan.pipeline, **sizes})
    return rows
