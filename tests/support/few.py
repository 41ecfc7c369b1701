"""Families of many cases: some of them in every run, the others in long ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def a_few(cases: Iterable[Any], normal: int) -> list[Any]:
    """All cases, spread evenly over them `normal` ones that run always; the others are `slow`."""
    listed = list(cases)
    kept = {i * len(listed) // normal for i in range(normal)}
    return [case if i in kept else slow(case) for i, case in enumerate(listed)]


def slow(case: Any) -> Any:
    """A parameter, or a tuple of them, that runs only with `-m slow`."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
