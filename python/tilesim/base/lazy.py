"""Imports the names of a package on first use, which keeps `import tilesim` quick.

It imports almost nothing: the command line begins here, and Ctrl-C must work soon.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as of typing, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


def lazy(package: str, modules: Mapping[str, str], inside: Iterable[str] = ()) -> Callable[[str], Any]:
    """A module-level `__getattr__` (PEP 562)."""
    known = frozenset(inside)

    def find(name: str) -> Any:
        import importlib

        if name not in modules and name not in known:
            places = (
                [] if name.startswith("_") else [importlib.import_module(f".{one}", package) for one in sorted(known)]
            )
            there = next(
                (f": it is {one.__name__}.{name}" for one in places if name in getattr(one, "__all__", ())), ""
            )
            raise AttributeError(f"module '{package}' has no attribute '{name}'{there}")
        if name in modules:
            value = getattr(importlib.import_module(modules[name], package), name)
        else:
            value = importlib.import_module(f".{name}", package)
        setattr(sys.modules[package], name, value)
        return value

    return find


def listed(names: Iterable[str]) -> Callable[[], list[str]]:
    """A module-level `__dir__` with only the public names."""
    return lambda: sorted(names)
