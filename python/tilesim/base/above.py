"""Calls of floors above, known below by their names alone. The package says where they are; it imports none of them."""

from __future__ import annotations

TYPE_CHECKING = False  # as of typing, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_places: dict[str, str] = {}


def enter(places: Mapping[str, str]) -> None:
    """Says where calls are."""
    _places.update(places)


class Above(dict):
    """Calls by name, imported when they are first asked for."""

    def __missing__(self, name: str) -> Any:
        """Imports the module of a call that has not been asked for yet."""
        import importlib

        module, _, called = _places[name].partition(":")
        self[name] = found = getattr(importlib.import_module(module), called)
        return found
