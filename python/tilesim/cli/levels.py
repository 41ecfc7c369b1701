"""The command `levels`: closed forms beside kernels."""

from __future__ import annotations

from typing import Annotated

import typer

from ..base import figures
from ..loading import load
from ..machine.machine import Machine
from ..program.program import Program
from ..timing.levels import Levels, levels
from ..timing.simulate import compile
from .examples import epilog
from .load import write
from .options import MACHINE, OUTPUT
from .screen import say, wrapped
from .show import step
from .tables import layout, number, text

__all__ = ["register"]

SHOWN = 15  # distinct computes


def _levels(
    model: Annotated[str, typer.Argument(help="A network's name, matmul:M,N,K[,dtype], or a file.")],
    machine: Annotated[str, typer.Option(help="Machine, by name or file.", rich_help_panel=MACHINE)] = "tpu-v3",
    batch: Annotated[int, typer.Option(min=1, help="Images, sequences or products.")] = 1,
    live: Annotated[bool, typer.Option("--live", help="Also with kernels beside each other.")] = False,
    json_: Annotated[
        str | None, typer.Option("--json", help="Write all rows; - for standard output.", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """What closed forms and kernels say of each tile compute, and of the whole."""
    target = Machine.load(machine)
    loaded = load(model, batch)
    with step(f"compiling for {target.name}"):
        compiled = loaded if isinstance(loaded, Program) else compile(loaded, target)
    with step("simulating at both levels"):
        found = levels(compiled, target, live=live)
    if json_ is not None:
        write(found.to_dict(), json_)
        if json_ == "-":
            return
    _show(found)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f} %"


def _show(found: Levels) -> None:
    cycles = found.cycles
    say(
        wrapped(
            f"tile {figures.count(cycles['tile'])} cycles, instruction {figures.count(cycles['instruction'])} cycles: "
            f"{100 * found.difference:+.2f} %",
            hang="  ",
        )
    )
    rows = found.computes[:SHOWN]
    columns = [text("compute", 0, 16), number("count"), number("closed form"), number("kernel"), number("more")]
    columns.append(text("limit", 1, 8))
    cells = [
        [
            " ".join(word for word in row["compute"].split() if not (word[0] == "g" and len(word) == 17)),
            figures.count(row["count"]),
            figures.count(row["closed_form"]),
            "" if row["instruction"] is None else figures.count(row["instruction"]),
            _percent(row["difference"]),
            row["limit"],
        ]
        for row in rows
    ]
    say(layout(columns, cells))
    if len(found.computes) > SHOWN:
        say(wrapped(f"{len(found.computes) - SHOWN} more in --json", hang="  "))
    for note in found.notes:
        say(wrapped(note, hang="  "))


def register(app: typer.Typer) -> None:
    """Adds the command.

    Args:
        app: of the command line.
    """
    app.command("levels", epilog=epilog("levels"))(_levels)
