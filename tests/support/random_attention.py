"""Graphs of one attention: given, or drawn."""

from __future__ import annotations

import random
from typing import Any

import tilesim as ts

Arrays = dict[str, Any]


def graph(shapes: Arrays, dtype: str, mask: str = "bool", **attributes: Any) -> ts.Graph:
    b = ts.GraphBuilder("attention")
    inputs = [b.input(name, shape, dtype=mask if name == "mask" else dtype) for name, shape in shapes.items()]
    b.output(b.attention(*inputs, name="attention", **attributes), "y")
    return b.build()


SPACE: Arrays = {
    "machine": ("tpu-v3", "tpu-v4", "mesh-16", "edge-8", "chiplet-2"),
    "depth": (40, 64, 80, 96, 128, 7),
    "length": (1, 2, 16, 50, 77, 128, 197, 300, 777),
    "cache": (64, 100, 500, 1000, 2048, 4096),
}


def any_attention(seed: int) -> tuple[str, ts.Graph]:
    """Self and cross attention, causal, windows, one query with a cache; heads that share keys."""
    r = random.Random(seed)
    machine, depth = r.choice(SPACE["machine"]), r.choice(SPACE["depth"])
    groups, shared, batch = r.choice((1, 2, 4, 8)), r.choice((1, 1, 2, 4, 8)), r.choice((1, 1, 2))
    kind = r.choice(("self", "causal", "window", "cross", "decode"))
    queries = 1 if kind == "decode" else r.choice(SPACE["length"])
    keys = r.choice(SPACE["cache"]) if kind == "decode" else r.choice(SPACE["length"]) if kind == "cross" else queries
    attributes: Arrays = {"causal": kind in ("causal", "window")}
    if kind == "window":
        attributes["window"] = r.choice((16, 100, 256))
    shapes = {
        "q": [batch, groups * shared, queries, depth],
        "k": [batch, groups, keys, depth],
        "v": [batch, groups, keys, r.choice((depth, 64))],
    }
    dtype = r.choice(("f32", "bf16")) if machine == "edge-8" else r.choice(("f32", "bf16", "f16"))
    return machine, graph(shapes, dtype, **attributes)
