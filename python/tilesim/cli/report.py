"""The commands `coverage` and `profile`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..base.columns import ROWS, cut, folded, layout, name, number, percent
from ..base.figures import digits
from ..base.screen import Line, wrapped
from ..study.coverage import Coverage
from ..study.coverage import coverage as covered
from ..study.profiler import OperationTimes
from ..study.profiler import profile as profiled
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from .load import graph_of, machine_of, write
from .options import OUTPUT, ExcludedOptions, Model, Only, Shared, Target
from .screen import say
from .show import step

SHARES = {"FLOPs": "flops_share", "bytes": "bytes_share", "time": "time_share"}


def _shares(row: dict[str, Any]) -> list[str]:
    return [percent(row[key]) for key in SHARES.values()]


def _time(row: dict[str, Any]) -> str:
    """Returns the time share in percent; "fused" for an operation whose time its kernel reports."""
    return percent(row["time_share"]) if row["cycles"] else "fused" if row["kernel"] else "–"


def _merged(rows: list[dict[str, Any]], sums: tuple[str, ...], *more: str) -> list[dict[str, Any]]:
    """Folds repeated layers; fused rows are folded only with fused rows."""
    marked = [{**row, "apart": (bool(row[sums[0]]), bool(row["kernel"]))} for row in rows]
    return folded(marked, sums, alike=("kind", "apart", *more))


def coverage(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    compiling: Annotated[CompileOptions, ExcludedOptions("fallback")],
    simulating: SimulateOptions,
    out: Shared,
) -> None:
    with step("compiling and simulating"):
        graph = graph_of(model, work)
        found = covered(graph, machine_of(on, graph), **compiling.given(), **simulating.given())
    if out.json:
        write({"operations": found.table().rows, "summary": found.summary().rows}, out.json)
    if not out.silent:
        _say_coverage(found, out.all)


def _say_coverage(found: Coverage, everything: bool) -> None:
    lines: list[Line | str] = [*wrapped(found.result.summary(), hang="  "), ""]
    heads = [number(f"{title}, %") for title in SHARES]
    cells = [[row["on"], str(row["operations"]), *_shares(row)] for row in found.summary().rows]
    lines += [*layout([name("modelled as"), number("operations", 1), *heads], cells), ""]
    rows = [row for row in found.table().rows if row["on"] not in ("view", "weight")]
    if not everything:
        rows = _merged(rows, ("cycles", *SHARES.values()), "on")
        rows.sort(key=lambda row: -row["time_share"])
    cells = [
        [row["operation"], row["kind"], row["on"], *_shares(row)[:2], _time(row)]
        for row in rows[: None if everything else ROWS]
    ]
    columns = [name("operation"), name("kind", 2, 8), name("modelled as", 1), *heads]
    lines += [*layout(columns, cells), *cut(rows, everything)]
    where = f"unsupported on {found.result.data['machine']}, run on the host: "
    say([*lines, *(part for line in found.unsupported for part in wrapped(where + line, hang="  "))])


def profile(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    runs: Annotated[
        int, typer.Option(min=1, help="Runs of the reference kernels; the fastest is used.", rich_help_panel=OUTPUT)
    ] = 3,
    *,
    drawn: Annotated[SimulateOptions, Only("seed")],
    out: Shared,
) -> None:
    with step("running and simulating"):
        graph = graph_of(model, work)
        found = profiled(graph, None, machine_of(on, graph), seed=drawn.seed, runs=runs)
    if out.json:
        write({"operations": found.table().rows, "totals": found.totals()}, out.json)
    if not out.silent:
        _say_profile(found, out.all)


def _say_profile(operation_times: OperationTimes, everything: bool) -> None:
    rows = operation_times.table().rows
    totals = operation_times.totals()
    times = ("reference_ms", "simulated_ms")
    if not everything:
        rows = _merged(rows, ("simulated_ms", "reference_ms", "calls"))
        rows.sort(key=lambda row: -row["reference_ms"])
    columns = [name("operation"), name("kind", 2, 8), number("calls", 1), number("here, ms")]
    columns.append(number(f"{operation_times.result.data['machine']}, ms"))
    cells = [
        [
            row["operation"],
            row["kind"],
            f"{row['calls']:,}",
            digits(row["reference_ms"]),
            digits(row["simulated_ms"]) if row["simulated_ms"] else "fused" if row["kernel"] else "–",
        ]
        for row in rows[: None if everything else ROWS]
    ]
    cells.append(["all", "", "", *(digits(totals.get(key, 0)) for key in times)])
    say([*layout(columns, cells), *cut(rows, everything)])
