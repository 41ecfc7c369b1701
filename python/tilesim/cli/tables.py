"""Tables of the command line: `base.columns`, with bars on terminals that can print them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..base import columns as base
from ..base.columns import BAR, ROWS, Column, bar, bound, cut, folded, name, number, percent, text
from . import screen
from .screen import Lines

__all__ = ["BAR", "ROWS", "Column", "bar", "bound", "cut", "folded", "layout", "name", "number", "percent", "text"]


def _bars() -> bool:
    return screen.is_terminal() and "utf" in (getattr(sys.stdout, "encoding", "") or "").lower()


def layout(columns: Sequence[Column], rows: Sequence[Sequence[Any]], room: int | None = None) -> Lines:
    """Lines of aligned columns."""
    return base.layout(columns, rows, room, _bars())
