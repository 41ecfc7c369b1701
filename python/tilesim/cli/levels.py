"""`tilesim levels`: instruction-level kernels against closed forms."""

from __future__ import annotations

from typing import Annotated

import typer

from ..base import figures
from ..base.columns import layout, number, text
from ..base.screen import wrapped
from ..timing.levels import Levels
from ..timing.levels import levels as compared
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from .load import compiled, machine_of, narrowed, read, write
from .options import ExcludedOptions, Json, Model, Target
from .screen import say
from .show import step

MAX_ROWS = 15  # distinct tile operations


def levels(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    compiling: CompileOptions,
    simulating: Annotated[SimulateOptions, ExcludedOptions("level")],
    live: Annotated[
        bool, typer.Option("--live", help="Also simulate the instructions of concurrent kernels together.")
    ] = False,
    *,
    out: Json,
) -> None:
    loaded = narrowed(read(model, work), work)
    target = machine_of(on, loaded, simulating.network)
    with step(f"compiling for {target.name}"):
        program = compiled(loaded, target, compiling)
    with step("simulating at all levels" if live else "simulating at both levels"):
        found = compared(program, target, live=live, **simulating.given())
    if out.json is not None:
        write(found.to_dict(), out.json)
    if not out.silent:
        _show(found)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f} %"


def _show(found: Levels) -> None:
    cycles = found.cycles
    line = f"tile {figures.count(cycles['tile'])} cycles, instruction {figures.count(cycles['instruction'])} cycles: "
    line += f"{100 * found.difference:+.2f} %"
    live = cycles.get("live")
    if live is not None:
        more = live / cycles["instruction"] - 1 if cycles["instruction"] else 0.0
        line += f"; live {figures.count(live)} cycles: {100 * more:+.2f} % of the instruction level"
    say(wrapped(line, hang="  "))
    rows = found.computes[:MAX_ROWS]
    columns = [
        text("tile operation", 0, 16),
        number("count"),
        number("closed form"),
        number("kernel"),
        number("difference"),
    ]
    if live is not None:
        columns.append(number("live"))
    columns.append(text("limit", 1, 8))
    cells = [
        [
            " ".join(word for word in row["compute"].split() if not (word[0] == "g" and len(word) == 17)),
            figures.count(row["count"]),
            figures.count(row["closed_form"]),
            "" if row["instruction"] is None else figures.count(row["instruction"]),
            _percent(row["difference"]),
            *([] if live is None else ["" if row["live"] is None else figures.count(round(row["live"]))]),
            row["limit"],
        ]
        for row in rows
    ]
    say(layout(columns, cells))
    if len(found.computes) > MAX_ROWS:
        say(wrapped(f"and {len(found.computes) - MAX_ROWS} more (--json lists all)", hang="  "))
    for note in found.notes:
        say(wrapped(note, hang="  "))
