"""Terminal output of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..analytic.estimate import Estimate
from ..base.columns import ROWS, cut, layout, name, number, percent
from ..base.screen import Line, Lines, notes, wrapped
from ..results.advice import Advice
from ..results.printed import operation_lines, verified_lines
from ..results.result import Result
from ..timing.execution import Verification
from . import progress
from .screen import say

__all__ = ["ROWS", "WORTH", "advise", "show", "step", "verified"]

WORTH = 1.01
"""The least gain of advice that is listed."""

MOST_ADVICE = 3

step = progress.phase


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.2f}"


def operations(result: Result, everything: bool = False) -> Lines:
    """Returns a table of operations, longest first; repeated layers are folded."""
    return operation_lines(result.table().rows, everything)


def busy_line(result: Result) -> str:
    """Returns a line with each component's utilisation and the FLOP rate of matrix products."""
    parts = [f"{part} {percent(share)} %" for part, share in result.utilisation.items()]
    macs = result.data["multiply_adds"]
    if macs and result.seconds:
        parts.append(f"products at {2 * macs / result.seconds / 1e12:.3g} TFLOP/s")
    return "Busy: " + ", ".join(parts) if result.utilisation else ""


def lowering_line(result: Result) -> str:
    """Returns a line with the lowering and its reason; "" for other results."""
    if result.lowering == "native":
        return "Lowering: native, as this chip's own compiler; --lowering best uses Tilesim's own rules."
    if result.lowering == "best":
        asked = "lowering" in result.data.get("options", {})
        return f"Lowering: best, Tilesim's own rules{'' if asked else ', because the machine has no lowering profile'}."
    return ""


def _cache(result: Result, everything: bool) -> Lines:
    """Returns cache statistics: the total, and those of the tensors with most traffic."""
    cache, rows = result.cache, result.cache_table().rows
    if cache is None:
        return []
    looked = max(1, cache["hits"] + cache["misses"])
    lines: list[Line | str] = [
        *wrapped(
            f"Cache: {cache['hits']:,} hits, {cache['misses']:,} misses ({percent(cache['hits'] / looked)} % hits), "
            f"{_megabytes(cache['fetched_bytes'])} MB fetched, {_megabytes(cache['returned_bytes'])} MB written back, "
            f"{_megabytes(cache['bypassed_bytes'])} MB bypassed",
            hang="  ",
        )
    ]
    columns = [name("tensor"), name("resident", 1, 5), number("MB moved"), number("hits, %")]
    columns += [number("MB fetched", 2), number("MB written back", 3), number("MB bypassed", 4)]
    cells = []
    for row in rows[: None if everything else ROWS]:
        moved = [row["read_bytes"] + row["written_bytes"], row["fetched_bytes"]]
        moved += [row["returned_bytes"], row["bypassed_bytes"]]
        first, *rest = map(_megabytes, moved)
        cells.append([row["tensor"], "yes" if row["resident"] else "", first, percent(row["hit_rate"]), *rest])
    return [*lines, *layout(columns, cells), *cut(rows, everything, what="tensors"), ""]


def verified(outcome: Verification, everything: bool = False) -> Lines:
    """Returns a verification's verdict and its rows: errors first, then those closest to their bound."""
    return [outcome.verdict, *verified_lines(outcome.rows, everything), ""]


def show(result: Result, everything: bool = False) -> None:
    """Prints a result: headline, utilisation, longest operations, approximations."""
    lines: list[Line | str] = [*wrapped(result.summary(), hang="  "), *wrapped(busy_line(result), hang="  ")]
    lines += [*wrapped(lowering_line(result), hang="  "), ""]
    lines += [*operations(result, everything), "", *_cache(result, everything)]
    lines += ["How it was modelled:", *notes(result.approximations)]
    say(line for i, line in enumerate(lines) if line or lines[i - 1])


def _proposals(result: Result) -> Iterator[Advice]:
    """Yields each advice after its simulation, or all at once if the result simulates no changes."""
    one_by_one = None if isinstance(result, Estimate) else getattr(result, "advice", None)
    yield from one_by_one() if one_by_one else result.explain()


def advise(result: Result) -> list[Advice]:
    """Simulates changed machines and prints the best ones; returns all, fastest first."""
    found: list[Advice] = []
    with step("simulating changed machines") as trying:
        for one in _proposals(result):
            found.append(one)
            best = max(found, key=lambda advice: advice.gain)
            trying.at(len(found), part=f"best so far: {best!r}" if best.gain >= WORTH else "")
    say(["", *advice_lines(found)])
    return sorted(found, key=lambda one: one.cycles)


def advice_lines(found: Sequence[Any]) -> list[str]:
    """Returns lines for the advice whose gain is at least `WORTH`, best first."""
    better = sorted((one for one in found if one.gain >= WORTH), key=lambda one: -one.gain)
    if not better:
        return wrapped(f"None of {len(found)} simulated changes makes it {WORTH} times as fast.")
    head = f"Best of {len(found)} simulated changes:"
    return [*wrapped(head), *notes(repr(one) for one in better[:MOST_ADVICE])]
