"""Public names and signatures are those of public_names.txt: a change of what users call is seen, and meant."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts

LIST = Path(__file__).with_name("public_names.txt")
MODULES = ("isa", "mapping", "memory", "models", "network", "views", "workloads", "mapping_import")
#: Modules that stay importable besides those.
IMPORTABLE = ("analytic", "frontends", "graph", "machine", "frontends.torch_backend")


def lines_of(name: str, value: Any) -> list[str]:
    """One line for a function, one for each public member of a class."""
    if inspect.isclass(value):
        found = [f"{name}{_bases(value)}"]
        for key, member in sorted(_members(value).items()):
            plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            if not key.startswith("_") and (inspect.isfunction(plain) or isinstance(member, property)):
                text = "" if isinstance(member, property) else str(inspect.signature(plain))
                found.append(f"{name}.{key}{text}")
        return found
    return [f"{name}{inspect.signature(value)}"] if inspect.isfunction(value) else [name]


def _members(value: type) -> dict[str, Any]:
    """Members of a class, also those of bases of ours that are not public themselves."""
    found: dict[str, Any] = {}
    for base in reversed(value.__bases__):
        if base.__module__.startswith("tilesim.") and not hasattr(ts, base.__name__):
            found |= _members(base)
    return found | dict(vars(value))


def _bases(value: type) -> str:
    return f"({', '.join(base.__name__ for base in value.__bases__ if base is not object)})"


def public() -> list[str]:
    """All public names with their signatures."""
    found = []
    for name in sorted(ts.__all__):
        found += lines_of(f"ts.{name}", getattr(ts, name))
    for module in MODULES:
        inside = importlib.import_module(f"tilesim.{module}")
        for name in sorted(getattr(inside, "__all__", [])):
            found += lines_of(f"ts.{module}.{name}", getattr(inside, name))
    return found


def test_names_and_signatures() -> None:
    text = "\n".join(public()) + "\n"
    if not LIST.is_file() or LIST.read_text(encoding="utf-8") != text:
        new = LIST.with_suffix(".txt.new")
        new.write_text(text, encoding="utf-8")
        pytest.fail(f"public names changed: compare {LIST.name} with {new.name}, and move it over if they are meant")


@pytest.mark.parametrize("name", [*MODULES, *IMPORTABLE])
def test_modules_stay_importable(name: str) -> None:
    if name == "frontends.torch_backend":
        pytest.importorskip("torch")
    module = importlib.import_module(f"tilesim.{name}")
    if name == "frontends.torch_backend":
        assert {"register", "reset", "records", "results", "report"} <= set(dir(module))
