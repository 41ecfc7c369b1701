"""Prints tables of results: longest first, with repeated layers folded."""

from __future__ import annotations

from typing import Any

from ..base import figures, screen
from ..base.columns import ROWS, bar, bound, cut, folded, layout, name, number, percent, text
from ..base.folding import fold
from ..base.screen import Lines
from ..base.table import keyed

__all__ = ["operation_lines", "printed_operations", "printed_roofline", "printed_tensors", "verified_lines"]


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.2f}"


def _with_fused(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Appends the other operations of its kernel to each operation's name: "fc + act"."""
    return [
        {**{key: value for key, value in row.items() if key != "fused"}, "operation": row["operation"] + row["fused"]}
        for row in rows
    ]


def operation_lines(
    rows: list[dict[str, Any]], everything: bool = False, room: int | None = None, how: str = "--all shows every one"
) -> Lines:
    """Lists operations, longest first; repeated layers are folded."""
    rows = _with_fused(rows)
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
    rest = cut(rows, everything, lambda left: f"{percent(sum(row['share'] for row in left))}% of the time", how=how)
    return [*layout(columns, cells, room), *rest] if rows else []


def verified_lines(
    rows: list[dict[str, Any]], everything: bool = False, room: int | None = None, how: str = "--all shows every one"
) -> Lines:
    """Lists the tensors of a verification: errors first, the rest by closeness to their bound."""
    rows = sorted(rows, key=lambda row: (row["ok"], -max(row["ratio"], row.get("integer_ratio", 0))))
    if not everything:  # shows the worst row of repeated layers
        groups = fold(rows, lambda row: row["operation"], lambda row: row["ok"])
        rows = [
            {**members[0], "operation": f"{shape} ×{len(members)}", "folded": len(members)}
            if members[1:]
            else members[0]
            for (shape, _), members in groups.items()
        ]
    columns = [name("operation"), name("tensor", 2), number("elements", 5), number("error"), number("bound", 1)]
    columns += [number("error / bound"), number("integer ratio", 3), name("right", least=5), text("rounds", 4, 12)]
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
    rest = cut(rows[len(cells) - ROWS :], False, what="tensors", how=how)
    return [*(layout(columns, cells, room) if cells else []), *rest]


def _folded_keys(
    rows: list[dict[str, Any]], sums: tuple[str, ...], means: tuple[str, ...], weight: str, shares: tuple[str, ...] = ()
) -> Lines:
    """Prints a table whose columns are the rows' keys; repeated layers are folded."""
    whole = folded(rows, sums, alike=("bound",), means=means, weight=weight)
    plain = [{key: row[key] for key in rows[0]} for row in whole[:ROWS]]
    room = screen.page()
    return [
        *keyed(plain, dict.fromkeys(shares, figures.percent), room),
        *cut(whole, False, how="`.rows` has all"),
    ]


def printed_operations(rows: list[dict[str, Any]]) -> Lines:
    """Prints rows of `Result.table`."""
    sums = ("cycles", "share", "count", "bytes", "multiply_adds")
    return _folded_keys(_with_fused(rows), sums, ("busy",), "cycles", ("share", "busy"))


def printed_roofline(rows: list[dict[str, Any]]) -> Lines:
    """Prints rows of `Roofline.table`."""
    return _folded_keys(rows, ("least_ms", "flops", "bytes"), ("intensity", "ceiling_tflops"), "bytes")


def printed_tensors(rows: list[dict[str, Any]]) -> Lines:
    """Prints rows of a verification."""
    return keyed(rows, room=screen.page())
