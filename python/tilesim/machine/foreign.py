"""Converts files of other simulators to machines, and lists the settings that these leave open."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.arguments import is_size
from ..base.errors import nearest, shown, unknown, user_error
from ..base.files import read_text
from .settings import shown_value
from .tables import flat

__all__ = ["SCALE_SIM", "Description", "left_open", "scale_sim"]

SCALE_SIM = "SCALE-Sim configuration"
"""First words of such a machine's description."""
OPEN = "left open: "
"""First words of the source of a setting missing from the file."""
RATES = dict.fromkeys(("i8", "i4", "fp8_e4m3", "bf16", "f16", "f32"), 1.0)
"""One product per cell and cycle, as a tool without dtypes counts."""
_UNLIMITED = 1 << 20  # bytes per cycle: the largest number that the settings accept

_DATAFLOWS = {"os": "output_stationary", "ws": "weight_stationary", "is": "input_stationary"}
_READ = {
    "general": ("run_name",),
    "architecture_presets": (
        *("ArrayHeight", "ArrayWidth", "IfmapSramSzkB", "FilterSramSzkB", "OfmapSramSzkB", "Dataflow", "Bandwidth"),
    ),
    "run_presets": ("InterfaceBandwidth",),
}
_UNREAD = ("MemoryBanks", "IfmapOffset", "FilterOffset", "OfmapOffset", "ReadRequestBuffer", "WriteRequestBuffer")


class Description:
    """Collects the settings of a machine from a file of another simulator."""

    def __init__(self, path: str, what: str) -> None:
        self.path, self.file, self.what = path, os.path.basename(path), what
        self.settings: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.unread: list[str] = []

    def state(self, setting: str, value: Any, key: str) -> None:
        """Sets a setting that the file states under a key."""
        self.settings[setting], self.sources[setting] = value, f"{self.file}: {key}"

    def open(self, setting: str, value: Any, why: str) -> None:
        """Sets a setting that the file does not state."""
        self.settings[setting], self.sources[setting] = value, f"{OPEN}{why}"

    def entries(self, name: str) -> dict[str, Any]:
        """The content of a machine's file; its description lists unread keys."""
        unread = f"; not read: {', '.join(dict.fromkeys(self.unread))}" if self.unread else ""
        entries: dict[str, Any] = {"schema": "tilesim.machine", "version": 1, "name": name}
        entries |= {"description": f"{self.what}, {self.file}{unread}", "sources": self.sources}
        for setting, value in self.settings.items():
            *sections, key = setting.split(".")
            inner = entries
            for section in sections:
                inner = inner.setdefault(section, {})
            inner[key] = value
        return entries


def left_open(entries: Mapping[str, Any]) -> list[str]:
    """Returns the note for results on a machine that another simulator's file describes."""
    found: dict[str, list[str]] = {}
    for path, text in entries["sources"].items():
        if text.startswith(OPEN):
            found.setdefault(text.removeprefix(OPEN), []).append(path)
    settings = flat(dict(entries)) if found else {}
    said = [f"{why}: " + ", ".join(f"{path} {shown_value(settings[path])}" for path in paths)
            for why, paths in found.items()]  # fmt: skip
    return [f"{entries['name']} ({entries['description']}) leaves open: {'; '.join(said)}"] if found else []


class _Keys:
    """Case-insensitive keys of a configuration; lists unread keys."""

    def __init__(self, path: str) -> None:
        self.path, self.unread = path, list[str]()
        spelt: dict[str, str] = {}

        class Parser(configparser.ConfigParser):
            def optionxform(self, optionstr: str) -> str:
                spelt.setdefault(optionstr.lower(), optionstr)
                return optionstr.lower()

        parser = Parser(interpolation=None)
        try:
            parser.read_string(read_text(path, 1 << 20), path)
        except configparser.Error as error:
            raise user_error("not a configuration", place=path, value=" ".join(str(error).split())) from None
        self.sections = {name.lower(): dict(parser[name]) for name in parser.sections()}
        absent = [key for name, keys in _READ.items() for key in keys if key.lower() not in self.sections.get(name, {})]
        for name, section in self.sections.items():
            if name not in _READ and (meant := nearest(name, [one for one in _READ if one not in self.sections])):
                raise user_error("unknown section", place=path, value=f"'[{name}]'", suggestion=f"[{meant}]")
            for key in section.keys() - {one.lower() for one in _READ.get(name, ())}:
                meant = nearest(key, (*_UNREAD, *absent))
                if meant in absent:
                    raise user_error("unknown key", place=f"{path}: [{name}]", value=f"'{spelt[key]}'",
                                     suggestion=meant)  # fmt: skip
                self.unread.append(spelt[key] if name in _READ else f"{name}.{spelt[key]}")
        self.unread.sort()

    def text(self, section: str, key: str, default: str | None = None) -> str:
        found = self.sections.get(section, {}).get(key.lower(), default)
        if found is None:
            raise user_error("missing key of the configuration", place=f"{self.path}: [{section}]", value=key)
        return found.strip()

    def numbers(self, section: str, key: str, most: int, several: bool = False) -> list[int]:
        text = self.text(section, key)
        parts = [part.strip() for part in text.split(",")] if several else [text]
        for part in parts:
            if not is_size(part) or not 0 < int(part) <= most:
                raise user_error("not a whole number in range", place=f"{self.path}: [{section}] {key}",
                                 value=shown(text), allowed=f"1 to {most}")  # fmt: skip
        return [int(part) for part in parts]

    def word(self, section: str, key: str, words: Sequence[str]) -> str:
        text = self.text(section, key)
        if text not in words:
            raise unknown("value", text, words, place=f"{self.path}: [{section}] {key}")
        return text


def scale_sim(path: str) -> dict[str, Any]:
    """Reads a configuration of SCALE-Sim (`.cfg`) as the content of a machine's file."""
    keys, hardware = _Keys(path), "architecture_presets"
    found = Description(path, SCALE_SIM)
    rows, columns = (keys.numbers(hardware, key, 1 << 16)[0] for key in ("ArrayHeight", "ArrayWidth"))
    sizes = [keys.numbers(hardware, f"{which}SramSzkB", 1 << 30)[0] for which in ("Ifmap", "Filter", "Ofmap")]
    dataflow = keys.word(hardware, "Dataflow", tuple(_DATAFLOWS))
    found.state("core.array.rows", rows, "ArrayHeight")
    found.state("core.array.columns", columns, "ArrayWidth")
    found.state("core.array.dataflow", _DATAFLOWS[dataflow], "Dataflow")
    found.state("core.scratchpad.bytes", f"{sizes[0] + sizes[1]} KiB", "IfmapSramSzkB + FilterSramSzkB")
    found.state("core.scratchpad.accumulator_bytes", f"{sizes[2]} KiB", "OfmapSramSzkB")
    found.state("core.array.weight_double_buffer", False, "SCALE-Sim loads the cells before each fold")
    found.open("core.clock", "1 GHz", "SCALE-Sim counts cycles")
    found.open("core.array.rates", RATES, "SCALE-Sim has no dtypes")
    found.open("core.vector.lanes", columns, "SCALE-Sim has no vector unit")
    found.open("core.vector.sublanes", 1, "SCALE-Sim has no vector unit")
    banks = keys.numbers(hardware, "Bandwidth", 1 << 30, True) if "bandwidth" in keys.sections[hardware] else []
    user = keys.word("run_presets", "InterfaceBandwidth", ("CALC", "USER")) == "USER"
    if user and not banks:
        keys.text(hardware, "Bandwidth")
    if user:
        found.state("memory.kind", "simple", "InterfaceBandwidth")
        found.state("memory.channels", len(banks), "Bandwidth")
        found.state("memory.bandwidth", f"{sum(banks)} GB/s", "Bandwidth, bytes per cycle")
    else:
        found.state("memory.kind", "ideal", "InterfaceBandwidth CALC: unlimited bandwidth")
        found.state("memory.bandwidth", "1000000 GB/s", "InterfaceBandwidth CALC")
    found.state("memory.burst_bytes", "1 B", "SCALE-Sim moves words")
    found.open("memory.latency", "0 ns", "SCALE-Sim has no latency")
    found.open("network.latency_cycles", 0, "SCALE-Sim has no network")
    for port in ("core.dma.bytes_per_cycle", "network.port_bytes_per_cycle"):
        found.open(port, _UNLIMITED, "SCALE-Sim has no ports")
    found.unread = keys.unread
    return found.entries(keys.text("general", "run_name", "") or os.path.splitext(found.file)[0])
