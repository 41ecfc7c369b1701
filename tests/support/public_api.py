"""The public interface: names of `ts`, of its namespaces, and the classes that public calls return."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tilesim as ts

PACKAGE = Path(ts.__file__).resolve().parent
#: Modules whose `__all__` is public.
NAMESPACES = (
    "analytic", "cluster", "executors", "frontends", "isa", "mapping", "mapping_import", "memory", "models", "network",
    "study", "views", "workloads",
)  # fmt: skip


@functools.cache
def _places() -> dict[str, list[str]]:
    """Modules that define a class, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return found


def function_of(member: Any) -> Any:
    """The function behind a member of a class: of a method, a property, a cached property; None for other values."""
    inner = member.fget if isinstance(member, property) else getattr(member, "__func__", None) or member
    inner = inner.func if isinstance(inner, functools.cached_property) else inner
    return inspect.unwrap(inner) if inspect.isroutine(inner) and inspect.isfunction(inspect.unwrap(inner)) else None


def members(owner: type) -> dict[str, Any]:
    """Public members of a class, those of bases that have no name in `ts` too."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        if base is owner or (base.__module__.startswith("tilesim.") and base.__name__ not in ts.__all__):
            found |= {key: value for key, value in vars(base).items() if not key.startswith("_")}
    return found


def _returned(function: Any) -> Iterator[tuple[str, type]]:
    text = function.__annotations__.get("return", "")
    for name in re.findall(r"\b[A-Z]\w+", text if isinstance(text, str) else getattr(text, "__name__", "")):
        places = _places().get(name, [])
        if len(places) == 1:
            yield f"{places[0]}.{name}", getattr(importlib.import_module(places[0]), name)


@functools.cache
def public() -> dict[str, Any]:
    """Functions and classes by their name; a class that is only returned has the name of its module before its own."""
    found: dict[str, Any] = {
        f"ts.{name}": getattr(ts, name) for name in ts.__all__ if not inspect.ismodule(getattr(ts, name))
    }
    for space in NAMESPACES:
        module = importlib.import_module(f"tilesim.{space}")
        found |= {f"ts.{space}.{name}": getattr(module, name) for name in module.__all__}
    seen = {value for value in found.values() if inspect.isclass(value)}
    todo = list(found.values())
    while todo:
        value = todo.pop()
        functions = list(map(function_of, members(value).values())) if inspect.isclass(value) else [function_of(value)]
        for function in filter(None, functions):
            for name, owner in _returned(function):
                if owner not in seen:
                    seen.add(owner)
                    found[name] = owner
                    todo.append(owner)
    return found
