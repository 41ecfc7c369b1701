"""Levels at which tile operations are executed and timed."""

from __future__ import annotations

from ..base.arguments import one_of
from ..base.errors import user_error
from .latencies import INSTRUCTION, TileLatencies

__all__ = ["LEVELS", "checked_level", "kernel_latencies"]

LEVELS = ("tile", "instruction", "live")

_shared: dict[str, TileLatencies] = {}


def checked_level(level: str) -> str:
    """Checks the name of a level."""
    one_of("unknown level", "level", level, *LEVELS)
    return level


def kernel_latencies(level: str, latencies: TileLatencies | None) -> TileLatencies | None:
    """Selects the tile latencies for a simulation at a level."""
    checked_level(level)
    if level == "live" and latencies is not None:
        raise user_error(
            "level 'live' simulates kernels together and uses no stored latencies",
            place="latencies",
            value=latencies.source,
            allowed="none at level 'live'",
            suggestion="Leave it out, or use level='instruction'",
        )
    if level != "instruction":
        return latencies
    if latencies is None:
        return _shared.setdefault("", TileLatencies(source=INSTRUCTION))
    if latencies.source != INSTRUCTION:
        raise user_error(
            "the instruction level needs latencies of source 'instruction'",
            place="latencies",
            value=latencies.source,
            allowed=f"ts.TileLatencies(source='{INSTRUCTION}')",
        )
    return latencies
