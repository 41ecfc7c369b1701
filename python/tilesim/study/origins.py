"""Finds a result's kernels by an operation's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..base.errors import nearest, shown, user_error
from ..results.names import Names, names_of_operations, source_of

__all__ = ["NamedKernels", "chosen"]

MOST = 5000
"""Names to compare with a mistyped one."""


_FOLDED = re.compile(r"( ×[\d,]+| \([\d,]+( ×)?\))$")
"""Suffix of folded layers in tables."""
_NUMBERED = re.compile(r"(.+)\[([0-9]{1,9})\]")


@dataclass
class NamedKernels:
    """Kernels of a name, with a note if the name is not exactly a kernel's name."""

    rows: list[dict[str, Any]]
    note: str = ""


def _matching(names: Names, asked: str) -> list[dict[str, Any]]:
    """Returns the kernels that match a pattern: "*" matches text without "." and "/"; "…" matches anything."""
    if "*" not in asked.removesuffix(".*") and "…" not in asked:
        return []
    found: list[dict[str, Any]] = []
    for part in ("[0-9]+", "[^./]*"):
        form = re.compile(re.escape(asked).replace(r"\*", part).replace("…", ".*"))
        for row, own in zip(names.rows, names.unique, strict=True):
            if form.fullmatch(own) or form.fullmatch(row["name"]):
                found.append(row)
        if found:
            break
    return found


def _layer_kernels(data: Mapping[str, Any], names: Names, sources: set[str], asked: str) -> NamedKernels | None:
    """Returns the kernels of one layer's operation if a function runs all layers; else None."""
    parts = asked.split(".")
    for cut in range(1, len(parts)):
        layer, rest = ".".join(parts[:cut]) + ".", ".".join(parts[cut:])
        if not any(one.startswith(layer) for one in sources):
            break
        if any(row["name"] == rest or rest in row["operation"] for row in names.rows):
            found = chosen(data, rest)
            runs = max(row["count"] for row in found.rows)
            note = f"the program has '{rest}' once for {runs:,} layers; the answer covers all of them"
            return NamedKernels(found.rows, note)
    return None


def _numbered(data: Mapping[str, Any], names: Names, asked: str) -> NamedKernels | None:
    """Finds one kernel among those of a name, by its number in brackets, from 1."""
    found = _NUMBERED.fullmatch(asked)
    if not found:
        return None
    name, number = found[1], int(found[2])
    try:
        rows = names.kernels_named(name) or chosen(data, name).rows
    except _core.UserError:
        return None
    if not 1 <= number <= len(rows):
        what = "the operation has fewer kernels" if number else "kernels are counted from 1"
        raise user_error(
            what, place="why", value=shown(asked), allowed=f"1 to {len(rows)}", suggestion=f"{name}[{len(rows)}]"
        )
    if len(rows) == 1:
        return NamedKernels(rows)
    row = rows[number - 1]
    note = f"it is kernel {number} of {len(rows)} of '{name}'"
    if (same := sum(one["name"] == row["name"] for one in names.rows)) > 1:
        note += f"; {same} kernels share this name, with common counters and intervals; the cycles are exact"
        note += ", the shares those of all"
    return NamedKernels([row], note)


def chosen(data: Mapping[str, Any], name: str) -> NamedKernels:
    """Finds the kernels that a name denotes."""
    asked, names = name.strip(), Names(data)
    found = _named_kernels(data, names, asked)
    if found is None and (plain := _FOLDED.sub("", asked)) != asked:
        found = _named_kernels(data, names, plain)
    if found is not None:
        return found
    sources = {row["operation"] for row in (data.get("bounds") or {}).get("operations", ())}
    candidates = dict.fromkeys([*names.unique, *(one for row in names.rows for one in row["operation"])])
    allowed = ", ".join(list(candidates)[:12]) + (", ..." if len(candidates) > 12 else "")
    raise user_error(
        "unknown operation",
        place="why",
        value=shown(name),
        allowed=allowed or "the result has no operations",
        suggestion=next((one for one in candidates if one.lower() == asked.lower()), "")
        or nearest(asked, _close(asked, [*candidates, *sources])),
    )


def _named_kernels(data: Mapping[str, Any], names: Names, asked: str) -> NamedKernels | None:
    """Finds the kernels of a name, or returns None."""
    rows = names.rows
    of_kernel = names.kernels_named(asked)
    if len(of_kernel) == 1 and asked.endswith("]") and of_kernel[0]["name"] != asked:
        return _numbered(data, names, asked)
    if of_kernel:
        return NamedKernels(of_kernel, "" if len(of_kernel) == 1 else f"it has {len(of_kernel)} kernels")
    known = names_of_operations(data)
    inside = [row for row in rows if any(one == asked or source_of(one, known) == asked for one in row["operation"])]
    if inside:
        kernels = ", ".join(row["name"] for row in inside[:3]) + (", ..." if len(inside) > 3 else "")
        return NamedKernels(
            inside, f"it is part of the kernel{'s' if len(inside) > 1 else ''} {kernels}, which the answer covers"
        )
    if one := _numbered(data, names, asked):
        return one
    if layers := _matching(names, asked):
        return NamedKernels(layers, f"{len(layers)} kernels of repeated layers together" if len(layers) > 1 else "")
    start = asked.rstrip("*.").rstrip("/")
    below = [
        row
        for row in rows
        if any(one.startswith((start + ".", start + "/")) for one in (row["name"], *row["operation"]))
    ]
    if start and below:
        return NamedKernels(below, f"{len(below)} kernels with this prefix together")
    behind = [row for row in rows if row["name"].endswith("." + asked)] if asked else []
    if behind:
        return NamedKernels(behind, f"{len(behind)} kernels with this suffix together")
    sources = {row["operation"] for row in (data.get("bounds") or {}).get("operations", ())}
    return _layer_kernels(data, names, sources, asked)


def _close(asked: str, names: list[str]) -> list[str]:
    """Returns names to suggest; for very many names, only some of similar length."""
    if len(names) <= MOST:
        return names
    return [name for name in names if abs(len(name) - len(asked)) <= 2 and name[-1:] == asked[-1:]][:MOST] or names[
        :MOST
    ]
