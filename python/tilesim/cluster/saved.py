"""Reads files of `StepResult.save`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from ..base.checked import is_number
from ..base.errors import path_text, shown, user_error
from ..base.files import read_json
from ..base.table import Table
from ..models.layered import Layered
from .plan import Plan
from .programs.result import ProgramResult
from .result import SCHEMA, VERSION, StepResult

__all__ = ["load"]


@dataclass(frozen=True)
class Workload:
    """The program of a saved step: name and number of devices (0: unknown)."""

    name: str
    devices: int = 0


def _rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _amounts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _texts(value: Any) -> bool:
    return all(isinstance(one, str) for one in value)


#: type of a field -> the test of a value, and the allowed values
_TESTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "a string"),
    "float": (lambda value: is_number(value) and math.isfinite(value) and value >= 0, "a number from 0 on"),
    "int": (lambda value: type(value) is int and value >= 0, "a whole number from 0 on"),
    "dict[str, float]": (_amounts, "numbers by name"),
    "dict[str, int]": (_amounts, "numbers by name"),
    "dict[str, str]": (lambda value: isinstance(value, dict) and _texts(value.values()), "strings by name"),
    "list[str]": (lambda value: isinstance(value, list) and _texts(value), "a list of strings"),
    "list[dict[str, Any]]": (_rows, "a list of rows"),
    "Table": (_rows, "a list of rows"),
}  # fmt: skip


def load(path: str | os.PathLike[str] | Mapping[str, Any]) -> StepResult:
    """Loads a step; a `UserError` names a figure that is missing, of a wrong type, or inconsistent."""
    data, place = read_json(path, SCHEMA), "step" if isinstance(path, Mapping) else path_text(path)

    def taken(key: str, good: Callable[[Any], bool], allowed: str) -> Any:
        if key not in data:
            raise user_error("missing key of a saved step", place=place, value=key, allowed=allowed)
        if not good(data[key]):
            raise user_error("invalid value in a saved step", place=f"{place}: {key}", value=shown(data[key]),
                             allowed=allowed)  # fmt: skip
        return data[key]

    taken("version", lambda value: value == VERSION, f"version {VERSION}")
    taken("devices", lambda value: type(value) is int and value > 0, "a whole number from 1 on")
    work = taken("workload", lambda value: isinstance(value, dict) and isinstance(value.get("name"), str),
                 "an object with a name")  # fmt: skip
    layered, plan = "schema" in work, data.get("plan")
    kind = StepResult if layered else ProgramResult
    values: dict[str, Any] = {
        "workload": Layered.from_dict(work, f"{place}: workload")
        if layered
        else Workload(work["name"], work.get("devices", 0)),
        "plan": None if plan is None else Plan.from_dict(plan, f"{place}: plan"),
    }  # fmt: skip
    for field in fields(kind):
        if str(field.type) in _TESTS:
            value = taken(field.name, *_TESTS[str(field.type)])
            values[field.name] = Table(value) if field.type == "Table" else value
    try:
        step = kind(**values)
        own = step.to_dict()
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise user_error("rows of a saved step are damaged", place=place, value=shown(str(error))) from None
    for key in own.keys() - {"schema", "workload", "plan"}:
        same = partial(_equal, own[key])
        taken(key, same, f"{shown(own[key])}, by the other figures")
    return step
