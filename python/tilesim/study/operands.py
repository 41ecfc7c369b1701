"""Finds the tensors that a tile program's kernels read and write, and their compulsory bytes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core

__all__ = ["Operands", "Use"]


@dataclass
class Use:
    """The tensors of one kernel, each with the most bytes that one run reads or writes."""

    reads: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)


class Operands:
    """Tensors by kernel, from the statements of a program."""

    def __init__(self, program: str) -> None:
        """Reads the statements of a program."""
        form = json.loads(program)
        self._tensors = {row["name"]: row for row in form["tensors"]}
        self._given: dict[str, str] = {}  # tensor of a function -> tensor of its first call in memory
        bodies = [("", form["do"]), *((one["name"], one["do"]) for one in form.get("functions", ()))]
        for _, body in bodies:
            for call in _calls(body):
                for name, given in call.items():
                    row = self._tensors.get(given, {})
                    if name not in self._given or self._on_chip(self._given[name]) > (row.get("level") == "scratchpad"):
                        self._given[name] = given
        self._uses: dict[tuple[str, str], Use] = {}
        self._lasting = {name for name, row in self._tensors.items() if row["role"] in ("output", "state")}
        for function in form.get("functions", ()):
            self._lasting.update(function.get("tensors", ()))
        for name, body in bodies:
            for kernel, statement, trips in _walk(body, float(form.get("cores", 1))):
                self._note(self._uses.setdefault((name, kernel), Use()), statement, trips)
        self._scoped: dict[str, list[Mapping[str, Any]]] = {}  # name -> its outermost scopes
        for _, body in bodies:
            for statement in _scopes(body):
                self._scoped.setdefault(str(statement["scope"]), []).append(statement)
        self._places: dict[str, list[str]] = {}  # kernel -> functions that contain it
        self._readers: dict[tuple[str, str], set[str]] = {}  # (function, tensor) -> kernels that read it
        for (function, kernel), use in self._uses.items():
            self._places.setdefault(kernel, []).append(function)
            for tensor in use.reads:
                self._readers.setdefault((function, tensor), set()).add(kernel)

    def _on_chip(self, name: str) -> bool:
        return bool(self._tensors.get(name, {}).get("level") == "scratchpad")

    def _root(self, name: str) -> str:
        """Returns the tensor that owns a tensor's storage."""
        for _ in range(len(self._tensors) + 1):
            parent = self._tensors.get(name, {}).get("alias_of")
            if not parent:
                break
            name = parent
        return name

    def _declared(self, name: str) -> dict[str, Any] | None:
        """Returns a tensor's declaration; a function's parameter resolves to its argument."""
        for _ in range(len(self._given) + 1):
            if name in self._tensors or name not in self._given:
                break
            name = self._given[name]
        return self._tensors.get(name)

    def _note(self, use: Use, statement: Mapping[str, Any], trips: float) -> None:
        for verb, table in (("load", use.reads), ("store", use.writes)):
            moved = statement.get(verb)
            row = self._declared(moved["tensor"]) if moved else None
            if not moved or row is None or row.get("level") == "scratchpad":
                continue
            shape = row["shape"]
            wanted = trips * math.prod(_extent(dim, shape) for dim in moved["dims"])
            size = _core.dtype_bits(row["dtype"]) / 8
            whole = math.prod(shape) * size
            name = self._root(moved["tensor"])
            table[name] = min(whole, table.get(name, 0.0) + wanted * size)

    def dtype(self, kernels: Sequence[str]) -> str:
        """Returns the dtype of the operands of the kernels' products."""
        found: set[str] = set()
        for kernel in (one for name in dict.fromkeys(kernels) for one in self._scoped.get(name, ())):
            buffers: dict[str, dict[str, Any]] = {}
            _inside(kernel, {}, buffers)
            for operand in _multiplied(kernel):
                found.add(buffers.get(operand, {}).get("dtype", ""))
        return found.pop() if len(found) == 1 else ""

    def tiles(self, kernels: Sequence[str]) -> list[dict[str, Any]]:
        """Lists the tilings of kernels."""
        found = []
        for statement in (one for name in dict.fromkeys(kernels) for one in self._scoped.get(name, ())):
            loops: dict[str, Any] = {}
            buffers: dict[str, dict[str, Any]] = {}
            _inside(statement, loops, buffers)
            rows = [{"loop": name, "trips": trips} for name, trips in loops.items()]
            found.append({"kernel": statement["scope"], "loops": rows, "buffers": list(buffers.values())})
        return found

    def least(self, kernels: Sequence[tuple[str, int]]) -> tuple[float, float]:
        """Least bytes of kernels if each tensor moves once."""
        runs = dict(kernels)
        outer = inner = 0.0
        for function in dict.fromkeys(function for kernel in runs for function in self._places.get(kernel, ())):
            own = {kernel: use for kernel in runs if (use := self._uses.get((function, kernel))) is not None}
            written = {name for use in own.values() for name in use.writes}
            read = {name for use in own.values() for name in use.reads}
            kept = {name for name in written & read if name not in self._lasting}
            kept = {name for name in kept if self._readers[function, name] <= runs.keys()}
            for table in ("reads", "writes"):
                largest: dict[str, float] = {}
                for kernel, use in own.items():
                    for name, size in getattr(use, table).items():
                        largest[name] = max(largest.get(name, 0.0), size * runs[kernel])
                between = written if table == "reads" else kept
                inner += sum(size for name, size in largest.items() if name in between)
                outer += sum(size for name, size in largest.items() if name not in between)
        return outer, inner


def _calls(body: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, str]]:
    """Yields the tensor arguments of calls."""
    for statement in body:
        if "call" in statement:
            yield statement["tensors"]
        for part in ("do", "then", "else"):
            yield from _calls(statement.get(part, ()))


def _extent(dim: Mapping[str, Any], shape: Sequence[int]) -> float:
    extent = dim["extent"]
    if isinstance(extent, int):
        return float(extent)
    axis = dim.get("axis", -1)
    return float(shape[axis]) if 0 <= axis < len(shape) else math.inf


def _walk(body: Sequence[Mapping[str, Any]], cores: float) -> Iterator[tuple[str, Mapping[str, Any], float]]:
    """Yields every load and store with its kernel and largest trip count (infinite if not constant)."""
    open_: list[tuple[str, Mapping[str, Any], float]] = [("", statement, cores) for statement in reversed(body)]
    while open_:
        kernel, statement, trips = open_.pop()
        if "load" in statement or "store" in statement:
            yield kernel, statement, trips
            continue
        kernel = kernel or str(statement.get("scope", ""))
        if "for" in statement:
            extent = statement["extent"]
            trips *= extent if isinstance(extent, int) else math.inf
        for part in ("do", "then", "else"):
            for inner in reversed(statement.get(part, ())):
                open_.append((kernel, inner, trips))


def _scopes(body: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yields the outermost named scopes, which are kernels."""
    for statement in body:
        if statement.get("scope"):
            yield statement
            continue
        for part in ("do", "then", "else"):
            yield from _scopes(statement.get(part, ()))


def _inside(statement: Mapping[str, Any], loops: dict[str, Any], buffers: dict[str, dict[str, Any]]) -> bool:
    """Collects loops and slots of a kernel with their first tiles; returns whether it does any work."""
    works = not statement.keys() & _SYNCHRONIZES
    fresh = statement.get("for") if statement.get("for") not in loops else None
    for slot in statement.get("slots", ()):
        buffers.setdefault(
            slot["name"], {key: slot[key] for key in ("name", "dtype", "elements", "depth")} | {"tile": []}
        )
    if "for" in statement:
        loops.setdefault(statement["for"], statement["extent"])
    for moved in (statement[verb] for verb in ("load", "store") if verb in statement):
        _tile_of(buffers, moved.get("slot", ""), [dim["extent"] for dim in moved["dims"]])
    if "mma" in statement:
        for view in (statement["mma"][operand] for operand in "abc"):
            _tile_of(buffers, view["slot"], [extent for extent, _ in view["dims"]])
    parts = [one for part in ("do", "then", "else") for one in statement.get(part, ())]
    if parts:
        works = any([_inside(one, loops, buffers) for one in parts])
    if fresh is not None and not works:
        del loops[fresh]
    return works


_SYNCHRONIZES = {"acquire", "release", "commit", "wait", "signal", "wait_counter", "receive"}


def _tile_of(buffers: dict[str, dict[str, Any]], slot: str, extents: Sequence[Any]) -> None:
    """Records the extents of a tile except those of 1; ragged ends use the extent of a full tile."""
    if slot in buffers and not buffers[slot]["tile"]:
        sizes = [(found and int(found[1])) or one for one in extents for found in [re.match(r"min\((\d+),", str(one))]]
        buffers[slot]["tile"] = [one for one in sizes if one != 1] or [1]


def _multiplied(statement: Mapping[str, Any]) -> Iterator[str]:
    """Yields the slots of the operands of products."""
    if "mma" in statement:
        yield str(statement["mma"]["a"]["slot"])
    for part in ("do", "then", "else"):
        for one in statement.get(part, ()):
            yield from _multiplied(one)
