"""Programs that alternate between a machine and its host."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from ..base.errors import nearest, shown, user_error
from ..graph import Graph
from ..machine.device import Device
from ..machine.machine import Machine
from ..results.result import Table
from . import placement
from .fusion import Fusion
from .placement import Item, Link, Transfer
from .program import Program

__all__ = ["CorePlacement", "MixedProgram", "Turn", "from_document", "to_document"]

SIDES = ("machine", "host")


@dataclass
class Turn:
    """One turn of the machine (with its program) or of the host (a graph), and the transfers before and after it."""

    host: bool
    operations: list[str]
    graph: Graph
    program: Program | None = None
    before: list[Transfer] = field(default_factory=list)
    after: list[Transfer] = field(default_factory=list)

    @property
    def inputs(self) -> list[str]:
        """Names of the values that the turn reads."""
        return [row["name"] for row in self.graph.core.inputs]

    @property
    def outputs(self) -> list[str]:
        """Names of the values that later turns read."""
        return [row["name"] for row in self.graph.core.outputs]


class MixedProgram(Program):
    """A program in parts: tile programs of the machine alternate with operations of its host."""

    def __init__(self, graph: Graph, machine: Machine, host: Device, turns: list[Turn], plan: CorePlacement) -> None:
        """Stores the parts; `compile` with fallback="host" calls this."""
        self.graph, self.machine = graph, machine
        self.options = {}
        self.sort = ""
        self.given = None
        self.trips, self.trips_counted, self._open = {}, False, None
        self.host, self.turns, self._plan = host, turns, plan

    @property
    def core(self) -> _core.Program:  # type: ignore[override]
        """Raises an error: each part of the machine has a separate tile program."""
        raise user_error(
            "a program with operations on the host consists of several tile programs", suggestion="See `turns`."
        )

    @property
    def prepared(self) -> _core.Graph:
        """Raises an error: each part of the machine has a separate graph."""
        raise user_error("a program with operations on the host consists of several graphs", suggestion="See `turns`.")

    @property
    def fusion(self) -> Fusion:  # type: ignore[override]
        """The fusion groups of all parts on the machine."""
        parts = [part.program.fusion for part in self.turns if part.program]
        if not all(part.known for part in parts):
            return Fusion(None)
        return Fusion(row for part in parts for row in part.table().rows)

    @property
    def operations(self) -> int:
        """Number of tile operations of all parts."""
        return sum(part.program.operations for part in self.turns if part.program)

    @property
    def reads_tensors(self) -> bool:
        """Whether loops, addresses or rows of any part depend on the values of tensors."""
        return any(part.program.reads_tensors for part in self.turns if part.program)

    @property
    def sends(self) -> bool:
        """Whether cores of any part send tiles to each other."""
        return any(part.program.sends for part in self.turns if part.program)

    @property
    def footprint(self) -> list[tuple[int, str]]:
        """Bytes and name of every tensor in the machine's memory, largest first; parts share equal names."""
        found: dict[str, int] = {}
        for part in self.turns:
            for size, name in part.program.footprint if part.program else []:
                found[name] = max(size, found.get(name, 0))
        return sorted(((size, name) for name, size in found.items()), reverse=True)

    @property
    def peak_bytes(self) -> int:
        """Bytes of all tensors, which share no bytes because parts on the host run in between."""
        return sum(size for size, _ in self.footprint)

    @property
    def transfers(self) -> Table:
        """The transfers in order, with columns value, to and bytes."""
        return Table(placement.rows(t for part in self.turns for t in (*part.before, *part.after)))

    @property
    def placement(self) -> Table:
        """The place and reason of each operation, and its closed-form picoseconds on either side, or None."""
        rows = []
        for item in self._plan.items:
            there = item.name in self._plan.there
            why = self._plan.reasons.get(
                item.name, "its time there is less than that of the saved transfers" if there else ""
            )
            rows.append(
                {
                    "operation": item.name,
                    "where": SIDES[there],
                    "reason": why,
                    "machine_picoseconds": item.machine,
                    "host_picoseconds": item.host,
                }
            )
        return Table(rows)

    def host_picoseconds(self, name: str) -> int:
        """Returns the closed-form picoseconds of an operation on the host."""
        return next(item.host or 0 for item in self._plan.items if item.name == name)

    @property
    def notes(self) -> list[str]:
        """Approximations and additions of lowering, and the model of the host."""
        lines = [note for part in self.turns if part.program for note in part.program.notes]
        there = [row for row in self.placement.rows if row["where"] == "host"]
        named = "; ".join(f"{row['operation']} ({row['reason']})" for row in there[:8])
        more = f"; and {len(there) - 8} more" if len(there) > 8 else ""
        moved = self.transfers.rows
        size, link = sum(row["bytes"] for row in moved), self._plan.link
        each = "1 operation takes" if len(there) == 1 else f"{len(there)} operations take"
        lines.append(f"host: {each} the closed form's time on {self.host.name}: {named}{more}")
        lines.append(
            f"link to the host: {len(moved)} transfers, {size:,} bytes at {link.bytes_per_second / 1e9:g} GB/s and "
            f"{link.latency / 1e6:g} us each; machine and host alternate without overlap; inputs and outputs lie in "
            "the machine's memory, weights on both sides; the link's traffic in either memory is not counted"
        )
        return [*dict.fromkeys(lines), *sorted(self._plan.notes)]

    @property
    def plan(self) -> CorePlacement:
        """The place of each operation, and the reason."""
        return self._plan

    def _contents(self) -> dict[str, Any]:
        return {"mixed": to_document(self)}

    def _write(self, path: str, graph: Graph, header: dict[str, Any]) -> None:
        graph.core.save_compiled(path, json.dumps(header))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the program in the form of files."""
        loops = (self.trips, self.trips_counted, self._open)
        return _unpickled, (self._contents()["mixed"], self.graph, self.machine, self.options, loops)

    def tensors(self) -> Table:
        """Returns the tensors of all tile programs without duplicates."""
        rows = {row["name"]: row for part in self.turns if part.program for row in part.program.core.tensors()}
        return Table(list(rows.values()))

    def weights(self) -> dict[str, Any]:
        """Returns the elements of the weights of all tile programs by name."""
        return {name: a for part in self.turns if part.program for name, a in part.program.weights().items()}

    def forget_weights(self) -> None:
        """Clears cached weights, so that the next execution reads changed weights of the graph."""
        for part in self.turns:
            if part.program:
                part.program.forget_weights()

    def __repr__(self) -> str:
        """Name, machine and host."""
        name = self.graph.name if self.graph else ""
        return f"<Program {name} for {self.machine.name if self.machine else '?'} with host {self.host.name}>"


@dataclass
class CorePlacement:
    """The operations, values and link of a placement, and its result."""

    items: list[Item]
    sizes: dict[str, int]
    outputs: list[str]
    link: Link
    reasons: dict[str, str]
    there: set[str]
    notes: set[str]


def _unpickled(
    document: dict[str, Any], graph: Graph, machine: Machine, options: dict[str, Any], loops: tuple[Any, ...]
) -> MixedProgram:
    program = from_document(document, graph, machine, "pickle")
    program.options = options
    program.trips, program.trips_counted, program._open = loops
    return program


def to_document(program: MixedProgram) -> dict[str, Any]:
    """Converts a program to its file's form, without graph and machine."""
    plan = program.plan
    return {
        "host": program.host.to_dict(),
        "parts": [_part(part) for part in program.turns],
        "plan": {
            "items": [[i.name, list(i.operands), list(i.results), i.machine, i.host] for i in plan.items],
            "sizes": plan.sizes,
            "outputs": plan.outputs,
            "link": [plan.link.bytes_per_second, plan.link.latency],
            "reasons": plan.reasons,
            "there": sorted(plan.there),
            "notes": sorted(plan.notes),
        },
    }


def _part(part: Turn) -> dict[str, Any]:
    inside = set(part.operations)
    return {
        "host": part.host,
        "operations": part.operations,
        "constants": [op["name"] for op in part.graph.operations() if op["name"] not in inside],
        "inputs": part.inputs,
        "outputs": part.outputs,
        "before": [[moved.value, moved.to_host, moved.bytes] for moved in part.before],
        "after": [[moved.value, moved.to_host, moved.bytes] for moved in part.after],
        "program": json.loads(part.program.core.to_json()) if part.program else None,
    }


def from_document(document: Mapping[str, Any], graph: Graph, machine: Machine, place: str) -> MixedProgram:
    """Restores a program; the inverse of `to_document`."""
    try:
        turns = [_turn(row, graph, machine, place) for row in document["parts"]]
        rows = document["plan"]
        plan = CorePlacement(
            [Item(name, tuple(reads), tuple(makes), own, host) for name, reads, makes, own, host in rows["items"]],
            {str(name): int(size) for name, size in rows["sizes"].items()},
            [str(name) for name in rows["outputs"]],
            Link(*(int(number) for number in rows["link"])),
            dict(rows["reasons"]),
            set(rows["there"]),
            set(rows["notes"]),
        )
        _check_names(turns, plan, graph, place)
        if not isinstance(document["host"], dict):  # a text would be opened as the name of a file
            raise TypeError("the host is not an object")
        return MixedProgram(graph, machine, Device.load(document["host"]), turns, plan)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if hasattr(error, "what"):  # Tilesim's own errors already have a place
            raise
        raise user_error("the parts of the program are damaged", place=place, value=shown(error)[:200]) from None


def _check_names(turns: list[Turn], plan: CorePlacement, graph: Graph, place: str) -> None:
    """Checks that each part reads only inputs of the program, weights, and results of earlier parts."""
    items = {item.name for item in plan.items}
    known = {row["name"] for row in graph.inputs} | set(graph.weights())

    def check(names: Iterable[str], allowed: set[str], what: str, at: str) -> None:
        for name in names:
            if name not in allowed:
                close = nearest(str(name), allowed)
                raise user_error(what, place=f"{place}, {at}", value=shown(name), suggestion=close)

    for number, part in enumerate(turns):
        at = f"parts[{number}]"
        check(part.operations, items, "an operation of a part is not in the plan", at)
        check(part.inputs, known, "a part reads a value that no earlier part computes", at)
        known |= set(part.outputs)
        moved = [transfer.value for transfer in (*part.before, *part.after)]
        check(moved, known, "a transfer moves a missing value", at)
    check((row["name"] for row in graph.outputs), known, "no part computes an output", "parts")


def _turn(row: Mapping[str, Any], graph: Graph, machine: Machine, place: str) -> Turn:
    core = graph.core.extract([*row["constants"], *row["operations"]], list(row["inputs"]), list(row["outputs"]))
    turn = Turn(bool(row["host"]), list(row["operations"]), Graph(core))
    turn.before = [Transfer(str(value), bool(there), int(size)) for value, there, size in row["before"]]
    turn.after = [Transfer(str(value), bool(there), int(size)) for value, there, size in row["after"]]
    if not turn.host:
        own = _core.Program.from_json(json.dumps(row["program"]), place)
        own.check()
        turn.program = Program(own, turn.graph, machine)
    return turn
