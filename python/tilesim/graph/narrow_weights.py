"""Finds the weights of a graph that can be narrow, because only products read them, through functions and views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .graph import Graph

Row = dict[str, Any]

VIEWS = ("reshape", "transpose", "convert")
WIDE = ("f32", "bf16", "f16", "f64")
SPARSE = ("a_format", "b_format", "a_tiles", "b_tiles")


class Source(NamedTuple):
    """A weight, or an input of a function that receives a weight from every call."""

    function: str  # name of the function; "" for a weight of the graph
    name: str


def is_product(row: Row) -> bool:
    """Whether an operation is a product that can have narrow operands."""
    if row["kind"] not in ("contract", "convolution", "ragged_contract") or len(row["operands"]) > 3:
        return False
    more = row["attributes"]
    if any(more.get(key, "dense") != "dense" for key in SPARSE) or "precision" in more:
        return False
    return all(x["dtype"] in WIDE for x in row["operands"][:2])


def channel_axis(row: Row, number: int) -> int | None:
    """Returns the axis of a product's operand that becomes the channels of the result."""
    more = row["attributes"]
    if row["kind"] == "ragged_contract":
        return None
    if row["kind"] == "convolution":
        return int(more["w_labels"].find("O")) if number == 1 else None
    letter = "ab"[number]
    if more.get(f"{letter}_batch"):
        return None
    rank = len(row["operands"][number]["shape"])
    free = [axis for axis in range(rank) if axis not in more.get(f"{letter}_contract", [])]
    return free[0] if len(free) == 1 else None


def depth_axis(row: Row, number: int) -> int | None:
    """Returns the axis of a product's operand over which the product sums."""
    more = row["attributes"]
    if row["kind"] == "convolution":
        return None
    if row["kind"] == "ragged_contract":
        return (2 if more.get("b_transposed") else 1) if number == 1 else None
    summed = more.get(f"{'ab'[number]}_contract", [])
    return int(summed[0]) if len(summed) == 1 else None


def hidden_functions(core: Any) -> set[str]:
    """Lists the functions that loops and branches run, and those that they call."""
    rows = [(name, row) for name in core.functions for row in core.operations(name)]
    found = {callee for _, row in rows if row["kind"] != "call" for callee in row["functions"]}
    while True:
        more = {callee for name, row in rows if name in found for callee in row["functions"]}
        if more <= found:
            return found
        found |= more


class Carried(NamedTuple):
    """A view of a source: axis i of the value is axis `order[i]` of the source; None after a reshape."""

    source: Source
    order: tuple[int, ...] | None


class NarrowWeights:
    """The weights of a graph that can be narrow, with the axis of each weight's channels."""

    def __init__(self, graph: Graph, tables: bool) -> None:
        """Traces every weight to the operations that read it."""
        self.core, self.tables = graph.core, tables
        self.weights: Mapping[str, Row] = graph.weights()
        self.hidden = hidden_functions(self.core)
        self.rows = {name: self.core.operations(name) for name in self.core.functions}
        self.carried = {name: self._carried(name) for name in self.rows}
        self.axes: dict[Source, set[int | None]] = {}
        self.depths: dict[Source, set[int | None]] = {}
        self.passed: dict[Source, set[Source]] = {}  # source -> inputs of functions that receive it
        self.other: set[Source] = set()  # sources that an operation other than a product reads
        called: dict[str, int] = dict.fromkeys(self.rows, 0)
        for name, rows in self.rows.items():
            for row in rows:
                for callee in row["functions"]:
                    called[callee] += 1 if row["kind"] == "call" else 1 << 30
                self._uses(name, row)
            outputs = self.core.signature(name)[1]
            self.other.update(one.source for x in outputs if (one := self.carried[name].get(x["name"])))
        self.bad = set(self.other)
        for name, count in called.items():
            if not 0 < count < 1 << 30:
                self.bad.update(Source(name, x["name"]) for x in self.core.signature(name)[0])
        self._settle()

    def source(self, function: str, value: str) -> Source | None:
        """Returns the source of a value if it can be narrow, else None."""
        found = self.carried[function].get(value)
        return None if found is None or found.source in self.bad or not self.axes.get(found.source) else found.source

    def axis(self, source: Source) -> int | None:
        """Returns the axis of a weight's channels, or None."""
        return _only(self.axes.get(source, set()))

    def depth(self, source: Source) -> int | None:
        """Returns the axis of a weight over which products sum, or None."""
        return _only(self.depths.get(source, set()))

    def _carried(self, function: str) -> dict[str, Carried]:
        found: dict[str, Carried] = {}
        for x in self.core.signature(function)[0]:
            if x["dtype"] in WIDE:
                found[x["name"]] = Carried(Source(function, x["name"]), tuple(range(len(x["shape"]))))
        for row in self.rows[function]:
            if not row["results"] or row["results"][0] is None:
                continue
            result = row["results"][0]
            if row["kind"] == "constant" and result["dtype"] in WIDE:
                order = tuple(range(len(result["shape"])))
                found[result["name"]] = Carried(Source("", row["attributes"]["reference"]), order)
            elif row["kind"] in VIEWS and result["dtype"] in WIDE and (one := found.get(row["operands"][0]["name"])):
                order_of = one.order
                if row["kind"] == "transpose" and order_of is not None:
                    order_of = tuple(order_of[axis] for axis in row["attributes"]["permutation"])
                found[result["name"]] = Carried(one.source, None if row["kind"] == "reshape" else order_of)
        return found

    def _uses(self, function: str, row: Row) -> None:
        carried = self.carried[function]
        shown = [None if x is None else carried.get(x["name"]) for x in row["operands"]]
        if row["kind"] in VIEWS and row["results"][0]["name"] in carried:
            return
        product = is_product(row) and not self._both_weights(shown)
        for number, one in enumerate(shown):
            if one is None:
                continue
            if product and number < 2:
                channels = None if function in self.hidden else channel_axis(row, number)
                for found, axis in ((self.axes, channels), (self.depths, depth_axis(row, number))):
                    own = None if axis is None or not one.order else one.order[axis]
                    found.setdefault(one.source, set()).add(own)
            elif row["kind"] == "call":
                name = self.core.signature(row["functions"][0])[0][number]["name"]
                whole = one.order == tuple(range(len(one.order or ()))) and row["operands"][number]["dtype"] in WIDE
                if whole:
                    self.passed.setdefault(one.source, set()).add(Source(row["functions"][0], name))
                else:
                    self.bad_slot(row["functions"][0], name)
                    self.other.add(one.source)
            elif not (self.tables and row["kind"] == "embedding" and number == 0 and function == self.core.main):
                self.other.add(one.source)
        if row["kind"] == "call":
            for number, (x, one) in enumerate(zip(row["operands"], shown, strict=True)):
                if x is not None and one is None:
                    self.bad_slot(row["functions"][0], self.core.signature(row["functions"][0])[0][number]["name"])

    def bad_slot(self, function: str, name: str) -> None:
        """Records that an input of a function receives a value other than a weight."""
        self.other.add(Source(function, name))

    def _both_weights(self, shown: list[Carried | None]) -> bool:
        return all(one is not None and not one.source.function for one in shown[:2])

    def _settle(self) -> None:
        """Widens sources until each source and the inputs that receive it agree."""
        inputs = {x["name"] for x in self.core.inputs}
        main = str(self.core.main)
        self.bad.update(Source(main, name) for name in inputs)
        for _ in self.rows:  # each round moves one level from inner functions outwards
            for source, slots in self.passed.items():
                for found in (self.axes, self.depths):
                    for slot in slots:
                        found.setdefault(source, set()).update(found.get(slot, set()))
        while True:
            before = len(self.bad)
            for source, slots in self.passed.items():
                alike = all(_only(self.depths.get(slot, set())) == self.depth(source) for slot in slots)
                if source in self.bad or not alike:
                    self.bad |= {source, *slots}
                elif slots & self.bad:
                    self.bad.add(source)
            if len(self.bad) == before:
                break


def _only(axes: set[int | None]) -> int | None:
    return next(iter(axes)) if len(axes) == 1 else None
