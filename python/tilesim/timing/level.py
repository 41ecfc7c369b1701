"""The level at which tile computes are carried out and timed."""

from __future__ import annotations

from ..base.arguments import one_of
from ..base.errors import user_error
from .latencies import INSTRUCTION, TileLatencies

__all__ = ["LEVELS", "checked_level", "kernel_latencies"]

LEVELS = ("tile", "instruction", "live")

_shared: dict[str, TileLatencies] = {}


def checked_level(level: str) -> str:
    """A level that can be run."""
    one_of("unknown level", "level", level, *LEVELS)
    return level


def kernel_latencies(level: str, latencies: TileLatencies | None) -> TileLatencies | None:
    """The store that a simulation at a level asks."""
    checked_level(level)
    if level == "live" and latencies is not None:
        raise user_error(
            "kernels that run beside each other take the time that the core leaves them, not one that is kept",
            place="latencies",
            value=latencies.source,
            allowed="none at level 'live'",
            suggestion="leave it out, or level='instruction'",
        )
    if level != "instruction":
        return latencies
    if latencies is None:
        return _shared.setdefault("", TileLatencies(source=INSTRUCTION))
    if latencies.source != INSTRUCTION:
        raise user_error(
            "latencies of another source at instruction level",
            place="latencies",
            value=latencies.source,
            allowed=f"ts.TileLatencies(source='{INSTRUCTION}')",
        )
    return latencies
