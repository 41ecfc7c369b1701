"""Public names and signatures are those of public_names.txt: a change of what users call is seen, and meant."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.public_api import NAMESPACES, members, public

LIST = Path(__file__).with_name("public_names.txt")
#: Modules that stay importable besides the namespaces.
IMPORTABLE = ("graph", "machine", "frontends.torch_backend")


def lines_of(name: str, value: Any) -> list[str]:
    """One line for a function, one for each public member of a class."""
    if not inspect.isclass(value):
        return [f"{name}{inspect.signature(value)}" if inspect.isfunction(value) else name]
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    found = [f"{name}({bases})"]
    for key, member in sorted(members(value).items()):
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if inspect.isfunction(plain) or isinstance(member, property):
            found.append(f"{name}.{key}{'' if isinstance(member, property) else inspect.signature(plain)}")
    return found


@pytest.mark.parametrize("name", ["", *NAMESPACES])
def test_dir_shows_the_public_names_alone(name: str) -> None:
    module = importlib.import_module(f"tilesim.{name}".rstrip("."))
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, one) is not None for one in module.__all__)


def test_the_top_is_small() -> None:
    assert len(ts.__all__) <= 52


def test_a_name_of_a_namespace_is_found_from_the_top() -> None:
    with pytest.raises(AttributeError, match=r"It is ts\.mapping\.MappingTable"):
        ts.MappingTable  # noqa: B018
    assert not hasattr(ts, "no_such_name") and not hasattr(ts, "__wrapped__")


def test_names_and_signatures() -> None:
    text = "\n".join(line for name, value in sorted(public().items()) for line in lines_of(name, value)) + "\n"
    if not LIST.is_file() or LIST.read_text(encoding="utf-8") != text:
        new = LIST.with_suffix(".txt.new")
        new.write_text(text, encoding="utf-8")
        pytest.fail(f"public names changed: compare {LIST.name} with {new.name}, and move it over if they are meant")


@pytest.mark.parametrize("name", [*NAMESPACES, *IMPORTABLE])
def test_modules_stay_importable(name: str) -> None:
    if name == "frontends.torch_backend":
        pytest.importorskip("torch")
    module = importlib.import_module(f"tilesim.{name}")
    if name == "frontends.torch_backend":
        assert {"register", "reset", "records", "results", "report"} <= set(dir(module))
