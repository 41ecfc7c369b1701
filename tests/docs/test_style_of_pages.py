"""Pages and README keep the sizes that a reader can take in, and headings are in sentence case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.doc_pages import PAGES, README

NAMES = {"Chakra", "Dask", "Gemmini", "Linux", "Megatron", "Perfetto", "Python", "Ray", "Shardy", "Tilesim", "Timeloop"}
TABLES_OF_THE_PROGRAM = ("accuracy", "command_line", "machines", "settings")  # other tests compare them with it


def blocks(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Kind (table, heading, text) and lines of each block of a page without its code; a list item is a block."""
    text = re.sub(r"```.*?```", lambda code: "```" + "\n" * code[0].count("\n"), page.read_text("utf-8"), flags=re.S)
    kind, lines = "", list[str]()
    for line in [*text.splitlines(), ""]:
        now = "heading" if line.startswith("#") else "table" if line.startswith("|") else "text" if line.strip() else ""
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if lines and (now != kind or item or now == "heading"):
            yield kind, lines
            lines = []
        kind = now
        if now and not (line.startswith(("```", "    ")) and not lines):
            lines.append(line)


def words(text: str) -> int:
    return len(re.sub(r"\]\([^)]*\)", "]", text).split())


def test_there_are_few_pages() -> None:
    assert len(PAGES) <= 28


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_a_page_is_short(page: Path) -> None:
    text, generated = page.read_text(encoding="utf-8"), page.stem in TABLES_OF_THE_PROGRAM
    counted = "\n".join(line for line in text.splitlines() if not (generated and line.startswith("|")))
    longest = max(counted.splitlines(), key=len)
    assert len(longest) <= (120 if page == README else 160), longest
    assert words(counted) <= 2500 and (page != README or len(text.splitlines()) <= 120)
    for kind, lines in blocks(page):
        if kind == "text":
            assert sum(len(line.strip()) for line in lines) <= 5 * 120, lines[0]
        if kind == "table" and not generated:
            cells = [cell for line in lines for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            widest = max(cells, key=words)
            assert words(widest) <= 12, widest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_headings_are_in_sentence_case(page: Path) -> None:
    for _, lines in (block for block in blocks(page) if block[0] == "heading"):
        first, *others = re.sub(r"`[^`]*`", "`", lines[0].lstrip("# ")).split()
        assert not first[0].islower() or "." in first or page.stem in TABLES_OF_THE_PROGRAM, lines[0]  # names of these
        assert not [word for word in others if re.fullmatch(r"[A-Z][a-z-]+", word) and word not in NAMES], lines[0]


def test_every_page_shows_an_example() -> None:
    assert not [page.name for page in PAGES if not re.search("```|\n    ", page.read_text("utf-8"))]
