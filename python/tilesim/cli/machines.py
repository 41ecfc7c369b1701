"""Commands about machines and networks: lists, and one of them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from .. import models
from ..base import figures
from ..base.errors import user_error
from ..machine.machine import Machine
from ..machine.settings import section
from ..machine.target import machines
from . import complete, tables
from .complete import App
from .examples import epilog
from .load import load_graph, write
from .options import Batch, Context, Model, Phase
from .screen import say, wrapped
from .settings import shown_differences, shown_machine, shown_settings
from .tables import layout, number, text

__all__ = ["machine_app", "model_app"]

NAMED = "Preset or file."

machine_app = App(no_args_is_help=True, help="Machines: presets and files.")
model_app = App(no_args_is_help=True, help="Networks that Tilesim builds itself.")


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
def machine_show(name: Annotated[str, typer.Argument(help=NAMED, autocompletion=complete.simulated)]) -> None:
    """Every setting of a machine: its value, whether the file sets it or it is the default, and its source."""
    machine = Machine.load(name)
    say(shown_machine(machine))


@machine_app.command("settings", epilog=epilog("machine settings"))
def machine_settings(
    prefix: Annotated[str, typer.Argument(help="A path or its beginning: core.array, memory.bandwidth.")] = "",
) -> None:
    """All settings that a machine can have: unit, range, default, meaning, effect."""
    say(shown_settings(section(prefix)))


@machine_app.command("diff", epilog=epilog("machine diff"))
def machine_diff(
    a: Annotated[str, typer.Argument(help=NAMED, autocompletion=complete.simulated)],
    b: Annotated[str, typer.Argument(help=NAMED, autocompletion=complete.simulated)],
    json_: Annotated[str | None, typer.Option("--json", help="Write the rows; - for standard output.")] = None,
) -> None:
    """The settings in which two machines differ."""
    one, two = Machine.load(a), Machine.load(b)
    found = one.diff(two)
    if json_:
        write({"a": one.label, "b": two.label, "rows": found.rows}, json_)
    if json_ != "-":
        heads = (a, b) if one.label == two.label else (one.label, two.label)
        say(shown_differences(found, *heads))


@machine_app.command("new", epilog=epilog("machine new"))
def machine_new(
    file: Annotated[str, typer.Argument(help="To write: my.json (with notes) or my.toml (with comments).")],
    from_: Annotated[str, typer.Option("--from", help="Preset or file to start from.")],
    name: Annotated[str | None, typer.Option(help="Of the machine; the file's if none is given.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a machine's file to change by hand: every setting with unit, range, default, meaning and source."""
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
    lines = wrapped(f"{file}: {count} settings of {machine.label}; what they mean stands beside them.", hang="  ")
    say(
        [
            *lines,
            *wrapped(
                f"After a change: tilesim machine diff {from_} {file}; tilesim run MODEL --machine {file}", hang="  "
            ),
        ]
    )


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
        ["compulsory bytes", f"{figures.size(size)} ({flops['matrix'] / max(1, size):,.1f} FLOPs per byte)"],
        ["operations", f"{count:,} in {len(graph.functions)} functions"],
    ]
    for title, ends in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        shown = [f"{row['name']} {row['dtype']}{list(row['shape'])}" for row in ends[:4]]
        more = f", and {len(ends) - 4} more" if len(ends) > 4 else ""
        rows.append([title, f"{', '.join(shown)}{more}"])
    head = f"{model}: {graph.parameters:,} parameters, {flops['matrix'] / 1e9:,.3f} GFLOP in products"
    say([*wrapped(head, hang="  "), *(part for title, told in rows for part in wrapped(told, f"  {title:<18}"))])
