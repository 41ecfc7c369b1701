"""Commands about machines and networks: lists, and one of them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from .. import models
from ..base import figures
from ..base.table import amount
from ..machine.machine import Machine
from ..machine.target import machines
from . import complete, tables
from .examples import epilog
from .load import load_graph
from .options import Batch, Context, Model, Phase
from .screen import say, wrapped
from .tables import layout, number, text

__all__ = ["machine_app", "model_app"]

machine_app = typer.Typer(no_args_is_help=True, help="Machines: presets and files.")
model_app = typer.Typer(no_args_is_help=True, help="Networks that Tilesim builds itself.")


@machine_app.command("list", epilog=epilog("machine list"))
def machine_list() -> None:
    """Machines, which are simulated, and devices, which are estimated: --machine takes both."""
    columns = [
        tables.name("name", least=14),
        tables.name("kind", least=7),
        number("TFLOP/s", 2),
        tables.name("in", 3, 4),
    ]
    columns += [number("GB/s", 1), text("description")]
    cells = [
        [
            row["name"],
            row["kind"],
            figures.digits(row["peak_tflops"]),
            row["peak_dtype"],
            figures.digits(row["memory_gbytes_per_second"]),
            row["description"],
        ]
        for row in machines().rows
    ]
    say(layout(columns, cells))


@machine_app.command("show", epilog=epilog("machine show"))
def machine_show(
    name: Annotated[str, typer.Argument(help="Preset or file.", autocompletion=complete.simulated)],
) -> None:
    """Every setting of a machine and where its number comes from."""
    shown = Machine.load(name)
    sources = shown.sources
    cells: list[list[str]] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict) and path != "core.array.rates":
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else key)
        else:
            cells.append([path, json.dumps(value), sources.get(path, "")])

    hidden = ("schema", "version", "name", "description", "sources")
    walk({key: value for key, value in shown.to_dict().items() if key not in hidden}, "")
    head = wrapped(f"{shown.name}: {shown.description}", hang="  ")
    say([*head, "", *layout([tables.name("setting"), text("value", 0, 8), text("from", 1)], cells)])


@model_app.command("list", epilog=epilog("model list"))
def model_list() -> None:
    """The networks, with their sizes and what they are built with unless told otherwise."""
    columns = [
        tables.name("name"),
        text("kind", 2, 10),
        number("parameters, M"),
        tables.name("dtype", 1, 4),
        number("context", 3),
    ]
    cells = [
        [row["name"], row["kind"], f"{row['parameters'] / 1e6:,.1f}", row["dtype"], row["context"] or "–"]
        for row in models.table().rows
    ]
    say(layout(columns, cells))


@model_app.command("show", epilog=epilog("model show"))
def model_show(
    model: Model,
    batch: Batch = 1,
    context: Context = None,
    phase: Phase = None,
) -> None:
    """What goes in and out of a network, its size, and its work."""
    graph = load_graph(model, batch, context, phase)
    flops, size = graph.flops(), graph.compulsory_bytes()
    other = sum(flops.values()) - flops["matrix"]
    count = sum(len(graph.operations(one)) for one in graph.functions)
    rows = [
        ["other arithmetic", f"{other / 1e9:,.3f} GFLOP"],
        ["compulsory bytes", f"{amount(size)} ({flops['matrix'] / max(1, size):,.1f} FLOPs per byte)"],
        ["operations", f"{count:,} in {len(graph.functions)} functions"],
    ]
    for title, ends in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        shown = [f"{row['name']} {row['dtype']}{list(row['shape'])}" for row in ends[:4]]
        more = f", and {len(ends) - 4} more" if len(ends) > 4 else ""
        rows.append([title, f"{', '.join(shown)}{more}"])
    head = f"{model}: {graph.parameters:,} parameters, {flops['matrix'] / 1e9:,.3f} GFLOP in products"
    say([*wrapped(head, hang="  "), *(part for title, told in rows for part in wrapped(told, f"  {title:<18}"))])
