"""The assembler's bits are clang's; disassembly reads back; what is wrong is named by line and column."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
import tilesim.isa as isa
from support import riscv_tools
from support.riscv_vector_shapes import legal, shape
from tilesim import _core

CODE = 0x1000  # where the code lies in a file of `assemble`
#: Texts that clang writes otherwise, or refuses though the encoding is an instruction.
LEFT_OUT = {"mret", "sret", "wfi"}


def drawn(row: dict[str, Any], rng: random.Random) -> int | None:
    """Random bits of an instruction, none where they are not one that can be written."""
    for _ in range(400):
        used = 0xFFFF if row["compressed"] else 0xFFFFFFFF
        bits = row["match"] | rng.getrandbits(32) & ~row["mask"] & used
        if "csr" in row["operands"]:
            bits = bits & 0xFFFFF | rng.choice((1, 2, 3, 0x300, 0xC00, 0xC01, 0xC02, 0x7C0, 0x341)) << 20
        text = isa.disassemble(bits)
        if text.split()[0] == row["name"] and writable(row, bits, text):
            return bits
    return None


def writable(row: dict[str, Any], bits: int, text: str) -> bool:
    """Whether clang writes exactly these bits: hints and empty fences have no text of their own."""
    name = row["name"]
    if name.startswith("c."):
        rd = bits >> 7 & 31
        shifts = name in ("c.slli", "c.srli", "c.srai")
        if shifts and not bits & 0x107C:
            return False
        if name in ("c.slli", "c.li", "c.lui", "c.mv", "c.add") and rd == 0:
            return False
        if name in ("c.addi", "c.nop") and not bits & 0x107C:
            return name == "c.nop"
        if name == "c.nop":
            return False
    if name == "fence" and (not bits >> 20 & 15 or not bits >> 24 & 15):
        return False
    if name in ("vsetvli", "vsetivli"):
        return ", e" in text
    return not name.startswith("v") or name == "vsetvl" or some_vtype(name, bits)


def some_vtype(name: str, bits: int) -> bool:
    """Whether these registers may be used together with any vtype: clang refuses some that may not."""
    regs, how = {"vd": bits >> 7 & 31, "vs1": bits >> 15 & 31, "vs2": bits >> 20 & 31}, shape(name)
    widths = [(sew, lmul) for sew in (8, 16, 32, 64) for lmul in range(-3, 4) if lmul >= 0 or sew <= 64 >> -lmul]
    return any(legal(how, sew, lmul, bits >> 25 & 1 == 0, regs) for sew, lmul in widths)


def texts(rows: list[dict[str, Any]], count: int, seed: int) -> list[tuple[int, int, str]]:
    rng = random.Random(seed)
    found = []
    for row in rows:
        if row["name"] in LEFT_OUT:
            continue
        for _ in range(count):
            bits = drawn(row, rng)
            if bits is not None:
                found.append((bits, 2 if row["compressed"] else 4, isa.disassemble(bits)))
    return found


def test_every_instruction_is_assembled_as_by_clang(tmp_path: Path) -> None:
    # extensions of the project's own begin with an X; clang does not know them
    rows = [row for row in isa.instructions() if not row["extension"].startswith("X")]
    cases = texts(rows, 4, seed=5)
    missing = {row["name"] for row in rows} - {text.split()[0] for _, _, text in cases}
    assert missing <= LEFT_OUT
    theirs = riscv_tools.clang_bits(tmp_path, [text for _, _, text in cases])
    ours, _ = _core.isa_assemble("\n".join(text for _, _, text in cases))
    at, wrong = 0, []
    for bits, length, text in cases:
        want, got = theirs[at : at + length], ours[at : at + length]
        if want != got or bits.to_bytes(length, "little") != got:
            wrong.append(f"{text}: {got[::-1].hex()}, clang {want[::-1].hex()}, drawn {bits:x}")
        at += length
    assert not wrong and len(ours) == len(theirs), "\n".join(wrong[:20])


def test_own_instructions_are_read_back() -> None:
    rows = [row for row in isa.instructions() if row["extension"].startswith("X")]
    cases = texts(rows, 4, seed=6)
    assert {text.split()[0] for _, _, text in cases} == {row["name"] for row in rows}
    for bits, length, text in cases:
        assert _core.isa_assemble(text)[0] == bits.to_bytes(length, "little"), text


PSEUDO = """nop
mv a0, a1
not s0, s1
neg t0, t1
negw t0, t1
sext.w a0, a1
seqz a0, a1
snez a0, a1
sltz a0, a1
sgtz a0, a1
zext.w a0, a1
beqz a0, 8
bnez a0, -8
blez a0, 8
bgez a0, 8
bltz a0, 8
bgtz a0, 8
bgt a0, a1, 8
ble a0, a1, 8
bgtu a0, a1, 8
bleu a0, a1, 8
j 16
jr a0
ret
csrr a0, fcsr
csrw fflags, a0
frcsr a0
fscsr a0
frrm a0
fsflags a0, a1
rdcycle a0
rdinstret a0
fmv.s fa0, fa1
fneg.d fa0, fa1
fabs.h fa0, fa1
fence
li a0, 5
li a0, -2048
li a0, -1
li a0, 0x7ff"""


def test_pseudo_instructions_are_those_of_clang(tmp_path: Path) -> None:
    ours, _ = _core.isa_assemble(PSEUDO)
    assert ours == riscv_tools.clang_bits(tmp_path, PSEUDO.splitlines())


@pytest.mark.parametrize("seed", range(3))
def test_li_gives_every_constant(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.getrandbits(64) >> rng.randrange(64) for _ in range(200)]
    values += [v for p in range(64) for v in ((1 << p), (1 << p) - 1, 2**64 - (1 << p))]
    for value in values:
        signed = value - 2**64 if value >= 2**63 else value
        made = isa.assemble(f"f: li a0, {signed}\nret")
        assert isa.call(made, "f", returns="u64").value == value, hex(value)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("addd a0, a1, a2", "line 1, column 1", "Did you mean 'add'"),
        ("nop\nli a0", "line 2, column 1", "takes another number of operands (got 1; allowed: 2)"),
        ("mv a0, a1, a2", "line 1, column 1", "takes another number of operands (got 3; allowed: 2)"),
        ("nop\n  addi a0, a1, 5000", "line 2, column 16", "-2048 to 2047"),
        ("add a0, a1", "line 1, column 1", "more operands"),
        ("add a0, a1, a2, a3", "line 1, column 17", "fewer operands"),
        ("add a0, f1, a2", "line 1, column 9", "x0 to x31"),
        ("lw a0, a1", "line 1, column 8", "parentheses"),
        ("beq a0, a1, 3", "line 1, column 13", "multiples of 2"),
        ("fadd.s fa0, fa1, fa2, up", "line 1, column 23", "rtz"),
        ("vadd.vv v1, v2, v3, v1.t", "line 1, column 21", "v0.t"),
        ("vsetvli t0, a0, e12, m1, ta, ma", "line 1, column 17", "vtype"),
        ("c.lw a0, 0(t0)", "line 1, column 10", "not allowed"),
        ("c.addi4spn a0, sp, 0", "line 1, column 20", "4 to 1020"),
        ("x: nop\nx: nop", "line 2, column 1", "twice"),
        ("loop: nop\nj lop", "line 2, column 3", "'loop'"),
        (".strin 3", "line 1, column 1", "directive"),
        ("li a0, x", "line 1, column 8", "number"),
    ],
)
def test_mistakes_are_named_by_place(text: str, line: str, said: str) -> None:
    with pytest.raises(ts.UserError) as raised:
        isa.assemble(text)
    assert line in str(raised.value) and said in str(raised.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lw a0, 0(a0", "an address in parentheses is expected here (got 0(a0;"),
        ("sw a0, 0a0), t0", "an address in parentheses is expected here"),
        ("vsetvli t0, a0, e128, m1", "not a vtype (got e128, m1;"),
        ("vsetvli t0, a0, e128, m1, ta, ma", "not a vtype (got e128, m1, ta, ma;"),
    ],
)
def test_what_is_said_is_what_was_written(line: str, said: str) -> None:
    with pytest.raises(ts.UserError) as found:
        isa.assemble("f: " + line)
    assert said in str(found.value)
    assert "pcrel" not in str(found.value) and "tu, mu" not in str(found.value)
