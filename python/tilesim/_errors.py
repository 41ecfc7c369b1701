"""Errors raised by the Python half, worded as those of the core."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import Any

from . import _core


def user_error(
    what: str,
    *,
    place: str = "",
    value: str = "",
    allowed: str = "",
    suggestion: str = "",
    sort: type[Exception] = _core.UserError,
) -> Exception:
    """A `UserError` (or another `sort`) with its parts, worded as those of the core are."""
    text = f"{place}: {what}" if place else what
    detail = "; ".join(
        part for part in (f"got {value}" if value else "", f"allowed: {allowed}" if allowed else "") if part
    )
    if detail:
        text += f" ({detail})"
    if suggestion:
        text += f". {suggestion}" if " " in suggestion else f". Did you mean '{suggestion}'?"
    error: Exception = sort(text)
    for key, part in {
        "what": what,
        "place": place,
        "value": value,
        "allowed": allowed,
        "suggestion": suggestion,
    }.items():
        setattr(error, key, part)
    return error


def path_text(path: Any) -> str:
    """A path as text; a `UserError` where it is none."""
    if not isinstance(path, (str, os.PathLike)):
        raise user_error("this is no path", value=repr(path), allowed="a text or a pathlib.Path")
    return str(os.fspath(path))


def unsupported(what: str, *, place: str = "", value: str = "", allowed: str = "", suggestion: str = "") -> Exception:
    """An `Unsupported` with its parts: what is legal but cannot be done."""
    return user_error(what, place=place, value=value, allowed=allowed, suggestion=suggestion, sort=_core.Unsupported)


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The closest of `candidates`, or "" when none is close."""
    return next(iter(difflib.get_close_matches(word, list(candidates), n=1)), "")
