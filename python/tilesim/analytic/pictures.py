"""What a notebook shows of a roofline."""

from __future__ import annotations

from typing import Any

from ..base import figures
from ..base.palette import BOUND
from ..base.view import Card, Cards, Column, Points, Rows, Section, fragment
from ..results.page.roof import lines

__all__ = ["picture"]


def picture(bound: Any) -> str:
    """The bound, the operations below the ceilings of the device, and the longest of them.

    Args:
        bound: of `ts.roofline`.

    Returns:
        HTML.
    """
    device = bound.device
    rows = [
        {**row, "ceiling": row["ceiling_tflops"] * 1e12, "least": row["least_ms"] / 1e3} for row in bound.table().rows
    ]
    cards = [
        Card("at least", figures.duration(bound.seconds), f"of {bound.bound}"),
        Card("products", figures.duration(bound.compute_seconds), "at the highest rate"),
        Card("memory", figures.duration(bound.memory_seconds), "compulsory bytes"),
    ]
    columns = [
        Column("operation", "operation", "text"),
        Column("least", "at least", "duration"),
        Column("bound", "bound by", "text"),
        Column("flops", "FLOP", "rate:"),
        Column("bytes", "bytes", "size"),
        Column("intensity", "FLOP / byte", "rate:"),
        Column("ceiling", "ceiling", "rate:FLOP/s"),
    ]
    sections = [Section("", [Cards(cards)])]
    if rows:
        rates = {name: rate.flops_per_second for name, rate in device.matrix.items() if rate.how == "native"}
        spread = [row["intensity"] for row in rows]
        roof = lines(rates, device.memory.bytes_per_second, min(spread), max(spread))
        keys = ("intensity", "ceiling", "operation", "bound")
        titles, forms = ("FLOP / byte", "ceiling"), ("rate:", "rate:FLOP/s")
        sections.append(Section("", [Points("roofline", rows, titles, forms, roof, BOUND, "", keys)]))
    table = Rows("operations", columns, rows, choice="bound", colours=BOUND, what="operations")
    return fragment(f"{bound.name} on {device.name}", [*sections, Section("Operations", [table])])
