"""The mutants of `tests/mutation`: each is one change of code, that Python reads; the same ones for the same seed."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from mutation.cpp_edits import cpp_edits
from mutation.mutants import drawn, mutant_of
from mutation.python_edits import in_signature, is_python, python_edits, scope_lines
from mutation.rooms import TESTS

ROOT = Path(__file__).resolve().parents[2]
PYTHON = '''"""A text with 3 < 4."""
def least(a: int, b: int = 7) -> int:
    """No 5 here."""
    if a < b and not b == 0:
        log(a, b, end="+")
        return a + 1
    raise ValueError(f"{a} > 2")
'''
CPP = """// 3 < 4
#define LIMIT 5
std::vector<int> least(const T& a, T&& b) {
  if (a < b && !done) {
    log(a, "x + y", '<');
    total += 2;
    return std::min(a, b);
  }
  return a * b;
}
"""


def changes(source: str, edits: list) -> set[tuple[str, str]]:
    return {(source[edit.start : edit.end], edit.text) for edit in edits}


def test_edits_of_python() -> None:
    found = changes(PYTHON, python_edits(PYTHON))
    for wanted in (
        ("a < b", "(a <= b)"),
        ("a < b", "(a > b)"),
        ("b == 0", "(b != 0)"),
        ("not b == 0", "(b == 0)"),
        ("a < b and not b == 0", "(a < b or not b == 0)"),
        ("7", "(8)"),
        ("7", "(6)"),
        ("a + 1", "(a - 1)"),
        ("return a + 1", "return None"),
        ('log(a, b, end="+")', "pass"),
        ('log(a, b, end="+")', "(log(b, a, end='+'))"),
        ('log(a, b, end="+")', "(log(a, b))"),
        ('raise ValueError(f"{a} > 2")', "pass"),
    ):
        assert wanted in found
    assert not {old for old, _ in found} & {"3", "4", "5", "2", "int"}


def test_edits_of_cpp() -> None:
    found = changes(CPP, cpp_edits(CPP))
    for wanted in (
        (" < ", " <= "),
        (" < ", " > "),
        (" && ", " || "),
        (" * ", " / "),
        (" += ", " -= "),
        ("2", "3"),
        ("2", "1"),
        ("std::min", "std::max"),
        ("!", ""),
        ("a < b && !done", "!(a < b && !done)"),
        ("return std::min(a, b);", "return {};"),
        ("total += 2;", ";"),
    ):
        assert wanted in found
    assert not {old for old, _ in found} & {"3", "4", "5", " + "}


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_each_edit_is_one_change(language: str) -> None:
    folder, suffix, edits_of = {
        "python": (ROOT / "python" / "tilesim", ".py", python_edits),
        "cpp": (ROOT / "cpp" / "tilesim", ".cpp", cpp_edits),
    }[language]
    paths = random.Random(1).sample(sorted(folder.rglob(f"*{suffix}")), 10)
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    edits = {path: edits_of(source) for path, source in sources.items()}
    first = [mutant for mutant, _ in zip(drawn(edits, sources, 5), range(20), strict=False)]
    assert first == [mutant for mutant, _ in zip(drawn(edits, sources, 5), range(20), strict=False)]
    assert len({(mutant.path, mutant.first) for mutant in first}) == 20, "a line is drawn once"
    for mutant in first:
        before, after = sources[mutant.path].splitlines(), mutant.text.splitlines()
        assert after != before
        assert after[: mutant.first - 1] == before[: mutant.first - 1]
        tail = len(before) - mutant.last
        assert after[len(after) - tail :] == before[mutant.last :]
        if language == "python" and is_python(mutant.text):
            assert ast.dump(ast.parse(mutant.text)) != ast.dump(ast.parse(sources[mutant.path]))
    if language == "python":
        assert sum(is_python(mutant.text) for mutant in first) > 15


def test_lines_around() -> None:
    assert in_signature(PYTHON, 2) and not in_signature(PYTHON, 4)
    assert scope_lines(PYTHON, 5) == range(2, 8)
    edit = next(edit for edit in python_edits(PYTHON) if edit.text == "(8)")
    mutant = mutant_of("x.py", PYTHON, edit)
    assert (mutant.first, mutant.last) == (2, 2)


def test_tests_of_rooms_are_there() -> None:
    for room, names in TESTS.items():
        assert (ROOT / "cpp" / "tilesim" / room).is_dir(), room
        for name in names:
            assert (ROOT / "tests" / name).is_file(), name
