"""Compares one program at tile, instruction and live level."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..base.checked import checked
from ..base.errors import unsupported
from ..base.table import Tabled
from ..loading import GraphLike
from ..machine.machine import Machine, MachineLike
from ..program.mixed import MixedProgram
from ..program.program import Program
from ..results.result import Result, Table
from .latencies import INSTRUCTION, TileLatencies
from .simulate import compile, simulate

__all__ = ["Levels", "levels"]

EXPLAINED_FROM = 0.15  # rows with a larger difference get an explanation


class Levels(Tabled):
    """A program's cycles at each level, and the tile operations that differ."""

    def __init__(self, results: dict[str, Result], computes: list[dict[str, Any]], notes: list[str]) -> None:
        """Stores results; `levels` calls this."""
        self.results, self.computes, self.notes = results, computes, notes

    @property
    def cycles(self) -> dict[str, int]:
        """Cycles of the program by level."""
        return {level: result.cycles for level, result in self.results.items()}

    @property
    def difference(self) -> float:
        """Difference of the instruction level from the tile level, as a fraction of the latter."""
        cycles = self.cycles
        return cycles["instruction"] / cycles["tile"] - 1 if cycles["tile"] else 0.0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Per operation: attributed cycles at each level, and the relative difference of the instruction level from the
        tile level."""
        by_level = {level: _cycles_of(result) for level, result in self.results.items()}
        rows: list[dict[str, Any]] = []
        for name, tile in by_level["tile"].items():
            row: dict[str, Any] = {"operation": name}
            row |= {level: cycles.get(name, tile) for level, cycles in by_level.items()}
            row["difference"] = row["instruction"] / tile - 1 if tile else 0.0
            rows.append(row)
        return rows

    @property
    def equal(self) -> bool:
        """Whether all levels have equal cycles."""
        return len(set(self.cycles.values())) == 1

    def table(self) -> Table:
        """Tabulates the distinct tile operations.

        Returns:
            Rows of `computes`: text, executions, cycles by closed form and by kernel (`busy`), difference, and the unit
            with most of the kernel's time, or why the kernel is missing; for differences above 15 %, `why`: overhead of
            the kernel's busiest unit, and the counts of the closed form. With `live` also the mean cycles by which an
            execution extends its queue.
        """
        return Table(self.computes)

    def to_dict(self) -> dict[str, Any]:
        """Converts to the JSON form.

        Returns:
            Cycles, rows, computes, notes.
        """
        return {
            "schema": "tilesim.levels",
            "version": 1,
            "cycles": self.cycles,
            "difference": self.difference,
            "rows": self.rows,
            "computes": self.computes,
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        """The headline and the table."""
        cycles = self.cycles
        live = f", live {cycles['live']:,}" if "live" in cycles else ""
        return (
            f"<levels: tile {cycles['tile']:,}, instruction {cycles['instruction']:,} cycles "
            f"({100 * self.difference:+.2f} %){live}, {len(self.computes)} distinct computes>"
        )


def _cycles_of(result: Result) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in result.data["operations"]:
        name = row["name"]
        found[name] = found.get(name, 0) + int(row["exclusive"])
    return found


def _why(row: dict[str, Any], own: dict[str, Any] | None, limit: str) -> str:
    """Explains a difference by the kernel's busiest unit and the counts of the closed form; "" for a small one."""
    if own is None or row["difference"] is None or abs(row["difference"]) <= EXPLAINED_FROM:
        return ""
    kernel = own.get("why") or f"most of the time: {own['limit']}"
    return f"{kernel}; counted by the closed form: {limit}"


def _computes(store: TileLatencies, machine: Machine) -> list[dict[str, Any]]:
    """Lists executed tile operations with both latencies, largest difference first."""
    known = {row["compute"]: row for row in store.table(machine)}
    rows: list[dict[str, Any]] = []
    for compute, count in store.last_counts.items():
        own = known.get(compute)
        closed = _core.closed_form_latency(machine.core, compute)
        form = int(closed["busy"])
        row: dict[str, Any] = {"compute": compute, "count": count, "closed_form": form}
        row["instruction"] = own["busy"] if own else None
        row["difference"] = own["busy"] / form - 1 if own and form else None
        row["limit"] = own["limit"] if own else "closed form: " + store.refused.get(compute, "no kernel")
        row["why"] = _why(row, own, str(closed["limit"]))
        rows.append(row)

    def weight(row: dict[str, Any]) -> float:
        return abs((row["instruction"] or row["closed_form"]) - row["closed_form"]) * float(row["count"])

    return sorted(rows, key=lambda row: (-weight(row), row["compute"]))


def _add_live(rows: list[dict[str, Any]], live: Result) -> None:
    """Adds the live cycles of each tile operation."""
    found = {row["compute"]: row["cycles"] / row["count"] for row in live.data["live"]["computes"]}
    for row in rows:
        words = [word for word in row["compute"].split() if word not in ("resident", "pipelined")]
        row["live"] = found.get(" ".join(words))


@checked()
def levels(
    program: Program | GraphLike, machine: MachineLike | None = None, *, live: bool = False, **options: Any
) -> Levels:
    """Compares closed forms and instruction-level kernels for one program.

    Args:
        program: a compiled program, a graph, or a workload's name.
        machine: as for `simulate`.
        live: whether to simulate concurrent kernels together too (see `simulate`).
        options: options of `simulate` (memory, network, tensors, latencies of source "instruction", ...).

    Returns:
        Cycles by level, per operation and per distinct tile operation.

    Raises:
        UserError: as `simulate`.
        Unsupported: for a program of several parts or core types.
    """
    store = options.pop("latencies", None) or TileLatencies(source=INSTRUCTION)
    if not isinstance(program, Program):
        program = compile(program, machine or "tpu-v3")
    target = program.machine if machine is None else Machine.load(machine)
    if isinstance(program, MixedProgram) or target is None or target.sorts:
        raise unsupported(
            "levels need a program with a machine, one part and one core type",
            place="program",
            suggestion="Use simulate(..., level='instruction')",
        )
    with_options = {"replay": False, **options}
    tile = simulate(program, target, **with_options)
    found = simulate(program, target, level="instruction", latencies=store, **with_options)
    notes = [line for line in found.data["approximations"] if line.startswith("tile computes")]
    results, computes = {"tile": tile, "instruction": found}, _computes(store, target)
    if live:
        results["live"] = simulate(program, target, level="live", **with_options)
        _add_live(computes, results["live"])
        said = results["live"].data["approximations"]
        notes += [line for line in said if line.startswith("tile computes") and line not in notes]
    return Levels(results, computes, notes)
