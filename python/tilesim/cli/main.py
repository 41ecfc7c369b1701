"""The command line."""

from __future__ import annotations

import functools
import sys
from typing import Annotated, Any

import typer

from .._core import Error, __version__
from ..base.screen import wrapped
from .groups import CommandGroup
from .screen import disable_colours, say

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tilesim {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="Print without colours, as the variable NO_COLOR does.")
    ] = False,
) -> None:
    """Simulate machine-learning accelerators at tile level. Start with: tilesim run resnet18."""
    if no_color:
        disable_colours()


@functools.cache
def prepare() -> Any:
    """The parser of all commands, built once."""
    return typer.main.get_command(app)


def main() -> None:
    """Entry point; a user error prints one message without traceback and exits with code 2."""
    try:
        prepare()(prog_name="tilesim")
    except Error as error:
        told = f"tilesim: {error}"
        say(wrapped(told, hang="  ") if sys.stderr is not None and sys.stderr.isatty() else [told], err=True)
        sys.exit(2)
    except BrokenPipeError:  # the pipe's reader closed it
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        typer.echo(f"tilesim: {error.filename or 'file'}: {error.strerror or error}", err=True)
        sys.exit(2)
    except MemoryError as error:
        typer.echo(f"tilesim: {str(error) or 'not enough memory'}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("tilesim: interrupted", err=True)
        sys.exit(130)
