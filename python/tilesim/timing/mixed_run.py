"""Programs with parts for the host: execution, verification, and one result from the results of the parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from .. import _core
from ..lowering.placer import link_of
from ..machine.machine import Machine
from ..program.mixed import MixedProgram, Turn
from ..program.placement import PICOSECONDS, Transfer, share

__all__ = ["execute_parts", "simulate_parts", "verify_parts"]

Run = Callable[[Turn, list[Any]], Mapping[str, Any]]
_COUNTS = ("tile_operations", "events", "memory_read_bytes", "memory_written_bytes", "network_bytes")
_TRAFFIC = tuple(f"memory_{part}_bytes" for part in ("merged", "forwarded", "padding"))
_WORK = ("multiply_adds", "vector_operations")
_STATES = ("busy", "wait_load", "wait_store", "wait_dependency", "wait_port", "idle")


def _on_host(part: Turn, arrays: list[Any]) -> dict[str, Any]:
    """The reference kernels in exact numerics: what a host's library computes, up to rounding."""
    return dict(zip(part.outputs, _core.evaluate(part.graph.core, arrays, {}), strict=True))


def _walk(program: MixedProgram, arrays: Mapping[str, Any], on_machine: Run) -> dict[str, Any]:
    values = dict(arrays)
    for part in program.turns:
        given = [values[name] for name in part.inputs]
        values.update(_on_host(part, given) if part.host else on_machine(part, given))
    assert program.graph is not None
    return {row["name"]: values[row["name"]] for row in program.graph.outputs}


def execute_parts(program: MixedProgram, arrays: Mapping[str, Any], on_machine: Run) -> dict[str, Any]:
    """Runs the parts one after another.

    Args:
        program: what to run.
        arrays: inputs of the whole by name.
        on_machine: runs one part of the machine on its inputs.

    Returns:
        Outputs of the whole by name.
    """
    return _walk(program, arrays, on_machine)


def verify_parts(
    program: MixedProgram, arrays: Mapping[str, Any], verify: Callable[[Turn, list[Any]], Any]
) -> list[Any]:
    """Compares every part of the machine with the reference, on what the reference gives.

    Args:
        program: what to verify.
        arrays: inputs of the whole by name.
        verify: rows of one part's comparison on its inputs.

    Returns:
        The rows of all parts.
    """
    rows: list[Any] = []
    assert program.machine is not None
    multiply = program.machine.core.multiply
    numerics = {"multiply": multiply} if multiply else {}

    def reference(part: Turn, given: list[Any]) -> dict[str, Any]:
        rows.extend(verify(part, given))
        return dict(zip(part.outputs, _core.evaluate(part.graph.core, given, numerics), strict=True))

    _walk(program, arrays, reference)
    return rows


class _Timeline:
    """The parts' results one after another, in cycles of the machine's clock."""

    def __init__(self, program: MixedProgram, machine: Machine, record: bool) -> None:
        self.program, self.machine, self.hertz, self.record = program, machine, machine.hertz, record
        self.now = 0
        self.sums: dict[str, Any] = dict.fromkeys((*_COUNTS, *_WORK), 0)
        self.traffic: dict[str, int] = {}
        self.units: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, dict[str, Any]] = {}
        self.energy: dict[str, dict[str, Any]] = {}
        self.labels: dict[str, int] = {}
        self.intervals: list[list[int]] = []
        self.dropped = 0
        self.notes: list[str] = []
        self.own = {"host": 0, "link": 0}
        self.network = 0

    def cycles(self, picoseconds: int) -> int:
        return -(-picoseconds * self.hertz // PICOSECONDS)

    def part(self, data: dict[str, Any]) -> None:
        for key in self.sums:
            self.sums[key] += data[key]
        for key in _TRAFFIC:
            if data.get(key):
                self.traffic[key] = self.traffic.get(key, 0) + data[key]
        names = [row["unit"] for row in data["units"]]
        for row in data["units"]:
            self._add_unit(row, data["cycles"])
        for row in data["operations"]:
            self._add_operation({**row, "start": row["start"] + self.now, "finish": row["finish"] + self.now})
        for row in data["energy"]:
            known = self.energy.setdefault(row["part"], {**row, "count": 0, "femtojoules": 0})
            known["count"] += row["count"]
            known["femtojoules"] += row["femtojoules"]
        for unit, label, start, finish in data["intervals"]:
            self._interval(names[unit], data["labels"][label], start + self.now, finish + self.now)
        self.dropped += data["intervals_dropped"]
        if data["bottleneck"] == "network":
            self.network += round(data["cycles"] * data["bottleneck_share"])
        self.notes += [note for note in data["approximations"] if note not in self.notes]
        self.now += data["cycles"]

    def _add_unit(self, row: dict[str, Any], during: int) -> None:
        known = self.units.get(row["unit"])
        if known is None:
            before = {**dict.fromkeys(_STATES, 0), "idle": self.now}
            known = self.units[row["unit"]] = {**row, "cycles": before, "operations": 0, "bytes": 0, "work": 0.0}
        known["cycles"]["idle"] += self.now - sum(known["cycles"].values())
        for state in _STATES:
            known["cycles"][state] += row["cycles"][state]
        known["cycles"]["idle"] += during - sum(row["cycles"].values())
        for key in ("operations", "bytes", "work"):
            known[key] += row[key]

    def _add_operation(self, row: dict[str, Any]) -> None:
        known = self.operations.get(row["name"])
        if known is None:
            self.operations[row["name"]] = dict(row)
            return
        for key, value in row.items():  # what is needed in several parts is made in each of them
            if isinstance(value, (int, float)) and key not in ("start", "finish", "bound_share"):
                known[key] += value
        known["finish"] = row["finish"]

    def _interval(self, unit: str, label: str, start: int, finish: int) -> None:
        number = list(self.units).index(unit)
        self.intervals.append([number, self.labels.setdefault(label, len(self.labels)), start, finish])

    def elsewhere(
        self, unit: str, name: str, picoseconds: int, moved: Transfer | None = None, flops: float = 0
    ) -> None:
        """An operation of the host, or a transfer over the link."""
        cycles = self.cycles(picoseconds)
        size = moved.bytes if moved else 0
        states = {**dict.fromkeys(_STATES, 0), "busy": cycles}
        row = {"unit": unit, "kind": unit, "core": 0, "cycles": states, "operations": 1, "bytes": size, "work": flops}
        self._add_unit(row, cycles)
        self.own[unit] += cycles
        zero = ("array_busy", "vector_busy", "memory_busy", "launch", *_WORK)
        self._add_operation(
            {
                "name": name,
                "operation": moved.value if moved else name,
                "count": 1,
                "start": self.now,
                "finish": self.now + cycles,
                "cycles": cycles,
                "exclusive": cycles,
                "load_bytes": size if moved and moved.to_host else 0,
                "store_bytes": size if moved and not moved.to_host else 0,
                **dict.fromkeys(zero, 0),
                "bound": unit,
                "bound_share": 1.0,
            }
        )
        if self.record:
            self._interval(unit, name, self.now, self.now + cycles)
        self.now += cycles

    def bottleneck(self) -> tuple[str, float]:
        def longest(kind: str) -> int:
            return max((row["cycles"]["busy"] for row in self.units.values() if row["kind"] == kind), default=0)

        parts = {
            "compute": longest("array"),
            "vector": longest("vector"),
            "memory": longest("channel"),
            "network": self.network,
            "launch": sum(row["launch"] for row in self.operations.values()),
            **self.own,
        }
        name = max(parts, key=lambda key: parts[key])
        part = min(1.0, share(parts[name], self.now))
        return (name if part >= 0.5 else "latency"), part


def _finished(line: _Timeline, first: dict[str, Any]) -> dict[str, Any]:
    program = line.program
    for row in line.units.values():
        row["cycles"]["idle"] += line.now - sum(row["cycles"].values())
    name, part = line.bottleneck()
    host, link = f"closed form ({program.host.name})", "latency and bandwidth"
    return {
        "schema": "tilesim.result",
        "version": 1,
        "program": program.graph.name if program.graph else "",
        "machine": line.machine.name,
        "source": "engine",
        "cycles": line.now,
        "hertz": line.hertz,
        "seconds": line.now / line.hertz,
        **line.sums,
        **line.traffic,
        "bottleneck": name,
        "bottleneck_share": part,
        "units": list(line.units.values()),
        "operations": list(line.operations.values()),
        "energy": [
            *line.energy.values(),
            _unknown("host (ps)", line.own["host"] * PICOSECONDS // line.hertz),
            _unknown("link bytes", int(line.units["link"]["bytes"]) if "link" in line.units else 0),
        ],
        "approximations": list(dict.fromkeys([*program.notes, *line.notes])),
        "fidelity": {**first.get("fidelity", {}), "host": host, "link": link},
        "hashes": {**first.get("hashes", {}), "machine": line.machine.core.hash()},
        "labels": list(line.labels),
        "intervals": line.intervals,
        "intervals_dropped": line.dropped,
        "configuration": line.machine.to_dict(),
    }


def _unknown(part: str, count: int) -> dict[str, Any]:
    return {"part": part, "count": count, "femtojoules": 0, "known": False}


def simulate_parts(
    program: MixedProgram, machine: Machine, simulate: Callable[[Turn], dict[str, Any]], timeline: bool
) -> dict[str, Any]:
    """One result from those of the parts: machine, link and host take turns.

    Args:
        program: what to simulate.
        machine: whose link and clock.
        simulate: the result, in its JSON form, of one part of the machine.
        timeline: record intervals of host and link too.

    Returns:
        JSON form of the result; units "host" and "link" beside the machine's, all of which are idle meanwhile.
    """
    line = _Timeline(program, machine, timeline)
    link = link_of(machine)
    first: dict[str, Any] = {}
    flops = {op["name"]: math.fsum(op["flops"].values()) for op in program.graph.operations()} if program.graph else {}
    for part in program.turns:
        for moved in part.before:
            line.elsewhere("link", f"to host: {moved.value}", link.picoseconds(moved.bytes), moved)
        if part.host:
            for name in part.operations:
                line.elsewhere("host", name, program.host_picoseconds(name), flops=flops[name])
        else:
            data = simulate(part)
            first = first or data
            line.part(data)
        for moved in part.after:
            line.elsewhere("link", f"from host: {moved.value}", link.picoseconds(moved.bytes), moved)
    return _finished(line, first)
