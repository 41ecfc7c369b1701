"""Turns expert products of i8 codes into integer products."""

from __future__ import annotations

from .graph import Graph
from .rewriting import Function, Rewriter, Row
from .tensor import Tensor


class _Integers(Rewriter):
    """Removes the float conversions of expert products whose operands are both i8 codes."""

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        codes = [_codes(function, x) for x in row["operands"][:2]] if row["kind"] == "ragged_contract" else [None]
        if any(x is None for x in codes):
            return self.unchanged(function, row, operands)
        name = f"{row['name']}.integers"
        sums: Tensor = function.b.op(row["kind"], *codes, operands[2], name=name, **row["attributes"])
        return [function.b.op("convert", sums, dtype=row["results"][0]["dtype"], name=row["name"])]


def _codes(function: Function, value: Row) -> Tensor | None:
    """Finds the i8 tensor that was converted to a float value, or returns None."""
    row = function.rows.get(value["name"])
    if row is None or row["kind"] != "convert" or row["operands"][0]["dtype"] != "i8":
        return None
    return function.values[row["operands"][0]["name"]] if value["dtype"] in ("f32", "bf16", "f16", "f64") else None


def sum_ragged_integers(graph: Graph) -> bool:
    """Changes ragged products of i8 codes to integer products."""
    rows = [row for name in graph.functions for row in graph.operations(name)]
    if not any(row["kind"] == "ragged_contract" and row["operands"][0]["dtype"] != "i8" for row in rows):
        return False
    made = _Integers(graph).run()
    made.remove_dead_code()
    if made == graph:
        return False
    with graph._changing:
        before, graph._state = graph.core, graph._state._replace(core=made.core)
        before.replaced()
    return True
