"""Sweeps over graphs, machines, settings and mappings, on any executor."""

from __future__ import annotations

import concurrent.futures
import hashlib
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import figures
from ..base.checked import checked
from ..base.errors import shown
from ..base.executors import in_order, opened, shares_memory
from ..base.progress import ProgressBar
from ..base.store import Store
from ..graph import Graph, user_error
from ..loading import GraphLike
from ..machine.machine import Machine, MachineLike
from ..timing.latencies import TileLatencies
from ..timing.options import CompileOptions, SimulateOptions, by_call
from .flags import flagged
from .metrics import DEFAULT, UNITS, Metric, check_portable, metric_name, metrics_of
from .plan import StudyPlan, graphs_of, planned, portable, several_of
from .points import MOST_POINTS, Axes, axes_of, unit_of
from .sweep_table import Sweep
from .work import LruCache, Options, StudyWork, grouped_points, named, points_of, sent

__all__ = ["sweep"]

ATTEMPTS = 3  # most restarts of an executor whose workers died
INTERRUPTED = "failed: interrupted before it was simulated"

Progress = Callable[[int, int, str], None]


def _hashable(options: Options) -> dict[str, Any]:
    """Converts options to a part of a store key, with arrays as their elements."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(name): plain(one) for name, one in value.items()}
        if hasattr(value, "shape"):
            array = np.ascontiguousarray(value)
            return [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
        if isinstance(value, TileLatencies):
            raise user_error("a store does not support latencies", place="latencies", suggestion="Leave the store out")
        return list(value) if isinstance(value, (tuple, set)) else value

    compiled, simulated = options
    found = {"memory": simulated.get("memory")}
    return found | {name: plain(one) for part in (compiled, simulated) for name, one in part.items()}


def _metrics_key(metrics: tuple[Metric, ...]) -> list[str]:
    """Converts metrics to a part of a store key, with functions as module and name."""
    names = []
    for metric in metrics:
        own = getattr(metric, "__qualname__", "") if callable(metric) else metric
        if not own or "<" in own:
            what = "a store needs a named metric function"
            raise user_error(what, place="metrics", value=shown(metric), suggestion="Define the function with def")
        names.append(f"{getattr(metric, '__module__', '')}.{own}" if callable(metric) else str(own))
    return names


def _is_point(value: Any) -> bool:
    """Whether a stored value is an outcome of `_point`."""
    kinds: dict[str, Any] = {"cycles": int, "seconds": (int, float), "bottleneck": str, "hertz": int}
    kinds |= {"operations": list, "metrics": dict}
    if not (isinstance(value, dict) and value.keys() == kinds.keys()):
        return False
    if not all(isinstance(value[key], kind) and not isinstance(value[key], bool) for key, kind in kinds.items()):
        return False
    named = all(isinstance(one, list) and [type(part) for part in one] == [str, int] for one in value["operations"])
    plain = all(one is None or isinstance(one, (bool, int, float, str)) for one in value["metrics"].values())
    return named and plain and value["hertz"] > 0 and value["seconds"] >= 0


@checked("changes")
def sweep(
    graph: GraphLike | Sequence[GraphLike] | Mapping[str, GraphLike],
    machine: MachineLike | Sequence[MachineLike],
    changes: Mapping[Any, Any] | None = None,
    *,
    mappings: Sequence[Any] | Mapping[str, Any] | None = None,
    metrics: Any = DEFAULT,
    where: Callable[[dict[str, Any]], Any] | None = None,
    on_error: str | None = None,
    progress: Callable[[int, int, str], None] | bool | None = None,
    executor: Any = None,
    store: Store | str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    memory: str | None = None,
    **options: Any,
) -> Sweep:
    """Simulates all combinations of graphs, machines, settings and mappings, in a fixed order.

    Args:
        graph: a workload, as for `compile`, or several (a dict names them).
        machine: the base machine, or several.
        changes: setting path to its values, with unit ("900 GB/s") or as numbers in the base unit (B/s, B, Hz, s, J); a
            tuple of paths to tuples of paired values; or a path to a function that derives the value from a dict of the
            preceding settings.
        mappings: strategies or tables, as for `compile` (a dict names them); default: "profile".
        metrics: columns: cycles, seconds, milliseconds, bottleneck, bytes (off-chip), joules, watts, tops_per_watt, mm2
            (None where unknown), utilisation (of the arrays), "utilisation.memory", ..., and
            functions of the Result (at module level for processes).
        where: predicate on a row's settings; other points have status "excluded".
        on_error: "row": an illegal or failed point becomes a row with its reason; "raise": the first error is raised;
            default: "row", but raise if every point fails.
        progress: True for a bar, or a function of points done, total and remaining time as text.
        executor: any `concurrent.futures` executor, or one of `ts.executors`; default: threads.
        store: store of results, or its path; an interrupted sweep resumes from it.
        jobs: number of threads; default: one per processor.
        memory: fidelity of the memory; default: the machine's.
        options: other options of `compile` or `simulate` (fuse, contexts, tensors, resident, network, ...) for all
            points.

    Returns:
        One row per combination: graph, machine and mapping (if several), settings (numbers in base units: `.units`),
        metrics (None without a result), status ("ok", "illegal: reason", "failed: reason", "excluded") and flag (if
        more of a resource is slower). After Ctrl-C without a store, the other rows have status "failed: interrupted
        ..."; with a store, KeyboardInterrupt is raised.

    Raises:
        UserError: for an unknown setting, metric or option, an empty list, a duplicate point; as `compile` and
            `simulate`, by `on_error`.
    """
    graphs, several_graphs = graphs_of(graph)
    bases, several_machines = several_of(machine, "machine")
    machines = [Machine.load(one) for one in bases]
    if mappings is not None and not len(mappings):
        raise user_error("the list of mappings is empty", place="sweep: mappings", allowed="one or more")
    ways = list(mappings.items()) if isinstance(mappings, Mapping) else [(m, m) for m in mappings or ["profile"]]
    axes, wanted = axes_of({} if changes is None else changes), metrics_of(metrics)
    if on_error not in (None, "row", "raise"):
        raise user_error("unknown error mode", place="on_error", value=shown(on_error), allowed="row, raise")
    count = math.prod([len(graphs), len(machines), len(ways), axes.count])
    if count > MOST_POINTS:
        raise user_error("too many combinations", value=str(count), allowed=f"at most {MOST_POINTS}")
    if "mapping" in options:
        raise user_error("a sweep has no option mapping", place="mapping", suggestion="Use mappings=[...]")
    if "timeline" in options:
        raise user_error("a sweep cannot record timelines", place="timeline", suggestion="Simulate one combination")
    compiled, simulated = by_call(options, CompileOptions, SimulateOptions)
    if memory is not None:
        simulated["memory"] = memory
    columns = (several_graphs, several_machines, mappings is not None)
    plan = planned(graphs, machines, ways, axes, columns, where)
    refused = next((error for error in plan.errors if error is not None), None)
    if on_error == "raise" and refused is not None:
        raise refused
    own, kinds = [g for _, g in graphs], [portable(mapping) for _, mapping in ways]
    call = _Call(plan, own, machines, kinds, (compiled, simulated), wanted)
    call.rows, call.told = on_error != "raise", _progress(progress)
    outcomes = call.outcomes(executor, store, jobs)
    found = _table(plan, outcomes, axes, wanted, call.interrupted)
    if on_error is None and not call.interrupted and not any(row["status"] == "ok" for row in found.rows):
        first = refused or next((one["error"] for one in outcomes.values() if "error" in one), None)
        if first is not None:
            raise first
    return found


def _progress(progress: Any) -> Progress | None:
    return ProgressBar() if progress is True else progress or None


def _table(
    plan: StudyPlan, outcomes: dict[int, dict[str, Any]], axes: Axes, metrics: Sequence[Metric], cut: bool
) -> Sweep:
    """Joins rows with their metrics, status and flags."""
    names = [metric_name(metric) for metric in metrics]
    points = []
    for i, row in enumerate(plan.rows):
        outcome = outcomes.get(i, {"status": row["status"] or INTERRUPTED})
        own = outcome.get("metrics", {})
        status = row.pop("status") or outcome.get("status", "ok")
        row |= {name: own.get(name) for name in names} | {"status": status, "flag": ""}
        points.append({"same": plan.duplicates[i], "settings": plan.settings[i], "seconds": None, **outcome})
    for i, text in flagged(points, axes.paths).items():
        plan.rows[i]["flag"] = text
    units = {path: unit_of(path) for path in axes.paths} | {name: UNITS.get(name, "") for name in names}
    return Sweep(plan.rows, axes.paths, names, {name: unit for name, unit in units.items() if unit}, cut)


class _Call:
    """Runs the points of one call on an executor, with a store."""

    def __init__(
        self,
        plan: StudyPlan,
        graphs: list[Graph],
        machines: list[Machine],
        mappings: list[Any],
        options: Options,
        metrics: tuple[Metric, ...],
    ) -> None:
        self.plan, self.graphs, self.machines, self.mappings = plan, graphs, machines, mappings
        self.options, self.metrics = options, metrics
        self.rows, self.interrupted = True, False
        self.told: Progress | None = None
        self.known: dict[int, dict[str, Any]] = {}
        self.began = time.monotonic()

    def outcomes(
        self, executor: Any, store: Store | str | os.PathLike[str] | None, jobs: int | None
    ) -> dict[int, dict[str, Any]]:
        """Computes the outcomes of legal points by index."""
        kept = store if isinstance(store, Store) or store is None else Store(store)
        try:
            self._simulated(executor, kept, jobs)
        except KeyboardInterrupt:
            if kept is not None or not self.known:
                raise
            self.interrupted = True
        finally:
            if kept is not None and kept is not store:
                kept.close()
        return self.known

    def _keys(self) -> dict[int, str]:
        """Computes the store keys of legal points."""
        same = _hashable(self.options)
        if self.metrics != DEFAULT:
            same["metrics"] = _metrics_key(self.metrics)
        texts = [graph.core.to_json() for graph in self.graphs]
        return {
            i: Store.key(graph=texts[g], machine=machine.core.hash(), mapping=self.mappings[p], **same)
            for i, ((g, _, p), machine) in enumerate(zip(self.plan.duplicates, self.plan.machines, strict=True))
            if machine is not None
        }

    def _simulated(self, executor: Any, cache: Store | None, jobs: int | None) -> None:
        keys = self._keys() if cache is not None else {}
        if cache is not None:
            found = cache.get(keys.values(), _is_point)
            self.known = {i: found[key] for i, key in keys.items() if key in found}
        all_points = [i for i, machine in enumerate(self.plan.machines) if machine is not None]
        resumed = len(self.known)
        with opened(executor, jobs) as pool, tempfile.TemporaryDirectory() as folder:
            work = self._work(pool, folder)
            for attempt in range(1, ATTEMPTS + 1):
                missing = [
                    (i, self.plan.duplicates[i], self.plan.changes[i]) for i in all_points if i not in self.known
                ]
                tasks = grouped_points(missing, together=not shares_memory(pool))
                sent_ = [(work[same], [self.plan.changes[i] for i in points]) for same, points in tasks]
                try:
                    for (_, points), rows in zip(tasks, in_order(pool, points_of, sent_), strict=True):
                        self._take(dict(zip(points, rows, strict=True)), keys, cache)
                        self._tell(len(all_points), resumed)
                    break
                except concurrent.futures.BrokenExecutor:
                    if attempt == ATTEMPTS or not callable(getattr(pool, "restart", None)):
                        raise
                    pool.restart()

    def _take(self, rows: dict[int, dict[str, Any]], keys: dict[int, str], cache: Store | None) -> None:
        """Records the outcomes of one task, and stores them if a store is given."""
        self.known |= rows
        found = {keys[i]: row for i, row in rows.items() if _is_storable(row)} if cache is not None else {}
        if cache is not None and found:
            cache.put(found)

    def _work(self, pool: Any, folder: str) -> dict[tuple[int, int, int], StudyWork]:
        """Returns the work that points share, by graph, machine and mapping."""
        local, programs = shares_memory(pool), LruCache(16)
        graphs: list[Any] = list(self.graphs)
        machines: list[Any] = list(self.machines)
        if not local:
            check_portable(self.metrics)
            for i, graph in enumerate(self.graphs):
                own = os.path.join(folder, str(i))
                os.makedirs(own, exist_ok=True)
                graphs[i] = sent(graph, own)
            machines = [machine.core.to_json() for machine in self.machines]
        found = {}
        for same in set(self.plan.duplicates):
            g, m, p = same
            work = StudyWork(graphs[g], machines[m], self.mappings[p], self.options, self.metrics, self.rows)
            work.name, work.cache = (str(same), programs) if local else (named(work), None)
            found[same] = work
        return found

    def _tell(self, count: int, resumed: int) -> None:
        """Reports progress with the estimated remaining time."""
        if self.told is None:
            return
        done = len(self.known)
        spent = time.monotonic() - self.began
        left = spent / max(1, done - resumed) * (count - done)
        self.told(done, count, f"{figures.duration(left)} left" if done < count else "done")


def _is_storable(outcome: dict[str, Any]) -> bool:
    """Whether an outcome can be stored, because it is a result with finite numbers."""
    numbers = [one for one in outcome.get("metrics", {}).values() if isinstance(one, float)]
    return "status" not in outcome and all(math.isfinite(one) for one in numbers)
