"""One workload on more and more devices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...base import figures
from ...base.arguments import whole
from ...base.checked import checked
from ...base.columns import layout, number, percent, text
from ...base.drawing import axes_or_new, plain
from ...base.errors import shown, user_error
from ...base.screen import Lines
from ...base.table import Table
from ...models.layered import Layered
from ...models.layered_presets import layered
from ..fabric import Fabric, fabric_of, with_library
from ..memory import GIB
from ..plan import Plan
from ..result import StepResult
from ..searching import study
from ..stepping import step

__all__ = ["Scaling", "lines", "scaling"]

_NONE = ("seconds", "tokens_per_second", "efficiency", "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes")


class Scaling(Table):
    """Rows of `scaling`; `results` has the step of each row that ran. `.plot()` draws tokens per second."""

    def __init__(self, rows: list[dict[str, Any]], results: list[StepResult], title: str) -> None:
        """Holds rows.

        Args:
            rows: one per number of devices.
            results: of those that ran.
            title: of the picture.
        """
        super().__init__(rows, lines)
        self.results, self.title = results, title

    def json(self) -> dict[str, Any]:
        """As a JSON value.

        Returns:
            schema, version, title, rows.
        """
        return {"schema": "tilesim.cluster_scaling", "version": 1, "title": self.title, "rows": self.rows}

    def plot(self, axes: Any = None, label: str = "") -> Any:
        """Tokens per second over devices, both axes logarithmic, and as many more as there are more devices (dashed).

        Args:
            axes: matplotlib axes, where another curve may be drawn already; none: new ones.
            label: of the curve; the title if none.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib, or where no number of devices ran.
        """
        ran = [row for row in self.rows if row["seconds"] is not None]
        if not ran:
            raise user_error("no number of devices ran", place="scaling", value=str(self.rows[0]["reason"]))
        axes = axes_or_new(axes, 3.6)
        devices = [row["devices"] for row in ran]
        drawn = axes.plot(
            devices, [row["tokens_per_second"] for row in ran], marker="o", label=plain(label or self.title)
        )
        each = ran[0]["tokens_per_second"] / devices[0]
        axes.plot(devices, [each * one for one in devices], linestyle="--", linewidth=1, color=drawn[0].get_color())
        above = len(axes.lines) <= 2
        place = {
            "xytext": (-3, 4) if above else (3, -4),
            "ha": "right" if above else "left",
            "va": "bottom" if above else "top",
        }
        for row in ran:
            axes.annotate(figures.percent(row["efficiency"]), (row["devices"], row["tokens_per_second"]), fontsize=7,
                          textcoords="offset points", color=drawn[0].get_color(), **place)  # fmt: skip
        axes.margins(0.1)
        axes.set(xscale="log", yscale="log", xlabel="devices", ylabel="tokens per second")
        axes.set_xticks(devices, [f"{one:,}" for one in devices], fontsize=8)
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False)
        return axes


def lines(rows: list[dict[str, Any]]) -> Lines:
    """Rows of `scaling` as text.

    Args:
        rows: one per number of devices.

    Returns:
        The lines.
    """
    columns = [number("devices"), number("time"), number("tokens/s"), number("efficiency, %"), number("exposed, %", 2),
               number("bubble, %", 2), number("of peak, %", 3), text("plan")]  # fmt: skip
    cells = []
    for row in rows:
        if row["seconds"] is None:
            cells.append([f"{row['devices']:,}", *["–"] * 6, row["reason"]])
            continue
        shares = (row["exposed_seconds"] / row["seconds"], row["bubble_seconds"] / row["seconds"], row["mfu"])
        cells.append([f"{row['devices']:,}", figures.duration(row["seconds"]), figures.count(row["tokens_per_second"]),
                      percent(row["efficiency"]), *map(percent, shares), row["plan"]])  # fmt: skip
    return layout(columns, cells)


@checked()
def scaling(
    workload: Layered | str | os.PathLike[str],
    cluster: Any,
    devices: Sequence[int],
    plan: Plan | None = None,
    *,
    overlap: str = "library",
    library: Any = None,
    framework: str | None = None,
    grow_batch: bool = False,
) -> Scaling:
    """The same step on several numbers of devices.

    Args:
        workload: as of `step`; its global batch stays.
        cluster: a `ts.Cluster`, or a name, whose number of devices is replaced.
        devices: how many, one row each.
        plan: whose data axis grows with the devices; none: the best plan of a search at each number.
        overlap: as of `step`, where a plan is given; a search prices "library".
        library: as of `step`.
        framework: as of `step`.
        grow_batch: the global batch grows with the devices, from the first number on.

    Returns:
        Rows: devices, seconds, tokens_per_second, efficiency (tokens per second and device against the fewest devices
        that ran), exposed_seconds, bubble_seconds, mfu, peak_bytes, plan, reason (why there is no time; else empty).

    Raises:
        UserError: for an unknown name, a number that is none, or a cluster that does not come in this size.
    """
    workload = workload if isinstance(workload, Layered) else layered(workload)
    if isinstance(devices, (str, bytes)) or not isinstance(devices, Sequence) or not devices:
        raise user_error("no numbers of devices", place="devices", value=shown(devices), allowed="as [8, 64, 512]")
    if plan is not None and not isinstance(plan, Plan):
        raise user_error("no plan", place="plan", value=shown(plan), allowed="a ts.Plan")
    counts = [whole("devices", one, 1, 2**31 - 1) for one in devices]
    rows, results = [], []
    for count in sorted(set(counts)):
        batch = workload.global_batch * count // counts[0] if grow_batch else workload.global_batch
        work = replace(workload, global_batch=max(1, batch))
        fabric = with_library(_sized(cluster, count), library)
        found, reason = _one(work, fabric, plan, framework, overlap)
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
    name = cluster.partition(":")[0] if isinstance(cluster, str) else str(getattr(cluster, "name", "") or "cluster")
    return Scaling(rows, results, f"{workload.name} on {name}")


def _sized(cluster: Any, count: int) -> Fabric:
    return fabric_of(f"{cluster.partition(':')[0]}:{count}" if isinstance(cluster, str) else cluster, count)


def _one(
    work: Layered, fabric: Fabric, plan: Plan | None, framework: str | None, overlap: str
) -> tuple[StepResult | None, str]:
    """The step, or why there is none."""
    if plan is None:
        searched = study(work, fabric, fabric, framework=framework, best_alone=True)
        return (searched.best, "") if searched.plans else (None, searched.reason)
    others = plan.tensor * plan.pipeline * plan.context
    if fabric.devices % others:
        return None, f"tensor x pipeline x context = {others} does not divide {fabric.devices:,} devices"
    grown = plan.replaced(data=fabric.devices // others)
    for what, axis, value, allowed in grown.reasons(work, fabric.devices):
        return None, f"{what}: {axis}={value}, allowed {allowed}"
    found = step(work, fabric, grown, overlap=overlap, framework=framework, check_memory=False)
    if found.peak_bytes > found.memory_bytes:
        need, have = found.peak_bytes / GIB, found.memory_bytes / GIB
        return None, f"{grown.text()} does not fit: {need:.1f} GiB of {have:.1f}"
    return found, ""
