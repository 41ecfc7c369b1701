"""Errors raised by the Python half, worded as those of the core."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from . import _core


def user_error(what: str, *, place: str = "", value: str = "", allowed: str = "", suggestion: str = "") -> Exception:
    """A `UserError` with its parts, worded as those of the core are."""
    text = f"{place}: {what}" if place else what
    detail = "; ".join(
        part for part in (f"got {value}" if value else "", f"allowed: {allowed}" if allowed else "") if part
    )
    if detail:
        text += f" ({detail})"
    if suggestion:
        text += f". {suggestion}" if " " in suggestion else f". Did you mean '{suggestion}'?"
    error: Exception = _core.UserError(text)
    for key, part in {
        "what": what,
        "place": place,
        "value": value,
        "allowed": allowed,
        "suggestion": suggestion,
    }.items():
        setattr(error, key, part)
    return error


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The closest of `candidates`, or "" when none is close."""
    return next(iter(difflib.get_close_matches(word, list(candidates), n=1)), "")
