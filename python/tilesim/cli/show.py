"""How results look on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..analytic.estimate import Estimate
from ..results.advice import Advice
from ..results.printed import operation_lines, verified_lines
from ..results.result import Result
from ..timing.execution import Verification
from . import progress
from .screen import Line, Lines, notes, say, wrapped
from .tables import ROWS, cut, layout, name, number, percent

__all__ = ["ROWS", "WORTH", "advise", "show", "step", "verified"]

WORTH = 1.01
"""The least gain of advice that is listed."""

MOST_ADVICE = 3

step = progress.phase


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.2f}"


def operations(result: Result, everything: bool = False) -> Lines:
    """Operations, longest first; repeated layers as one row."""
    return operation_lines(result.table().rows, everything)


def busy_line(result: Result) -> str:
    """How busy the parts are, and the rate of products."""
    parts = [f"{part} {percent(share)} %" for part, share in result.utilisation.items()]
    macs = result.data["multiply_adds"]
    if macs and result.seconds:
        parts.append(f"products at {2 * macs / result.seconds / 1e12:.3g} TFLOP/s")
    return "Busy: " + ", ".join(parts) if result.utilisation else ""


def lowering_line(result: Result) -> str:
    """Whose rules made the program, and why these."""
    if result.lowering == "native":
        return "Lowering: native, as this chip's own compiler; --lowering best takes Tilesim's own rules."
    if result.lowering == "best":
        asked = "lowering" in result.data.get("options", {})
        return (
            f"Lowering: best, Tilesim's own rules{'' if asked else ', since the machine names no compiler to follow'}."
        )
    return ""


def _cache(result: Result, everything: bool) -> Lines:
    """What the cache did, in all and for the tensors that are moved most."""
    cache, rows = result.cache, result.cache_table().rows
    if cache is None:
        return []
    looked = max(1, cache["hits"] + cache["misses"])
    lines: list[Line | str] = [
        *wrapped(
            f"Cache: {cache['hits']:,} hits, {cache['misses']:,} misses ({percent(cache['hits'] / looked)} % hits), "
            f"{_megabytes(cache['fetched_bytes'])} MB fetched, {_megabytes(cache['returned_bytes'])} MB written back, "
            f"{_megabytes(cache['bypassed_bytes'])} MB past it",
            hang="  ",
        )
    ]
    columns = [name("tensor"), name("stays", 1, 5), number("MB moved"), number("hits, %")]
    columns += [number("MB fetched", 2), number("MB back", 3), number("MB past", 4)]
    cells = []
    for row in rows[: None if everything else ROWS]:
        moved = [row["read_bytes"] + row["written_bytes"], row["fetched_bytes"]]
        moved += [row["returned_bytes"], row["bypassed_bytes"]]
        first, *rest = map(_megabytes, moved)
        cells.append([row["tensor"], "yes" if row["resident"] else "", first, percent(row["hit_rate"]), *rest])
    return [*lines, *layout(columns, cells), *cut(rows, everything, what="tensors"), ""]


def verified(outcome: Verification, everything: bool = False) -> Lines:
    """Whether the tiled program is right: what is wrong first, then what comes nearest to its bound."""
    return [outcome.verdict, *verified_lines(outcome.rows, everything), ""]


def show(result: Result, everything: bool = False) -> None:
    """Prints a result: headline, how busy the parts are, the longest operations, what was modelled how."""
    lines: list[Line | str] = [*wrapped(result.summary(), hang="  "), *wrapped(busy_line(result), hang="  ")]
    lines += [*wrapped(lowering_line(result), hang="  "), ""]
    lines += [*operations(result, everything), "", *_cache(result, everything)]
    lines += ["How it was modelled:", *notes(result.approximations)]
    say(line for i, line in enumerate(lines) if line or lines[i - 1])


def _proposals(result: Result) -> Iterator[Advice]:
    """What would help; one after the other as it is simulated, where the result tells it so."""
    one_by_one = None if isinstance(result, Estimate) else getattr(result, "advice", None)
    yield from one_by_one() if one_by_one else result.explain()


def advise(result: Result) -> list[Advice]:
    """Tries what would help, then prints the best; on a terminal the best so far while it tries."""
    found: list[Advice] = []
    with step("what would help: trying changes") as trying:
        for one in _proposals(result):
            found.append(one)
            best = max(found, key=lambda advice: advice.gain)
            trying.at(len(found), part=f"best so far {best!r}" if best.gain >= WORTH else "")
    say(["", *advice_lines(found)])
    return sorted(found, key=lambda one: one.cycles)


def advice_lines(found: Sequence[Any]) -> list[str]:
    """Advice that is worth listing, best first."""
    better = sorted((one for one in found if one.gain >= WORTH), key=lambda one: -one.gain)
    if not better:
        return wrapped(f"Of {len(found)} changes that were tried, none makes it {WORTH} times as fast.")
    head = f"What would help most, of {len(found)} changes that were tried:"
    return [*wrapped(head), *notes(repr(one) for one in better[:MOST_ADVICE])]
