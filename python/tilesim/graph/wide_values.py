"""Finds values that a cast leaves wide: operands of exact products, and floats that come from integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .graph import Graph

__all__ = ["BITS", "WideValues", "is_exact"]

Row = dict[str, Any]
Value = tuple[str, str]  # (function, value)

BITS = ("bitcast", "linear_solve", "fft")
"""Operations on bits that mean another number, and those without kernels for narrow floats."""
_INTEGERS = ("i16", "i32", "i64", "u16", "u32", "u64")  # 16-bit floats represent narrower integers exactly
_MOVES = ("reshape", "transpose", "broadcast", "slice", "reverse", "concat", "copy", "dynamic_slice", "gather",
          "embedding")  # fmt: skip
_COMPUTES = (*_MOVES, "elementwise", "convert", "reduce", "cumulative", "window_reduce", "pad", "dynamic_update",
             "scatter", "sort", "top_k")  # fmt: skip
_BODIES = ("call", "fused", "while", "branch")


def is_exact(row: Row) -> bool:
    """Whether an operation needs its original float dtype."""
    return row["kind"] in BITS or row["attributes"].get("precision") == "exact"


class WideValues:
    """Operations, inputs and weights of a graph that keep their dtype while its floats are cast.

    A value belongs to the network if an input, or a weight larger than a vector, contributes to it. Other values come
    from integers or only from constants. Values from integers stay wide, and so do constants that combine with them.
    """

    def __init__(self, graph: Graph, cast: set[str]) -> None:
        """Examines all functions."""
        self.cast, self.core, self.main = cast, graph.core, str(graph.core.main)
        self.weights = graph.weights()
        self.rows: dict[str, list[Row]] = {name: graph.core.operations(name) for name in graph.functions}
        signatures = {name: graph.core.signature(name) for name in graph.functions}
        self.inputs = {name: [str(one["name"]) for one in both[0]] for name, both in signatures.items()}
        self.outputs = {name: [str(one["name"]) for one in both[1]] for name, both in signatures.items()}
        self.copied: dict[Value, Value] = {
            (name, str(row["results"][0]["name"])): (name, str(row["operands"][0]["name"]))
            for name, rows in self.rows.items()
            for row in rows
            if row["kind"] == "copy"
        }
        self.networks: set[Value] = set()  # values that belong to the network
        self.counted: set[Value] = set()  # values that come from integers
        self.needed: set[Value] = set()  # values that readers need wide
        self.stays: set[Value] = set()  # first results of operations that stay unchanged
        self._until_settled(self._forward, lambda: len(self.networks), False)
        self._until_settled(self._sources, lambda: len(self.counted), False)
        self._until_settled(self._backward, lambda: len(self.needed) + len(self.stays), True)
        self.loops: set[str] = set()  # bodies of loops
        self.branches: dict[str, list[Value]] = {}  # output of a branch -> results that become it
        for name, rows in self.rows.items():
            for row in rows:
                if row["kind"] == "while":
                    self.loops.add(row["functions"][-1])
                elif row["kind"] == "branch":
                    found = [(name, str(x["name"])) for x in row["results"]]
                    self.branches.update(dict.fromkeys(row["functions"], found))
        self.kept_inputs = {
            (name, value)
            for name in self.rows
            for value in self.inputs[name]
            if (name, value) in self.needed | self.counted and (name != self.main or self._alone(value))
        }
        self.kept_weights = {
            str(row["attributes"]["reference"])
            for name, rows in self.rows.items()
            for row in rows
            if row["kind"] == "constant" and (name, row["results"][0]["name"]) in self.needed
        }

    def keeps(self, function: str, row: Row) -> bool:
        """Whether an operation stays unchanged."""
        return _place(function, row) in self.stays

    def _until_settled(self, step: Callable[[str, Row], None], size: Callable[[], int], reverse: bool) -> None:
        before = -1
        if not reverse:
            self.networks |= {(self.main, name) for name in self.inputs[self.main]}
        while before != size():  # takes at most one pass for each depth of calls, and some for loops
            before = size()
            for name, rows in self.rows.items():
                for row in reversed(rows) if reverse else rows:
                    step(name, row)

    def _floats(self, name: str, row: Row, side: str = "operands") -> list[Value]:
        return [(name, str(x["name"])) for x in row[side] if x is not None and x["dtype"] in self.cast]

    def function_inputs(self, name: str, row: Row) -> Iterator[tuple[Value, Value, Value | None]]:
        """Yields the pairs of operands and inputs for the functions that an operation runs."""
        operands = row["operands"][1:] if row["kind"] == "branch" else row["operands"]
        for callee in row["functions"]:
            body = row["kind"] == "while" and callee == row["functions"][-1]
            for at, (x, value) in enumerate(zip(operands, self.inputs[callee], strict=False)):
                if x is not None and x["dtype"] in self.cast:
                    back = (callee, self.outputs[callee][at]) if body else None
                    yield (name, str(x["name"])), (callee, value), back

    def returned(self, name: str, row: Row) -> Iterator[tuple[Value, Value]]:
        """Yields the pairs of function outputs and results for the functions that an operation runs."""
        for callee in row["functions"][-1:] if row["kind"] == "while" else row["functions"]:
            for output, x in zip(self.outputs[callee], row["results"], strict=False):
                if x is not None and x["dtype"] in self.cast:
                    yield (callee, output), (name, str(x["name"]))

    def _is_unchanged(self, back: Value | None, value: Value) -> bool:
        """Whether a loop passes a value on unchanged."""
        while back in self.copied:
            back = self.copied[back]
        return back == value

    def _spread(self, found: set[Value], name: str, row: Row) -> None:
        """Propagates from operands to inputs of functions, and from their outputs to results."""
        for given, value, back in self.function_inputs(name, row):
            if given in found or back in found:
                found.add(value)
        for output, result in self.returned(name, row):
            if output in found:
                found.add(result)
        if row["kind"] == "while":  # input, output and result of a loop must have one dtype
            for result, condition, body in self._states(name, row):
                if found & {result, condition, body}:
                    found |= {result, condition, body}

    def _states(self, name: str, row: Row) -> Iterator[tuple[Value, Value, Value]]:
        condition, body = row["functions"][0], row["functions"][-1]
        for at, x in enumerate(row["results"]):
            if x is not None and x["dtype"] in self.cast:
                yield (name, str(x["name"])), (condition, self.inputs[condition][at]), (body, self.inputs[body][at])

    def _forward(self, name: str, row: Row) -> None:
        """Finds values that belong to the network."""
        if row["kind"] in _BODIES:
            return self._spread(self.networks, name, row)
        if row["kind"] == "constant":
            weight = self.weights[row["attributes"]["reference"]]
            own = weight["source"] == "random" or sum(extent > 1 for extent in weight["shape"]) > 1
        elif row["kind"] == "iota":
            own = False
        elif row["kind"] == "convert" and row["operands"][0]["dtype"] not in self.cast:
            own = row["operands"][0]["dtype"] not in _INTEGERS
        else:
            own = row["kind"] not in _COMPUTES and not _is_outer(row)
            own = own or any(x in self.networks for x in self._floats(name, row))
        if own:
            self.networks.update(self._floats(name, row, "results"))
        return None

    def _sources(self, name: str, row: Row) -> None:
        """Finds values that come only from integers and constants."""
        if row["kind"] in _BODIES:
            self._spread(self.counted, name, row)
            if row["kind"] == "while":  # the loop counts in floats
                for _, value, back in self.function_inputs(name, row):
                    if back and not self._is_unchanged(back, value) and value not in self.networks:
                        self.counted.add(value)
            self.counted -= self.networks
            return
        results = [x for x in self._floats(name, row, "results") if x not in self.networks]
        source = row["kind"] == "iota" or (
            row["kind"] == "convert" and row["operands"][0]["dtype"] in _INTEGERS and bool(results)
        )
        if source or self._from_integers(name, row):
            self.counted.update(results)

    def _from_integers(self, name: str, row: Row) -> bool:
        floats = self._floats(name, row)
        able = row["kind"] in _COMPUTES or _is_outer(row)
        return able and any(x in self.counted for x in floats) and not any(x in self.networks for x in floats)

    def _backward(self, name: str, row: Row) -> None:
        """Finds values that unchanged operations read."""
        if row["kind"] in _BODIES:
            self._needed_by_bodies(name, row)
            return
        results = self._floats(name, row, "results")
        wanted = any(x in self.needed for x in results)
        counted = any(x in self.counted for x in results) or self._from_integers(name, row)
        constants = row["kind"] != "constant" and wanted and not any(x in self.networks for x in results)
        if counted or constants or is_exact(row) or (wanted and row["kind"] in _MOVES):
            self.stays.add(_place(name, row))
            self.needed.update(self._floats(name, row))

    def _needed_by_bodies(self, name: str, row: Row) -> None:
        loop = row["kind"] == "while"
        invariant = {value for _, value, back in self.function_inputs(name, row) if self._is_unchanged(back, value)}
        for given, value, back in self.function_inputs(name, row):
            if value in self.counted or (value in self.needed and (not loop or value in invariant)):
                self.needed |= {given, back} if back else {given}
        if loop:
            for result, condition, body in self._states(name, row):
                if body in invariant and self.needed & {result, condition, body}:
                    self.needed |= {result, condition, body}  # the next pass adds what these values need
                elif body not in invariant and body not in self.counted:
                    self.needed -= {condition, body}
        for output, result in self.returned(name, row):
            if result in self.counted or (result in self.needed and row["kind"] in ("call", "fused")):
                self.needed.add(output)

    def _alone(self, value: str) -> bool:
        """Whether only unchanged operations read an input of the entry."""
        for row in self.rows[self.main]:
            if row["kind"] in _BODIES:
                for given, inner, _ in self.function_inputs(self.main, row):
                    if given == (self.main, value) and inner not in self.needed:
                        return False
            elif (self.main, value) in self._floats(self.main, row) and _place(self.main, row) not in self.stays:
                return False
        return value not in self.outputs[self.main]


def _place(function: str, row: Row) -> Value:
    return function, next((str(x["name"]) for x in row["results"] if x is not None), "")


def _is_outer(row: Row) -> bool:
    """Whether a product is an outer product, such as that of positions with frequencies."""
    if row["kind"] != "contract" or any(x is None for x in row["operands"]):
        return False
    axes = row["attributes"].get("a_contract", [len(row["operands"][0]["shape"]) - 1])
    return all(row["operands"][0]["shape"][axis] == 1 for axis in axes)
