"""Tunes mappings: the cost model ranks them, and simulation decides."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from .. import _core
from ..base.arguments import integer
from ..base.checked import checked
from ..base.executors import in_order, opened, shares_memory, stop
from ..base.progress import ProgressBar
from ..base.store import Store
from ..graph import Graph, nearest, user_error
from ..loading import GraphLike, as_graph
from ..lowering.profile import lowered_as
from ..machine.machine import Machine, MachineLike
from ..mapping import MappingTable, Product, VectorKernel, kernels
from ..mapping.entries import Nest
from ..memory import Part
from ..network import topology_of
from ..program.fusion import rules_text
from ..results.result import Result
from ..timing.simulate import compile, simulate
from .samplers import SAMPLERS, sampler_of
from .study import Study
from .work import travelling

__all__ = ["Study", "tune"]

BATCH = 16  # candidates between two prunings; constant, so that results do not depend on the workers
CHUNK = 4  # candidates that one task simulates
REFUSED = -1
CONFIRMED = 4  # candidates simulated again at the higher fidelity


@lru_cache(maxsize=8)
def _remote(graph: str, machine: str) -> tuple[_core.Graph, _core.Machine]:
    """Loads graph (a file or JSON) and machine in a worker process; both are cached."""
    core = _core.Graph.from_json(graph, ".", True) if graph.lstrip().startswith("{") else _core.Graph.load(graph)
    return core, _core.Machine.from_json(machine, "machine")


def _measure(
    graph: Any, machine: Any, fuse: str, memory: str, part: str, operation: str, nests: list[Nest]
) -> list[tuple[int, str]]:
    """Simulates a standalone kernel under each nest; returns cycles and "", or REFUSED and lowering's reason."""
    if isinstance(graph, str):
        graph, machine = _remote(graph, machine)
    measured: list[tuple[int, str]] = []
    options: dict[str, Any] = {"dram": Part.load(part).core} if memory == "bank" else {}
    options["topology"] = topology_of(Machine(machine))
    for nest in nests:
        try:
            program = _core.compile(graph, machine, fuse, {operation: nest}, "profile", operation)
            measured.append((int(_core.simulate(program, machine, memory, **options).cycles), ""))
        except _core.UserError as error:
            measured.append((REFUSED, str(error)))
    return measured


def _is_outcome(value: Any) -> bool:
    """Whether a stored value is an outcome of `_measure`."""
    return isinstance(value, list) and [type(part) for part in value] == [int, str]


Kernel = Product | VectorKernel


class _Tuner:
    """The state of one call of `tune`."""

    def __init__(
        self, study: Study, budget: int, fuse: str, confirm: str | None, store: Store | None, executor: Any
    ) -> None:
        self.study, self.budget, self.fuse, self.confirm, self.store = study, budget, fuse, confirm, store
        self.part = str(study.machine.get("memory.part"))
        self.executor = executor
        self.graph: Any = study.graph.core
        self.machine: Any = study.machine.core
        self.hash = study.machine.core.hash()
        self.sampler, self.seed, self.mapping = "model", 0, "profile"
        self.alone: dict[str, Nest] = {}  # best nests with one context, for kernels whose best nest has several
        self.tell: Callable[[int, str], None] = lambda done, name: None

    def measure(self, product: Kernel, nests: list[Nest], memory: str) -> list[tuple[int, str]]:
        """Returns the cycles of nests from the store or by simulation."""
        keys = [
            Store.key(operation=product.key, machine=self.hash, memory=memory, fuse=self.fuse, nest=nest)
            for nest in nests
        ]
        known = self.store.get(keys, _is_outcome) if self.store is not None else {}
        missing = [i for i, key in enumerate(keys) if key not in known]
        parts = [missing[i : i + CHUNK] for i in range(0, len(missing), CHUNK)]
        tasks = [
            (self.graph, self.machine, self.fuse, memory, self.part, product.operation, [nests[i] for i in part])
            for part in parts
        ]
        for part, outcome in zip(parts, in_order(self.executor, _measure, tasks), strict=True):
            fresh = {keys[i]: list(value) for i, value in zip(part, outcome, strict=True)}
            known.update(fresh)
            if self.store is not None:
                self.store.put(fresh)
        return [(int(known[key][0]), str(known[key][1])) for key in keys]

    def tune_kernel(self, product: Kernel, names: list[str]) -> None:
        """Tunes one distinct kernel, and updates rows and entry."""
        sampler = sampler_of(self.sampler, product, self.budget, self.seed)
        listed: list[tuple[Nest, dict[str, Any]]] = []
        best: tuple[int, Nest] | None = None
        first = 0
        while len(listed) < self.budget:
            batch = sampler.ask(min(BATCH, self.budget - len(listed)))
            if not batch:
                break
            limit = best[0] if best else None
            nests = [nest for nest, cost in batch if limit is None or cost["bound_cycles"] < limit]
            measured = dict(zip(map(_text, nests), self.measure(product, nests, self.study.fidelity), strict=True))
            outcomes: list[int | None] = []
            for rank, (nest, cost) in enumerate(batch, len(listed)):
                cycles, reason = measured.get(_text(nest), (None, "its bound exceeds the best"))
                cycles = None if cycles == REFUSED else cycles
                outcomes.append(cycles)
                self.add_row(product, rank, nest, cost, cycles, reason)
                if cycles is not None:
                    first = cycles if rank == 0 else first
                    best = (cycles, nest) if best is None or cycles < best[0] else best
            sampler.tell(outcomes)
            listed += batch
            self.tell(len(listed), product.operation)
        if best is not None and self.confirm is not None:
            first, best = self.closer(product, listed)
        if best is None:
            self.study.notes.append(f"{product.operation}: no mapping could be simulated")
            return
        for name in names:
            self.study.best.entries[name] = dict(best[1])
        if best[1].get("contexts", 1) > 1:
            rows = self.study.rows[-len(listed) :]
            one = [
                (row["cycles"], i)
                for i, (row, (nest, _)) in enumerate(zip(rows, listed, strict=True))
                if row["cycles"] is not None and nest.get("contexts", 1) == 1
            ]
            if one:
                self.alone |= {name: dict(listed[min(one)[1]][0]) for name in names}
        self.add_operation(product, len(names), first, best, sampler.lower_bound)

    def add_row(
        self, product: Kernel, rank: int, nest: Nest, cost: dict[str, Any], cycles: int | None, note: str
    ) -> None:
        """Adds a candidate to the study's table."""
        self.study.rows.append(
            {
                "operation": product.operation,
                "rank": rank,
                "modelled": cost["cycles"],
                "bound": cost["bound_cycles"],
                "cycles": cycles,
                "mapping": _described(product, nest),
                "note": note,
            }
        )

    def add_operation(
        self, product: Kernel, count: int, first: int, best: tuple[int, Nest], lower_bound: float
    ) -> None:
        """Adds a distinct kernel to the study's summary."""
        self.study.operations.append(
            {
                "operation": product.operation,
                "kind": product.kind,
                "count": count,
                "sizes": "x".join(map(str, product.sizes)),
                "default_cycles": first,
                "best_cycles": best[0],
                "gain": first / max(1, best[0]),
                "lower_bound": lower_bound,
                "gap": best[0] / lower_bound - 1 if lower_bound > 0 else 0.0,
                "mapping": _described(product, best[1]),
            }
        )

    def closer(self, product: Kernel, listed: list[tuple[Nest, dict[str, Any]]]) -> tuple[int, tuple[int, Nest]]:
        """Simulates the best few again at the higher fidelity; returns the default's cycles, and the best nest."""
        rows = self.study.rows[-len(listed) :]
        simulated = [i for i, row in enumerate(rows) if row["cycles"] is not None]
        chosen = sorted(simulated, key=lambda i: (rows[i]["cycles"], i))[:CONFIRMED]
        chosen = sorted({*chosen, *simulated[:1]})
        again = self.measure(product, [listed[i][0] for i in chosen], str(self.confirm))
        for i, (cycles, _) in zip(chosen, again, strict=True):
            rows[i]["note"] = f"{cycles} cycles with {self.confirm} memory"
        at = min(range(len(chosen)), key=lambda i: (again[i][0], i))
        return again[0][0], (again[at][0], listed[chosen[at]][0])

    def end(self) -> None:
        """Calls `finish` after an interruption, without workers and store."""
        self.executor = self.store = None
        self.machine = self.study.machine.core
        self.finish()

    def finish(self) -> None:
        """Simulates the complete graph; uses the mapping of a rule instead if it is faster."""
        study = self.study
        memory = self.confirm or study.fidelity
        baseline = simulate(compile(study.graph, study.machine, mapping=self.mapping, fuse=self.fuse), memory=memory)
        study.baseline = baseline
        tuned = self.whole_graph(memory)
        if tuned.cycles > baseline.cycles:
            study.notes.append("the tuned mappings together are slower than the default ones, which are kept")
            study.best.entries.clear()
            tuned = baseline
        profile = json.loads(study.machine.core.to_json()).get("lowering", {})
        has_profile = "product" in profile or "convolution" in profile  # without a profile, the default equals "cost"
        for rule in ("heuristic", "cost") if has_profile else ("heuristic",):
            result = simulate(compile(study.graph, study.machine, mapping=rule, fuse=self.fuse), memory=memory)
            if result.cycles >= tuned.cycles:
                continue
            study.notes.append(f'the tuned mappings together are slower than those of "{rule}", which are kept')
            chosen = kernels(study.graph, study.machine, fuse=self.fuse, mapping=rule)
            study.best.entries = {kernel.operation: dict(kernel.nest) for kernel in chosen}
            tuned = result
        study.result = tuned

    def whole_graph(self, memory: str) -> Result:
        """The graph with the tuned table. Contexts share a core's memories for the whole program, so mappings with
        several contexts are kept only if they are faster together than the best of one context."""
        study = self.study

        def timed(entries: dict[str, Nest]) -> Result | None:
            table = MappingTable(entries, source="study")
            try:
                return simulate(compile(study.graph, study.machine, mapping=table, fuse=self.fuse), memory=memory)
            except _core.UserError:
                if table.contexts == 1:
                    raise
                return None  # the program fits only with one context

        tables = [dict(study.best.entries)]
        if study.best.contexts > 1:
            several = {name: nest for name, nest in tables[0].items() if nest.get("contexts", 1) > 1}
            tables += [several, {**tables[0], **self.alone}]
        results = [timed(entries) for entries in tables]
        at = min(range(len(tables)), key=lambda i: (results[i] is None, results[i].cycles if results[i] else 0))  # type: ignore[union-attr]
        if at > 0:
            study.notes.append("some mappings were left out because contexts share the scratchpad")
        study.best.entries = tables[at]
        chosen = results[at]
        assert chosen is not None
        return chosen


def _described(kernel: Kernel, nest: Nest) -> str:
    for other in kernel.divided:
        if other.nest.get("contexts") == nest.get("contexts", 1):
            return f"{other.text(nest)} | {nest['contexts']} contexts"
    return kernel.text(nest)


def _text(nest: Nest) -> str:
    return json.dumps(nest, sort_keys=True)


def _distinct(chosen: Sequence[Kernel], notes: list[str]) -> list[tuple[Kernel, list[str]]]:
    """Groups equal kernels with their names; skips ambiguous names."""
    keys_of: dict[str, set[str]] = {}
    for product in chosen:
        keys_of.setdefault(product.operation, set()).add(product.key)
    groups: dict[str, tuple[Kernel, list[str]]] = {}
    for product in chosen:
        if len(keys_of[product.operation]) > 1:
            notes.append(f"{product.operation}: several functions use this name, so it is not tuned")
            continue
        names = groups.setdefault(product.key, (product, []))[1]
        if product.operation not in names:
            names.append(product.operation)
    return list(groups.values())


def _divide(groups: list[tuple[Kernel, list[str]]], graph: Graph, machine: Machine, fuse: str) -> None:
    """Adds to each kernel its splits over two and over all contexts of a core, if cores have several."""
    most = int(machine.get("core.contexts"))
    for count in sorted({2, most} if most > 1 else ()):
        try:
            divided = {kernel.operation: kernel for kernel in kernels(graph, machine, fuse=fuse, contexts=count)}
        except _core.UserError:
            continue  # a tile of the kernel exceeds a context's share of the scratchpad
        for kernel, _ in groups:
            other = divided.get(kernel.operation)
            if other is not None and other.kind == kernel.kind:
                kernel.divided.append(other)  # type: ignore[arg-type]


@checked()
def tune(
    graph: GraphLike,
    machine: MachineLike = "tpu-v3",
    *,
    budget: int = 64,
    executor: Any = None,
    store: Store | str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    memory: str | None = None,
    confirm: str | None = None,
    fuse: str | Sequence[str] = "all",
    mapping: str = "profile",
    lowering: str | None = None,
    progress: Callable[[int, int, str], None] | bool | None = None,
    sampler: str = "model",
    seed: int = 0,
) -> Study:
    """Finds the fastest mapping of every distinct product and vector kernel by simulating candidates.

    The cost model ranks the nests of each kernel, the best are simulated as standalone kernels, and the complete
    graph is simulated at the end. Skips candidates whose lower bound exceeds the best simulated time. The result
    does not depend on the number of workers, and is never slower than the default and the heuristic mapping. Ctrl-C
    returns the study so far; with a store, the same call resumes.

    Args:
        graph: a workload, as for `compile`, such as "matmul:M,N,K[,dtype]".
        machine: preset name, file, dict or Machine.
        budget: candidates per distinct kernel, including the default and the heuristic.
        executor: any `concurrent.futures` executor; default: threads.
        store: a Store of simulated cycles, or its path.
        jobs: number of threads; default: one per processor.
        memory: fidelity of the memory; default: the machine's.
        confirm: a higher fidelity ("bank") that decides between the best four of each kernel.
        fuse: as for `compile`.
        mapping: strategy of `compile` for the first candidates and the baseline.
        lowering: as for `compile`.
        progress: True for a bar, or a function of number of candidates done, largest number, and kernel name.
        sampler: "model" ranks candidates by modelled cycles; "random" draws them; "optuna" uses Optuna's TPE (`pip
            install 'tilesim[tune]'`). Vector kernels always use the model.
        seed: seed of "random" and "optuna".

    Returns:
        The study.

    Raises:
        UserError: for a budget below 1, an unknown sampler, or as `compile`.
    """
    budget = integer("budget", budget, 1)
    if sampler not in SAMPLERS:
        raise user_error(
            "unknown sampler", value=f"'{sampler}'", allowed=", ".join(SAMPLERS), suggestion=nearest(sampler, SAMPLERS)
        )
    target, fuse = lowered_as(Machine.load(machine), lowering), rules_text(fuse)
    workload = as_graph(graph)
    for fidelity in (memory, confirm):
        if fidelity not in (None, "ideal", "simple", "bank"):
            raise user_error("unknown memory fidelity", value=f"'{fidelity}'", allowed="ideal, simple, bank")
        if fidelity == "bank" and not target.get("memory.part"):
            raise user_error("bank memory needs a DRAM part", place="memory.part", value=target.name)
    study = Study(workload, target, memory or str(target.get("memory.kind")))
    kept = store if isinstance(store, Store) or store is None else Store(store)
    groups = _distinct(kernels(workload, target, fuse=fuse, mapping=mapping), study.notes)
    _divide(groups, workload, target, fuse)
    bar = ProgressBar() if progress is True else progress or None
    try:
        with opened(executor, jobs) as pool, tempfile.TemporaryDirectory() as folder:
            tuner = _Tuner(study, budget, fuse, confirm, kept, pool)
            tuner.sampler, tuner.seed, tuner.mapping = sampler, seed, mapping
            if not shares_memory(pool):
                tuner.machine = target.core.to_json()
                tuner.graph = travelling(workload, folder)
            try:
                _tune_all(tuner, groups, bar)
                tuner.machine = target.core
                tuner.finish()
            except KeyboardInterrupt:
                study.leave(tuner.end)
                stop(pool)
                return study
            if bar:
                bar(budget * len(groups), budget * len(groups), "")
    finally:
        if kept is not None and kept is not store:
            kept.close()
    return study


def _tune_all(
    tuner: _Tuner, groups: list[tuple[Kernel, list[str]]], bar: Callable[[int, int, str], None] | None
) -> None:
    """Tunes all groups in order."""
    for index, (product, names) in enumerate(groups):
        if bar:
            total, before = tuner.budget * len(groups), tuner.budget * index
            bar(before, total, product.operation)
            tuner.tell = lambda done, name, before=before, total=total: bar(before + done, total, name)  # type: ignore[misc]
        tuner.tune_kernel(product, names)


def tuned_nests(graph: Graph, machine: Machine, fuse: str) -> MappingTable:
    """Tunes mappings for `compile(mapping="tuned")`."""
    return tune(graph, machine, budget=16, fuse=fuse).best
