"""Rewrites a graph function by function, and replaces operations."""

from __future__ import annotations

from typing import Any

from .builder import GraphBuilder
from .graph import Graph
from .tensor import Tensor

Row = dict[str, Any]


class Function:
    """One function under construction: builder, values by name, additional inputs and outputs."""

    def __init__(self, name: str, builder: GraphBuilder, main: bool) -> None:
        """Starts a function without operations."""
        self.name, self.b, self.main = name, builder, main
        self.values: dict[str, Tensor] = {}
        self.rows: dict[str, Row] = {}  # name of a value -> its operation
        self.taken: list[Any] = []  # additional inputs
        self.given: list[tuple[str, Tensor]] = []  # additional outputs, with labels


class Rewriter:
    """Writes a graph again; subclasses change parts of it. Weights are shared, not copied."""

    def __init__(self, graph: Graph) -> None:
        """Reads a graph."""
        self.old = graph
        self.core = graph.core
        self.weights = graph.weights()
        self.written: dict[str, Function] = {}
        self.whole = GraphBuilder(graph.name)

    def run(self) -> Graph:
        """Writes all functions that the entry function runs."""
        self._write(str(self.core.main), True)
        graph = self.whole.build()
        graph.defaults.update(self.old.defaults)
        graph.assumptions, graph.setting = list(self.old.assumptions), self.old.setting
        return graph

    def input(self, function: Function, number: int, row: Row) -> Tensor:
        """Adds an input to a function."""
        return function.b.input(row["name"], row["shape"], row["dtype"])

    def constant(self, function: Function, name: str) -> Tensor:
        """Adds a weight."""
        return Tensor(function.b, function.b.core.adopt(self.core, name))

    def operation(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """Writes an operation that is neither a constant nor a call."""
        return self.unchanged(function, row, operands)

    def further(self, function: Function, row: Row, callee: Function) -> list[Tensor]:
        """Returns the operands of a call that a function's additional inputs need."""
        return []

    def returned(self, function: Function, row: Row, callee: Function, found: list[Tensor]) -> None:
        """Handles the additional results of a call."""

    def ended(self, function: Function) -> None:
        """Is called before a function gets its outputs."""

    def unchanged(self, function: Function, row: Row, operands: list[Tensor | None]) -> list[Tensor]:
        """Writes the operation unchanged."""
        callees = [self._write(name, False).b.function_name for name in row["functions"]]
        values = [-1 if x is None else x.value for x in operands]
        count = max(1, len(row["results"]))
        found = function.b.core.op(row["kind"], values, row["attributes"], row["name"], count, callees)
        return [Tensor(function.b, value) for value in found]

    def _write(self, name: str, main: bool) -> Function:
        if name in self.written:
            return self.written[name]
        function = Function(name, self.whole if main else self.whole.function(name), main)
        inputs, outputs = self.core.signature(name)
        for number, row in enumerate(inputs):
            function.values[row["name"]] = self.input(function, number, row)
        for row in self.core.operations(name):
            function.b.core.set_source(row["source"])
            self._row(function, row)
        self.ended(function)
        for output in outputs:
            function.b.output(function.values[output["name"]], output["name"])
        for label, tensor in function.given:
            function.b.output(tensor, label if main else "")
        if main:
            for output, number in self.core.aliases:
                function.b.alias(output, number)
        self.written[name] = function
        return function

    def _row(self, function: Function, row: Row) -> None:
        operands = [None if x is None else function.values[x["name"]] for x in row["operands"]]
        if row["kind"] == "constant":
            made = [self.constant(function, row["attributes"]["reference"])]
        elif row["kind"] == "call":
            callee = self._write(row["functions"][0], False)
            more = self.further(function, row, callee)
            found = self.unchanged(function, row, [*operands, *more])
            made = found[: len(row["results"])]
            self.returned(function, row, callee, found[len(row["results"]) :])
        else:
            made = self.operation(function, row, operands)
        for result, tensor in zip(row["results"], made, strict=False):
            if result is not None:
                function.values[result["name"]] = tensor
                function.rows[result["name"]] = row
