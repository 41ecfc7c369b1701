"""Where the result of a run goes: files, the terminal, advice behind it; on a device, an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import typer

from ..base.errors import user_error
from ..graph import Graph
from ..machine.device import Device
from ..program.program import Program
from ..results.result import Result
from ..timing.estimated import only_simulated, quantized_estimate
from .load import write
from .screen import say, wrapped
from .show import advise, show, step

__all__ = ["TAKEN", "Output", "baseline_of", "run_estimate"]

LONG_WITH_BANKS = 4_000_000_000
"""Bytes moved beyond which changed machines are not simulated unless asked for: some ten seconds each."""
LONG_IN_TILES = 200_000_000
"""Tile operations beyond which they are not either: the same."""


def baseline_of(path: str | None, report: str | None) -> Result | None:
    """The result that a page compares with.

    Args:
        path: file of a saved result; none: none.
        report: the page that was asked for.

    Returns:
        The result.

    Raises:
        UserError: for a file that is no result, or without a page.
    """
    if path is not None and report is None:
        raise user_error("there is no page to compare in", place="--baseline", value=path, suggestion="Add --report F")
    return Result.load(path) if path is not None else None


@dataclass(frozen=True)
class Output:
    """What a run was asked to write."""

    json: str | None = None
    report: str | None = None
    quiet: bool = False
    advice: bool | None = None
    everything: bool = False
    baseline: Result | None = None

    def write(self, result: Result | None, several: Mapping[str, Result] | None = None) -> None:
        """Writes the files that were asked for.

        Args:
            result: of the run; none: there are several.
            several: by name.
        """
        if self.report and result is not None:
            result.to_html(self.report, self.advice, self.baseline)
        if self.json and result is not None and self.json != "-":
            result.save(self.json)
        elif self.json:
            named = {name: one.data for name, one in (several or {}).items()}
            write(named if result is None else result.data, self.json)

    def show(self, result: Result) -> None:
        """Prints a result.

        Args:
            result: of the run.
        """
        if self.quiet:
            say(wrapped(result.summary(), hang="  "))
        else:
            show(result, self.everything)

    def advise(self, result: Result) -> None:
        """Tries what would help, after the result is seen.

        Args:
            result: of the run.
        """
        if self.quiet or self.advice is False:
            return
        long = result.data["fidelity"].get("memory") == "bank" and result.memory_bytes > LONG_WITH_BANKS
        long = long or result.data.get("tile_operations", 0) > LONG_IN_TILES
        if not long or self.advice:
            result._advised = advise(result)
            if self.json and self.json != "-":
                result.save(self.json)  # with the advice
            return
        say(["", *wrapped("Changed machines were not simulated, which takes long: --advice does it.")])


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
