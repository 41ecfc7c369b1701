"""What a vector instruction on floats leaves, from the state it finds: by exact_floats.py, element by element."""

from __future__ import annotations

import operator
import struct
from typing import Any

from . import exact_floats as ef
from .riscv_vector_random import DATA, SCALARS, Case, Program, Record
from .riscv_vector_shapes import registers, shape

_RELATIONS: dict[str, tuple[Any, bool]] = {
    "vmfeq": (operator.eq, True), "vmfne": (ef._unequal, True), "vmflt": (operator.lt, False),
    "vmfle": (operator.le, False), "vmfgt": (operator.gt, False), "vmfge": (operator.ge, False),
}  # fmt: skip
_TWO = {"add": ef.add, "sub": ef.subtract, "mul": ef.multiply, "div": ef.divide}


class State:
    """Registers as bytes, and what a record says."""

    def __init__(self, program: Program, record: Record) -> None:
        start = 4096 + (4096 * (-(-_code_bytes(program.file) // 4096)))
        self.bytes_of = program.vlen // 8
        self.v = bytearray()
        for place in record.places:
            at = start + place - DATA
            self.v += program.file[at : at + 8 * self.bytes_of]
        self.sew, code = 8 << (record.vtype >> 3 & 7), record.vtype & 7
        self.lmul = code if code < 4 else code - 8
        self.vl = min(record.avl, program.vlen * 8 // self.sew >> (3 - self.lmul))
        self.flags, self.mode = record.words[3] & 31, record.words[3] >> 5
        self.scalar = record.words[2]

    def get(self, register: int, width: int, i: int) -> int:
        at = register * self.bytes_of + i * width // 8
        return int.from_bytes(self.v[at : at + width // 8], "little")

    def put(self, register: int, width: int, i: int, value: int) -> None:
        at = register * self.bytes_of + i * width // 8
        self.v[at : at + width // 8] = value.to_bytes(width // 8, "little")

    def bit(self, register: int, i: int) -> int:
        return self.v[register * self.bytes_of + i // 8] >> i % 8 & 1

    def put_bit(self, register: int, i: int, value: int) -> None:
        at = register * self.bytes_of + i // 8
        self.v[at] = self.v[at] & ~(1 << i % 8) | value << i % 8


def _code_bytes(file: bytes) -> int:
    return struct.unpack_from("<Q", file, 64 + 32)[0]


def _unboxed(value: int, width: int, f: ef.Format) -> int:
    ones = (1 << 64) - (1 << width)
    return value & (1 << width) - 1 if width == 64 or value & ones == ones else f.nan


def element(name: str, sew: int, a: int, b: int, d: int, mode: int) -> ef.Result:
    """One element: a of vs2, b of vs1 or the scalar, d of vd."""
    stem, form = name.split(".", 1)
    if "cvt" in stem:
        return _conversion(stem, form, sew, a, mode)
    f = ef.BF16 if "bf16" in stem else ef.BY_WIDTH[sew]
    core = stem.removeprefix("vfw").removeprefix("vf")
    if stem.startswith("vfw"):
        wide = ef.BY_WIDTH[2 * sew]
        flags = 0
        if form[0] != "w":
            a, flags = ef.convert(f, wide, a, 0)
        b, more = ef.convert(f, wide, b, 0)
        result, last = _same(core.removesuffix("bf16"), wide, a, b, d, mode)
        return result, flags | more | last
    if stem in _RELATIONS:
        return ef.compare(f, a, b, *_RELATIONS[stem])
    return _same(core, f, a, b, d, mode)


def _same(core: str, f: ef.Format, a: int, b: int, d: int, mode: int) -> ef.Result:
    if core in _TWO:
        return _TWO[core](f, a, b, mode)
    if core in ("rsub", "rdiv"):
        return _TWO[core[1:]](f, b, a, mode)
    if core in ("min", "max"):
        return ef.smaller(f, a, b, core == "max")
    if core.startswith("sgnj"):
        sign = {"sgnj": b, "sgnjn": ~b, "sgnjx": a ^ b}[core] & f.sign
        return a & f.sign - 1 | sign, 0
    if core == "sqrt":
        return ef.root(f, a, mode)
    if core == "class":
        return ef.classify(f, a), 0
    if core == "mv":
        return b, 0
    negative, core = core[0] == "n", core.removeprefix("n")
    first, factor, other = (a, b, d) if core.endswith("c") else (d, b, a)
    minus_product = negative
    minus_other = core.startswith("ms") != negative
    return ef.fused(f, first ^ (f.sign if minus_product else 0), factor, other ^ (f.sign if minus_other else 0), mode)


def _conversion(stem: str, form: str, sew: int, a: int, mode: int) -> ef.Result:
    source = 2 * sew if stem.startswith("vfn") else sew
    to = 2 * sew if stem.startswith("vfw") else sew
    if stem == "vfwcvtbf16":
        return ef.convert(ef.BF16, ef.F32, a, mode)
    if stem == "vfncvtbf16":
        return ef.convert(ef.F32, ef.BF16, a, mode)
    words = form.split(".")
    if words[0] in ("rtz", "rod"):
        mode = ef.ZERO if words[0] == "rtz" else ef.ODD
        words = words[1:]
    if words[0] in ("x", "xu"):
        return ef.to_integer(ef.BY_WIDTH[source], a, to, words[0] == "x", mode)
    if words[1] in ("x", "xu"):
        number = a - (1 << source) if words[1] == "x" and a >> source - 1 else a
        return ef.rounded(ef.BY_WIDTH[to], ef.Fraction(number), mode)
    return ef.convert(ef.BY_WIDTH[source], ef.BY_WIDTH[to], a, mode)


def known(name: str) -> bool:
    """Whether `after` can say what the instruction leaves."""
    return not name.startswith(("vfslide", "vfmerge", "vfmv.f", "vfmv.s", "vfrec7", "vfrsqrt7"))


def after(program: Program, case: Case, record: Record) -> tuple[bytes, int]:
    """The registers and fcsr that a case leaves."""
    state, how = State(program, record), shape(case.name)
    rd, rs1, rs2 = case.bits >> 7 & 31, case.bits >> 15 & 31, case.bits >> 20 & 31
    masked = case.bits >> 25 & 1 == 0
    before = State(program, record)
    widths = {}
    for word, operand in (("vd", how.vd), ("vs2", how.vs2), ("vs1", how.vs1)):
        size = registers(operand, state.sew, state.lmul) if operand is not None else None
        widths[word] = size[1] if size is not None else state.sew
    f = ef.BF16 if "bf16" in case.name else ef.BY_WIDTH.get(state.sew, ef.F16)
    scalar = _unboxed(state.scalar, state.sew, f) if how.vs1 is None and state.sew > 8 else 0
    active = [i for i in range(state.vl) if not masked or before.bit(0, i)]
    if how.scalar_vd:
        if state.vl:
            _reduce(state, before, case.name, active, (rd, rs2, rs1), (widths["vd"], widths["vs2"]))
        return bytes(state.v), state.mode << 5 | state.flags
    for i in active:
        a = before.get(rs2, widths["vs2"], i) if how.vs2 is not None else 0
        b = before.get(rs1, widths["vs1"], i) if how.vs1 is not None else scalar
        d = before.get(rd, widths["vd"], i) if widths["vd"] > 1 else 0
        result, flags = element(case.name, state.sew, a, b, d, state.mode)
        state.flags |= flags
        if widths["vd"] == 1:
            state.put_bit(rd, i, result)
        else:
            state.put(rd, widths["vd"], i, result)
    return bytes(state.v), state.mode << 5 | state.flags


def _reduce(
    state: State, before: State, name: str, active: list[int], regs: tuple[int, int, int], widths: tuple[int, int]
) -> None:
    f, narrow = ef.BY_WIDTH[widths[0]], ef.BY_WIDTH[widths[1]]
    total = before.get(regs[2], widths[0], 0)
    for i in active:
        number, flags = before.get(regs[1], widths[1], i), 0
        if f != narrow:
            number, flags = ef.convert(narrow, f, number, 0)
        if name.startswith("vfredm"):
            total, more = ef.smaller(f, total, number, "max" in name)
        else:
            total, more = ef.add(f, total, number, state.mode)
        state.flags |= flags | more
    state.put(regs[0], widths[0], 0, total)


def differences(program: Program, output: bytes) -> list[str]:
    """States in the output that are not what the oracle says."""
    found, at, size = [], 0, 8 * SCALARS + 4 * program.vlen
    for case in program.cases:
        for record in case.records:
            left = output[at : at + size]
            at += size
            vectors, fcsr = after(program, case, record)
            told = (
                f"{case.name} ({case.bits:#010x}, vtype {record.vtype:#x}, avl {record.avl}, fcsr {record.words[3]:#x})"
            )
            if left[8 * SCALARS :] != vectors:
                place = next(i for i in range(len(vectors)) if left[8 * SCALARS + i] != vectors[i])
                one = program.vlen // 8
                start = place // 4 * 4
                parts = (part[start : start + 4][::-1].hex() for part in (left[8 * SCALARS :], vectors))
                found.append(f"{told}: v{place // one}, byte {place % one}: {' instead of '.join(parts)}")
            elif (flags := struct.unpack_from("<Q", left, 32)[0]) != fcsr:
                found.append(f"{told}: fcsr {flags:#x} instead of {fcsr:#x}")
    return found
