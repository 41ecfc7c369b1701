"""Where the result of a run goes: files, the terminal, advice behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.declared import option
from ..base.errors import user_error
from ..results.result import Result
from .load import write
from .options import Output
from .screen import say, wrapped
from .show import advise, show

LONG_WITH_BANKS = 4_000_000_000
"""Bytes moved beyond which changed machines are not simulated unless asked for: some ten seconds each."""
LONG_IN_TILES = 200_000_000
"""Tile operations beyond which they are not either: the same."""


@dataclass(frozen=True)
class RunOutput(Output):
    """Where the result of a run goes, and what is said of it."""

    advice: bool | None = option(
        None, "Simulate changed machines, and say which change helps most: done unless it takes minutes."
    )
    explain: list[str] | None = option(
        None,
        "bounds: the least bytes and time, by operation; memory: addresses by lifetime; fusion: every group.",
        words=list[str],
    )

    def baseline(self) -> Result | None:
        """The result that the page compares with."""
        if self.against is not None and self.html is None:
            what, remedy = "--against compares in a page", "Add --html F"
            raise user_error(what, place="--against", value=self.against, suggestion=remedy)
        return Result.load(self.against) if self.against is not None else None

    def write(self, results: Mapping[str, Result], baseline: Result | None) -> None:
        """Writes the files that were asked for: one result, or several by name."""
        (only,) = results.values() if len(results) == 1 else (None,)
        if self.html and only is not None:
            only.to_html(self.html, self.advice, baseline)
        if self.json and only is not None and not self.silent:
            only.save(self.json)
        elif self.json:
            write(only.data if only is not None else {name: one.data for name, one in results.items()}, self.json)

    def show(self, result: Result) -> None:
        """Prints a result."""
        if self.quiet:
            say(wrapped(result.summary(), hang="  "))
        else:
            show(result, self.all)

    def advise(self, result: Result) -> None:
        """Tries what would help, after the result is seen."""
        if self.quiet or self.advice is False:
            return
        long = result.data["fidelity"].get("memory") == "bank" and result.memory_bytes > LONG_WITH_BANKS
        long = long or result.data.get("tile_operations", 0) > LONG_IN_TILES
        if long and not self.advice:
            say(["", *wrapped("Changed machines were not simulated, which takes long: --advice does it.")])
            return
        result._advised = advise(result)
        if self.json and not self.silent:
            result.save(self.json)  # with the advice
