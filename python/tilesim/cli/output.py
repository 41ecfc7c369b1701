"""Writes the files, terminal text and advice of `run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.declared import option
from ..base.errors import user_error
from ..base.screen import wrapped
from ..results.result import Result
from .load import write
from .options import Output
from .screen import say
from .show import advise, show

LONG_WITH_BANKS = 4_000_000_000
"""Bytes moved beyond which advice needs --advice, since each simulation takes some ten seconds."""
LONG_IN_TILES = 200_000_000
"""Tile operations beyond which advice needs --advice."""


@dataclass(frozen=True)
class RunOutput(Output):
    """Output options of `run`."""

    advice: bool | None = option(
        None, "Simulate changed machines and list the best changes; default: unless it takes minutes."
    )
    explain: list[str] | None = option(
        None,
        "Explain bounds (least bytes and time per operation), memory (addresses and lifetimes) or fusion (all groups).",
        words=list[str],
    )

    def baseline(self) -> Result | None:
        """Loads the result of --against; None without it. --against without --html is an error."""
        if self.against is not None and self.html is None:
            what, remedy = "--against needs --html", "Add --html F"
            raise user_error(what, place="--against", value=self.against, suggestion=remedy)
        return Result.load(self.against) if self.against is not None else None

    def write(self, results: Mapping[str, Result], baseline: Result | None) -> None:
        """Writes the requested files for one result, or for several results by name."""
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
        """Simulates changed machines and prints advice, unless it is disabled or takes minutes."""
        if self.quiet or self.advice is False:
            return
        long = result.data["fidelity"].get("memory") == "bank" and result.memory_bytes > LONG_WITH_BANKS
        long = long or result.data.get("tile_operations", 0) > LONG_IN_TILES
        if long and not self.advice:
            say(["", *wrapped("No advice was simulated because it takes long; --advice does it.")])
            return
        result._advised = advise(result)
        if self.json and not self.silent:
            result.save(self.json)  # again, now with the advice
