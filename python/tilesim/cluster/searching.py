"""Searches all legal plans of a workload on a cluster in closed form."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import figures
from ..base.arguments import integer
from ..base.checked import checked
from ..base.errors import shown, user_error
from ..base.store import Store
from ..base.table import Table, Tabled
from ..models.layered import Layered
from ..models.layered_presets import layered
from .fabric import Fabric, as_run, fabric_of
from .memory import GIB
from .pipelines.stages import at_least, together
from .plan import Plan
from .programs.stored_predictions import opened
from .result import PARTS, StepResult
from .searches.candidates import AXES, candidates, in_order, plan_of, replicas, table_of
from .searches.frameworks import Constants, summary_lines
from .searches.pruning import FIRST, EvaluatedPlans, Peak, rises, rounds
from .searches.stored_plans import priced
from .stepping import framework_of, memory_of_steps, pricer, step, timed
from .views.plan_map import PlanMap, cells

__all__ = ["SearchStudy", "search"]

Array = NDArray[np.float64]
CHUNK = 1 << 15
ORDERS = 1 << 8  # number of plans whose schedules are simulated together


@dataclass(frozen=True)
class SearchStudy(Tabled):
    """The result of a search: numbers of plans that are `legal`, `evaluated` within the budget, in memory (`fits`) and
    `priced`; the best plans and the Pareto front of time and memory. `confirmed` has the fastest plans repeated
    with shared links: plan, seconds, flows_seconds. `frameworks` are those of `plans`."""

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
    priced: int = 0
    confirmed: list[dict[str, Any]] = field(default_factory=list, repr=False)
    frameworks: list[str] = field(default_factory=list, repr=False)
    legal: int = 0

    @property
    def counted(self) -> str:
        """Describes the numbers of plans in a sentence."""
        if self.legal <= self.evaluated:
            return f"{self.evaluated:,} plans, {self.fits:,} fit"
        return f"{self.evaluated:,} of {self.legal:,} plans (a larger budget may find a better one), {self.fits:,} fit"

    @property
    def reason(self) -> str:
        """The reason why the search found no plan; "" if it found one."""
        if self.plans:
            return ""
        if not self.evaluated:
            return "the workload has no legal plan on these devices"
        return f"none of {self.evaluated:,} plans fits into memory: at least {self.least_bytes / GIB:.1f} GiB"

    @property
    def best(self) -> StepResult:
        """The step of the fastest plan that fits.

        Raises:
            UserError: if no plan fits.
        """
        if not self.plans:
            raise user_error(
                "no plan fits into memory", place="search",
                value=f"{self.evaluated:,} plans, at least {self.least_bytes / GIB:.1f} GiB",
                allowed="more devices, or a smaller batch",
            )  # fmt: skip
        return step(self.workload, self.cluster, self.plans[0], framework=self.framework)

    def __repr__(self) -> str:
        found = f"{self.plans[0].text()} in {figures.duration(self.seconds[0])}" if self.plans else self.reason
        return f"<SearchStudy {self.workload.name} on {self.devices:,} devices, {self.evaluated:,} plans: {found}>"

    def explain(self) -> str:
        """Explains the best plan, its differences from the second, and the best plan of each framework.

        Returns:
            Lines of text.

        Raises:
            UserError: if no plan fits.
        """
        best = self.best
        lines = [self.counted, best.explain()]
        if len(self.plans) > 1:
            other = step(self.workload, self.cluster, self.plans[1], framework=self.framework)
            lines.append(f"second, {other.plan.text()}: {other.seconds * 1e3:,.1f} ms, "
                         f"{other.seconds / best.seconds - 1:.1%} more")  # fmt: skip
            gaps = sorted(
                ((other.parts[name] - best.parts[name], name) for name in PARTS), key=lambda one: -abs(one[0])
            )
            lines += [f"  {gap * 1e3:+,.1f} ms {name}: {PARTS[name]}" for gap, name in gaps[:3]
                      if abs(gap) > 1e-6 * best.seconds]  # fmt: skip
        for row in self.confirmed:
            lines.append(f"shared links: {row['plan']}: {row['flows_seconds'] * 1e3:,.1f} ms as flows, "
                         f"{row['seconds'] * 1e3:,.1f} ms closed")  # fmt: skip
        return "\n".join(lines + summary_lines(self.table()))

    def table(self) -> Table:
        """Tabulates the fastest plans that fit.

        Returns:
            Rows with plan, seconds, peak_bytes, framework.
        """
        rows = zip(map(Plan.text, self.plans), self.seconds, self.peak_bytes, self.frameworks, strict=True)
        return Table([dict(zip(("plan", "seconds", "peak_bytes", "framework"), row, strict=True)) for row in rows])

    def to_dict(self) -> dict[str, Any]:
        """Converts counts, best step, fastest plans and Pareto front to JSON values.

        Returns:
            A dict for JSON.
        """

        def rows(table: Table) -> list[dict[str, Any]]:
            return [dict(row) for row in table]

        return {
            "schema": "tilesim.cluster_search",
            "version": 1,
            "legal": self.legal,
            "evaluated": self.evaluated,
            "fits": self.fits,
            "priced": self.priced,
            "confirmed": self.confirmed,
            "best": self.best.to_dict(),
            "plans": rows(self.table()),
            "pareto": rows(self.pareto()),
            "map": rows(self.map()),
        }

    def map(self) -> PlanMap:
        """Tabulates the best time of each pair of tensor and pipeline axes.

        Returns:
            Rows with tensor, pipeline, seconds, plan, peak_bytes, kind, reason (for no time). It prints as a
            grid.
        """
        title = f"{self.workload.name} on {self.devices:,} devices: the best time"
        return PlanMap([dict(row) for row in self.cells], title)

    def plot(self, axes: Any = None) -> Any:
        """Draws the map.

        Args:
            axes: matplotlib axes; none: new ones.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib.
        """
        return self.map().plot(axes)

    def pareto(self) -> Table:
        """Returns the Pareto front of time and memory, fastest first.

        Returns:
            Rows with plan, seconds, peak_bytes, framework.
        """
        rows, least = [], float("inf")
        for row in self.table():
            if row["peak_bytes"] < least:
                least = row["peak_bytes"]
                rows.append(row)
        return Table(rows)


def _peak_bytes(w: Layered, rows: Array, fabric: Fabric, constants: Constants) -> Array:
    """Returns the bytes of the fullest device, one number per plan."""
    peak = np.empty(len(rows))
    for own, k in constants.of(rows):
        for part in _chunks(own):
            peak[part] = memory_of_steps(w.phase, table_of(w, rows[part]), fabric, k).peak
    return peak


def _chunks(which: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for at in range(0, len(which), CHUNK):
        yield which[at : at + CHUNK]


def _timed(w: Layered, rows: Array, fabric: Fabric, framework: str | None, price: Any, ordered: Any) -> Array:
    """Returns the seconds of plans, with the constants of each plan's framework."""
    seconds = np.empty(len(rows))
    for own, k in Constants(fabric, w.phase, framework).of(rows):
        for part in _chunks(own):
            seconds[part] = timed(w.phase, table_of(w, rows[part]), price, fabric, k, ordered).seconds
    return seconds


@checked()
def search(
    workload: Layered | str,
    cluster: Any,
    budget: int | None = None,
    executor: Any = None,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    framework: str | None = None,
    keep: int = 100,
    exhaustive: bool = False,
    confirm: int = 3,
) -> SearchStudy:
    """Finds the best plan of a workload over all devices of a cluster.

    Skips plans that exceed memory, and plans whose lower bound (products at the device's peak, free attention, if
    times are monotonic in both; the busiest stage for schedules that split the backward pass) excludes them from the
    fastest, the best of their axes, and the Pareto front.

    Args:
        workload: a layered step, its name, or a file.
        cluster: a `ts.Cluster`, or a name with devices such as "dgx-a100:64".
        budget: largest number of plans, evenly spread; default: all.
        executor: executor of `ts.executors` for parallel evaluation; default: this thread.
        store: store of evaluated plans, or its path; an interrupted or repeated search with the same workload and links
            resumes from it.
        framework: as in `step`.
        keep: number of fastest plans to list, besides the Pareto front and the fastest of each framework.
        exhaustive: whether to evaluate all plans that fit, which gives the same result.
        confirm: number of fastest plans to repeat with network_model="flows", unless a library prices communication;
            `confirmed` and `explain()` have both times.

    Returns:
        The study, in which plans that exceed memory are only counted.

    Raises:
        UserError: for a cluster without a number of devices, or a workload without a legal plan.
    """
    workload = workload if isinstance(workload, Layered) else layered(workload)
    keep, confirm = integer("keep", keep), integer("confirm", confirm, 0)
    fabric = fabric_of(cluster)
    if not fabric.devices:
        raise user_error("missing number of devices", place="cluster", value=str(cluster), allowed="NAME:devices")
    found = study(workload, cluster, fabric, budget, executor, store=store, framework=framework, keep=keep,
                  exhaustive=exhaustive)  # fmt: skip
    if not found.evaluated:
        raise user_error(
            "the workload has no legal plan on these devices", place="cluster", value=f"{fabric.devices:,} devices, "
            f"batch {workload.global_batch:,}, {workload.heads} heads, {workload.layers} layers, "
            f"sequence {workload.sequence:,}", allowed=f"a batch that is a multiple of {replicas(workload, fabric):,}",
            suggestion="Change the batch (global_batch, --batch) or the number of devices",
        )  # fmt: skip
    again = []
    if as_run(fabric, Constants(fabric, workload.phase, framework).first).library is not None:
        confirm = 0  # a library has its own cost model, so flows are not simulated
    for plan, seconds in zip(found.plans[:confirm], found.seconds, strict=False):
        shared = step(workload, cluster, plan, network_model="flows", framework=framework)
        again.append({"plan": plan.text(), "seconds": seconds, "flows_seconds": shared.seconds})
    return replace(found, confirmed=again)


def study(
    workload: Layered, cluster: Any, fabric: Fabric, budget: int | None = None, executor: Any = None, *,
    store: Store | str | os.PathLike[str] | None = None, framework: str | None = None, keep: int = 1,
    exhaustive: bool = False, best_alone: bool = False,
) -> SearchStudy:  # fmt: skip
    """Does the same as `search`, but accepts a workload without plans (see `reason`)."""
    if executor is not None and not callable(getattr(executor, "map", None)):
        allowed = "a concurrent.futures.Executor"
        raise user_error("not an executor", place="executor", value=shown(executor), allowed=allowed)
    rows = candidates(workload, fabric)
    every = len(rows)
    if budget is not None and integer("budget", budget, 1) < len(rows):
        rows = rows[np.linspace(0, len(rows) - 1, budget).astype(np.int64)]
    frameworks = Constants(fabric, workload.phase, framework)
    fabric = as_run(fabric, frameworks.first)
    peak = _peak_bytes(workload, rows, fabric, frameworks)
    walk = _Walk(workload, fabric, framework, rows, peak, (keep, exhaustive, best_alone))
    with contextlib.nullcontext() if store is None else opened(store) as own:
        walk.run(executor, own)
    return _study(workload, cluster, framework, fabric, walk, every)


class _Walk:
    """Evaluates the plans that fit, in the order of their lower bounds."""

    def __init__(
        self, w: Layered, fabric: Fabric, framework: str | None, rows: Array, peak: Array, how: tuple[int, bool, bool]
    ) -> None:
        self.asked = (w, fabric, framework)
        self.rows, self.peak = rows, peak
        self.keep, self.exhaustive, best_alone = how
        self.fits = peak <= fabric.device.memory.bytes
        axes = rows[:, AXES.index("tensor")] * (w.layers + 1) + rows[:, AXES.index("pipeline")]
        cell = np.unique(axes, return_inverse=True)[1].ravel() if len(rows) else np.empty(0, dtype=np.int64)
        self.kinds = Constants(fabric, w.phase, framework).kinds(rows)
        self.found = EvaluatedPlans(peak, cell, self.keep, self.kinds, not best_alone)

    def run(self, executor: Any, store: Store | None) -> None:
        """Evaluates promising plans: closed forms by bounds of peaks, then schedules by bounds of closed forms."""
        w, fabric, framework = self.asked
        which = np.flatnonzero(self.fits)
        price = pricer(fabric.device, w.dtype)
        bound = np.zeros(len(which))
        if not self.exhaustive:
            bound = _timed(w, self.rows[which], fabric, framework, Peak(price), at_least)
            for part in _chunks(np.arange(len(which))):
                bound[part] *= rises(table_of(w, self.rows[which[part]]))
        order = in_order(w, self.rows, fabric)
        late: list[tuple[NDArray[np.int64], Array]] = []

        def priced_in(parts: list[tuple[bool, Array]]) -> list[Array]:
            one = _Part(*self.asked)

            def run(asked: list[tuple[bool, Array]]) -> Iterable[Array]:
                return map(one, asked) if executor is None or not asked else executor.map(one, asked)

            return list(run(parts)) if store is None else priced(store, self.asked, parts, run)

        def price_some(carry: bool, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
            size = CHUNK if not carry else ORDERS
            parts = [(carry, self.rows[numbers[at : at + size]]) for at in range(0, len(numbers), size)]
            return numbers, np.concatenate(priced_in(parts))

        for numbers, seconds in rounds(self.found, which, bound, FIRST, partial(price_some, False)):
            own = order[numbers]
            self.found.put(numbers[~own], seconds[~own])
            late.append((numbers[own], seconds[own]))
        if late:
            which, bound = (np.concatenate([one[at] for one in late]) for at in (0, 1))
            if self.exhaustive:
                bound = np.zeros(len(which))
            for numbers, seconds in rounds(self.found, which, bound, ORDERS, partial(price_some, True)):
                self.found.put(numbers, seconds)


@dataclass(frozen=True)
class _Part:
    """An executor's task: seconds of some plans, or their lower bounds without simulated schedules."""

    workload: Layered
    fabric: Fabric
    framework: str | None

    def __call__(self, part: tuple[bool, Array]) -> Array:
        carry, rows = part
        price = pricer(self.fabric.device, self.workload.dtype)
        return _timed(self.workload, rows, self.fabric, self.framework, price, together if carry else at_least)


def _study(w: Layered, cluster: Any, framework: str | None, fabric: Fabric, walk: _Walk, legal: int) -> SearchStudy:
    found, rows, peak = walk.found, walk.rows, walk.peak
    fitting = np.flatnonzero(found.priced)
    order = fitting[np.lexsort((fitting, peak[fitting], found.seconds[fitting]))]
    least = np.minimum.accumulate(peak[order]) if len(order) else peak[order]
    front = np.ones(len(order), dtype=bool)
    front[1:] = peak[order][1:] < least[:-1]
    front[: walk.keep] = True
    front[np.unique(walk.kinds[order], return_index=True)[1]] = True
    chosen = order[front]
    plans = [plan_of(row, w.phase) for row in rows[chosen].tolist()]
    axes = {name: rows[:, AXES.index(name)] for name in ("tensor", "pipeline")}
    table = cells(w, fabric.devices, axes, found.seconds, peak, walk.fits, len(rows) == legal)
    for row in table:
        number = row.pop("number")
        row["plan"] = "" if number is None else plan_of(rows[number].tolist(), w.phase).text()
    return SearchStudy(
        w, cluster, framework, len(rows), int(walk.fits.sum()), plans,
        found.seconds[chosen].tolist(), [int(value) for value in peak[chosen]], table,
        int(peak.min()) if len(peak) else 0, fabric.devices, len(fitting),
        frameworks=[framework or framework_of(fabric.device, plan, w.phase) for plan in plans],
        legal=legal,
    )  # fmt: skip
