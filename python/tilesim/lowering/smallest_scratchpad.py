"""Finds the smallest scratchpad for which a graph compiles, for the error message."""

from __future__ import annotations

from collections.abc import Callable

from .. import _core
from .._core import UserError
from ..base.errors import user_error
from ..machine.machine import Machine

__all__ = ["with_smallest"]

SETTING = "core.scratchpad.bytes"
SUSPECT = 64 << 10  # a larger scratchpad is not the reason why no tile fits
MOST = 1 << 20
GRANULE = 64


def _smallest(compiles: Callable[[int], bool], size: int) -> int | None:
    """Returns a sufficient size in steps of 64 bytes, at most 3 % above the least; None if 1 MiB fails too."""
    low = size // GRANULE
    high = max(1, 2 * low)
    while not compiles(high * GRANULE):  # sizes that are too small fail at once
        low, high = high, 2 * high
        if high * GRANULE > MOST:
            return None
    while high - low > max(1, high // 32):
        middle = (low + high) // 2
        low, high = (low, middle) if compiles(middle * GRANULE) else (middle, high)
    return high * GRANULE


def with_smallest(error: Exception, machine: Machine, compile_for: Callable[[Machine], object]) -> Exception:
    """Adds the smallest sufficient scratchpad size to a compilation error if the machine's scratchpad is too small."""
    size = _core.parse_bytes(str(machine.get(SETTING)))
    if size >= SUSPECT:
        return error

    def compiles(count: int) -> bool:
        try:
            compile_for(machine.replace({SETTING: f"{count} B"}))
        except UserError:
            return False
        return True

    least = _smallest(compiles, size)
    if least is None:
        return error
    parts = {key: getattr(error, key, "") for key in ("what", "place", "value", "allowed", "suggestion")}
    parts["what"] = parts["what"] or str(error)
    from_on = f"The program compiles from {SETTING} of {least:,} B on: --set {SETTING}='{least} B'"
    hint = parts["suggestion"]
    parts["suggestion"] = ". ".join([*([hint.rstrip(".")] if " " in hint else []), from_on])
    told = user_error(**parts, sort=type(error))
    for key in ("operation", "function", "lack"):
        if hasattr(error, key):
            setattr(told, key, getattr(error, key))
    return told
