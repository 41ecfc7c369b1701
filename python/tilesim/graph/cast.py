"""A graph in floats of 16 bits: weights, inputs and arithmetic."""

from __future__ import annotations

import numpy as np

from ..base.dtypes import NUMPY
from .graph import Graph
from .rewriting import Function, Rewriter, Row
from .tensor import Tensor

__all__ = ["CASTS", "Cast", "multiplied_floats"]

CASTS = ("bf16", "f16")
"""Dtypes that a graph can be cast to."""
_FLOATS = ("f64", "f32", "f16", "bf16")
_PRODUCTS = ("contract", "convolution", "ragged_contract", "attention")
_WIDE = ("bitcast", "linear_solve", "fft")  # bits that mean another number, and kernels without narrow floats
_LARGEST = {"bf16": 3.3895313892515355e38, "f16": 65504.0}


def multiplied_floats(graph: Graph) -> set[str]:
    """Floats of 16 bits and more that products multiply.

    Args:
        graph: any.

    Returns:
        Their dtypes.
    """
    return {
        operand["dtype"]
        for function in graph.functions
        for row in graph.operations(function)
        if row["kind"] in _PRODUCTS
        for operand in row["operands"][:2]
        if operand and operand["dtype"] in _FLOATS
    }


class Cast(Rewriter):
    """Writes a graph with the floats that its products multiply in another dtype, wherever they stand.

    Floats that no product multiplies (f32 in the norms of a graph of bf16), narrower floats and integers stay.
    """

    def __init__(self, graph: Graph, dtype: str) -> None:
        """Decides what is cast.

        Args:
            graph: stays as it is.
            dtype: "bf16" or "f16".
        """
        super().__init__(graph)
        self.dtype = dtype
        self.cast = multiplied_floats(graph) - {dtype}
        self.kept: list[str] = []  # operations that stay wide
        self.saturated = 0  # elements of weights beyond the dtype's largest number

    def run(self) -> Graph:
        """Writes all functions that the entry runs.

        Returns:
            The new graph; arrays for inputs that the model carries are in the new dtype, too.
        """
        made = super().run()
        for row in made.core.inputs:
            if row["name"] in made.defaults:
                made.defaults[row["name"]] = np.asarray(made.defaults[row["name"]]).astype(NUMPY[row["dtype"]])
        return made

    def _to(self, dtype: str) -> str:
        return self.dtype if dtype in self.cast else dtype

    def input(self, function: Function, number: int, row: Row) -> Tensor:
        """An input of a function in the new dtype."""
        return function.b.input(row["name"], row["shape"], self._to(row["dtype"]))

    def constant(self, function: Function, name: str) -> Tensor:
        """A weight in the new dtype: a recipe of random elements stays one."""
        row = self.weights[name]
        if row["dtype"] not in self.cast:
            return super().constant(function, name)
        if row["source"] == "random":
            more = {key: row[key] for key in ("seed", "scale", "offset", "trainable")}
            return function.b.weight(name, row["shape"], self.dtype, **more)
        values = np.asarray(self.core.weight(name)).astype(np.float64)
        largest = _LARGEST[self.dtype]
        over = np.isfinite(values) & (np.abs(values) > largest)
        self.saturated += int(over.sum())
        values = np.where(over, np.sign(values) * largest, values)
        return function.b.weight(name, data=values.astype(NUMPY[self.dtype]), trainable=row["trainable"])

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """An operation on the new dtype; one that needs the old one gets it, between conversions."""
        attributes = row["attributes"]
        exact = "precision" in attributes
        if row["kind"] in _WIDE or exact:
            return self._wide(function, row, operands)
        x = operands[0] if row["kind"] == "convert" else None
        if x is not None and x.dtype == self._to(attributes["dtype"]):
            return [x]
        if attributes.get("dtype") in self.cast:
            row = {**row, "attributes": {**attributes, "dtype": self.dtype}}
        return self.plain(function, row, operands)

    def _wide(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        given: list[Tensor | None] = []
        for x, value in zip(operands, row["operands"], strict=True):
            given.append(x if x is None or x.dtype == value["dtype"] else x.convert(value["dtype"]))
        found = self.plain(function, row, given)
        made: list[Tensor] = []
        for x, value in zip(found, row["results"], strict=False):
            changes = value is not None and value["dtype"] in self.cast
            made.append(x.convert(self.dtype) if changes else x)
        if any(a is not b for a, b in zip(given, operands, strict=True)) or any(
            a is not b for a, b in zip(made, found, strict=False)
        ):
            self.kept.append(str(row["name"]))
        return made

    def said(self, graph: Graph) -> str:
        """What the new graph says of itself.

        Args:
            graph: that `run` returned.

        Returns:
            A sentence: the dtypes, the inputs that changed theirs, what stayed wide or was saturated.
        """
        pairs = zip(self.core.inputs, graph.core.inputs, strict=True)
        names = [str(new["name"]) for old, new in pairs if old["dtype"] != new["dtype"]]
        text = f"cast from {', '.join(sorted(self.cast))} to {self.dtype}: weights and arithmetic"
        if names:
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            text += f", and the input{'s' if len(names) > 1 else ''} {', '.join(names[:6])}{more}"
        if self.kept:
            more = f" and {len(self.kept) - 3} more" if len(self.kept) > 3 else ""
            text += f"; as before: {', '.join(self.kept[:3])}{more}"
        if self.saturated:
            text += (
                f"; {self.saturated:,} elements of weights were beyond {self.dtype}'s largest number, and are it now"
            )
        return text
