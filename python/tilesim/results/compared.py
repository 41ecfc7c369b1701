"""Compares results (`ts.compare`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ..base.checked import checked, step
from ..base.errors import shown, user_error
from .comparison import Comparison
from .headlines import letters
from .result import Result
from .side_by_side import Comparable

__all__ = ["compare"]


@overload
def compare(a: Result, b: Result | None = None, *more: Result, names: Sequence[str] | None = None) -> Comparison: ...


@overload
def compare(a: Comparable, b: Any = None, *more: Any, names: Sequence[str] | None = None) -> Any: ...


@checked()
def compare(a: Any, b: Any = None, *more: Any, names: Sequence[str] | None = None) -> Comparison | Any:
    """Compares results of different machines, mappings, versions or dtypes, or cluster steps with one another.

    Args:
        a: the baseline.
        b: the second result.
        more: further results.
        names: names of the results, in order; default: texts of their differences.

    Returns:
        The comparison: `print` shows it; `.table()` has totals, `.operations()` (for steps `.breakdown()`) the time of
        each part, `.headline()` the main difference, `.to_html(path)` a page, `.check(tolerance)` the changes beyond a
        tolerance.

    Raises:
        UserError: for fewer than two results, or results of different types.
    """
    if b is None:
        raise user_error("compare needs at least two results", suggestion="Try ts.compare(a, b, ...)")
    if isinstance(a, Comparable):
        return a.beside([b, *more], names)
    for letter, one in zip(letters(), (a, b, *more), strict=False):
        if not isinstance(one, Result):
            raise user_error(
                "not a result",
                place=f"compare: {letter}",
                value=shown(one),
                allowed="a ts.Result, as ts.simulate and ts.run return",
                suggestion=step(one, "Result"),
            )
    return Comparison(a, b, *more, names=names)
