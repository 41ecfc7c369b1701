"""Shows a graph in a notebook."""

from __future__ import annotations

from typing import Any

from ..base import figures
from ..base.view import Card, Cards, Column, Rows, Section, fragment

__all__ = ["picture"]


def picture(graph: Any) -> str:
    """Draws size, work, inputs and outputs, and operations by kind."""
    kinds: dict[str, dict[str, float]] = {}
    for function in graph.functions:
        for row in graph.operations(function):
            kind = kinds.setdefault(row["kind"], {"operations": 0, "flops": 0.0, "bytes": 0.0})
            kind["operations"] += 1
            kind["flops"] += sum(row["flops"].values())
            kind["bytes"] += row["bytes"]
    flops = graph.flops()
    weights = graph.weights()
    cards = [
        Card("operations", figures.count(sum(kind["operations"] for kind in kinds.values())), "each function once"),
        Card(
            "weights", figures.count(len(weights)), f"{figures.rate(graph.parameters, '').rstrip()} trainable elements"
        ),
        Card("products", figures.rate(flops.get("matrix", 0.0), "FLOP")),
        Card("other work", figures.rate(sum(flops.values()) - flops.get("matrix", 0.0), "FLOP")),
        Card("compulsory bytes", figures.size(graph.compulsory_bytes()), "inputs, weights, outputs once"),
    ]
    ends = [
        {
            "what": what,
            "name": row["name"],
            "dtype": row["dtype"],
            "shape": " × ".join(map(str, row["shape"])) or "scalar",
        }
        for what, rows in (("input", graph.inputs), ("output", graph.outputs))
        for row in rows
    ]
    ends_table = Rows("ends", [Column(key, key, "text") for key in ("what", "name", "dtype", "shape")], ends, most=24)
    rows = sorted(
        ({"kind": name, **kind} for name, kind in kinds.items()), key=lambda row: -kinds[str(row["kind"])]["flops"]
    )
    columns = [Column("kind", "kind", "text"), Column("operations", "operations")]
    columns += [Column("flops", "FLOP", "rate:"), Column("bytes", "compulsory bytes", "size")]
    table = Rows("kinds", columns, rows, most=40, what="kinds")
    sections = [Section("", [Cards(cards)]), Section("Inputs and outputs", [ends_table]), Section("Kinds", [table])]
    return fragment(graph.name or "graph", sections)
