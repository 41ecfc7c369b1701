"""The command `open`: a saved result as a page."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..base.files import check_writable
from ..results.result import Result
from .examples import epilog
from .show import step

__all__ = ["register"]


def open_command(
    result: Annotated[str, typer.Argument(help="File that --json wrote, or Result.save.")],
    browser: Annotated[bool, typer.Option(help="Open the page; else only write it.")] = True,
    baseline: Annotated[str | None, typer.Option(help="Another saved result to compare with.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where the page is written; a temporary file if not given.")
    ] = None,
) -> None:
    """Make the page of a saved result, and open it."""
    if output is not None:
        check_writable(output)
    with step(f"reading {result}"):
        found = Result.load(result)
        other = Result.load(baseline) if baseline is not None else None
    target = output or os.path.join(tempfile.mkdtemp(prefix="tilesim-"), f"{Path(result).stem}.html")
    with step("writing the page"):
        found.report(target, baseline=other)
    typer.echo(target)
    if browser and not webbrowser.open(Path(target).resolve().as_uri()):
        typer.echo("No browser was found: open that file in one.", err=True)


def register(app: typer.Typer) -> None:
    """Adds the command.

    Args:
        app: of the command line.
    """
    app.command("open", epilog=epilog("open"))(open_command)
