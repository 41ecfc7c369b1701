"""The command line."""

from __future__ import annotations

import functools
import platform
import sys
from typing import Annotated, Any

import typer

from .._core import Error, __version__
from ..base.paths import configs_dir
from ..machine.device import Device
from ..machine.machine import Machine
from . import analytic as analytic_cli
from . import compare as cli_compare
from . import mapping as cli_mapping
from . import report as cli_report
from . import run as cli_run
from . import validate as cli_validate
from . import why as cli_why
from .cluster import cluster_app
from .complete import App
from .examples import epilog
from .isa import isa_app
from .isa import register as register_levels
from .machines import machine_app, model_app
from .screen import plain, say, wrapped

app = App(no_args_is_help=True, pretty_exceptions_enable=False)
validate_app = App(no_args_is_help=True, help="Comparison with measured tables.")
app.add_typer(machine_app, name="machine")
app.add_typer(model_app, name="model")
app.add_typer(validate_app, name="validate")
app.add_typer(isa_app, name="isa")
app.add_typer(cluster_app, name="cluster")

cli_run.register(app)
cli_why.register(app)
cli_report.register(app)
cli_compare.register(app)
register_levels(app)
cli_mapping.register(app)
analytic_cli.register(app)
cli_validate.register(validate_app)


EXTRAS = (
    "torch",
    "jax",
    "onnx",
    "transformers",
    "safetensors",
    "pandas",
    "matplotlib",
    "bokeh",
    "scipy",
    "pyarrow",
    "openpyxl",
)


@app.command(epilog=epilog("doctor"))
def doctor() -> None:
    """Versions, what is installed, and where things lie."""
    import importlib.metadata

    def version(name: str) -> str:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return "not installed"

    lines = wrapped(f"tilesim {__version__}, Python {sys.version.split()[0]}, {platform.platform()}", hang="  ")
    lines += [f"  {name:<13} {version(name)}" for name in ("numpy", "ml_dtypes", *EXTRAS)]
    lines += wrapped(f"machines and devices in {configs_dir()}", hang="  ")
    lines += wrapped(f"machines: {', '.join(Machine.names())}", hang="  ")
    say([*lines, *wrapped(f"devices: {', '.join(Device.names())}", hang="  ")])


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
        bool, typer.Option("--no-color", help="No colours; the variable NO_COLOR says the same.")
    ] = False,
) -> None:
    """Tilesim simulates machine-learning accelerators at tile level. Start with: tilesim run resnet18."""
    if no_color:
        plain()


@functools.cache
def prepare() -> Any:
    """The commands as they are parsed, made once.

    Returns:
        What is called with words.
    """
    return typer.main.get_command(app)


def main() -> None:
    """Entry point: one clear message for the user's mistakes, no traceback; exit code 2."""
    try:
        prepare()(args=cli_mapping.with_store(sys.argv[1:]))
    except Error as error:
        told = f"tilesim: {error}"
        say(wrapped(told, hang="  ") if sys.stderr is not None and sys.stderr.isatty() else [told], err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        typer.echo(f"tilesim: {error.filename or 'file'}: {error.strerror or error}", err=True)
        sys.exit(2)
    except MemoryError as error:
        typer.echo(f"tilesim: {str(error) or 'there is not enough memory'}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("tilesim: interrupted", err=True)
        sys.exit(130)
