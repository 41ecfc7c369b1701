"""Measures each operation's time in reference kernels and torch, and simulates it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from ..base.checked import checked, checked_class
from ..base.table import Tabled
from ..frontends.torch.entry import is_module
from ..graph import Graph, user_error
from ..loading import as_graph
from ..machine.machine import MachineLike
from ..program.mixed import MixedProgram
from ..results.result import Result, Table
from ..timing.execution import inputs_of
from ..timing.simulate import compile, simulate
from .coverage import Attribution, resolved, runs_of

__all__ = ["OperationTimes", "profile"]


@checked_class()
class OperationTimes(Tabled):
    """Measured times on this computer and simulated times on a machine, per operation."""

    def __init__(self, rows: list[dict[str, Any]], result: Result) -> None:
        """Stores the rows; `profile` calls this."""
        self.rows, self.result = rows, result

    def table(self) -> Table:
        """Tabulates the operations, longest simulated time first.

        Returns:
            Rows with operation, function, kind, calls, reference_ms (the reference kernels on this computer), torch_ms
            (eager torch, for a module), simulated_ms (0 for operations fused into another's kernel) and kernel;
            milliseconds of all calls together.
        """
        return Table(sorted(self.rows, key=lambda row: (-row["simulated_ms"], -row["reference_ms"])))

    def totals(self) -> dict[str, float]:
        """Sums the columns.

        Returns:
            Milliseconds by column; those of torch include work between operations.
        """
        keys = [key for key in ("reference_ms", "torch_ms", "simulated_ms") if self.rows and key in self.rows[0]]
        return {key: sum(row[key] for row in self.rows) for key in keys}

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame.

        Returns:
            A DataFrame with one row per operation.

        Raises:
            ImportError: without pandas.
        """
        return self.table().to_pandas()

    def __repr__(self) -> str:
        """The totals and the table."""
        totals = ", ".join(f"{key.removesuffix('_ms')} {value:.4g} ms" for key, value in self.totals().items())
        return f"{totals} on {self.result.data['machine']}\n{self.table()}"


@checked()
def profile(
    model: Any,
    inputs: Any = None,
    machine: MachineLike = "tpu-v3",
    *,
    seed: int = 0,
    runs: int = 3,
    fallback: str = "host",
) -> OperationTimes:
    """Times a model's operations on this computer, and simulates them on a machine.

    Args:
        model: a torch.nn.Module (which is also timed in eager torch, with `inputs` as arguments), or a graph as for
            `compile`.
        inputs: inputs as for `execute`; random by default for a graph.
        machine: preset name, file, dict or Machine.
        seed: seed of random inputs.
        runs: number of runs of each execution, of which the fastest counts.
        fallback: as for `compile`.

    Returns:
        The times.

    Raises:
        UserError: for a wrong input or number of runs.
        Unsupported: as `compile`, with fallback "error".
    """
    if runs < 1:
        raise user_error("the number of runs must be positive", value=str(runs), allowed="at least 1")
    eager: dict[str, float] | None = None
    graph = model
    if is_module(model):
        from ..frontends.torch.profile import exported, seconds_by_name

        program, graph = exported(model, inputs)
        eager = seconds_by_name(program, inputs, runs)
    else:
        graph = as_graph(model)
    compiled = compile(graph, machine, fallback=fallback)
    result = simulate(compiled)
    if isinstance(compiled, MixedProgram) and compiled.graph is not None:
        graph = compiled.graph
    found = Attribution.of(graph, compiled, result)
    measured = _core.time_operations(graph.core, inputs_of(graph, inputs, seed), runs)
    rows = _rows(graph, measured, found, result)
    if eager is not None:
        rows = _by_module(rows, eager)
    return OperationTimes(rows, result)


def _rows(
    graph: Graph, measured: list[dict[str, Any]], attribution: Attribution, result: Result
) -> list[dict[str, Any]]:
    calls, scale = runs_of(graph), 1e3 / result.data["hertz"]
    rows = []
    for row in measured:
        if row["kind"] in ("constant", "call"):
            continue
        key = row["function"], row["operation"]
        rows.append(
            {
                "operation": row["operation"],
                "function": row["function"],
                "kind": row["kind"],
                "calls": calls.get(row["function"], 1),
                "reference_ms": row["seconds"] * 1e3,
                "simulated_ms": attribution.cycles.get(key, 0) * scale,
                "kernel": ", ".join(dict.fromkeys(attribution.kernels.get(key, []))),
            }
        )
    rows += [
        {
            "operation": row["name"],
            "function": "",
            "kind": "transfer",
            "calls": row["count"],
            "reference_ms": 0.0,
            "simulated_ms": row["exclusive"] * scale,
            "kernel": row["name"],
        }
        for row in attribution.others
    ]
    return rows


def _by_module(rows: list[dict[str, Any]], eager: Mapping[str, float]) -> list[dict[str, Any]]:
    """Merges the rows that belong to one torch operation."""
    together: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = resolved(row["operation"], set(eager)) or row["operation"]
        known = together.get(name)
        if known is None:
            start = {key: value for key, value in row.items() if key != "kernel"}
            torch_ms = eager.get(name, 0.0) * 1e3
            together[name] = {**start, "operation": name, "torch_ms": torch_ms, "kernel": row["kernel"]}
            continue
        known["reference_ms"] += row["reference_ms"]
        known["simulated_ms"] += row["simulated_ms"]
        for key, mark in (("kind", "+"), ("kernel", ", ")):
            parts = [part for part in dict.fromkeys([*known[key].split(mark), *row[key].split(mark)]) if part]
            known[key] = mark.join(parts)
    return list(together.values())
