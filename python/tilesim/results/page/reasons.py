"""Explains an operation's time when the reader clicks on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import _core
from ...base.palette import OTHER_COLOUR, SERIES
from ...base.view import Notes, Reason, Reasons
from ..result_calls import ASKED

__all__ = ["reasons_of"]

_MISSING = "The page has terms only for the longest operations."


def reasons_of(result: Any, recorded: Any, order: Sequence[int]) -> list[Any]:
    """Returns the page elements that explain operations."""
    if not order:
        return []
    try:  # a file's configuration may come from another version
        found: Mapping[str, Any] = ASKED["reasons"](result, recorded)
    except (_core.Error, AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return [Notes(["Operations are not explained because this version cannot read the configuration."])]
    sums: dict[int, float] = {}
    for place, row in enumerate(found["rows"]):
        for term, share in row["shares"] if row else ():
            sums[term] = sums.get(term, 0.0) + share * (result.data["operations"][place]["exclusive"] or 1e-9)
    ranked = sorted(sums, key=lambda term: (found["terms"][term][0] != "lower bound", -sums[term]))
    colours = {term: SERIES[i] if i < len(SERIES) - 1 else OTHER_COLOUR for i, term in enumerate(ranked)}
    terms = [(name, meaning, colours.get(i, OTHER_COLOUR)) for i, (name, meaning) in enumerate(found["terms"])]
    made = {id(row): Reason(**row) for row in found["rows"] if row is not None}
    rows = [made[id(row)] if (row := found["rows"][place]) is not None else None for place in order]
    columns = ("cycles", "elapsed", "multiply_adds", "flops")
    return [Reasons("operations", terms, rows, columns, found["rates"], found["remedy"], _MISSING)]
