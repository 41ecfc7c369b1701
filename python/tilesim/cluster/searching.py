"""All legal plans of a workload on a cluster, priced at once in closed form."""

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
from ..base.arguments import whole
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
from .programs.kept import opened
from .result import PARTS, StepResult
from .searches.candidates import AXES, candidates, in_order, plan_of, replicas, table_of
from .searches.frameworks import Constants, said
from .searches.kept import priced
from .searches.pruning import FIRST, Found, Peak, rises, rounds
from .stepping import framework_of, held, pricer, step, timed
from .views.plan_map import PlanMap, cells

__all__ = ["SearchStudy", "search"]

Array = NDArray[np.float64]
CHUNK = 1 << 15
ORDERS = 1 << 8  # plans whose orders are carried out at once


@dataclass(frozen=True)
class SearchStudy(Tabled):
    """Plans: how many there are (`evaluated`), `fits` into memory and had to be `priced`; the best of them, and those
    that no other beats in both time and memory. `confirmed` has the fastest run again with messages that share links:
    plan, seconds, flows_seconds. `frameworks` are those of `plans`; the fastest of each is listed."""

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

    def __repr__(self) -> str:
        found = f"{self.plans[0].text()} in {figures.duration(self.seconds[0])}" if self.plans else self.reason
        return f"<SearchStudy {self.workload.name} on {self.devices:,} devices, {self.evaluated:,} plans: {found}>"

    def explain(self) -> str:
        """Where the time of the best plan goes, what the second lacks: parts in which they differ, and the best of each
        framework where there are several.

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
        for row in self.confirmed:
            lines.append(f"links shared: {row['plan']}: {row['flows_seconds'] * 1e3:,.1f} ms as flows, "
                         f"{row['seconds'] * 1e3:,.1f} ms closed")  # fmt: skip
        return "\n".join(lines + said(self.table()))

    def table(self) -> Table:
        """The fastest plans that fit.

        Returns:
            Rows: plan, seconds, peak_bytes, framework.
        """
        rows = zip(map(Plan.text, self.plans), self.seconds, self.peak_bytes, self.frameworks, strict=True)
        return Table([dict(zip(("plan", "seconds", "peak_bytes", "framework"), row, strict=True)) for row in rows])

    def to_dict(self) -> dict[str, Any]:
        """Counts, the best step, the fastest plans, the Pareto front.

        Returns:
            A dict for JSON.
        """

        def rows(table: Table) -> list[dict[str, Any]]:
            return [dict(row) for row in table]

        return {
            "schema": "tilesim.cluster_search",
            "version": 1,
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
            Rows: plan, seconds, peak_bytes, framework.
        """
        rows, least = [], float("inf")
        for row in self.table():
            if row["peak_bytes"] < least:
                least = row["peak_bytes"]
                rows.append(row)
        return Table(rows)


def _held(w: Layered, rows: Array, fabric: Fabric, constants: Constants) -> Array:
    """Bytes of the fullest device, one number per plan."""
    peak = np.empty(len(rows))
    for own, k in constants.of(rows):
        for part in _chunks(own):
            peak[part] = held(w.phase, table_of(w, rows[part]), fabric, k).peak
    return peak


def _chunks(which: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for at in range(0, len(which), CHUNK):
        yield which[at : at + CHUNK]


def _timed(w: Layered, rows: Array, fabric: Fabric, framework: str | None, price: Any, ordered: Any) -> Array:
    """Seconds of plans, rows that one framework runs at a time."""
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
    """Finds the best of every plan that divides a workload over all devices of a cluster.

    Plans that do not fit into memory are not priced, nor are those whose lower bound (products at the device's peak,
    attention in no time, where times rise with both; of schedules that divide the backward pass their busiest stage)
    shows that they are not among the fastest, nor the best of their axes, nor unbeaten in both time and memory.

    Args:
        workload: a layered step, its name, or a file.
        cluster: a `ts.Cluster`, or a name with devices as "dgx-a100:64".
        budget: plans at most, evenly spread over all; none: all.
        executor: of `ts.executors`; plans are priced in parts by its `map`; none: here.
        store: of priced plans, or its path: an interrupted search goes on from it, and another one of the same
            workload and links takes what is there.
        framework: as of `step`.
        keep: plans that the study lists, the fastest, beside those of the Pareto front and the fastest of each
            framework.
        exhaustive: prices all that fit; the study is the same.
        confirm: of the fastest that many are run again with network="flows", where no library prices communication;
            `confirmed` and `explain()` say both times.

    Returns:
        The study; plans that do not fit are counted, not listed.

    Raises:
        UserError: for a cluster without a number of devices, or a workload that no plan divides.
    """
    workload = workload if isinstance(workload, Layered) else layered(workload)
    keep, confirm = whole("keep", keep), whole("confirm", confirm, 0)
    fabric = fabric_of(cluster)
    if not fabric.devices:
        raise user_error(
            "a search needs a number of devices", place="cluster", value=str(cluster), allowed="NAME:devices"
        )
    found = study(workload, cluster, fabric, budget, executor, store=store, framework=framework, keep=keep,
                  exhaustive=exhaustive)  # fmt: skip
    if not found.evaluated:
        raise user_error(
            "no plan divides the workload over these devices", place="cluster", value=f"{fabric.devices:,} devices, "
            f"batch {workload.global_batch:,}, {workload.heads} heads, {workload.layers} layers, "
            f"sequence {workload.sequence:,}", allowed=f"batches that are multiples of {replicas(workload, fabric):,}",
            suggestion="Take another batch (global_batch, --batch) or another number of devices",
        )  # fmt: skip
    again = []
    if as_run(fabric, Constants(fabric, workload.phase, framework).first).library is not None:
        confirm = 0  # a library has a form of its own
    for plan, seconds in zip(found.plans[:confirm], found.seconds, strict=False):
        shared = step(workload, cluster, plan, network_model="flows", framework=framework)
        again.append({"plan": plan.text(), "seconds": seconds, "flows_seconds": shared.seconds})
    return replace(found, confirmed=again)


def study(
    workload: Layered, cluster: Any, fabric: Fabric, budget: int | None = None, executor: Any = None, *,
    store: Store | str | os.PathLike[str] | None = None, framework: str | None = None, keep: int = 1,
    exhaustive: bool = False, best_alone: bool = False,
) -> SearchStudy:  # fmt: skip
    """As `search`, without errors where no plan divides the workload: `reason` tells."""
    if executor is not None and not callable(getattr(executor, "map", None)):
        allowed = "what has the interface of concurrent.futures.Executor"
        raise user_error("this is no executor", place="executor", value=shown(executor), allowed=allowed)
    rows = candidates(workload, fabric)
    every = len(rows)
    if budget is not None and whole("budget", budget, 1) < len(rows):
        rows = rows[np.linspace(0, len(rows) - 1, budget).astype(np.int64)]
    frameworks = Constants(fabric, workload.phase, framework)
    fabric = as_run(fabric, frameworks.first)
    peak = _held(workload, rows, fabric, frameworks)
    walk = _Walk(workload, fabric, framework, rows, peak, (keep, exhaustive, best_alone))
    with contextlib.nullcontext() if store is None else opened(store) as own:
        walk.run(executor, own)
    return _study(workload, cluster, framework, fabric, walk, len(rows) == every)


class _Walk:
    """The plans that fit, by rising lower bound."""

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
        self.found = Found(peak, cell, self.keep, self.kinds, not best_alone)

    def run(self, executor: Any, store: Store | None) -> None:
        """Prices what may matter: closed forms by bounds of peaks, then orders by bounds of closed forms."""
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
    """What an executor calls with some plans: their seconds, at least those where orders are not carried out."""

    workload: Layered
    fabric: Fabric
    framework: str | None

    def __call__(self, part: tuple[bool, Array]) -> Array:
        carry, rows = part
        price = pricer(self.fabric.device, self.workload.dtype)
        return _timed(self.workload, rows, self.fabric, self.framework, price, together if carry else at_least)


def _study(w: Layered, cluster: Any, framework: str | None, fabric: Fabric, walk: _Walk, all_: bool) -> SearchStudy:
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
    table = cells(w, fabric.devices, axes, found.seconds, peak, walk.fits, all_)
    for row in table:
        number = row.pop("number")
        row["plan"] = "" if number is None else plan_of(rows[number].tolist(), w.phase).text()
    return SearchStudy(
        w, cluster, framework, len(rows), int(walk.fits.sum()), plans,
        found.seconds[chosen].tolist(), [int(value) for value in peak[chosen]], table,
        int(peak.min()) if len(peak) else 0, fabric.devices, len(fitting),
        frameworks=[framework or framework_of(fabric.device, plan, w.phase) for plan in plans],
    )  # fmt: skip
