"""A room includes only rooms on the floors below it, and itself."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "cpp" / "tilesim"
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
ALLOWED_HEADERS = {"Eigen/": {"kernels", "tile"}, "nlohmann/": {"base"}, "pybind11/": set()}


def floors() -> dict[str, int]:
    """Room to floor, as CMakeLists.txt states it."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    lines = re.findall(r"^set\(TILESIM_FLOOR_(\d) ([^)]*)\)", text, re.MULTILINE)
    return {room: int(floor) for floor, rooms in lines for room in rooms.split()}


FLOORS = floors()


def arrows(room: str, name: str, text: str) -> list[str]:
    """What is wrong with the includes of one file."""
    wrong = []
    for header in INCLUDE.findall(text):
        if header.startswith("tilesim/"):
            other = header.split("/")[1]
            if other not in FLOORS:
                wrong.append(f"{name}: {header} is in no known room")
            elif other != room and FLOORS[other] >= FLOORS[room]:
                wrong.append(f"{name}: {room} (floor {FLOORS[room]}) includes {header} (floor {FLOORS[other]})")
        elif ".." in header or (CORE / room / header).exists() or (CORE / header).exists():
            wrong.append(f'{name}: write "{header}" as "tilesim/<room>/<file>"')
        for prefix, rooms in ALLOWED_HEADERS.items():
            if header.startswith(prefix) and room not in rooms:
                wrong.append(f"{name}: {header} does not belong into {room}")
    return wrong


def test_every_directory_is_a_room() -> None:
    assert {path.name for path in CORE.iterdir() if path.is_dir()} <= set(FLOORS)
    assert not [path.name for path in CORE.iterdir() if path.is_file()]


def test_includes_run_downwards() -> None:
    wrong = []
    files = [path for path in sorted(CORE.rglob("*")) if path.suffix in {".cpp", ".hpp"}]
    assert files
    for path in files:
        room = path.relative_to(CORE).parts[0]
        wrong += arrows(room, path.relative_to(CORE).as_posix(), path.read_text(encoding="utf-8"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("room", "include", "good"),
    [
        ("graph", "tilesim/base/dtype.hpp", True),
        ("graph", "tilesim/graph/kind.hpp", True),
        ("graph", "tilesim/machine/machine.hpp", False),
        ("base", "tilesim/graph/graph.hpp", False),
        ("base", "Eigen/Core", False),
        ("kernels", "Eigen/Core", True),
        ("engine", "tilesim/nowhere/x.hpp", False),
    ],
)
def test_the_check_itself(room: str, include: str, good: bool) -> None:
    assert (not arrows(room, "file", f'#include "{include}"\n')) == good
