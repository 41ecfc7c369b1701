"""The command `why`: why an operation takes as long as it does."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ..analytic.estimate import estimate
from ..base import figures
from ..base.errors import user_error
from ..base.files import check_writable, parse_json, read_text
from ..graph import Graph
from ..machine.device import Device
from ..machine.machine import Machine
from ..program.program import Program
from ..results.result import Result
from ..study.why import Why, why
from ..study.why_text import OTHERWISE, alternative_lines, lines_of
from ..timing.simulate import compile, simulate
from .examples import epilog
from .load import load, write
from .run import settings_of
from .screen import room, say, wrapped
from .show import step
from .tables import ROWS, layout, name, number, text

__all__ = ["register"]


def _stored(model: str) -> Result | None:
    """The result that a file holds; none where it is something else."""
    if not model.endswith(".json") or not os.path.isfile(model):
        return None
    found = parse_json(read_text(model), model)
    return Result.load(model) if isinstance(found, dict) and found.get("schema") == "tilesim.result" else None


def _estimated(loaded: Graph | Program, machine: str | None) -> Result | None:
    """The closed form, where the machine is a device."""
    known = machine is None or machine in Machine.names() or machine not in Device.names()
    return None if known or not isinstance(loaded, Graph) else estimate(loaded, machine)


def why_command(
    model: Annotated[
        str, typer.Argument(help="A network's name, matmul:M,N,K[,dtype], a model's file, or a saved result (.json).")
    ],
    operation: Annotated[
        str | None,
        typer.Argument(
            help="Of `tilesim run`'s table or the graph; layer*.conv1: of all layers; or a start. None: lists them."
        ),
    ] = None,
    machine: Annotated[str | None, typer.Option(help="Preset, file or device (estimated); tpu-v3 if none.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images, sequences, or products.")] = 1,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens, for networks that read text.")] = None,
    phase: Annotated[str | None, typer.Option(help="prefill or decode, for networks that write text.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Of a network or product: f32, bf16, f16, ...")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: path=value.")] = None,
    memory: Annotated[str | None, typer.Option(help="ideal, simple or bank; the machine's if none is given.")] = None,
    lowering: Annotated[str | None, typer.Option(help="native or best, as for `tilesim run`.")] = None,
    mapping: Annotated[str | None, typer.Option(help="As for `tilesim run`.")] = None,
    fuse: Annotated[str | None, typer.Option(help="As for `tilesim run`.")] = None,
    alternatives: Annotated[
        bool, typer.Option(help="Simulate other mappings, lowerings, layouts and fusion: some seconds.")
    ] = True,
    html: Annotated[str | None, typer.Option(help="Write a page of the answer.")] = None,
    json_: Annotated[str | None, typer.Option("--json", help="Write the answer; - for standard output.")] = None,
) -> None:
    """Why an operation takes so long: its bound, each term between bound and time, and what would change it."""
    for path in (html, json_):
        if path and path != "-":
            check_writable(path)
    result = _stored(model)
    given = {"mapping": mapping, "fuse": fuse, "lowering": lowering}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if result is not None and (options or machine or set_ or memory):
        raise user_error("a saved result was simulated with its options already", place=model, allowed="no options")
    if result is None:
        with step(f"reading {model}"):
            loaded = load(model, batch, context, phase, dtype, None)
            result = _estimated(loaded, machine)
        if result is not None and (options or set_ or memory):
            raise user_error("a device is estimated", place="--machine", value=f"'{machine}'", allowed="no options")
    if result is None:
        with step(f"compiling and simulating {model}"):
            own = None if isinstance(loaded, Graph) else loaded.machine
            target = Machine.load(machine or own or "tpu-v3").replace(settings_of(set_ or []))
            program = compile(loaded, target, **options) if isinstance(loaded, Graph) else loaded
            result = simulate(program, target, memory=memory)
    if operation is None:
        _choices(result, model, json_, html)
        return
    with step("looking at its intervals"):
        found = why(result, operation)
    aloud = json_ != "-" and (json_ is None or html is not None)
    if aloud:
        say(lines_of(found.answer, room(120)))
    rows = _told(found, aloud) if alternatives else []
    if html is not None:
        found.to_html(html, alternatives=alternatives)
    if json_ is not None:
        write({**found.answer, **({"alternatives": rows} if alternatives else {})}, json_)


def _choices(result: Result, model: str, json_: str | None, html: str | None) -> None:
    """The longest operations, where none was named."""
    if html is not None:
        raise user_error("a page is of one operation", place="--html", value=html, suggestion="Name the operation")
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
    say(["", *wrapped(f"One of them, as: tilesim why {model} {rows[0]['operation']}", hang="  ", limit=room(120))])


def _told(found: Why, aloud: bool) -> list[dict[str, Any]]:
    """Simulates the alternatives, and says each as it comes."""
    if aloud and found.can_be_changed:
        say(["", *wrapped(OTHERWISE, hang="  ", limit=room(120))])
    rows = []
    for row in found.try_alternatives():
        rows.append(row)
        if aloud:
            say(alternative_lines(row, room(120)))
    return sorted(rows, key=lambda row: int(row["cycles"]))


def register(app: typer.Typer) -> None:
    """Adds the command.

    Args:
        app: of the command line.
    """
    app.command("why", epilog=epilog("why"))(why_command)
