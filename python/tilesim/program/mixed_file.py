"""Programs with parts for the host as data: parts, transfers, and the plan that placed them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from . import _core
from ._errors import nearest, shown, user_error
from .device import Device
from .graph import Graph
from .machine import Machine
from .mixed import MixedProgram, Plan, Turn
from .placement import Item, Link, Transfer
from .program import Program


def to_document(program: MixedProgram) -> dict[str, Any]:
    """Everything about a program but its graph and machine.

    Args:
        program: what to write.

    Returns:
        Values for JSON.
    """
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
    """The opposite of `to_document`.

    Args:
        document: what it gave.
        graph: of the whole.
        machine: what it was compiled for.
        place: for messages.

    Returns:
        The program, its parts checked.

    Raises:
        UserError: for a document that is none, or does not fit the graph.
    """
    try:
        turns = [_turn(row, graph, machine, place) for row in document["parts"]]
        rows = document["plan"]
        plan = Plan(
            [Item(name, tuple(reads), tuple(makes), own, host) for name, reads, makes, own, host in rows["items"]],
            {str(name): int(size) for name, size in rows["sizes"].items()},
            [str(name) for name in rows["outputs"]],
            Link(*(int(number) for number in rows["link"])),
            dict(rows["reasons"]),
            set(rows["there"]),
            set(rows["notes"]),
        )
        _check_names(turns, plan, graph, place)
        if not isinstance(document["host"], dict):  # a text would be opened as a file
            raise TypeError("the host is no object")
        return MixedProgram(graph, machine, Device.load(document["host"]), turns, plan)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if hasattr(error, "what"):  # of ours, with its own place
            raise
        raise user_error("the parts of the program are damaged", place=place, value=shown(error)[:200]) from None


def _check_names(turns: list[Turn], plan: Plan, graph: Graph, place: str) -> None:
    """Parts run one after another: each reads inputs of the whole, weights, and what parts before it computed."""
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
        check(part.inputs, known, "a part reads what no part before it computes", at)
        known |= set(part.outputs)
        moved = [transfer.value for transfer in (*part.before, *part.after)]
        check(moved, known, "a transfer moves what is not there", at)
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
