"""`tilesim cluster`: many chips."""

from __future__ import annotations

import typer

from .cluster_partition import partition

cluster_app = typer.Typer(no_args_is_help=True, help="Programs of many chips.")
cluster_app.command("partition")(partition)
