"""Finds operations of a result that are outside their bounds or far from their closed form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from .rates import Rates

__all__ = ["FROM_BOUND", "LINE", "MAX_RATIO", "SHARE", "check_note", "checks_of", "closed_form", "least_cycles"]

MAX_RATIO = 3.0
"""Multiple of the closed form beyond which an operation is reported."""
FROM_BOUND = 20.0
"""Multiple of its bound beyond which an operation is reported, without round trips to memory."""
SHARE = 0.02
"""Share of the run's time below which only the lower bound is checked."""
TRIPS = 8
"""Serial round trips to memory that one run of a kernel may need."""
BELOW = "below its bound"
LINE = "checks: "
"""Prefix of the line among the approximations."""
SLACK = 0.001
"""Tolerance of the bound for rounding to cycles."""
LONG, LONG_SLACK = 4_000_000, 0.1
"""Tile operations beyond which steady loops are extrapolated, and the tolerance for that."""


def least_cycles(row: Mapping[str, Any], rates: Rates, cached: bool, padded: float = 0.0) -> float:
    """Returns the lower bound of an operation's cycles from its counts and the machine's peaks."""
    peak = rates.multiply_adds()
    moved = 0 if cached else max(0.0, row["load_bytes"] + row["store_bytes"] - padded)
    return max(
        row["multiply_adds"] / peak if peak else 0.0,
        row["vector_operations"] / rates.vector if rates.vector else 0.0,
        moved / rates.memory if rates.memory else 0.0,
    )


def closed_form(row: Mapping[str, Any], rates: Rates, settings: Mapping[str, Any], on_chip: float = 0.0) -> float:
    """Returns the cycles of an operation with the same mapping if nothing overlaps."""
    moved = row["load_bytes"] + row["store_bytes"]
    ports = moved / rates.port + on_chip / settings["core"]["dma"]["bytes_per_cycle"] / rates.cores
    computed = row["array_busy"] + row["vector_busy"] + row["launch"]
    return float(computed + max(row["memory_busy"], ports) + row["count"] * TRIPS * _trip(settings, rates))


def _trip(settings: Mapping[str, Any], rates: Rates) -> float:
    """Returns the cycles of an empty transfer plus the cycles that fill an array."""
    core, network = settings["core"], settings["network"]
    latency = float(_core.parse_duration(str(settings["memory"]["latency"]))) * 1e-12 * rates.hertz
    fixed = core["dma"]["issue_cycles"] + core["dma"]["latency_cycles"] + 2 * network["latency_cycles"]
    return float(latency + fixed + core["array"]["rows"] + core["array"]["columns"])


def checks_of(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compares every operation with its bound and with the closed form of its mapping.

    Reports an operation if its duration is below its counts at the machine's peaks, or if its attributed time
    exceeds `MAX_RATIO` times the closed form and `SHARE` of the run. Reports the program if its time is below its
    graph's bound and no operation is. The limits fit the model zoo: of 4,832 operations in 164 runs (nine networks,
    ten presets, both lowerings, with and without banks) none is below its bound. Of the 1,526 that take 2 % of a run,
    half are below 0.61 times the closed form (its parts overlap), 99 % below 1.32 times, and one is above 3: a
    recommender's pairwise features on mesh-16, gathered in small pieces whose latencies dominate.
    """
    settings = data["configuration"]
    if data["source"] != "engine" or "core" not in settings:
        return []
    rates = Rates(data)
    cached = settings["memory"]["cache"]["sets"] > 0
    many = max(1, data["cycles"]) * SHARE
    slack = LONG_SLACK if data["tile_operations"] > LONG else SLACK
    moved: dict[str, float] = {}
    padded = _counts_by_operation(data, "padded memory bytes")
    found = []
    for row in data["operations"]:
        if row["bound"] in ("host", "link"):  # the host and the link have other closed forms
            continue
        bound = least_cycles(row, rates, cached)
        if row["cycles"] < bound * (1 - slack) - row["count"]:
            found.append(_row(row["name"], BELOW, row["cycles"], bound))
        elif row["exclusive"] > many:
            form = closed_form(row, rates, settings)
            if row["exclusive"] > MAX_RATIO * form:
                moved = moved or _on_chip(data)
                form = closed_form(row, rates, settings, moved.get(row["name"], 0.0))
            needed = least_cycles(row, rates, cached, padded.get(row["name"], 0.0))
            waited = row["launch"] + row["count"] * TRIPS * _trip(settings, rates)
            if row["exclusive"] > MAX_RATIO * form:
                found.append(_row(row["name"], "far above its closed form", row["exclusive"], form))
            elif not cached and row["exclusive"] > FROM_BOUND * needed + waited and needed > 0:
                found.append(_row(row["name"], "far above its bound", row["exclusive"], needed))
    bound = float((data.get("bounds") or {}).get("seconds", 0.0))
    if data["seconds"] < bound * (1 - slack) and not any(row["what"] == BELOW for row in found):
        found.append(_row(data["program"], BELOW, data["cycles"], bound * rates.hertz))
    return found


def _row(name: str, what: str, cycles: int, against: float) -> dict[str, Any]:
    return {"operation": name, "what": what, "cycles": cycles, "against": against, "ratio": cycles / max(1.0, against)}


def _on_chip(data: Mapping[str, Any]) -> dict[str, float]:
    """Returns the bytes moved between tiles and resident values in scratchpads, by operation."""
    asked = {row["name"]: row["load_bytes"] + row["store_bytes"] for row in data["operations"]}
    held = _counts_by_operation(data, "scratchpad bytes (DMA side)")
    return {name: max(0.0, (number - asked.get(name, 0)) / 2) for name, number in held.items()} | {"": 0.0}


def _counts_by_operation(data: Mapping[str, Any], item: str) -> dict[str, float]:
    """Returns the counts of an item by operation."""
    return {name: number for row in data["counts"] if row["item"] == item for name, number in row["operations"]}


def check_note(data: Mapping[str, Any]) -> list[str]:
    """Returns the line of a result's approximations about `checks_of`; empty without findings."""
    rows = checks_of(data)
    if not rows:
        return []
    first = max(rows, key=lambda row: max(row["ratio"], 1 / max(1e-9, row["ratio"])))
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    says = f"{first['operation']} takes {first['cycles']:,} cycles, {first['what']} of {first['against']:,.0f}{more}"
    return [f"{LINE}{says}; see Result.checks and Result.why"]
