"""Where the result of a run goes: files, the terminal, advice behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.errors import user_error
from ..results.result import Result
from .load import write
from .screen import say, wrapped
from .show import advise, show

__all__ = ["Output", "baseline_of"]

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
            result.report(self.report, self.advice, self.baseline)
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
