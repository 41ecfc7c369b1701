"""Small changes of a source file, each of which some test should notice."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """A file's text with one change.

    `path` is relative to the repository, `first` to `last` are the lines (from 1) of the change.
    """

    path: str
    first: int
    last: int
    kind: str
    text: str

    def diff(self, root: Path) -> str:
        """The change as a unified diff with one line around it."""
        before = (root / self.path).read_text().splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, self.text.splitlines(keepends=True), self.path, self.kind, n=1))


@dataclass(frozen=True)
class Edit:
    """Text that replaces what lies between two offsets of a file."""

    start: int
    end: int
    text: str
    kind: str


def mutant_of(path: str, source: str, edit: Edit) -> Mutant:
    """The file with one edit."""
    first = source.count("\n", 0, edit.start) + 1
    last = source.count("\n", 0, max(edit.start, edit.end - 1)) + 1
    return Mutant(path, first, last, edit.kind, source[: edit.start] + edit.text + source[edit.end :])


def drawn(edits: dict[str, list[Edit]], sources: dict[str, str], seed: int) -> Iterator[Mutant]:
    """Every line that has edits, in random order and each once, with one of its edits."""
    lines: dict[tuple[str, int], list[Edit]] = {}
    for path in sorted(edits):
        for edit in edits[path]:
            lines.setdefault((path, sources[path].count("\n", 0, edit.start)), []).append(edit)
    choice = random.Random(seed)
    for path, line in choice.sample(sorted(lines), len(lines)):
        yield mutant_of(path, sources[path], choice.choice(lines[path, line]))
