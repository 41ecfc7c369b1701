"""Converts instructions from and to text: table, assembler, disassembler."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Any

from .. import _core
from ..base.arguments import integer
from ..base.checked import checked
from ..base.errors import nearest, shown, user_error
from ..results.result import Table
from .custom import Instruction, set_of

__all__ = ["assemble", "disassemble", "instructions"]

BASE = 0x10000
_FLOATS = re.compile(r"vm?f(?!irst)")  # float mnemonics of V, which all have a 16-bit form


@checked()
def instructions(extension: str | None = None) -> Table:
    """Returns the instruction table.

    Args:
        extension: only instructions of this one ("I", "M", "A", "F", "D", "C", "Zba", "V", "Zvfh", ...); all by
            default.

    Returns:
        Rows with name, operands, match, mask, extension, unit, timing, compressed, description. The rows of
        Zvfh are the instructions of V on floats of 16 bits, with extension V.

    Raises:
        UserError: for an unknown extension, with the nearest name.
    """
    rows: list[dict[str, Any]] = _core.isa_instructions()
    if extension is None:
        return Table(rows)
    known = {row["extension"].lower(): row["extension"] for row in rows} | {"zvfh": "Zvfh"}
    found = known.get(extension.strip().lower())
    if found is None:
        raise user_error(
            "unknown extension",
            place="extension",
            value=shown(extension),
            allowed=", ".join(sorted(known.values())),
            suggestion=nearest(extension, known.values()),
        )
    if found == "Zvfh":
        return Table([row for row in rows if row["extension"] == "V" and _FLOATS.match(row["name"])])
    return Table([row for row in rows if row["extension"] == found])


@checked()
def disassemble(bits: int, address: int = 0, instructions: Iterable[Instruction] = ()) -> str:
    """Disassembles one instruction to text that `assemble` accepts.

    Args:
        bits: as in memory; the low 16 are a compressed instruction where bits 1 and 0 are not both set.
        address: address of the instruction.
        instructions: custom instructions from `define`, beside the table's.

    Returns:
        Such as "addi a0, a1, -3"; ".word 0x..." (".half") for other bits.
    """
    return _core.isa_disassemble(
        integer("bits", bits, 0, 2**32 - 1), integer("address", address, 0), set_of(instructions)
    )


@checked()
def assemble(text: str, instructions: Iterable[Instruction] = ()) -> bytes:
    """Assembles a program from text.

    Args:
        text: instructions, pseudo-instructions, labels, data directives. It begins at `_start`, or with its first line.
        instructions: custom instructions from `define`, beside the table's.

    Returns:
        A static ELF file with a symbol for each label; one segment holds code and data and may be written.

    Raises:
        UserError: with line and column, and the nearest mnemonic.
    """
    code, labels = _core.isa_assemble(text, BASE, set_of(instructions))
    if not code:
        raise user_error("the program has no instructions")
    return elf_of(code, labels, labels.get("_start", BASE))


def elf_of(code: bytes, labels: dict[str, int], entry: int, zeros: int = 0) -> bytes:
    """Builds an ELF-64 file of one segment, followed by this many zeros, with sections for the symbols (format 1.5)."""
    names = b"\0" + b"".join(label.encode() + b"\0" for label in labels)
    symbols, at = bytes(24), 1
    for label, address in labels.items():
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0, 1, address, 0)
        at += len(label.encode()) + 1
    titles = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    offset = 0x1000
    parts = [code, symbols, names, titles]
    offsets = []
    for part in parts:
        offsets.append(offset)
        offset += len(part) + -len(part) % 8
    section = struct.Struct("<IIQQQQIIQQ")
    table = bytes(64)
    table += section.pack(1, 1, 7, BASE, offsets[0], len(code), 0, 0, 4, 0)
    table += section.pack(7, 2, 0, 0, offsets[1], len(symbols), 3, 1, 8, 24)
    table += section.pack(15, 3, 0, 0, offsets[2], len(names), 0, 0, 1, 0)
    table += section.pack(23, 3, 0, 0, offsets[3], len(titles), 0, 0, 1, 0)
    # these flags mean compressed instructions and 64-bit floats in registers
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, entry, 64, offset, 5, 64, 56, 1, 64, 5, 4)
    head += struct.pack("<IIQQQQQQ", 1, 7, 0x1000, BASE, BASE, len(code), len(code) + zeros, 0x1000)
    body = b"".join(part + bytes(-len(part) % 8) for part in parts)
    return head + bytes(0x1000 - len(head)) + body + table
