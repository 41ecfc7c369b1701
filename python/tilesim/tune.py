"""Tuning: the cost model ranks mappings, the engine decides."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from . import _core, workloads
from ._executors import in_order, opened, shares_memory
from .api import compile, simulate
from .graph import Graph, user_error
from .machine import Machine, MachineLike
from .mapping import MappingTable, Nest, Product, products
from .memory import Part
from .network import topology_of
from .program import Program
from .result import Result, Table
from .store import Store
from .sweep import travelling

__all__ = ["Study", "tune"]

BATCH = 16  # candidates between two prunings: fixed, so that any number of workers prunes alike
CHUNK = 4  # candidates per task
REFUSED = -1
CONFIRMED = 4  # candidates simulated again at the closer fidelity


class Study:
    """What tuning found: `best` (a table that `compile` takes), `result`, and every candidate in `rows`."""

    def __init__(self, graph: Graph, machine: Machine, fidelity: str) -> None:
        """An empty study; use `tune`.

        Args:
            graph: the workload.
            machine: the target.
            fidelity: of the engine's memory.
        """
        self.graph, self.machine, self.fidelity = graph, machine, fidelity
        self.best: MappingTable = MappingTable(source="study")
        self.result: Result | None = None
        self.baseline: Result | None = None
        self.rows: list[dict[str, Any]] = []
        self.operations: list[dict[str, Any]] = []
        self.interrupted = False
        self.notes: list[str] = []

    @property
    def gain(self) -> float:
        """Ratio of the heuristic's cycles to the best ones; 1.0 until both are known."""
        if self.result is None or self.baseline is None:
            return 1.0
        return self.baseline.cycles / max(1, self.result.cycles)

    def table(self) -> Table:
        """One row per candidate: operation, rank by the cost model, modelled and simulated cycles, mapping.

        Returns:
            The rows; `cycles` is none for a candidate that a bound ruled out.
        """
        return Table(self.rows)

    def summary(self) -> Table:
        """One row per distinct operation: how often it occurs, cycles of the heuristic and of the best mapping.

        Returns:
            The rows; `gap` is the distance of the best mapping from the model's lower bound, as a ratio.
        """
        return Table(self.operations)

    def plot(self) -> Any:
        """Modelled against simulated cycles of every candidate.

        Returns:
            A matplotlib figure.

        Raises:
            ImportError: without matplotlib (`pip install 'tilesim[notebook]'`).
        """
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5, 4))
        for operation in dict.fromkeys(row["operation"] for row in self.rows):
            rows = [row for row in self.rows if row["operation"] == operation and row["cycles"] is not None]
            axes.loglog([row["cycles"] for row in rows], [row["modelled"] for row in rows], "o", label=operation, ms=4)
        axes.set_xlabel("simulated cycles")
        axes.set_ylabel("modelled cycles")
        if len(self.operations) <= 8:
            axes.legend(fontsize=7)
        figure.tight_layout()
        return figure

    def __repr__(self) -> str:
        """Gain and counts."""
        simulated = sum(row["cycles"] is not None for row in self.rows)
        state = ", interrupted" if self.interrupted else ""
        return (
            f"<Study {self.graph.core.name} on {self.machine.name}: {self.gain:.3f} times as fast as the heuristic, "
            f"{simulated} of {len(self.rows)} candidates simulated ({self.fidelity} memory){state}>"
        )


@lru_cache(maxsize=8)
def _remote(graph: str, machine: str) -> tuple[_core.Graph, _core.Machine]:
    """Graph (a file, or JSON) and machine as a worker process builds them, once."""
    core = _core.Graph.from_json(graph, "graph") if graph.lstrip().startswith("{") else _core.Graph.load(graph)
    return core, _core.Machine.from_json(machine, "machine")


def _measure(
    graph: Any, machine: Any, fuse: str, memory: str, part: str, operation: str, nests: list[Nest]
) -> list[tuple[int, str]]:
    """Cycles of one product alone under each nest; REFUSED and the reason where lowering cannot use it."""
    if isinstance(graph, str):
        graph, machine = _remote(graph, machine)
    measured: list[tuple[int, str]] = []
    options: dict[str, Any] = {"dram": Part.load(part).core} if memory == "bank" else {}
    options["topology"] = topology_of(Machine(machine))
    for nest in nests:
        try:
            program = _core.compile(graph, machine, fuse, {operation: nest}, "heuristic", operation)
            measured.append((int(_core.simulate(program, machine, memory, **options).cycles), ""))
        except _core.UserError as error:
            measured.append((REFUSED, str(error)))
    return measured


class _Tuner:
    """One call of `tune`."""

    def __init__(
        self, study: Study, budget: int, fuse: str, confirm: str | None, store: Store | None, executor: Any
    ) -> None:
        self.study, self.budget, self.fuse, self.confirm, self.store = study, budget, fuse, confirm, store
        self.part = str(study.machine.get("memory.part"))
        self.executor = executor
        self.graph: Any = study.graph.core
        self.machine: Any = study.machine.core
        self.hash = study.machine.core.hash()

    def measure(self, product: Product, nests: list[Nest], memory: str) -> list[tuple[int, str]]:
        """Simulated cycles, from the store where it knows them."""
        keys = [
            Store.key(operation=product.key, machine=self.hash, memory=memory, fuse=self.fuse, nest=nest)
            for nest in nests
        ]
        known = self.store.get(keys) if self.store is not None else {}
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

    def candidates(self, product: Product) -> tuple[list[tuple[Nest, dict[str, Any]]], dict[str, Any]]:
        """The heuristic's nest, then the best by the cost model."""
        found = product.problem.search(max(1, self.budget - 1))
        listed = [(product.nest, product.cost())]
        listed += [(nest, cost) for nest, cost in found["best"] if nest != product.nest]
        return listed[: self.budget], found

    def one(self, product: Product, names: list[str]) -> None:
        """Tunes one distinct product; rows and the entry appear as soon as they are known."""
        listed, found = self.candidates(product)
        best: tuple[int, Nest] | None = None
        first = 0
        for begin in range(0, len(listed), BATCH):
            batch = listed[begin : begin + BATCH]
            limit = best[0] if best else None
            wanted = [(nest, cost) for nest, cost in batch if limit is None or cost["bound_cycles"] < limit]
            nests = [nest for nest, _ in wanted]
            measured = dict(zip(map(_text, nests), self.measure(product, nests, self.study.fidelity), strict=True))
            for rank, (nest, cost) in enumerate(batch, begin):
                cycles, reason = measured.get(_text(nest), (None, "its bound is above the best"))
                self.study.rows.append(
                    {
                        "operation": product.operation,
                        "rank": rank,
                        "modelled": cost["cycles"],
                        "bound": cost["bound_cycles"],
                        "cycles": None if cycles == REFUSED else cycles,
                        "mapping": product.text(nest),
                        "note": reason,
                    }
                )
                if cycles is None or cycles == REFUSED:
                    continue
                if rank == 0:
                    first = cycles
                if best is None or cycles < best[0]:
                    best = (cycles, nest)
        if best is not None and self.confirm is not None:
            first, best = self.closer(product, listed)
        if best is None:
            self.study.notes.append(f"{product.operation}: no mapping could be simulated")
            return
        for name in names:
            self.study.best.entries[name] = dict(best[1])
        self.study.operations.append(
            {
                "operation": product.operation,
                "count": len(names),
                "sizes": "x".join(map(str, product.sizes)),
                "heuristic_cycles": first,
                "best_cycles": best[0],
                "gain": first / max(1, best[0]),
                "lower_bound": found["lower_bound"],
                "gap": best[0] / found["lower_bound"] - 1 if found["lower_bound"] > 0 else 0.0,
                "mapping": product.text(best[1]),
            }
        )

    def closer(self, product: Product, listed: list[tuple[Nest, dict[str, Any]]]) -> tuple[int, tuple[int, Nest]]:
        """The heuristic's cycles and the best nest at the closer fidelity: the best few are simulated again."""
        rows = self.study.rows[-len(listed) :]
        simulated = [i for i, row in enumerate(rows) if row["cycles"] is not None]
        chosen = sorted(simulated, key=lambda i: (rows[i]["cycles"], i))[:CONFIRMED]
        chosen = sorted({*chosen, *simulated[:1]})
        again = self.measure(product, [listed[i][0] for i in chosen], str(self.confirm))
        for i, (cycles, _) in zip(chosen, again, strict=True):
            rows[i]["note"] = f"{cycles} cycles with {self.confirm} memory"
        at = min(range(len(chosen)), key=lambda i: (again[i][0], i))
        return again[0][0], (again[at][0], listed[chosen[at]][0])

    def finish(self) -> None:
        """Simulates the whole graph both ways; keeps the heuristic where the table does not help."""
        study = self.study
        core = _core.compile(study.graph.core, self.machine, self.fuse)
        memory = self.confirm or study.fidelity
        study.baseline = simulate(Program(core, study.graph, study.machine), memory=memory)
        tuned = simulate(compile(study.graph, study.machine, mapping=study.best, fuse=self.fuse), memory=memory)
        if tuned.cycles > study.baseline.cycles:
            study.notes.append("together the tuned mappings are slower than the heuristic's: kept those")
            study.best.entries.clear()
            tuned = study.baseline
        study.result = tuned


def _text(nest: Nest) -> str:
    return json.dumps(nest, sort_keys=True)


def _distinct(chosen: list[Product], notes: list[str]) -> list[tuple[Product, list[str]]]:
    """Products by what decides their mapping; a name that means different products is left alone."""
    keys_of: dict[str, set[str]] = {}
    for product in chosen:
        keys_of.setdefault(product.operation, set()).add(product.key)
    groups: dict[str, tuple[Product, list[str]]] = {}
    for product in chosen:
        if len(keys_of[product.operation]) > 1:
            notes.append(f"{product.operation}: the name occurs in several functions and is not tuned")
            continue
        names = groups.setdefault(product.key, (product, []))[1]
        if product.operation not in names:
            names.append(product.operation)
    return list(groups.values())


def graph_of(what: Graph | str) -> Graph:
    """A graph, or the product that "matmul:M,N,K[,dtype]" names.

    Args:
        what: the workload.

    Returns:
        The graph.

    Raises:
        UserError: for another text.
    """
    if isinstance(what, Graph):
        return what
    kind, _, sizes = what.partition(":")
    parts = [part.strip() for part in sizes.split(",")]
    numbers = parts[:3]
    if kind != "matmul" or len(parts) not in (3, 4) or not all(part.isdecimal() for part in numbers):
        raise user_error("cannot read the operation", value=f"'{what}'", allowed="matmul:M,N,K or matmul:M,N,K,dtype")
    m, n, k = map(int, numbers)
    return workloads.matmul(m, n, k, dtype=parts[3] if len(parts) == 4 else "f32")


def tune(
    graph: Graph | str,
    machine: MachineLike = "tpu-v3",
    budget: int = 64,
    executor: Any = None,
    store: Store | str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    memory: str | None = None,
    confirm: str | None = None,
    fuse: str = "all",
    progress: Callable[[int, int, str], None] | None = None,
) -> Study:
    """Finds the fastest mapping of every distinct product by simulating candidates.

    The cost model ranks the nests of each product, the engine simulates the best ones (the product alone), and the
    whole graph is simulated at the end. Candidates whose lower bound exceeds the best simulated time are passed over;
    no wall time enters, so that the result is the same for any number of workers. It is never slower than the
    heuristic. Ctrl-C returns the best so far; with a store, the same call resumes.

    Args:
        graph: the workload, or "matmul:M,N,K[,dtype]".
        machine: preset name, file, dict or Machine.
        budget: candidates per distinct product, the heuristic's included.
        executor: any `concurrent.futures` executor; none: threads.
        store: of simulated cycles, or its path; none: nothing is kept.
        jobs: number of threads; none: one per processor.
        memory: fidelity of the memory; none: what the machine says.
        confirm: a closer fidelity ("bank"): the best four of each product are simulated again with it, and it decides.
        fuse: as for `compile`.
        progress: called with products done, products in all, and the name of the next.

    Returns:
        The study.

    Raises:
        UserError: for a budget below 1, or as `compile`.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise user_error("a budget is a number of candidates", value=repr(budget), allowed="1 or more")
    if jobs is not None and jobs < 1:
        raise user_error("a number of jobs", value=str(jobs), allowed="1 or more")
    target = Machine.load(machine)
    workload = graph_of(graph)
    for fidelity in (memory, confirm):
        if fidelity not in (None, "ideal", "simple", "bank"):
            raise user_error("unknown memory fidelity", value=f"'{fidelity}'", allowed="ideal, simple, bank")
        if fidelity == "bank" and not target.get("memory.part"):
            raise user_error("memory of fidelity bank needs a DRAM part", place="memory.part", value=target.name)
    study = Study(workload, target, memory or str(target.get("memory.kind")))
    kept = store if isinstance(store, Store) or store is None else Store(store)
    groups = _distinct(products(workload, target, fuse), study.notes)
    try:
        with opened(executor, jobs) as pool, tempfile.TemporaryDirectory() as folder:
            tuner = _Tuner(study, budget, fuse, confirm, kept, pool)
            if not shares_memory(pool):
                tuner.machine = target.core.to_json()
                tuner.graph = travelling(workload, folder)
            try:
                for done, (product, names) in enumerate(groups):
                    if progress:
                        progress(done, len(groups), product.operation)
                    tuner.one(product, names)
            except KeyboardInterrupt:
                study.interrupted = True
            tuner.machine = target.core
            tuner.finish()
            if progress:
                progress(len(groups), len(groups), "")
    finally:
        if kept is not None and kept is not store:
            kept.close()
    return study
