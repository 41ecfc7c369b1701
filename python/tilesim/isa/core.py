"""Defines a RISC-V core as software sees it."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import shown, user_error
from ..base.files import parse_json, read_text
from ..base.paths import configs_dir
from ..base.presets import preset_file
from ..machine.machine import Machine
from .custom import Instruction, Unit, set_of

__all__ = ["Core", "core_of", "time_on"]

_WIDTHS = tuple(1 << power for power in range(7, 17))


def _generic() -> dict[str, Any]:
    path = str(configs_dir() / "cores" / "generic.json")
    return dict(parse_json(read_text(path), path))


def vlen_of(value: Any, place: str) -> int:
    """Checks the length of a vector register."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in _WIDTHS:
        raise user_error(
            "the bits of a vector register must be a power of two",
            place=place,
            value=str(value),
            allowed=", ".join(map(str, _WIDTHS)),
        )
    return value


@checked_class()
class Core:
    """A RISC-V core as software sees it."""

    def __init__(self, name: str = "generic", vlen: int = 256, timing: dict[str, Any] | None = None) -> None:
        """Creates a core; usually call `load` or `from_machine`."""
        self.name, self.vlen = name, vlen_of(vlen, "vlen")
        self._timing, self._file = timing, "core"
        self._text: str | None = None  # text of the core's file, so that errors name its lines
        self._instructions: tuple[Instruction, ...] = ()
        self._units: tuple[Unit, ...] = ()
        self._of_machine: tuple[Unit, ...] = ()  # units that the core's machine states
        self._held: Any = None
        self.machine: Machine | None = None  #: the machine to which the core belongs

    @classmethod
    def load(cls, name: str | os.PathLike[str] = "generic") -> Core:
        """Loads a shipped core or a file.

        Args:
            name: of a shipped core, or a path of a `tilesim.core` file.

        Returns:
            The core.

        Raises:
            UserError: for an unknown name, with the nearest; for an invalid file.
        """
        path = preset_file(name, "cores", "core", cls.names())
        text = read_text(path)
        data = parse_json(text, str(path))
        if not isinstance(data, dict) or data.get("schema") != "tilesim.core" or data.get("version") != 1:
            raise user_error(
                "the file does not describe a core", place=str(path), allowed='"schema": "tilesim.core", "version": 1'
            )
        loaded = cls(str(data.get("name", name)), vlen_of(data.get("vlen"), f"{path}: vlen"), data)
        loaded._file, loaded._text = str(path), text
        return loaded

    @classmethod
    def from_machine(cls, machine: str | Machine) -> Core:
        """Returns the core of a machine: a vector register has 32 bits for each lane and sublane.

        Args:
            machine: a preset's name, a file, or a Machine.

        Returns:
            The core.

        Raises:
            UserError: unless that is a power of two from 128 to 65,536.
        """
        loaded = machine if isinstance(machine, Machine) else Machine.load(machine)
        settings = loaded.to_dict()
        vector, stated = settings["core"]["vector"], int(settings["core"].get("isa", {}).get("vlen", 0))
        bits = stated or 32 * int(vector["lanes"]) * int(vector["sublanes"])
        place = "core.isa.vlen" if stated else "32 × core.vector.lanes × core.vector.sublanes"
        vlen = vlen_of(bits, f"{loaded.name}: {place}")
        core = cls(loaded.name, vlen, {"schema": "tilesim.core", "version": 1, "machine": settings})
        core.machine = loaded
        # instructions that the machine's kernels use for functions; the core has only those with known semantics
        own = [one.of for one in _core.isa_functions(loaded.core).values() if one is not None]
        own = [one for index, one in enumerate(own) if one not in own[:index]]  # it may stand for several functions
        core._held, core._instructions = set_of(own) if own else None, tuple(own)
        core._units = core._of_machine = tuple(dict.fromkeys(one.unit for one in own if isinstance(one.unit, Unit)))
        return core

    def extend(self, *added: Instruction | Unit) -> Core:
        """Returns a core that also has these instructions and units.

        Args:
            added: results of `ts.isa.define` and `ts.isa.unit`; a unit comes before the instructions that run on it.

        Returns:
            The new core.

        Raises:
            UserError: for an encoding or a name in use (with its user), or a unit missing from the core.
        """
        wider = _copy(self, self.vlen)
        for one in added:
            if isinstance(one, Unit):
                wider._add_unit(one)
            elif isinstance(one, Instruction) and one in wider._instructions:
                continue
            elif isinstance(one, Instruction):
                wider._held = set_of((one,), wider._held)
                wider._instructions += (one,)
                wider._has_unit(one)
            else:
                raise user_error(
                    "neither an instruction nor a unit",
                    place="added",
                    value=shown(one),
                    allowed="results of ts.isa.define and ts.isa.unit",
                )
        return wider

    def _add_unit(self, added: Unit) -> None:
        pipes = json.loads(self.timing).get("pipes", {})
        if any(one.name == added.name for one in self._units) or pipes.get(added.name.replace("-", "_"), 0):
            raise user_error("the core already has a unit of this name", place=f"core '{self.name}'", value=added.name)
        self._units += (added,)
        _core.IsaSet().check(self.timing)  # the machine's units are known to this set

    def _has_unit(self, instruction: Instruction) -> None:
        if isinstance(instruction.unit, Unit) and instruction.unit not in self._units:
            known = [one.name for one in self._units]
            raise user_error(
                f"'{instruction.name}' runs on a unit that the core does not have",
                place=f"core '{self.name}'",
                value=instruction.unit.name,
                allowed=", ".join(known) if known else "no separate unit",
                suggestion="Extend the core by the unit first: core.extend(unit, instruction).",
            )

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Custom instructions of the core."""
        return self._instructions

    @property
    def units(self) -> tuple[Unit, ...]:
        """Custom units of the core."""
        return self._units

    @property
    def timing(self) -> str:
        """The core for a timed run, as the text of a `tilesim.core` file."""
        data = {**(self._timing or _generic()), "name": self.name, "vlen": self.vlen}
        if added := [one for one in self._units if one not in self._of_machine]:
            data["units"] = [*data.get("units", []), *map(dataclasses.asdict, added)]
        return json.dumps(data)

    @staticmethod
    def names() -> list[str]:
        """Lists the shipped cores.

        Returns:
            Names, sorted.
        """
        return sorted(path.stem for path in (configs_dir() / "cores").glob("*.json"))

    def __repr__(self) -> str:
        """Name and vector length."""
        return f"<core {self.name}: VLEN {self.vlen:,}>"


def _copy(core: Core, vlen: int) -> Core:
    made = Core(core.name, vlen, core._timing)
    made._instructions, made._units, made._held = core._instructions, core._units, core._held
    made._file, made.machine, made._of_machine = core._file, core.machine, core._of_machine
    made._text = core._text if vlen == core.vlen else None
    return made


def core_of(core: str | os.PathLike[str] | Core | None, machine: str | Machine | None, vlen: int | None) -> Core:
    """Finds the core of a call: a named core, a machine's, or the generic one, with another vlen if requested."""
    if core is not None and machine is not None:
        raise user_error("both a core and a machine are given", place="core, machine")
    if machine is not None:
        found = Core.from_machine(machine)
    else:
        found = core if isinstance(core, Core) else Core.load("generic" if core is None else core)
    if vlen is None:
        return found
    if found.machine is not None:
        raise user_error(
            "vlen does not apply to a machine's core, whose registers are as long as its units",
            place="vlen",
            value=str(vlen),
            allowed=str(found.vlen),
            suggestion="set core.isa.vlen of the machine",
        )
    return _copy(found, vlen_of(vlen, "vlen"))


def time_on(core: Core, program: Any) -> None:
    """Lets a core's pipeline time a program of the core; a `UserError` names file and line of a number that must not
    be there."""
    as_in_file = core._text is not None and not core.units
    program.time(core._text if as_in_file else core.timing, core._file)
