"""Commands about single operations: coverage and profile."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..study.coverage import coverage
from ..study.profiler import profile
from .load import WHAT, load_graph, write
from .show import ROWS, clipped, columns, step

__all__ = ["register"]

_Model = Annotated[str, typer.Argument(help=WHAT)]
_Machine = Annotated[str, typer.Option(help="Preset or file.")]
_Batch = Annotated[int, typer.Option(min=1, help="Images, sequences, or products.")]
_Context = Annotated[int | None, typer.Option(min=1, help="Tokens, for networks that read text.")]
_Phase = Annotated[str | None, typer.Option(help="prefill or decode, for networks that write text.")]
_Json = Annotated[str | None, typer.Option("--json", help="Write the rows; - for standard output.")]
_All = Annotated[bool, typer.Option("--all", help="Show every operation.")]


SHARES = {"FLOPs": "flops_share", "bytes": "bytes_share", "time": "time_share"}


def _shares(row: dict[str, Any]) -> list[str]:
    return [f"{row[key]:.1%}" for key in SHARES.values()]


def _time(row: dict[str, Any]) -> str:
    """The time of what is fused is counted at the operation that its kernel is named after."""
    return f"{row['time_share']:.1%}" if row["cycles"] else "fused" if row["kernel"] else "-"


def _cut(rows: list[Any], everything: bool) -> list[str]:
    left = len(rows) - ROWS
    return [f"... and {left} more operations (--all)"] if left > 0 and not everything else []


def coverage_command(
    model: _Model,
    machine: _Machine = "tpu-v3",
    batch: _Batch = 1,
    context: _Context = None,
    phase: _Phase = None,
    json_: _Json = None,
    everything: _All = False,
) -> None:
    """How each operation is modelled (array, vector unit, copy, host, unsupported); shares of FLOPs, bytes, time."""
    with step("compiling and simulating"):
        found = coverage(load_graph(model, batch, context, phase), machine)
    if json_:
        write({"operations": found.table().rows, "summary": found.summary().rows}, json_)
    if json_ == "-":
        return
    typer.echo(found.result.summary() + "\n")
    head = ["modelled as", "operations", *SHARES]
    cells = [[row["on"], str(row["operations"]), *_shares(row)] for row in found.summary().rows]
    typer.echo("\n".join(columns([head, *cells])) + "\n")
    rows = [row for row in found.table().rows if row["on"] not in ("view", "weight")]
    head = ["operation", "kind", "modelled as", *SHARES]
    cells = [
        [clipped(row["operation"]), row["kind"], row["on"], *_shares(row)[:2], _time(row)]
        for row in rows[: None if everything else ROWS]
    ]
    typer.echo("\n".join(columns([head, *cells], 3) + _cut(rows, everything)))
    for line in found.unsupported:
        typer.echo(f"unsupported on {found.result.data['machine']}, on the host instead: {line}")


def profile_command(
    model: _Model,
    machine: _Machine = "tpu-v3",
    batch: _Batch = 1,
    context: _Context = None,
    phase: _Phase = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of the reference kernels; the fastest counts.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of random inputs.")] = 0,
    json_: _Json = None,
    everything: _All = False,
) -> None:
    """Time of each operation by the reference kernels on this computer, beside its simulated time."""
    with step("running and simulating"):
        found = profile(load_graph(model, batch, context, phase), None, machine, seed=seed, runs=runs)
    rows = found.table().rows
    if json_:
        write({"operations": rows, "totals": found.totals()}, json_)
    if json_ == "-":
        return
    totals = found.totals()
    cells = [["operation", "kind", "calls", "here, ms", f"{found.result.data['machine']}, ms"]]
    cells += [
        [
            clipped(row["operation"]),
            row["kind"],
            str(row["calls"]),
            f"{row['reference_ms']:.4g}",
            f"{row['simulated_ms']:.4g}" if row["simulated_ms"] else "fused" if row["kernel"] else "-",
        ]
        for row in rows[: None if everything else ROWS]
    ]
    cells.append(["all", "", "", f"{totals.get('reference_ms', 0):.4g}", f"{totals.get('simulated_ms', 0):.4g}"])
    typer.echo("\n".join(columns(cells, 2) + _cut(rows, everything)))


def register(app: typer.Typer) -> None:
    """Adds the commands.

    Args:
        app: of the command line.
    """
    app.command("coverage")(coverage_command)
    app.command("profile")(profile_command)
