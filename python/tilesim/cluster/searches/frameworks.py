"""Selects the framework of each plan in a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fabric import Fabric
from ..frameworks import Framework
from ..plan import SHARDS, Plan
from ..stepping import framework_of
from .candidates import AXES

__all__ = ["Constants", "summary_lines"]

Array = NDArray[np.float64]
_EXAMPLES = (Plan(), Plan(data=2, shard="zero3"))


class Constants:
    """Constants of the frameworks in one search."""

    def __init__(self, fabric: Fabric, phase: str, framework: str | None) -> None:
        """Loads the constants."""
        self.names = [framework or framework_of(fabric.device, example, phase) for example in _EXAMPLES]
        self.first = Framework.load(self.names[0])
        self._each = [Framework.load(name).constants for name in self.names]

    def kinds(self, rows: Array) -> NDArray[np.int64]:
        """Returns, for each row, the index of its framework in `names`."""
        several = self.names[0] != self.names[1]
        zero3 = (rows[:, AXES.index("shard")] == SHARDS.index("zero3")) & several
        return np.asarray(zero3, dtype=np.int64)

    def of(self, rows: Array) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Yields the rows of each framework with its constants."""
        kinds = self.kinds(rows)
        for kind, constants in enumerate(self._each):
            own = np.flatnonzero(kinds == kind)
            if len(own):
                yield own, constants


def summary_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describes the fastest plan of each of several frameworks."""
    best: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        best.setdefault(row["framework"], row)
    if len(best) < 2:
        return []
    lines = [f"fastest under {name}: {row['plan']}: {row['seconds'] * 1e3:,.1f} ms" for name, row in best.items()]
    names = " or ".join(f"framework={name}" for name in best)
    return [*lines, "plans of different frameworks also differ in software: "
            f"use {names} to compare them under one"]  # fmt: skip
