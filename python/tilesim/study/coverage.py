"""Lists the model that simulates each operation of a graph, with shares of work and time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from ..base.checked import checked, checked_class
from ..base.table import Tabled
from ..graph import Graph
from ..loading import GraphLike, as_graph
from ..lowering.placer import prefixes
from ..machine.machine import MachineLike
from ..program.mixed import MixedProgram
from ..program.program import Program
from ..results.result import Result, Table
from ..timing.options import CompileOptions, SimulateOptions, by_call
from ..timing.simulate import compile, simulate, with_network

__all__ = ["Attribution", "Coverage", "Key", "coverage", "runs_of"]

Key = tuple[str, str]  # (function, operation)

#: kinds of operations that only move bytes
MOVES = frozenset(row["name"] for row in _core.kinds() if row["movement"])
ORDER = ("array", "vector unit", "copy", "host", "link", "view", "weight")


def runs_of(graph: Graph) -> dict[str, int]:
    """Counts the runs of each function."""
    runs = {name: 0 for name in graph.functions}

    def visit(name: str, times: int) -> None:
        runs[name] += times
        for op in graph.operations(name):
            for callee in op["functions"]:
                visit(callee, times)

    visit(graph.core.main, 1)
    return runs


@dataclass
class Attribution:
    """Kernels and cycles of a result by graph operation."""

    #: operation -> cycles of its kernels
    cycles: dict[Key, int] = field(default_factory=dict)
    #: operation -> names of its kernels
    kernels: dict[Key, list[str]] = field(default_factory=dict)
    #: operations that share a kernel with array products
    on_array: set[Key] = field(default_factory=set)
    #: rows without a graph operation: transfers over the link
    others: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, graph: Graph, program: Program, result: Result) -> Attribution:
        """Attributes kernels to operations by name."""
        names = {name: {op["name"] for op in graph.operations(name)} for name in graph.functions}
        main, found = graph.core.main, cls()
        places: dict[tuple[str, tuple[str, ...]], deque[str]] = {}
        for function, kernel, operations in _scopes(program, main):
            places.setdefault((kernel, operations), deque()).append(function)
        for row in result.data["operations"]:
            left = places.get((row["name"], tuple(row["operation"])))
            function = left.popleft() if left else main
            pieces = [resolved(name, names[function]) for name in row["operation"]]
            owner = resolved(row["name"], names[function]) or next((p for p in reversed(pieces) if p), "")
            if row["bound"] == "link" or not owner:
                found.others.append(row)
                continue
            key = function, owner
            found.cycles[key] = found.cycles.get(key, 0) + row["exclusive"]
            for piece in dict.fromkeys([*pieces, owner]):
                if piece:
                    found.kernels.setdefault((function, piece), []).append(row["name"])
                    if row["multiply_adds"] > 0:
                        found.on_array.add((function, piece))
        return found


def resolved(name: str, known: set[str]) -> str:
    """Returns the operation from whose name lowering derived `name`; "" if unknown."""
    return next((prefix for prefix in prefixes(name) if prefix in known), "")


def _scopes(program: Program, main: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yields function, kernel and operations of every kernel of a program."""
    parts = [t.program for t in program.turns if t.program] if isinstance(program, MixedProgram) else [program]
    for part in parts:
        for function, kernel, operations in part.kernels:
            yield function or main, kernel, operations


@checked_class()
class Coverage(Tabled):
    """The model of each operation, with its shares of FLOPs, bytes and time."""

    def __init__(self, rows: list[dict[str, Any]], result: Result) -> None:
        """Stores the rows; `coverage` calls this."""
        self.rows, self.result = rows, result

    @property
    def unsupported(self) -> list[str]:
        """Operations that the machine cannot run, with reasons; the host runs these."""
        rows = [row for row in self.rows if row["on"] == "host" and row["lacking"]]
        return [f"{row['operation']} ({row['kind']}): {row['reason']}" for row in rows]

    def table(self) -> Table:
        """Tabulates the operations, longest first.

        Returns:
            Rows with operation, function, kind, runs, on (array, vector unit, copy, host, link, view, weight), kernel
            (to which its time belongs), reason, lacking (whether the machine cannot run it), flops, bytes (compulsory),
            cycles, and fractions of total flops, bytes and cycles.
        """
        return Table(sorted(self.rows, key=lambda row: (-row["cycles"], -row["flops"])))

    def summary(self) -> Table:
        """Tabulates the shares of each model.

        Returns:
            Rows with on, operations (number), and fractions of FLOPs, bytes and time.
        """
        rows = []
        for on in ORDER:
            own = [row for row in self.rows if row["on"] == on]
            if own:
                shares = {key: sum(row[key] for row in own) for key in ("flops_share", "bytes_share", "time_share")}
                rows.append({"on": on, "operations": len(own), **shares})
        return Table(rows)

    def __repr__(self) -> str:
        """The summary and the unsupported operations."""
        lines = [self.result.summary(), str(self.summary())]
        return "\n".join(lines + [f"unsupported: {line}" for line in self.unsupported])


def _row(
    key: Key, op: Mapping[str, Any], runs: int, attribution: Attribution, reason: Mapping[str, str]
) -> dict[str, Any]:
    flops = sum(op["flops"].values()) * runs
    kernels = attribution.kernels.get(key, [])
    if op["name"] in reason:
        on = "host"
    elif op["kind"] == "constant":
        on = "weight"
    elif not kernels:
        on = "view"
    elif op["flops"]["matrix"] > 0 and key in attribution.on_array:
        on = "array"
    elif op["kind"] in MOVES:
        on = "copy"
    else:
        on = "vector unit"
    return {
        "operation": op["name"],
        "function": key[0],
        "kind": op["kind"],
        "runs": runs,
        "on": on,
        "kernel": ", ".join(dict.fromkeys(kernels)),
        "reason": reason.get(op["name"], ""),
        "flops": flops,
        "bytes": 0 if on in ("view", "weight") else op["bytes"] * runs,
        "cycles": attribution.cycles.get(key, 0),
    }


@checked()
def coverage(graph: GraphLike, machine: MachineLike = "tpu-v3", **options: Any) -> Coverage:
    """Reports how each operation is modelled on a machine, including unsupported ones.

    Args:
        graph: a workload, as for `compile`.
        machine: preset name, file, dict or Machine.
        options: options of `compile` (mapping, lowering, ...) or `simulate` (memory, ...).

    Returns:
        The coverage; unsupported operations run on the host.

    Raises:
        UserError: when no tile of an operation fits the scratchpad; for an unknown option.
    """
    graph, (compiled, simulated) = as_graph(graph), by_call(options, CompileOptions, SimulateOptions)
    program = compile(graph, with_network(machine, simulated.get("network")), **{"fallback": "host", **compiled})
    result = simulate(program, **simulated)
    reason: dict[str, str] = {}
    lacking: set[str] = set()
    if isinstance(program, MixedProgram) and program.graph is not None:
        graph = program.graph
        there = [row for row in program.placement.rows if row["where"] == "host"]
        reason = {row["operation"]: row["reason"] for row in there}
        lacking = {row["operation"] for row in there if row["machine_picoseconds"] is None}
    found = Attribution.of(graph, program, result)
    runs = runs_of(graph)
    rows = []
    for function in graph.functions:
        for op in graph.operations(function):
            if runs[function] and op["kind"] != "call":
                reasons = reason if function == graph.core.main else {}
                rows.append(_row((function, op["name"]), op, runs[function], found, reasons))
                rows[-1]["lacking"] = function == graph.core.main and op["name"] in lacking
    rows += [_transfer(row) for row in found.others]
    for key, share in (("flops", "flops_share"), ("bytes", "bytes_share"), ("cycles", "time_share")):
        total = sum(row[key] for row in rows if key != "bytes" or row["on"] != "link")
        for row in rows:
            row[share] = row[key] / total if total and (key != "bytes" or row["on"] != "link") else 0.0
    return Coverage(rows, result)


def _transfer(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "operation": row["name"],
        "function": "",
        "kind": "transfer",
        "runs": row["count"],
        "on": "link",
        "kernel": row["name"],
        "reason": "",
        "lacking": False,
        "flops": 0.0,
        "bytes": row["load_bytes"] + row["store_bytes"],
        "cycles": row["exclusive"],
    }
