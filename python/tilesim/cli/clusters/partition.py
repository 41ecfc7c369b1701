"""The command that shows what passes between the devices of a module."""

from __future__ import annotations

from typing import Annotated

import typer

from ..load import load_graph, write
from ..options import Json
from ..screen import say

__all__ = ["partition"]


def partition(
    file: Annotated[str, typer.Argument(help="A graph, a StableHLO module, or a file that `Spmd.save` wrote.")],
    json: Json = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Print the collectives of a program for several devices: kind, calls, groups, bytes in, out and on the wire."""
    from ...cluster.partition import partition as divided
    from ...cluster.spmd import Spmd

    spmd = Spmd.load(file) if file.endswith(".spmd.json") else divided(load_graph(file))
    rows = spmd.collectives()
    if json is not None:
        data = {"name": spmd.name, "devices": spmd.devices, "collectives": rows.rows, "records": spmd.records}
        write(data, json)
    if not quiet and json != "-":
        say([f"{spmd.name}: {spmd.devices} devices", *str(rows).splitlines()])
