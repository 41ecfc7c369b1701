"""Results made by hand, to be compared."""

from __future__ import annotations

import copy
from html.parser import HTMLParser
from typing import Any

import tilesim as ts


def row(name: str, cycles: int, operations: list[str] | None = None, count: int = 1) -> dict[str, Any]:
    """A kernel of a result made by hand."""
    figures_of = {"start": 0, "finish": cycles, "cycles": cycles, "exclusive": cycles, "count": count}
    zeros = dict.fromkeys(("load_bytes", "store_bytes", "array_busy", "vector_busy", "memory_busy", "launch"), 0)
    more = {"multiply_adds": 0.0, "vector_operations": 0.0, "bound": "memory", "bound_share": 1.0}
    return {"name": name, "operation": [name] if operations is None else operations, **figures_of, **zeros, **more}


def by_hand(rows: list[dict[str, Any]], template: ts.Result, cycles: int | None = None, **more: Any) -> ts.Result:
    """A result with these kernels, of the time that they take."""
    data = copy.deepcopy(template.data)
    data["operations"], data["units"] = rows, []
    data["cycles"] = sum(one["exclusive"] for one in rows) if cycles is None else cycles
    return ts.Result({**data, **more})


class Tags(HTMLParser):
    """What a page holds, and that its tags close in order."""

    EMPTY = ("meta", "rect", "br", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
