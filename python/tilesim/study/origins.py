"""Which kernels of a result an operation's name means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import nearest, shown, user_error

__all__ = ["Chosen", "chosen"]

MOST = 5000
"""Names that are compared with a mistyped one."""


@dataclass
class Chosen:
    """Kernels, and how the name led to them (empty: it is a kernel's own)."""

    rows: list[dict[str, Any]]
    note: str = ""


def _tails(names: set[str]) -> set[str]:
    """Names with any number of leading parts left out: operations of a repeated layer have its name before theirs."""
    found = set(names)
    for name in names:
        while "." in name:
            name = name.partition(".")[2]
            found.add(name)
    return found


def _source(name: str, known: set[str]) -> str:
    """The operation of the graph that one of a kernel comes from, by the longest known start of its name."""
    start = name
    while start and start not in known:
        start = start.rpartition(".")[0]
    return start or name


def _matching(rows: list[dict[str, Any]], asked: str) -> list[dict[str, Any]]:
    """Kernels whose names have anything but a "." or "/" where the pattern has "*"."""
    if "*" not in asked.removesuffix(".*"):
        return []
    form = re.compile("[^./]*".join(map(re.escape, asked.split("*"))))
    return [row for row in rows if form.fullmatch(row["name"])]


def _of_layer(data: Mapping[str, Any], rows: list[dict[str, Any]], sources: set[str], asked: str) -> Chosen | None:
    """The kernels of an operation of one layer, where the program has the layer once."""
    if asked not in sources and not any(one.startswith(asked + ".") for one in sources):
        return None
    rest = asked
    while "." in rest:
        rest = rest.partition(".")[2]
        if any(row["name"] == rest or rest in row["operation"] for row in rows):
            found = chosen({**data, "bounds": None}, rest)
            runs = max(row["count"] for row in found.rows)
            note = f"the program has '{rest}' once for {runs:,} layers: the answer is of all of them"
            return Chosen(found.rows, note)
    return None


def chosen(data: Mapping[str, Any], name: str) -> Chosen:
    """Finds kernels.

    Args:
        data: JSON form of a result.
        name: of a kernel; of an operation of the graph, that is one or several kernels or a part of one; with "*" for
            the numbers of repeated layers; or what several names begin with.

    Returns:
        The rows of the result's operations.

    Raises:
        UserError: for a name that nothing has, with the nearest.
    """
    rows: list[dict[str, Any]] = list(data["operations"])
    sources = {row["operation"] for row in (data.get("bounds") or {}).get("operations", ())}
    known = _tails(sources)
    asked = name.strip()
    of_kernel = [
        row for row in rows if row["name"] == asked or (asked in known and _source(row["name"], known) == asked)
    ]
    if of_kernel:
        more = "" if len(of_kernel) == 1 else f"{len(of_kernel)} kernels are made of it"
        return Chosen(of_kernel, more)
    inside = [row for row in rows if any(one == asked or _source(one, known) == asked for one in row["operation"])]
    if inside:
        kernels = ", ".join(row["name"] for row in inside[:3]) + (", ..." if len(inside) > 3 else "")
        return Chosen(
            inside, f"it is a part of the kernel{'s' if len(inside) > 1 else ''} {kernels}: the answer is theirs"
        )
    layers = _matching(rows, asked)
    if layers:
        return Chosen(layers, f"{len(layers)} kernels of repeated layers together")
    start = asked.rstrip("*.").rstrip("/")
    below = [
        row
        for row in rows
        if any(one.startswith((start + ".", start + "/")) for one in (row["name"], *row["operation"]))
    ]
    if start and below:
        return Chosen(below, f"{len(below)} kernels whose names begin so, together")
    behind = [row for row in rows if row["name"].endswith("." + asked)] if asked else []
    if behind:
        return Chosen(behind, f"{len(behind)} kernels whose names end so, together")
    if found := _of_layer(data, rows, sources, asked):
        return found
    candidates = dict.fromkeys([*(row["name"] for row in rows), *(one for row in rows for one in row["operation"])])
    allowed = ", ".join(list(candidates)[:12]) + (", ..." if len(candidates) > 12 else "")
    raise user_error(
        "no operation of the result has this name",
        place="why",
        value=shown(name),
        allowed=allowed or "the result has no operations",
        suggestion=next((one for one in candidates if one.lower() == asked.lower()), "")
        or nearest(asked, _close(asked, [*candidates, *sources])),
    )


def _close(asked: str, names: list[str]) -> list[str]:
    """Names that may be meant: of very many those of about the same length, and few of them."""
    if len(names) <= MOST:
        return names
    return [name for name in names if abs(len(name) - len(asked)) <= 2 and name[-1:] == asked[-1:]][:MOST] or names[
        :MOST
    ]
