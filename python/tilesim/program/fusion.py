"""Lists the groups of operations that fusion rules accept or reject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from .. import _core
from ..base.errors import nearest, shown, user_error
from ..base.table import Tabled
from ..results.result import Table

__all__ = ["Fusion", "FusionRules", "checked_rows", "fusion_rules", "rules_text"]

DECISIONS = ("taken", "not worth it", "not legal")
TEXTS, NUMBERS = ("candidate", "rule", "decision", "reason"), ("bytes_saved", "cycles_saved", "recomputed_flops")


class FusionRules(list[str], Tabled):
    """Names of rules for `compile(fuse=[...])`."""

    def table(self) -> Table:
        """Describes each rule.

        Returns:
            Rows with rule, matches (operations), legal (conditions), saves (relative to separate operations) and
            rounding (effect on numeric results).
        """
        return Table([row for row in _core.fusion_rules() if row["rule"] in self])


@cache
def _rule_names() -> tuple[str, ...]:
    return tuple(row["rule"] for row in _core.fusion_rules())


def fusion_rules() -> FusionRules:
    """Lists the rules that fuse operations into one kernel.

    Returns:
        The names in the order in which rules are tried; `.table()` describes each rule.
    """
    return FusionRules(_rule_names())


def rules_text(fuse: str | Sequence[str]) -> str:
    """Writes enabled rules in the core's form."""
    names = [name.strip() for name in fuse.split(",")] if isinstance(fuse, str) else list(fuse)
    if names in (["all"], ["none"]):
        return str(names[0])
    known = [*(("all", "none") if len(names) == 1 else ()), *_rule_names()]
    for name in names:
        if not isinstance(name, str) or name not in _rule_names():
            hint = nearest(name, known) if isinstance(name, str) else ""
            allowed = "all, none, or rules: " + ", ".join(_rule_names())
            raise user_error(
                "unknown rule of fusion", place="fuse", value=shown(name), allowed=allowed, suggestion=hint
            )
    return ",".join(dict.fromkeys(names)) or "none"


def checked_rows(rows: Any, place: str) -> list[dict[str, Any]]:
    """Checks rows from a file."""
    if not isinstance(rows, list):
        raise user_error("the table of groups is damaged", place=place, value=shown(rows), allowed="a list of rows")
    for row in rows:
        good = isinstance(row, dict) and set(row) == {*TEXTS, *NUMBERS, "operations"}
        good = good and all(isinstance(row[key], str) for key in TEXTS) and row["decision"] in DECISIONS
        good = good and all(type(row[key]) in (int, float) for key in NUMBERS)
        good = good and isinstance(row["operations"], list) and all(isinstance(name, str) for name in row["operations"])
        if not good:
            raise user_error("the table of groups is damaged", place=place, value=shown(row)[:200])
    return rows


class Fusion:
    """The candidate groups of the rules in a compilation."""

    def __init__(self, rows: Iterable[dict[str, Any]] | None) -> None:
        """Stores the core's rows."""
        self._rows = None if rows is None else list(rows)

    @property
    def known(self) -> bool:
        """Whether the table is known; false for a manual tile program or one from .json."""
        return self._rows is not None

    def table(self) -> Table:
        """Lists all candidate groups.

        Bytes count full tensors without padding, each read or written once per kernel; cycles are those of the
        longest of memory at its peak, arrays and vector units, plus a launch per kernel: of the separate operations,
        minus those of the group. A rejected group shows the saving by one more operation.
        """
        if self._rows is None:
            raise user_error(
                "the candidate groups of a tile program without its graph are unknown",
                suggestion="Save it as .tsim, which holds the table, or compile the graph",
            )
        return Table(self._rows)

    def __repr__(self) -> str:
        """Number of accepted groups."""
        if self._rows is None:
            return "<Fusion unknown>"
        taken = sum(row["decision"] == "taken" for row in self._rows)
        return f"<Fusion {taken} groups of {len(self._rows)} candidates>"
