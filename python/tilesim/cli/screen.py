"""Prints lines, with colours if standard output shows them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import typer

from ..base.screen import Line, coloured, spelled

__all__ = ["disable_colours", "say"]


def disable_colours() -> None:
    """Turns colours off."""
    os.environ["NO_COLOR"] = "1"


def say(lines: Iterable[Line | str], err: bool = False) -> None:
    """Writes lines to standard output, or to standard error if `err`; colours need a terminal."""
    pieces = [[(line, "")] if isinstance(line, str) else line for line in lines]
    if coloured() and not err:
        _styled(pieces)
        return
    text = "\n".join("".join(part for part, _ in line).rstrip() for line in pieces)
    typer.echo(spelled(text, getattr(sys.stderr if err else sys.stdout, "encoding", None)), err=err)


def _styled(lines: list[Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(
            Text.assemble(*((spelled(part, console.encoding), style) for part, style in line)), soft_wrap=True
        )
