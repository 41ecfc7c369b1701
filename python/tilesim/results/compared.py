"""`ts.compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ..base.checked import checked
from ..base.errors import shown, user_error
from .beside import Comparable
from .comparison import Comparison
from .headlines import letters
from .result import Result

__all__ = ["compare"]


@overload
def compare(a: Result, b: Result | None = None, *more: Result, names: Sequence[str] | None = None) -> Comparison: ...


@overload
def compare(a: Comparable, b: Any = None, *more: Any, names: Sequence[str] | None = None) -> Any: ...


@checked()
def compare(a: Any, b: Any = None, *more: Any, names: Sequence[str] | None = None) -> Comparison | Any:
    """Results side by side: of different machines, mappings, versions, dtypes; steps of many devices among themselves.

    Args:
        a: what the others are compared with.
        b: the second.
        more: any number of further ones.
        names: what each is, in their order; none: what tells them apart.

    Returns:
        Their comparison: `print` shows it; `.table()` has totals, `.operations()` (of steps `.breakdown()`) where the
        time goes in each, `.headline()` where the difference lies, `.to_html(path)` a page, `.check(tolerance)` what
        changed by more than a tolerance.

    Raises:
        UserError: for anything but two results or more of one kind.
    """
    if b is None:
        raise user_error("one result has nothing to be compared with", suggestion="ts.compare(a, b, ...)")
    if isinstance(a, Comparable):
        return a.beside([b, *more], names)
    for letter, one in zip(letters(), (a, b, *more), strict=False):
        if not isinstance(one, Result):
            raise user_error("not a result", place=f"compare: {letter}", value=shown(one),
                             allowed="what ts.simulate and ts.run return; steps of many devices apart")  # fmt: skip
    return Comparison(a, b, *more, names=names)
