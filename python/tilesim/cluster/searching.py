"""All legal plans of a workload on a cluster, priced at once in closed form."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.arguments import whole
from ..base.checked import checked
from ..base.errors import shown, user_error
from ..base.store import Store
from ..base.table import Table
from ..models.layered import Layered
from ..models.layered_presets import layered
from .columns import Columns, of_table
from .fabric import Fabric, fabric_of
from .frameworks import Framework
from .memory import GIB
from .plan import RECOMPUTE, SCHEDULES, SHARDS, Plan
from .result import PARTS, StepResult
from .searches.kept import priced
from .stepping import framework_of, measured, pricer, step
from .views.plan_map import PlanMap, cells

__all__ = ["SearchStudy", "search"]

Array = NDArray[np.float64]
CHUNK = 1 << 15
_AXES = (
    "tensor", "pipeline", "data", "context", "expert", "sequence", "virtual", "schedule", "shard", "micro_batch",
    "recompute",
)  # fmt: skip


@dataclass(frozen=True)
class SearchStudy:
    """Plans that were priced: how many, the best of them, and those that no other beats in both time and memory."""

    workload: Layered
    cluster: Any
    framework: str | None
    evaluated: int
    fits: int
    plans: list[Plan]
    seconds: list[float]
    peak_bytes: list[int]
    cells: list[dict[str, Any]] = field(default_factory=list, repr=False)
    least_bytes: int = 0
    devices: int = 0

    @property
    def reason(self) -> str:
        """Why there is no best plan; empty where there is one."""
        if self.plans:
            return ""
        if not self.evaluated:
            return "no plan divides the workload over these devices"
        return f"no plan of {self.evaluated:,} fits into memory: {self.least_bytes / GIB:.1f} GiB at least"

    @property
    def best(self) -> StepResult:
        """The step of the fastest plan that fits.

        Raises:
            UserError: where none fits.
        """
        if not self.plans:
            raise user_error(
                "no plan fits into memory", place="search",
                value=f"{self.evaluated:,} plans, {self.least_bytes / GIB:.1f} GiB at least",
                allowed="more devices, or a smaller batch",
            )  # fmt: skip
        return step(self.workload, self.cluster, self.plans[0], framework=self.framework)

    def explain(self) -> str:
        """Where the time of the best plan goes, and what the second lacks: parts in which they differ.

        Returns:
            Lines of text.

        Raises:
            UserError: where no plan fits.
        """
        best = self.best
        lines = [f"{self.evaluated:,} plans, {self.fits:,} fit", best.explain()]
        if len(self.plans) > 1:
            other = step(self.workload, self.cluster, self.plans[1], framework=self.framework)
            lines.append(f"second, {other.plan.text()}: {other.seconds * 1e3:,.1f} ms, "
                         f"{other.seconds / best.seconds - 1:.1%} more")  # fmt: skip
            gaps = sorted(
                ((other.parts[name] - best.parts[name], name) for name in PARTS), key=lambda one: -abs(one[0])
            )
            lines += [f"  {gap * 1e3:+,.1f} ms {name}: {PARTS[name]}" for gap, name in gaps[:3]
                      if abs(gap) > 1e-6 * best.seconds]  # fmt: skip
        return "\n".join(lines)

    def table(self) -> Table:
        """The fastest plans that fit.

        Returns:
            Rows: plan, seconds, peak_bytes.
        """
        rows = zip(self.plans, self.seconds, self.peak_bytes, strict=True)
        return Table([{"plan": plan.text(), "seconds": time, "peak_bytes": size} for plan, time, size in rows])

    def json(self) -> dict[str, Any]:
        """As a JSON value: counts, the best step, the fastest plans, the Pareto front."""

        def rows(table: Table) -> list[dict[str, Any]]:
            return [dict(row) for row in table]

        return {
            "schema": "tilesim.cluster_search",
            "version": 1,
            "evaluated": self.evaluated,
            "fits": self.fits,
            "best": self.best.json(),
            "plans": rows(self.table()),
            "pareto": rows(self.pareto()),
            "map": rows(self.map()),
        }

    def map(self) -> PlanMap:
        """The best time of each pair of tensor and pipeline axes.

        Returns:
            Rows tensor, pipeline, seconds, plan, peak_bytes, kind, reason: why a pair has no time. It prints as a
            grid.
        """
        title = f"{self.workload.name} on {self.devices:,} devices: the best time"
        return PlanMap([dict(row) for row in self.cells], title)

    def plot(self, axes: Any = None) -> Any:
        """The map as a picture.

        Args:
            axes: matplotlib axes; none: new ones.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib.
        """
        return self.map().plot(axes)

    def pareto(self) -> Table:
        """Plans that no other beats in both time and memory, the fastest first.

        Returns:
            Rows: plan, seconds, peak_bytes.
        """
        rows, least = [], float("inf")
        for row in self.table():
            if row["peak_bytes"] < least:
                least = row["peak_bytes"]
                rows.append(row)
        return Table(rows)


def _divisors(number: int) -> list[int]:
    small = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})


def _layouts(w: Layered, devices: int) -> Iterator[tuple[int, ...]]:
    """tensor, pipeline, data, context, expert, virtual, micro_batch that divide the workload and the devices."""
    for tensor in _divisors(devices):
        if w.heads % tensor or w.ffn % tensor:
            continue
        for pipeline in _divisors(devices // tensor):
            if pipeline > w.layers:
                continue
            for context in _divisors(devices // tensor // pipeline):
                data = devices // tensor // pipeline // context
                if w.sequence % context or w.global_batch % data:
                    continue
                batch = w.global_batch // data
                chunks = [v for v in _divisors(w.layers // pipeline) if v == 1 or w.layers % (v * pipeline) == 0]
                experts = [e for e in _divisors(w.experts) if (data * context) % e == 0] if w.experts else [1]
                for expert in experts:
                    for virtual in chunks if pipeline > 1 else [1]:
                        for micro in _divisors(batch):
                            yield tensor, pipeline, data, context, expert, virtual, micro


def _choices(phase: str) -> list[tuple[bool, int, int, int]]:
    """sequence, schedule, shard, recompute; without gradients, what of it means something."""
    if phase != "train":
        shards = (SHARDS.index("none"), SHARDS.index("zero3"))
        sequences = (False,) if phase == "decode" else (False, True)
        return [(sequence, 0, shard, 0) for sequence in sequences for shard in shards]
    return [
        (sequence, schedule, shard, recompute)
        for sequence in (False, True)
        for schedule in (SCHEDULES.index("1f1b"), SCHEDULES.index("gpipe"))
        for shard in range(len(SHARDS))
        for recompute in (RECOMPUTE.index(name) for name in ("none", "selective", "full"))
    ]


def candidates(w: Layered, devices: int) -> Array:
    """Every plan that divides a workload, as a table.

    Args:
        w: to be divided.
        devices: all of them are used.

    Returns:
        Shape [plans, 11]: the columns of a plan in the order of `Plan` up to `recompute`.
    """
    layouts = np.array(list(_layouts(w, devices)), dtype=np.float64).reshape(-1, 7)
    choices = np.array(_choices(w.phase), dtype=np.float64)
    left = np.repeat(layouts, len(choices), axis=0)
    right = np.tile(choices, (len(layouts), 1))
    tensor, pipeline, data, context, expert, virtual, micro = left.T
    sequence, schedule, shard, recompute = right.T
    interleaved = float(SCHEDULES.index("interleaved"))
    keep = (sequence == 0) | ((tensor > 1) & (w.sequence % (tensor * context) == 0))
    keep &= (schedule == 0) | ((pipeline > 1) & (virtual == 1))
    keep &= (shard == 0) | (data * context > 1)
    keep &= (shard < 2) | (pipeline == 1)  # gradients divided again at each micro-batch of a pipeline gain nothing
    schedule = np.where(virtual > 1, interleaved, schedule)
    columns = [tensor, pipeline, data, context, expert, sequence, virtual, schedule, shard, micro, recompute]
    return np.stack(columns, axis=1)[keep]


def _plan(row: Sequence[float]) -> Plan:
    values: dict[str, Any] = {name: int(value) for name, value in zip(_AXES, row, strict=True)}
    values["sequence"] = bool(values["sequence"])
    for name, names in (("schedule", SCHEDULES), ("shard", SHARDS), ("recompute", RECOMPUTE)):
        values[name] = names[values[name]]
    return Plan(**values)


def _table(w: Layered, rows: Array) -> Columns:
    return of_table(w, {name: rows[:, number] for number, name in enumerate(_AXES)})


def _priced(w: Layered, rows: Array, fabric: Fabric, framework: str | None) -> tuple[Array, Array]:
    """Seconds and bytes of plans, rows that one framework runs at a time."""
    seconds, peak = np.empty(len(rows)), np.empty(len(rows))
    zero3 = rows[:, _AXES.index("shard")] == SHARDS.index("zero3")
    for mask, example in ((~zero3, Plan()), (zero3, Plan(shard="zero3"))):
        for part in np.array_split(np.flatnonzero(mask), max(1, int(mask.sum()) // CHUNK)):
            if not len(part):
                continue
            constants = Framework.load(framework or framework_of(fabric.device, example, w.phase)).constants
            price = pricer(fabric.device, w.dtype)
            found, held = measured(w.phase, _table(w, rows[part]), price, fabric, constants)
            seconds[part], peak[part] = found.seconds, held.peak
    return seconds, peak


@checked()
def search(
    workload: Layered | str,
    cluster: Any,
    budget: int | None = None,
    executor: Any = None,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    framework: str | None = None,
    keep: int = 1000,
) -> SearchStudy:
    """Prices every plan that divides a workload over all devices of a cluster.

    Args:
        workload: a layered step, its name, or a file.
        cluster: a `ts.Cluster`, or a name with devices as "dgx-a100:64".
        budget: plans at most, evenly spread over all; none: all.
        executor: of `ts.executors`; plans are priced in parts by its `map`; none: here.
        store: of priced plans, or its path: an interrupted search goes on from it, and another one of the same
            workload and links takes what is there.
        framework: as of `step`.
        keep: plans that the study lists, beside those of the Pareto front.

    Returns:
        The study; plans that do not fit are counted, not listed.

    Raises:
        UserError: for a cluster without a number of devices, or a workload that no plan divides.
    """
    workload = workload if isinstance(workload, Layered) else layered(workload)
    fabric = fabric_of(cluster)
    if not fabric.devices:
        raise user_error(
            "a search needs a number of devices", place="cluster", value=str(cluster), allowed="NAME:devices"
        )
    found = study(workload, cluster, fabric, budget, executor, store=store, framework=framework, keep=keep)
    if not found.evaluated:
        raise user_error(
            "no plan divides the workload over these devices", place="cluster", value=f"{fabric.devices} devices",
            allowed=f"batch {workload.global_batch}, {workload.heads} heads, {workload.layers} layers, "
            f"sequence {workload.sequence}",
        )  # fmt: skip
    return found


def study(
    workload: Layered, cluster: Any, fabric: Fabric, budget: int | None = None, executor: Any = None, *,
    store: Store | str | os.PathLike[str] | None = None, framework: str | None = None, keep: int = 1,
) -> SearchStudy:  # fmt: skip
    """As `search`, without errors where no plan divides the workload: `reason` tells.

    Args:
        workload: to be divided.
        cluster: as it was given.
        fabric: of the cluster, with a number of devices.
        budget: plans at most.
        executor: that prices parts of them.
        store: of priced plans, or its path.
        framework: as of `step`.
        keep: plans that the study lists.

    Returns:
        The study.
    """
    if executor is not None and not callable(getattr(executor, "map", None)):
        allowed = "what has the interface of concurrent.futures.Executor"
        raise user_error("this is no executor", place="executor", value=shown(executor), allowed=allowed)
    rows = candidates(workload, fabric.devices)
    all_plans = len(rows)
    if budget is not None and whole("budget", budget, 1) < len(rows):
        rows = rows[np.linspace(0, len(rows) - 1, budget).astype(np.int64)]
    parts = [rows[at : at + CHUNK] for at in range(0, len(rows), CHUNK)]
    one = _Part(workload, fabric, framework)

    def run(asked: list[Array]) -> Iterable[tuple[Array, Array]]:
        return map(one, asked) if executor is None or not asked else executor.map(one, asked)

    if store is None:
        found = list(run(parts))
    else:
        with contextlib.ExitStack() as stack:
            own = store if isinstance(store, Store) else stack.enter_context(contextlib.closing(Store(store)))
            found = priced(own, (workload, fabric, framework), parts, run)
    nothing = np.empty(0), np.empty(0)  # where no plan divides the workload
    seconds, peak = (np.concatenate([one[number] for one in found or [nothing]]) for number in (0, 1))
    return _study(workload, cluster, framework, fabric, rows, seconds, peak, keep, len(rows) == all_plans)


@dataclass(frozen=True)
class _Part:
    """What an executor calls with some plans."""

    workload: Layered
    fabric: Fabric
    framework: str | None

    def __call__(self, rows: Array) -> tuple[Array, Array]:
        return _priced(self.workload, rows, self.fabric, self.framework)


def _study(
    w: Layered,
    cluster: Any,
    framework: str | None,
    fabric: Fabric,
    rows: Array,
    seconds: Array,
    peak: Array,
    keep: int,
    whole_: bool,
) -> SearchStudy:
    fitting = np.flatnonzero(peak <= fabric.device.memory.bytes)
    order = fitting[np.lexsort((peak[fitting], seconds[fitting]))]
    least = np.minimum.accumulate(peak[order]) if len(order) else peak[order]
    front = np.ones(len(order), dtype=bool)
    front[1:] = peak[order][1:] < least[:-1]
    front[:keep] = True
    chosen = order[front]
    fits = peak <= fabric.device.memory.bytes
    axes = {name: rows[:, _AXES.index(name)] for name in ("tensor", "pipeline")}
    table = cells(w, fabric.devices, axes, seconds, peak, fits, whole_)
    for row in table:
        number = row.pop("number")
        row["plan"] = "" if number is None else _plan(rows[number].tolist()).text()
    return SearchStudy(
        w, cluster, framework, len(rows), len(fitting), [_plan(row) for row in rows[chosen].tolist()],
        seconds[chosen].tolist(), [int(value) for value in peak[chosen]], table, int(peak.min()) if len(peak) else 0,
        fabric.devices,
    )  # fmt: skip
