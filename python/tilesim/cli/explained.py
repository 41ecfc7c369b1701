"""What `tilesim run` says beyond the result: bounds, memory, both lowerings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from ..base.errors import nearest, user_error
from ..program.program import Program
from ..results.result import Result
from .show import ROWS, clipped, columns

__all__ = ["asked_for", "show_both", "show_explained"]

TOPICS = ("bounds", "memory", "fusion")


def asked_for(topics: Sequence[str] | None) -> list[str]:
    """Topics of --explain, checked.

    Args:
        topics: as given, several with commas between.

    Returns:
        The topics, each once.

    Raises:
        UserError: for an unknown one.
    """
    found = list(dict.fromkeys(one.strip() for text in topics or [] for one in text.split(",")))
    for one in found:
        if one not in TOPICS:
            hint, allowed = nearest(one, TOPICS), ", ".join(TOPICS)
            raise user_error(
                "nothing to explain", place="--explain", value=f"'{one}'", allowed=allowed, suggestion=hint
            )
    return found


def show_explained(result: Result, topics: Sequence[str], program: Program) -> None:
    """Prints what was asked for.

    Args:
        result: of a simulation.
        topics: of `asked_for`.
        program: that was simulated.
    """
    if "bounds" in topics:
        typer.echo("\n".join(["", *_bounds(result)]))
    if "memory" in topics:
        typer.echo("\n".join(["", *_memory(program)]))
    if "fusion" in topics:
        typer.echo("\n".join(["", *_fusion(program)]))


def show_both(native: Result, best: Result) -> None:
    """Prints two lowerings of one workload side by side.

    Args:
        native: as the chip's own compiler lowers.
        best: as is best.
    """
    cells = [["lowering", "cycles", "ms", "MB", "time / bound", "bytes / bound"]]
    for name, result in (("native", native), ("best", best)):
        least = result.bounds
        time = result.seconds / least.seconds if least and least.seconds else 1.0
        moved = result.memory_bytes / least.bytes if least and least.bytes else 1.0
        row = [name, f"{result.cycles:,}", f"{result.milliseconds:,.4g}", f"{result.memory_bytes / 1e6:,.2f}"]
        cells.append([*row, f"{time:.2f}" if least else "", f"{moved:.2f}" if least else ""])
    typer.echo("\n".join([f"{native.data['program']} on {native.data['machine']}", *columns(cells)]))


def _memory(program: Program) -> list[str]:
    """The plan: its peak, and the largest tensors, of several calls the first."""
    if program.placement.rows:
        return ["Memory: not planned where the host runs a part."]
    plan = program.memory_plan()
    places: dict[str, dict[str, Any]] = {}
    for row in plan.table().rows:
        places.setdefault(row["tensor"], row)
    peak, live = plan.peak_bytes["memory"], plan.live_bytes["memory"]
    apart = sum(size for size, _ in program.footprint)
    lines = [
        f"Memory: {peak / 1e6:,.2f} MB at the peak of {plan.kernels:,} kernels; {live / 1e6:,.2f} MB live at one time, "
        f"{apart / 1e6:,.2f} MB if no two tensors shared bytes"
    ]
    stays = sum(row["level"] == "scratchpad" and not row["alias_of"] for row in places.values())
    if stays:
        most, held = plan.peak_bytes["scratchpad"], plan.live_bytes["scratchpad"]
        lines.append(
            f"Scratchpad: {stays:,} tensor{'s stay' if stays > 1 else ' stays'} there between kernels, "
            f"{held / 1e3:,.4g} kB of a core at one time, {most / 1e3:,.4g} kB with the kernels' tiles"
        )
    rows = sorted(places.values(), key=lambda row: (bool(row["alias_of"]), -row["bytes"], row["tensor"]))
    cells = [["tensor", "level", "address", "bytes", "first", "last", "in the bytes of"]]
    for row in rows[:ROWS]:
        numbers = [f"{row[key]:,}" for key in ("address", "bytes", "first", "last")]
        cells.append([clipped(row["tensor"]), row["level"], *numbers, clipped(row["alias_of"])])
    more = [f"... and {len(rows) - ROWS} more tensors"] if len(rows) > ROWS else []
    return [*lines, *columns(cells), *more]


def _fusion(program: Program) -> list[str]:
    """Groups by rule, then the largest, then what would save most of those that were refused."""
    if not program.fusion.known:
        return ["Fusion: not known of a tile program without its graph."]
    found = program.fusion.table().rows
    taken = [row for row in found if row["decision"] == "taken"]
    lines = [f"Fusion: {len(taken):,} groups of {len(found):,} that the rules looked at; bytes and cycles per call"]
    cells = [["rule", "taken", "not worth it", "not legal", "MB saved", "cycles saved"]]
    for rule in dict.fromkeys(row["rule"] for row in found):
        own = [row for row in found if row["rule"] == rule]
        counts = [sum(row["decision"] == one for row in own) for one in ("taken", "not worth it", "not legal")]
        size, cycles = (sum(row[key] for row in own if row in taken) for key in ("bytes_saved", "cycles_saved"))
        cells.append([rule, *map(str, counts), f"{size / 1e6:,.2f}", f"{cycles:,.0f}"])
    lines += columns(cells)
    for title, rows in (("Taken", taken), ("Not taken", [row for row in found if row["decision"] != "taken"])):
        cells = [[title, "rule", "operations", "MB saved", "cycles saved", "reason"]]
        for row in sorted(rows, key=lambda row: -row["bytes_saved"])[:ROWS]:
            numbers = [f"{row['bytes_saved'] / 1e6:,.2f}", f"{row['cycles_saved']:,.0f}"]
            operations = clipped(", ".join(row["operations"][-4:]))
            cells.append([clipped(row["candidate"]), row["rule"], operations, *numbers, row["reason"]])
        more = [f"... and {len(rows) - ROWS} more"] if len(rows) > ROWS else []
        lines += ["", *columns(cells, 3), *more] if rows else []
    return lines


def _bounds(result: Result) -> list[str]:
    least = result.bounds
    if least is None:
        return ["Bounds: none where the memory is ideal, the host runs a part, or no graph is known."]
    cells = [["", "reached", "at least", "ratio"]]
    for name, unit, reached, bound in (
        ("memory", "MB", result.memory_bytes / 1e6, least.bytes / 1e6),
        ("time", "ms", result.milliseconds, least.seconds * 1e3),
    ):
        ratio = f"{reached / bound:.2f}" if bound else ""
        cells.append([f"{name} ({unit})", f"{reached:,.4g}", f"{bound:,.4g}", ratio])
    lines = [f"Bounds ({result.lowering} lowering): {least.why}", *columns(cells)]
    parts = {"arrays": least.array_seconds, "vector units": least.vector_seconds, "memory": least.memory_seconds}
    lines.append("At least: " + ", ".join(f"{name} {seconds * 1e3:.4g} ms" for name, seconds in parts.items()))
    rows = least.table().rows
    cells = [["operation", "kind", "runs", "multiply-adds", "arrays us", "vector us"]]
    for row in rows[:ROWS]:
        times = [f"{row[key] * 1e6:,.2f}" for key in ("array_seconds", "vector_seconds")]
        cells.append(
            [clipped(row["operation"]), row["kind"], f"{row['count']:,.0f}", f"{row['multiply_adds']:,.0f}", *times]
        )
    more = [f"... and {len(rows) - ROWS} more operations"] if len(rows) > ROWS else []
    return [*lines, *(columns(cells, 2) if rows else []), *more]
