"""Passes over programs: one list, one visitor, one place that gives addresses."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILE = ROOT / "cpp" / "tilesim" / "compile"


def sources(folder: Path) -> dict[str, str]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.[ch]pp")}
    return {name: re.sub(r"//[^\n]*", "", text) for name, text in texts.items()}


def listed() -> list[str]:
    text = (COMPILE / "passes" / "passes.cpp").read_text(encoding="utf-8")
    return re.findall(r'^ {6}\{"(\w+)",', text, re.MULTILINE)


def test_documentation_names_the_list() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    paragraph = text[text.index("a list of passes") :].split("\n\n")[0].split("\n5.")[0]
    assert re.findall(r"\*\*(\w+)\*\*", paragraph) == listed() != []


def test_slots_get_their_addresses_at_one_place() -> None:
    found = [name for name, text in sources(COMPILE).items() if re.search(r"\baddress = ", text)]
    assert found == ["addresses.cpp"]


def test_only_the_visitor_knows_what_has_statements_inside() -> None:
    for name, text in sources(COMPILE / "passes").items():
        assert not re.search(r"\botherwise\b|->then\b", text), name


def test_passes_are_run_from_the_list_alone() -> None:
    calls = re.compile(r"(?<![\w:>.] )\b(divide_loops|over_contexts|overlap|give_addresses)\((?!program::)")
    inside = {"passes.cpp"}
    found = {name for name, text in sources(COMPILE).items() if calls.search(text)}
    assert found == inside
