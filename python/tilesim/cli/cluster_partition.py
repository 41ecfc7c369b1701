"""`tilesim cluster partition`: what passes between the devices of a module."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .load import load_graph


def partition(
    file: Annotated[str, typer.Argument(help="A graph, a StableHLO module, or a file that `Spmd.save` wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the collectives of a program for several devices: kind, calls, groups, bytes in, out and on the wire."""
    from ..cluster.partition import partition as divided
    from ..cluster.spmd import Spmd

    spmd = Spmd.load(file) if file.endswith(".spmd.json") else divided(load_graph(file))
    rows = spmd.collectives()
    if as_json:
        data = {"name": spmd.name, "devices": spmd.devices, "collectives": rows.rows, "records": spmd.records}
        typer.echo(json.dumps(data, indent=1))
        return
    typer.echo(f"{spmd.name}: {spmd.devices} devices")
    typer.echo(str(rows))


__all__ = ["partition"]
