"""What a device's file says, checked: rates per dtype, memory levels, sorts of units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import nearest, shown, user_error
from ..base.kinds import of_kind

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
    """A memory level, all units together: bytes, line in bytes, ways, seconds of latency, bytes per second."""

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


def _positive(data: Mapping[str, Any], key: str, place: str, zero: bool = False) -> float:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _fail(f"{place}.{key}", "a number is needed", value, "a finite number in SI units")
    if value < 0 or (value == 0 and not zero):
        raise _fail(f"{place}.{key}", "the number must be positive", value)
    return float(value)


def _known(data: Any, keys: Iterable[str], place: str) -> None:
    if not isinstance(data, Mapping):
        raise _fail(place, "an object is needed", data)
    names = list(keys)
    for key in data:
        if key not in names:
            raise _fail(place, "unknown key", key, ", ".join(names), nearest(str(key), names))


_LEVEL_KEYS = ("name", "bytes", "line_bytes", "ways", "latency_seconds", "bytes_per_second")


def _level(data: Any, place: str) -> Level:
    if isinstance(data, Level):
        data = asdict(data)
    _known(data, _LEVEL_KEYS, place)
    return Level(
        _text(data, "name", place),
        _positive(data, "bytes", place),
        _positive(data, "bytes_per_second", place),
        int(_positive(data, "line_bytes", place)) if "line_bytes" in data else 64,
        int(_positive(data, "ways", place)) if "ways" in data else 16,
        _positive(data, "latency_seconds", place, zero=True) if "latency_seconds" in data else 0.0,
    )


def _rate(data: Any, place: str) -> Rate:
    if isinstance(data, Rate):
        data = asdict(data)
    elif isinstance(data, (int, float)):
        data = {"flops_per_second": data}
    _known(data, ("flops_per_second", "how", "reason"), place)
    how = _text(data, "how", place, "native")
    if how not in HOW:
        raise _fail(f"{place}.how", "unknown kind of rate", how, ", ".join(HOW), nearest(str(how), HOW))
    return Rate(_positive(data, "flops_per_second", place, zero=how == "absent"), how, _text(data, "reason", place))


def _rates(data: Any, place: str) -> dict[str, Rate]:
    if not isinstance(data, Mapping):
        raise _fail(place, "an object of rates per dtype is needed", data)
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
    """Several sorts of units as one: the fastest of each dtype."""
    if not units:
        raise _fail("device.units", "a device needs at least one sort of units", units)
    merged: dict[str, Any] = {"matrix": {}, "vector": {}}
    for index, sort in enumerate(units):
        place = f"device.units[{index}]"
        _known(sort, ("name", "count", "matrix", "vector"), place)
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
        raise _fail(f"{place}.{key}", "a text is needed", value)
    return value


def _labels(data: Any, place: str) -> tuple[str, ...]:
    if not isinstance(data, (list, tuple)) or not all(isinstance(label, str) for label in data):
        raise _fail(place, "a list of texts is needed", data)
    return tuple(data)


def _clocks(data: Any, place: str) -> dict[str, float]:
    if not isinstance(data, Mapping):
        raise _fail(place, "an object of clocks in hertz by name is needed", data)
    return {str(key): _positive(data, key, place) for key in data}


def checked(data: Mapping[str, Any], place: str) -> dict[str, Any]:
    _known(data, KEYS, place)
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
        "units": int(_positive(data, "units", place)),
        "clock_hz": _positive(data, "clock_hz", place) if "clock_hz" in data else 1e9,
        "clocks": _clocks(data.get("clocks") or {}, f"{place}.clocks"),
        "kind": _text(data, "kind", place, "npu"),
        "family": _text(data, "family", place),
        "unit": _text(data, "unit", place, "unit"),
        "description": _text(data, "description", place),
        "labels": tuple(of_kind(data.get("labels") or (), [str], f"{place}.labels")),
        "shared_level": _text(data, "shared_level", place),
        "partitions": int(_positive(data, "partitions", place)) if "partitions" in data else 1,
        "multicast": int(_positive(data, "multicast", place)) if "multicast" in data else 1,
        "launch_seconds": _positive(data, "launch_seconds", place, zero=True) if data.get("launch_seconds") else 0.0,
        "power_watts": None if power is None else _positive(data, "power_watts", place),
        "year": data.get("year"),
        "sources": dict(of_kind(data.get("sources") or {}, {str: str}, f"{place}.sources")),
    }
