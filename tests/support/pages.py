"""Results that pages are tried on."""

from __future__ import annotations

import copy
from typing import Any

import tilesim as ts

MARKUP = "</script><img src=x onerror=\"document.title='run'\"> <b>bold</b> & [red]"


def small(name: str = MARKUP) -> ts.Result:
    """Three layers of two operations whose names are full of markup, with a timeline."""
    b = ts.GraphBuilder(f"net {name}")
    x = b.input("x", [64, 96])
    for i in range(3):
        x = b.apply("relu", b.linear(x, 96, name=f"layers.{i}.first {name}"))
        x = b.linear(x, 96, name=f"layers.{i}.second")
    b.output(x, "y")
    return ts.simulate(ts.compile(b.build(), "edge-8", fuse="none"), timeline=True)


def many(number: int) -> ts.Result:
    """A result of so many operations, made of one operation's row: names, cycles and bounds differ, sums agree."""
    found = ts.simulate(ts.compile(ts.workloads.matmul(64, 64, 64), "edge-8"))
    data: dict[str, Any] = copy.deepcopy(found.data)
    (row,) = data["operations"]
    bounds = ("compute", "memory", "latency")
    data["operations"] = [
        {
            **row,
            "name": f"decoder.layers.{i // 20}.block.{i % 20}.attention.projection",
            "operation": [f"decoder.layers.{i // 20}.block.{i % 20}.attention.projection"],
            "exclusive": row["exclusive"] + i * 7919 % 1000,
            "cycles": row["cycles"] + i * 7919 % 1000,
            "load_bytes": row["load_bytes"] + i % 977,
            "bound": bounds[i % 3],
        }
        for i in range(number)
    ]
    data["cycles"] = sum(row["exclusive"] for row in data["operations"])
    data["seconds"] = data["cycles"] / data["hertz"]
    for unit in data["units"]:
        unit["cycles"]["idle"] = data["cycles"] - sum(
            spent for state, spent in unit["cycles"].items() if state != "idle"
        )
    return ts.Result(data)
