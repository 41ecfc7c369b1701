"""`tilesim run` on a device: an estimate, and what is refused because only a simulation gives it."""

from __future__ import annotations

import typer

from ..base.errors import user_error
from ..graph import Graph
from ..machine.device import Device
from ..program.program import Program
from ..timing.estimated import only_simulated, quantized_estimate
from .output import Output
from .screen import say, wrapped
from .show import step

__all__ = ["TAKEN", "run_estimate"]

TAKEN = frozenset(
    (
        *("model", "machine", "batch", "context", "phase", "dtype", "passes", "quantize_"),
        *("json_", "report", "baseline", "quiet", "advice", "everything"),
    )
)
"""Parameters of `run` that mean something without a simulation."""


def _refused(context: typer.Context) -> list[str]:
    """Options on the command line that only a simulation has."""
    others = [one for one in context.command.params if one.name not in TAKEN]
    sources = [context.get_parameter_source(str(one.name)) for one in others]
    return [one.opts[0] for one, source in zip(others, sources, strict=True) if source and source.name == "COMMANDLINE"]


def run_estimate(
    context: typer.Context, loaded: Graph | Program, device: Device, out: Output, quantize: str | None = None
) -> None:
    """Estimates and prints.

    Args:
        context: of the command line.
        loaded: the workload.
        device: that was named.
        out: what is written.
        quantize: as for `ts.quantize`.

    Raises:
        UserError: for an option that an estimate does not have, or a compiled program.
    """
    if refused := _refused(context):
        raise only_simulated(device, refused)
    if isinstance(loaded, Program):
        what = f"{device.name} is a device, which is estimated from a graph: this is a compiled program"
        raise user_error(what, value=device.name, suggestion="Take the graph, or a machine")
    with step(f"estimating {device.name}"):
        result = quantized_estimate(loaded, device, quantize)
    out.write(result)
    if out.json == "-":
        return
    if not out.quiet:
        text = f"{device.name} is a device: estimated in closed form, not simulated (tilesim roofline tells more)."
        say(wrapped(text, hang="  "))
    out.show(result)
    out.advise(result)
