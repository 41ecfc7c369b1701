"""Machines: chips as data."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .. import _core
from ..base.arguments import json_text
from ..base.checked import checked_class
from ..base.errors import nearest, path_text, shown, user_error
from ..base.paths import configs_dir
from ..base.presets import preset_file
from .dram_part import Part

__all__ = ["Machine"]


# Short names of settings that are asked for most.
SHORT = {"core.arrays": "core.array.count", "cores": "core.count"}


@lru_cache(maxsize=64)
def _fits(part: str, mapping: str, bank_hash: str) -> None:
    Part.load(part).core.check_mapping(mapping, bank_hash)


@checked_class("source")
class Machine:
    """A chip: memory, network, cores with arrays, vector unit, scratchpad and DMA; every number with its source."""

    def __init__(self, core: _core.Machine) -> None:
        """Wraps a machine of the core; use `load`.

        Args:
            core: the compiled description.
        """
        self.core = core

    @classmethod
    def names(cls) -> list[str]:
        """The shipped presets.

        Returns:
            Their names, sorted.
        """
        return sorted(path.stem for path in (configs_dir() / "machines").glob("*.json"))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Machine) -> Machine:
        """A machine from a preset's name, a file, or a dict.

        Args:
            source: preset name, path of a `.json` file, or the file's content as a dict. A file may name files of a
                network (`network.kind`) and a DRAM part (`memory.part`) beside or below itself.

        Returns:
            The machine, checked.

        Raises:
            UserError: for an unknown preset, key, unit or value, with its place and what is allowed.
        """
        if isinstance(source, Machine):
            return source
        if isinstance(source, Mapping):
            try:
                entries = dict(source)
            except Exception as error:  # of the object's own
                raise user_error("this is no machine", value=shown(error), allowed="a dict") from None
            return cls(_core.Machine.from_json(json_text(entries, "dict"), "dict"))._checked()
        path = preset_file(source, "machines", "machine", cls.names())
        return cls(_core.Machine.read_file(path))._confined(os.path.dirname(path))._checked()

    def _confined(self, directory: str) -> Machine:
        """The machine of a file, which may name shipped parts and networks, and files beside or below itself.

        Args:
            directory: of the file.

        Returns:
            The machine; relative paths are of the directory.

        Raises:
            UserError: where it names a file elsewhere: one from a stranger could name any file of its reader.
        """
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
                    "a machine's file names a file outside of its directory",
                    place=setting,
                    value=shown(name),
                    allowed=f"a shipped name, or a file in {base}",
                    suggestion=f'For one that you trust: replace({{"{setting}": ...}})',
                )
            if os.path.isfile(path) and not os.path.isabs(name):
                found[setting] = path
        return self.replace(found) if found else self

    def _repr_html_(self) -> str:
        from .pictures import picture

        return picture(self)

    @property
    def name(self) -> str:
        """Name of the preset or file."""
        return self.core.name

    @property
    def description(self) -> str:
        """One line."""
        return self.core.description

    @property
    def hertz(self) -> int:
        """Core clock in Hz."""
        return self.core.hertz

    @property
    def sorts(self) -> dict[str, list[int]]:
        """Sorts of cores with the numbers of their cores; empty where all cores are alike."""
        return dict(self.core.sorts)

    def only(self, sort: str) -> Machine:
        """The machine as cores of one sort see it when they are alone.

        Args:
            sort: a name of `sorts`.

        Returns:
            A machine whose cores are those of the sort.

        Raises:
            UserError: for an unknown sort.
        """
        return Machine(self.core.only(sort))

    @property
    def sources(self) -> dict[str, str]:
        """Setting path to where its number comes from."""
        return dict(self.core.sources)

    def replace(self, changes: Mapping[str, Any]) -> Machine:
        """A copy with settings changed.

        Args:
            changes: setting path ("core.array.count", or "core.arrays" for short) to value as in a file ("1 GHz", 2).
                "cores" takes a number or a list of sorts; "cores.little.count" and "cores.little.core.array.rows"
                change one of them.

        Returns:
            The changed machine.

        Raises:
            UserError: for an unknown path (with the nearest one), a value out of range, or values that contradict each
                other (regions that do not divide cores and channels, a mapping that does not cover the DRAM part).
        """
        if not isinstance(changes, Mapping) or not all(isinstance(path, str) for path in changes):
            raise user_error("changes go by setting path", value=shown(changes), allowed='as {"core.array.count": 2}')
        texts = {
            path if path == "cores" and isinstance(value, list) else SHORT.get(path, path): json_text(value, path)
            for path, value in changes.items()
        }
        changed = Machine(self.core.replace(texts))
        checked = ("memory.part", "memory.mapping", "memory.bank_hash", "network.kind")
        return changed._checked() if any(path in checked for path in texts) else changed

    def _checked(self) -> Machine:
        """The machine, if the files that it names exist and its mapping fits its DRAM part."""
        settings = self.to_dict()
        memory, kind = settings["memory"], settings["network"]["kind"]
        if kind.endswith(".json") and not os.path.isfile(kind):
            raise user_error("the network's file does not exist", place="network.kind", value=kind)
        if memory["part"]:
            _fits(memory["part"], memory["mapping"], memory["bank_hash"])
        return self

    def to_dict(self) -> dict[str, Any]:
        """Every setting.

        Returns:
            The resolved JSON form, which `load` reads back.
        """
        result: dict[str, Any] = json.loads(self.core.to_json())
        return result

    def get(self, path: str) -> Any:
        """One setting.

        Args:
            path: "core.array.count".

        Returns:
            Its value as in a file.

        Raises:
            UserError: for an unknown path.
        """
        value: Any = self.to_dict()
        for key in SHORT.get(path, path).split("."):
            if not isinstance(value, dict) or key not in value:
                raise user_error("unknown setting", value=f"'{path}'", suggestion=nearest(path, self.sources))
            value = value[key]
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies by the JSON form."""
        return Machine.load, (self.to_dict(),)

    def __repr__(self) -> str:
        """Name and description."""
        return f"<Machine {self.name}: {self.description}>"


MachineLike = Machine | str | os.PathLike[str] | Mapping[str, Any]
