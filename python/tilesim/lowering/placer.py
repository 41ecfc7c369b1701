"""Finds operations that a machine cannot run, and compiles the rest around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import _core
from ..base.errors import Unsupported, listed
from ..graph import Graph, nearest, user_error
from ..machine.device import Device
from ..machine.machine import Machine
from ..program import placement
from ..program.mixed import SIDES, CorePlacement, MixedProgram, Turn
from ..program.placement import Item, Link
from ..program.program import Program
from .costs import Estimator

__all__ = ["compile_mixed", "link_of", "prefixes"]

_EVERYWHERE = ("constant", "iota")  # kinds that both host and machine compute if both need them


def link_of(machine: Machine) -> Link:
    """Returns the link between a machine and its host."""
    row = machine.core.host
    return Link(int(row["bytes_per_second"]), int(row["latency_ps"]))


def _bytes(value: Mapping[str, Any]) -> int:
    bits = _core.dtype_bits(value["dtype"])
    for extent in value["shape"]:
        bits *= extent
    return -(-bits // 8)


class _Placer:
    """Compiles to find operations that the machine cannot run, and places the rest around them."""

    def __init__(self, graph: Graph, machine: Machine, forced: Mapping[str, str]) -> None:
        self.graph, self.machine, self.forced = graph, machine, dict(forced)
        self.host = Device.load(machine.core.host["device"])
        self.reasons: dict[str, str] = {}
        self._read()

    def _read(self) -> None:
        self.operations = {op["name"]: op for op in self.graph.operations()}
        outputs = [row["name"] for row in self.graph.outputs]
        self.outputs = outputs
        self.common = {
            op["results"][0]["name"]: name
            for name, op in self.operations.items()
            if op["kind"] in _EVERYWHERE and op["results"][0]["name"] not in outputs
        }
        self.on_host = Estimator(self.graph, self.host)
        self.times = {
            name: self.on_host.picoseconds(op)
            for name, op in self.operations.items()
            if name not in self.common.values()
        }
        values = [*self.graph.inputs, *(row for name in self.times for row in self.operations[name]["results"])]
        self.sizes = {row["name"]: _bytes(row) for row in values}

    def check_forced(self) -> None:
        for name, side in self.forced.items():
            if side not in SIDES:
                raise user_error(
                    "unknown place",
                    place=name,
                    value=f"'{side}'",
                    allowed="machine, host",
                    suggestion=nearest(side, SIDES),
                )
            if name not in self.times:
                known = list(self.times)
                raise user_error(
                    "unknown operation",
                    place=self.graph.name,
                    value=f"'{name}'",
                    allowed=listed(known),
                    suggestion=nearest(name, known),
                )
            self.reasons[name] = "asked for"

    def plan(self) -> CorePlacement:
        items = []
        for name, host in self.times.items():
            op = self.operations[name]
            side = self.forced.get(name, "host" if name in self.reasons else "")
            read = [row["name"] for row in op["operands"] if row is not None and row["name"] not in self.common]
            made = [row["name"] for row in op["results"]]
            items.append(
                Item(
                    name,
                    tuple(dict.fromkeys(read)),
                    tuple(made),
                    None if side == "host" else 0,  # others move to the host only if that saves transfers
                    None if side == "machine" else host,
                )
            )
        link = link_of(self.machine)
        there = placement.cheapest(items, self.sizes, self.outputs, link)
        notes = {f"host, {note}" for note in self.on_host.notes if note.split(":")[0] in self._kinds(there)}
        return CorePlacement(items, self.sizes, self.outputs, link, self.reasons, there, notes)

    def _kinds(self, names: Iterable[str]) -> set[str]:
        return {self.operations[name]["kind"] for name in names} | set(names)

    def parts(self, plan: CorePlacement) -> list[Turn]:
        crossing = placement.transfers(plan.items, plan.sizes, plan.outputs, plan.there)
        to_host = {t.value: t for t in crossing if t.to_host}
        from_host = {t.value: t for t in crossing if not t.to_host}
        turns = placement.phases(plan.items, plan.there)
        parts = []
        for host, names in turns:
            part = self._part(host, names)
            if host:
                part.before = [to_host.pop(name) for name in part.inputs if name in to_host]
                part.after = [from_host[name] for name in part.outputs if name in from_host]
            parts.append(part)
        return parts

    def _part(self, host: bool, names: list[str]) -> Turn:
        inside = set(names)
        made: set[str] = set()
        read: dict[str, None] = {}
        for name in names:
            made.update(row["name"] for row in self.operations[name]["results"])
            read.update({row["name"]: None for row in self.operations[name]["operands"] if row is not None})
        outside = set(self.outputs)
        for name, op in self.operations.items():
            if name not in inside:
                outside.update(row["name"] for row in op["operands"] if row is not None)
        common = [self.common[value] for value in read if value in self.common]
        inputs = [value for value in read if value not in made and value not in self.common]
        outputs = [row["name"] for n in names for row in self.operations[n]["results"] if row["name"] in outside]
        core = self.graph.core.extract([*common, *names], inputs, outputs)
        return Turn(host, names, Graph(core))

    def blame(self, error: Unsupported) -> bool:
        """Assigns the operation that an error names, and similar ones, to the host; returns whether any is new."""
        found = self._entry_operation(error)
        if not found or found in self.reasons or self.forced.get(found) == "machine" or error.lack == "devices":
            return False
        for name in self.times:
            if self._sort(name) == self._sort(found) and name not in self.forced:
                self.reasons[name] = error.what
        return True

    def _entry_operation(self, error: Unsupported) -> str:
        """Returns the entry operation that caused an error or whose function did; "" if unknown."""
        if not error.operation:
            return ""
        if error.function == self.graph.core.main:
            return error.operation if error.operation in self.times else ""
        holders = (name for name in self.times if error.function in self._reached(self.operations[name]))
        found = next(holders, "")  # a call is inlined, and then its operations are placed
        return "" if found and self.operations[found]["kind"] == "call" else found

    def _reached(self, op: Mapping[str, Any]) -> set[str]:
        """Returns the functions that an operation runs, directly or indirectly."""
        found: set[str] = set()
        left = list(op["functions"])
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += [callee for inner in self.graph.operations(name) for callee in inner["functions"]]
        return found

    def _sort(self, name: str) -> Any:
        op = self.operations[name]
        types = [[row and (row["dtype"], row["shape"]) for row in op[side]] for side in ("operands", "results")]
        return op["kind"], types, op["attributes"], op["functions"]


def prefixes(name: str) -> Iterable[str]:
    """Yields a name and its prefixes, because lowering appends suffixes to operation names."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def compile_mixed(
    graph: Graph,
    machine: Machine,
    forced: Mapping[str, str],
    anything: bool,
    compile_part: Callable[[Graph], Program],
) -> Program:
    """Compiles the operations that the machine can run, and assigns the rest to the host."""
    whole = graph
    placer = _Placer(whole, machine, forced)
    if any(name not in placer.times for name in forced) and _has_calls(whole):
        whole = _inlined(whole)
        placer = _Placer(whole, machine, forced)
    placer.check_forced()
    while True:
        plan = placer.plan()
        parts = placer.parts(plan)
        try:
            for part in parts:
                if not part.host:
                    part.program = compile_part(part.graph)
            if len(parts) == 1 and parts[0].program:
                return parts[0].program
            return MixedProgram(whole, machine, placer.host, parts, plan)
        except Unsupported as error:
            if not anything:
                raise
            if placer.blame(error):
                continue
            if not _has_calls(whole):
                raise
        # The operation is inside a called function; inlining the call allows separate placement.
        whole = _inlined(whole)
        placer = _Placer(whole, machine, forced)
        placer.check_forced()


def _has_calls(graph: Graph) -> bool:
    return any(op["kind"] == "call" for op in graph.operations())


def _inlined(graph: Graph) -> Graph:
    flat = graph.copy()
    flat.inline_calls()
    return flat
