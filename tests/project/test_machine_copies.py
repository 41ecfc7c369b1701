"""Mapping and compile see a machine through `Share`: they copy no machine in order to change it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "cpp" / "tilesim"
COMMENT = re.compile(r"//[^\n]*")
COPY = re.compile(
    r"(?<!const )\bMachine(?:\s+\w+\s*[;={(,)]|\s*[{(]|\s*&)|const_cast<Machine|(?:shared|unique)<Machine|<Machine>"
)
"""A machine by value, by reference that may be written, or on the heap; `const Machine any;` is none."""


def copies(text: str) -> list[str]:
    return [match[0] for match in COPY.finditer(COMMENT.sub("", text))]


@pytest.mark.parametrize("room", ["mapping", "compile"])
def test_no_machine_is_copied(room: str) -> None:
    files = [path for path in sorted((CORE / room).rglob("*")) if path.suffix in {".cpp", ".hpp"}]
    assert len(files) > 20
    wrong = {path.relative_to(CORE).as_posix(): found for path in files if (found := copies(path.read_text("utf-8")))}
    assert not wrong, f"take a Share (machine/share.hpp): {wrong}"


@pytest.mark.parametrize(
    "line",
    [
        "  Machine share = machine;",
        "Machine seen_by(const Machine& machine);",
        "void keep_cores(Machine& machine, std::int64_t cores);",
        "  Machine machine_;",
        "auto own = std::make_shared<Machine>(machine);",
        "std::vector<Machine> all;",
        "  auto part = Machine(machine);",
        "  auto part = Machine{machine};",
    ],
)
def test_copies_are_found(line: str) -> None:
    assert copies(line)


@pytest.mark.parametrize("line", ["const Machine& machine", "const Machine any;", "// Machine share = machine;"])
def test_what_is_no_copy(line: str) -> None:
    assert not copies(line)
