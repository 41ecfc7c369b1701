"""Options that several commands have, in groups as `--help` shows them."""

from __future__ import annotations

from typing import Annotated

import typer

from . import complete
from .load import WHAT

__all__ = [
    "CHECK",
    "COMPILE",
    "MACHINE",
    "OUTPUT",
    "WORKLOAD",
    "All",
    "AnyDevice",
    "Batch",
    "Context",
    "Dtype",
    "Html",
    "Json",
    "Level",
    "Model",
    "Phase",
    "Preset",
]

WORKLOAD, MACHINE, COMPILE = "Workload", "Machine", "Compile"
CHECK, OUTPUT = "Check", "Output"

Model = Annotated[str, typer.Argument(help=WHAT, autocompletion=complete.models_)]
Batch = Annotated[int, typer.Option(min=1, help="Images, sequences, or products.", rich_help_panel=WORKLOAD)]
Context = Annotated[
    int | None, typer.Option(min=1, help="Tokens, for networks that read text.", rich_help_panel=WORKLOAD)
]
Phase = Annotated[
    str | None, typer.Option(help="prefill or decode, for networks that write text.", rich_help_panel=WORKLOAD)
]
Dtype = Annotated[
    str | None, typer.Option(help="Of a network or product: f32, bf16, f16, ...", rich_help_panel=WORKLOAD)
]
Preset = Annotated[
    str, typer.Option(help="Preset or file.", rich_help_panel=MACHINE, autocompletion=complete.simulated)
]
AnyDevice = Annotated[
    str, typer.Option(help="A device, or a machine.", rich_help_panel=MACHINE, autocompletion=complete.machines)
]
Json = Annotated[
    str | None, typer.Option("--json", help="Write the rows; - for standard output.", rich_help_panel=OUTPUT)
]
Level = Annotated[
    str,
    typer.Option(
        help="tile (closed forms), instruction (kernels, each timed alone), live (side by side).",
        rich_help_panel=MACHINE,
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Every row by itself: no repeated layers as one.", rich_help_panel=OUTPUT)
]
Html = Annotated[str | None, typer.Option(help="Write a page.", rich_help_panel=OUTPUT)]
