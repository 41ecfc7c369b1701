"""Calls functions of higher modules by registered names, so that lower modules need not import these modules."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_places: dict[str, str] = {}


def enter(places: Mapping[str, str]) -> None:
    """Registers the module and function of each call."""
    _places.update(places)


class LateCalls(dict):
    """Functions by name, imported on first use."""

    def __missing__(self, name: str) -> Any:
        """Imports the module of a call."""
        import importlib

        module, _, called = _places[name].partition(":")
        self[name] = found = getattr(importlib.import_module(module), called)
        return found
