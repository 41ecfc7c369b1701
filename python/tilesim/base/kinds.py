"""Checks types of values in JSON files, for all readers in Python."""

from __future__ import annotations

from typing import Any

from .errors import user_error

_NAMES = {str: "a text", int: "an integer", float: "a finite number", bool: "true or false", dict: "an object"}


def as_kind(value: Any, kind: Any, place: str) -> Any:
    """Checks a value against a type, and returns it."""
    if isinstance(kind, list):
        if not isinstance(value, (list, tuple)):
            raise _wrong_type(value, "a list", place)
        for index, item in enumerate(value):
            as_kind(item, kind[0], f"{place}[{index}]")
    elif isinstance(kind, dict):
        as_kind(value, dict, place)
        for key, item in value.items():
            as_kind(key, str, place)
            as_kind(item, kind[str], f"{place}.{key}")
    elif kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not -1.7e308 < value < 1.7e308:  # the number must be finite
            raise _wrong_type(value, _NAMES[kind], place)
    elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong_type(value, _NAMES[kind], place)
    return value


def _wrong_type(value: Any, wanted: str, place: str) -> Exception:
    text = f"{value:.9g}" if isinstance(value, float) else "a large integer" if _large(value) else repr(value)
    return user_error("a value has the wrong type", place=place, value=text[:100], allowed=wanted)


def _large(value: Any) -> bool:
    """Whether Python cannot print the number, or would need long."""
    return isinstance(value, int) and value.bit_length() > 4096
