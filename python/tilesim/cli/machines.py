"""Commands about machines and networks."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from .. import models as networks
from ..base import columns as tables
from ..base import figures
from ..base.columns import layout, number, text
from ..base.errors import user_error
from ..base.screen import wrapped
from ..machine.machine import Machine
from ..machine.settings import section
from ..machine.target import machines
from ..timing.options import WorkloadOptions
from . import complete
from .load import graph_of, write
from .options import Json, Model
from .screen import say
from .settings import shown_differences, shown_machine, shown_settings

NAMED = "Preset or file."


def list_() -> None:
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


def show(name: Annotated[str, typer.Argument(help=NAMED, autocompletion=complete.simulated)]) -> None:
    machine = Machine.load(name)
    say(shown_machine(machine))


def settings(
    prefix: Annotated[
        str, typer.Argument(help="A path of settings or its beginning: core.array, memory.bandwidth.")
    ] = "",
) -> None:
    say(shown_settings(section(prefix)))


def diff(
    a: Annotated[str, typer.Argument(help=NAMED, autocompletion=complete.simulated)],
    b: Annotated[str, typer.Argument(help=NAMED, autocompletion=complete.simulated)],
    out: Json,
) -> None:
    one, two = Machine.load(a), Machine.load(b)
    found = one.diff(two)
    if out.json:
        write({"a": one.label, "b": two.label, "rows": found.rows}, out.json)
    if not out.silent:
        heads = (a, b) if one.label == two.label else (one.label, two.label)
        say(shown_differences(found, *heads))


def new(
    file: Annotated[str, typer.Argument(help="File to write: my.json (with notes) or my.toml (with comments).")],
    from_: Annotated[str, typer.Option("--from", help="Preset or file to start from.")],
    name: Annotated[str | None, typer.Option(help="Name of the machine; default: the file's name.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    machine = Machine.load(from_)
    if os.path.exists(file) and not force:
        raise user_error("the file exists", place=file, suggestion="Add --force to replace it")
    for setting in ("network.kind", "memory.part"):
        value = machine.get(setting)
        if os.path.isabs(value):
            what = "a machine file can name only files in its own directory"
            raise user_error(
                what, place=f"{from_}: {setting}", value=value, suggestion="Copy both files to one directory"
            )
    machine.save(file, name or os.path.splitext(os.path.basename(file))[0] or None)
    count = len(machine.table())
    lines = wrapped(f"{file}: {count} settings of {machine.label}, each with its meaning.", hang="  ")
    say(
        [
            *lines,
            *wrapped(
                f"Next: edit it, then tilesim machine diff {from_} {file}; tilesim run MODEL --machine {file}",
                hang="  ",
            ),
        ]
    )


def models() -> None:
    columns = [
        tables.name("name"),
        text("kind", 2, 10),
        number("parameters, M"),
        tables.name("dtype", 1, 4),
        number("context", 3),
    ]
    cells = [
        [row["name"], row["kind"], f"{row['parameters'] / 1e6:,.1f}", row["dtype"], row["context"] or "–"]
        for row in networks.table().rows
    ]
    say(layout(columns, cells))


def model(model: Model, work: WorkloadOptions) -> None:
    graph = graph_of(model, work)
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
