"""The command `why`: explains the time of an operation."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ..base import figures
from ..base.columns import ROWS, layout, name, number, text
from ..base.errors import user_error
from ..base.files import parse_json, read_text
from ..base.screen import room, wrapped
from ..loading import as_graph
from ..machine.device import Device
from ..results.result import Result
from ..study.why import Why
from ..study.why import why as explained
from ..study.why_text import OTHERWISE, alternative_lines, lines_of
from ..timing.estimated import only_simulated, quantized_estimate
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from ..timing.simulate import simulate
from .load import compiled, narrowed, read, target_of, write
from .options import Only, Output, Target
from .screen import say
from .show import step


def _loaded_result(model: str) -> Result | None:
    """Loads the result if `model` is a result file; None otherwise."""
    if not model.endswith(".json") or not os.path.isfile(model):
        return None
    found = parse_json(read_text(model), model)
    return Result.load(model) if isinstance(found, dict) and found.get("schema") == "tilesim.result" else None


def _simulated(
    model: str, work: WorkloadOptions, on: Target, compiling: CompileOptions, simulating: SimulateOptions
) -> Result:
    """Simulates the workload on a machine, or estimates it on a device."""
    with step(f"reading {model}"):
        wide = read(model, work)
        target = target_of(on, wide, simulating.network)
    if isinstance(target, Device):
        if asked := [*compiling.asked, *simulating.asked]:
            raise only_simulated(target, asked)
        return quantized_estimate(as_graph(wide), target, work.quantize)
    with step(f"compiling and simulating {model}"):
        return simulate(compiled(narrowed(wide, work), target, compiling), target, **simulating.given())


def why(
    model: Annotated[
        str, typer.Argument(help="A network's name, matmul:M,N,K[,dtype], a model's file, or a saved result (.json).")
    ],
    operation: Annotated[
        str | None,
        typer.Argument(
            help="An operation of the program or graph, a pattern (layer*.conv1) or a prefix; default: list them."
        ),
    ] = None,
    *,
    work: WorkloadOptions,
    on: Target,
    compiling: CompileOptions,
    simulating: SimulateOptions,
    alternatives: Annotated[
        bool, typer.Option(help="Also simulate other mappings, lowerings, layouts and fusion; takes some seconds.")
    ] = True,
    out: Annotated[Output, Only("json", "html")],
) -> None:
    result = _loaded_result(model)
    asked = [*work.asked, *on.asked, *compiling.asked, *simulating.asked]
    if result is not None and asked:
        raise user_error("options do not apply to a saved result", place=model,
                         value=", ".join(asked), allowed="no options")  # fmt: skip
    result = result or _simulated(model, work, on, compiling, simulating)
    if operation is None:
        _choices(result, model, out.json, out.html)
        return
    with step("analysing intervals"):
        found = explained(result, operation)
    aloud = not out.silent and (out.json is None or out.html is not None)
    if aloud:
        say(lines_of(found.answer, room(120)))
    rows = _print_alternatives(found, aloud) if alternatives else []
    if out.html is not None:
        found.to_html(out.html, alternatives=alternatives)
    if out.json is not None:
        write({**found.answer, **({"alternatives": rows} if alternatives else {})}, out.json)


def _choices(result: Result, model: str, json_: str | None, html: str | None) -> None:
    """Lists the longest operations."""
    if html is not None:
        raise user_error("--html needs an operation", place="--html", value=html, suggestion="Name the operation")
    rows = result.table().rows[:ROWS]
    if json_ is not None:
        write({"operations": rows}, json_)
    if json_ == "-":
        return
    if not rows:
        say([str(result.table())])
        return
    head = [name("operation"), number("cycles"), number("share"), text("bound by", least=8)]
    cells = [
        [str(row["operation"]), f"{row['cycles']:,}", figures.percent(row["share"]), str(row["bound"])] for row in rows
    ]
    say([*wrapped(result.summary(), hang="  ", limit=room(120)), "", *layout(head, cells)])
    say(
        [
            "",
            *wrapped(
                f"Explain one, for example: tilesim why {model} {rows[0]['operation']}", hang="  ", limit=room(120)
            ),
        ]
    )


def _print_alternatives(why: Why, aloud: bool) -> list[dict[str, Any]]:
    """Simulates the alternatives and prints each result."""
    if aloud and why.can_be_changed:
        say(["", *wrapped(OTHERWISE, hang="  ", limit=room(120))])
    rows = []
    for row in why.try_alternatives():
        rows.append(row)
        if aloud:
            say(alternative_lines(row, room(120)))
    return sorted(rows, key=lambda row: int(row["cycles"]))
