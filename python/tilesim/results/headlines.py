"""Headlines of a comparison: names of results, tolerances, main differences."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator
from typing import Any

from ..base import figures
from ..base.checked import is_number
from ..base.errors import shown, user_error

__all__ = ["headline", "letters", "tolerance_of"]

TOLERANCES = "a share such as 2% or 0.02; values from 1 on need the % sign"
_HEADLINE = 3  # most operations that a headline names
_NAMED = 0.1  # a headline names operations with at least this share of the difference


def letters() -> Iterator[str]:
    """Yields a, b, ..., z, aa, ab, ..."""
    for length in range(1, 8):
        yield from _letter_labels(length)


def _letter_labels(length: int) -> Iterator[str]:
    if length == 0:
        yield ""
        return
    yield from (word + letter for word in _letter_labels(length - 1) for letter in string.ascii_lowercase)


def tolerance_of(text: Any) -> float:
    """Parses a relative tolerance, such as 0.02 or "2%"."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(%?)\s*", text) if isinstance(text, str) else None
    plain = float(found[1]) if found else float(text) if is_number(text) else math.nan
    percent = bool(found and found[2])
    if not math.isfinite(plain) or plain < 0 or (plain >= 1 and not percent):
        meant = f"{plain:g}%" if math.isfinite(plain) and plain >= 1 else ""
        raise user_error("not a tolerance", place="tolerance", value=shown(text), allowed=TOLERANCES,
                         suggestion=meant)  # fmt: skip
    return plain / 100 if percent else plain


def headline(comparison: Any, index: int) -> str:
    """Describes the main differences of one result from the first."""
    before, after = comparison.total(0), comparison.total(index)
    whole, unit = after - before, comparison.unit
    pair = f"{comparison.called(index)} against {comparison.called(0)}"
    rows = comparison.folded()
    key = comparison.column("difference", comparison.letters[index])
    changed = [row for row in rows if row[key]]
    if not whole:
        if not changed:
            return f"{pair}: no difference"
        most = f"{figures.amount_of(abs(changed[0][key]), unit)} in {_title(changed[0])}"
        return f"{pair}: the same total time; the largest difference of a part is {most}"
    word = "faster" if whole < 0 else "slower"
    times = max(before, after) / min(before, after) if min(before, after) > 0 else math.inf
    speed = f"{figures.ratio(times)} {word}" if round(times, 2) >= 1.01 and math.isfinite(times) else word
    named: list[dict[str, Any]] = []
    for row in sorted(changed, key=lambda row: row[key] / whole, reverse=True)[:_HEADLINE]:
        if row[key] / whole <= 0 or sum(one[key] for one in named) / whole >= 0.5:
            break
        named.append(row)
    there = sum(row[key] for row in named)
    where = ", ".join(_title(row) for row in named)
    alone = math.isclose(there, whole, rel_tol=1e-9)
    if there / whole > 1 and not alone:
        amount, most, back = (figures.amount_of(abs(one), unit) for one in (whole, there, there - whole))
        return f"{pair}: {speed} by {amount}: {most} in {where}, less {back} in others"
    if there / whole < _NAMED:
        amount, most = figures.amount_of(abs(whole), unit), figures.amount_of(abs(named[0][key]), unit)
        spread = f"spread over {len(changed):,} {comparison.noun}s, at most {most} in {_title(named[0])}"
        return f"{pair}: {speed}; {amount} {spread}"
    if alone:
        return f"{pair}: {speed}; all {figures.amount_of(abs(whole), unit)} in {where}"
    return f"{pair}: {speed}; {figures.part_of(abs(there), abs(whole), unit)} in {where}"


def _title(row: dict[str, Any]) -> str:
    name = figures.short(str(row["operation"]), 60)
    return f"{name} ({row['layers']} layers)" if row.get("layers", 1) > 1 else name
