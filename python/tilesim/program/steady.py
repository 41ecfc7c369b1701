"""Loops of tile programs whose trips repeat: which, after how many trips, and programs that lack some of them."""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .. import _core

__all__ = ["Memory", "Path", "Steady", "at_path", "blocks", "repetition", "shortened", "steady"]

Path = tuple[Any, ...]
LONGEST_PERIOD = 64  # trips; addresses that repeat later are taken as they come
FIRST_TRIPS = 2  # at either end, that may differ from the others
MOST_SAMPLES = 512  # trips of a loop at which an expression is looked at
_EXPRESSIONS = frozenset(
    [
        "extent",
        "at",
        "step",
        "stride",
        "offset",
        "through_at",
        "pieces",
        "index",
        "core",
        "cores",
        "count",
        "if",
        "accumulate",
        "dims",
        "extents",
        "value",
        "cycles",
        "signals_index",
    ]
)
_COUNTED = ("pieces", "kernels_before")  # waits for the work of all trips so far
_BENT = re.compile(r"min|max|//|%|<|=|\bnot\b|\band\b|\bor\b|floor|mod")


@dataclass(frozen=True)
class Memory:
    """What decides whether two addresses are alike: bursts, and bytes after which channels take turns again."""

    burst_bytes: int = 1
    round_bytes: int = 1


@dataclass(frozen=True)
class Steady:
    """A loop that may lack trips: how many it has, and after how many they repeat."""

    trips: int
    period: int
    whole: bool = True  #: whether all places in memory repeat by then


def blocks(document: dict[str, Any]) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """The lists of statements of a program, with their paths: its own, then those of its functions."""
    yield ("do",), document["do"]
    for i, function in enumerate(document.get("functions", [])):
        yield ("functions", i, "do"), function["do"]


def at_path(document: Any, path: Path) -> Any:
    """What lies at a path."""
    for key in path:
        document = document[key]
    return document


def _strings(node: Any) -> Iterator[tuple[str, str]]:
    """Every text below a node with the key that it stands under."""

    def walk(value: Any, key: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict):
            for name, inner in value.items():
                yield from walk(inner, name)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner, key)

    return walk(node, "")


def _loops_below(block: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """Inner loops, and whether anything is called."""
    loops, calls, inner = [], False, [block]
    while inner:
        for statement in inner.pop():
            if "for" in statement:
                loops.append(statement)
            calls |= "call" in statement
            inner += [statement[key] for key in ("do", "then", "else") if key in statement]
    return loops, calls


def steady(loop: dict[str, Any]) -> bool:
    """Whether trips are alike but for the first and last ones.

    No inner loop grows with it, none reads other values, and no condition or extent bends in the middle.

    Args:
        loop: a `for` statement of known extent.

    Returns:
        Whether trips may be taken out of its middle.
    """
    index = re.compile(rf"\b{re.escape(loop['for'])}\b")
    inner, calls = _loops_below(loop["do"])
    if any(index.search(str(other["extent"])) for other in inner):
        return False
    names = {loop["for"]: loop["extent"], **{other["for"]: other["extent"] for other in inner}}
    changing = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
    bent = set()
    for key, text in _strings(loop["do"]):
        if key in _EXPRESSIONS and "read(" in text and (calls or changing.search(text)):
            return False
        if key in _COUNTED and index.search(text):  # what trips in the middle have counted would be missing
            return False
        if key in _EXPRESSIONS and index.search(text) and _BENT.search(text):
            bent.add(text)
    return all(_straight(text, loop["for"], names) for text in bent)


def _straight(text: str, index: str, names: dict[str, Any]) -> bool:
    """Whether an expression rises evenly with an index in the middle of its loop, at both ends of all other indices.

    Where it divides by a constant it has to after as many trips as the constant says.
    """
    symbols = set(re.findall(r"[A-Za-z_][\w.]*", text)) - {"min", "max", "not", "and", "or"}
    if "read(" in text or len(symbols) > 5:
        return False
    turns = math.lcm(*(int(n) for n in re.findall(r"(?://|%)\s*(\d+)", text)), 1)
    trips, edge = names[index], FIRST_TRIPS * turns
    if turns > LONGEST_PERIOD or trips <= 2 * edge + 3 * turns:
        return turns == 1 and trips <= 2 * edge + 3
    others = [name for name in sorted(symbols) if name != index]
    ends = [(0, names[name] - 1 if isinstance(names.get(name), int) else 1) for name in others]
    first, last = edge, trips - 1 - edge
    spacing = turns * max(1, (last - first) // turns // MOST_SAMPLES)
    for choice in itertools.product(*ends):
        given = dict(zip(others, choice, strict=True))
        places = range(first, last + 1, spacing)
        seen = [_core.evaluate_expr(text, {**given, index: i}) for i in places]
        rises = {b - a for a, b in itertools.pairwise(seen)}
        near = [_core.evaluate_expr(text, {**given, index: i}) for i in (first, first + turns, last - turns, last)]
        if len(rises) > 1 or near[1] - near[0] != near[3] - near[2]:
            return False
        if rises and (near[1] - near[0]) * (spacing // turns) != next(iter(rises)):
            return False
    return True


def _formal_names(document: dict[str, Any]) -> dict[str, str]:
    """Tensors that functions' parameters stand for, by the first call."""
    bound: dict[str, str] = {}
    for _, block in blocks(document):
        inner = [block]
        while inner:
            for statement in inner.pop():
                for formal, actual in statement.get("tensors", {}).items() if "call" in statement else ():
                    bound.setdefault(formal, actual)
                inner += [statement[key] for key in ("do", "then", "else") if key in statement]
    return bound


def _bits(dtype: str) -> int:
    return int(_core.dtype_bits(dtype))


def _axis_bits(tensor: dict[str, Any]) -> list[int]:
    """From one index to the next along each axis, in memory without padding to layout tiles."""
    shape = tensor["shape"]
    order = tensor.get("minor_to_major") or list(range(len(shape)))[::-1]
    result, stride = [0] * len(shape), _bits(tensor["dtype"])
    for axis in order:
        result[axis] = stride
        stride *= shape[axis] if isinstance(shape[axis], int) and shape[axis] > 0 else 1
    return result


def _slope(text: Any, index: str) -> int:
    if not isinstance(text, str) or not re.search(rf"\b{re.escape(index)}\b", text) or "read(" in text:
        return 0
    symbols = set(re.findall(r"[A-Za-z_][\w.]*", text)) - {"min", "max", "not", "and", "or"}
    low, high = ({**dict.fromkeys(symbols, 0), index: i} for i in (0, 1))
    return int(_core.evaluate_expr(text, high) - _core.evaluate_expr(text, low))


def repetition(document: dict[str, Any], loop: dict[str, Any], memory: Memory) -> tuple[int, bool]:
    """After how many trips of a loop the places of its transfers within bursts, layout tiles and channels repeat.

    Args:
        document: JSON form of the program.
        loop: a statement of it.
        memory: of the machine.

    Returns:
        The number of trips, and whether that is all: what repeats later than after 64 trips is left out of it.
    """
    tensors = {tensor["name"]: tensor for tensor in document.get("tensors", [])}
    formal, index = _formal_names(document), loop["for"]
    turns: set[int] = set()
    later: set[int] = set()
    inner = [loop["do"]]
    while inner:
        for statement in inner.pop():
            inner += [statement[key] for key in ("do", "then", "else") if key in statement]
            transfer = statement.get("load") or statement.get("store")
            if not isinstance(transfer, dict):
                continue
            name = transfer.get("tensor", "")
            tensor = tensors.get(name) or tensors.get(formal.get(name, ""))
            if tensor is None:
                continue
            steps, moved = [_slope(text, index) for text in transfer.get("at", [])], 0
            order = tensor.get("minor_to_major") or list(range(len(tensor["shape"])))[::-1]
            tile = tensor.get("tile") or []
            for axis, step in enumerate(steps):
                moved += abs(step) * _axis_bits(tensor)[axis]
                for place, granule in zip(order, reversed(tile), strict=False):
                    if place == axis and step:
                        turns.add(granule // math.gcd(granule, step))
            if moved:
                turns.add(8 * memory.burst_bytes // math.gcd(8 * memory.burst_bytes, moved))
                later.add(8 * memory.round_bytes // math.gcd(8 * memory.round_bytes, moved))
    for _, text in _strings(loop["do"]):
        if re.search(rf"\b{re.escape(index)}\b", text):
            turns |= {int(n) for n in re.findall(r"(?://|%)\s*(\d+)", text)}
    result = 1
    for turn in [*sorted(turns), *sorted(later)]:
        if math.lcm(result, turn) <= LONGEST_PERIOD:
            result = math.lcm(result, turn)
    return result, all(result % turn == 0 for turn in turns | later)


def _substituted(value: Any, key: str, index: str, text: str) -> Any:
    """`value` with an index replaced in its expressions; an inner loop may use the name anew."""
    if isinstance(value, str):
        return re.sub(rf"\b{re.escape(index)}\b", text, value) if key in _EXPRESSIONS else value
    if isinstance(value, list):
        return [_substituted(inner, key, index, text) for inner in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, inner in value.items():
        hidden = name == "do" and value.get("for") == index
        under = "value" if key == "parameters" else name  # a call's parameters are named by the user
        result[name] = inner if hidden else _substituted(inner, under, index, text)
    return result


def shortened(document: dict[str, Any], trips: dict[Path, tuple[int, int]]) -> dict[str, Any]:
    """A program whose loops lack trips in their middle: the first and the last ones keep their index.

    Args:
        document: JSON form of the program; not changed.
        trips: path of each loop to its number of trips and how many to keep.

    Returns:
        JSON form of the shorter program.
    """
    short = copy.deepcopy(document)
    for path, (total, kept) in trips.items():
        node, index = at_path(short, path), at_path(short, path)["for"]
        node["extent"] = kept
        seen = f"({index} + {total - kept}*({kept // 2} <= {index}))"
        node["do"] = _substituted(node["do"], "do", index, seen)
    return short
