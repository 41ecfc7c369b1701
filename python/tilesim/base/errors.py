"""Errors that Tilesim raises, with the wording that the core uses."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core import Error, InternalError, Unsupported, UserError

__all__ = [
    "MOST",
    "WORKLOAD_OPTIONS",
    "Error",
    "InternalError",
    "NoAttribute",
    "UnknownKey",
    "Unsupported",
    "UserError",
    "WrongCall",
    "as_number",
    "listed",
    "nearest",
    "path_text",
    "placed",
    "shown",
    "unsupported",
    "user_error",
    "workload_hint",
]

MOST = 200  # most characters of a value in a message


def shown(value: Any) -> str:
    """Formats a value for a message: one line, shortened; objects whose `repr` raises are named by their type."""
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


def as_number(value: Any) -> str:
    """Suggests the number that a text, or a float without fraction, represents; "" for other values."""
    try:
        number = int(value, 0) if isinstance(value, str) else int(value) if value == int(value) else None
    except Exception:  # an error inside the object itself also ends here
        try:
            number = float(value) if isinstance(value, str) else None  # type: ignore[assignment]
        except ValueError:
            number = None
    if number is None or isinstance(value, (bool, int)):
        return ""
    return f"Write {value.strip()}, without quotes" if isinstance(value, str) else f"Write {shown(number)}"


def listed(names: Iterable[str], most: int = 12) -> str:
    """Lists the first names, and the number of the others."""
    found = list(names)
    more = f", and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _short(text: str, most: int = MOST) -> str:
    """Makes a text from a file or a command line printable and short."""
    text = text if len(text) <= most else text[:most] + "..."
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Adds a place (such as a file) before errors of the block, unless they begin with it."""
    try:
        yield
    except UserError as error:
        said = {name: str(getattr(error, name, "")) for name in ("what", "place", "value", "allowed", "suggestion")}
        if not said["what"] or said["place"].startswith(place):
            raise
        inside = f"{place}: {said['place']}" if said["place"] else place
        raise user_error(said.pop("what"), **{**said, "place": inside}, sort=type(error)) from None


#: words of a message -> the command that lists all names of that kind
_LISTS = {"machine": "machine list", "device": "device list", "model": "model list",
          "workload": "model list", "cluster": "cluster list", "setting": "machine settings"}  # fmt: skip


def _few(what: str, value: str, allowed: str) -> str:
    """Shortens a long list of allowed names to the nearest names and the command that lists all."""
    names = list(dict.fromkeys(allowed.split(", ")))
    last = [names.pop()] if " " in names[-1].replace(" unit", "") else []  # "a .json file" after the names
    command = next(
        (
            f": tilesim {one} lists all"
            for word, one in _LISTS.items()
            if word in what and what.startswith(("unknown", "not a"))
        ),
        "",
    )
    few = 5 if command else 12
    if len(names) <= few + 1 or any(" " in name.removesuffix(" unit") for name in names):
        return allowed
    near = difflib.get_close_matches(value.strip("'\""), names, few, 0.5)
    found = [*near, *(name for name in names if name not in near)][:few]
    return f"{', '.join([*found, *last])}, and {len(names) - few:,} more{command}"


def user_error(
    what: str,
    *,
    place: str = "",
    value: str = "",
    allowed: str = "",
    suggestion: str = "",
    sort: type[Exception] = UserError,
) -> Exception:
    """Makes a `UserError` (or another `sort`) from its parts, in the core's wording."""
    value, place, what = _short(value), _short(place, 1000), _short(what, 500)
    allowed, suggestion = _short(allowed, 4000), _short(suggestion, 1000)
    text = f"{place}: {what}" if place else what
    detail = "; ".join(
        part
        for part in (f"got {value}" if value else "", f"allowed: {_few(what, value, allowed)}" if allowed else "")
        if part
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
    """The error for a call with a missing or an unknown argument."""


class NoAttribute(UserError, AttributeError):
    """A missing attribute, or one that cannot be assigned: a user's mistake, and the `AttributeError` of Python."""


class UnknownKey(UserError, KeyError):
    """The error for a missing key: a user error that is also the `KeyError` that `Mapping` requires."""

    __str__ = Exception.__str__


#: options that build a workload from its name
WORKLOAD_OPTIONS = ("batch", "context", "sequence", "phase", "dtype")


def workload_hint(name: str, value: Any, model: Any = None) -> str:
    """Suggests how to pass an option that belongs to the workload."""
    if name not in WORKLOAD_OPTIONS:
        return ""
    named = repr(model) if isinstance(model, str) and len(model) < MOST / 2 else "name"
    return f"It belongs to the workload: ts.models.build({named}, {name}={shown(value)})"


def path_text(path: Any, place: str = "") -> str:
    """Converts a path to text; raises a `UserError` with the place for anything else."""
    try:
        text = os.fspath(path)
    except Exception:  # the object may raise errors of any type
        text = None
    if not isinstance(text, str):
        raise user_error("not a path", place=place, value=shown(path), allowed="a string or a pathlib.Path")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        allowed = "a UTF-8 string without zero bytes"
        raise user_error("not a path", place=place, value=shown(text), allowed=allowed)
    return str.__str__(text)  # takes an enum's value, not its name


def unsupported(what: str, *, place: str = "", value: str = "", allowed: str = "", suggestion: str = "") -> Exception:
    """Makes an `Unsupported` from its parts: a legal request that Tilesim cannot serve."""
    return user_error(what, place=place, value=value, allowed=allowed, suggestion=suggestion, sort=Unsupported)


_ALIKE = str.maketrans("oil", "011")  # letters that resemble digits


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Returns the shortest candidate that begins with `word`, else the most similar; "" if none is similar.

    The core orders its suggestions the same way. Case, and "-" against "_", do not count.
    """
    known: dict[str, str] = {}
    for candidate in candidates:
        known.setdefault(_normalized(candidate), candidate)
    asked = _normalized(word)
    if len(asked) > 1:
        begun = min((one for one in known if one.startswith(asked)), key=len, default="")
        if begun:
            return known[begun]
    short = next((one for one in known if "".join(part[:1] for part in one.split("_")) == asked), None)
    if short is not None and len(asked) > 1:
        return known[short]
    alike = next((one for one in known if one.translate(_ALIKE) == asked.translate(_ALIKE)), None)
    if alike is not None:
        return known[alike]
    return next((known[one] for one in difflib.get_close_matches(asked, known, n=1)), "")


def unknown(what: str, name: Any, known: Iterable[str], *, place: str = "") -> Exception:
    """Makes the error for an unknown name: lists the known ones and suggests the nearest."""
    names = list(known)
    close = nearest(str(name), names)
    return user_error(f"unknown {what}", place=place, value=shown(name), allowed=", ".join(names), suggestion=close)


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_")
