"""Rounds the probabilities of attention to 16 bits for arrays that multiply only 16-bit floats."""

from __future__ import annotations

from ..graph.graph import Graph
from ..graph.rewriting import Function, Rewriter, Row
from ..graph.tensor import Tensor
from ..machine.machine import Machine

HALVES = ("f16", "bf16")


class _Halves(Rewriter):
    """Products of f32 probabilities with 16-bit values."""

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        dtypes = [x["dtype"] for x in row["operands"][:2]] if row["kind"] == "contract" else []
        if sorted(dtypes) in (["f16", "f32"], ["bf16", "f32"]):
            half = next(dtype for dtype in dtypes if dtype != "f32")
            operands = [x if x is None or i > 1 else x.convert(half) for i, x in enumerate(operands)]
        return self.unchanged(function, row, operands)


def with_half_attention(graph: Graph, machine: Machine) -> Graph:
    """Changes a graph for a machine whose arrays multiply f16 or bf16 but not f32."""
    rates = machine.get("core.array.rates")
    known = [dtype for dtype in HALVES if rates.get(dtype)]
    if rates.get("f32") or not known:
        return graph
    rows = [row for name in graph.functions for row in graph.operations(name) if row["kind"] == "attention"]
    if not any(row["operands"][0]["dtype"] in known for row in rows):
        return graph
    parts = graph.copy()
    parts.expand(["attention"])
    changed = _Halves(parts).run()
    if graph.source is not None and graph.source is not graph:
        changed.set_source(graph.source)
    changed.assumptions.append(
        f"attention: the arrays do not multiply f32, so its probabilities are rounded to {' or '.join(known)}"
    )
    return changed
