"""Executes, verifies and simulates programs with host parts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from .. import _core
from ..lowering.placer import link_of
from ..machine.machine import Machine
from ..program.mixed import MixedProgram, Turn
from ..program.placement import Transfer

__all__ = ["execute_parts", "simulate_parts", "verify_parts"]

Run = Callable[[Turn, list[Any]], Mapping[str, Any]]


def _on_host(part: Turn, arrays: list[Any]) -> dict[str, Any]:
    """Runs a host part with the reference kernels."""
    return dict(zip(part.outputs, _core.evaluate(part.graph.core, arrays, {}), strict=True))


def _walk(program: MixedProgram, arrays: Mapping[str, Any], on_machine: Run) -> dict[str, Any]:
    values = dict(arrays)
    for part in program.turns:
        given = [values[name] for name in part.inputs]
        values.update(_on_host(part, given) if part.host else on_machine(part, given))
    assert program.graph is not None
    return {row["name"]: values[row["name"]] for row in program.graph.outputs}


def execute_parts(program: MixedProgram, arrays: Mapping[str, Any], on_machine: Run) -> dict[str, Any]:
    """Runs the parts in order."""
    return _walk(program, arrays, on_machine)


def verify_parts(
    program: MixedProgram, arrays: Mapping[str, Any], verify: Callable[[Turn, list[Any]], Any]
) -> list[Any]:
    """Compares every machine part with the reference, on inputs that the reference computed."""
    rows: list[Any] = []
    assert program.machine is not None
    multiply = program.machine.core.multiply
    numerics = {"multiply": multiply} if multiply else {}

    def reference(part: Turn, given: list[Any]) -> dict[str, Any]:
        rows.extend(verify(part, given))
        return dict(zip(part.outputs, _core.evaluate(part.graph.core, given, numerics), strict=True))

    _walk(program, arrays, reference)
    return rows


def simulate_parts(
    program: MixedProgram, machine: Machine, simulate: Callable[[Turn], dict[str, Any]], timeline: bool
) -> dict[str, Any]:
    """Simulates all parts; machine, link and host run in turn."""
    turns = _core.Turns(machine.hertz, timeline)
    link = link_of(machine)
    assert program.graph is not None
    flops = {op["name"]: math.fsum(op["flops"].values()) for op in program.graph.operations()}

    def transfer(moved: Transfer) -> None:
        way = ("to host", "load_bytes") if moved.to_host else ("from host", "store_bytes")
        name, size = f"{way[0]}: {moved.value}", {way[1]: moved.bytes}
        turns.elsewhere("link", name, link.picoseconds(moved.bytes), moved.value, **size)

    for part in program.turns:
        for moved in part.before:
            transfer(moved)
        if part.host:
            for name in part.operations:
                turns.elsewhere("host", name, program.host_picoseconds(name), name, work=flops[name])
        else:
            turns.part(_core.Result.from_json(json.dumps(simulate(part))))
        for moved in part.after:
            transfer(moved)
    data = turns.finish().data()
    data.update(program=program.graph.name, machine=machine.label, configuration=machine.to_dict())
    data["approximations"] = list(dict.fromkeys([*program.notes, *data["approximations"]]))
    data["fidelity"] |= {"host": f"closed form ({program.host.name})", "link": "latency and bandwidth"}
    data["hashes"] |= {"machine": machine.core.hash()}
    return dict(data)
