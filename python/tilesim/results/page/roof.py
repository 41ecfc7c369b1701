"""Draws the roofline of a result: attained and attainable rates of operations."""

from __future__ import annotations

import json
import math
from typing import Any

from ... import _core
from ...base.palette import BOUND
from ...base.view import Notes, Points, Section
from ..rates import Rates
from .head import mapping
from .operations import operation_rows

__all__ = ["ceilings", "lines", "merged", "roof_points", "roof_section"]


def ceilings(result: Any) -> tuple[dict[str, float], float]:
    """Returns peak rates by name (FLOP per second), and memory bandwidth (bytes per second)."""
    try:  # a file's configuration may come from another version or program
        rates, memory = _ceilings(result.data.get("configuration", {}))
        own = Rates(result.data)  # for the attainable bandwidth, which `Result.why` uses too
        return rates, own.memory * own.hertz or memory
    except (_core.Error, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return {}, 0.0


def _ceilings(configuration: dict[str, Any]) -> tuple[dict[str, float], float]:
    if "device" in configuration:
        device = configuration["device"]
        rates = {
            name: float(rate["flops_per_second"]) for name, rate in device["matrix"].items() if rate["how"] == "native"
        }
        vector = float(device.get("vector", {}).get("f32", {}).get("flops_per_second", 0.0))
        return {**merged(rates), "vector f32": vector}, float(device["levels"][-1]["bytes_per_second"])
    view = _core.Machine.from_json(json.dumps(configuration), "result").device()
    vector = view["vector_flops_per_second"].get("f32", 0.0)
    return {**merged(view["matrix_flops_per_second"]), "vector f32": vector}, view["memory_bytes_per_second"]


def merged(rates: dict[str, float]) -> dict[str, float]:
    """Joins the names of dtypes with equal rates."""
    names: dict[float, list[str]] = {}
    for name, rate in rates.items():
        names.setdefault(rate, []).append(name)
    return {", ".join(dtypes): rate for rate, dtypes in sorted(names.items(), reverse=True) if rate > 0}


def roof_points(result: Any) -> tuple[list[dict[str, Any]], int]:
    """Returns operations with FLOPs and memory traffic, and the number of other operations."""
    rows = operation_rows(result)
    found = [
        {
            **row,
            "row": place,
            "intensity": row["flops"] / row["bytes"],
            "attained": row["flops"] * result.data["hertz"] / row["elapsed"],
        }
        for place, row in enumerate(rows)
        if row["flops"] > 0 and row["bytes"] > 0 and row["elapsed"] > 0
    ]
    return found, len(rows) - len(found)


def lines(
    rates: dict[str, float], memory: float, low: float, high: float
) -> list[tuple[str, list[float], list[float]]]:
    """Returns lines between two intensities: the memory slope, and each peak rate from its ridge point on."""
    rates = {name: rate for name, rate in rates.items() if 0 < rate < math.inf}
    if not rates or not 0 < memory < math.inf:
        return []
    high = max(high, 2 * max(rates.values()) / memory)
    top = max(rates.values()) / memory
    found = [("memory", [min(low, top), top], [min(low, top) * memory, top * memory])]
    return found + [(name, [rate / memory, high], [rate, rate]) for name, rate in rates.items()]


def roof_section(result: Any) -> Section:
    """Draws the roofline chart of all operations."""
    points, left = roof_points(result)
    if not points:
        return Section("Roofline", [Notes(["No operation both computes and accesses memory."])], "roofline")
    rates, memory = ceilings(result)
    spread = [row["intensity"] for row in points]
    said = "Arithmetic intensity (FLOPs per byte of memory) and attained rate of each operation. "
    said += "The filter of the table above applies here too. " if len(result.data["operations"]) > 1 else ""
    if left:
        what = (
            "1 operation that computes nothing or moves"
            if left == 1
            else f"{left:,} operations that compute nothing or move"
        )
        said += f"{what} no bytes of memory {'is' if left == 1 else 'are'} not drawn. "
    if not rates:
        said += "Ceilings are missing because this version cannot read the result's configuration. "
    elif mapping(result.data.get("configuration")).get("cores"):
        said += "Ceilings are sums over all cores of several types. "
    chart = Points(
        "roofline", points, ("FLOP / byte", "attained"), ("rate:", "rate:FLOP/s"),
        lines(rates, memory, min(spread), max(spread)), BOUND,
        "operations",
        ("intensity", "attained", "operation", "bound"), said.strip(),
    )  # fmt: skip
    return Section("Roofline", [chart], "roofline")
