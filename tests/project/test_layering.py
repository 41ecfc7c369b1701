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


def inside() -> dict[str, dict[str, int]]:
    """Room to its sub-rooms to their floors, as CMakeLists.txt states them."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    lines = re.findall(r'^set\(TILESIM_INSIDE_(\w+) "([^"]*)"\)', text, re.MULTILINE)
    return {
        room: {name: floor for floor, names in enumerate(order.split("|")) for name in names.split()}
        for room, order in lines
    }


FLOORS = floors()
INSIDE = inside()


def sub_room(file: str) -> str:
    """The folder inside its room of "room/folder/file", "." for the room itself."""
    parts = file.split("/")
    return parts[1] if len(parts) > 2 else "."


def inner_arrow(room: str, name: str, header: str) -> list[str]:
    """What is wrong with an include of the same room: it points up or sideways."""
    order, start, end = INSIDE.get(room), sub_room(name), sub_room(header.removeprefix("tilesim/"))
    if order is None or start == end or (start == "." and name.endswith(".cpp")):
        return []
    return [] if order[end] < order[start] else [f"{name}: {room}/{start} includes {header} (inside {room}: {order})"]


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
            elif other == room:
                wrong += inner_arrow(room, name, header)
        elif ".." in header or (CORE / room / header).is_file() or (CORE / header).is_file():
            wrong.append(f'{name}: write "{header}" as "tilesim/<room>/<file>"')
        for prefix, rooms in ALLOWED_HEADERS.items():
            if header.startswith(prefix) and room not in rooms:
                wrong.append(f"{name}: {header} does not belong into {room}")
    return wrong


def test_every_directory_is_a_room() -> None:
    assert {path.name for path in CORE.iterdir() if path.is_dir()} <= set(FLOORS)
    assert not [path.name for path in CORE.iterdir() if path.is_file()]


def test_folders_stand_in_the_list() -> None:
    for folder in (path for path in CORE.rglob("*") if path.is_dir()):
        room, *inner = folder.relative_to(CORE).parts
        assert len(inner) <= 1, f"{folder.relative_to(CORE)}: a sub-room has no rooms"
        assert not inner or inner[0] in INSIDE.get(room, {}), f"{room}/{inner[0]} is not in TILESIM_INSIDE_{room}"


def test_includes_run_downwards() -> None:
    wrong = []
    files = [path for path in sorted(CORE.rglob("*")) if path.suffix in {".cpp", ".hpp"}]
    assert files
    for path in files:
        room = path.relative_to(CORE).parts[0]
        wrong += arrows(room, path.relative_to(CORE).as_posix(), path.read_text(encoding="utf-8"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "include", "good"),
    [
        ("compile/product/emit.cpp", "tilesim/compile/plan/plan.hpp", True),
        ("compile/plan/plan.cpp", "tilesim/compile/product/lowering.hpp", False),
        ("compile/product/emit.cpp", "tilesim/compile/movement/pieces.hpp", False),
        ("compile/compile.cpp", "tilesim/compile/passes/emit.hpp", True),
        ("engine/dram/channel.hpp", "tilesim/engine/cache/slice.hpp", False),
        ("graph/kinds/rules.hpp", "tilesim/graph/kind.hpp", True),
        ("graph/kind.hpp", "tilesim/graph/kinds/rules.hpp", False),
    ],
)
def test_the_check_inside_a_room(name: str, include: str, good: bool) -> None:
    assert (not arrows(name.split("/")[0], name, f'#include "{include}"\n')) == good


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
