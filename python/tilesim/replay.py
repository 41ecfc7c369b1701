"""Programs of very many tile operations: steady loops are simulated for a few trips and extended linearly."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from ._statements import Counter, operations

__all__ = ["LIMIT", "LIMIT_BANKS", "extended", "operations", "shortened", "steady_loops"]

LIMIT = 4_000_000
"""Tile operations beyond which `simulate` replays steady loops."""
LIMIT_BANKS = 1 << 30
"""Bytes of tensors beyond which `simulate` replays calls that are alike where memory has banks."""
LOW, HIGH, CHECK = 4, 8, 12  # trips that are simulated: past the filling of any ring of two or three buffers
WORST = 0.05  # of the check
MOST_RUNS = 64
FEWEST_CALLS = 5  # of one function in a row, for calls to be extended
WORST_CALL = 0.005  # of the check; what it is off grows with the calls that are left out

Path = tuple[Any, ...]
_COUNTS = ("cycles", "tile_operations", "events", "memory_read_bytes", "memory_written_bytes", "network_bytes")
_SUMS = (*_COUNTS, "multiply_adds", "vector_operations", "units", "operations", "energy")
_MOVED = tuple(f"memory_{part}_bytes" for part in ("merged", "forwarded", "padding"))  # absent: 0
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
_KEPT = ("bound_share", "core", "known")  # ratios and labels: those of the longest run


def _blocks(document: dict[str, Any]) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    yield ("do",), document["do"]
    for i, function in enumerate(document.get("functions", [])):
        yield ("functions", i, "do"), function["do"]


def _at(document: Any, path: Path) -> Any:
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


def _is_steady(loop: dict[str, Any]) -> bool:
    """Whether trips are alike but for the first and last ones: no inner loop grows with it, none reads other values."""
    index = re.compile(rf"\b{re.escape(loop['for'])}\b")
    names, inner, calls = [loop["for"]], [loop["do"]], False
    while inner:
        for statement in inner.pop():
            if "for" in statement:
                names.append(statement["for"])
                if index.search(str(statement["extent"])):
                    return False
            calls |= "call" in statement
            inner += [statement[key] for key in ("do", "then", "else") if key in statement]
    changing = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
    for key, text in _strings(loop["do"]):
        if key in _EXPRESSIONS and "read(" in text and (calls or changing.search(text)):
            return False
        if key in _COUNTED and index.search(text):  # what trips in the middle have counted would be missing
            return False
    return True


def _heaviest(document: dict[str, Any]) -> tuple[Path, Path] | None:
    """The outermost long steady loop of the heaviest kernel: the kernel's path and the loop's."""
    best: tuple[int, Path, Path] | None = None
    counter = Counter(document)
    for start, block in _blocks(document):
        for i, kernel in enumerate(block):
            path, node, trips = (*start, i), kernel, 1
            while True:
                if "for" in node and isinstance(node["extent"], int):
                    if node["extent"] > CHECK and _is_steady(node):
                        weight = trips * node["extent"] * counter.count(node["do"])
                        if best is None or weight > best[0]:
                            best = (weight, (*start, i), path)
                        break
                    trips *= node["extent"]
                inside = [(key, n) for key in ("do", "then", "else") for n in range(len(node.get(key, [])))]
                if not inside:
                    break
                key, index = max(inside, key=lambda at: counter.count([node[at[0]][at[1]]]))
                path, node = (*path, key, index), node[key][index]
    return None if best is None else best[1:]


def _runs(loops: dict[Path, dict[Path, int]]) -> int:
    """Simulations that these loops need."""
    return sum(2 ** len(group) for group in loops.values())


def steady_loops(document: dict[str, Any], limit: int) -> dict[Path, dict[Path, int]]:
    """Loops to shorten until a program is within a number of operations.

    Args:
        document: JSON form of the program; not changed.
        limit: tile operations.

    Returns:
        Per kernel (its path in the document) the loops (paths) with their number of trips; not all that are needed
        where that takes more than 64 runs.
    """
    short = copy.deepcopy(document)
    loops: dict[Path, dict[Path, int]] = {}
    while operations(short) > limit and _runs(loops) <= MOST_RUNS:
        found = _heaviest(short)
        if found is None:
            break
        kernel, loop = found
        node = _at(short, loop)
        loops.setdefault(kernel, {})[loop] = node["extent"]
        node["extent"] = HIGH
    return loops


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
        node, index = _at(short, path), _at(short, path)["for"]
        node["extent"] = kept
        seen = f"({index} + {total - kept}*({kept // 2} <= {index}))"
        node["do"] = _substituted(node["do"], "do", index, seen)
    return short


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


def _sums(part: dict[str, Any]) -> dict[str, Any]:
    return {key: part[key] for key in _SUMS} | {key: part.get(key, 0) for key in _MOVED}


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


def _weights(loops: dict[Path, int], wanted: dict[Path, int]) -> dict[tuple[int, ...], Fraction]:
    """Of the runs with 4 and 8 trips of each loop, for a run with the wanted numbers of trips."""
    weights = {}
    for trips in itertools.product((LOW, HIGH), repeat=len(loops)):
        weight = Fraction(1)
        for path, simulated in zip(loops, trips, strict=True):
            weight *= Fraction(wanted[path] - LOW if simulated == HIGH else HIGH - wanted[path], HIGH - LOW)
        weights[trips] = weight
    return weights


def _alike_calls(document: dict[str, Any]) -> tuple[int, int] | None:
    """The longest run of calls of one function that differ in the names of their tensors alone: first, behind the last.

    Every kernel of the function ends before what follows, and values that timing reads are the same in all calls.
    """
    read = {tensor["name"] for tensor in document.get("tensors", []) if "typical" in tensor}
    apart = {
        function["name"]
        for function in document.get("functions", [])
        if all("scope" in statement and statement.get("barrier") for statement in function["do"])
    }

    def form(statement: dict[str, Any]) -> Any:
        if statement.get("call") not in apart:
            return None
        rest = {key: value for key, value in statement.items() if key != "tensors"}
        tensors = statement.get("tensors", {})
        return rest, sorted(tensors), {key: name for key, name in tensors.items() if name in read}

    best, start = (0, 0), 0
    body = [form(statement) for statement in document["do"]]
    for i, here in enumerate(body):
        if here is None or here != body[start]:
            start = i
        if here is not None and i + 1 - start > best[1] - best[0]:
            best = start, i + 1
    return best if best[1] - best[0] >= FEWEST_CALLS else None


def _calls_extended(document: dict[str, Any], run: Callable[[str], dict[str, Any]]) -> dict[str, Any] | None:
    """From runs with one and two of the calls that are alike; none where there are few, or a third one costs another
    time."""
    alike = _alike_calls(document)
    if alike is None:
        return None
    first, last = alike
    total = last - first

    def with_calls(count: int) -> dict[str, Any]:
        body = document["do"]
        short = {**document, "do": [*body[: first + count], *body[last:]]}
        found = _loops_extended(short, run) if operations(short) > LIMIT else None
        return run(json.dumps(short)) if found is None else found

    one, two, three = (with_calls(count) for count in (1, 2, 3))

    def at(count: int) -> dict[str, Any]:
        weights = (Fraction(2 - count), one), (Fraction(count - 1), two)
        return dict(_combined([(weight, _sums(part)) for weight, part in weights]))

    off = at(3)["cycles"] / three["cycles"] - 1
    if abs(off) > WORST_CALL:
        return None
    data = _balanced({**two, **at(total)})
    for part in ("memory", "network"):  # of the short runs: no picture of the long one
        data.pop(part, None)
    name = document["do"][first]["call"]
    data["approximations"] = [
        *two["approximations"],
        f"replay: {total} calls of {name} ({operations(document):,} tile operations in all) are alike: one and two "
        f"were simulated and extended linearly; a run of 3 is predicted within {abs(off):.3%}",
    ]
    return data


def extended(document: dict[str, Any], run: Callable[[str], dict[str, Any]]) -> dict[str, Any] | None:
    """The result of a long program from short runs of it.

    Layers that are called one after the other are alike where every kernel ends before the next one starts: the program
    is simulated with one and with two of them, and a run with three checks that time is linear in them.

    Otherwise every count is taken as linear in the trips of each shortened loop, and kernels as independent: loops are
    simulated for 4 and for 8 trips, the first and the last ones, in all combinations within a kernel. A run with 12
    trips of each checks this.

    Args:
        document: JSON form of the program; not changed.
        run: simulates a program given as JSON text and returns the JSON form of its result.

    Returns:
        The JSON form of the result, with the replay and what the check found among its approximations; none where no
        loop can be shortened, the runs would take longer than the program, or the check is more than 5 % off.
    """
    found = _calls_extended(document, run)
    return _loops_extended(document, run) if found is None else found


def _loops_extended(document: dict[str, Any], run: Callable[[str], dict[str, Any]]) -> dict[str, Any] | None:
    loops = steady_loops(document, LIMIT // 20)
    if not loops or _runs(loops) > MOST_RUNS:
        return None
    everywhere = {path: total for group in loops.values() for path, total in group.items()}
    short = operations(shortened(document, {path: (total, HIGH) for path, total in everywhere.items()}))
    if short * _runs(loops) > operations(document):
        return None

    def simulate(kept: dict[Path, int]) -> dict[str, Any]:
        return run(json.dumps(shortened(document, {p: (everywhere[p], kept[p]) for p in everywhere})))

    def at(runs: dict[Path, dict[tuple[int, ...], dict[str, Any]]], wanted: dict[Path, int]) -> dict[str, Any]:
        parts = [(Fraction(1), base)]
        for kernel, group in loops.items():
            parts.append((Fraction(-1), base))
            parts += [(weight, runs[kernel][trips]) for trips, weight in _weights(group, wanted).items()]
        return _combined([(weight, _sums(part)) for weight, part in parts])

    high = dict.fromkeys(everywhere, HIGH)
    base = simulate(high)
    runs: dict[Path, dict[tuple[int, ...], dict[str, Any]]] = {}
    for kernel, group in loops.items():
        runs[kernel] = {
            trips: base if set(trips) == {HIGH} else simulate({**high, **dict(zip(group, trips, strict=True))})
            for trips in itertools.product((LOW, HIGH), repeat=len(group))
        }
    check = dict.fromkeys(everywhere, CHECK)
    off = at(runs, check)["cycles"] / simulate(check)["cycles"] - 1
    if abs(off) > WORST:
        return None
    data = _balanced({**base, **at(runs, everywhere)})
    for part in ("memory", "network"):  # of the short runs: no picture of the long one
        data.pop(part, None)
    data["approximations"] = [
        *base["approximations"],
        f"replay: {len(everywhere)} steady loops of {operations(document):,} tile operations in all were simulated for "
        f"{LOW} and {HIGH} trips and extended linearly; a run of {CHECK} trips is predicted within {abs(off):.2%}",
    ]
    return data
