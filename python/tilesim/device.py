"""Devices: the closed-form view of a CPU, GPU or NPU, from its own file or from a machine."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from . import _core
from ._paths import configs_dir
from .graph import nearest, user_error
from .machine import Machine

__all__ = ["Device", "Level", "Rate"]

KINDS = ("gpu", "cpu", "tpu", "npu")
HOW = ("native", "emulated", "absent")


@dataclass(frozen=True)
class Rate:
    """A peak rate in FLOP/s (a multiply-add is two), native, emulated or absent, with the reason."""

    flops_per_second: float
    how: str = "native"
    reason: str = ""


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
        what, place=place, value="" if value is None else repr(value), allowed=allowed, suggestion=suggestion
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
        str(data.get("name", "")),
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
    how = data.get("how", "native")
    if how not in HOW:
        raise _fail(f"{place}.how", "unknown kind of rate", how, ", ".join(HOW), nearest(str(how), HOW))
    return Rate(_positive(data, "flops_per_second", place, zero=how == "absent"), how, str(data.get("reason", "")))


def _rates(data: Any, place: str) -> dict[str, Rate]:
    if not isinstance(data, Mapping):
        raise _fail(place, "an object of rates per dtype is needed", data)
    rates = {}
    for key, value in data.items():
        name = key if key == "tf32" else _core.parse_dtype(str(key))
        rates[str(name)] = _rate(value, f"{place}.{key}")
    return rates


_KEYS = [
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


@dataclass(frozen=True, init=False)
class Device:
    """Rates per dtype, memory levels, launch cost and clock of a device; everything in SI units.

    `matrix` holds the rates of matrix products, `vector` those of other arithmetic, `levels` the memory levels from the
    nearest to the farthest; `units` are alike (streaming multiprocessors, cores, arrays). `partitions`: parts of the
    shared level that each keep their own copy of what their units read; `multicast`: units that one read of the shared
    level can serve at once.
    """

    name: str
    levels: tuple[Level, ...]
    matrix: Mapping[str, Rate]
    vector: Mapping[str, Rate] = field(default_factory=dict)
    units: int = 1
    clock_hz: float = 1e9
    kind: str = "gpu"
    family: str = ""
    unit: str = "unit"
    description: str = ""
    labels: tuple[str, ...] = ()
    shared_level: str = ""
    partitions: int = 1
    multicast: int = 1
    launch_seconds: float = 0.0
    power_watts: float | None = None
    year: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def __init__(self, levels: Sequence[Any] = (), units: Any = 1, **settings: Any) -> None:
        """A device written by hand.

        Args:
            levels: memory levels, nearest first: `Level`, or dicts with its fields.
            units: number of alike units; or a list of sorts, each a dict with count, name, matrix and vector (rates of
                all units of the sort together): the closed form takes the fastest sort per dtype.
            settings: the other fields of a device file; `matrix` is needed unless the sorts give it.

        Raises:
            UserError: for an unknown or missing setting or a value out of range.
        """
        data = {"name": "custom", "kind": "npu", **settings, "levels": list(levels), "units": units}
        if isinstance(units, (list, tuple)):
            data.update(_sorts(units, settings))
        for key, value in _checked(data, "device").items():
            object.__setattr__(self, key, value)

    @classmethod
    def names(cls) -> list[str]:
        """The shipped devices.

        Returns:
            Their names, sorted.
        """
        return sorted(path.stem for path in (configs_dir() / "devices").glob("*.json"))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Machine | Device) -> Device:
        """A device from a name, a label of a table, a file or a dict.

        Args:
            source: name ("t4"), label ("A100-SXM4-80GB"), path of a `.json` file, its content, a Machine or a Device.

        Returns:
            The device, checked.

        Raises:
            UserError: for an unknown device (with the nearest name), key or value.
        """
        if isinstance(source, Device):
            return source
        if isinstance(source, Machine):
            return cls.from_machine(source)
        if isinstance(source, Mapping):
            return cls(**{key: value for key, value in source.items() if key not in ("schema", "version")})
        if not isinstance(source, (str, os.PathLike)):
            raise user_error(
                "this is no device", value=repr(source), allowed="a name, a file, a dict, a Machine, a Device"
            )
        text = os.fspath(source)
        path = Path(text)
        if text.endswith(".json") or path.is_file():
            return cls.load(_read(path))
        name = _labels().get(_plain(text))
        if name is None:
            known = cls.names()
            every = {_plain(key): key for key in [*known, *_label_texts()]}
            close = nearest(_plain(text), every)
            raise user_error(
                "unknown device", value=f"'{text}'", allowed=", ".join(known), suggestion=every.get(close, "")
            )
        return _shipped(name)

    @classmethod
    def from_machine(cls, machine: Machine | str) -> Device:
        """The closed-form view of a simulated machine.

        Args:
            machine: a machine, or the name of a preset.

        Returns:
            The device: arrays are its units, the scratchpads its shared level.

        Raises:
            UserError: for an unknown machine.
        """
        target = Machine.load(machine)
        view = target.core.device()
        core = target.to_dict()["core"]
        cores = int(core["count"])
        arrays = cores * int(core["array"]["count"])
        scratchpad = _bytes(core["scratchpad"]["bytes"]) * cores
        edges = int(core["array"]["rows"]) + int(core["array"]["columns"])
        near = arrays * edges * 4.0 * target.hertz  # what keeps every array's edges busy with 32-bit operands
        return cls(
            [
                Level("scratchpad", scratchpad, max(near, view["memory_bytes_per_second"]), 64, 1),
                Level("DRAM", 1 << 62, view["memory_bytes_per_second"], 64, 1, 1e-7),
            ],
            max(1, arrays),
            name=target.name,
            description=target.description,
            kind="npu",
            family="npu",
            unit="array",
            clock_hz=float(target.hertz),
            matrix=dict(view["matrix_flops_per_second"]),
            vector=dict(view["vector_flops_per_second"]),
            shared_level="scratchpad",
            launch_seconds=float(view["kernel_seconds"]),
            sources=target.sources,
        )

    @property
    def memory(self) -> Level:
        """The farthest level: DRAM."""
        return self.levels[-1]

    @property
    def shared(self) -> Level:
        """The level that all units share, next to the memory unless the file names another."""
        for level in self.levels:
            if level.name == self.shared_level:
                return level
        return self.levels[-2] if len(self.levels) > 1 else self.levels[-1]

    def rate(self, dtype: str) -> Rate:
        """Peak rate of matrix products.

        Args:
            dtype: any spelling ("bf16", "bfloat16"), or "tf32".

        Returns:
            The rate; one with `how` "absent" and a reason where the device lacks the dtype.

        Raises:
            UserError: for an unknown dtype.
        """
        name = "tf32" if dtype == "tf32" else str(_core.parse_dtype(dtype))
        found = self.matrix.get(name)
        return found if found else Rate(0.0, "absent", f"{self.name} has no matrix arithmetic on {name}")

    def vector_rate(self, dtype: str = "f32") -> float:
        """Peak rate of simple arithmetic.

        Args:
            dtype: of the elements.

        Returns:
            FLOPs per second; those of f32 where the file has no entry.

        Raises:
            UserError: for an unknown dtype.
        """
        name = str(_core.parse_dtype(dtype))
        found = self.vector.get(name) or self.vector.get("f32")
        return found.flops_per_second if found else max(r.flops_per_second for r in self.matrix.values())

    def to_dict(self) -> dict[str, Any]:
        """Every setting.

        Returns:
            The JSON form, which `load` reads back.
        """
        data: dict[str, Any] = {"schema": "tilesim.device", "version": 1}
        for key in _KEYS[2:]:
            value = getattr(self, key)
            if key in ("matrix", "vector"):
                value = {name: asdict(rate) for name, rate in value.items()}
            elif key == "levels":
                value = [asdict(level) for level in value]
            elif key in ("labels",):
                value = list(value)
            data[key] = dict(value) if key == "sources" else value
        return data

    def replace(self, **changes: Any) -> Device:
        """A copy with settings changed.

        Args:
            changes: fields of a device file.

        Returns:
            The changed device.

        Raises:
            UserError: for an unknown setting or a value out of range.
        """
        return Device.load({**self.to_dict(), **changes})

    def __repr__(self) -> str:
        """Name and description."""
        return f"<Device {self.name}: {self.description}>"


def _sorts(units: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
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


def _checked(data: Mapping[str, Any], place: str) -> dict[str, Any]:
    _known(data, _KEYS, place)
    levels = data.get("levels")
    if not isinstance(levels, (list, tuple)) or not levels:
        raise _fail(f"{place}.levels", "a device needs at least one memory level", levels)
    if data.get("kind", "npu") not in KINDS:
        kind = data.get("kind")
        raise _fail(f"{place}.kind", "unknown kind of device", kind, ", ".join(KINDS), nearest(str(kind), KINDS))
    if not data.get("matrix"):
        raise _fail(f"{place}.matrix", "a device needs rates of matrix products", data.get("matrix"))
    power = data.get("power_watts")
    return {
        "name": str(data["name"]),
        "levels": tuple(_level(level, f"{place}.levels[{i}]") for i, level in enumerate(levels)),
        "matrix": _rates(data["matrix"], f"{place}.matrix"),
        "vector": _rates(data.get("vector") or {}, f"{place}.vector"),
        "units": int(_positive(data, "units", place)),
        "clock_hz": _positive(data, "clock_hz", place) if "clock_hz" in data else 1e9,
        "kind": str(data.get("kind", "npu")),
        "family": str(data.get("family", "")),
        "unit": str(data.get("unit", "unit")),
        "description": str(data.get("description", "")),
        "labels": tuple(map(str, data.get("labels") or ())),
        "shared_level": str(data.get("shared_level", "")),
        "partitions": int(_positive(data, "partitions", place)) if "partitions" in data else 1,
        "multicast": int(_positive(data, "multicast", place)) if "multicast" in data else 1,
        "launch_seconds": _positive(data, "launch_seconds", place, zero=True) if data.get("launch_seconds") else 0.0,
        "power_watts": None if power is None else _positive(data, "power_watts", place),
        "year": data.get("year"),
        "sources": {str(key): str(value) for key, value in (data.get("sources") or {}).items()},
    }


def _bytes(text: Any) -> float:
    number, unit = str(text).split(" ")
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise user_error("the file cannot be read", place=str(path), value=str(error)) from None
    except json.JSONDecodeError as error:
        raise user_error("the file is no JSON", place=f"{path}:{error.lineno}", value=error.msg) from None
    if not isinstance(data, dict) or data.get("schema") != "tilesim.device":
        found = data.get("schema") if isinstance(data, dict) else None
        raise user_error("the file describes no device", place=str(path), value=repr(found), allowed="tilesim.device")
    return data


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


@cache
def _shipped(name: str) -> Device:
    return Device.load(_read(configs_dir() / "devices" / f"{name}.json"))


_LABELS: dict[str, str] = {}
_TEXTS: list[str] = []


def _labels() -> dict[str, str]:
    if not _LABELS:
        for name in Device.names():
            data = _read(configs_dir() / "devices" / f"{name}.json")
            for label in [name, *data.get("labels", [])]:
                _LABELS.setdefault(_plain(label), name)
                _TEXTS.append(label)
    return _LABELS


def _label_texts() -> list[str]:
    _labels()
    return _TEXTS
