"""Imports the names of a package on first use, which makes `import tilesim` fast.

It imports almost nothing: the command line begins here, and Ctrl-C must work soon.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


def lazy(package: str, modules: Mapping[str, str], inside: Iterable[str] = ()) -> Callable[[str], Any]:
    """Returns a module-level `__getattr__` (PEP 562)."""
    known = frozenset(inside)

    def find(name: str) -> Any:
        import importlib

        if name not in modules and name not in known:
            if known and not name.startswith("_"):
                raise _unknown(package, name)
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        if name in modules:
            value = getattr(importlib.import_module(modules[name], package), name)
        else:
            value = importlib.import_module(f".{name}", package)
        setattr(sys.modules[package], name, value)
        return value

    return find


def _unknown(package: str, name: str) -> Exception:
    """The error for a missing name, which may be in a public module, a method of public classes, or misspelled."""
    from .errors import NoAttribute, nearest, user_error

    top = sys.modules[package]
    public = {one: getattr(top, one) for one in getattr(top, "__all__", ())}
    short = package.replace("tilesim", "ts", 1)
    places = [f"{short}.{one}" for one, value in public.items() if name in getattr(value, "__all__", ())]
    places += [f"{short}.{one}" for one, value in public.items() if isinstance(value, type) and hasattr(value, name)]
    hint = f"It is {' or '.join(f'{one}.{name}' for one in places[:5])}" if places else nearest(name, public)
    what = f"module '{package}' has no attribute '{name}'"
    return user_error(what, allowed="" if hint else ", ".join(public), suggestion=hint, sort=NoAttribute)


def listed(names: Iterable[str]) -> Callable[[], list[str]]:
    """Returns a module-level `__dir__` with only the public names."""
    return lambda: sorted(names)
