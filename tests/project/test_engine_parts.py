"""The engine's parts are small: their headers read like tables of contents; no name is looked up while events run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parents[2] / "cpp" / "tilesim" / "engine"
PARTS = (".", "chip", "dispatch", "events", "jobs", "kernels", "results", "streams", "transfers", "units")
RUNNING = ("dispatch", "events", "kernels", "streams", "transfers")
"""Parts that work on every event."""

LINES, METHODS = 80, 25


def headers() -> list[Path]:
    return sorted(path for part in PARTS for path in (ENGINE / part).glob("*.hpp"))


def methods(text: str) -> dict[str, int]:
    """Class to its member functions, of a header in this project's layout; friends count, data members do not."""
    text = re.sub(r"//[^\n]*", "", text)
    found = {}
    for match in re.finditer(r"\b(?:class|struct)\s+(\w+)[^;{(]*\{", text):
        depth, at, own = 1, match.end(), ""
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 1:
                own += ";" if text[at] == "}" else text[at]
            at += 1
        found[match[1]] = sum("(" in statement and "=" not in statement.split("(")[0] for statement in own.split(";"))
    return found


def test_methods_are_counted() -> None:
    text = """
    class A {
     public:
      explicit A(int x) : x_(x) {}  // makes ()
      int x() const { if (x_) { return f(x_); } return 0; }
      void y();
      std::vector<int> z = std::vector<int>(3, 0);
      struct B { int a = 0; bool b() const; };
     private:
      int x_;
    };
    """
    assert methods(text) == {"A": 3, "B": 1}


@pytest.mark.parametrize("path", headers(), ids=lambda path: path.relative_to(ENGINE).as_posix())
def test_headers_are_short_and_classes_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES
    large = {name: count for name, count in methods(text).items() if count > METHODS}
    assert not large, large


def test_no_name_is_compared_while_events_run() -> None:
    for part in RUNNING:
        for path in (ENGINE / part).iterdir():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r'[=!]= "|\.compare\(|map<std::string', text), path.name
