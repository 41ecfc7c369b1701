"""The command `sweep`: models on machines with varied settings."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ..base.columns import layout, name, number, text
from ..base.declared import Stage, option
from ..base.dtypes import NUMPY
from ..base.errors import user_error
from ..base.files import writing
from ..base.screen import Lines, wrapped
from ..executors import processes
from ..study.sweep import sweep as swept
from ..study.sweep_table import Sweep
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from . import complete
from .load import MACHINE as USUAL
from .load import graph_of, write
from .options import MACHINE, OUTPUT, WHAT, ExcludedOptions, Output
from .screen import say
from .show import step


def _listed(texts: str) -> list[str]:
    return [one.strip() for one in texts.split(",")]


def _values(settings: list[str]) -> dict[str, list[Any]]:
    """Parses texts such as "core.array.rows=64,128" into lists of values by setting path."""
    found: dict[str, list[Any]] = {}
    for setting in settings:
        path, equals, words = setting.partition("=")
        if not equals or not words:
            raise user_error("a setting needs values", place="--set", value=f"'{setting}'", allowed="path=v1,v2")
        if path in found:
            raise user_error("a setting is given twice", place=path, value=f"'{setting}'", allowed="path=v1,v2")
        values = _listed(words)
        if "" in values:
            raise user_error("a value of a setting is empty", place=f"--set {path}", value=f"'{words}'",
                             suggestion="Is there a comma too many?")  # fmt: skip
        found[path] = [_value(one) for one in values]
    return found


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word


@dataclass(frozen=True)
class VariedOptions(Stage):
    """Varied options of a sweep."""

    panel = MACHINE

    machine: list[str] | None = option(
        None, "Machines by name or file, separated by commas; default tpu-v3.", words=str, read=_listed,
        complete="simulated",
    )  # fmt: skip
    set: Any = option(
        None, "Values of a setting: path=v1,v2; several settings give all combinations.", "--set", words=list[str],
        read=_values, complete="settings",
    )  # fmt: skip
    mapping: list[str] | None = option(
        None,
        "Mappings separated by commas: profile, cost, heuristic, tuned, ..., a .json file.",
        words=str,
        read=_listed,
        panel="Compile",
    )


def sweep(
    models: Annotated[
        str, typer.Argument(metavar="MODEL[,MODEL...]", help=WHAT, autocompletion=complete.models_)
    ],
    work: WorkloadOptions,
    varied: VariedOptions,
    compiling: Annotated[CompileOptions, ExcludedOptions("mapping")],
    simulating: SimulateOptions,
    metrics: Annotated[
        str, typer.Option(help="Columns separated by commas: cycles, bytes, joules, utilisation.memory, ...",
                          rich_help_panel=OUTPUT),
    ] = "cycles,seconds,bottleneck",
    pareto: Annotated[
        str | None, typer.Option(help="Mark Pareto-optimal rows in these columns: seconds,bytes.",
                                 rich_help_panel=OUTPUT),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes; default: threads.")] = None,
    *,
    out: Annotated[Output, ExcludedOptions("timeline", "against", "all")],
) -> None:  # fmt: skip
    front = _listed(pareto) if pareto else []
    columns = list(dict.fromkeys([*_listed(metrics), *front]))
    with step("reading models"):
        graphs = {model: graph_of(model, work) for model in _models(models)}
    options = {**compiling.given(), **simulating.given()}
    machines: Any = varied.machine or [USUAL]
    with step("simulating") as simulated, processes(jobs) if jobs else contextlib.nullcontext() as executor:
        found = swept(
            graphs if len(graphs) > 1 else next(iter(graphs.values())), machines if len(machines) > 1 else machines[0],
            varied.set, mappings=varied.mapping, metrics=columns, progress=simulated.at, executor=executor,
            store=out.store, **options,
        )  # fmt: skip
    best = {id(row) for row in found.pareto(front).rows} if front else set()
    rows = [{**row, **({"pareto": id(row) in best} if front else {})} for row in found.rows]
    _write(found, rows, out)
    if not out.silent:
        say(_lines(found, rows, out.quiet))
    if found.interrupted:
        typer.echo("interrupted: these are the rows so far; with --store F the same command resumes", err=True)
        raise typer.Exit(130)


def _models(texts: str) -> list[str]:
    """Splits names at commas, except at the commas inside matmul:M,N,K[,dtype]."""
    found: list[str] = []
    for one in _listed(texts):
        product = found[-1] if found and found[-1].startswith("matmul:") else ""
        own = product.count(",") < 2 if one.isdigit() else product.count(",") == 2 and one in NUMPY
        if product and own:
            found[-1] += f",{one}"
        else:
            found.append(one)
    return list(dict.fromkeys(found))


def _write(found: Sweep, rows: list[dict[str, Any]], out: Output) -> None:
    if out.json:
        write({"rows": rows, "units": found.units, "summary": found.summary()}, out.json)
    if out.csv:
        with contextlib.nullcontext(sys.stdout) if out.csv == "-" else writing(out.csv) as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if out.html:
        Sweep(rows, found.settings, found.metrics, found.units).to_html(out.html)


def _lines(found: Sweep, rows: list[dict[str, Any]], quiet: bool) -> Lines:
    """Returns the summary and one row per point; omits the columns status and flag if all are trivial."""
    head: Lines = [*wrapped(found.summary(), hang="  ")]
    if quiet:
        return head
    plain = {"status": "ok", "flag": ""}
    told = [key for key in rows[0] if key not in plain or any(row[key] != plain[key] for row in rows)]
    numbers = {*found.settings, *found.metrics} - {"bottleneck", "lowering"}
    columns = [number(key) if key in numbers else name(key) if key == "graph" else text(key, 0, 8) for key in told]
    cells = [
        [("*" if row[key] else "") if key == "pareto" else found.shown(key, row[key]) for key in told] for row in rows
    ]
    return [*head, "", *layout(columns, cells)]
