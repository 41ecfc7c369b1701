"""Matches kernels of several results by the graph operations that they compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.folding import pattern

__all__ = ["Match", "joined", "matches", "operations_of", "same_names"]

Rows = Sequence[dict[str, Any]]


@dataclass
class Match:
    """Equal work of all results: its operations, and the rows of each result that compute them."""

    operations: list[str]
    rows: list[list[dict[str, Any]]] = field(default_factory=list)

    def cycles(self, index: int) -> int:
        """Returns the attributed cycles of the work in one result."""
        return sum(int(row["exclusive"]) for row in self.rows[index])

    def longest(self, index: int) -> dict[str, Any] | None:
        """Returns the longest kernel of the work in one result; None without kernels."""
        return max(self.rows[index], key=lambda row: row["exclusive"], default=None)


def operations_of(row: dict[str, Any]) -> list[str]:
    """Returns the graph operations of a row; its name if it has none."""
    return row["operation"] or [row["name"]]


class _Sets:
    """Disjoint sets of names (union-find)."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def root(self, name: str) -> str:
        """Returns the representative of a name's set."""
        root = name
        while self.parent.setdefault(root, root) != root:
            root = self.parent[root]
        while self.parent[name] != root:
            self.parent[name], name = root, self.parent[name]
        return root

    def join(self, names: Sequence[str]) -> None:
        """Merges the sets of the names."""
        first = self.root(names[0])
        for name in names[1:]:
            self.parent[self.root(name)] = first


def matches(results: Sequence[Rows], names: Sequence[dict[str, str]] | None = None) -> list[Match]:
    """Matches rows of several results by their operations.

    Kernels with equal operations in every result match. Others are merged until no operation is in two groups, which
    gives the smallest groups with equal work in each result.
    """
    common = names or [{} for _ in results]
    twice = _in_several_functions(results, common)
    keyed = [
        [(frozenset(_key(row, name, alias, twice) for name in operations_of(row)), row) for row in rows]
        for rows, alias in zip(results, common, strict=True)
    ]
    alike = frozenset.intersection(*(frozenset(key for key, _ in rows) for rows in keyed))
    sets = _Sets()
    for key in (key for rows in keyed for key, _ in rows if key not in alike):
        sets.join(sorted(key))
    found: dict[Any, Match] = {}
    for index, rows in enumerate(keyed):
        for key, row in rows:
            # keys of single sets (frozenset) and of merged sets (text) never collide
            group = found.setdefault(key if key in alike else sets.root(next(iter(key))), Match([]))
            while len(group.rows) < len(results):
                group.rows.append([])
            group.rows[index].append(row)
            group.operations = list(dict.fromkeys([*group.operations, *operations_of(row)]))
    return list(found.values())


def _key(row: dict[str, Any], name: str, alias: dict[str, str], twice: set[str]) -> str:
    """Returns an operation's common name, followed by its run count if several functions use that name."""
    known = alias.get(name, name)
    return f"{known}\0{row['count']}" if known in twice else known


def _in_several_functions(results: Sequence[Rows], common: Sequence[dict[str, str]]) -> set[str]:
    """Returns names that functions with different run counts share, if every result has the same run counts."""
    counts: list[dict[str, set[int]]] = []
    for rows, alias in zip(results, common, strict=True):
        counts.append({})
        for row in rows:
            for name in operations_of(row):
                counts[-1].setdefault(alias.get(name, name), set()).add(int(row["count"]))
    return {
        name for name, own in counts[0].items() if len(own) > 1 and all(other.get(name) == own for other in counts[1:])
    }


def joined(match: Match, letters: Sequence[str]) -> str:
    """Explains why several kernels are one row."""
    if sum(len(rows) > 1 for rows in match.rows) == 0:
        return ""
    found: list[tuple[int, str]] = []
    for at, rows in enumerate(match.rows):
        for row in rows:
            own = set(operations_of(row))
            for other, theirs in enumerate(match.rows):
                parts = [str(one["name"]) for one in theirs if own & set(operations_of(one))]
                if other != at and len(parts) > 1:
                    shown = ", ".join(parts[:3]) + (", ..." if len(parts) > 3 else "")
                    text = f"{row['name']} of {letters[at]} is in {len(parts)} kernels of {letters[other]}: {shown}"
                    found.append((len(parts), text))
    return max(found, default=(0, "kernels of one operation"), key=lambda one: one[0])[1]


def _starts(names: Iterable[str]) -> set[str]:
    """Returns the names and their prefixes up to each dot."""
    found = set()
    for name in names:
        while name and name not in found:
            found.add(name)
            name = name.rpartition(".")[0]
    return found


def same_names(first: Rows, other: Rows) -> tuple[dict[str, str], dict[str, str]]:
    """Maps names to common names if one result names every layer and the other names a function once.

    "encoder.layer.0.attention.self" to "encoder.layer.11.attention.self" map to "attention.self", which runs
    twelve times in a function; "attention.self.scores" maps to "attention.self" if the other result does not split it.
    """
    sides = [_counted(first), _counted(other)]
    common: list[dict[str, str]] = [{}, {}]
    for (mine, theirs), alias in zip((sides, sides[::-1]), common, strict=True):
        layers: dict[str, list[str]] = {}
        for name in mine:
            if name not in theirs and pattern(name) != name:
                layers.setdefault(pattern(name), []).append(name)
        starts: dict[str, int] = {}
        for name, runs in theirs.items():
            for start in _starts([name]):
                starts[start] = max(starts.get(start, 0), runs)
        for same in layers.values():
            ending = _ending(same, starts)
            alias.update(dict.fromkeys(same, ending) if ending else {})
    known = [{alias.get(name, name) for name in side} for side, alias in zip(sides, common, strict=True)]
    for side, alias, others in zip(sides, common, known[::-1], strict=True):
        for name in side:
            own = alias.get(name, name)
            while own and own not in others:
                own = own.rpartition(".")[0]
            if own and own != name:
                alias[name] = own
    return common[0], common[1]


def _counted(rows: Rows) -> dict[str, int]:
    """Maps operations to their run counts."""
    found: dict[str, int] = {}
    for row in rows:
        for name in operations_of(row):
            found[name] = max(found.get(name, 0), int(row["count"]))
    return found


def _ending(layers: list[str], starts: dict[str, int]) -> str:
    """Returns the longest common suffix whose run count in the other result is the number of names, or ""."""
    endings = [name.split(".") for name in layers]
    for cut in range(1, len(endings[0])):
        ending = ".".join(endings[0][cut:])
        if starts.get(ending, 0) == len(layers) > 1 and all(name.endswith("." + ending) for name in layers):
            return ending
    return ""
