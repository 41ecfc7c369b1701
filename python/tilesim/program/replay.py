"""Programs of very many tile operations: steady loops are simulated for a few trips and extended linearly."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from .statements import Counter, operations
from .steady import Memory, Path, Steady, at_path, blocks, repetition, shortened, steady

__all__ = ["LIMIT", "LIMIT_BANKS", "Memory", "Steady", "extended", "operations", "shortened", "steady_loops"]

LIMIT = 4_000_000
"""Tile operations beyond which `simulate` replays steady loops."""
LIMIT_BANKS = 1 << 30
"""Bytes of tensors beyond which `simulate` replays calls that are alike where memory has banks."""
ANY_MEMORY = Memory()
FIRST = 4  # trips that are simulated at least: past the filling of any ring of two or three buffers
WANTED = 0.01  # of the bound: with a larger one, more trips are simulated
WORST = 0.1  # of the bound: with a larger one, nothing is replayed
LONGEST = 4  # times that the number of simulated trips is doubled
MARGIN = 4  # times what two predictions differ by; see `_bounds`
LEAST = 0.005  # what is promised at best
LEAST_QUEUES = 0.05  # of all cycles: the same for DMA queues
MOST_RUNS = 64
FEWEST_CALLS = 6  # of one function in a row, for calls to be extended
WORST_CALL = 0.01  # of their bound

_COUNTS = ("cycles", "tile_operations", "events", "memory_read_bytes", "memory_written_bytes", "network_bytes")
_SUMS = (*_COUNTS, "multiply_adds", "vector_operations", "units", "operations", "energy")
_MOVED = tuple(f"memory_{part}_bytes" for part in ("merged", "forwarded", "padding"))  # absent: 0
_KEPT = ("bound_share", "core", "known")  # ratios and labels: those of the longest run
_WAITING = ("idle", "wait_load", "wait_store", "wait_dependency", "wait_port", "start", "finish", "events", "exclusive")


def _kept(loop: Steady, grown: int) -> tuple[int, int, int]:
    """Numbers of trips to simulate, each a whole number of periods short of all: what is left out is not missed."""
    least = FIRST + (loop.trips - FIRST) % loop.period
    step = grown * loop.period * -(-FIRST // loop.period)
    return least, least + step, least + 3 * step


def _heaviest(document: dict[str, Any], memory: Memory, grown: int) -> tuple[Path, Path, Steady] | None:
    """The outermost long steady loop of the heaviest kernel: the kernel's path, the loop's, and what it is."""
    best: tuple[int, Path, Path, Steady] | None = None
    counter = Counter(document)
    for start, block in blocks(document):
        for i, kernel in enumerate(block):
            path, node, trips = (*start, i), kernel, 1
            while True:
                if "for" in node and isinstance(node["extent"], int):
                    weight = trips * node["extent"] * counter.count(node["do"])
                    if node["extent"] > 2 * FIRST and (best is None or weight > best[0]) and steady(node):
                        loop = Steady(node["extent"], *repetition(document, node, memory))
                        if _kept(loop, grown)[2] < loop.trips:
                            best = (weight, (*start, i), path, loop)
                            break
                    trips *= node["extent"]
                inside = [(key, n) for key in ("do", "then", "else") for n in range(len(node.get(key, [])))]
                if not inside:
                    break
                key, index = max(inside, key=lambda at: counter.count([node[at[0]][at[1]]]))
                path, node = (*path, key, index), node[key][index]
    return None if best is None else best[1:]


def _runs(loops: dict[Path, dict[Path, Steady]]) -> int:
    """Simulations that these loops need."""
    return sum(2 ** (len(group) + 1) for group in loops.values())


def steady_loops(
    document: dict[str, Any], limit: int, memory: Memory = ANY_MEMORY, grown: int = 1
) -> dict[Path, dict[Path, Steady]]:
    """Loops to shorten until a program is within a number of operations.

    Args:
        document: JSON form of the program; not changed.
        limit: tile operations.
        memory: of the machine.
        grown: how many times as many trips as usual are simulated.

    Returns:
        Per kernel (its path in the document) the loops (paths) with their number of trips and after how many those
        repeat; not all that are needed where that takes more than 64 runs.
    """
    short = copy.deepcopy(document)
    loops: dict[Path, dict[Path, Steady]] = {}
    while operations(short) > limit and _runs(loops) <= MOST_RUNS:
        found = _heaviest(short, memory, grown)
        if found is None:
            break
        kernel, path, loop = found
        loops.setdefault(kernel, {})[path] = loop
        at_path(short, path)["extent"] = 2 * FIRST  # no longer than what is left alone
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


def _numbers(data: Any, path: Path = ()) -> Iterator[tuple[Path, float]]:
    """Every number that grows with the work, but for times of waiting."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in _KEPT and key not in _WAITING:
                yield from _numbers(value, (*path, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from _numbers(value, (*path, i))
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path, float(data)


def _bounds(shorter: dict[str, Any], longer: dict[str, Any]) -> tuple[float, float, float]:
    """What two predictions from different runs leave open: of cycles, other counts, busy cycles of DMA queues.

    The one from longer runs is as far off as both are apart where errors halve with twice the trips. Rings that fill
    over more trips than were simulated are seen by neither: of 2,400 random loops, ten were further off than twice the
    difference or a thousandth, at most by 1.7 % of the cycles. So four times the difference is said, and no less than
    half a per cent. Times below a hundredth of all cycles are measured by that. A DMA queue is busy while its transfer
    waits behind those of others, so that its busy cycles depend on how far ahead the others are, which may shift once
    in a thousand trips: of 2,330 random loops three were off, at most by 2.5 % of all cycles. Twice that is said.
    """
    small = longer["cycles"] / 100
    found = {"cycles": LEAST, "others": LEAST, "queues": LEAST_QUEUES}
    for (path, a), (_, b) in zip(_numbers(shorter), _numbers(longer), strict=True):
        timed = "cycles" in path or str(path[-1]).endswith("busy")
        if timed and path[0] == "units" and longer["units"][path[1]]["kind"] in ("load", "store"):
            key, least = "queues", longer["cycles"]
        else:
            key, least = "cycles" if path == ("cycles",) else "others", small if timed else 1.0
        found[key] = max(found[key], MARGIN * abs(a - b) / max(b, least))
    return found["cycles"], max(found["cycles"], found["others"]), found["queues"]


def _weights(loops: dict[Path, Steady], low: int, grown: int) -> dict[tuple[int, ...], Fraction]:
    """Of the runs with the `low`th and the next number of trips of each loop, for a run with all trips."""
    weights = {}
    for choice in itertools.product((low, low + 1), repeat=len(loops)):
        weight = Fraction(1)
        for level, loop in zip(choice, loops.values(), strict=True):
            kept = _kept(loop, grown)
            share = Fraction(loop.trips - kept[low], kept[low + 1] - kept[low])
            weight *= share if level > low else 1 - share
        weights[choice] = weight
    return weights


def _finished(
    data: dict[str, Any], base: dict[str, Any], what: str, bounds: tuple[float, float, float], bounded: bool = True
) -> dict[str, Any]:
    result = _balanced({**base, **data})
    for part in ("memory", "network", "counts"):  # of the short runs: no picture of the long one
        result.pop(part, None)
    said = (
        f"cycles are within {bounds[0]:.2%}, busy cycles of units, bytes and kernels' rows within {bounds[1]:.2%}, "
        f"busy cycles of DMA queues within {bounds[2]:.2%} of all"
    )
    if not bounded:
        apart = [bound / MARGIN for bound in bounds]
        said = (
            "some places in memory repeat only after more trips than were compared, so that nothing bounds what this "
            f"is off; two predictions of the whole differ by {apart[0]:.2%} in cycles, {apart[1]:.2%} in other counts"
        )
    result["approximations"] = [*base["approximations"], f"replay: {what} and extended linearly; {said}"]
    return result


def _calls_extended(
    document: dict[str, Any], run: Callable[[str], dict[str, Any]], memory: Memory
) -> dict[str, Any] | None:
    """From runs with a few of the calls that are alike; none where there are few, or time is not linear in them."""
    alike = _alike_calls(document)
    if alike is None:
        return None
    first, last = alike
    total = last - first

    def with_calls(count: int) -> dict[str, Any]:
        body = document["do"]
        short = {**document, "do": [*body[: first + count], *body[last:]]}
        found = _loops_extended(short, run, memory) if operations(short) > LIMIT else None
        return run(json.dumps(short)) if found is None else found

    runs = {count: with_calls(count) for count in (1, 2, 4)}

    def predicted(low: int, high: int) -> dict[str, Any]:
        share = Fraction(total - low, high - low)
        parts = (1 - share, runs[low]), (share, runs[high])
        return dict(_combined([(weight, _sums(part)) for weight, part in parts]))

    bounds = _bounds(predicted(1, 2), predicted(2, 4))
    if bounds[0] > WORST_CALL:
        return None
    name = document["do"][first]["call"]
    what = f"{total} calls of {name} ({operations(document):,} tile operations in all) are alike: two and four"
    return _finished(predicted(2, 4), runs[4], f"{what} were simulated", bounds)


def extended(
    document: dict[str, Any], run: Callable[[str], dict[str, Any]], memory: Memory = ANY_MEMORY
) -> dict[str, Any] | None:
    """The result of a long program from short runs of it.

    Layers that are called one after the other are alike where every kernel ends before the next one starts: the program
    is simulated with one, two and four of them.

    Otherwise every count is taken as linear in the trips of each shortened loop, and kernels as independent. Loops lose
    whole periods of trips, after which places within bursts, layout tiles and channels repeat, so that what is left
    out is like what is left. They are simulated for three numbers of trips, in all combinations of two within a
    kernel; the two predictions of the whole that this gives say how far off it may be, and more trips are simulated
    where that is much.

    Args:
        document: JSON form of the program; not changed.
        run: simulates a program given as JSON text and returns the JSON form of its result.
        memory: of the machine.

    Returns:
        The JSON form of the result, with the replay and its bound among its approximations; none where no loop can be
        shortened, the runs would take longer than the program, or the bound is above 10 %.
    """
    found = _calls_extended(document, run, memory)
    return _loops_extended(document, run, memory) if found is None else found


def _loops_extended(
    document: dict[str, Any], run: Callable[[str], dict[str, Any]], memory: Memory
) -> dict[str, Any] | None:
    best: tuple[tuple[float, float, float], dict[str, Any]] | None = None
    for doubled in range(LONGEST + 1):
        found = _prediction(document, run, memory, 2**doubled)
        if found is None:
            break
        if best is None or found[0][1] < best[0][1]:
            best = found
        if best[0][1] <= WANTED:
            break
    return None if best is None or best[0][1] > WORST else best[1]


def _prediction(
    document: dict[str, Any], run: Callable[[str], dict[str, Any]], memory: Memory, grown: int
) -> tuple[tuple[float, float, float], dict[str, Any]] | None:
    """The bounds and the result with so many times the usual trips."""
    loops = steady_loops(document, LIMIT // 20, memory, grown)
    if not loops or _runs(loops) > MOST_RUNS:
        return None
    everywhere = {path: loop for group in loops.values() for path, loop in group.items()}
    levels = dict.fromkeys(everywhere, 1)

    def program(chosen: dict[Path, int]) -> dict[str, Any]:
        kept = {path: (loop.trips, _kept(loop, grown)[chosen[path]]) for path, loop in everywhere.items()}
        return shortened(document, kept)

    programs: dict[Path, dict[tuple[int, ...], dict[str, Any]]] = {
        kernel: {
            choice: program({**levels, **dict(zip(group, choice, strict=True))})
            for low in (0, 1)
            for choice in _weights(group, low, grown)
            if set(choice) != {1}
        }
        for kernel, group in loops.items()
    }
    several = program(levels)
    costs = [operations(short) for group in programs.values() for short in group.values()]
    if operations(several) + sum(costs) > operations(document):
        return None
    base = run(json.dumps(several))
    runs = {
        kernel: {(1,) * len(loops[kernel]): base} | {choice: run(json.dumps(short)) for choice, short in group.items()}
        for kernel, group in programs.items()
    }

    def predicted(low: int) -> dict[str, Any]:
        parts = [(Fraction(1), base)]
        for kernel, group in loops.items():
            parts.append((Fraction(-1), base))
            parts += [(weight, runs[kernel][choice]) for choice, weight in _weights(group, low, grown).items()]
        return dict(_combined([(weight, _sums(part)) for weight, part in parts]))

    bounds = _bounds(predicted(0), predicted(1))
    trips = ", ".join(sorted({"/".join(map(str, _kept(loop, grown))) for loop in everywhere.values()}))
    what = (
        f"{len(everywhere)} steady loops of {operations(document):,} tile operations in all were simulated for {trips}"
    )
    bounded = all(loop.whole for loop in everywhere.values())
    return bounds, _finished(predicted(1), base, f"{what} trips", bounds, bounded)
