"""Steps that were saved: read again, to stand beside others."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

from ..base.checked import is_number
from ..base.errors import path_text, shown, user_error
from ..base.files import read_json
from .plan import Plan
from .views.breakdown import Breakdown
from .views.comparison import ComparableStep

__all__ = ["SCHEMA", "SavedStep"]

SCHEMA, VERSION = "tilesim.cluster_result", 1
_WORDS = ("cluster", "device", "framework", "predictor", "network", "overlap")
_SECONDS = ("seconds", "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes", "memory_bytes")


@dataclass(frozen=True)
class Workload:
    """What a saved step is of: its name."""

    name: str


@dataclass(frozen=True)
class SavedStep(ComparableStep):
    """A step that `StepResult.save` wrote: its figures, by the names of `StepResult`; nothing can be run again."""

    workload: Workload
    plan: Plan | None
    cluster: str
    device: str
    devices: int
    framework: str
    predictor: str
    network: str
    overlap: str
    seconds: float
    exposed_seconds: float
    bubble_seconds: float
    mfu: float
    peak_bytes: int
    memory_bytes: float
    breakdown: Breakdown
    provenance: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> SavedStep:
        """Reads a saved step.

        Args:
            path: of the file that `StepResult.save` or `tilesim cluster step --json` wrote.

        Returns:
            The step.

        Raises:
            UserError: for a file that cannot be read, is of another kind or version, or lacks or mistypes a figure.
        """
        return _step(read_json(path, SCHEMA), path_text(path))


def _taken(data: dict[str, Any], key: str, place: str, good: Any, allowed: str) -> Any:
    """A value of a file, if it is as it has to be."""
    if key not in data:
        raise user_error("a saved step lacks a key", place=place, value=key, allowed=allowed)
    if not good(data[key]):
        raise user_error("a saved step has a value that cannot be", place=f"{place}: {key}", value=shown(data[key]),
                         allowed=allowed)  # fmt: skip
    return data[key]


def _amount(value: Any) -> bool:
    return is_number(value) and math.isfinite(value) and value >= 0


def _step(data: dict[str, Any], place: str) -> SavedStep:
    def taken(key: str, good: Any, allowed: str) -> Any:
        return _taken(data, key, place, good, allowed)

    taken("version", lambda value: value == VERSION, f"version {VERSION}")
    workload = taken("workload", lambda value: isinstance(value, dict) and isinstance(value.get("name"), str),
                     "an object with a name")  # fmt: skip
    words = {key: taken(key, lambda value: isinstance(value, str), "a text") for key in _WORDS}
    amounts = {key: taken(key, _amount, "a number from 0 on") for key in _SECONDS}
    devices = taken("devices", lambda value: isinstance(value, int) and value > 0, "a whole number from 1 on")
    rows = taken("breakdown", lambda value: isinstance(value, list) and all(map(_is_row, value)),
                 "rows of part, dimension, seconds, share, what")  # fmt: skip
    whole = sum(row["seconds"] for row in rows)
    if not math.isclose(whole, amounts["seconds"], rel_tol=1e-6, abs_tol=1e-15):
        raise user_error("parts of a saved step do not sum to it", place=f"{place}: breakdown",
                         value=f"{whole:g} s", allowed=f"{amounts['seconds']:g} s")  # fmt: skip
    plan = data.get("plan")
    return SavedStep(
        Workload(workload["name"]), None if plan is None else Plan.from_json(plan, f"{place}: plan"), devices=devices,
        breakdown=Breakdown(rows, workload["name"]), provenance=dict(data.get("provenance", {})),
        notes=[str(one) for one in data.get("notes", [])], **words, **amounts,
    )  # fmt: skip


def _is_row(row: Any) -> bool:
    words = ("part", "dimension", "what")
    return (isinstance(row, dict) and all(isinstance(row.get(key), str) for key in words)
            and all(is_number(row.get(key)) for key in ("seconds", "share")))  # fmt: skip
