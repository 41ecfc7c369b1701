"""The code stays within `budgets.toml`: lines by room, methods and files of a class, long functions, docstrings.

A change that needs more raises the number in the same commit, and its message says why. A number more than a tenth
above what is there is lowered: a budget that cannot be exceeded holds nothing.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text(encoding="utf-8"))
SOURCES = {".cpp", ".hpp", ".py", ".md"}
#: Methods of a class and files that define them; longer classes are listed in `budgets.toml`.
METHODS, FILES = 40, 4
DEFINED = re.compile(r"^[^\s#/][^\n;={]*?\b([A-Z]\w+)::(~?\w+)\(", re.MULTILINE)
SYNCHRONISING = re.compile(r"program::(?:Acquire|Commit|Wait|Release)\{")
LONG = 60  # lines of the statements of a Python function


def lines_by_folder(folder: str) -> dict[str, int]:
    """Lines of sources below each folder of a folder; those of its own files under "."."""
    found: dict[str, int] = defaultdict(int)
    for path in (ROOT / folder).rglob("*"):
        if path.suffix in SOURCES and path.is_file():
            parts = path.relative_to(ROOT / folder).parts
            found[parts[0] if len(parts) > 1 else "."] += path.read_text(encoding="utf-8").count("\n")
    return found


def methods_in_core() -> dict[str, tuple[int, int]]:
    """Methods that each class of the core defines outside of its declaration, and the files they stand in."""
    names: dict[str, set[str]] = defaultdict(set)
    files: dict[str, set[Path]] = defaultdict(set)
    for path in (ROOT / "cpp/tilesim").rglob("*.cpp"):
        room = path.relative_to(ROOT / "cpp/tilesim").parts[0]
        for match in re.finditer(
            r"^[^\s#/][^\n;={]*?\b([A-Z]\w+)::(~?\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            names[f"{room}/{match[1]}"].add(match[2])
            files[f"{room}/{match[1]}"].add(path)
    return {name: (len(found), len(files[name])) for name, found in names.items()}


@functools.cache
def python_trees() -> dict[str, ast.Module]:
    paths = sorted((ROOT / "python/tilesim").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def compared(found: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """What exceeds its budget, has none, or has one that is far too large."""
    wrong = [
        f"{name}: {count} of {allowed.get(name, 0)}" for name, count in found.items() if count > allowed.get(name, 0)
    ]
    wrong += [
        f"{name}: lower {limit} to {found.get(name, 0)}"
        for name, limit in allowed.items()
        if limit > 1.1 * found.get(name, 0) + 20
    ]
    return wrong


@pytest.mark.parametrize("folder", BUDGETS["lines"])
def test_lines(folder: str) -> None:
    assert not compared(lines_by_folder(folder), BUDGETS["lines"][folder])


def test_the_writer_synchronises() -> None:
    """Statements of synchronisation are derived by `compile/writer`: nothing else in `compile` constructs them."""
    folder = ROOT / "cpp/tilesim/compile"
    assert not [
        path
        for path in folder.rglob("*.?pp")
        if path.parent.name != "writer" and SYNCHRONISING.search(path.read_text(encoding="utf-8"))
    ]


def test_classes_of_the_core() -> None:
    large = {name: found for name, found in methods_in_core().items() if found[0] > METHODS or found[1] > FILES}
    allowed = BUDGETS["classes"]
    assert not {name: found for name, found in large.items() if list(found) > allowed.get(name, [])}
    assert not [name for name in allowed if name not in large], "these are small now: remove them from the list"


def test_classes_of_the_package() -> None:
    large = {
        f"{place}:{node.name}": count
        for place, tree in python_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and (count := sum(isinstance(one, ast.FunctionDef) for one in node.body)) > METHODS
    }
    assert not {name: count for name, count in large.items() if count > BUDGETS["package"]["classes"].get(name, 0)}


def test_a_class_name_stands_in_one_module() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for path, tree in python_trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(path)
    repeated = {name: paths for name, paths in modules.items() if len(paths) > 1}
    assert repeated == {"Trace": ["python/tilesim/cluster/trace.py", "python/tilesim/memory/dram_trace.py"]}  # public


def test_functions_and_docstrings_of_the_package() -> None:
    long, text = 0, 0
    for tree in python_trees().values():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[ast.get_docstring(node) is not None :]
                long += bool(body) and body[-1].end_lineno - body[0].lineno + 1 > LONG  # type: ignore[operator]
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node) is not None:
                text += node.body[0].end_lineno - node.body[0].lineno + 1  # type: ignore[operator]
    limits = BUDGETS["package"]
    assert not compared(
        {"long": long, "docstrings": text}, {"long": limits["long"], "docstrings": limits["docstrings"]}
    )


def test_the_check_itself() -> None:
    assert compared({"a": 5, "b": 1}, {"a": 4}) == ["a: 5 of 4", "b: 1 of 0"]
    assert compared({"a": 50}, {"a": 100, "c": 60}) == ["a: lower 100 to 50", "c: lower 60 to 0"]
    assert not compared({"a": 5}, {"a": 5})
