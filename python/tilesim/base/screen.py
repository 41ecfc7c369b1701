"""Fits texts to the output device (terminal or pipe): width and colours."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from .figures import short

__all__ = [
    "MIN_WIDTH",
    "Line",
    "Lines",
    "clean",
    "coloured",
    "fitted",
    "fitted_all",
    "indented",
    "is_terminal",
    "notes",
    "page",
    "room",
    "spelled",
    "wide",
    "width",
    "without_styles",
    "wrapped",
]

MIN_WIDTH = 40
"""Narrowest width that tables are fitted to, in characters."""

UNLIMITED = 1_000_000

Line = list[tuple[str, str]]
"""Pieces of text, each with its style ("" for plain)."""


Lines = Sequence[Line | str]
"""Lines, plain or in pieces."""


PAGE = 120
"""Line width of printed tables without a terminal."""


def page() -> int:
    """Returns the line width of printed tables: the terminal's width, or `PAGE`."""
    return min(width(), PAGE) if width() == UNLIMITED else width()


def without_styles(lines: Lines) -> str:
    """Joins lines to one text, without their styles."""
    parts = (line if isinstance(line, str) else "".join(part for part, _ in line) for line in lines)
    return "\n".join(part.rstrip() for part in parts)


def is_terminal() -> bool:
    """Whether standard output is a terminal that can move its cursor."""
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def coloured() -> bool:
    """Whether standard output shows colours and NO_COLOR is unset (https://no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def width() -> int:
    """Line width: that of the terminal, or less by COLUMNS; in a pipe that of COLUMNS, or no limit.

    In a pipe, COLUMNS together with LINES describes a terminal (shells and readline export both): no limit.
    """
    stated = os.environ.get("COLUMNS", "")
    asked = int(stated[:7]) if stated.isascii() and stated.isdigit() else 0
    if sys.stdout is None or not sys.stdout.isatty():
        return max(MIN_WIDTH, asked) if asked and "LINES" not in os.environ else UNLIMITED
    try:
        real = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        real = 0
    return max(MIN_WIDTH, min(asked or UNLIMITED, real or asked or 80))


def room(most: int) -> int:
    """Returns the line width of a text: the terminal's width, at most `most`."""
    return min(most, width())


def wide(text: str) -> int:
    """Returns a text's width in terminal cells; some letters take two cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def clean(text: str) -> str:
    """Escapes the control characters of a text."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


_SPELLED = str.maketrans({"×": "x", "µ": "u", "…": "~", "–": "-", "−": "-", "·": "*", "≤": "<", "≥": ">", "∞": "~"})


def spelled(text: str, encoding: str | None) -> str:
    """Writes a text in letters of an encoding, with the same width."""
    if text.isascii():
        return text
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_SPELLED).encode(encoding, "replace").decode(encoding)
    return text


def wrapped(text: str, indent: str = "", hang: str | None = None, limit: int | None = None) -> list[str]:
    """Breaks a text between words, and long assignments at commas, into lines that fit; longer words are shortened."""
    hang = " " * len(indent) if hang is None else hang
    limit = width() if limit is None else limit
    if limit == UNLIMITED:
        return [indent + clean(text)]
    lines: list[str] = []
    line, room = indent, max(min(8, limit), limit - max(wide(indent), wide(hang)))
    empty = True
    for gap, one in _words(clean(text), room):
        word = fitted(one, room)
        if not empty and wide(line) + len(gap) + wide(word) > limit:
            lines, line, empty = [*lines, line.rstrip()], hang, True
        line, empty = line + word if empty else f"{line}{gap}{word}", False
    return [*lines, line.rstrip()]


def _words(text: str, room: int) -> Iterator[tuple[str, str]]:
    """Yields words with the space before them; a long word "a=1,b=2" yields one word per assignment."""
    for word in text.split(" "):
        parts = re.split(r"(?<=,)(?=\w+=)", word) if wide(word) > room else [word]
        yield from zip((" ", *("" for _ in parts[1:])), parts, strict=True)


def indented(text: str) -> list[str]:
    """Wraps lines and keeps their indents."""
    found = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip(" "))]
        found += wrapped(line.lstrip(" "), indent, indent + "  ") if line else [""]
    return found


def fitted_all(names: Sequence[str], room: int) -> list[str]:
    """Shortens names to a width, distinct if possible."""
    best: list[str] = []
    for end in (0.5, 0.67, 0.8, 0.33, 0.2):
        found = [fitted(one, room, end) for one in names]
        if not best or len(set(found)) > len(set(best)):
            best = found
        if len(set(best)) == len(set(names)):
            break
    return best


def fitted(name: str, room: int, end: float = 0.5) -> str:
    """Shortens a name in the middle to a width."""
    stem, times, number = name.rpartition(" ×")
    layers = f"{times}{number}" if stem and number.isdigit() and len(number) < room // 2 else ""
    stem = stem if layers else name
    found, cells = name, room - len(layers)
    while wide(found) > room:  # wide letters take two cells
        if cells < 1:
            return "…"
        found = short(stem, cells, end) + layers
        cells -= 1
    return found


def notes(texts: Iterable[str], mark: str = "  - ") -> list[str]:
    """Formats notes as a list with hanging indents."""
    return [line for text in texts for line in wrapped(text, mark, " " * len(mark))]
