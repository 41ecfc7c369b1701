"""Commands about machines and networks: lists, and one of them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from .. import models
from ..base.errors import user_error
from ..base.table import amount
from ..machine.machine import Machine
from ..machine.settings import section
from .load import WHAT, load_graph, write
from .settings import shown_differences, shown_machine, shown_settings, terminal_width

__all__ = ["machine_app", "model_app"]

NAMED = "Preset or file."

machine_app = typer.Typer(no_args_is_help=True, help="Machines: presets and files.")
model_app = typer.Typer(no_args_is_help=True, help="Networks that Tilesim builds itself.")


@machine_app.command("list")
def machine_list() -> None:
    """The shipped machines."""
    for name in Machine.names():
        typer.echo(f"{name:<12} {Machine.load(name).description}")


@machine_app.command("show")
def machine_show(name: Annotated[str, typer.Argument(help=NAMED)]) -> None:
    """Every setting of a machine: its value, whether the file sets it or it is the default, and its source."""
    machine = Machine.load(name)
    typer.echo("\n".join(shown_machine(machine, terminal_width())))


@machine_app.command("settings")
def machine_settings(
    prefix: Annotated[str, typer.Argument(help="A path or its beginning: core.array, memory.bandwidth.")] = "",
) -> None:
    """All settings that a machine can have: unit, range, default, meaning, effect."""
    typer.echo("\n".join(shown_settings(section(prefix), terminal_width())))


@machine_app.command("diff")
def machine_diff(
    a: Annotated[str, typer.Argument(help=NAMED)],
    b: Annotated[str, typer.Argument(help=NAMED)],
    json_: Annotated[str | None, typer.Option("--json", help="Write the rows; - for standard output.")] = None,
) -> None:
    """The settings in which two machines differ."""
    one, two = Machine.load(a), Machine.load(b)
    found = one.diff(two)
    if json_:
        write({"a": one.label, "b": two.label, "rows": found.rows}, json_)
    if json_ != "-":
        heads = (a, b) if one.label == two.label else (one.label, two.label)
        typer.echo("\n".join(shown_differences(found, *heads, terminal_width())))


@machine_app.command("new")
def machine_new(
    file: Annotated[str, typer.Argument(help="To write: my.json (with notes) or my.toml (with comments).")],
    from_: Annotated[str, typer.Option("--from", help="Preset or file to start from.")],
    name: Annotated[str | None, typer.Option(help="Of the machine; the file's if none is given.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a machine's file to change by hand: every setting with unit, range, default, meaning and source.

    Example: tilesim machine new --from tpu-v3 my.toml, change it, tilesim run resnet18 --machine my.toml
    """
    machine = Machine.load(from_)
    if os.path.exists(file) and not force:
        raise user_error("the file is there already", place=file, suggestion="--force replaces it")
    for setting in ("network.kind", "memory.part"):
        value = machine.get(setting)
        if os.path.isabs(value):
            what = "it names a file, and a machine's file names files beside it alone"
            raise user_error(what, place=f"{from_}: {setting}", value=value, suggestion="Copy both by hand")
    machine.save(file, name or os.path.splitext(os.path.basename(file))[0] or None)
    count = len(machine.table())
    typer.echo(f"{file}: {count} settings of {machine.label}; what they mean stands beside them.")
    typer.echo(f"After a change: tilesim machine diff {from_} {file}; tilesim run MODEL --machine {file}")


@model_app.command("list")
def model_list() -> None:
    """The networks."""
    for name in models.names():
        typer.echo(name)


@model_app.command("show")
def model_show(
    model: Annotated[str, typer.Argument(help=WHAT)],
    batch: Annotated[int, typer.Option(min=1, help="Images, sequences, or products.")] = 1,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens, for networks that read text.")] = None,
    phase: Annotated[str | None, typer.Option(help="prefill or decode, for networks that write text.")] = None,
) -> None:
    """What goes in and out of a network, its size, and its work."""
    graph = load_graph(model, batch, context, phase)
    flops, size = graph.flops(), graph.compulsory_bytes()
    other = sum(flops.values()) - flops["matrix"]
    typer.echo(f"{model}: {graph.parameters:,} parameters, {flops['matrix'] / 1e9:,.3f} GFLOP in products")
    typer.echo(f"  other arithmetic  {other / 1e9:,.3f} GFLOP")
    typer.echo(f"  compulsory bytes  {amount(size)} ({flops['matrix'] / max(1, size):,.1f} FLOPs per byte)")
    count = sum(len(graph.operations(name)) for name in graph.functions)
    typer.echo(f"  operations        {count:,} in {len(graph.functions)} functions")
    for title, rows in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        shown = [f"{row['name']} {row['dtype']}{list(row['shape'])}" for row in rows[:4]]
        more = f", and {len(rows) - 4} more" if len(rows) > 4 else ""
        typer.echo(f"  {title:<17} {', '.join(shown)}{more}")
