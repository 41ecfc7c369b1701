"""Combines independent, paired and derived settings to the points of a sweep in a fixed order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .. import _core
from ..base import figures
from ..base.checked import is_number, is_text
from ..base.errors import nearest, shown, user_error
from ..machine.machine import SHORT, Machine

__all__ = ["MOST_POINTS", "Axes", "Axis", "axes_of", "better", "readable", "unit_of"]

MOST_POINTS = 1 << 22  # most combinations in one sweep

_CHANGES_HELP = "`changes` maps a setting's path to its values."
_FORMS = (
    '{"core.array.count": [1, 2], ("core.array.rows", "core.array.columns"): [(64, 64), (128, 128)], path: function}'
)
#: unit in the core -> base unit, parser, parsed units per base unit, small unit
_UNITS: dict[str, tuple[str, Callable[[str], int], int, str]] = {
    "bandwidth (B/s)": ("B/s", _core.parse_bandwidth, 1, "B/s"),
    "size (B)": ("B", _core.parse_bytes, 1, "B"),
    "frequency (Hz)": ("Hz", _core.parse_frequency, 1, "Hz"),
    "time (s)": ("s", _core.parse_duration, 10**12, "ps"),
    "energy (J)": ("J", _core.parse_energy, 10**15, "fJ"),
}
_MORE_COUNTS = (
    *("core.count", "core.array.count", "core.array.rows", "core.array.columns", "core.array.weight_rows_per_cycle"),
    *("core.array.sparse.multipliers", "core.array.sparse.read_ports", "core.array.sparse.write_ports"),
    *("core.vector.lanes", "core.vector.sublanes", "core.vector.issue", "core.cross_lane.bytes_per_cycle"),
    *("core.dma.load_queues", "core.dma.store_queues", "core.dma.bytes_per_cycle", "core.dma.queue_entries"),
    *("network.port_bytes_per_cycle", "network.virtual_channels", "network.virtual_channel_flits"),
    *("network.region_bytes_per_cycle", "memory.channels", "memory.efficiency", "memory.cache.sets"),
    *("memory.cache.ways", "memory.cache.ports", "memory.cache.bytes_per_cycle", "memory.cache.mshrs"),
)
_MORE_SIZES = (
    *("core.scratchpad.bytes", "core.scratchpad.accumulator_bytes", "core.dma.outstanding_bytes", "memory.capacity"),
    *("memory.buffer_bytes", "network.buffer_bytes"),
)


@lru_cache(maxsize=1)
def _kinds() -> dict[str, str]:
    """Maps each setting to its unit in the core."""
    return {path: unit for path, unit, _ in _core.machine_settings()}


def _core_path(path: str) -> str:
    """Converts a short name, or a setting of a core type, to the core's setting path."""
    path = SHORT.get(path, path)
    parts = path.split(".")
    if parts[0] == "cores" and len(parts) > 2:
        return "core.count" if parts[2:] == ["count"] else ".".join(parts[2:])
    return path


def unit_of(path: str) -> str:
    """Returns the base unit of a setting."""
    found = _UNITS.get(_kinds().get(_core_path(path), ""))
    return found[0] if found else ""


def readable(value: Any, unit: str) -> str:
    """Formats the value of a setting."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value)
    if unit in ("s", "B"):
        return figures.duration(value) if unit == "s" else figures.exact_size(value)
    if unit:
        return figures.rate(value, unit) if value >= 1 else f"{value:.4g} {unit}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def better(path: str) -> int:
    """Returns 1 if a larger value is more of a resource, -1 if it is less, 0 otherwise."""
    name = _core_path(path)
    kind = _kinds().get(name, "")
    if kind in ("bandwidth (B/s)", "frequency (Hz)") or name in (*_MORE_COUNTS, *_MORE_SIZES):
        return 1
    return -1 if kind == "time (s)" or name.endswith(("latency", "_cycles")) else 0


def _number(path: str, value: Any) -> tuple[Any, Any]:
    """Returns a value for the row (a number in the base unit) and for the machine."""
    found = _UNITS.get(_kinds().get(_core_path(path), ""))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if found is None:
        return value, value
    _, read, scale, small = found
    if is_text(value):
        try:
            number = read(value)
        except _core.UserError:  # the machine later raises an error for this value
            return value, value
        return (number if scale == 1 else number / scale), value
    if is_number(value) and math.isfinite(float(value)):
        whole = round(float(value) * scale)
        exact = scale > 1 or whole == value
        return (whole if exact and scale == 1 else value), f"{whole if exact else value} {small}"
    return value, value


@dataclass
class Axis:
    """Settings that change together, with their values."""

    paths: tuple[str, ...]
    values: Sequence[Any]


@dataclass
class Axes:
    """All varied settings of a sweep."""

    axes: list[Axis]
    derived: dict[str, Callable[[dict[str, Any]], Any]]

    @property
    def paths(self) -> list[str]:
        """All varied settings in column order."""
        return [*(path for axis in self.axes for path in axis.paths), *self.derived]

    @property
    def count(self) -> int:
        """Number of combinations."""
        return math.prod(len(axis.values) for axis in self.axes)

    def points(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yields all combinations."""
        for values in itertools.product(*(axis.values for axis in self.axes)):
            row: dict[str, Any] = {}
            change: dict[str, Any] = {}
            for axis, value in zip(self.axes, values, strict=True):
                own = value if len(axis.paths) > 1 else (value,)
                for path, one in zip(axis.paths, own, strict=True):
                    row[path], change[path] = _number(path, one)
            for path, function in self.derived.items():
                row[path], change[path] = _number(path, _derived(path, function, row))
            yield row, change

    def check_names(self, machine: Machine) -> None:
        """Raises an error for an unknown setting."""
        kinds = _kinds()
        first = next(iter(self.points()))[1]
        for path in self.paths:
            if SHORT.get(path, path) not in kinds:
                machine.replace({path: first[path]})


def _derived(path: str, function: Callable[[dict[str, Any]], Any], row: dict[str, Any]) -> Any:
    try:
        return function(dict(row))
    except KeyError as error:
        name = str(error.args[0]) if error.args else ""
        raise user_error("a derived setting uses a setting outside the sweep", place=path, value=shown(name),
                         allowed=", ".join(row), suggestion=nearest(name, row)) from None  # fmt: skip
    except Exception as error:
        what = "the function of a derived setting raised an error"
        raise user_error(what, place=path, value=f"{type(error).__name__}: {error}") from error


def _listed(name: Any, values: Any) -> Sequence[Any]:
    if hasattr(values, "tolist"):  # the values are a numpy array
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        allowed = "as [1, 2], or a function of the other settings"
        raise user_error("not a list of values", place=f"sweep: changes[{shown(name)}]", value=shown(values),
                         allowed=allowed, suggestion=_CHANGES_HELP)  # fmt: skip
    if len(values) == 0:
        raise user_error("the list of values is empty", place=f"sweep: changes[{shown(name)}]",
                         allowed="at least one value")  # fmt: skip
    return values


def axes_of(changes: Any) -> Axes:
    """Reads the `changes` of a sweep."""
    if not isinstance(changes, Mapping):
        raise user_error("not a dict", place="sweep: changes", value=shown(changes), allowed="a dict by name",
                         suggestion=_CHANGES_HELP)  # fmt: skip
    found = Axes([], {})
    for key, values in changes.items():
        paths = key if isinstance(key, tuple) else (key,)
        if not paths or not all(is_text(path) for path in paths):
            raise user_error("not a setting", place="sweep: changes", value=shown(key), allowed=_FORMS,
                             suggestion=_CHANGES_HELP)  # fmt: skip
        if callable(values) and not isinstance(values, Sequence) and not hasattr(values, "tolist"):
            if len(paths) > 1:
                raise user_error(
                    "a function derives exactly one setting", place=f"sweep: changes[{shown(key)}]", allowed=_FORMS
                )
            found.derived[paths[0]] = values
            continue
        found.axes.append(Axis(paths, _listed(key, values)))
        if len(paths) > 1:
            _check_pairs(key, found.axes[-1])
    names = [SHORT.get(path, path) for path in found.paths]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise user_error("a setting is given twice", place="sweep: changes", value=f"'{twice}'")
    return found


def _check_pairs(key: Any, axis: Axis) -> None:
    for one in axis.values:
        if isinstance(one, (str, bytes)) or not isinstance(one, Sequence) or len(one) != len(axis.paths):
            raise user_error("paired settings need one value each", place=f"sweep: changes[{shown(key)}]",
                             value=shown(one), allowed=f"tuples of {len(axis.paths)} values")  # fmt: skip
