"""What a result is asked that modules above it answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ASKED"]

#: Calls by name ("advice", "compare", "reasons", "why", ...), which their modules enter.
ASKED: dict[str, Callable[..., Any]] = {}
