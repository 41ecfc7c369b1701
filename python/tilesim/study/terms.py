"""Splits the time of operations into their lower bound and further terms; every cycle belongs to one term."""

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
    "lower bound": "time {part} for this work at the peak, for any tiling",
    "ragged tiles": "rows, columns and depths of the arrays that tiles do not fill",
    "weights": "arrays load weights without overlap",
    "fill and drain": "operands enter the arrays, sums leave them",
    "arrays without work": "some arrays of a core compute while others are idle",
    "functions and lanes": "expensive functions, lanes that rows do not fill, latency of the vector unit",
    "arrays": "arrays compute without overlap",
    "vector unit": "the vector or cross-lane unit works without overlap",
    "values between kernels": "values that one kernel writes to memory and another reads",
    "read again": "bytes moved again because tiles or cores share them",
    "bursts and padding": "bytes beyond the elements, from bursts and padded layouts",
    "links between regions": "bytes and sends between memory regions, at the links' rate",
    "port": "transfers limited by the core's DMA and network port",
    "first load": "a run's first tile is loading and no unit can compute",
    "last store": "a run's last results are stored after all computation",
    "waits for data": "transfers are active and no unit can compute",
    "below the memory's rate": "transfers slower than the memory's rate: latency, queues, links, rows and refresh",
    "sends between cores": "tiles move between cores and nothing else is active",
    "cores without work": "cores without work, or finished with it",
    "launch": "kernels are launched",
    "dependency": "no unit is active: waiting for a tile, a buffer or another core",
    "waits": "first loads, other units, dependencies; not separated without intervals",
    "closed form": "time of the closed form beyond peak and launch: tiles, occupancy, latency, host waits",
    "host": "the host computes while the machine waits",
    "link": "values cross the link between machine and host",
    "beside others": "all of it overlapped with time attributed to other operations",
}


class _Account:
    """Collects the cycles of each term."""

    def __init__(self) -> None:
        self.cycles: dict[str, float] = {}
        self.how: dict[str, str] = {}

    def give(self, name: str, cycles: float, how: str) -> None:
        if cycles > 0:
            self.cycles[name] = self.cycles.get(name, 0.0) + cycles
            self.how[name] = how

    def peel(self, whole: float, parts: Sequence[tuple[str, float]], rest: str, how: str = "counted") -> None:
        """Gives cycles of `whole` to the parts in order, and the remainder to the term `rest`."""
        for name, cycles in parts:
            taken = min(whole, max(0.0, cycles))
            self.give(name, taken, how)
            whole -= taken
        self.give(rest, whole, "remainder")


def _array_parts(facts: Facts, rates: Rates, data: Mapping[str, Any], within: float, whole: float) -> tuple[Any, str]:
    """Splits the arrays' time (`whole` cycles, a share `within` of their work), and names the term of the rest."""
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
    """Splits the time of transfers into parts."""
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
    """Returns the latency of a load on an idle machine in cycles."""
    settings = data["configuration"]
    network, dma = settings["network"], settings["core"]["dma"]
    clock = _core.parse_frequency(str(network["clock"])) / rates.hertz
    memory = _core.parse_duration(str(settings["memory"]["latency"])) * 1e-12 * rates.hertz if rates.memory else 0.0
    return float(memory + network["latency_cycles"] / clock + dma["issue_cycles"] + dma["latency_cycles"])


def _crossing(facts: Facts, data: Mapping[str, Any]) -> float:
    """Estimates an operation's bytes over links between regions by their share in the complete run."""
    local, remote = data.get("memory_local_bytes", 0), data.get("memory_remote_bytes", 0)
    passed = sum(row["bytes"] for row in data["units"] if row["kind"] == "region_link")
    sent = sum(row["bytes"] for row in data["units"] if row["kind"] == "send")
    far = facts.asked_bytes * remote / max(1, local + remote)
    return float(far + facts.sent_bytes * min(1.0, max(0, passed - remote) / max(1, sent)))


def terms_of(
    facts: Facts, rates: Rates, data: Mapping[str, Any], spans: Spans | None
) -> tuple[list[dict[str, Any]], str]:
    """Returns the terms of the time of operations, and the part of the machine that bounds them."""
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
    words = {
        "array": "that the arrays need",
        "vector": "that the vector units need",
        "memory": "that the memory needs",
        "none": "",
    }
    rows = []
    for name in sorted(account.cycles, key=lambda name: (name != "lower bound", -account.cycles[name])):
        share = account.cycles[name] / total
        meaning = MEANINGS[name].format(part=words[part])
        if name == "lower bound" and part == "memory" and not facts.least_known:
            meaning = "time of the memory for the bytes that these tiles move; the least number is unknown"
        own = share * facts.cycles
        rows.append({"term": name, "cycles": own, "share": share, "meaning": meaning, "how": account.how[name]})
    return rows, part


def _counted(account: _Account, facts: Facts, rates: Rates, data: Mapping[str, Any], part: str) -> None:
    """Attributes time to terms by the operations' counters."""
    if "core" not in data["configuration"]:  # a closed form records no states
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
    """The states of one core at each step of the grid."""

    array: npt.NDArray[np.bool_]
    arrays: npt.NDArray[np.float64]  # number of arrays that are active
    vector: npt.NDArray[np.bool_]
    moves: npt.NDArray[np.bool_]
    sends: npt.NDArray[np.bool_]
    drains: npt.NDArray[np.bool_]
    begins: int  # cycle in which the core becomes active first
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
    """Attributes time to terms by recorded intervals; each cycle of each core belongs to one state."""
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
        if part == "vector":  # overlapping time counts for the bounding part
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
    """Adds a core's cycles in each state; returns the cycles in which the core is idle in a run."""
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
    """Attributes the time of arrays if another part is the bound; padding is a separate term."""
    peak = rates.multiply_adds(facts.dtype) or 1.0
    padded, useful = facts.padded_multiply_adds / peak, facts.multiply_adds / peak
    ragged = cycles * padded / max(padded + useful, facts.array_busy, 1e-9)
    account.give("ragged tiles", ragged, "attributed")
    account.give("arrays", cycles - ragged, "measured" if not ragged else "attributed")


def _within(spans: Spans, work: Mapping[tuple[int, str], list[Cycles]], windows: Cycles, part: str) -> float:
    """Returns the share of a part's work within the operations' attributed time."""
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
    """Converts states to terms; the bounding part's work is split by its counters."""
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
