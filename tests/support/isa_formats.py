"""Programs of RISC-V cores and files of cores, as formats that are damaged."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts
from support.format_graphs import Format
from support.riscv_tools import clang

LIMIT = 1000  # instructions of a run
SOURCE = """int total(const int *x, long n) { int sum = 0; for (long i = 0; i < n; ++i) sum += x[i]; return sum; }
static int numbers[4] = {1, 2, 3, 4};
void _start(void) {
  register long a0 __asm__("a0") = total(numbers, 4), a7 __asm__("a7") = 93;
  __asm__ volatile("ecall" : : "r"(a0), "r"(a7));
}
"""


def tight(code: bytes) -> bytes:
    """Head, one segment and code without a gap, so that most bytes mean something."""
    base, size = 0x10000, 64 + 56 + len(code)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, base + 120, 64, 0, 5, 64, 56, 1, 64, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 7, 0, base, base, size, size, 4096) + code


def programs(folder: Path) -> list[bytes]:
    """By the own assembler, with symbols, and its code alone."""
    whole = ts.isa.assemble(
        "_start: la a1, text\nli a0, 1\nli a2, 6\nli a7, 64\necall\nvsetivli t0, 4, e32, m1, ta, ma\nvid.v v1\n"
        'loop: addi a2, a2, -1\nbnez a2, loop\nli a0, 0\nli a7, 93\necall\ntext: .asciz "hello\\n"'
    )
    return [whole, tight(whole[4096:4160])]


def compiled(folder: Path) -> list[bytes]:
    """A program and an object file by clang, with lines and relocations."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "k.c").write_text(SOURCE, encoding="utf-8")
        clang(place, "-g", "-O1", "-c", "k.c", "-o", "k.o")
        clang(place, "-g", "-O1", "-nostdlib", "-static", "k.c", "-o", "k.elf")
        return [(place / name).read_bytes() for name in ("k.o", "k.elf")]


def program_run(path: Path) -> Any:
    """To its end, or a trap."""
    return ts.isa.run(path, max_instructions=LIMIT)


def program_called(path: Path) -> Any:
    """A function of it, or the whole."""
    return ts.isa.call(path, "total", np.array([1, 2, 3], np.int32), 3, max_instructions=LIMIT)


def program_told(result: Any, folder: Path) -> None:
    """What a timed run says by function and line."""
    (file,) = (path for path in folder.iterdir() if path.suffix in (".elf", ".o"))
    timed = ts.isa.run(file, timed=True, max_instructions=LIMIT)
    assert repr(timed) and repr(result) and timed.to_dict()
    timed.table(), timed.table("line")


def core_used(core: ts.isa.Core, folder: Path) -> None:
    """A timed run on it."""
    assert ts.isa.run(programs(folder)[0], core=core, timed=True, max_instructions=LIMIT).cycles > 0


CORES = Path(ts.__file__).parent / "configs" / "cores"
ISA = [
    Format("ELF", "program.elf", "bytes", programs, program_run, [program_told], 600),
    Format("ELF, compiled", "program.o", "bytes", compiled, program_called, (), 600, needs="ziglang"),
    Format("core", "core.json", "json",
           lambda f: [(CORES / f"{name}.json").read_bytes() for name in ("generic", "xuantie-c908")],
           ts.isa.Core.load, [core_used], 400),
]  # fmt: skip
