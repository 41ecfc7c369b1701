"""Calls of a result that compile or simulate; later packages register them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.late_calls import LateCalls

__all__ = ["ASKED"]

#: names of calls: "advice", "compare", "reasons", "why", ...
ASKED: dict[str, Callable[..., Any]] = LateCalls()
