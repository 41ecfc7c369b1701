"""Random RISC-V programs whose registers after every few instructions can be compared between two machines.

A program is a row of records in memory: each holds x1 to x28, f0 to f31 and fcsr as a group of instructions finds
them, and afterwards as the group leaves them. x29 is the return address of the two routines that load and store a
record, x30 the middle of a buffer for loads and stores, x31 the record. At its end the program writes records and
buffer to its output.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

BASE = 0x100000
WORDS = 28 + 32 + 1
RECORD = 8 * WORDS
BUFFER = 8192
#: Jumps have tests of their own; ctzw of qemu 7.2 counts beyond the word where its 32 bits are zeros.
_SKIPPED = {
    "ctzw", "jal", "jalr", "ecall", "ebreak", "mret", "sret", "wfi", "fence.i", "c.ebreak", "c.j", "c.jr", "c.jalr",
    "c.addi16sp",
}  # fmt: skip


def _r(funct7: int, rs2: int, rs1: int, funct3: int, rd: int, opcode: int) -> int:
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def _i(imm: int, rs1: int, funct3: int, rd: int, opcode: int) -> int:
    return (imm & 0xFFF) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def _s(imm: int, rs2: int, rs1: int, funct3: int, opcode: int) -> int:
    return _r(imm >> 5 & 127, rs2, rs1, funct3, imm & 31, opcode)


def _branch(bits: int, distance: int) -> int:
    return (
        bits & 0x01FFF07F
        | (distance >> 1 & 15) << 8
        | (distance >> 5 & 63) << 25
        | (distance >> 11 & 1) << 7
        | (distance >> 12 & 1) << 31
    )


def _jal(rd: int, distance: int) -> int:
    value = (distance >> 1 & 1023) << 21 | (distance >> 11 & 1) << 20 | (distance >> 12 & 255) << 12
    return value | (distance >> 20 & 1) << 31 | rd << 7 | 0x6F


def elf(code: bytes, entry: int = BASE) -> bytes:
    """One segment, at BASE, that may be read, written and run."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, entry, 64, 0, 5, 64, 56, 1, 64, 0, 0)
    head += struct.pack("<IIQQQQQQ", 1, 7, 4096, BASE, BASE, len(code), len(code), 4096)
    return head + bytes(4096 - len(head)) + code


def integer(rng: random.Random) -> int:
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randrange(-16, 17) % 2**64
    if kind == 1:
        return ((1 << rng.randrange(64)) + rng.randrange(-1, 2)) * rng.choice((1, -1)) % 2**64
    if kind == 2:
        return rng.choice((2**63, 2**63 - 1, 2**64 - 1, 2**31, 2**31 - 1, 2**32 - 1, 2**64 - 2**31))
    return rng.getrandbits(64) >> rng.choice((0, 0, 16, 32, 48))


def floating(rng: random.Random, exponent: int, fraction: int) -> int:
    """Bits of a float: special values, small and large numbers, ties."""
    bias, sign = (1 << exponent - 1) - 1, rng.getrandbits(1) << exponent + fraction
    infinity = ((1 << exponent) - 1) << fraction
    kind = rng.randrange(10)
    if kind == 0:
        return sign | rng.choice(
            (0, infinity, infinity | 1 << fraction - 1, infinity | 1, infinity - 1, 1, 1 << fraction)
        )
    if kind == 1:
        return sign | rng.getrandbits(fraction)
    if kind == 2:
        return sign | rng.getrandbits(exponent + fraction)
    if kind < 5:  # few bits: results fall on ties
        near = max(1, min((1 << exponent) - 2, bias + rng.randrange(-fraction - 3, fraction + 4)))
        return sign | near << fraction | (rng.getrandbits(3) << max(0, fraction - rng.randrange(3, 6)))
    near = max(1, min((1 << exponent) - 2, bias + rng.randrange(-4, 5)))
    return sign | near << fraction | rng.getrandbits(fraction)


def float_register(rng: random.Random) -> int:
    kind = rng.randrange(8)
    if kind < 3:
        return floating(rng, 11, 52)
    if kind < 6:
        return floating(rng, 8, 23) | 0xFFFFFFFF << 32
    if kind == 6:
        return floating(rng, 5, 10) | (2**48 - 1) << 16
    return rng.getrandbits(64)


@dataclass
class Program:
    """Instructions of each group (bits and length), the file, and where its output's parts begin."""

    file: bytes = b""
    groups: list[list[tuple[int, int]]] = field(default_factory=list)


class Generator:
    """Draws instructions of the table."""

    def __init__(self, rows: list[dict[str, Any]], seed: int, only: set[str] | None = None) -> None:
        self.rng = random.Random(seed)
        self.rows = [
            row for row in rows if row["extension"][:2] not in ("V", "Zv", "Xt") and row["name"] not in _SKIPPED
        ]
        self.rows = [row for row in self.rows if only is None or row["name"] in only]

    def register(self, low: int = 0) -> int:
        return self.rng.randrange(low, 29)

    def one(self) -> list[tuple[int, int]]:
        """One instruction, with what it needs before it."""
        row = self.rng.choice(self.rows)
        words = [word.strip("()") for word in row["operands"].replace("(", ",(").split(",")]
        words = [word.strip() for word in words if word.strip()]
        bits = row["match"] | (self.rng.getrandbits(32) & ~row["mask"] & (0xFFFF if row["compressed"] else 0xFFFFFFFF))
        return self.compressed(row, words, bits) if row["compressed"] else self.wide(row, words, bits)

    def wide(self, row: dict[str, Any], words: list[str], bits: int) -> list[tuple[int, int]]:
        def put(at: int, value: int, mask: int = 31) -> None:
            nonlocal bits
            bits = bits & ~(mask << at) | value << at

        for word, at in {"rd": 7, "rs1": 15, "rs2": 20}.items():
            if word in words:
                put(at, self.register())
        if "rm" in words or "rm0" in words:
            put(12, self.rng.choice((7, 7, 7, 0, 1, 2, 3, 4)), 7)
        if "csr" in words:
            put(20, 1, 0xFFF)
        if "pred" in words:
            put(20, 0xFF, 0xFF)
        if row["unit"] in ("load", "store"):
            put(15, 30)
        if row["name"].startswith("sc."):  # twice: the second has no reservation; qemu differs where widths are mixed
            reserve = bits & 0x7000 | 2 << 27 | 30 << 15 | self.register() << 7 | 0x2F
            return [(reserve, 4), (bits, 4), (bits & ~(31 << 7) | self.register() << 7, 4)]
        if "b13" in words:  # over the next instruction
            return [(_branch(bits, 8), 4), (_i(self.rng.randrange(2048), self.register(), 0, self.register(), 0x13), 4)]
        return [(bits, 4)]

    def compressed(self, row: dict[str, Any], words: list[str], bits: int) -> list[tuple[int, int]]:
        before = []
        full = bits >> 7 & 31
        if any(word in words for word in ("rd", "rd!0", "rd!2", "rd=rs1", "rd!0=rs1")) and (
            full > 28 or full in (0, 2)
        ):
            bits = bits & ~(31 << 7) | self.rng.randrange(3, 29) << 7
        if "rs2c!0" in words and not bits >> 2 & 31:
            bits |= 1 << 2
        if "c.lui" in words and not bits & 0x107C:
            bits |= 1 << 2
        if "c.u10" in words and not bits & 0x1FE0:
            bits |= 1 << 5
        if "c.b9" in words:
            bits = bits & 0xE383 | 3 << 3  # over the 4 bytes that follow
            return [(bits, 2), (_i(self.rng.randrange(2048), self.register(), 0, self.register(), 0x13), 4)]
        if row["unit"] in ("load", "store"):
            base = 2 if "sp" in words else (bits >> 7 & 7) + 8
            before.append((_i(0, 30, 0, base, 0x13), 4))
        elif "sp" in words:
            before.append((_i(64, 30, 0, 2, 0x13), 4))
        return [*before, (bits, 2)]


def _routine(load: bool) -> list[int]:
    """Loads all registers from the record at x31, or stores them there and goes on to the next record."""
    code = []
    if load:
        code += [_i(8 * 60, 31, 3, 1, 0x03), _i(3, 1, 1, 0, 0x73)]  # fcsr
    for n in range(32):
        at = 8 * (28 + n)
        code.append(_i(at, 31, 3, n, 0x07) if load else _s(at, n, 31, 3, 0x27))
    for n in range(1, 29):
        at = 8 * (n - 1)
        code.append(_i(at, 31, 3, n, 0x03) if load else _s(at, n, 31, 3, 0x23))
    if not load:
        code += [_i(3, 0, 2, 1, 0x73), _s(8 * 60, 1, 31, 3, 0x23), _i(RECORD, 31, 0, 31, 0x13)]
    return [*code, _i(0, 29, 0, 0, 0x67)]


def _address(code: bytearray, rd: int, target: int) -> None:
    distance = target - (BASE + len(code))
    code += struct.pack("<II", distance + 0x800 & 0xFFFFF000 | rd << 7 | 0x17, _i(distance & 0xFFF, rd, 0, rd, 0x13))


def make(rows: list[dict[str, Any]], seed: int, groups: int, size: int = 6, only: set[str] | None = None) -> Program:
    """A program of `groups` groups of about `size` drawn instructions."""
    draw, program = Generator(rows, seed, only), Program()
    rng = draw.rng
    code = bytearray(bytes(4))
    load = BASE + len(code)
    code += b"".join(struct.pack("<I", word) for word in _routine(True))
    store = BASE + len(code)
    code += b"".join(struct.pack("<I", word) for word in _routine(False))
    code[:4] = struct.pack("<I", _jal(0, len(code)))
    program.groups = [[part for _ in range(size) for part in draw.one()] for _ in range(groups)]
    body = sum(sum(length for _, length in group) + 18 for group in program.groups) + 64
    data = (BASE + len(code) + body + 15) // 16 * 16
    buffer = data + RECORD * groups
    _address(code, 31, data)
    _address(code, 30, buffer + BUFFER // 2)
    for group in program.groups:
        if (load - BASE - len(code)) < -(1 << 20):
            raise ValueError("too many groups for a jump to the routines")
        code += struct.pack("<I", _jal(29, load - BASE - len(code)))
        for bits, length in group:
            code += bits.to_bytes(length, "little")
        code += struct.pack("<I", _jal(29, store - BASE - len(code)))
    _address(code, 11, data)
    size_of = RECORD * groups + BUFFER
    code += struct.pack("<II", size_of + 0x800 & 0xFFFFF000 | 12 << 7 | 0x37, _i(size_of & 0xFFF, 12, 0, 12, 0x13))
    # write(1, ...) until all is written, exit(0)
    loop = [
        _i(1, 0, 0, 10, 0x13), _i(64, 0, 0, 17, 0x13), 0x73, _r(0, 10, 11, 0, 11, 0x33),
        _r(0x20, 10, 12, 0, 12, 0x33), _branch(_r(0, 0, 12, 1, 0, 0x63), -20), _i(0, 0, 0, 10, 0x13),
        _i(93, 0, 0, 17, 0x13), 0x73,
    ]  # fmt: skip
    code += b"".join(struct.pack("<I", word) for word in loop)
    code += bytes(data - BASE - len(code))
    for _ in range(groups):
        record = [integer(rng) for _ in range(28)] + [float_register(rng) for _ in range(32)]
        code += struct.pack(f"<{WORDS}Q", *record, rng.randrange(5) << 5 | rng.choice((0, rng.getrandbits(5))))
    code += rng.randbytes(BUFFER)
    program.file = elf(bytes(code))
    return program


def differences(program: Program, ours: bytes, theirs: bytes) -> list[tuple[int, str, int, int]]:
    """Where two outputs differ: group, register, both values."""
    found = []
    names = [f"x{n}" for n in range(1, 29)] + [f"f{n}" for n in range(32)] + ["fcsr"]
    for index in range(len(program.groups)):
        a, b = ours[index * RECORD : (index + 1) * RECORD], theirs[index * RECORD : (index + 1) * RECORD]
        if a != b:
            pairs = zip(names, struct.unpack(f"<{WORDS}Q", a), struct.unpack(f"<{WORDS}Q", b), strict=True)
            found += [(index, name, x, y) for name, x, y in pairs if x != y]
    start = len(program.groups) * RECORD
    if ours[start:] != theirs[start:]:
        found.append((-1, "memory", len(ours), len(theirs)))
    return found
