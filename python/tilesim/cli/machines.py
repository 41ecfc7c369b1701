"""Commands about machines and networks: lists, and one of them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from .. import models
from ..base.table import amount
from ..machine.machine import Machine
from .load import WHAT, load_graph

__all__ = ["machine_app", "model_app"]

machine_app = typer.Typer(no_args_is_help=True, help="Machines: presets and files.")
model_app = typer.Typer(no_args_is_help=True, help="Networks that Tilesim builds itself.")


@machine_app.command("list")
def machine_list() -> None:
    """The shipped machines."""
    for name in Machine.names():
        typer.echo(f"{name:<12} {Machine.load(name).description}")


@machine_app.command("show")
def machine_show(name: Annotated[str, typer.Argument(help="Preset or file.")]) -> None:
    """Every setting of a machine and where its number comes from."""
    machine = Machine.load(name)
    sources = machine.sources
    typer.echo(f"{machine.name}: {machine.description}\n")

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict) and path != "core.array.rates":
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else key)
        else:
            typer.echo(f"{path:<36} {json.dumps(value):<20} {sources.get(path, '')}".rstrip())

    hidden = ("schema", "version", "name", "description", "sources")
    walk({key: value for key, value in machine.to_dict().items() if key not in hidden}, "")


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
