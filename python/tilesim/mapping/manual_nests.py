"""Reads manual loop nests: complete lists of loops, or tile sizes by loop name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import shown, user_error
from .entries import NEST_FIELDS, SIZE_FIELDS

__all__ = ["EXAMPLE", "by_loops", "checked_nest", "is_nest"]

EXAMPLE = '{"matmul": {"tiles": {"m": 128, "n": 128, "k": 512}, "order": ["m", "n", "k"], "depths": [2, 2, 2]}}'
_PRODUCT = ("unit", "pack", "unfold")  # fields that a product's nest may have in addition to its lists


def _lists(nest: Mapping[str, Any]) -> tuple[str, ...]:
    return ("tiles",) if "lane" in nest else ("tiles", "order", "depths")


def is_nest(nest: Any) -> bool:
    """Whether a value has all lists of a nest, as numbers."""
    if not isinstance(nest, Mapping) or not set(_lists(nest)) <= set(nest):
        return False
    parts = [*(nest[key] for key in _lists(nest)), *([nest["sub"]] if "sub" in nest else [])]
    order = nest.get("order", ())
    named = not isinstance(order, str) and isinstance(order, Sequence) and any(isinstance(loop, str) for loop in order)
    return not named and not any(isinstance(part, Mapping) for part in parts)


def by_loops(nest: Any, place: str) -> dict[str, Any]:
    """Converts a nest to an entry of a table; a dict that has only sizes by loop becomes its tiles."""
    if not isinstance(nest, Mapping) or not nest:
        raise user_error("the mapping lacks tiles", place=place, value=shown(nest), allowed=EXAMPLE)
    fields = {*NEST_FIELDS, *SIZE_FIELDS}
    if not fields & set(nest) and all(type(size) is int for size in nest.values()):
        return {"tiles": {str(name): int(size) for name, size in nest.items()}}
    if "tiles" not in nest and not set(SIZE_FIELDS) & set(nest):
        named = ", ".join(map(str, nest))
        raise user_error("the mapping lacks tiles", place=place, value=named, allowed=EXAMPLE)
    return dict(nest)


def checked_nest(nest: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Checks the form of a nest of lists."""
    vector, lists = "lane" in nest, _lists(nest)
    others = {"sub", "contexts", *(("lane", "depth") if vector else _PRODUCT)}
    if unknown := [str(key) for key in nest if key not in {*lists, *others}]:
        allowed = ", ".join((*lists, *sorted(others)))
        raise user_error("unknown field of a nest", place=place, value=", ".join(unknown), allowed=allowed)
    checked: dict[str, Any] = {}
    for key in (*lists, *(("sub",) if "sub" in nest else ())):
        numbers = list(nest[key]) if isinstance(nest[key], Sequence) else nest[key]
        if not isinstance(numbers, list) or not all(type(n) is int and abs(n) < 2**31 for n in numbers):
            raise user_error(f"'{key}' is not a list of integers", place=place, value=shown(nest[key]), allowed=EXAMPLE)
        checked[key] = numbers
    rest = {key: nest[key] for key in sorted(others) if key in nest and key not in checked}
    return checked | (rest if vector else {"unit": "array"} | rest)
