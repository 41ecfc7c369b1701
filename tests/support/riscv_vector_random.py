"""Random RISC-V vector instructions whose whole vector state can be compared between two machines.

A case is one instruction with a few records: each says vtype, vl, rounding modes, scalar operands and where in a pool
of numbers the 32 registers are loaded from. A program calls a routine that loads a record, carries the instruction
out, and calls another that writes the state (v0 to v31, a scalar of each file, vl, vtype, flags; after stores the
memory, too) to its output.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

from .riscv_random import _branch, _i, _jal, _r, _s, floating, integer
from .riscv_vector_shapes import Shape, float_widths, half_widths, legal, registers, shape

CODE, DATA, AREA, BEYOND = 0x100000, 0x10000000, 0x20000000, 0x30000000
AREA_BYTES = 1 << 14
#: avl, vtype, x10, x11, f10, fcsr, vcsr, and the four places that the registers come from
RECORD = 8 * 11
SCALARS = 6  # x12, f12, vl, vtype, fcsr, vcsr
SPECIAL = ("vsetvli", "vsetivli", "vsetvl")


@dataclass
class Record:
    """What an instruction finds."""

    vtype: int
    avl: int
    words: list[int]
    places: list[int]

    def bytes(self) -> bytes:
        return struct.pack("<11Q", self.avl, self.vtype, *self.words, *self.places)


@dataclass
class Case:
    """An instruction and its records."""

    name: str
    bits: int
    how: Shape
    records: list[Record] = field(default_factory=list)


@dataclass
class Program:
    """The file and its cases, in the order of the output."""

    vlen: int
    file: bytes = b""
    cases: list[Case] = field(default_factory=list)


class Pool:
    """Numbers that registers are filled with: parts of 8 registers and more for each sort."""

    def __init__(self, rng: random.Random, vlen: int, half: bool) -> None:
        self.part = max(4096, vlen)  # bytes, at least 8 registers
        sorts: list[tuple[str, Any, str]] = [
            ("int", lambda: integer(rng), "Q"),
            ("random", lambda: rng.getrandbits(64), "Q"),
            ("i8", lambda: rng.choice((0, 1, 127, 128, 255, rng.getrandbits(8))), "B"),
            ("i16", lambda: rng.choice((0, 1, 32767, 32768, 65535, rng.getrandbits(16))), "H"),
            ("i32", lambda: integer(rng) & 0xFFFFFFFF, "I"),
            ("f32", lambda: floating(rng, 8, 23), "I"),
            ("f64", lambda: floating(rng, 11, 52), "Q"),
            ("f16", lambda: floating(rng, 5, 10), "H"),
            ("bf16", lambda: floating(rng, 8, 7), "H"),
            ("small", lambda: rng.randrange(64), "B"),
            ("x8", lambda: rng.randrange(32) * 8, "B"),
            ("x16", lambda: rng.randrange(256) * 8, "H"),
            ("x32", lambda: rng.randrange(256) * 8, "I"),
            ("x64", lambda: rng.randrange(256) * 8, "Q"),
        ]
        self.data, self.at = bytearray(), {}
        for name, draw, code in sorts:
            if name in ("f16", "bf16") and not half:
                continue
            self.at[name] = len(self.data)
            count = 2 * self.part // struct.calcsize(code)
            self.data += struct.pack(f"<{count}{code}", *(draw() for _ in range(count)))

    def place(self, rng: random.Random, sort: str) -> int:
        return self.at[sort] + rng.randrange(self.part // 8 + 1) * 8


class Generator:
    """Draws cases from the rows of the table."""

    def __init__(self, rows: list[dict[str, Any]], seed: int, vlen: int, half: bool = False) -> None:
        self.rng, self.vlen, self.half = random.Random(f"{seed} {vlen}"), vlen, half
        self.rows = rows
        self.pool = Pool(self.rng, vlen, half)
        self.shapes = {row["name"]: shape(row["name"]) for row in rows if row["name"] not in SPECIAL}

    def vtype(self, name: str) -> tuple[int, int]:
        """SEW and the power of LMUL, legal with ELEN 64."""
        rng = self.rng
        while True:
            sew, lmul = rng.choice((8, 16, 32, 64)), rng.choice((-3, -2, -1, 0, 0, 1, 1, 2, 3))
            if lmul < 0 and sew > 64 >> -lmul:
                continue
            floats = float_widths(name)
            if floats is not None and sew not in ((self.half and half_widths(name)) or floats):
                continue
            return sew, lmul

    def draw(self, how: Shape, sew: int, lmul: int) -> dict[str, int] | None:
        found = {}
        for word, operand in (("vd", how.vd), ("vs2", how.vs2), ("vs1", how.vs1)):
            if operand is not None:
                size = registers(operand, sew, lmul)
                if size is None:
                    return None
                found[word] = self.rng.randrange(0, 32, size[0])
        if len(found) > 1 and self.rng.random() < 0.3:  # near each other: overlaps
            for word in found:
                found[word] = min(31, found["vd" if "vd" in found else "vs2"] + self.rng.choice((0, 0, 1, 2, 4)))
        return found

    def case(self, row: dict[str, Any], records: int) -> Case | None:
        rng, name = self.rng, row["name"]
        bits = row["match"] | (rng.getrandbits(32) & ~row["mask"] & 0xFFFFFFFF)
        if name in SPECIAL:
            return self.setting(row, bits, records)
        how = self.shapes[name]
        for _ in range(400):
            sew, lmul = self.vtype(name)
            regs = self.draw(how, sew, lmul)
            masked = rng.random() < 0.4 if "vm" in row["operands"].split(", ") else "v0" in row["operands"]
            if regs is not None and legal(how, sew, lmul, masked, regs):
                break
        else:
            return None
        for word, at in (("vd", 7), ("vs1", 15), ("vs2", 20)):
            if word in regs:
                bits = bits & ~(31 << at) | regs[word] << at
        bits = self.scalars(row, bits)
        if "vm" in row["operands"].split(", "):
            bits = bits & ~(1 << 25) | (not masked) << 25
        case = Case(name, bits, how)
        for _ in range(records):
            for _ in range(12):  # other types for the same instruction
                other = self.vtype(name)
                if legal(how, *other, masked, regs):
                    sew, lmul = other
                    break
            case.records.append(self.record(case, sew, lmul))
        return case

    def scalars(self, row: dict[str, Any], bits: int) -> int:
        words = row["operands"].replace("(", "").replace(")", "").split(", ")
        for word, at, number in (("rd", 7, 12), ("fd", 7, 12), ("rs1", 15, 10), ("fs1", 15, 10), ("rs2", 20, 11)):
            if word in words:
                bits = bits & ~(31 << at) | number << at
        return bits

    def setting(self, row: dict[str, Any], bits: int, records: int) -> Case:
        rng, name = self.rng, row["name"]
        words = row["operands"].split(", ")
        for word, at, numbers in (("rd", 7, (12, 12, 0)), ("rs1", 15, (10, 10, 0)), ("rs2", 20, (11,))):
            if word in words:
                bits = bits & ~(31 << at) | rng.choice(numbers) << at
        if name != "vsetvl":
            bits = bits & ~(0xFF << 20) | rng.getrandbits(8) << 20
            if rng.random() < 0.9:
                bits &= ~((0x700 if name == "vsetvli" else 0x300) << 20)
        case = Case(name, bits, Shape())
        for _ in range(records):
            record = self.record(case, *self.vtype(name))
            record.words[0] = rng.choice((rng.randrange(2 * self.vlen), rng.getrandbits(64), 0))
            record.words[1] = rng.choice((rng.getrandbits(8), rng.getrandbits(8), rng.getrandbits(64)))
            case.records.append(record)
        return case

    def sorts(self, name: str, sew: int) -> list[str]:
        """What the registers hold: mostly numbers that suit the instruction."""
        suits = {8: ["i8"], 16: ["i16"], 32: ["i32", "int"], 64: ["int"]}[sew] + ["random", "small"]
        if float_widths(name) is not None:
            wide = 2 * sew if name.startswith(("vfw", "vfn")) and not name.startswith("vfnm") else sew
            if "bf16" in name:
                suits = ["bf16", "f32"]
            else:
                suits = [{8: "i8", 16: "f16", 32: "f32", 64: "f64"}[width] for width in {sew, wide}]
                suits = [sort if sort in self.pool.at else "i16" for sort in suits]
            suits = suits * 3 + ["random", "int"]
        return suits

    def record(self, case: Case, sew: int, lmul: int) -> Record:
        rng, how = self.rng, case.how
        vlmax = self.vlen * 8 // sew >> (3 - lmul)
        avl = rng.choice((vlmax, vlmax, rng.randrange(vlmax + 2), rng.randrange(vlmax + 2), rng.randrange(9)))
        vtype = (sew.bit_length() - 4) << 3 | (lmul & 7) | rng.getrandbits(2) << 6
        suits = self.sorts(case.name, sew)
        sorts = [rng.choice(suits) for _ in range(4)]
        words = [integer(rng), integer(rng), self.scalar_float(case.name, sew)]
        words += [rng.randrange(5) << 5 | rng.choice((0, 0, rng.getrandbits(5))), rng.getrandbits(3)]
        if how.vs1 is not None and case.name.startswith("vrgather"):
            sorts[(case.bits >> 15 & 31) // 8] = "small" if sew == 8 and "16" not in case.name else "i16"
        if case.name.startswith(("vslide", "vrgather")):
            words[0] = rng.choice((rng.randrange(vlmax + 3), words[0]))
        if how.index:
            sorts[(case.bits >> 20 & 31) // 8] = f"x{how.index}"
        if how.access or how.index:
            self.address(case, words, sew, min(avl, vlmax))
        return Record(vtype, avl, words, [DATA + self.pool.place(rng, sort) for sort in sorts])

    def address(self, case: Case, words: list[int], sew: int, vl: int) -> None:
        """Puts base and stride so that all elements lie in the area (the end of it for loads that stop at faults)."""
        rng, how = self.rng, case.how
        size = (how.access or sew) // 8
        step = 8 if self.vlen <= 512 else size
        words[0] = AREA + AREA_BYTES // 2 + rng.randrange(128) * step
        if "ff." in case.name and rng.random() < 0.6:
            words[0] = AREA + AREA_BYTES - rng.randrange(how.fields, 60) * size
        reach = AREA_BYTES // 2 // size // max(1, vl) // 2
        words[1] = rng.choice((rng.randrange(-reach, reach + 1), rng.randrange(-2, 3))) * size % 2**64

    def scalar_float(self, name: str, sew: int) -> int:
        rng = self.rng
        if "bf16" in name:
            return floating(rng, 8, 7) | (2**48 - 1) << 16
        if sew == 64:
            return floating(rng, 11, 52)
        value = floating(rng, 8, 23) | 0xFFFFFFFF << 32 if sew == 32 else floating(rng, 5, 10) | (2**48 - 1) << 16
        return value if rng.random() < 0.9 else rng.getrandbits(64)


def _vector_move(store: bool, register: int) -> int:
    """vl8re8.v or vs8r.v with x5 as address."""
    return 7 << 29 | 1 << 25 | 8 << 20 | 5 << 15 | register << 7 | (0x27 if store else 0x07)


def _load_routine() -> list[int]:
    code = []
    for part in range(4):
        code += [_i(56 + 8 * part, 31, 3, 5, 0x03), _vector_move(False, 8 * part)]
    code += [_i(0, 31, 3, 5, 0x03), _i(8, 31, 3, 6, 0x03), 0x40 << 25 | 6 << 20 | 5 << 15 | 7 << 12 | 0x57]
    code += [_i(16, 31, 3, 10, 0x03), _i(24, 31, 3, 11, 0x03), _i(32, 31, 3, 10, 0x07)]
    code += [_i(40, 31, 3, 7, 0x03), _i(3, 7, 1, 0, 0x73), _i(48, 31, 3, 7, 0x03), _i(15, 7, 1, 0, 0x73)]
    code += [_i(0, 0, 0, 12, 0x13), _r(0x79, 0, 0, 0, 12, 0x53)]
    return [*code, _i(0, 29, 0, 0, 0x67)]


def _write(size_register: int, address_register: int) -> list[int]:
    """write(1, address, size)."""
    code = [_i(1, 0, 0, 10, 0x13), _i(0, address_register, 0, 11, 0x13), _i(0, size_register, 0, 12, 0x13)]
    return [*code, _i(64, 0, 0, 17, 0x13), 0x73]


def _store_routine() -> list[int]:
    code = [_s(0, 12, 30, 3, 0x23), _s(8, 12, 30, 3, 0x27)]
    for place, csr in enumerate((0xC20, 0xC21, 3, 15)):
        code += [_i(csr, 0, 2, 5, 0x73), _s(16 + 8 * place, 5, 30, 3, 0x23)]
    code += [_i(8 * SCALARS, 30, 0, 5, 0x13), _i(0xC22, 0, 2, 6, 0x73), _i(3, 6, 1, 6, 0x13)]
    for part in range(4):
        code += [_vector_move(True, 8 * part), _r(0, 6, 5, 0, 5, 0x33)]
    code += [_r(0x20, 30, 5, 0, 5, 0x33), *_write(5, 30), _i(RECORD, 31, 0, 31, 0x13)]
    return [*code, _i(0, 29, 0, 0, 0x67)]


def _constant(code: bytearray, rd: int, value: int) -> None:
    high = value + 0x800 & 0xFFFFF000
    code += struct.pack("<II", high | rd << 7 | 0x37, _i(value & 0xFFF, rd, 0, rd, 0x13))


def _words(code: bytearray, words: list[int]) -> int:
    at = len(code)
    code += struct.pack(f"<{len(words)}I", *words)
    return at


def elf(parts: list[tuple[int, int, bytes]], entry: int) -> bytes:
    """A static program of segments: address, flags, bytes."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, entry, 64, 0, 5, 64, 56, len(parts), 64, 0, 0)
    offset, body = 4096, b""
    for address, flags, data in parts:
        head += struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, len(data), len(data), 4096)
        padded = data + bytes(-len(data) % 4096)
        offset, body = offset + len(padded), body + padded
    return head + bytes(4096 - len(head)) + body


def _is_access(row: dict[str, Any]) -> bool:
    return row["unit"] in ("load", "store")


def vector_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the table that work on vectors."""
    return [row for row in rows if row["extension"] == "V" or row["extension"].startswith("Zv")]


def make(
    rows: list[dict[str, Any]],
    seed: int,
    vlen: int,
    cases: int,
    records: int = 2,
    half: bool = False,
    every: bool = False,
) -> Program:
    """A program of `cases` drawn instructions of `rows` (all in turn if `every`), each with `records` states."""
    draw, program = Generator(rows, seed, vlen, half), Program(vlen)
    accesses, others = [r for r in rows if _is_access(r)], [r for r in rows if not _is_access(r)]
    while len(program.cases) < cases:
        from_memory = accesses and (not others or draw.rng.random() < 0.25)
        drawn = draw.rng.choice(accesses if from_memory else others)
        case = draw.case(rows[len(program.cases) % len(rows)] if every else drawn, records)
        if case is not None:
            program.cases.append(case)
    data = bytes(draw.pool.data)
    first = DATA + len(data)
    data += b"".join(record.bytes() for case in program.cases for record in case.records)
    buffer = DATA + (len(data) + 63) // 64 * 64
    data += bytes(buffer - DATA - len(data) + 8 * SCALARS + 4 * vlen)
    code = bytearray()
    _constant(code, 31, first)
    _constant(code, 30, buffer)
    _constant(code, 25, AREA)
    _constant(code, 24, AREA_BYTES)
    load_at = len(code) + 4
    stored_at = load_at + 4 * len(_load_routine())
    _words(code, [_jal(0, stored_at + 4 * len(_store_routine()) - len(code))])
    _words(code, _load_routine())
    _words(code, _store_routine())
    for case in program.cases:
        _words(code, [_i(records, 0, 0, 26, 0x13)])
        loop = _words(code, [_jal(29, load_at - len(code)), case.bits])
        _words(code, [_jal(29, stored_at - len(code))])
        if case.how.store:
            _words(code, _write(24, 25))
        _words(code, [_i(-1, 26, 0, 26, 0x13)])
        _words(code, [_branch(_r(0, 0, 26, 1, 0, 0x63), loop - len(code))])
    _words(code, [_i(0, 0, 0, 10, 0x13), _i(93, 0, 0, 17, 0x13), 0x73])
    area = draw.rng.randbytes(AREA_BYTES)
    program.file = elf([(CODE, 5, bytes(code)), (DATA, 6, data), (AREA, 6, area), (BEYOND, 6, bytes(64))], CODE)
    return program


@dataclass
class Difference:
    """Where two machines disagree."""

    case: Case
    record: Record
    what: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.case.name} ({self.case.bits:#010x}, vtype {self.record.vtype:#x}, avl {self.record.avl}): " + (
            f"{self.what} is {self.ours}, qemu {self.theirs}"
        )


def differences(program: Program, ours: bytes, theirs: bytes) -> list[Difference]:
    """All states that are not equal, the first difference of each."""
    found, at, bytes_of = [], 0, program.vlen // 8
    names = ["x12", "f12", "vl", "vtype", "fcsr", "vcsr"]
    for case in program.cases:
        for record in case.records:
            size = 8 * SCALARS + 32 * bytes_of + (AREA_BYTES if case.how.store else 0)
            a, b = ours[at : at + size], theirs[at : at + size]
            at += size
            if a == b:
                continue
            if len(a) < size or len(b) < size:
                return [*found, Difference(case, record, "the output", f"{len(ours)} bytes", f"{len(theirs)}")]
            place = next(i for i in range(size) if a[i] != b[i])
            start, length, what = place // 8 * 8, 8, "memory"
            if place < 8 * SCALARS:
                what = names[place // 8]
            elif place < 8 * SCALARS + 32 * bytes_of:
                register, byte = divmod(place - 8 * SCALARS, bytes_of)
                what = f"v{register} from byte {byte // 8 * 8} on"
            else:
                what = f"memory at {place - 8 * SCALARS - 32 * bytes_of}"
            x, y = (part[start : start + length][::-1].hex() for part in (a, b))
            found.append(Difference(case, record, what, x, y))
    return found
