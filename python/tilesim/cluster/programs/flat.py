"""Flattens a device's program: unrolls calls, and loops and branches with communication."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import _core
from ...base.errors import unsupported, user_error
from ...graph.devices import collectives

__all__ = ["COMMUNICATION", "FREE", "MOST", "POINTWISE", "Flat", "FunctionRun", "Op", "flatten", "in_place"]

COMMUNICATION = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices", "broadcast_devices")
#: kinds that return a view or take no time; they join the segments of their readers
FREE = ("constant", "reshape", "broadcast", "slice", "transpose", "bitcast", "dynamic_slice", "iota", "device_index")
#: kinds that compilers fuse into their readers
POINTWISE = ("elementwise", "convert")
MOST = 400_000  # largest number of unrolled operations


@dataclass(slots=True)
class FunctionRun:
    """One run of a function: its graph, and indices of its values."""

    core: _core.Graph
    label: str
    values: dict[str, int] = field(default_factory=dict)
    cached_parts: _core.GraphParts | None = None

    @property
    def parts(self) -> _core.GraphParts:
        """Returns the parts from which segments are cut; caches them."""
        if self.cached_parts is None:
            self.cached_parts = self.core.parts()
        return self.cached_parts


@dataclass(slots=True)
class Op:
    """One operation; its values are indices of `Flat.values`."""

    entry: dict[str, Any]
    kind: str
    scope: int
    reads: list[int]
    writes: list[int]


@dataclass(slots=True)
class Flat:
    """Operations in data order. `values`: dtype and shape by value; `makers`: producer by value (−1: an input)."""

    operations: list[Op] = field(default_factory=list)
    values: list[dict[str, Any]] = field(default_factory=list)
    makers: list[int] = field(default_factory=list)
    scopes: list[FunctionRun] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def in_place(flat: Flat) -> set[int]:
    """Returns updates that can run in place, because their operand has no other reader."""
    reads: dict[int, int] = {}
    for op in flat.operations:
        for value in op.reads:
            reads[value] = reads.get(value, 0) + 1
    ends = set(flat.outputs)
    return {
        i for i, op in enumerate(flat.operations)
        if op.kind == "dynamic_update" and reads[op.reads[0]] == 1 and op.reads[0] not in ends
        and (maker := flat.makers[op.reads[0]]) >= 0 and flat.operations[maker].kind not in (*FREE, *COMMUNICATION)
    }  # fmt: skip


def flatten(graph: _core.Graph) -> Flat:
    """Unrolls the graph of one device class."""
    return _Flattener(graph).flat


class _Flattener:
    def __init__(self, graph: _core.Graph) -> None:
        self.flat, self.text = Flat(), None
        self.graph, self.functions = graph, dict[str, _core.Graph]()
        self.talking: dict[str, bool] = {}
        core = graph.copy()
        core.inline_calls()
        scope = self.scope(core, "")
        self.flat.inputs = [self.value(scope, one, -1) for one in core.inputs]
        self.walk(scope)
        values = self.flat.scopes[scope].values
        self.flat.outputs = [values[one["name"]] for one in core.outputs if one["name"] in values]

    def scope(self, core: _core.Graph, label: str) -> int:
        self.flat.scopes.append(FunctionRun(core, label))
        return len(self.flat.scopes) - 1

    def value(self, scope: int, tensor: dict[str, Any], maker: int) -> int:
        self.flat.values.append(tensor)
        self.flat.makers.append(maker)
        number = len(self.flat.values) - 1
        self.flat.scopes[scope].values[tensor["name"]] = number
        return number

    def talks(self, function: str) -> bool:
        """Whether a function communicates, directly or in a function that it calls."""
        if function not in self.talking:
            self.talking[function] = any(
                entry["kind"] in COMMUNICATION or any(map(self.talks, entry["functions"]))
                for entry in self.graph.communications(function)
            )
        return self.talking[function]

    def function(self, name: str) -> _core.Graph:
        """Returns a function as the entry function of a new graph."""
        if name not in self.functions:
            data = json.loads(self.graph.to_json())
            core = _core.Graph.from_json(json.dumps({**data, "main": name}))
            core.inline_calls()
            self.functions[name] = core
        return self.functions[name]

    def walk(self, scope: int) -> None:
        flat, known = self.flat, self.flat.scopes[scope].values
        for entry in flat.scopes[scope].core.operations():
            if entry["functions"] and any(map(self.talks, entry["functions"])):
                self.run(scope, entry, [known[one["name"]] for one in entry["operands"]])
                continue
            number = len(flat.operations)
            if number >= MOST:
                raise user_error(
                    "too many operations after unrolling",
                    place=str(entry["name"]),
                    value=f"more than {MOST}",
                    allowed="fewer trips of loops with communication",
                )
            reads = [known[one["name"]] for one in entry["operands"] if one is not None and one["name"]]
            flat.operations.append(Op(entry, entry["kind"], scope, reads, []))
            flat.operations[number].writes = [
                self.value(scope, one, number) for one in entry["results"] if one is not None and one["name"]
            ]

    def run(self, scope: int, entry: dict[str, Any], state: list[int]) -> None:
        """Unrolls a loop or branch that communicates."""
        kind, name = entry["kind"], entry["name"]
        if kind == "while":
            trips = int(entry["attributes"].get("trips", 0))
            if trips < 1:
                raise unsupported(
                    "a loop with communication has trips that depend on data", place=f"operation '{name}'",
                    allowed="a loop with a fixed number of trips (for one device: ts.compile(..., trips=))",
                )  # fmt: skip
            self.flat.notes.append(f"loop '{name}': {trips} trips, unrolled; its condition takes no time")
            for trip in range(trips):
                state = self.body(entry["functions"][1], state, f"{name} {trip}")
        elif kind == "branch":
            sent = [sum(row["count"] * row["wire_bytes"] for row in collectives(self.function(one)))
                    for one in entry["functions"]]  # fmt: skip
            taken = sent.index(max(sent))
            self.flat.notes.append(f"branch '{name}': branch {taken} of {len(sent)} runs, since it sends most")
            state = self.body(entry["functions"][taken], state[1:], f"{name} {taken}")
        else:
            raise unsupported("communication inside this operation", place=f"operation '{name}'", value=kind,
                              allowed="while, branch, call")  # fmt: skip
        for one, number in zip(entry["results"], state, strict=True):
            if one is not None and one["name"]:
                self.flat.scopes[scope].values[one["name"]] = number

    def body(self, function: str, state: Sequence[int], label: str) -> list[int]:
        core = self.function(function)
        scope = self.scope(core, label)
        values = self.flat.scopes[scope].values
        values.update({one["name"]: number for one, number in zip(core.inputs, state, strict=True)})
        self.walk(scope)
        return [values[one["name"]] for one in core.outputs]
