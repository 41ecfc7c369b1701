"""What stands between the lower bound of operations and their time: every cycle belongs to one term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..results.rates import Rates
from .facts import Facts
from .spans import Cycles, Spans, busy, covered

__all__ = ["MEANINGS", "terms_of"]

MEANINGS = {
    "lower bound": "what {part} for this work at the peak, whatever the tiles",
    "ragged tiles": "rows, columns and depths of the arrays that tiles do not fill",
    "weights": "arrays take in weights that nothing hides",
    "fill and drain": "operands run into the arrays, sums out of them",
    "arrays without work": "some arrays of a core compute, others do not",
    "functions and lanes": "dearer functions, lanes that rows do not fill, latency of the vector unit",
    "arrays": "arrays compute, and nothing hides them",
    "vector unit": "vector or cross-lane unit at work, and nothing hides it",
    "values between kernels": "one of these kernels writes to memory what another reads",
    "read again": "bytes that were moved before, since tiles or cores share them",
    "bursts and padding": "bytes of whole bursts and padded layouts beyond the elements",
    "links between regions": "bytes and sends that cross from one region of memory to another, at the links' rate",
    "port": "transfers at the rate of the core's DMA and network port, below the memory's",
    "first load": "a run's first tile is on its way, and nothing can compute",
    "last store": "a run's last results are on their way, and all is computed",
    "waits for data": "transfers under way, none of the units can compute",
    "below the memory's rate": "transfers under way that take longer than their bytes at the memory's rate: latency, "
    "queues, links, rows and refresh",
    "sends between cores": "tiles go from core to core, and nothing else is under way",
    "cores without work": "cores that have no part in these runs, or no more",
    "launch": "kernels are launched",
    "dependency": "nothing is under way: a tile, a buffer or another core is waited for",
    "waits": "first loads, other units, dependencies: not told apart without intervals",
    "closed form": "what the closed form says beyond peak and launch: tiles, occupancy, latency, the host's waits",
    "host": "the host computes, and the machine waits",
    "link": "values cross the link between machine and host",
    "beside others": "all of it ran while other operations' time was counted",
}


class _Account:
    """Cycles that are still to be told, given to one term after the other."""

    def __init__(self) -> None:
        self.cycles: dict[str, float] = {}
        self.how: dict[str, str] = {}

    def give(self, name: str, cycles: float, how: str) -> None:
        if cycles > 0:
            self.cycles[name] = self.cycles.get(name, 0.0) + cycles
            self.how[name] = how

    def peel(self, whole: float, parts: Sequence[tuple[str, float]], rest: str, how: str = "counted") -> None:
        """Divides `whole`: to each part what it takes, as far as there is any; what is left to the last."""
        for name, cycles in parts:
            taken = min(whole, max(0.0, cycles))
            self.give(name, taken, how)
            whole -= taken
        self.give(rest, whole, "remainder")


def _array_parts(facts: Facts, rates: Rates, data: Mapping[str, Any], within: float, whole: float) -> tuple[Any, str]:
    """Parts of the time in which arrays compute, `whole` cycles of `within` of their work; where the rest goes."""
    peak = rates.multiply_adds(facts.dtype) or 1.0
    parts = [
        ("lower bound", within * facts.multiply_adds / peak),
        ("ragged tiles", within * facts.padded_multiply_adds / peak),
    ]
    if "core" not in data["configuration"]:
        return parts, "weights"
    array = data["configuration"]["core"]["array"]
    left = max(0.0, whole - sum(cycles for _, cycles in parts))
    if array["dataflow"] == "output_stationary" or array["sparse"]["multipliers"]:
        return parts, "fill and drain"
    if not array["weight_double_buffer"]:
        load = array["rows"] / array["weight_rows_per_cycle"]
        parts.append(("weights", left * load / (load + array["rows"] + array["columns"] - 2)))
        return parts, "fill and drain"
    return parts, "weights"


def _memory_parts(facts: Facts, rates: Rates, data: Mapping[str, Any], within: float) -> list[tuple[str, float]]:
    """Parts of the time in which bytes are on their way."""
    rate = rates.memory or float("inf")
    further = max(0.0, facts.bytes - facts.least_bytes)
    inner = min(further, facts.inner_bytes)
    if "core" not in data["configuration"]:
        return [("lower bound", within * facts.bytes / rate)]
    known = (facts.bytes + facts.padded_bytes) / rate
    port = facts.asked_bytes / rates.port - known
    links = _crossing(facts, data) / rates.links - known if rates.links else 0.0
    return [
        ("lower bound", within * facts.least_bytes / rate),
        ("values between kernels", within * inner / rate),
        ("read again", within * (further - inner) / rate),
        ("bursts and padding", within * facts.padded_bytes / rate),
        ("links between regions", within * links),
        ("port", within * (port - max(0.0, links))),
    ]


def _latency(data: Mapping[str, Any], rates: Rates) -> float:
    """Cycles until the first byte of a load arrives when nothing is in its way."""
    settings = data["configuration"]
    network, dma = settings["network"], settings["core"]["dma"]
    clock = _core.parse_frequency(str(network["clock"])) / rates.hertz
    memory = _core.parse_duration(str(settings["memory"]["latency"])) * 1e-12 * rates.hertz if rates.memory else 0.0
    return float(memory + network["latency_cycles"] / clock + dma["issue_cycles"] + dma["latency_cycles"])


def _crossing(facts: Facts, data: Mapping[str, Any]) -> float:
    """Bytes that pass links between regions: of loads, stores and sends as large a part as in the whole run."""
    local, remote = data.get("memory_local_bytes", 0), data.get("memory_remote_bytes", 0)
    passed = sum(row["bytes"] for row in data["units"] if row["kind"] == "region_link")
    sent = sum(row["bytes"] for row in data["units"] if row["kind"] == "send")
    far = facts.asked_bytes * remote / max(1, local + remote)
    return float(far + facts.sent_bytes * min(1.0, max(0, passed - remote) / max(1, sent)))


def terms_of(
    facts: Facts, rates: Rates, data: Mapping[str, Any], spans: Spans | None
) -> tuple[list[dict[str, Any]], str]:
    """Terms of the time of some operations."""
    bounds = facts.bounds(rates)
    part = max(bounds, key=lambda name: bounds[name])
    part = part if bounds[part] > 0 else "none"
    account = _Account()
    elsewhere = sum(facts.elsewhere.values())
    for name, cycles in facts.elsewhere.items():
        account.give(name, cycles, "counted")
    if not facts.cycles:
        account.give("beside others", 1.0, "counted")
    elif facts.cycles == elsewhere:
        part = "none"
    elif spans is None or elsewhere:
        _counted(account, facts, rates, data, part)
    else:
        _measured(account, facts, rates, data, part, spans)
    total = sum(account.cycles.values())
    words = {"array": "the arrays need", "vector": "the vector units need", "memory": "the memory needs", "none": ""}
    rows = []
    for name in sorted(account.cycles, key=lambda name: (name != "lower bound", -account.cycles[name])):
        share = account.cycles[name] / total
        meaning = MEANINGS[name].format(part=words[part])
        if name == "lower bound" and part == "memory" and not facts.least_known:
            meaning = "what the memory needs at its rate for the bytes that these tiles move: the least is not known"
        own = share * facts.cycles
        rows.append({"term": name, "cycles": own, "share": share, "meaning": meaning, "how": account.how[name]})
    return rows, part


def _counted(account: _Account, facts: Facts, rates: Rates, data: Mapping[str, Any], part: str) -> None:
    """From the counters of the operations alone."""
    if "core" not in data["configuration"]:  # a closed form has no states
        bound = max(facts.bounds(rates).values())
        account.peel(float(facts.cycles), [("lower bound", bound), ("launch", float(facts.launch))], "closed form")
        return
    whole = float(facts.cycles - sum(facts.elsewhere.values()))
    spent = min(whole, float(sum(row[f"{part}_busy"] for row in facts.rows))) if part != "none" else 0.0
    if part == "array":
        parts, rest = _array_parts(facts, rates, data, 1.0, spent)
        account.peel(spent, parts, rest)
    elif part == "vector":
        account.peel(spent, [("lower bound", facts.vector_operations / rates.vector)], "functions and lanes")
    elif part == "memory":
        account.peel(spent, _memory_parts(facts, rates, data, 1.0), "bursts and padding")
    account.peel(whole - spent, [("launch", float(facts.launch))], "waits")


@dataclass
class _Core:
    """What one core does at each step of the grid."""

    array: npt.NDArray[np.bool_]
    arrays: npt.NDArray[np.float64]  # how many of its arrays
    vector: npt.NDArray[np.bool_]
    moves: npt.NDArray[np.bool_]
    sends: npt.NDArray[np.bool_]
    drains: npt.NDArray[np.bool_]
    begins: int  # cycle of its first work
    ends: int


def _cores(spans: Spans, facts: Facts, grid: Cycles, drain: int) -> dict[int, _Core]:
    found: dict[int, _Core] = {}
    none = np.zeros(len(grid) - 1, np.bool_)
    for (core, kind), units in spans.work(facts.names).items():
        own = found.setdefault(core, _Core(none, np.zeros(len(none)), none, none, none, none, spans.cycles, 0))
        for intervals in units:
            on = covered(intervals, grid)
            own.begins, own.ends = min(own.begins, int(intervals[0, 0])), max(own.ends, int(intervals[:, 1].max()))
            if kind in ("vector", "cross_lane"):
                own.vector = own.vector | on
            elif kind in ("load", "store"):
                own.moves = own.moves | on
            elif kind == "send":
                own.sends = own.sends | on
            else:
                own.array, own.arrays = own.array | on, own.arrays + on
                after = np.minimum(intervals + np.array((0, drain)), grid[-1])
                own.drains = own.drains | covered(np.asarray(after), grid)
    return found


def _measured(account: _Account, facts: Facts, rates: Rates, data: Mapping[str, Any], part: str, spans: Spans) -> None:
    """From the recorded intervals: each instant, of each core, belongs to one state."""
    array = data["configuration"]["core"]["array"]
    held = array["dataflow"] != "output_stationary" and array["weight_double_buffer"]
    drain = array["rows"] + array["columns"] - 2 if held and not array["sparse"]["multipliers"] else 0
    windows, work = spans.of(facts.names), spans.work(facts.names)
    edges = [windows.ravel(), np.array([0, spans.cycles])]
    for (_, kind), units in work.items():
        edges += [intervals.ravel() for intervals in units]
        if kind not in ("vector", "cross_lane", "load", "store", "send"):
            edges += [intervals[:, 1] + drain for intervals in units]
    grid = np.unique(np.clip(np.concatenate(edges), 0, spans.cycles))
    steps = np.where(covered(windows, grid), np.diff(grid), 0).astype(np.float64)
    cores = _cores(spans, facts, grid, drain)
    number = max(rates.cores, len(cores), 1)
    moving = np.zeros(len(steps), np.bool_)
    for core in cores.values():
        moving |= core.moves
    left = {name: 0.0 for name in ("array", "arrays", "vector", "first", "last", "moves", "send", "drain", "idle")}
    kept = steps * ~moving if part in ("memory", "none") else steps
    absent = float(number - len(cores)) * float(kept.sum())
    for core in cores.values():
        if part == "vector":  # what both do at one time is the bounding part's
            core.array, core.arrays = core.array & ~core.vector, core.arrays * ~core.vector
        else:
            core.vector = core.vector & ~core.array
        absent += _states(core, kept, grid, windows, left)
    transferred = float((steps * moving).sum()) * number if part in ("memory", "none") else left["moves"]
    for name in left:
        left[name] /= number
    _tell(
        account, facts, rates, data, part, left, transferred / number, _within(spans, work, windows, part), len(windows)
    )
    idle = account.cycles.pop("dependency", 0.0)
    account.give("launch", min(idle, float(facts.launch)), "counted")
    account.give("dependency", idle - min(idle, float(facts.launch)), "measured")
    account.give("cores without work", absent / number, "measured")


def _states(
    core: _Core, steps: npt.NDArray[np.float64], grid: Cycles, windows: Cycles, left: dict[str, float]
) -> float:
    """Adds a core's cycles in each state; the cycles in which it has no part in a run."""
    free = ~(core.array | core.vector)
    at = np.searchsorted(windows[:, 0], grid[:-1], side="right") - 1  # the run's stretch of each step
    computes = np.where(free, np.int64(-1), np.arange(len(steps)))
    first, last = np.full(len(windows) + 1, len(steps)), np.full(len(windows) + 1, -1)
    busy_steps = computes[(computes >= 0) & (steps > 0)]
    np.minimum.at(first, at[busy_steps], busy_steps)
    np.maximum.at(last, at[busy_steps], busy_steps)
    order = np.arange(len(steps))
    moves = free & core.moves
    before, after = moves & (order < first[at]), moves & (order > last[at]) & (last[at] >= 0)
    waits = moves & ~before & ~after
    nothing = free & ~core.moves
    sends = nothing & core.sends
    drains = nothing & ~sends & core.drains
    idle = nothing & ~sends & ~drains
    used = np.zeros(len(windows) + 1, np.bool_)
    used[at[(core.array | core.vector | core.moves | core.sends) & (steps > 0)]] = True
    absent = idle & ~used[at]
    left["array"] += float((steps * core.array).sum())
    left["arrays"] += float((steps * core.arrays).sum())
    left["vector"] += float((steps * core.vector).sum())
    for name, mask in (("first", before), ("last", after), ("moves", waits), ("send", sends), ("drain", drains)):
        left[name] += float((steps * mask).sum())
    left["idle"] += float((steps * (idle & ~absent)).sum())
    return float((steps * absent).sum())


def _arrays_beside(account: _Account, facts: Facts, rates: Rates, cycles: float) -> None:
    """Time of arrays that do not bound: what padding takes of all their work, apart."""
    peak = rates.multiply_adds(facts.dtype) or 1.0
    padded, useful = facts.padded_multiply_adds / peak, facts.multiply_adds / peak
    ragged = cycles * padded / max(padded + useful, facts.array_busy, 1e-9)
    account.give("ragged tiles", ragged, "attributed")
    account.give("arrays", cycles - ragged, "measured" if not ragged else "attributed")


def _within(spans: Spans, work: Mapping[tuple[int, str], list[Cycles]], windows: Cycles, part: str) -> float:
    """Which share of a part's work lies in the time that is counted as the operations'."""
    kinds = {"vector": ("vector",), "memory": ("load", "store"), "none": ("load", "store")}
    others = ("vector", "cross_lane", "load", "store", "send")
    chosen = [
        intervals
        for (_, kind), units in work.items()
        for intervals in units
        if (kind in kinds[part] if part in kinds else kind not in others)
    ]
    whole = sum(busy(intervals) for intervals in chosen)
    inside = 0
    for intervals in chosen:
        grid = np.unique(np.concatenate([intervals.ravel(), windows.ravel()]))
        both = covered(intervals, grid) & covered(windows, grid)
        inside += int((np.diff(grid) * both).sum())
    return inside / whole if whole else 0.0


def _tell(
    account: _Account,
    facts: Facts,
    rates: Rates,
    data: Mapping[str, Any],
    part: str,
    left: Mapping[str, float],
    moved: float,
    within: float,
    runs: int,
) -> None:
    """Gives the states to terms; the work of the part that bounds is divided by what it counts."""
    if part in ("memory", "none"):
        fixed = [("first load", runs * _latency(data, rates))]
        account.peel(moved, _memory_parts(facts, rates, data, within) + fixed, "below the memory's rate")
        _arrays_beside(account, facts, rates, left["array"])
    else:
        account.give("first load", left["first"], "measured")
        account.give("last store", left["last"], "measured")
        parts = _memory_parts(facts, rates, data, within)[1:]
        account.peel(moved, parts, "waits for data", "attributed")
    if part == "array":
        mean = min(left["array"], left["arrays"] / rates.arrays)
        parts, rest = _array_parts(facts, rates, data, within, mean)
        account.peel(mean, parts, rest)
        account.give("arrays without work", left["array"] - mean, "measured")
    if part == "vector":
        bound = [("lower bound", within * facts.vector_operations / rates.vector)]
        account.peel(left["vector"], bound, "functions and lanes")
        _arrays_beside(account, facts, rates, left["array"])
    else:
        account.give("vector unit", left["vector"], "measured")
    account.give("sends between cores", left["send"], "measured")
    account.give("fill and drain", left["drain"], "measured")
    account.give("dependency", left["idle"], "measured")
