"""Scaling of one workload over numbers of devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...base import figures
from ...base.arguments import integer, is_size, unused
from ...base.checked import checked
from ...base.columns import layout, number, percent, text
from ...base.drawing import axes_or_new, no_math
from ...base.errors import shown, user_error
from ...base.screen import Lines
from ...base.table import Table
from ...graph.graph import Graph
from ...models.layered import Layered
from ...models.layered_presets import layered
from ..cluster import Cluster
from ..fabric import fabric_of, with_library
from ..memory import GIB
from ..plan import Plan
from ..programs.sized import SizedProgram, sized
from ..result import StepResult
from ..searching import study
from ..slices import UnsupportedSize
from ..spmd import Spmd
from ..stepping import step

__all__ = ["Scaling", "lines", "scaling"]

_NONE = ("seconds", "tokens_per_second", "efficiency", "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes")


class Scaling(Table):
    """Rows of `scaling`; `results` has the step of each successful row. `.plot()` draws tokens per second."""

    def __init__(self, rows: list[dict[str, Any]], results: list[StepResult], title: str, grows: bool = False) -> None:
        """Stores rows and results."""
        super().__init__(rows, lines)
        self.results, self.title, self.grows = results, title, grows

    def to_dict(self) -> dict[str, Any]:
        """Converts to the JSON form.

        Returns:
            schema, version, title, rows.
        """
        return {"schema": "tilesim.cluster_scaling", "version": 1, "title": self.title, "rows": self.rows}

    def plot(self, axes: Any = None, label: str = "") -> Any:
        """Draws tokens (for programs steps, or devices' batches) per second over devices on logarithmic axes, with
        ideal scaling (dashed).

        Args:
            axes: matplotlib axes, which may have another curve; default: new ones.
            label: label of the curve; default: the title.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib, or without a successful row.
        """
        ran = [row for row in self.rows if row["seconds"] is not None]
        if not ran:
            raise user_error("no row has a time", place="scaling", value=str(self.rows[0]["reason"]))
        axes = axes_or_new(axes, 3.6)
        devices = [row["devices"] for row in ran]
        tokens = ran[0]["tokens_per_second"] is not None
        what = "tokens" if tokens else "batches of a device" if self.grows else "steps"
        each_time = [row["devices"] if self.grows else 1 for row in ran]  # number of single-device batches per step
        rates = [row["tokens_per_second"] if tokens else much / row["seconds"]
                 for row, much in zip(ran, each_time, strict=True)]  # fmt: skip
        drawn = axes.plot(devices, rates, marker="o", label=no_math(label or self.title))
        each = rates[0] / devices[0]
        axes.plot(devices, [each * one for one in devices], linestyle="--", linewidth=1, color=drawn[0].get_color())
        above = len(axes.lines) <= 2
        place = {
            "xytext": (-3, 4) if above else (3, -4),
            "ha": "right" if above else "left",
            "va": "bottom" if above else "top",
        }
        for row, rate in zip(ran, rates, strict=True):
            axes.annotate(figures.percent(row["efficiency"]), (row["devices"], rate), fontsize=7,
                          textcoords="offset points", color=drawn[0].get_color(), **place)  # fmt: skip
        axes.margins(0.1)
        axes.set(xscale="log", yscale="log", xlabel="devices", ylabel=f"{what} per second")
        axes.set_xticks(devices, [f"{one:,}" for one in devices], fontsize=8)
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False)
        return axes


def lines(rows: list[dict[str, Any]]) -> Lines:
    """Formats rows of `scaling` as text."""
    columns = [number("devices"), number("time"), number("tokens/s"), number("efficiency, %"), number("exposed, %", 2),
               number("bubble, %", 2), number("of peak, %", 3), text("plan")]  # fmt: skip
    cells = []
    for row in rows:
        if row["seconds"] is None:
            cells.append([f"{row['devices']:,}", *["–"] * 6, row["reason"]])
            continue
        shares = (row["exposed_seconds"] / row["seconds"], row["bubble_seconds"] / row["seconds"], row["mfu"])
        tokens = "–" if row["tokens_per_second"] is None else figures.count(row["tokens_per_second"])
        cells.append([f"{row['devices']:,}", figures.duration(row["seconds"]), tokens,
                      percent(row["efficiency"]), *map(percent, shares), row["plan"]])  # fmt: skip
    return layout(columns, cells)


@checked()
def scaling(
    workload: Layered | Spmd | Graph | str | os.PathLike[str],
    cluster: Any,
    devices: Sequence[int] | str,
    plan: Plan | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    overlap: str = "library",
    library: Any = None,
    framework: str | None = None,
    grow_batch: bool = False,
    axis: str | None = None,
    network_model: str = "closed",
) -> Scaling:
    """Times one step on several numbers of devices.

    Args:
        workload: as in `step`, with a constant global batch. A program is partitioned for each number of devices: a
            Graph with a mesh and shardings, a result of `ts.partition`, a module with shardings (.mlir), or a training
            graph's name.
        cluster: a `ts.Cluster`, or a name, whose number of devices is replaced.
        devices: numbers of devices, one row each; or a text such as "8,64,512".
        plan: plan whose data axis grows with the devices; default: the best plan of a search for each number.
        overlap: as in `step`; a search uses "library", then times its plan with this overlap.
        library: as in `step`.
        framework: as in `step`.
        grow_batch: whether the global batch grows with the devices from the first row on; not for programs.
        axis: axis of a program's mesh that grows; default: the first.
        network_model: as in `step`; a search uses closed forms, then times its plan with this model.

    Returns:
        Rows: devices, seconds, tokens_per_second (None for programs), efficiency (tokens, or steps, per second and
        device relative to the first successful row), exposed_seconds, bubble_seconds, mfu, peak_bytes, plan (or a
        program's mesh), reason (of a missing time, else empty). Named training graphs have a batch per device, so that
        their batch grows.

    Raises:
        UserError: for an unknown name, an invalid number, or an unsupported size of the cluster.
    """
    if isinstance(devices, str):
        devices = [int(one) if is_size(one) else one for one in map(str.strip, devices.split(","))]  # type: ignore[misc]
    if isinstance(devices, bytes) or not isinstance(devices, Sequence) or not devices:
        raise user_error("not a list of numbers", place="devices", value=shown(devices), allowed="such as [8, 64, 512]")
    plan = None if plan is None else Plan.load(plan)
    counts = [integer("devices", one, 1, 2**31 - 1) for one in devices]
    name = cluster.partition(":")[0] if isinstance(cluster, str) else str(getattr(cluster, "name", "") or "cluster")
    program = None if isinstance(workload, Layered) else sized(workload, axis)
    if program is not None:
        unused("the option does not apply to a program", "none, or a layered workload",
               plan=(plan, None), framework=(framework, None), grow_batch=(grow_batch, False))  # fmt: skip
        return _program_rows(program, cluster, sorted(set(counts)), name, (overlap, library, network_model))
    unused("the option does not apply to a layered workload", "none", axis=(axis, None))
    workload = workload if isinstance(workload, Layered) else layered(workload)  # type: ignore[arg-type]
    rows, results = [], []
    for count in sorted(set(counts)):
        batch = workload.global_batch * count // counts[0] if grow_batch else workload.global_batch
        work = replace(workload, global_batch=max(1, batch))
        asked = {"overlap": overlap, "library": library, "framework": framework, "network_model": network_model}
        found, reason = _step_or_reason(work, cluster, count, plan, asked)
        row: dict[str, Any] = {"devices": count, **dict.fromkeys(_NONE), "plan": "", "reason": reason}
        if found is not None:
            results.append(found)
            tokens = work.global_batch * (1 if work.phase == "decode" else work.sequence)
            row |= {name: getattr(found, name) for name in _NONE if hasattr(found, name)}
            row |= {"tokens_per_second": tokens / found.seconds, "plan": found.plan.text()}
        rows.append(row)
    first = next((row for row in rows if row["seconds"] is not None), None)
    for row in rows:
        if first is not None and row["seconds"] is not None:
            more = row["devices"] / first["devices"]
            row["efficiency"] = row["tokens_per_second"] / first["tokens_per_second"] / more
    return Scaling(rows, results, f"{workload.name} on {name}", grow_batch)


def _program_rows(
    program: SizedProgram, cluster: Any, counts: list[int], name: str, how: tuple[str, Any, str]
) -> Scaling:
    """Times a program that is partitioned for each number of devices."""
    if not isinstance(cluster, str):
        most = int(Cluster.load(cluster).devices)
        for count in counts:
            integer("devices", count, 1, most)
    rows: list[dict[str, Any]] = []
    results: list[StepResult] = []
    title = "program"
    for count in counts:
        spmd, reason = program.make(count)
        row: dict[str, Any] = {"devices": count, **dict.fromkeys(_NONE), "plan": "", "reason": reason}
        rows.append(row)
        if spmd is None:
            continue
        title = spmd.name
        target = f"{name}:{count}" if isinstance(cluster, str) else cluster
        found = step(spmd, target, overlap=how[0], library=how[1], network_model=how[2], check_memory=False)
        row["peak_bytes"] = found.peak_bytes
        if not found.fits:
            need, have = found.peak_bytes / GIB, found.memory_bytes / GIB
            row["reason"] = f"the program does not fit: {need:.1f} GiB of {have:.1f}"
            continue
        results.append(found)
        row |= {key: getattr(found, key) for key in _NONE if hasattr(found, key)} | {"plan": spmd.mesh}
        more = 1.0 if program.grows else results[0].devices / count
        row["efficiency"] = results[0].seconds / found.seconds * more
    return Scaling(rows, results, f"{title} on {name}", program.grows)


def _sized(cluster: Any, count: int) -> Any:
    """Resizes the cluster to this number of devices, for `step`."""
    if isinstance(cluster, str):
        return f"{cluster.partition(':')[0]}:{count}"
    return cluster if int(getattr(cluster, "devices", 0)) == count else fabric_of(cluster, count)


def _step_or_reason(
    work: Layered, cluster: Any, count: int, plan: Plan | None, asked: dict[str, Any]
) -> tuple[StepResult | None, str]:
    """Runs a step; returns None and the reason if that fails."""
    sized = _sized(cluster, count)
    try:
        fabric = with_library(fabric_of(sized, count), asked["library"])
    except UnsupportedSize as error:
        return None, str(error)
    if plan is None:
        searched = study(work, fabric, fabric, framework=asked["framework"], best_alone=True)
        if not searched.plans:
            return None, searched.reason
        return step(work, sized, searched.plans[0], **asked), ""
    others = plan.tensor * plan.pipeline * plan.context
    if fabric.devices % others:
        return None, f"{fabric.devices:,} devices are not divisible by tensor x pipeline x context = {others}"
    grown = plan.replace(data=fabric.devices // others)
    for what, axis, value, allowed in grown.reasons(work, fabric.devices):
        return None, f"{what}: {axis}={value}, allowed {allowed}"
    found = step(work, sized, grown, **asked, check_memory=False)
    if found.peak_bytes > found.memory_bytes:
        need, have = found.peak_bytes / GIB, found.memory_bytes / GIB
        return None, f"{grown.text()} does not fit: {need:.1f} GiB of {have:.1f}"
    return found, ""
