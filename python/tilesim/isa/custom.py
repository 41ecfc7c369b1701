"""Declares custom instructions, which are assembled, run and timed like standard ones."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from .. import _core
from ..base.arguments import integer, one_of
from ..base.checked import checked
from ..base.errors import nearest, shown, user_error
from .native import native
from .semantics import Semantics, element_type

__all__ = ["Instruction", "Unit", "define", "unit"]

_UNITS = ("arithmetic", "special", "cross-lane", "matrix", "load", "store")
# major opcodes (unprivileged architecture, table "RISC-V base opcode map"), with the low two bits set
_OPCODES = {
    "LOAD": 0x03, "LOAD-FP": 0x07, "custom-0": 0x0B, "MISC-MEM": 0x0F, "OP-IMM": 0x13, "AUIPC": 0x17, "OP-IMM-32": 0x1B,
    "STORE": 0x23, "STORE-FP": 0x27, "custom-1": 0x2B, "AMO": 0x2F, "OP": 0x33, "LUI": 0x37, "OP-32": 0x3B,
    "MADD": 0x43, "MSUB": 0x47, "NMSUB": 0x4B, "NMADD": 0x4F, "OP-FP": 0x53, "OP-V": 0x57, "custom-2": 0x5B,
    "BRANCH": 0x63, "JALR": 0x67, "JAL": 0x6F, "SYSTEM": 0x73, "custom-3": 0x7B,
}  # fmt: skip
# operand word -> lowest bit and width of its field; the words are those of cpp/tilesim/isa/table/operands.cpp
_FIELDS = {
    **{word: (7, 5) for word in ("rd", "fd", "vd")},
    **{word: (15, 5) for word in ("rs1", "fs1", "vs1", "simm5", "zimm5")},
    **{word: (20, 5) for word in ("rs2", "fs2", "vs2", "shamt5")},
    "vm": (25, 1),
    "i12": (20, 12),
}


@dataclasses.dataclass(frozen=True)
class Unit:
    """An additional unit of a core; `unit` creates it."""

    name: str
    queue: int = 4
    pipes: int = 1


@dataclasses.dataclass(frozen=True)
class Instruction:
    """A custom instruction, created by `define`, for cores that are extended with it."""

    text: str
    name: str
    operands: tuple[str, ...]
    match: int
    mask: int
    semantics: Callable[..., Any]
    element: str | None
    unit: str | Unit
    cycles_per_register: float | None
    cycles: float | None
    latency: float | None
    description: str

    @property
    def reads_old(self) -> bool:
        """Whether the old value of the destination is an operand: "vd+"."""
        return any(word.endswith("+") for word in self.operands)

    @property
    def words(self) -> tuple[str, ...]:
        """The operand words that the assembler knows."""
        return tuple(word.rstrip("+") for word in self.operands)

    @property
    def declared(self) -> dict[str, Any]:
        """The declaration as plain values, without the semantics."""
        own = self.unit if isinstance(self.unit, Unit) else None
        return {
            "text": f"{self.name} {', '.join(self.operands)}".strip(),
            "match": self.match,
            "mask": self.mask,
            "element": self.element,
            "width": 0 if self.element is None else 8 * element_type(self.element).itemsize,
            "unit": ("arithmetic" if self.vector else "scalar") if own else str(self.unit),
            "own_unit": dataclasses.asdict(own) if own else None,
            "cycles_per_register": self.cycles_per_register,
            "cycles": self.cycles,
            "latency": self.latency,
            "description": self.description,
        }

    @property
    def vector(self) -> bool:
        """Whether the instruction has vector operands."""
        return any(word[0] == "v" for word in self.words)

    def __repr__(self) -> str:
        """The text and the code."""
        return f"<instruction {self.text}: {self.match:#010x} / {self.mask:#010x}>"


@checked()
def unit(name: str, queue: int = 4, pipes: int = 1) -> Unit:
    """A unit for custom instructions with a separate queue: `core.extend(unit)` adds it.

    Args:
        name: as results call it; "special", "cross-lane" or "matrix" for cores that lack such pipes.
        queue: entries of its queue, 1 to 64.
        pipes: concurrent instructions, 1 to 8.

    Returns:
        The unit.

    Raises:
        UserError: for a name that every core has, numbers out of range.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or len(name) > 40:
        raise user_error("a unit's name is of letters, digits, '-' and '_'", place="name", value=shown(name))
    if name in ("arithmetic", "load", "store", "front", "scalar", "control"):
        raise user_error("every core already has this unit", place="name", value=name, allowed="another name")
    return Unit(name, integer("queue", queue, 1, 64), integer("pipes", pipes, 1, 8))


def _at(column: int) -> str:
    return f"text, column {column + 1}"


def _read(text: str) -> tuple[str, tuple[str, ...]]:
    """Splits a text into mnemonic and operand words."""
    start = len(text) - len(text.lstrip())
    found = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*").match(text, start)
    if found is None or (found.end() < len(text) and not text[found.end()].isspace()):
        at = start if found is None else found.end()
        raise user_error(
            "missing mnemonic",
            place=_at(at),
            value=shown(text[at : at + 1]),
            allowed='such as "my.vexp2 vd, vs2"',
        )
    words: list[str] = []
    at = found.end()
    if not text[at:].strip():
        return found.group(), ()
    for part in text[at:].split(","):
        word, column = part.strip(), at + len(part) - len(part.lstrip())
        plain = word.rstrip("+")
        if plain not in _FIELDS or len(word) - len(plain) > 1:
            raise user_error(
                "missing operand" if not word else "unknown operand",
                place=_at(min(column, len(text) - 1)),
                value=shown(word),
                allowed=", ".join(_FIELDS) + "; vd+, rd+, fd+ where the old value is read",
                suggestion=nearest(plain, _FIELDS) if word else "",
            )
        if word != plain and plain not in ("vd", "rd", "fd"):
            raise user_error(
                "only a destination may be both read and written", place=_at(column), value=word, allowed=plain
            )
        for other in words:
            mine, theirs = _bits(plain), _bits(other.rstrip("+"))
            if mine & theirs:
                raise user_error(
                    f"this operand uses the same bits as '{other}'",
                    place=_at(column),
                    value=word,
                    allowed="another field",
                )
        words.append(word)
        at += len(part) + 1
    return found.group(), tuple(words)


def _bits(word: str) -> int:
    low, width = _FIELDS[word]
    return (1 << width) - 1 << low


def _opcode(opcode: Any) -> int:
    if isinstance(opcode, str):
        if opcode not in _OPCODES:
            raise user_error(
                "unknown opcode",
                place="opcode",
                value=shown(opcode),
                allowed=", ".join(_OPCODES) + ", or a number",
                suggestion=nearest(opcode, _OPCODES),
            )
        return _OPCODES[opcode]
    number = integer("opcode", opcode, 0, 127)
    if number & 3 != 3 or number & 0x1C == 0x1C:
        raise user_error(
            "this opcode belongs to instructions of another length",
            place="opcode",
            value=f"{number:#04x}",
            allowed="numbers whose bits 1 and 0 are set and whose bits 4 to 2 are not all set",
        )
    return number


def _code(words: tuple[str, ...], opcode: Any, funct3: int, funct7: int | None, funct6: int | None) -> tuple[int, int]:
    """Returns match and mask of the code; fields that are neither operands nor given are zero."""
    match = _opcode(opcode) | integer("funct3", funct3, 0, 7) << 12
    vector = any(word[0] == "v" for word in words)
    if funct7 is not None and funct6 is not None:
        raise user_error("both funct6 and funct7 are given", place="funct6, funct7")
    if vector and funct7 is not None:
        raise user_error(
            "a vector instruction has a funct6, and the bit of its mask",
            place="funct7",
            value=shown(funct7),
            allowed="funct6=",
        )
    if vector and "i12" in words:
        raise user_error("a vector instruction has no field for it", place="text", value="i12", allowed="simm5, zimm5")
    if "i12" in words and (funct6 is not None or funct7 is not None):
        raise user_error("i12 uses the same bits as funct6 and funct7", place="funct6, funct7", allowed="neither")
    top = integer("funct7", funct7, 0, 127) << 25 if funct7 is not None else integer("funct6", funct6 or 0, 0, 63) << 26
    if vector and "vm" not in words:
        top |= 1 << 25  # the instruction is never masked
    mask = (1 << 32) - 1
    for word in words:
        mask &= ~_bits(word.rstrip("+"))
    return (match | top) & mask, mask


def _cycles(name: str, value: Any, least: float) -> float | None:
    if value is None:
        return None
    number = math.nan
    if not isinstance(value, (bool, str, bytes)):
        try:
            number = float(value)
        except Exception:  # an error inside the object's attributes also ends here
            number = math.nan
    if not least <= number <= 1e6:
        raise user_error("out of range", place=name, value=shown(value), allowed=f"{least:g} to 1e6 cycles")
    return number


def _unit(given: Any, vector: bool) -> str | Unit:
    if given is None:
        return "arithmetic" if vector else "scalar"
    if isinstance(given, Unit):
        return given
    one_of("unknown unit", "unit", given, *_UNITS)
    return str(given)


@checked()
def define(
    text: str,
    opcode: str | int,
    funct3: int = 0,
    funct7: int | None = None,
    funct6: int | None = None,
    semantics: Callable[..., Any] | str | None = None,
    element: str | None = None,
    unit: str | Unit | None = None,
    cycles_per_register: float | None = None,
    cycles: float | None = None,
    latency: float | None = None,
    description: str = "",
) -> Instruction:
    """Defines a custom instruction, which `core.extend(instruction)` adds to a core.

    Args:
        text: mnemonic and operands as the assembler reads them: "my.vexp2 vd, vs2", "my.vmix vd+, vs2, rs1, vm",
            "my.pack rd, rs1, rs2". Vector operands are OP-V's fields; a "+" says that the old value is read.
        opcode: "custom-0" to "custom-3" (custom-0, and custom-3 with funct3 from 4 on, are kept free), another major
            opcode's name, or its number with the two low bits set.
        funct3: field of the code.
        funct7: field of a scalar instruction.
        funct6: field of a vector instruction, whose bit 25 is vm: an operand, or 1.
        semantics: gets the operands in the order of `text`, without what is only written: a vector operand as a numpy
            array of the active elements, x registers, numbers and f registers as Python numbers. It returns what is
            written: an array of the same shape and dtype, or a number; None where nothing is. NaN become canonical.
            Or a function of a library, `void f(void *vd, const void *const *operands, size_t count)`, as
            "lib.so:symbol" or a function pointer of ctypes: vectors as `count` active elements, x registers and numbers
            as int64_t, f registers as their 64 bits. It runs without Python's lock, on several threads at once.
        element: dtype of elements: "f32", "bf16", "i8", ...; an instruction with vector operands traps unless SEW is as
            wide. None: unsigned integers as wide as SEW. f registers hold it too (None: "f64").
        unit: its pipe: "arithmetic", "special", "cross-lane", "matrix", "load", "store", or a result of `unit`.
            None: "arithmetic" with vector operands, else only the front end.
        cycles_per_register: it holds its pipe so long for each register of the group.
        cycles: it holds its pipe so long, whatever the group.
        latency: cycles from the start of a beat until a consumer may start on its result. Missing numbers are those of
            the unit's class on the core.
        description: a sentence for lists.

    Returns:
        The instruction, a value.

    Raises:
        UserError: for an encoding in the standard table (with its instruction), an unknown opcode, unit or element
            (with the nearest), an invalid text (with the column), a missing library or symbol.
    """
    name, operands = _read(text)
    words = tuple(word.rstrip("+") for word in operands)
    match, mask = _code(words, opcode, funct3, funct7, funct6)
    vector = any(word[0] == "v" for word in words)
    if vector and words == ("vm",):
        raise user_error("vm without vector operands", place="text", value=text)
    if element is not None:
        element_type(element)
    runs_on = _unit(unit, vector)
    per_register = _cycles("cycles_per_register", cycles_per_register, 1 / 256)
    held, after = _cycles("cycles", cycles, 1), _cycles("latency", latency, 0)
    if per_register is not None and held is not None:
        raise user_error("both cycles_per_register and cycles are given", place="cycles_per_register, cycles")
    if per_register is not None and not vector:
        raise user_error(
            "cycles_per_register does not apply to a scalar instruction", place="cycles_per_register", allowed="cycles="
        )
    if held is not None and runs_on == "scalar":
        raise user_error(
            "cycles do not apply to an instruction without a unit",
            place="cycles",
            value=shown(cycles),
            allowed="latency=, or unit=",
        )

    def made(meaning: Callable[..., Any]) -> Instruction:
        return Instruction(
            text, name, operands, match, mask, meaning, element, runs_on, per_register, held, after, description
        )

    set_of((made(_no_meaning),))  # raises errors of the encoding before errors of missing semantics
    semantics = native(semantics)
    if semantics is None or not callable(semantics):
        raise user_error(
            "the semantics are not a function",
            place="semantics",
            value=shown(semantics),
            allowed='such as np.exp2, or "lib.so:symbol"',
        )
    return made(semantics)


def _no_meaning(*_: Any) -> None:
    """Placeholder of the semantics while an instruction is checked."""


def set_of(instructions: Iterable[Any], base: Any = None) -> Any:
    """Adds these instructions to the standard table (or `base`), in the form of the core."""
    held = _core.IsaSet() if base is None else base
    known: list[Instruction] = []
    for index, one in enumerate(instructions):
        if not isinstance(one, Instruction):
            raise user_error(
                "not an instruction",
                place=f"instructions[{index}]",
                value=shown(one),
                allowed="results of ts.isa.define",
            )
        if one in known:  # equal values are one instruction
            continue
        known.append(one)
        held = held.extend(one.declared, Semantics(one))
    return held


def key_of(instructions: Iterable[Instruction], units: Iterable[Unit]) -> str:
    """Returns a text of everything on which timing depends."""
    return json.dumps([[one.declared for one in instructions], [dataclasses.asdict(one) for one in units]])
