"""Draws bytes by memory level: useful bytes, padding, and the lower bound."""

from __future__ import annotations

from typing import Any

from ...base import figures
from ...base.palette import OTHER_COLOUR, SERIES
from ...base.view import Bar, Bars, Notes, Section

__all__ = ["COLOURS", "level_rows", "traffic_section"]

COLOURS = {
    "read": SERIES[0],
    "written": SERIES[1],
    "padding": SERIES[3],
    "moved": SERIES[2],
    "at least": OTHER_COLOUR,
    "own region": SERIES[2],
    "other regions": SERIES[5],
    "fetched": SERIES[0],
    "returned": SERIES[1],
    "past the cache": SERIES[5],
}


def level_rows(result: Any) -> list[tuple[str, dict[str, float]]]:
    """Returns the bytes of each memory level by category."""
    data = result.data
    found: list[tuple[str, dict[str, float]]] = [
        ("memory, requested", {"read": data["memory_read_bytes"], "written": data["memory_written_bytes"]})
    ]
    if padded := result.padded_bytes:
        found.append(("memory, padding", {"moved": max(0, result.memory_bytes - padded), "padding": padded}))
    channels = result.channel_bytes
    if channels["moved"]:
        found.append(("memory channels", {"moved": channels["moved"]}))
    if result.local_bytes:
        found.append(("memory by region", {"own region": result.local_bytes, "other regions": result.remote_bytes}))
    if cache := result.cache:
        parts = {"fetched": "fetched_bytes", "returned": "returned_bytes", "past the cache": "bypassed_bytes"}
        found.append(("cache and memory", {name: cache[key] for name, key in parts.items()}))
    if link := sum(unit["bytes"] for unit in data["units"] if unit["kind"] == "link"):
        found.append(("link to the host", {"moved": link}))
    if data["network_bytes"]:
        found.append(("network", {"moved": data["network_bytes"]}))
    scratch = sum(row["number"] for row in result.counts().rows if row["part"] == "scratchpad")
    if scratch:
        found.append(("scratchpads", {"moved": scratch}))
    if data.get("on_chip_bytes"):
        found.append(("between scratchpad tensors", {"moved": data["on_chip_bytes"]}))
    if (bound := result.bounds) is not None:
        found.append(("memory, at least", {"at least": bound.bytes}))
    return found


def traffic_section(result: Any) -> Section:
    """Draws a bar for each level."""
    rows = level_rows(result)
    bars = [Bar(name, parts, figures.size(sum(parts.values()))) for name, parts in rows]
    if not any(bar.parts and sum(bar.parts.values()) for bar in bars):
        return Section("Bytes by level", [Notes(["No bytes were moved."])], "bytes")
    said = f"Lower bound: {result.bounds.why}." if result.bounds else "The lower bound of this result is unknown."
    return Section("Bytes by level", [Bars(bars, COLOURS, "size", 0.0, said)], "bytes")
