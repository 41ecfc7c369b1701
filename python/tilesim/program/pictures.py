"""Shows a compiled program in a notebook."""

from __future__ import annotations

from typing import Any

from ..base import figures
from ..base.folding import fold
from ..base.view import Card, Cards, Column, Notes, Rows, Section, fragment

__all__ = ["picture"]


def picture(program: Any) -> str:
    """Draws size, memory, kernels (repeated layers as one), and notes of lowering."""
    kernels = program.kernels
    cards = [
        Card("tile operations", figures.count(program.operations), "loops of unknown length once"),
        Card("kernels", figures.count(len(kernels)), "each function once"),
        Card("cores", figures.count(program.cores)),
    ]
    parts: list[Any] = [Cards(cards)]
    if program.placement.rows:
        hosted = sum(row["place"] == "host" for row in program.placement.rows if "place" in row)
        cards.append(Card("on the host", figures.count(hosted), "operations"))
    else:
        plan = program.memory_plan()
        cards.append(Card("memory", figures.size(plan.peak_bytes["memory"]), "at the peak of the plan"))
        cards.append(Card("scratchpad", figures.size(plan.peak_bytes["scratchpad"]), "of a core, at the peak"))
    rows = [
        {
            "kernel": name if len(found) > 1 else found[0][1],
            "number": len(found),
            "function": found[0][0] or "main",
            "operations": figures.short(", ".join(found[0][2]), 90),
        }
        for (name, _), found in fold(kernels, lambda kernel: kernel[1], lambda kernel: kernel[0]).items()
    ]
    columns = [Column("kernel", "kernel", "text"), Column("number", "number"), Column("function", "function", "text")]
    columns.append(Column("operations", "operations of the graph", "text"))
    table = Rows("kernels", columns, rows, most=24, what="kernels")
    notes = [figures.short(note, 400) for note in program.notes[:12]]
    if len(program.notes) > len(notes):
        notes.append(f"and {len(program.notes) - len(notes):,} more notes")
    machine = f" for {program.machine.name}" if program.machine is not None else ""
    sections = [Section("", parts), Section("Kernels", [table])]
    sections += [Section("Notes of lowering", [Notes(notes)])] if notes else []
    name = program.graph.name if program.graph is not None else program.core.name
    return fragment(f"{name}, compiled{machine}", sections)
