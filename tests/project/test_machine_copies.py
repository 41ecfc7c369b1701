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


def test_the_check_itself() -> None:
    for line in ("Machine share = machine;", "void keep(Machine& machine);", "auto own = std::make_shared<Machine>(m);",
                 "std::vector<Machine> all;", "auto part = Machine{machine};"):  # fmt: skip
        assert copies(line)
    for line in ("const Machine& machine", "const Machine any;", "// Machine share = machine;"):
        assert not copies(line)
