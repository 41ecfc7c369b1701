"""Reads programs from ELF files (pyelftools): segments, symbols, source lines."""

from __future__ import annotations

import bisect
import difflib
import io
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

from ..base.errors import Error, listed, nearest, path_text, user_error
from ..base.extras import need
from ..base.files import read_bytes

__all__ = ["Elf", "read_elf"]

_LARGEST = 1 << 32  # most bytes that a program may take in memory


class Elf:
    """A program: segments for the core, symbols and source lines for people."""

    def __init__(
        self,
        name: str,
        image: dict[str, Any],
        symbols: Callable[[], list[tuple[int, int, str]]],
        source: Any = None,
        sections: Callable[[], list[tuple[int, bytes]]] | None = None,
        functions: Callable[[], list[str]] | None = None,
    ) -> None:
        """Stores the parts of a program; use `read_elf`."""
        self.name, self.image = name, image
        self._read_symbols, self._source, self._sections = symbols, source, sections
        self._read_functions = functions
        self._lines: tuple[list[int], list[str | None]] | None = None

    @cached_property
    def _symbols(self) -> list[tuple[int, int, str]]:
        try:
            return sorted(self._read_symbols())
        except Exception:  # the symbol table is damaged, but the program runs without it
            return []

    def address(self, symbol: str, missing: int | None = None) -> int:
        """The address of a symbol."""
        for at, _, name in self._symbols:
            if name == symbol:
                return at
        if missing is not None:
            return missing
        suggestion, others = self._nearest(symbol)
        raise user_error("unknown symbol", place=self.name, value=symbol, allowed=others, suggestion=suggestion)

    def _nearest(self, symbol: str, most: int = 5) -> tuple[str, str]:
        """Suggested functions: the closest name, and a list with the most similar ones first."""
        names = {name for _, _, name in self._symbols}
        try:
            public = set(self._read_functions()) if self._read_functions is not None else names
        except Exception:  # the symbol table is damaged
            public = names
        known = sorted(public or names)  # public names are missing if all is assembly
        meant = nearest(symbol, known) or nearest(symbol, names)
        alike = [difflib.SequenceMatcher(None, symbol.lower(), name.lower()).ratio() for name in known]
        order = sorted(range(len(known)), key=lambda i: (known[i] != meant, -alike[i], known[i]))
        return meant, listed((known[i] for i in order), most)

    def check_entry(self) -> None:
        """Raises a `UserError` unless the program has an entry; its functions can be called without one."""
        if not self.image["entry"]:
            raise user_error(
                "the program has no entry point",
                place=self.name,
                allowed="an entry in executable memory",
                suggestion="Call one of its functions with ts.isa.call, or link it with -e SYMBOL",
            )

    def code(self) -> list[tuple[int, bytes]]:
        """Ranges of instructions: sections with code, or executable segments of a file without sections."""
        try:
            found = self._sections() if self._sections is not None else []
        except Exception:  # section headers are damaged, but the program runs without them
            found = []
        executable = [(address, data) for address, data, _, access in self.image["segments"] if access & 4]
        return sorted(found or executable)

    def labels(self) -> dict[int, list[str]]:
        """Maps addresses to the names of their symbols."""
        found: dict[int, list[str]] = {}
        for at, _, name in self._symbols:
            found.setdefault(at, []).append(name)
        return found

    def _at(self, address: int) -> tuple[str, int]:
        """Name and offset of the symbol at an address; an empty name if unknown."""
        index = bisect.bisect_right(self._symbols, (address, 1 << 64, "")) - 1
        while index >= 0:
            at, size, name = self._symbols[index]
            if address == at or address < at + size or size == 0:
                return name, address - at
            if at + _LARGEST < address:
                break
            index -= 1
        return "", 0

    def symbol(self, address: int) -> str:
        """The function or object at an address."""
        name, offset = self._at(address)
        return f"{name}+{offset}" if offset else name

    def function(self, address: int) -> str:
        """The function or object at an address, without an offset."""
        return self._at(address)[0]

    def starts(self) -> list[int]:
        """First addresses of functions and objects, ascending and unique."""
        return sorted({at for at, _, _ in self._symbols})

    def line(self, address: int) -> str:
        """The source line of an instruction."""
        if self._lines is None:
            self._lines = _source_lines(self._source)
        addresses, lines = self._lines
        index = bisect.bisect_right(addresses, address) - 1
        return (lines[index] or "") if index >= 0 else ""


def _source_lines(source: Any) -> tuple[list[int], list[str | None]]:
    """Returns ascending addresses and the source line from each address on; or None."""
    found: list[tuple[int, str | None]] = []
    try:
        dwarf: Any = source() if source is not None else None
        for unit in dwarf.iter_CUs() if dwarf is not None else ():
            program = dwarf.line_program_for_CU(unit)
            if program is None:
                continue
            files, first = program["file_entry"], 0 if program["version"] >= 5 else 1
            for entry in program.get_entries():
                state = entry.state
                if state is None:
                    continue
                index = state.file - first
                name = files[index].name.decode("utf-8", "replace") if 0 <= index < len(files) else "?"
                found.append((state.address, None if state.end_sequence else f"{os.path.basename(name)}:{state.line}"))
    except Exception:  # debugging information is damaged, but the program runs without it
        found = []
    found.sort(key=lambda pair: (pair[0], pair[1] is not None))
    return [address for address, _ in found], [line for _, line in found]


def _failed(what: str, name: str, value: str = "", allowed: str = "") -> Exception:
    return user_error(what, place=name, value=value, allowed=allowed)


def _check_head(data: bytes, name: str) -> None:
    """Rejects files that pyelftools can read but a hart cannot run."""
    if data[:4] != b"\x7fELF":
        raise _failed("not an ELF file", name, data[:4].hex(), "a static RISC-V program")
    if len(data) < 64:
        raise _failed("this ELF file is truncated", name, f"{len(data)} bytes", "at least 64 bytes")
    if data[4] != 2:
        raise _failed("not a 64-bit program", name, "a 32-bit ELF file", "64-bit ELF files")
    if data[5] != 1:
        raise _failed("this program is big-endian", name, "", "little-endian ELF files")


def read_elf(source: str | os.PathLike[str] | bytes) -> Elf:
    """Reads a static RISC-V program, or links one object file."""
    need("elftools", "isa")
    if isinstance(source, (bytes, bytearray)):
        data, name = bytes(source), "program"
    else:
        name = path_text(source)
        data = read_bytes(source)
    _check_head(data, name)
    try:
        return _read(data, name)
    except Error:
        raise
    except Exception as error:  # pyelftools raises errors of many types for damaged numbers
        raise _failed("this ELF file is damaged", name, f"{type(error).__name__}: {error}") from None


def _read(data: bytes, name: str) -> Elf:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(data))
    if elf["e_machine"] != "EM_RISCV":
        raise _failed("this program is for another processor", name, str(elf["e_machine"]), "EM_RISCV")
    if elf["e_type"] == "ET_REL":
        from .link import link

        linked, symbols = link(elf, name)
        return Elf(name, linked, lambda: symbols, functions=lambda: _functions(elf))
    if elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
        raise _failed("this ELF file is not a program", name, str(elf["e_type"]), "ET_EXEC, ET_REL")
    headers = list(elf.iter_segments())
    if any(part["p_type"] == "PT_INTERP" for part in headers):
        raise _failed("this program is dynamically linked", name, "", "static programs (-static)")
    image = _image(data, elf, headers, name)
    base = image.pop("base")

    def lines() -> Any:
        return elf.get_dwarf_info() if elf.has_dwarf_info() else None

    return Elf(
        name, image, lambda: _symbols(elf, base), lines, lambda: _code_sections(elf, base), lambda: _functions(elf)
    )


def _image(data: bytes, elf: Any, headers: list[Any], name: str) -> dict[str, Any]:
    loads = [part for part in headers if part["p_type"] == "PT_LOAD" and part["p_memsz"] > 0]
    if not loads:
        raise _failed("this program has no segments to load", name)
    base = 0x10000 if elf["e_type"] == "ET_DYN" and min(part["p_vaddr"] for part in loads) < 0x10000 else 0
    segments, headers_at = [], 0
    for part in loads:
        offset, size, memory = part["p_offset"], part["p_filesz"], part["p_memsz"]
        if offset + size > len(data):
            raise _failed("this ELF file is truncated", name, f"{len(data)} bytes", f"at least {offset + size} bytes")
        if memory > _LARGEST or size > memory:
            raise _failed("a segment has an impossible size", name, f"{size} of {memory} bytes", f"at most {_LARGEST}")
        flags = part["p_flags"]
        access = (flags >> 2 & 1) | (flags & 2) | (flags & 1) << 2
        segments.append((part["p_vaddr"] + base, data[offset : offset + size], memory, access))
        if offset <= elf["e_phoff"] < offset + size:
            headers_at = part["p_vaddr"] + base + elf["e_phoff"] - offset
    entry = elf["e_entry"]
    inside = any(at <= entry + base < at + memory and access & 4 for at, _, memory, access in segments)
    local = next((part for part in headers if part["p_type"] == "PT_TLS"), None)
    if local is not None and (local["p_memsz"] > 1 << 24 or local["p_filesz"] > local["p_memsz"]):
        raise _failed("the thread-local data has an impossible size", name, str(local["p_memsz"]))
    start = local["p_offset"] if local is not None else 0
    return {
        "segments": segments,
        "entry": entry + base if entry and inside else 0,
        "headers": headers_at,
        "header_bytes": elf["e_phentsize"],
        "header_count": elf["e_phnum"],
        "global_pointer": 0,
        "thread_data": data[start : start + local["p_filesz"]] if local is not None else b"",
        "thread_bytes": local["p_memsz"] if local is not None else 0,
        "base": base,
    }


def _code_sections(elf: Any, base: int) -> list[tuple[int, bytes]]:
    executable, allocated = 4, 2
    return [
        (section["sh_addr"] + base, section.data())
        for section in elf.iter_sections()
        if section["sh_type"] == "SHT_PROGBITS" and section["sh_flags"] & executable and section["sh_flags"] & allocated
    ]


def _symbols(elf: Any, base: int) -> list[tuple[int, int, str]]:
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    wanted = ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE")
    return [
        (symbol["st_value"] + base, symbol["st_size"], symbol.name)
        for symbol in table.iter_symbols()
        if symbol["st_info"]["type"] in wanted
        and symbol["st_shndx"] != "SHN_UNDEF"
        and symbol.name
        and not symbol.name.startswith(("$", ".L"))
    ]


def _functions(elf: Any) -> list[str]:
    """Names of the functions that other files may call."""
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    return [
        symbol.name
        for symbol in table.iter_symbols()
        if symbol["st_info"]["type"] == "STT_FUNC"
        and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK")
        and symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED")
        and symbol["st_shndx"] != "SHN_UNDEF"
    ]
