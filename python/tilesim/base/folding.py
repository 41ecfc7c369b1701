"""Folds repeated layers: names that differ only in layer numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

__all__ = ["fold", "pattern"]

_Row = TypeVar("_Row")
_LAYER = re.compile(r"(^|[._/\[])([a-zA-Z_]*?)([0-9]+)(?=[._/\]])")


@lru_cache(maxsize=1 << 15)
def pattern(name: str) -> str:
    """Replaces the layer numbers of a name by "*"."""
    return _LAYER.sub(r"\1\2*", name)


def fold(
    rows: Iterable[_Row], name: Callable[[_Row], str], alike: Callable[[_Row], Any] | None = None
) -> dict[Any, list[_Row]]:
    """Groups rows whose names differ only in layer numbers."""
    groups: dict[Any, list[_Row]] = {}
    for row in rows:
        groups.setdefault((pattern(name(row)), alike(row) if alike else None), []).append(row)
    return groups
