"""Casts a graph to 16-bit floats: weights, inputs and arithmetic."""

from __future__ import annotations

import numpy as np

from ..base.dtypes import NUMPY
from ..base.errors import listed
from .graph import Graph
from .rewriting import Function, Rewriter, Row
from .tensor import Tensor
from .wide_values import WideValues, is_exact

__all__ = ["CASTS", "Cast", "multiplied_floats"]

CASTS = ("bf16", "f16")
"""Dtypes that a graph can be cast to."""
_FLOATS = ("f64", "f32", "f16", "bf16")
_PRODUCTS = ("contract", "convolution", "ragged_contract", "attention")
_LARGEST = {"bf16": 3.3895313892515355e38, "f16": 65504.0}


def multiplied_floats(graph: Graph) -> set[str]:
    """Returns the float dtypes of 16 bits or more among operands of products."""
    return {
        operand["dtype"]
        for function in graph.functions
        for row in graph.operations(function)
        if row["kind"] in _PRODUCTS
        for operand in row["operands"][:2]
        if operand and operand["dtype"] in _FLOATS
    }


class Cast(Rewriter):
    """Writes a graph with the float dtypes that its products multiply replaced by another dtype everywhere.

    Other float dtypes (f32 in the norms of a bf16 graph), narrower floats and integers stay. So do operands of exact
    products, and floats that come from integers until they combine with the network's floats.
    """

    def __init__(self, graph: Graph, dtype: str) -> None:
        """Finds the dtypes to replace."""
        super().__init__(graph)
        self.dtype = dtype
        self.cast = multiplied_floats(graph) - {dtype}
        self.kept: list[str] = []  # operations that keep their dtype
        self.saturated = 0  # number of weight elements beyond the new dtype's largest number
        self.wide = WideValues(graph, self.cast)
        self.counts = 0  # number of operations on values that come from integers
        self.rounded: list[str] = []  # operations that convert the network's floats to integers
        self.twice: dict[tuple[str, int], str] = {}  # (function, value) -> weight that also stays wide
        self.narrowed: dict[tuple[str, int], Tensor] = {}  # (function, value) -> converted value

    def run(self) -> Graph:
        """Writes all functions that the entry runs."""
        made = super().run()
        for row in made.core.inputs:
            if row["name"] in made.defaults:
                made.defaults[row["name"]] = np.asarray(made.defaults[row["name"]]).astype(NUMPY[row["dtype"]])
        return made

    def _to(self, dtype: str) -> str:
        return self.dtype if dtype in self.cast else dtype

    def _dtype_of_input(self, function: str, row: Row) -> str:
        return str(row["dtype"]) if (function, row["name"]) in self.wide.kept_inputs else self._to(row["dtype"])

    def input(self, function: Function, number: int, row: Row) -> Tensor:
        """Adds an input in the new dtype, or in the old one if its readers need that."""
        return function.b.input(row["name"], row["shape"], self._dtype_of_input(function.name, row))

    def constant(self, function: Function, name: str) -> Tensor:
        """Adds a weight in the new dtype; random weights stay random."""
        row = self.weights[name]
        if row["dtype"] not in self.cast:
            return super().constant(function, name)
        if name in self.wide.kept_weights:
            x = super().constant(function, name)
            self.twice[function.name, x.value] = name
            return x
        if row["source"] == "random":
            more = {key: row[key] for key in ("seed", "scale", "offset", "trainable")}
            return function.b.weight(name, row["shape"], self.dtype, **more)
        return self._rounded(function, name, name)

    def _rounded(self, function: Function, name: str, new: str) -> Tensor:
        values = np.asarray(self.core.weight(name)).astype(np.float64)
        largest = _LARGEST[self.dtype]
        over = np.isfinite(values) & (np.abs(values) > largest)
        self.saturated += int(over.sum())
        values = np.where(over, np.sign(values) * largest, values)
        return function.b.weight(new, data=values.astype(NUMPY[self.dtype]), trainable=self.weights[name]["trainable"])

    def _as(self, function: Function, x: Tensor, dtype: str, value: str) -> Tensor:
        """Converts a value; a weight that stays wide elsewhere gets a second weight instead."""
        key = (function.name, x.value)
        if x.dtype == dtype or dtype not in {self.dtype, *self.cast}:
            return x
        if dtype != self.dtype:
            return x.convert(dtype)
        if key not in self.narrowed:
            name = self.twice.get(key)
            if name is not None and self.weights[name]["source"] != "random":
                self.narrowed[key] = self._rounded(function, name, f"{name}.{dtype}")
            elif (function.name, value) in self.wide.counted:  # a mask of -1e9 stays finite, as it does in a weight
                self.narrowed[key] = function.b.op("convert", x, dtype=dtype, overflow="saturate")
            else:
                self.narrowed[key] = x.convert(dtype)
        return self.narrowed[key]

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """Writes an operation in the new dtype, or in the old one between conversions if it needs that."""
        attributes = row["attributes"]
        if is_exact(row):
            return self._exact(function, row, operands)
        if self.wide.keeps(function.name, row):
            self.counts += row["kind"] in ("convert", "elementwise", "reduce", "contract", "iota")
            return self.unchanged(function, row, operands)
        x = operands[0] if row["kind"] == "convert" else None
        if x is not None:
            if attributes["dtype"] not in _FLOATS and row["operands"][0]["dtype"] in self.cast:
                self.rounded.append(str(row["name"]))
            if x.dtype == self._to(attributes["dtype"]):
                return [x]
        if attributes.get("dtype") in self.cast:
            row = {**row, "attributes": {**attributes, "dtype": self.dtype}}
        return self.unchanged(function, row, operands)

    def unchanged(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """Writes the operation on operands in the dtypes that it needs, or that the functions that it runs need."""
        stays = is_exact(row) or self.wide.keeps(function.name, row)
        given: list[Tensor | None] = []
        for at, x in enumerate(operands):
            value = row["operands"][at] if at < len(row["operands"]) else None
            if x is None or value is None or value["dtype"] not in self.cast:
                given.append(x)
                continue
            dtype = value["dtype"] if stays else self.dtype
            if row["functions"]:
                callee, number = row["functions"][-1], at - (row["kind"] == "branch")
                dtype = self._dtype_of_input(callee, self.core.signature(callee)[0][number])
            given.append(self._as(function, x, dtype, value["name"]))
        return super().unchanged(function, row, given)

    def _exact(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """Writes an unchanged operation; converts its results unless another such operation reads them."""
        made: list[Tensor] = []
        for x, value in zip(self.unchanged(function, row, operands), row["results"], strict=False):
            changes = value is not None and value["dtype"] in self.cast
            changes = changes and (function.name, value["name"]) not in self.wide.needed
            made.append(self._as(function, x, self.dtype, value["name"]) if changes else x)
        if any(x is not None and x["dtype"] in self.cast for x in (*row["operands"], *row["results"])):
            self.kept.append(str(row["name"]))
        return made

    def ended(self, function: Function) -> None:
        """Converts outputs of loops, branches and aliases to their required dtype."""
        outputs = self.core.signature(function.name)[1]
        for at, dtype in self._required_dtypes(function).items():
            name = outputs[at]["name"]
            if outputs[at]["dtype"] in self.cast:
                function.values[name] = self._as(function, function.values[name], dtype, name)

    def _required_dtypes(self, function: Function) -> dict[int, str]:
        """Returns the required dtypes of outputs by index."""
        inputs, outputs = self.core.signature(function.name)
        if function.main:
            return {output: self._dtype_of_input(function.name, inputs[at]) for output, at in self.core.aliases}
        if function.name in self.wide.loops:
            return {at: self._dtype_of_input(function.name, inputs[at]) for at in range(len(outputs))}
        results = self.wide.branches.get(function.name)
        if results is None:
            return {}
        return {
            at: str(row["dtype"]) if result in self.wide.counted else self._to(row["dtype"])
            for at, (row, result) in enumerate(zip(outputs, results, strict=True))
        }

    def note(self, graph: Graph) -> str:
        """Returns the note for the new graph's assumptions."""
        pairs = zip(self.core.inputs, graph.core.inputs, strict=True)
        names = [str(new["name"]) for old, new in pairs if old["dtype"] != new["dtype"]]
        text = f"cast from {', '.join(sorted(self.cast))} to {self.dtype}: weights and arithmetic"
        if names:
            text += f", and the input{'s' if len(names) > 1 else ''} {listed(names, 6)}"
        if self.kept:
            text += f"; unchanged: {listed(self.kept, 3)}"
        if self.counts:
            noun = "operation" if self.counts == 1 else "operations"
            text += f"; {self.counts} {noun} on values from integers {'keeps' if self.counts == 1 else 'keep'} "
            text += f"{' and '.join(sorted(self.cast))}"
        if self.rounded:
            text += f"; rounded to {self.dtype} before they become integers: {listed(self.rounded, 3)}"
        if self.saturated:
            text += f"; {self.saturated:,} elements of weights saturate at the largest {self.dtype} number"
        return text
