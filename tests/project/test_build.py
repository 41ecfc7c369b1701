"""What a build from source compiles: how many units, and at which level. Time itself depends on the machine."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Units of a build under pip; each costs about two seconds of processor time for its headers alone, a binding five.
#: Three came with kernels of all tile computes, level live and DMA, three with clusters.
UNITS = 50
#: Of those, at -O3; it takes 1.7 times as long as -O1, so only what a simulation and a kernel loop in is.
OPTIMISED = 18
OPTIMISED_ROOMS = {"cluster", "engine", "isa", "kernels", "tile"}
BINDING_UNITS = 3


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    return found or pytest.skip(f"{name} is missing: pip install 'tilesim[test]'")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Object file → command, of the configuration that `pip install .` builds."""
    build = tmp_path_factory.mktemp("configured")
    with (ROOT / "pyproject.toml").open(encoding="utf-8") as file:
        defines = re.findall(r'^cmake\.define\.(\w+) = "(\w+)"', file.read(), re.MULTILINE)
    assert ("TILESIM_UNITY", "ON") in defines
    settings = {
        "CMAKE_MAKE_PROGRAM": _tool("ninja"),
        "Python_EXECUTABLE": sys.executable,
        "CMAKE_BUILD_TYPE": "Release",
        **dict(defines),
    }
    command = [_tool("cmake"), "-S", str(ROOT), "-B", str(build), "-G", "Ninja"]
    done = subprocess.run(
        [*command, *(f"-D{key}={value}" for key, value in settings.items())],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    return {row["output"]: row["command"] for row in rows}


def test_units_of_a_build_from_source(commands: dict[str, str]) -> None:
    assert 0 < len(commands) <= UNITS, sorted(commands)


def test_bindings_are_few_units(commands: dict[str, str]) -> None:
    assert 0 < sum("_core.dir" in output for output in commands) <= BINDING_UNITS


def test_only_hot_rooms_are_optimised_fully(commands: dict[str, str]) -> None:
    full = [output for output, command in commands.items() if re.findall(r" -O(\w)", command)[-1] == "3"]
    rooms = {found[1] for output in full if (found := re.search(r"tilesim_(\w+)\.dir", output))}
    assert rooms == OPTIMISED_ROOMS
    assert len(full) <= OPTIMISED, full


def test_a_source_is_compiled_once(commands: dict[str, str]) -> None:
    """Alone or in a batch, and none is left out."""
    found: list[str] = []
    for command in commands.values():
        source = Path(command.rsplit(" -c ", 1)[1].split()[0])
        batch = re.findall(r'#include "(.*)"', source.read_text(encoding="utf-8")) if "Unity" in source.parts else []
        found += batch or [str(source)]
    sources = [str(path) for folder in ("cpp", "bindings") for path in (ROOT / folder).rglob("*.cpp")]
    assert sorted(found) == sorted(sources)
