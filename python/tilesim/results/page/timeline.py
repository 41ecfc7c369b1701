"""Draws the timeline: intervals of units, and memory bandwidth over time."""

from __future__ import annotations

from typing import Any

from ...base import figures
from ...base.palette import OTHER_COLOUR, SERIES
from ...base.view import Boxes, Notes, Section, Steps

__all__ = ["SPANS", "bandwidth", "spans", "timeline_section"]

SPANS = 12_000
"""Largest number of intervals in a page; more are merged with adjacent ones."""

_UNITS = 48
_STEPS = 2_000
_SHORT = 0.002  # intervals with a smaller share of the total are merged with neighbours


def spans(data: dict[str, Any], most: int = SPANS) -> tuple[list[tuple[int, int, int, int]], int]:
    """Merges intervals of a unit and operation across growing gaps until at most `most` remain."""
    rows: dict[tuple[int, int], list[list[int]]] = {}
    for unit, label, start, finish in data["intervals"]:
        rows.setdefault((unit, label), []).append([start, finish])
    for row in rows.values():
        row.sort()
    gap, least = 0, 0
    while True:
        merged, closed = {}, 0
        for key, row in rows.items():
            kept: list[list[int]] = []
            for start, finish in row:
                if kept and start - kept[-1][1] <= gap:
                    closed = max(closed, start - kept[-1][1])
                    kept[-1][1] = max(kept[-1][1], finish)
                else:
                    kept.append([start, finish])
            merged[key] = kept
        least = max(least, closed)
        count = sum(map(len, merged.values()))
        if count <= most or count == len(merged):
            found = [(unit, label, start, finish) for (unit, label), row in merged.items() for start, finish in row]
            return sorted(found, key=lambda one: (one[0], one[2])), least
        rows, gap = merged, max(1, data["cycles"] // 20_000) if gap == 0 else 2 * gap


def bandwidth(data: dict[str, Any], most: int = _STEPS) -> tuple[float, list[float], float] | None:
    """Returns the memory bandwidth over time, summed over all channels; None without traffic."""
    memory = data.get("memory")
    if not memory or not any(memory["channel_bytes"]):
        return None
    length = max(map(len, memory["channel_bytes"]))
    whole = [sum(row[i] for row in memory["channel_bytes"] if i < len(row)) for i in range(length)]
    each = -(-length // most)
    step = each * memory["step_cycles"] / memory["hertz"]
    rates = [sum(whole[i : i + each]) / step for i in range(0, length, each)]
    return step, rates, step * data["hertz"]


def _boxes(data: dict[str, Any], places: dict[str, list[int]]) -> tuple[Boxes, list[str]]:
    found, gap = spans(data)
    units = list(dict.fromkeys(unit for unit, *_ in found))
    said = []
    if len(units) > _UNITS:
        said.append(f"Only the first {_UNITS} units are drawn; {len(units) - _UNITS:,} more have intervals.")
        units = units[:_UNITS]
    lanes = {unit: row for row, unit in enumerate(units)}
    busiest: dict[int, int] = {}
    for _, label, start, finish in found:
        busiest[label] = busiest.get(label, 0) + finish - start
    order = sorted(busiest, key=lambda label: -busiest[label])
    sort = {label: min(i, len(SERIES) - 1) for i, label in enumerate(order)}
    names = [figures.short(data["labels"][label], 40) for label in order[: len(SERIES) - 1]]
    sorts = [(name, SERIES[i]) for i, name in enumerate(names)]
    sorts += [("other operations", OTHER_COLOUR)] if len(order) >= len(SERIES) else []
    boxes = [
        (start, finish, lanes[unit], lanes[unit] + 1, sort[label], label)
        for unit, label, start, finish in found
        if unit in lanes
    ]
    if gap:
        cycles = figures.count(gap)
        said.append(
            f"{len(data['intervals']):,} intervals are {len(boxes):,} boxes without gaps of up to {cycles} cycles."
        )
    if data["intervals_dropped"]:
        said.append(f"{data['intervals_dropped']:,} intervals exceeded the recording limit and are missing.")
    texts = [figures.short(label, 120) for label in data["labels"]]
    rows = [data["units"][unit]["unit"] for unit in units]
    chart = Boxes(
        "timeline", boxes, texts, sorts, ("time", ""), ("duration", "text"), (data["cycles"], len(rows)), rows, "time",
        1 / data["hertz"], "The operation that each unit works on; white means waiting.", "operations",
        [places.get(label, []) for label in data["labels"]],
    )  # fmt: skip
    return chart, said


def timeline_section(result: Any, word: str, places: dict[str, list[int]]) -> Section:
    """Draws intervals of units and bandwidth, which zoom together."""
    if result is None:
        return Section("Timeline", [Notes([word])], "timeline")
    data = result.data
    if not data["intervals"]:
        return Section("Timeline", [Notes(["No unit was busy."])], "timeline")
    chart, said = _boxes(data, places)
    parts: list[Any] = [chart]
    if (moved := bandwidth(data)) is not None:
        _, rates, cycles = moved
        parts.append(
            Steps(
                "bandwidth",
                cycles,
                [("memory", rates)],
                ("time", ""),
                ("duration", "rate:B/s"),
                None,
                "time",
                1 / data["hertz"],
                "Bytes per second of all memory channels.",
            )
        )
    return Section("Timeline", [*parts, Notes([" ".join([f"Timeline: {word}.", *said])])], "timeline")
