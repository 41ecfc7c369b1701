"""Steps that were saved: read again, to stand beside others."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..base.checked import is_number
from ..base.errors import path_text, shown, user_error
from ..base.files import read_json, writing
from ..base.table import Table
from ..models.layered import Layered
from .plan import Plan
from .views.breakdown import Breakdown
from .views.comparison import ComparableStep
from .views.parts import parts_table
from .views.text import headline

__all__ = ["SCHEMA", "SavedStep"]

SCHEMA, VERSION = "tilesim.cluster_result", 1
_WORDS = ("cluster", "device", "framework", "predictor", "network", "overlap")
_SECONDS = ("seconds", "exposed_seconds", "bubble_seconds", "mfu", "peak_bytes", "memory_bytes")


def _rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _amounts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))


def _count(value: Any) -> bool:
    return is_number(value) and value >= 0


#: what a file may have besides: how a good value looks, in words, and what it becomes
_MORE: dict[str, tuple[Callable[[Any], bool], str, Callable[[Any], Any]]] = {
    **{name: (_amounts, "numbers by name", dict) for name in ("parts", "memory", "stage")},
    **{name: (_rows, "a list of rows", list) for name in ("classes", "communication")},
    **{name: (_rows, "a list of rows", Table) for name in ("segments", "exchanges")},
    **{
        name: (_count, "a number from 0 on", lambda value: value)
        for name in ("segments_distinct", "segments_count", "kernels", "kernel_bytes", "cluster_devices")
    },
    "fits": (lambda value: isinstance(value, bool), "true, false", bool),
}
#: what every saved step has besides
_SAID: dict[str, tuple[Callable[[Any], bool], str]] = {
    "provenance": (lambda value: isinstance(value, dict) and all(isinstance(one, str) for one in value.values()),
                   "texts by name"),
    "notes": (lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
              "a list of texts"),
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """What a saved step of a program is of: its name, and how many devices it is for (0: nobody says)."""

    name: str
    devices: int = 0


@dataclass(frozen=True)
class SavedStep(ComparableStep):
    """A step that `StepResult.save` wrote: its figures, by the names of `StepResult`; nothing can be run again.

    `parts`, `memory`, `classes`, `stage`, `communication`, `fits`, and of programs `segments`, `exchanges`, `kernels`
    and others are there as far as the file has them; what it lacks is an `AttributeError` that says what there is.
    """

    workload: Layered | Workload
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
    figures: dict[str, Any] = field(default_factory=dict, repr=False)
    saved: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # of the file

    def __getattr__(self, name: str) -> Any:
        known = self.__dict__.get("figures", {})  # empty while it is copied
        if name in known:
            return known[name]
        if name.startswith("_"):
            raise AttributeError(name)
        there = sorted([*(one for one in self.__dataclass_fields__ if one not in ("figures", "saved")), *known])
        raise AttributeError(f"a saved step has no '{name}': nothing is run again, and the file has "
                             f"{', '.join(there)}, table(), plot(), json(), save()")  # fmt: skip

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {headline(self)}>"

    def table(self) -> Table:
        """Parts of the step, the largest first.

        Returns:
            Rows: part, seconds, share, what.
        """
        return parts_table(self)

    def plot(self, axes: Any = None) -> Any:
        """The breakdown as a bar.

        Args:
            axes: matplotlib axes; none: new ones.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib.
        """
        return self.breakdown.plot(axes)

    def json(self) -> dict[str, Any]:
        """The JSON value that was saved.

        Returns:
            The value.
        """
        value: dict[str, Any] = copy.deepcopy(self.saved)
        return value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it again.

        Args:
            path: of the file, JSON.

        Raises:
            UserError: where it cannot be written.
        """
        with writing(path) as file:
            json.dump(self.saved, file, indent=1)
            file.write("\n")

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
    more = {key: become(taken(key, good, allowed)) for key, (good, allowed, become) in _MORE.items() if key in data}
    said = {key: taken(key, *_SAID[key]) for key in _SAID if key in data}
    return SavedStep(
        _workload(workload, place), None if plan is None else Plan.from_json(plan, f"{place}: plan"), devices=devices,
        breakdown=Breakdown(rows, workload["name"]), figures=more, saved=data, **said, **words, **amounts,
    )  # fmt: skip


def _workload(value: dict[str, Any], place: str) -> Layered | Workload:
    """Of a plan the layered workload that it divides, of a program its name."""
    if "schema" in value:
        return Layered.from_json(value, f"{place}: workload")
    devices = value.get("devices", 0)
    return Workload(value["name"], devices if isinstance(devices, int) else 0)


def _is_row(row: Any) -> bool:
    words = ("part", "dimension", "what")
    return (isinstance(row, dict) and all(isinstance(row.get(key), str) for key in words)
            and all(is_number(row.get(key)) for key in ("seconds", "share")))  # fmt: skip
