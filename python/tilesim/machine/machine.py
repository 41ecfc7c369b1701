"""Machines: descriptions of chips."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .. import _core
from ..base.arguments import json_text
from ..base.checked import MEANT, checked_class, is_number, no_attribute
from ..base.errors import UserError, nearest, path_text, shown, user_error
from ..base.files import Saved, writing
from ..base.paths import configs_dir
from ..base.presets import preset_file
from ..base.table import Table
from .dram_part import Part
from .files import read_machine, settings_in, written
from .settings import SHORT, all_settings
from .tables import changed_sources, differences, flat, label, rows

__all__ = ["Machine"]


@lru_cache(maxsize=64)
def _fits(part: str, mapping: str, bank_hash: str) -> None:
    Part.load(part).core.check_mapping(mapping, bank_hash)


@checked_class("source")
class Machine(Saved):
    """A chip: memory, network, cores with arrays, vector unit, scratchpad and DMA; every number with its source."""

    def __init__(self, core: _core.Machine) -> None:
        """Stores a machine of the core; use `load`."""
        self.core = core
        self.given: frozenset[str] | None = None
        """Paths of the settings in its file; None if unknown."""
        self._label = ""
        self._text, self._settings = "", dict[str, Any]()

    @classmethod
    def names(cls) -> list[str]:
        """Lists the shipped presets.

        Returns:
            Their names, sorted.
        """
        return sorted(path.stem for path in (configs_dir() / "machines").glob("*.json"))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Machine) -> Machine:
        """Loads a machine by preset name, or from a file or dict.

        Args:
            source: preset name, path of a `.json` or `.toml` file, of a configuration of SCALE-Sim (`.cfg`) or an
                architecture of Timeloop (`.yaml`), or the file's content as a dict. A file may name files of a network
                (`network.kind`) and a DRAM part (`memory.part`) beside or below itself, and may have `notes`, texts by
                setting or beside a setting's value, which are ignored.

        Returns:
            The machine, checked.

        Raises:
            UserError: for an unknown preset, key, unit or value, with its place and the allowed values.
        """
        if isinstance(source, Machine):
            return source
        if isinstance(source, Mapping):
            try:
                entries = dict(source)
            except Exception as error:  # an attribute of the object raised an error
                raise user_error("not a machine", value=shown(error), allowed="a dict") from None
            machine = cls(_core.Machine.from_json(json_text(entries, "dict"), "dict"))._checked()
            machine.given = settings_in(entries)
            return machine
        path = preset_file(source, "machines", "machine", cls.names())
        core, given = read_machine(path)
        machine = cls(core)._confined(os.path.dirname(path))._checked()
        if os.path.dirname(path) != str(configs_dir() / "machines"):
            machine = machine._with_own_sources()
        machine.given = given
        return machine

    def _with_own_sources(self) -> Machine:
        """Marks the sources of a user's file: a preset's source stays only with the preset's value."""
        changed = changed_sources(self.to_dict())
        if not changed:
            return self
        entries = {**self.to_dict(), "sources": {**self.sources, **changed}}
        return Machine(_core.Machine.from_json(json.dumps(entries), self.name))

    def _confined(self, directory: str) -> Machine:
        """Restricts a file's machine to shipped parts and networks, and to files beside or below itself."""
        settings, found = self.to_dict(), {}
        named = {"network.kind": settings["network"]["kind"], "memory.part": settings["memory"]["part"]}
        for setting, name in named.items():
            is_file = name.endswith(".json") if setting == "network.kind" else name and name not in Part.names()
            if not is_file:
                continue
            name = path_text(name, setting)
            base, path = os.path.realpath(directory), os.path.realpath(os.path.join(directory, name))
            if os.path.commonpath([base, path]) != base:
                raise user_error(
                    "a machine's file names a file outside its directory",
                    place=setting,
                    value=shown(name),
                    allowed=f"a shipped name, or a file in {base}",
                    suggestion=f'For one that you trust: replace({{"{setting}": ...}})',
                )
            if os.path.isfile(path) and not os.path.isabs(name):
                found[setting] = path
        if not found:
            return self
        entries = {**self.replace(found).to_dict(), "sources": self.sources}  # absolute paths need no change
        return Machine(_core.Machine.from_json(json.dumps(entries), self.name))

    def _repr_html_(self) -> str:
        from .pictures import picture

        return picture(self)

    @property
    def name(self) -> str:
        """Name of the preset or file."""
        return self.core.name

    @property
    def label(self) -> str:
        """Name in results; a variant adds its differences, such as "tpu-v3, core.arrays 1".

        Differences from the preset of that name, or else the changes by `replace`; at most three.
        """
        if not self._label:
            self._label = label(self._json())
        return self._label

    @property
    def description(self) -> str:
        """Description in one line."""
        return self.core.description

    @property
    def hertz(self) -> int:
        """Core clock in Hz."""
        return self.core.hertz

    @property
    def sorts(self) -> dict[str, list[int]]:
        """Core types with their numbers of cores; empty if all cores are equal."""
        return dict(self.core.sorts)

    def only(self, sort: str) -> Machine:
        """Returns a machine with only the cores of one type.

        Args:
            sort: a name of `sorts`.

        Returns:
            The machine with those cores.

        Raises:
            UserError: for an unknown type.
        """
        return Machine(self.core.only(sort))

    @property
    def sources(self) -> dict[str, str]:
        """Source of each setting's number, by path."""
        return dict(self.core.sources)

    def replace(self, changes: Mapping[str, Any]) -> Machine:
        """Returns a copy with changed settings.

        Args:
            changes: setting path ("core.array.count", or "core.arrays" for short) to value as in a file ("1 GHz", 2).
                "cores" takes a number or a list of types; "cores.little.count" and "cores.little.core.array.rows"
                change one of them.

        Returns:
            The changed machine.

        Raises:
            UserError: for an unknown path (with the nearest one), a value out of range, or values that contradict each
                other (regions that do not divide cores and channels, a mapping that does not cover the DRAM part).
        """
        if not isinstance(changes, Mapping) or not all(isinstance(path, str) for path in changes):
            raise user_error(
                "the changes are not a dict by setting path", value=shown(changes), allowed='as {"core.array.count": 2}'
            )
        full = [SHORT.get(path, path) for path in changes]
        twice = next((path for path in full if full.count(path) > 1), None)
        if twice is not None:
            both = " and ".join(path for path in changes if SHORT.get(path, path) == twice)
            raise user_error("duplicate setting", place=twice, value=both, allowed="one of its names")
        texts = {
            path if path == "cores" and isinstance(value, list) else SHORT.get(path, path): json_text(value, path)
            for path, value in changes.items()
        }
        try:
            changed = Machine(self.core.replace(texts))
        except UserError as error:
            raise _as_given(error, changes, self) from None
        changed.given = None if self.given is None else self.given | texts.keys()
        checked = ("memory.part", "memory.mapping", "memory.bank_hash", "network.kind")
        return changed._checked() if any(path in checked for path in texts) else changed

    def _checked(self) -> Machine:
        """Checks that the machine's files exist and that its mapping fits its DRAM part."""
        settings = self.to_dict()
        memory, kind = settings["memory"], settings["network"]["kind"]
        if kind.endswith(".json") and not os.path.isfile(kind):
            raise user_error("the network's file does not exist", place="network.kind", value=kind)
        if memory["part"]:
            _fits(memory["part"], memory["mapping"], memory["bank_hash"])
        return self

    def to_dict(self) -> dict[str, Any]:
        """Converts all settings to a dict.

        Returns:
            The resolved JSON form, which `load` reads back.
        """
        result: dict[str, Any] = json.loads(self._json())
        return result

    def _json(self) -> str:
        """The JSON form, written once, because a machine does not change."""
        self._text = self._text or self.core.to_json()
        return self._text

    def _parsed(self) -> dict[str, Any]:
        """Every setting, read once; callers get no reference to it."""
        self._settings = self._settings or self.to_dict()
        return self._settings

    def states(self, part: str) -> bool:
        """Whether its file has an optional part.

        Args:
            part: "lowering" (the chip's compiler), "host", "cores", ...

        Returns:
            Whether it is there.
        """
        return self._parsed().get(part) is not None

    def get(self, path: str) -> Any:
        """Returns the value of a setting.

        Args:
            path: "core.array.count"; of one type of cores "cores.little.core.array.count".

        Returns:
            Its value as in a file.

        Raises:
            UserError: for an unknown path.
        """
        value: Any = self._parsed()
        _, _, rest = path.partition(".")
        sort, _, own = rest.partition(".")
        if path.startswith("cores.") and sort in self.core.sorts:
            found = flat(value)
            return copy.deepcopy(found[path]) if path in found else self.get(own)
        for key in SHORT.get(path, path).split("."):
            if not isinstance(value, dict) or key not in value:
                raise user_error(
                    "unknown setting", value=f"'{path}'", suggestion=_by_end(path) or nearest(path, self.sources)
                )
            value = value[key]
        return copy.deepcopy(value) if isinstance(value, (dict, list)) else value

    def table(self) -> Table:
        """Tabulates every setting.

        Returns:
            Rows with setting, value (as in a file), from ("default", "file", "replaced"), source.
        """
        return rows(self.to_dict(), self.given)

    def diff(self, other: MachineLike) -> Table:
        """Tabulates the settings in which this machine and another one differ.

        Args:
            other: preset name, file, dict or Machine.

        Returns:
            Rows with setting, a (this machine's value), b (the other's), ratio (b / a, of numbers), for differing
            settings. A value is None where a machine lacks the setting.

        Raises:
            UserError: for an unknown preset or an invalid file.
        """
        return differences(self.to_dict(), Machine.load(other).to_dict())

    def save(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Writes a file for editing: every setting with its unit, range, default, meaning and source.

        Args:
            path: ends in ".toml" (comments) or ".json" (an object `notes`).
            name: name of the machine in the file; by default this machine's name.

        Raises:
            UserError: for another ending, or where the file cannot be written.
        """
        text = path_text(path)
        if not text.endswith((".json", ".toml")):
            raise user_error(
                "unknown ending of a machine's file", value=shown(text), allowed="a name with .json or .toml"
            )
        entries = {**self.to_dict(), **({} if name is None else {"name": name})}
        with writing(text) as file:
            file.write(written(entries, text, self.label))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the JSON form."""
        does = {function: one for function, one in _core.isa_functions(self.core).items() if one is not None}
        return _restored, (self.to_dict(), self.given, does)

    def __repr__(self) -> str:
        """Name and description."""
        return f"<Machine {self.label}: {self.description}>"


def _restored(entries: dict[str, Any], given: frozenset[str] | None, does: Mapping[str, Any] | None = None) -> Machine:
    """Restores a machine from its pickle and the semantics of its custom instructions, by function."""
    machine = Machine.load(entries)
    for function, one in (does or {}).items():
        machine.core = _core.isa_use(machine.core, function, one.of.declared, one)
    machine.given = given
    return machine


MachineLike = Machine | str | os.PathLike[str] | Mapping[str, Any]


def _by_end(name: str) -> str:
    """Returns the setting whose path ends in a name (if several, that of the memory section); "" without one."""
    found = [path for path in all_settings() if path.rpartition(".")[2] == name]
    return next((path for path in found if path.startswith("memory.")), found[0] if found else "")


def _meant(name: str, value: Any) -> str:
    """The advice for a setting given as a keyword of `replace`."""
    path = next((brief for brief in SHORT if brief.rpartition(".")[2] == name), "") or _by_end(name)
    path = path or nearest(name, all_settings())
    return f"Write settings in a dict: replace({{'{path}': {shown(value)}}})" if path else ""


def _sections(name: str, value: Any) -> str:
    """The advice for a section of settings that is used as an attribute."""
    path = name if name in ("core", "array") else next((one for one in all_settings() if name in one.split(".")), "")
    read = "Read a setting with machine.get('core.array.rows'), change a copy with machine.replace({...})"
    return read if path else ""


def _assigned(name: str, value: Any) -> str:
    """The advice for a setting that is assigned to an attribute."""
    path = _by_end(name) or "core.clock"
    amount = all_settings()[path].text(value) if is_number(value) else value
    return f"machine.replace({{'{path}': {shown(amount)}}})"


MEANT["Machine.replace"], MEANT["Machine="], MEANT["Machine."] = _meant, _assigned, _sections
_core.Machine.__getattr__ = no_attribute  # type: ignore[attr-defined]


def _as_given(error: Exception, changes: Mapping[str, Any], machine: Machine) -> Exception:
    """Names settings and quotes numbers as the user wrote them, because the core knows neither."""
    parts: dict[str, Any] = {
        key: str(getattr(error, key, "")) for key in ("what", "place", "value", "allowed", "suggestion")
    }
    value = {SHORT.get(path, path): value for path, value in changes.items()}.get(parts["place"])
    if is_number(value) and parts["value"] == f"'{value}'" and parts["place"] in all_settings():  # it needs a unit
        text = shown(machine.get(parts["place"]))
        parts |= {"value": shown(value), "suggestion": f"Write a text with its unit, as {text}"}
        error = user_error(**parts, sort=type(error))
    brief = next((one for one, full in SHORT.items() if full == parts["place"] and one in changes), "")
    if brief:
        return user_error(**{**parts, "place": f"{brief} ({parts['place']})"}, sort=type(error))
    path = parts["value"].strip("'")
    if parts["suggestion"] or path not in changes or path in SHORT:
        return error
    hint = nearest(path, SHORT) or _by_end(path)
    return user_error(**{**parts, "suggestion": hint}) if hint else error
