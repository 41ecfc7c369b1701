"""The table of patterns, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilesim as ts

CASES: dict[str, tuple[Callable[[Any], None], dict[str, int]]] = {}


def case(name: str, **kinds: int) -> Callable[[Any], Any]:
    """A pattern: how many operations of each kind (or elementwise function) there are afterwards."""

    def enter(build: Any) -> Any:
        CASES[name] = (build, kinds)
        return build

    return enter


def built(name: str) -> tuple[ts.Graph, dict[str, int]]:
    build, kinds = CASES[name]
    b = ts.GraphBuilder(name)
    build(b)
    return b.build(), kinds


def kinds(graph: ts.Graph) -> list[str]:
    """Kind of each operation of all functions; elementwise ones by function."""
    rows = [op for function in graph.functions for op in graph.operations(function)]
    return [op["attributes"]["function"] if op["kind"] == "elementwise" else op["kind"] for op in rows]


def number(b: Any, value: float, dtype: str = "f32") -> Any:
    return b.scalar(value, dtype)
