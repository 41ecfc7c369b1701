"""An operation that machines leave to the host: a sort by a comparator of its own."""

from __future__ import annotations

from typing import Any

import tilesim as ts


def by_size(b: ts.GraphBuilder, x: Any, name: str, dim: int) -> tuple[Any, Any]:
    """Rows of x in the order of their magnitudes, and where they stood as numbers of x's type."""
    order = b.function(f"{name}.order")
    first, second, _, _ = (order.input(key, ()) for key in ("a0", "b0", "a1", "b1"))
    order.output(order.apply("less", order.apply("abs", first), order.apply("abs", second)), "before")
    places = b.op("iota", shape=list(x.shape), dtype="i32", dim=dim)
    given = [x, b.op("convert", places, dtype="f32")]
    found: list[Any] = b.core.op("sort", [t.value for t in given], {"dim": dim}, name, 2, [f"{name}.order"])
    return ts.graph.Tensor(b, found[0]), ts.graph.Tensor(b, found[1])
