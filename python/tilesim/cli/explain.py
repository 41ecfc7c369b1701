"""Optional output of `tilesim run`: bounds, memory, fusion, both lowerings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import figures
from ..base.columns import ROWS, cut, folded, layout, name, number, text
from ..base.errors import nearest, user_error
from ..base.figures import digits
from ..base.screen import Line, Lines, notes, wrapped
from ..program.program import Program
from ..results.result import Result
from .screen import say

__all__ = ["asked_for", "show_both", "show_explained"]

TOPICS = ("bounds", "memory", "fusion")


def asked_for(topics: Sequence[str] | None) -> list[str]:
    """Returns the topics of --explain without duplicates; an unknown topic is an error."""
    found = list(dict.fromkeys(one.strip() for text in topics or [] for one in text.split(",")))
    for one in found:
        if one not in TOPICS:
            hint, allowed = nearest(one, TOPICS), ", ".join(TOPICS)
            raise user_error("unknown topic", place="--explain", value=f"'{one}'", allowed=allowed, suggestion=hint)
    return found


def show_explained(result: Result, topics: Sequence[str], program: Program, everything: bool = False) -> None:
    """Prints the requested topics."""
    if "bounds" in topics:
        say(["", *_bounds(result, everything)])
    if "memory" in topics:
        say(["", *_memory(program, everything)])
    if "fusion" in topics:
        say(["", *_fusion(program, everything)])


def show_both(native: Result, best: Result) -> None:
    """Prints two lowerings of one workload side by side."""
    columns = [name("lowering"), number("cycles"), number("time, ms"), number("MB")]
    columns += [number("time / bound"), number("bytes / bound", 1)]
    cells = []
    for title, result in (("native", native), ("best", best)):
        least = result.bounds
        time = result.seconds / least.seconds if least and least.seconds else 1.0
        moved = result.memory_bytes / least.bytes if least and least.bytes else 1.0
        row = [title, figures.count(result.cycles), digits(result.milliseconds), f"{result.memory_bytes / 1e6:,.2f}"]
        cells.append([*row, f"{time:.2f}" if least else "", f"{moved:.2f}" if least else ""])
    say([*wrapped(f"{native.data['program']} on {native.data['machine']}", hang="  "), *layout(columns, cells)])


def _memory(program: Program, everything: bool) -> Lines:
    """Returns the memory plan's peak and largest tensors; for a tensor with several calls, the first one."""
    if program.placement.rows:
        return ["Memory: no plan, because the host runs a part of the program."]
    plan = program.memory_plan()
    places: dict[str, dict[str, Any]] = {}
    for row in plan.table().rows:
        places.setdefault(row["tensor"], row)
    peak, live = plan.peak_bytes["memory"], plan.live_bytes["memory"]
    apart = sum(size for size, _ in program.footprint)
    lines = wrapped(
        f"Memory: {peak / 1e6:,.2f} MB at the peak of {plan.kernels:,} kernels; {live / 1e6:,.2f} MB live at one time, "
        f"{apart / 1e6:,.2f} MB without sharing",
        hang="  ",
    )
    stays = sum(row["level"] == "scratchpad" and not row["alias_of"] for row in places.values())
    if stays:
        most, held = plan.peak_bytes["scratchpad"], plan.live_bytes["scratchpad"]
        lines += wrapped(
            f"Scratchpad: {stays:,} tensor{'s stay' if stays > 1 else ' stays'} between kernels, "
            f"{held / 1e3:,.4g} kB of a core at one time, {most / 1e3:,.4g} kB with the kernels' tiles",
            hang="  ",
        )
    rows = sorted(places.values(), key=lambda row: (bool(row["alias_of"]), -row["bytes"], row["tensor"]))
    columns = [name("tensor"), name("level", least=10), number("address", 4), number("bytes")]
    columns += [number("first", 2), number("last", 1), name("alias of", 3, 16)]
    cells = [
        [
            row["tensor"],
            row["level"],
            *(f"{row[key]:,}" for key in ("address", "bytes", "first", "last")),
            row["alias_of"],
        ]
        for row in rows[: None if everything else ROWS]
    ]
    return [*lines, *layout(columns, cells), *cut(rows, everything, what="tensors")]


_DECISIONS = ("taken", "not worth it", "not legal")


def _fusion(program: Program, everything: bool) -> Lines:
    """Returns counts of fusion groups by rule, then the largest fused and the largest unfused groups."""
    if not program.fusion.known:
        return ["Fusion: unknown for a tile program without its graph."]
    found = program.fusion.table().rows
    taken = [row for row in found if row["decision"] == "taken"]
    head = f"Fusion: {len(taken):,} of {len(found):,} candidate groups fused; bytes and cycles per call"
    columns = [name("rule"), *map(number, _DECISIONS), number("MB saved"), number("cycles saved", 1)]
    cells = []
    for rule in dict.fromkeys(row["rule"] for row in found):
        own = [row for row in found if row["rule"] == rule]
        counts = [sum(row["decision"] == one for row in own) for one in _DECISIONS]
        size, cycles = (sum(row[key] for row in own if row["decision"] == "taken") for key in _SAVED)
        cells.append([rule, *map(str, counts), f"{size / 1e6:,.2f}", f"{cycles:,.0f}"])
    lines: list[Line | str] = [*wrapped(head, hang="  "), *layout(columns, cells)]
    for title, rows in (("Taken", taken), ("Not taken", [row for row in found if row["decision"] != "taken"])):
        lines += ["", *_groups(title, rows, everything)] if rows else []
    return lines


_SAVED = ("bytes_saved", "cycles_saved")


def _groups(title: str, rows: list[dict[str, Any]], everything: bool) -> Lines:
    """Returns a table of fusion groups, largest savings first; repeated layers are folded."""
    listed = [{**row, "operations": ", ".join(row["operations"][-4:])} for row in rows]
    if not everything:
        listed = folded(listed, _SAVED, "candidate", ("rule", "reason"))
    listed.sort(key=lambda row: -row["bytes_saved"])
    columns = [name(title), name("rule", 1, 8), name("operations", 3), number("MB saved"), number("cycles saved", 2)]
    columns.append(text("reason", 0, 16))
    cells = []
    for row in listed[: None if everything else ROWS]:
        saved = [f"{row['bytes_saved'] / 1e6:,.2f}", f"{row['cycles_saved']:,.0f}"]
        cells.append([row["candidate"], row["rule"], row["operations"], *saved, row["reason"]])
    return [*layout(columns, cells), *cut(listed, everything, what="groups")]


def _bounds(result: Result, everything: bool) -> Lines:
    least = result.bounds
    if least is None:
        return wrapped("Bounds: unavailable with ideal memory, a host part, or without a graph.", hang="  ")
    columns = [name("bound"), number("reached"), number("at least"), number("ratio")]
    cells = []
    for title, unit, reached, bound in (
        ("memory", "MB", result.memory_bytes / 1e6, least.bytes / 1e6),
        ("time", "ms", result.milliseconds, least.seconds * 1e3),
    ):
        ratio = f"{reached / bound:.2f}" if bound else ""
        cells.append([f"{title} ({unit})", f"{reached:,.4g}", f"{bound:,.4g}", ratio])
    lines: list[Line | str] = [*notes([f"Bounds ({result.lowering} lowering): {least.why}"], "")]
    parts = {"arrays": least.array_seconds, "vector units": least.vector_seconds, "memory": least.memory_seconds}
    told = ", ".join(f"{title} {figures.duration(seconds)}" for title, seconds in parts.items())
    lines += [*layout(columns, cells), *wrapped(f"At least: {told}", hang="  ")]
    rows = least.table().rows
    sums = ("multiply_adds", "count", "array_seconds", "vector_seconds")
    if not everything:
        rows = folded(rows, sums, alike=("kind",))
        rows.sort(key=lambda row: -(row["array_seconds"] + row["vector_seconds"]))
    columns = [name("operation"), name("kind", 2, 8), number("runs", 1), number("multiply-adds", 3)]
    columns += [number("arrays, µs"), number("vector, µs")]
    cells = [
        [row["operation"], row["kind"], figures.count(row["count"]), figures.count(row["multiply_adds"])]
        + [digits(row[key] * 1e6) for key in ("array_seconds", "vector_seconds")]
        for row in rows[: None if everything else ROWS]
    ]
    return [*lines, *(layout(columns, cells) if rows else []), *cut(rows, everything)]
