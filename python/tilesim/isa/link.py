"""Links one object file to a program: places sections and applies relocations (RISC-V ELF psABI 1.0, chapter 8.4)."""

from __future__ import annotations

from typing import Any

from ..base.errors import user_error
from .libc import FUNCTIONS, code_of

_BASE = 0x10000
_MASK = (1 << 64) - 1
# numbers of the relocation types
_ABS32, _ABS64, _BRANCH, _JAL, _CALL, _CALL_PLT = 1, 2, 16, 17, 18, 19
_PCREL_HI, _PCREL_LO_I, _PCREL_LO_S, _HI, _LO_I, _LO_S = 23, 24, 25, 26, 27, 28
_ADD, _SUB = {33: 1, 34: 2, 35: 4, 36: 8}, {37: 1, 38: 2, 39: 4, 40: 8}
_ALIGN, _RVC_BRANCH, _RVC_JUMP, _RELAX, _PCREL32 = 43, 44, 45, 51, 57
_SET = {54: 1, 55: 2, 56: 4}


def _page(address: int) -> int:
    return (address + 4095) // 4096 * 4096


def _signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _field(value: int, *pieces: tuple[int, int, int]) -> int:
    """Moves bits of a value, for each piece (place, start, count): `count` bits from `start` on go to `place`."""
    return sum((value >> start & (1 << count) - 1) << place for place, start, count in pieces)


class _Section:
    def __init__(self, address: int, data: bytearray, flags: int) -> None:
        self.address, self.size, self.data = address, len(data), data
        self.access = 1 | (2 if flags & 1 else 0) | (4 if flags & 4 else 0)


class _Linker:
    def __init__(self, elf: Any, name: str) -> None:
        self.elf, self.name = elf, name
        self.sections: dict[int, _Section] = {}
        self.high: dict[int, int] = {}  # address of each auipc -> its distance
        address = _BASE
        for index, section in enumerate(elf.iter_sections()):
            if not section["sh_flags"] & 2 or section["sh_size"] == 0:
                continue
            if section["sh_size"] > 1 << 28:
                raise user_error("a section has an impossible size", place=name, value=str(section["sh_size"]))
            empty = section["sh_type"] == "SHT_NOBITS"
            data = bytearray(section["sh_size"] if empty else section.data())
            self.sections[index] = _Section(address, data, section["sh_flags"])
            address = _page(address + section["sh_size"])  # other access rights need a separate page
        if not self.sections:
            raise user_error("this object file has no code", place=name)
        self.table = elf.get_section_by_name(".symtab")
        lacking = {one.name for one in self.all_symbols() if one["st_shndx"] == "SHN_UNDEF"}
        self.added: list[tuple[int, int, str]] = []
        if names := [one for one in FUNCTIONS if one in lacking]:
            code, self.added = code_of(names, address)
            self.sections[-1] = _Section(address, bytearray(code), 4)

    def all_symbols(self) -> Any:
        return self.table.iter_symbols() if self.table is not None else ()

    def place(self, symbol: Any) -> int:
        where = symbol["st_shndx"]
        if where == "SHN_ABS":
            return int(symbol["st_value"])
        if isinstance(where, int) and where in self.sections:
            return int(self.sections[where].address + symbol["st_value"])
        for address, _, name in self.added:
            if where == "SHN_UNDEF" and name == symbol.name:
                return address
        raise user_error(
            "undefined symbol in the object file",
            place=self.name,
            value=symbol.name,
            allowed=f"symbols of the file, {', '.join(FUNCTIONS)}",
            suggestion="Link it with the missing code, or compile it with -ffreestanding.",
        )

    def apply(self, section: _Section, entry: Any) -> None:
        kind, at = entry["r_info_type"], entry["r_offset"]
        if kind in (0, _ALIGN, _RELAX):
            return
        symbol = self.table.get_symbol(entry["r_info_sym"])
        target = (self.place(symbol) + entry["r_addend"]) & _MASK
        here = section.address + at
        if kind in (_ABS32, _PCREL32):
            self.put(section, at, 4, target - (here if kind == _PCREL32 else 0))
        elif kind == _ABS64:
            self.put(section, at, 8, target)
        elif kind in _ADD or kind in _SUB:
            size = (_ADD if kind in _ADD else _SUB)[kind]
            self.put(section, at, size, self.get(section, at, size) + (target if kind in _ADD else -target))
        elif kind in _SET:
            self.put(section, at, _SET[kind], target)
        else:
            self.instruction(section, at, kind, target, _signed(target - here), target)

    def get(self, section: _Section, at: int, size: int) -> int:
        return int.from_bytes(section.data[at : at + size], "little")

    def put(self, section: _Section, at: int, size: int, value: int) -> None:
        if at + size > len(section.data):
            raise user_error("a relocation lies outside its section", place=self.name, value=str(at))
        section.data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def merge(self, section: _Section, at: int, bits: int, mask: int, size: int = 4) -> None:
        self.put(section, at, size, self.get(section, at, size) & ~mask | bits)

    def instruction(self, section: _Section, at: int, kind: int, target: int, distance: int, label: int) -> None:
        low_i, low_s = (20, 0, 12), ((7, 0, 5), (25, 5, 7))
        jump = ((3, 1, 3), (11, 4, 1), (2, 5, 1), (7, 6, 1), (6, 7, 1), (9, 8, 2), (8, 10, 1), (12, 11, 1))
        if kind == _BRANCH:
            self.reach(distance, 13)
            self.merge(section, at, _field(distance, (8, 1, 4), (25, 5, 6), (7, 11, 1), (31, 12, 1)), 0xFE000F80)
        elif kind == _JAL:
            self.reach(distance, 21)
            self.merge(section, at, _field(distance, (21, 1, 10), (20, 11, 1), (12, 12, 8), (31, 20, 1)), 0xFFFFF000)
        elif kind == _RVC_BRANCH:
            self.reach(distance, 9)
            pieces = ((3, 1, 2), (10, 3, 2), (2, 5, 1), (5, 6, 2), (12, 8, 1))
            self.merge(section, at, _field(distance, *pieces), 0x1C7C, 2)
        elif kind == _RVC_JUMP:
            self.reach(distance, 12)
            self.merge(section, at, _field(distance, *jump), 0x1FFC, 2)
        elif kind in (_CALL, _CALL_PLT):
            self.merge(section, at, distance + 0x800 & 0xFFFFF000, 0xFFFFF000)
            self.merge(section, at + 4, _field(distance, low_i), 0xFFF00000)
        elif kind in (_PCREL_HI, _HI):
            value = distance if kind == _PCREL_HI else target
            self.high[section.address + at] = value
            self.merge(section, at, value + 0x800 & 0xFFFFF000, 0xFFFFF000)
        elif kind in (_PCREL_LO_I, _LO_I):
            value = self.high[label] if kind == _PCREL_LO_I else target
            self.merge(section, at, _field(value, low_i), 0xFFF00000)
        elif kind in (_PCREL_LO_S, _LO_S):
            value = self.high[label] if kind == _PCREL_LO_S else target
            self.merge(section, at, _field(value, *low_s), 0xFE000F80)
        else:
            raise user_error("unsupported relocation", place=self.name, value=str(kind))

    def reach(self, distance: int, bits: int) -> None:
        if not -(1 << bits - 1) <= distance < 1 << bits - 1:
            raise user_error("a jump is out of range", place=self.name, value=str(distance))


def link(elf: Any, name: str) -> tuple[dict[str, Any], list[tuple[int, int, str]]]:
    """Links one object file from address 0x10000 on."""
    linker = _Linker(elf, name)
    entries = [
        (linker.sections[section["sh_info"]], entry)
        for section in elf.iter_sections()
        if section["sh_type"] == "SHT_RELA" and section["sh_info"] in linker.sections
        for entry in section.iter_relocations()
    ]
    late = (_PCREL_LO_I, _PCREL_LO_S)  # these relocations read the auipc of their label
    for section, entry in sorted(entries, key=lambda pair: pair[1]["r_info_type"] in late):
        linker.apply(section, entry)
    symbols = [
        (linker.place(symbol), symbol["st_size"], symbol.name)
        for symbol in linker.all_symbols()
        if symbol.name
        and isinstance(symbol["st_shndx"], int)
        and symbol["st_shndx"] in linker.sections
        and not symbol.name.startswith(("$", ".L"))
    ] + linker.added
    where = {symbol: address for address, _, symbol in symbols}
    entry = where.get("_start", where.get("main", next(iter(linker.sections.values())).address))
    segments = [(part.address, bytes(part.data), part.size, part.access) for part in linker.sections.values()]
    image = {
        "segments": segments,
        "entry": entry,
        "headers": 0,
        "header_bytes": 56,
        "header_count": 0,
        "global_pointer": where.get("__global_pointer$", 0),
        "thread_data": b"",
        "thread_bytes": 0,
    }
    return image, symbols
