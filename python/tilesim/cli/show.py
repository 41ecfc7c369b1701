"""How results look on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from ..results.result import Result

__all__ = ["columns", "show", "step"]

NAME = 44  # characters of an operation's name
ROWS = 20


@contextmanager
def step(text: str) -> Iterator[None]:
    """Says on a terminal what takes time while it does; elsewhere nothing.

    Args:
        text: what is being done.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def clipped(name: str, width: int = NAME) -> str:
    """A name that fits: its end says more than its start.

    Args:
        name: of an operation.
        width: characters.

    Returns:
        The name, or its end behind "..".
    """
    return name if len(name) <= width else ".." + name[2 - width :]


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of aligned columns.

    Args:
        rows: cells; the first row is the head.
        left: number of columns, from the first, that are aligned to the left.

    Returns:
        The lines.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _operations(result: Result) -> list[str]:
    rows = result.table().rows
    cells = [["operation", "runs", "cycles", "share", "bound by", "busy", "MB"]]
    cells += [
        [
            clipped(row["operation"]),
            f"{row['count']:,}",
            f"{row['cycles']:,}",
            f"{row['share']:.1%}",
            row["bound"],
            f"{row['busy']:.0%}",
            f"{row['bytes'] / 1e6:,.2f}",
        ]
        for row in rows[:ROWS]
    ]
    lines = columns(cells)
    if len(rows) > ROWS:
        rest = sum(row["share"] for row in rows[ROWS:])
        lines.append(f"... and {len(rows) - ROWS} more operations, {rest:.1%} of the time")
    return lines


def busy_line(result: Result) -> str:
    """How busy the parts are, and the rate of products.

    Args:
        result: of a simulation.

    Returns:
        One line; empty for a result without units.
    """
    parts = [f"{name} {share:.0%}" for name, share in result.utilisation.items()]
    macs = result.data["multiply_adds"]
    if macs and result.seconds:
        parts.append(f"products at {2 * macs / result.seconds / 1e12:.3g} TFLOP/s")
    return "Busy: " + ", ".join(parts) if result.utilisation else ""


def _cache(result: Result) -> list[str]:
    """What the cache did, in all and for the tensors that are moved most."""
    cache, rows = result.cache, result.cache_table().rows
    if cache is None:
        return []
    looked = max(1, cache["hits"] + cache["misses"])
    lines = [
        f"Cache: {cache['hits']:,} hits, {cache['misses']:,} misses ({cache['hits'] / looked:.1%} hits), "
        f"{cache['fetched_bytes'] / 1e6:,.2f} MB fetched, {cache['returned_bytes'] / 1e6:,.2f} MB written back, "
        f"{cache['bypassed_bytes'] / 1e6:,.2f} MB past it"
    ]
    cells = [["tensor", "stays", "MB moved", "hits", "MB fetched", "MB back", "MB past"]]
    for row in rows[:ROWS]:
        moved = [row["read_bytes"] + row["written_bytes"], row["fetched_bytes"]]
        moved += [row["returned_bytes"], row["bypassed_bytes"]]
        first, *rest = [f"{number / 1e6:,.2f}" for number in moved]
        cells.append([clipped(row["tensor"]), "yes" if row["resident"] else "", first, f"{row['hit_rate']:.1%}", *rest])
    more = [f"... and {len(rows) - ROWS} more tensors"] if len(rows) > ROWS else []
    return [*lines, *columns(cells, 2), *more, ""]


def show(result: Result, best: Any = None) -> None:
    """Prints a result: headline, how busy the parts are, the longest operations, advice, what was modelled how.

    Args:
        result: of a simulation.
        best: the best advice, if any was sought.
    """
    lines = [result.summary(), busy_line(result), "", *_operations(result), "", *_cache(result)]
    if best is not None and best.gain > 1.005:
        lines.append(f"What would help most, simulated again: {best!r}")
    lines.append("How it was modelled:")
    lines += [f"  - {line}" for line in result.approximations]
    typer.echo("\n".join(line for i, line in enumerate(lines) if line or lines[i - 1]))
