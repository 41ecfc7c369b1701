"""How results look on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..analytic.estimate import Estimate
from ..base.folding import fold
from ..results.advice import Advice
from ..results.result import Result
from ..timing.execution import Verification
from . import progress
from .screen import Line, Lines, notes, say, wrapped
from .tables import ROWS, bar, bound, cut, folded, layout, name, number, percent, text

__all__ = ["ROWS", "WORTH", "advise", "show", "step", "verified"]

WORTH = 1.01
"""The least gain of advice that is listed."""

MOST_ADVICE = 3

step = progress.phase


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.2f}"


def operations(result: Result, everything: bool = False) -> Lines:
    """Operations, longest first; repeated layers as one row.

    Args:
        result: of a simulation or an estimate.
        everything: every operation by itself.

    Returns:
        The lines.
    """
    rows = result.table().rows
    if not everything:
        rows = folded(rows, ("cycles", "share", "count", "bytes"), alike=("bound",), means=("busy",), weight="cycles")
    columns = [name("operation"), number("runs", 2), number("cycles"), number("share, %"), bar()]
    columns += [bound(drop=1), number("busy, %", 4), number("MB", 3)]
    cells = [
        [
            row["operation"],
            f"{row['count']:,}",
            f"{row['cycles']:,}",
            percent(row["share"]),
            row["share"],
            row["bound"],
            f"{100 * row['busy']:.0f}",
            _megabytes(row["bytes"]),
        ]
        for row in rows[: None if everything else ROWS]
    ]
    rest = cut(rows, everything, lambda left: f"{percent(sum(row['share'] for row in left))}% of the time")
    return [*layout(columns, cells), *rest] if rows else []


def busy_line(result: Result) -> str:
    """How busy the parts are, and the rate of products.

    Args:
        result: of a simulation.

    Returns:
        One line; empty for a result without units.
    """
    parts = [f"{part} {share:.0%}" for part, share in result.utilisation.items()]
    macs = result.data["multiply_adds"]
    if macs and result.seconds:
        parts.append(f"products at {2 * macs / result.seconds / 1e12:.3g} TFLOP/s")
    return "Busy: " + ", ".join(parts) if result.utilisation else ""


def _cache(result: Result, everything: bool) -> Lines:
    """What the cache did, in all and for the tensors that are moved most."""
    cache, rows = result.cache, result.cache_table().rows
    if cache is None:
        return []
    looked = max(1, cache["hits"] + cache["misses"])
    lines: list[Line | str] = [
        *wrapped(
            f"Cache: {cache['hits']:,} hits, {cache['misses']:,} misses ({cache['hits'] / looked:.1%} hits), "
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
    """Whether the tiled program is right: what is wrong first, then what comes nearest to its bound.

    Args:
        outcome: of a verification.
        everything: every tensor, in place of those.

    Returns:
        The lines.
    """
    rows = sorted(outcome.rows, key=lambda row: (row["ok"], -max(row["ratio"], row.get("integer_ratio", 0))))
    if not everything:  # of repeated layers the worst
        groups = fold(rows, lambda row: row["operation"], lambda row: row["ok"])
        rows = [
            {**members[0], "operation": f"{shape} ×{len(members)}", "folded": len(members)}
            if members[1:]
            else members[0]
            for (shape, _), members in groups.items()
        ]
    columns = [name("operation"), name("tensor", 2), number("elements", 5), number("error"), number("bound", 1)]
    columns += [number("error / bound"), number("on whole numbers", 3), name("right", least=5), text("rounds", 4, 12)]
    cells = [
        [
            row["operation"],
            row["tensor"],
            f"{row['elements']:,}",
            *(f"{row[key]:.3g}" for key in ("error", "bound", "ratio")),
            f"{row['integer_ratio']:.3g}" if "integer_ratio" in row else "–",
            "yes" if row["ok"] else "NO",
            str(row.get("rounds") or ""),
        ]
        for row in rows[: None if everything else max(ROWS, sum(not row["ok"] for row in rows))]
    ]
    head = "equal within the bound" if outcome.ok else "NOT equal"
    return [
        head,
        *(layout(columns, cells) if cells else []),
        *cut(rows[len(cells) - ROWS :], False, what="tensors"),
        "",
    ]


def show(result: Result, everything: bool = False) -> None:
    """Prints a result: headline, how busy the parts are, the longest operations, what was modelled how.

    Args:
        result: of a simulation or an estimate.
        everything: every operation, in place of the longest.
    """
    lines: list[Line | str] = [*wrapped(result.summary(), hang="  "), *wrapped(busy_line(result), hang="  "), ""]
    lines += [*operations(result, everything), "", *_cache(result, everything)]
    lines += ["How it was modelled:", *notes(result.approximations)]
    say(line for i, line in enumerate(lines) if line or lines[i - 1])


def _proposals(result: Result) -> Iterator[Advice]:
    """What would help; one after the other as it is simulated, where the result tells it so."""
    one_by_one = None if isinstance(result, Estimate) else getattr(result, "advice", None)
    yield from one_by_one() if one_by_one else result.explain()


def advise(result: Result) -> list[Advice]:
    """Tries what would help, then prints the best; on a terminal the best so far while it tries.

    Args:
        result: of a simulation or an estimate.

    Returns:
        All that was tried, the fastest first.
    """
    found: list[Advice] = []
    with step("what would help: trying changes") as trying:
        for one in _proposals(result):
            found.append(one)
            best = max(found, key=lambda advice: advice.gain)
            trying.at(len(found), part=f"best so far {best!r}" if best.gain >= WORTH else "")
    say(["", *advice_lines(found)])
    return sorted(found, key=lambda one: one.cycles)


def advice_lines(found: Sequence[Any]) -> list[str]:
    """Advice that is worth listing, best first.

    Args:
        found: all that was tried.

    Returns:
        The lines; one that says so where nothing helps.
    """
    better = sorted((one for one in found if one.gain >= WORTH), key=lambda one: -one.gain)
    if not better:
        return wrapped(f"Of {len(found)} changes that were tried, none makes it {WORTH} times as fast.")
    head = f"What would help most, of {len(found)} changes that were tried:"
    return [*wrapped(head), *notes(repr(one) for one in better[:MOST_ADVICE])]
