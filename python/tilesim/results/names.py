"""Finds unique names for a result's kernels in tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

__all__ = ["Names", "names_of_operations", "source_of"]


def _tails(names: Iterable[str]) -> set[str]:
    """Returns names and their suffixes after each dot, because a repeated layer's operations start with its name."""
    found = set(names)
    for name in list(found):
        while "." in name:
            name = name.partition(".")[2]
            found.add(name)
    return found


def names_of_operations(data: Mapping[str, Any]) -> set[str]:
    """Returns all names that graph operations can have in kernels."""
    return _tails(row["operation"] for row in (data.get("bounds") or {}).get("operations", ()))


def source_of(name: str, names: set[str]) -> str:
    """Returns the graph operation from which a kernel's operation originates."""
    start = name
    while start and start not in names:
        start = start.rpartition(".")[0]
    return start or name


_LAST = re.compile(r"(?:.*\.)?([^.]*[^.0-9][^.]*(?:\.[0-9]+)*)$")
_NUMBERED = re.compile(r"(.+)\[([0-9]{1,9})\]")


class Names:
    """The names of a result's kernels, and the kernels of each name."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Finds the graph operations of kernels."""
        self.rows: Sequence[dict[str, Any]] = data["operations"]
        self._known = names_of_operations(data)
        self._sources = [source_of(str(row["name"]), self._known) for row in self.rows]
        self._groups: dict[str, list[int]] = {}
        for index, (row, source) in enumerate(zip(self.rows, self._sources, strict=True)):
            for name in dict.fromkeys([str(row["name"]), source]):
                self._groups.setdefault(name, []).append(index)

    def kernels_named(self, name: str) -> list[dict[str, Any]]:
        """Returns the kernels that a name denotes; empty for an unknown name."""
        if name not in self._groups and (found := _NUMBERED.fullmatch(name)):
            rows, number = self._groups.get(found[1], []), int(found[2])
            return [self.rows[rows[number - 1]]] if 1 <= number <= len(rows) else []
        return [self.rows[index] for index in self._groups.get(name, [])]

    def fused(self, most: int = 2) -> list[str]:
        """Returns the further graph operations of each kernel as text: " + bn1 + relu" and the number of others."""
        return [self._beside(row, own, most) for row, own in zip(self.rows, self._sources, strict=True)]

    def _beside(self, row: Mapping[str, Any], own: str, most: int) -> str:
        names = dict.fromkeys(source_of(name, self._known) for name in row["operation"])
        paths = [name.rpartition(".") for name in names if name != own]
        parts = Counter(module for module, _, _ in paths if module and not own.startswith(f"{module}."))
        named = (module if parts[module] > 1 else f"{module}.{last}" for module, _, last in paths)
        short = list(dict.fromkeys(_LAST.sub(r"\1", name) for name in named))
        more = [f"{len(short) - most + 1} more"] if len(short) > most else []
        return "".join(f" + {name}" for name in [*short[: most - len(more)], *more])

    @cached_property
    def unique(self) -> list[str]:
        """Returns a unique name for each kernel: "attention.self[3]" is the third kernel of "attention.self".

        A name gets a number if several kernels have it or compute the operation of that name.
        """
        found = [str(row["name"]) for row in self.rows]
        taken = set(self._groups)
        for name, rows in self._groups.items():
            if len(rows) > 1:
                for number, index in enumerate(rows, 1):
                    told = f"{name}[{number}]"
                    if found[index] == name and told not in taken:
                        found[index] = told
        return found

    def knows(self, name: str) -> bool:
        """Whether the result has a kernel or operation of this name."""
        return bool(self.kernels_named(name)) or name in self._all

    @cached_property
    def _all(self) -> set[str]:
        return {*self.unique, *(one for row in self.rows for one in row["operation"])}

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(row): index for index, row in enumerate(self.rows)}

    def joint_name(self, rows: Sequence[Mapping[str, Any]], longest: Mapping[str, Any]) -> str:
        """Returns the operation's name if the rows are all its kernels, else the longest kernel's unique name."""
        index = self._places[id(longest)]
        together = self._groups[self._sources[index]]
        if len(rows) > 1 and {id(self.rows[at]) for at in together} == {id(row) for row in rows}:
            return self._sources[index]
        return self.unique[index]
