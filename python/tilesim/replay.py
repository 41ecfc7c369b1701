"""Programs of very many tile operations: steady loops are simulated for a few trips and extended linearly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

__all__ = ["LIMIT", "extended", "operations", "steady_loops"]

LIMIT = 4_000_000
"""Tile operations beyond which `simulate` replays steady loops."""
LOW, HIGH = 4, 8  # trips that are simulated: past the filling of any ring of two or three buffers
MOST_RUNS = 64

Path = tuple[Any, ...]
_COUNTS = ("cycles", "tile_operations", "events", "memory_read_bytes", "memory_written_bytes", "network_bytes")
_SUMS = (*_COUNTS, "multiply_adds", "vector_operations", "units", "operations", "energy")
_KEPT = ("bound_share", "core", "known")  # ratios and labels: those of the longest run


def _blocks(document: dict[str, Any]) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    yield ("do",), document["do"]
    for i, function in enumerate(document.get("functions", [])):
        yield ("functions", i, "do"), function["do"]


def operations(document: dict[str, Any]) -> int:
    """Statements that a program executes, loops of unknown length counted once.

    Args:
        document: JSON form of the program.

    Returns:
        The number, calls included.
    """
    known: dict[str, int] = {}

    def count(block: list[dict[str, Any]]) -> int:
        total = 0
        for statement in block:
            inner = sum(count(statement[key]) for key in ("do", "then", "else") if key in statement)
            if "for" in statement:
                inner *= statement["extent"] if isinstance(statement["extent"], int) else 1
            elif "call" in statement:
                inner = called(statement["call"])
            total += inner or 1
        return total

    def called(name: str) -> int:
        if name not in known:
            bodies = [f["do"] for f in document.get("functions", []) if f["name"] == name]
            known[name] = count(bodies[0]) if bodies else 0
        return known[name]

    return count(document["do"])


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _heaviest(document: dict[str, Any]) -> tuple[Path, Path] | None:
    """The outermost long loop of the heaviest kernel: the kernel's path and the loop's."""
    best: tuple[int, Path, Path] | None = None
    for start, block in _blocks(document):
        for i, kernel in enumerate(block):
            path, node, trips = (*start, i), kernel, 1
            while True:
                if "for" in node and isinstance(node["extent"], int):
                    if node["extent"] > HIGH:
                        weight = trips * node["extent"] * operations({**document, "do": node["do"]})
                        if best is None or weight > best[0]:
                            best = (weight, (*start, i), path)
                        break
                    trips *= node["extent"]
                if "do" not in node or not node["do"]:
                    break
                weights = [operations({**document, "do": [inner]}) for inner in node["do"]]
                index = weights.index(max(weights))
                path, node = (*path, "do", index), node["do"][index]
    return None if best is None else best[1:]


def steady_loops(document: dict[str, Any], limit: int) -> dict[Path, dict[Path, int]]:
    """Loops to shorten until a program is within a number of operations; they are shortened in `document`.

    Args:
        document: JSON form of the program; changed.
        limit: tile operations.

    Returns:
        Per kernel (its path in the document) the loops (paths) with their number of trips.
    """
    loops: dict[Path, dict[Path, int]] = {}
    while operations(document) > limit:
        found = _heaviest(document)
        if found is None:
            break
        kernel, loop = found
        node = _at(document, loop)
        loops.setdefault(kernel, {})[loop] = node["extent"]
        node["extent"] = HIGH
    return loops


def _combined(parts: list[tuple[Fraction, Any]]) -> Any:
    """The weighted sum of results of equal form, number by number."""
    first = parts[0][1]
    if isinstance(first, dict):
        return {
            key: value if key in _KEPT else _combined([(weight, part[key]) for weight, part in parts])
            for key, value in first.items()
        }
    if isinstance(first, list):
        return [_combined([(weight, part[i]) for weight, part in parts]) for i in range(len(first))]
    if isinstance(first, bool) or not isinstance(first, int | float):
        return first
    total = sum((weight * Fraction(part) for weight, part in parts), Fraction(0))
    return max(0, round(total)) if isinstance(first, int) else max(0.0, float(total))


def _balanced(data: dict[str, Any]) -> dict[str, Any]:
    """States of units and exclusive times add up again after rounding."""
    cycles = data["cycles"]
    for unit in data["units"]:
        states = unit["cycles"]
        spare = cycles - sum(states.values())
        for state in ("idle", "wait_load", "wait_dependency", "wait_store", "wait_port", "busy"):
            change = max(spare, -states[state])
            states[state] += change
            spare -= change
    spare = cycles - sum(row["exclusive"] for row in data["operations"])
    for row in reversed(data["operations"]):
        change = max(spare, -row["exclusive"])
        row["exclusive"] += change
        spare -= change
    data["seconds"] = cycles / data["hertz"]
    return data


def extended(document: dict[str, Any], run: Callable[[str], dict[str, Any]]) -> dict[str, Any] | None:
    """The result of a long program from short runs of it.

    Every count is taken as linear in the trips of each shortened loop, and kernels as independent: loops are simulated
    for 4 and for 8 trips in all combinations within a kernel. A ragged last trip counts as a whole one.

    Args:
        document: JSON form of the program; not changed.
        run: simulates a program given as JSON text and returns the JSON form of its result.

    Returns:
        The JSON form of the result, with the replay among its approximations; none where no loop can be shortened.
    """
    short = json.loads(json.dumps(document))
    loops = steady_loops(short, LIMIT // 20)
    runs = 1 + sum(2 ** len(group) - 1 for group in loops.values())
    if not loops or runs > MOST_RUNS:
        return None
    base = run(json.dumps(short))
    parts: list[tuple[Fraction, dict[str, Any]]] = [(Fraction(1), base)]
    for group in loops.values():
        for trips in itertools.product((LOW, HIGH), repeat=len(group)):
            weight = Fraction(1)
            for total, simulated in zip(group.values(), trips, strict=True):
                weight *= Fraction(total - LOW if simulated == HIGH else HIGH - total, HIGH - LOW)
            if all(simulated == HIGH for simulated in trips):
                parts[0] = (parts[0][0] + weight - 1, base)
                continue
            variant = json.loads(json.dumps(short))
            for path, simulated in zip(group, trips, strict=True):
                _at(variant, path)["extent"] = simulated
            parts.append((weight, run(json.dumps(variant))))
    sums = [(weight, {key: part[key] for key in _SUMS}) for weight, part in parts]
    data = _balanced({**base, **_combined(sums)})
    count = sum(len(group) for group in loops.values())
    data["approximations"] = [
        *base["approximations"],
        f"replay: {count} steady loops of {operations(document):,} tile operations in all were simulated for {LOW} and "
        f"{HIGH} trips and extended linearly",
    ]
    return data
