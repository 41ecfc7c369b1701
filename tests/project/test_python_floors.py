"""A Python module imports its own package and floors below, wherever the import stands; no circle."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "tilesim"

#: Lowest floor first. A name is a package or a module of `tilesim`; the longest that fits a module tells its floor.
FLOORS = (
    ("_core",), ("base",), ("graph", "machine", "results"), ("models", "frontends", "memory", "network", "program"),
    ("workloads",), ("executors", "loading", "mapping", "views"), ("mapping_import",), ("analytic",),
    ("cluster.spmd",), ("lowering", "isa", "cluster.executing"), ("timing",), ("cluster",), ("study",),
    ("validation", "torch_compile"), ("frontends.torch_backend",), ("cli",), ("", "__main__"),
)  # fmt: skip
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
MODULES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".").removesuffix("__init__").rstrip("."): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if "configs" not in path.parts
}


def place(module: str) -> tuple[int, str]:
    """Floor of a module, and the name in the list that tells it."""
    name = module
    while name not in FLOOR and "." in name:
        name = name.rpartition(".")[0]
    return FLOOR[name], name


@functools.cache
def imports(module: str, text: str) -> frozenset[str]:
    """The modules of the package that a module's text imports, also in functions and for types alone."""
    found = set()
    package = module if module in MODULES and MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named = [(name.name.removeprefix("tilesim").lstrip("."), "") for name in node.names]
            named = [one for one, name in zip(named, node.names, strict=True) if name.name.split(".")[0] == "tilesim"]
        elif isinstance(node, ast.ImportFrom) and node.level:
            parts = package.split(".") if package else []
            start = ".".join(parts[: len(parts) - node.level + 1])
            named = [(".".join(part for part in (start, node.module) if part), name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tilesim":
            named = [((node.module or "").removeprefix("tilesim").lstrip("."), name.name) for name in node.names]
        else:
            continue
        for start, name in named:
            whole = f"{start}.{name}".lstrip(".")
            found.add(whole if whole in MODULES or whole == "_core" else start)
    return frozenset(found - {module})


def wrong(module: str, text: str) -> list[str]:
    """Imports of a module that point up, or sideways into another package."""
    floor, own = place(module)
    result = []
    for other in sorted(imports(module, text)):
        there, name = place(other)
        if there >= floor and name != own:
            result.append(f"{module or 'tilesim'} (floor {floor}) imports {other or 'tilesim'} (floor {there})")
    return result


def test_imports_run_downwards() -> None:
    found = [line for module, path in MODULES.items() for line in wrong(module, path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "text", "good"),
    [
        ("graph.kept", "from ..base.errors import user_error", True),
        ("graph.kept", "from ..results.result import Table", False),
        ("graph.kept", "def f():\n    from ..timing import simulate", False),
        ("base.table", "if TYPE_CHECKING:\n    from ..graph import Graph", False),
        ("base.table", "from .. import __version__", False),
        ("base.table", "from .. import _core", True),
        ("base.table", "import tilesim.graph", False),
        ("study.tune", "from tilesim.timing.simulate import compile", True),
        ("cli.main", "from .load import graph_of", True),
    ],
)
def test_the_check_itself(module: str, text: str, good: bool) -> None:
    assert (not wrong(module, text)) == good


def test_no_circle() -> None:
    arrows = {module: imports(module, path.read_text(encoding="utf-8")) for module, path in MODULES.items()}
    left = dict(arrows)
    while left:
        leaves = [module for module, found in left.items() if not found & left.keys()]
        assert leaves, f"these import each other: {sorted(left)}"
        for module in leaves:
            del left[module]


ALONE = """
import os, sys, traceback
for name in sys.argv[1:]:
    if not os.fork():
        try:
            __import__(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(name)
"""


def test_packages_are_imported_alone() -> None:
    packages = sorted({path.parent for path in MODULES.values()} - {PACKAGE})
    names = [".".join(("tilesim", *package.relative_to(PACKAGE).parts)) for package in packages]
    subprocess.run([sys.executable, "-c", ALONE, *names], check=True, timeout=300)
