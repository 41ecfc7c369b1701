"""Checks the fields of a device's file: rates per dtype, memory levels, types of units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import nearest, shown, user_error
from ..base.kinds import as_kind

KINDS = ("gpu", "cpu", "tpu", "npu")
HOW = ("native", "emulated", "absent")


@checked_class()
@dataclass(frozen=True)
class Rate:
    """A peak rate in FLOP/s (a multiply-add is two), native, emulated or absent, with the reason."""

    flops_per_second: float
    how: str = "native"
    reason: str = ""


@checked_class()
@dataclass(frozen=True)
class Level:
    """A memory level, summed over all units: bytes, line in bytes, ways, seconds of latency, bytes per second."""

    name: str
    bytes: float
    bytes_per_second: float
    line_bytes: int = 64
    ways: int = 16
    latency_seconds: float = 0.0


def _fail(place: str, what: str, value: Any = None, allowed: str = "", suggestion: str = "") -> Exception:
    return user_error(
        what, place=place, value="" if value is None else shown(value), allowed=allowed, suggestion=suggestion
    )


# Minimum and maximum of each number; times and absent rates may be 0. The slowest clock is that of machines.
MOST_UNITS, MOST_RATE = 2**20, 1e18
_COUNT, _RATE, _HERTZ, _SECONDS = (1, MOST_UNITS), (1.0, MOST_RATE), (1e3, 1e13), (0.0, 1e3)
_RANGES: dict[str, tuple[float, float]] = {
    "units": _COUNT,
    "partitions": _COUNT,
    "multicast": _COUNT,
    "ways": _COUNT,
    "line_bytes": (1, 2**30),
    "bytes": (1, 2**62),
    "bytes_per_second": _RATE,
    "flops_per_second": _RATE,
    "clock_hz": _HERTZ,
    "launch_seconds": _SECONDS,
    "latency_seconds": _SECONDS,
    "power_watts": (1e-6, 1e6),
    "year": (1900, 2200),
}


def _number(data: Mapping[str, Any], key: str, place: str, field: str = "", least: float | None = None) -> float:
    """Reads the number of a key, in the range of the field (by default named like the key)."""
    value = data.get(key)
    low, most = _RANGES[field or key]
    low = low if least is None else least
    allowed = f"a number in SI units from {low:g} to {most:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise _fail(f"{place}.{key}", "not a number", value, allowed)
    if value <= 0 and low > 0:
        raise _fail(f"{place}.{key}", "the number must be positive", value, allowed)
    if not low <= value <= most:  # compared before the conversion, because an integer may exceed any float
        raise _fail(f"{place}.{key}", "out of range", value, allowed)
    return float(value)


def _integer(data: Mapping[str, Any], key: str, place: str) -> int:
    number = _number(data, key, place)
    if number != int(number):
        low, most = _RANGES[key]
        raise _fail(f"{place}.{key}", "not a whole number", data[key], f"a whole number from {low} to {most}")
    return int(number)


def _check_keys(data: Any, keys: Iterable[str], place: str) -> None:
    if not isinstance(data, Mapping):
        raise _fail(place, "not an object", data)
    names = list(keys)
    for key in data:
        if key not in names:
            raise _fail(place, "unknown key", key, ", ".join(names), nearest(str(key), names))


_LEVEL_KEYS = ("name", "bytes", "line_bytes", "ways", "latency_seconds", "bytes_per_second")


def _level(data: Any, place: str) -> Level:
    if isinstance(data, Level):
        data = asdict(data)
    _check_keys(data, _LEVEL_KEYS, place)
    return Level(
        _text(data, "name", place),
        _number(data, "bytes", place),
        _number(data, "bytes_per_second", place),
        _integer(data, "line_bytes", place) if "line_bytes" in data else 64,
        _integer(data, "ways", place) if "ways" in data else 16,
        _number(data, "latency_seconds", place) if "latency_seconds" in data else 0.0,
    )


def _rate(data: Any, place: str) -> Rate:
    if isinstance(data, Rate):
        data = asdict(data)
    elif isinstance(data, (int, float)):
        data = {"flops_per_second": data}
    _check_keys(data, ("flops_per_second", "how", "reason"), place)
    how = _text(data, "how", place, "native")
    if how not in HOW:
        raise _fail(f"{place}.how", "unknown kind of rate", how, ", ".join(HOW), nearest(str(how), HOW))
    least = 0.0 if how == "absent" else None
    return Rate(_number(data, "flops_per_second", place, least=least), how, _text(data, "reason", place))


def _rates(data: Any, place: str) -> dict[str, Rate]:
    if not isinstance(data, Mapping):
        raise _fail(place, "not an object of rates per dtype", data)
    rates = {}
    for key, value in data.items():
        name = key if key == "tf32" else _core.parse_dtype(str(key))
        rates[str(name)] = _rate(value, f"{place}.{key}")
    return rates


KEYS = [
    "schema",
    "version",
    "name",
    "description",
    "labels",
    "kind",
    "family",
    "year",
    "unit",
    "units",
    "clock_hz",
    "clocks",
    "matrix",
    "vector",
    "levels",
    "shared_level",
    "partitions",
    "multicast",
    "power_watts",
    "launch_seconds",
    "sources",
]


def sorts_of_units(units: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Merges several types of units; takes the fastest rate of each dtype."""
    if not units:
        raise _fail("device.units", "a device needs at least one type of unit", units)
    merged: dict[str, Any] = {"matrix": {}, "vector": {}}
    for index, sort in enumerate(units):
        place = f"device.units[{index}]"
        _check_keys(sort, ("name", "count", "matrix", "vector"), place)
        for key in ("matrix", "vector"):
            rates = _rates(sort.get(key) or {}, f"{place}.{key}")
            for dtype, rate in rates.items():
                kept = merged[key].get(dtype)
                if kept is None or rate.flops_per_second > kept.flops_per_second:
                    merged[key][dtype] = rate

    def best(sort: Mapping[str, Any]) -> float:
        return max((_rate(rate, "").flops_per_second for rate in (sort.get("matrix") or {}).values()), default=0.0)

    main = max(units, key=best)
    out = {"units": main.get("count", 1), "unit": main.get("name", "unit")}
    return {**out, **{key: value for key, value in merged.items() if value and key not in settings}}


def _text(data: Mapping[str, Any], key: str, place: str, default: str = "") -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise _fail(f"{place}.{key}", "not a text", value)
    return value


def _clocks(data: Any, place: str) -> dict[str, float]:
    if not isinstance(data, Mapping):
        raise _fail(place, "not an object of clocks in hertz by name", data)
    return {str(key): _number(data, key, place, "clock_hz") for key in data}


def checked(data: Mapping[str, Any], place: str) -> dict[str, Any]:
    _check_keys(data, KEYS, place)
    levels = data.get("levels")
    if not isinstance(levels, (list, tuple)) or not levels:
        raise _fail(f"{place}.levels", "a device needs at least one memory level", levels)
    kind = _text(data, "kind", place, "npu")
    if kind not in KINDS:
        raise _fail(f"{place}.kind", "unknown kind of device", kind, ", ".join(KINDS), nearest(str(kind), KINDS))
    if not isinstance(data.get("matrix"), Mapping) or not data["matrix"]:
        raise _fail(f"{place}.matrix", "a device needs rates of matrix products", data.get("matrix"))
    power = data.get("power_watts")
    return {
        "name": _text(data, "name", place),
        "levels": tuple(_level(level, f"{place}.levels[{i}]") for i, level in enumerate(levels)),
        "matrix": _rates(data["matrix"], f"{place}.matrix"),
        "vector": _rates(data.get("vector") or {}, f"{place}.vector"),
        "units": _integer(data, "units", place),
        "clock_hz": _number(data, "clock_hz", place) if "clock_hz" in data else 1e9,
        "clocks": _clocks(data.get("clocks") or {}, f"{place}.clocks"),
        "kind": _text(data, "kind", place, "npu"),
        "family": _text(data, "family", place),
        "unit": _text(data, "unit", place, "unit"),
        "description": _text(data, "description", place),
        "labels": tuple(as_kind(data.get("labels") or (), [str], f"{place}.labels")),
        "shared_level": _text(data, "shared_level", place),
        "partitions": _integer(data, "partitions", place) if "partitions" in data else 1,
        "multicast": _integer(data, "multicast", place) if "multicast" in data else 1,
        "launch_seconds": _number(data, "launch_seconds", place) if data.get("launch_seconds") is not None else 0.0,
        "power_watts": None if power is None else _number(data, "power_watts", place),
        "year": None if data.get("year") is None else _integer(data, "year", place),
        "sources": dict(as_kind(data.get("sources") or {}, {str: str}, f"{place}.sources")),
    }
