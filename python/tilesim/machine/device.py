"""Devices: descriptions of CPUs, GPUs or NPUs for closed forms, read from a file or derived from a machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ..base.arguments import dtype_name
from ..base.checked import checked_class
from ..base.errors import nearest, path_text, shown, user_error
from ..base.files import Saved, read_json
from ..base.paths import configs_dir
from ..base.presets import other_kind
from .device_fields import KEYS, Level, Rate, checked, sorts_of_units
from .machine import Machine

__all__ = ["Device", "Level", "Rate"]


@checked_class()
@dataclass(frozen=True, init=False)
class Device(Saved):
    """Rates per dtype, memory levels, launch cost and clock of a device; everything in SI units.

    `matrix` holds the rates of matrix products, `vector` those of other arithmetic, `levels` the memory levels from the
    nearest to the farthest; `units` are alike (streaming multiprocessors, cores, arrays). The rates are those at
    `clock_hz`; `clocks` names others that the board can be held at (see `at`). `partitions`: parts of the
    shared level that each keep their own copy of what their units read; `multicast`: units that one read of the shared
    level can serve at once.
    """

    name: str
    levels: tuple[Level, ...]
    matrix: Mapping[str, Rate]
    vector: Mapping[str, Rate] = field(default_factory=dict)
    units: int = 1
    clock_hz: float = 1e9
    clocks: Mapping[str, float] = field(default_factory=dict)
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

    __hash__ = Saved.__hash__

    def __init__(self, levels: Sequence[Any] = (), units: Any = 1, **settings: Any) -> None:
        """Makes a device from its fields."""
        data = {"name": "custom", "kind": "npu", **settings, "units": units}
        data["levels"] = list(levels) if isinstance(levels, Iterable) else levels  # these are checked below
        if isinstance(units, (list, tuple)):
            data.update(sorts_of_units(units, settings))
        for key, value in checked(data, "device").items():
            object.__setattr__(self, key, value)

    @classmethod
    def names(cls) -> list[str]:
        """Lists the shipped devices.

        Returns:
            Their names, sorted.
        """
        return sorted(path.stem for path in (configs_dir() / "devices").glob("*.json"))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Machine | Device) -> Device:
        """Loads a device by name or label of a table, or from a file or dict.

        Args:
            source: name ("t4"), label ("A100-SXM4-80GB"), path of a `.json` file, its content, a Machine or a Device.
                A name may end in a power state of `at`: "t4@base", "t4@1.2GHz", "t4@50W".

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
            raise user_error("not a device", value=shown(source), allowed="a name, a file, a dict, a Machine, a Device")
        text = path_text(source)
        if folded(text) not in _labels() and (text.endswith(".json") or os.path.isfile(text)):
            return cls.load(_read(Path(text)))
        return cls.named(text)

    @classmethod
    def named(cls, text: str) -> Device:
        """Returns a shipped device; opens no other file, because the text may come from a table's cell.

        Args:
            text: name or label, optionally with a power state behind "@", as in `load`.

        Returns:
            The device.

        Raises:
            UserError: for an unknown device, with the nearest name, or state.
        """
        before, state, rest = text.partition("@")
        if state:
            return cls.named(before).at(rest)
        name = _labels().get(folded(text))
        if name is None:
            known = cls.names()
            every = {folded(key): key for key in [*known, *_label_texts()]}
            close = nearest(folded(text), every)
            hint = other_kind(text, "devices") or every.get(close, "")
            raise user_error("unknown device", value=f"'{text}'", allowed=", ".join(known), suggestion=hint)
        return _shipped(name)

    @classmethod
    def from_machine(cls, machine: Machine | str) -> Device:
        """Derives a device from a simulated machine.

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
        near = arrays * edges * 4.0 * target.hertz  # rate that feeds the edges of every array with 32-bit operands
        return cls(
            [
                Level("scratchpad", scratchpad, max(near, view["memory_bytes_per_second"]), 64, 1),
                Level("DRAM", 1 << 62, view["memory_bytes_per_second"], 64, 1, 1e-7),
            ],
            max(1, arrays),
            name=target.label,
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
        """The level that all units share: the last before memory unless the file names another."""
        for level in self.levels:
            if level.name == self.shared_level:
                return level
        return self.levels[-2] if len(self.levels) > 1 else self.levels[-1]

    def rate(self, dtype: str) -> Rate:
        """Returns the peak rate of matrix products.

        Args:
            dtype: any spelling ("bf16", "bfloat16"), or "tf32".

        Returns:
            The rate; one with `how` "absent" and a reason where the device lacks the dtype.

        Raises:
            UserError: for an unknown dtype.
        """
        name = "tf32" if isinstance(dtype, str) and dtype == "tf32" else dtype_name(dtype)
        found = self.matrix.get(name)
        return found if found else Rate(0.0, "absent", f"{self.name} does not support matrix arithmetic on {name}")

    def vector_rate(self, dtype: str = "f32") -> float:
        """Returns the peak rate of simple vector arithmetic.

        Args:
            dtype: data type of the elements.

        Returns:
            FLOPs per second; the f32 rate where the file lacks an entry.

        Raises:
            UserError: for an unknown dtype.
        """
        name = dtype_name(dtype)
        found = self.vector.get(name) or self.vector.get("f32")
        return found.flops_per_second if found else max(r.flops_per_second for r in self.matrix.values())

    def to_dict(self) -> dict[str, Any]:
        """Converts all fields to the JSON form.

        Returns:
            The JSON form, which `load` reads back.
        """
        data: dict[str, Any] = {"schema": "tilesim.device", "version": 1}
        for key in KEYS[2:]:
            value = getattr(self, key)
            if key in ("matrix", "vector"):
                value = {name: asdict(rate) for name, rate in value.items()}
            elif key == "levels":
                value = [asdict(level) for level in value]
            elif key in ("labels",):
                value = list(value)
            data[key] = dict(value) if key in ("sources", "clocks") else value
        return data

    def replace(self, **changes: Any) -> Device:
        """Returns a copy with changed settings.

        Args:
            changes: fields of a device file.

        Returns:
            The changed device.

        Raises:
            UserError: for an unknown setting or a value out of range.
        """
        return Device.load({**self.to_dict(), **changes})

    def at(self, state: str | float) -> Device:
        """Returns the device in another power state.

        A clock scales every rate of the chip, its caches included, and leaves DRAM and the launch alone; a power limit
        reaches the closed form through the energy per operation, as the time that arithmetic takes at the limit.

        Args:
            state: a clock by name ("base", "boost"), a frequency ("1.2GHz", or a number in hertz), or a power limit
                ("50W").

        Returns:
            The device at that clock or limit.

        Raises:
            UserError: for an unknown state or clock.
        """
        text = str(state).strip()
        unit = next((unit for unit in _STATE_UNITS if text.lower().endswith(unit)), "")
        try:
            value = float(text[: len(text) - len(unit)]) * _STATE_UNITS.get(unit, 1.0)
        except ValueError:
            named = {"boost": self.clock_hz, **self.clocks}
            if text not in named:
                raise user_error(
                    "unknown power state",
                    place=self.name,
                    value=f"'{text}'",
                    allowed=f"{', '.join(named)}; a frequency such as 1.2GHz; a power limit such as 50W",
                    suggestion=nearest(text, named),
                ) from None
            value, unit = named[text], "hz"
        if not value > 0:
            raise user_error("a power state must be positive", place=self.name, value=f"'{text}'")
        if unit == "w":
            return self.replace(power_watts=value)
        ratio = value / self.clock_hz
        chip, memory = self.levels[:-1], self.levels[-1]
        levels = [replace(level, bytes_per_second=level.bytes_per_second * ratio) for level in chip]
        rates = {
            key: {name: replace(rate, flops_per_second=rate.flops_per_second * ratio) for name, rate in table.items()}
            for key, table in (("matrix", self.matrix), ("vector", self.vector))
        }
        return self.replace(clock_hz=value, levels=[*levels, memory], **rates)

    def __repr__(self) -> str:
        """Name and description."""
        return f"<Device {self.name}: {self.description}>"


_STATE_UNITS = {"ghz": 1e9, "mhz": 1e6, "hz": 1.0, "w": 1.0}


def _bytes(text: Any) -> float:
    number, unit = str(text).split(" ")
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def _read(path: Path) -> dict[str, Any]:
    return dict(read_json(path, "tilesim.device"))


def folded(text: str) -> str:
    """The letters and digits of a name in lower case."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def is_label(text: str) -> bool:
    """Whether `Device.named` knows a name or label (without a power state)."""
    return folded(text) in _labels()


@cache
def _shipped(name: str) -> Device:
    return Device.load(_read(configs_dir() / "devices" / f"{name}.json"))


@cache
def _labels() -> dict[str, str]:
    """Maps the plain form of each name to its device; callers must not change it."""
    found: dict[str, str] = {}
    for text, name in _label_rows():
        found.setdefault(folded(text), name)
    return found


@cache
def _label_rows() -> list[tuple[str, str]]:
    rows = []
    for name in Device.names():
        data = _read(configs_dir() / "devices" / f"{name}.json")
        rows += [(label, name) for label in [name, *data.get("labels", [])]]
    return rows


def _label_texts() -> list[str]:
    return [text for text, _ in _label_rows()]
