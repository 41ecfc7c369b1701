"""Words of documentation and messages: phrases of banned_phrases.txt appear in no page and in no string of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BANNED = [
    (re.compile(line.partition(" => ")[0], re.IGNORECASE), line.partition(" => ")[2])
    for line in (ROOT / "tests/project/banned_phrases.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def python_strings(text: str) -> list[tuple[int, str]]:
    """Line and text of each string, docstrings and parts of f-strings included."""
    found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return [(node.lineno, node.value) for node in found if isinstance(node.value, str)]


def cpp_strings(text: str) -> list[tuple[int, str]]:
    """Line and text of each literal; adjacent ones are one."""
    bare = re.sub(r"(?m)^\s*//.*$|(?<=[;{},)])\s*//.*$", "", text)
    pieces = re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', bare)
    return [(bare.count("\n", 0, m.start()) + 1, re.sub(r'"\s*"', "", m[0])) for m in pieces]


def page_text(text: str) -> list[tuple[int, str]]:
    """The paragraphs of a page."""
    found = re.finditer(r"(?:[^\n]+\n?)+", text)
    return [(text.count("\n", 0, m.start()) + 1, m[0]) for m in found]


def test_no_phrase_that_is_read_twice() -> None:
    sources = [
        (python_strings, [*ROOT.glob("python/**/*.py"), *ROOT.glob("bench/*.py")]),
        (cpp_strings, [*ROOT.glob("cpp/**/*.?pp"), *ROOT.glob("bindings/**/*.?pp")]),
        (page_text, [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]),
    ]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: '{match[0]}': {better}"
        for strings, paths in sources
        for path in paths
        for line, text in strings(path.read_text(encoding="utf-8"))
        for spaced in [re.sub(r"\s+", " ", text)]
        for banned, better in BANNED
        for match in banned.finditer(spaced)
    ]
    assert not wrong, "\n".join([f"{len(wrong)} phrases", *wrong])


def test_phrases_are_found_where_they_stand() -> None:
    assert python_strings('x = f"a {b} is no name"') == [(1, "a "), (1, " is no name")]
    assert cpp_strings('f("it is "\n  "no name");  // "not this"') == [(1, '"it is no name"')]
    assert any(banned.search("it is no name") for banned, _ in BANNED)
