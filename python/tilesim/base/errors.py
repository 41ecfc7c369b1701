"""Errors that Tilesim raises; those of the Python half are worded as those of the core."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core import Error, InternalError, Unsupported, UserError

__all__ = [
    "MOST",
    "OF_WORKLOADS",
    "Error",
    "InternalError",
    "UnknownKey",
    "Unsupported",
    "UserError",
    "WrongCall",
    "listed",
    "nearest",
    "of_workload",
    "path_text",
    "placed",
    "shown",
    "unsupported",
    "user_error",
]

MOST = 200  # characters of a value in a message


def shown(value: Any) -> str:
    """A value as a message holds it: on one line, not too long, whatever the object does when it is asked."""
    if isinstance(value, (str, bytes)) and len(value) > MOST:
        value = value[:MOST]
    try:
        if isinstance(value, (list, tuple, set, frozenset, dict)) and len(value) > 1000:
            return f"a {type(value).__name__} of {len(value)} elements"
        text = repr(value)
    except Exception:
        text = f"an object of {type(value).__name__}"
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) < MOST / 2 else f"a {type(value).__name__}: {text[: MOST // 2]}..."


def listed(names: Iterable[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    found = list(names)
    more = f", and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _short(text: str, most: int = MOST) -> str:
    """Of a file or a command line: on one line, and not too long."""
    text = text if len(text) <= most else text[:most] + "..."
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Errors of the block name a place first, a file for one, unless they do already."""
    try:
        yield
    except UserError as error:
        said = {name: str(getattr(error, name, "")) for name in ("what", "place", "value", "allowed", "suggestion")}
        if not said["what"] or said["place"].startswith(place):
            raise
        inside = f"{place}: {said['place']}" if said["place"] else place
        raise user_error(said.pop("what"), **{**said, "place": inside}, sort=type(error)) from None


def user_error(
    what: str,
    *,
    place: str = "",
    value: str = "",
    allowed: str = "",
    suggestion: str = "",
    sort: type[Exception] = UserError,
) -> Exception:
    """A `UserError` (or another `sort`) with its parts, worded as those of the core are."""
    value, place, what = _short(value), _short(place, 1000), _short(what, 500)
    allowed, suggestion = _short(allowed, 4000), _short(suggestion, 1000)
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


class WrongCall(UserError, TypeError):
    """A call that lacks an argument, or has one that does not exist."""


class UnknownKey(UserError, KeyError):
    """A key that a mapping lacks: a mistake of the user, and what `Mapping` asks for."""

    __str__ = Exception.__str__


#: what a workload is built with, wherever one is named
OF_WORKLOADS = ("batch", "context", "sequence", "phase", "dtype")


def of_workload(name: str, value: Any, model: Any = None) -> str:
    """What helps where an option belongs to the workload."""
    if name not in OF_WORKLOADS:
        return ""
    named = repr(model) if isinstance(model, str) and len(model) < MOST / 2 else "name"
    return f"It belongs to the workload: ts.models.build({named}, {name}={shown(value)})"


def path_text(path: Any, place: str = "") -> str:
    """A path as text; a `UserError` (that names the place) where it is none."""
    try:
        text = os.fspath(path)
    except Exception:  # also an object's own
        text = None
    if not isinstance(text, str):
        raise user_error("this is no path", place=place, value=shown(path), allowed="a text or a pathlib.Path")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        allowed = "a text without zero bytes, that is UTF-8"
        raise user_error("this is no path", place=place, value=shown(text), allowed=allowed)
    return str.__str__(text)  # of an enum its value, which it may format as its name


def unsupported(what: str, *, place: str = "", value: str = "", allowed: str = "", suggestion: str = "") -> Exception:
    """An `Unsupported` with its parts: what is legal but cannot be done."""
    return user_error(what, place=place, value=value, allowed=allowed, suggestion=suggestion, sort=Unsupported)


_ALIKE = str.maketrans("oil", "011")  # letters that are taken for digits


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Of `candidates` the shortest that begins with `word`, else the closest; "" when none is close.

    The core words its suggestions by the same order. Capitals do not count, nor "-" for "_".
    """
    known: dict[str, str] = {}
    for candidate in candidates:
        known.setdefault(_plain(candidate), candidate)
    asked = _plain(word)
    if len(asked) > 1:
        begun = min((one for one in known if one.startswith(asked)), key=len, default="")
        if begun:
            return known[begun]
    alike = next((one for one in known if one.translate(_ALIKE) == asked.translate(_ALIKE)), None)
    if alike is not None:
        return known[alike]
    return next((known[one] for one in difflib.get_close_matches(asked, known, n=1)), "")


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
