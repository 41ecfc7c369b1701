"""Pseudo-instructions, labels, data and expressions: clang's bits; and every disassembly is read back."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

import tilesim as ts
import tilesim.isa as isa
from support import riscv_tools
from tilesim import _core

#: The assembly programmer's manual's tables (call and tail apart), the notes of V 1.0, older names.
SCALAR = """nop; mv a0, a1; move a0, a1; not s0, s1; neg t0, t1; negw t0, t1; sext.b a0, a1; sext.h a0, a1
sext.w a0, a1; zext.b a0, a1; zext.h a0, a1; zext.w a0, a1; seqz a0, a1; snez a0, a1; sltz a0, a1; sgtz a0, a1
sgtu a0, a1, a2; beqz a0, 8; bnez a0, -8; blez a0, 8; bgez a0, 8; bltz a0, 8; bgtz a0, 8; bgt a0, a1, 8
sgt a0, a1, a2
ble a0, a1, 8; bgtu a0, a1, 8; bleu a0, a1, 8; j 16; jal 16; jal t0, 16; jr a0; jr 4(a0); jalr a0; jalr 4(a0)
jalr t0, a0; jalr t0, -4(a0); jalr t0, a0, 12; jalr a0, 12; jr a0, 12; ret; csrr a0, fcsr; csrw fflags, a0
csrs fflags, a0
csrc fflags, a0; csrwi frm, 3; csrsi frm, 3; csrci frm, 3; csrw frm, 3; csrs frm, 3; csrc frm, 3; csrrw a0, frm, 3
csrrs a0, frm, 3; csrrc a0, frm, 3; frcsr a0; fscsr a0; fscsr a0, a1; frrm a0; fsrm a0; fsrm a0, a1; fsrmi 3
fsrmi a0, 3; frflags a0; fsflags a0; fsflags a0, a1; fsflagsi 3; fsflagsi a0, 3; rdcycle a0; rdtime a0; rdinstret a0
fmv.s fa0, fa1; fneg.d fa0, fa1; fabs.h fa0, fa1; fmv.h fa0, fa1; fmv.x.s a0, fa0; fmv.s.x fa0, a0
fgt.s a0, fa1, fa2; fgt.d a0, fa1, fa2; fgt.h a0, fa1, fa2
fge.s a0, fa1, fa2; fge.d a0, fa1, fa2; fge.h a0, fa1, fa2
fence; pause; fence.tso; unimp; scall; sbreak; add a0, a1, 5; addw a0, a1, -5; and a0, a1, 5; or a0, a1, 5
xor a0, a1, 5; slt a0, a1, 5; sltu a0, a1, 5; sll a0, a1, 5; sllw a0, a1, 5; srl a0, a1, 5; srlw a0, a1, 5
sra a0, a1, 5; sraw a0, a1, 5; bclr a0, a1, 5; bext a0, a1, 5; binv a0, a1, 5; bset a0, a1, 5; ror a0, a1, 5
rorw a0, a1, 5; li a0, 5; li a0, -2048; li a0, -1; li a0, 0x7ff; li a0, 'a'; li a0, -0x80000000
li a0, 0x7ffff000; li a0, 4096; li a0, 1+2*3; li a0, (1<<11)-1; li a0, ~5"""

VECTOR = """vneg.v v1, v2; vneg.v v1, v2, v0.t; vnot.v v1, v2; vnot.v v1, v2, v0.t; vwcvt.x.x.v v2, v4
vwcvt.x.x.v v2, v4, v0.t; vwcvtu.x.x.v v2, v4; vwcvtu.x.x.v v2, v4, v0.t; vncvt.x.x.w v1, v2; vncvt.x.x.w v1, v2, v0.t
vfneg.v v1, v2; vfneg.v v1, v2, v0.t; vfabs.v v1, v2; vfabs.v v1, v2, v0.t; vmmv.m v1, v2; vmnot.m v1, v2; vmclr.m v1
vmset.m v1; vmfgt.vv v1, v2, v3; vmfgt.vv v1, v2, v3, v0.t; vmfge.vv v1, v2, v3; vmfge.vv v1, v2, v3, v0.t
vmsgt.vv v1, v2, v3; vmsgt.vv v1, v2, v3, v0.t; vmsgtu.vv v1, v2, v3; vmsgtu.vv v1, v2, v3, v0.t
vmsge.vv v1, v2, v3; vmsge.vv v1, v2, v3, v0.t; vmsgeu.vv v1, v2, v3; vmsgeu.vv v1, v2, v3, v0.t
vmslt.vi v1, v2, 5; vmslt.vi v1, v2, -15, v0.t; vmslt.vi v1, v2, 16; vmsltu.vi v1, v2, 5; vmsltu.vi v1, v2, 0
vmsltu.vi v1, v2, 0, v0.t; vmsge.vi v1, v2, 5; vmsge.vi v1, v2, 5, v0.t; vmsgeu.vi v1, v2, 5; vmsgeu.vi v1, v2, 0
vmsgeu.vi v1, v2, 0, v0.t; vmsge.vx v1, v2, a0; vmsgeu.vx v1, v2, a0; vmsge.vx v1, v2, a0, v0.t
vmsgeu.vx v1, v2, a0, v0.t; vmsge.vx v1, v2, a0, v0.t, v3; vmsgeu.vx v1, v2, a0, v0.t, v3
vmsge.vx v0, v2, a0, v0.t, v3; vmsgeu.vx v0, v2, a0, v0.t, v3; vpopc.m a0, v1; vpopc.m a0, v1, v0.t
vmandnot.mm v1, v2, v3; vmornot.mm v1, v2, v3; vfredsum.vs v1, v2, v3; vfredsum.vs v1, v2, v3, v0.t
vfwredsum.vs v1, v2, v3; vle1.v v1, (a0); vse1.v v1, (a0); vl1r.v v1, (a0); vl2r.v v2, (a0); vl4r.v v4, (a0)
vl8r.v v8, (a0); vle32.v v1, 0(a0)"""

FLOW = """start: nop
1: beqz a0, 1f
bnez a0, 1b
2: j 2b
1: j 2f
j 1b
2: bne a0, a1, end
.byte 1, -128, 255
.align 2
.half 0xffff, -32768
.p2align 3
.word 0xffffffff, -0x80000000, end - start, (end - start) * 4
.dword 0xffffffffffffffff, -1
.float 1.5, -2e-3, 3.4028235e38, 1e-45
.double 1.5, -0.1, 1.7976931348623157e308, 4.9e-324
.balign 4
.ascii "a\\n\\"b\\\\,;#", "c"
.asciz "d\\t\\101"
.zero 3
.space 2, 7
.balign 16
.equ size, 3 * (4 + 5)
.set half, size >> 1
li a0, size
addi a0, a1, half - 1
lw a0, half * 4(a1)
li a1, ';'
li a2, '#' # a comment
end: ret"""

ADDRESSES = """_start: la a0, there
lla a1, there
lw a2, there
ld a3, there
lbu a4, there
sd a5, there, t0
flw fa0, there, t1
fsd fa1, there, t2
lui a0, %hi(there)
addi a0, a0, %lo(there)
lw a1, %lo(there)(a0)
sw a1, %lo(there + 8)(a0)
1: auipc a2, %pcrel_hi(there + 4)
nop
addi a3, a2, %pcrel_lo(1b)
sw a3, %pcrel_lo(1b)(a2)
la a4, 2f
2: la a5, 2b
.zero 5000
there: .dword 1, 2, 3"""


def statements(text: str) -> list[str]:
    return [one.strip() for line in text.splitlines() for one in line.split(";")]


@pytest.mark.parametrize("text", [SCALAR, VECTOR])
def test_pseudo_instructions_are_those_of_clang(text: str, tmp_path: Path) -> None:
    lines = statements(text)
    theirs = riscv_tools.clang_bits(tmp_path, lines)
    ours, _ = _core.isa_assemble("\n".join(lines))
    at = 0
    for line in lines:  # one by one, so that a difference is named
        code = _core.isa_assemble(line)[0]
        assert code == theirs[at : at + len(code)], line
        at += len(code)
    assert ours == theirs


def test_labels_data_and_expressions_are_those_of_clang(tmp_path: Path) -> None:
    assert _core.isa_assemble(FLOW)[0] == riscv_tools.clang_bits(tmp_path, FLOW.splitlines())


def test_addresses_are_those_of_a_linker(tmp_path: Path) -> None:
    """Linked by GNU ld where our assembler puts code: addresses in parts, relative ones, loads and stores at labels."""
    from elftools.elf.elffile import ELFFile

    linker = shutil.which("riscv64-linux-gnu-ld")
    if linker is None:
        pytest.skip("riscv64-linux-gnu-ld is not installed (Debian: binutils-riscv64-linux-gnu)")
    (tmp_path / "a.s").write_text(
        ".option norelax\n.option exact\n.globl _start\n" + ADDRESSES + "\n", encoding="utf-8"
    )
    riscv_tools.clang(tmp_path, "-c", "a.s", "-o", "a.o")
    subprocess.run([linker, "--no-relax", "-Ttext=0x10000", "a.o", "-o", "a.elf"], cwd=tmp_path, check=True, timeout=60)
    with (tmp_path / "a.elf").open("rb") as file:
        theirs = ELFFile(file).get_section_by_name(".text")
        assert theirs["sh_addr"] == 0x10000
        wanted = theirs.data()
    assert _core.isa_assemble(ADDRESSES, 0x10000)[0] == wanted


def test_every_word_is_read_back() -> None:
    """What is printed of any 32 or 16 bits assembles to them: reserved types and hints too."""
    rng = random.Random(3)
    rows = isa.instructions()
    words = [rng.getrandbits(32) | 3 for _ in range(20_000)] + list(range(0, 1 << 16, 1))
    words += [row["match"] | rng.getrandbits(32) & ~row["mask"] & 0xFFFFFFFF for row in rows for _ in range(40)]
    words += [0x80000057 | 7 << 12 | 0x2FF << 20, 0x57 | 7 << 12 | 1153 << 20, 0xC0000057 | 7 << 12 | 1023 << 20]
    texts, wanted = [], bytearray()
    for word in words:
        bits = word if word & 3 == 3 else word & 0xFFFF
        texts.append(isa.disassemble(bits))
        wanted += bits.to_bytes(4 if bits & 3 == 3 else 2, "little")
    made = _core.isa_assemble("\n".join(texts))[0]
    if made != bytes(wanted):
        for text, word in zip(texts, words, strict=True):
            bits = word if word & 3 == 3 else word & 0xFFFF
            assert int.from_bytes(_core.isa_assemble(text)[0], "little") == bits, (text, hex(bits))


def test_halves() -> None:
    ours, _ = _core.isa_assemble(".float16 1.5, -2.0, 65504, 6e-8, inf\n.bfloat16 1.5, 1e30")
    assert ours[:10] == struct.pack("<5e", 1.5, -2.0, 65504, 6e-8, float("inf"))
    assert ours[10:] == struct.pack("<f", 1.5)[2:] + (0x714A).to_bytes(2, "little")


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (".word 0x100000000", "line 1, column 7", "-2147483648 to 4294967295"),
        ("nop\n.byte 3, 256", "line 2, column 10", "-128 to 255"),
        (".half -32769", "line 1, column 7", "more bytes"),
        (".dword 0x10000000000000000", "line 1, column 8", "64 bits"),
        (".float 1e39", "line 1, column 8", "range"),
        (".float one", "line 1, column 8", "1.5"),
        (".balign 3", "line 1, column 9", "powers of two"),
        ("j 1f", "line 1, column 3", "stands below"),
        ("j 1b\n1: nop", "line 1, column 3", "stands above"),
        ("1x: nop", "line 1, column 1", "begin with a digit"),
        ("addi a0, a0, %pcrel_lo(x)\nx: nop", "line 1, column 14", "auipc"),
        ("lui a0, %high(x)\nx: nop", "line 1, column 9", "%pcrel_hi"),
        ("x: li a0, x", "line 1, column 11", "la takes addresses"),
        ("li a0, 1/0", "line 1, column 8", "zero"),
        ("li a0, 1<<64", "line 1, column 8", "0 to 63"),
        ("li a0, (1", "line 1, column 8", "neither a number"),
        ("x: .word x*2", "line 1, column 10", "only be added"),
        ("x: .word x+x", "line 1, column 10", "label"),
        ("vmsge.vx v0, v1, a0, v0.t", "line 1, column 10", "vt"),
        ("vmsge.vx v1, v2", "line 1, column 1", "3 to 5"),
        ("fsrmi a0, 32", "line 1, column 11", "0 to 31"),
        ("lw a0, nowhere", "line 1, column 8", "neither a number nor a label"),
        ("fgt.q a0, fa0, fa1", "line 1, column 1", "fgt."),
        (".wrod 3", "line 1, column 1", ".word"),
        (".equ x", "line 1, column 1", "value"),
        ("vsetvli t0, a0, 2048", "line 1, column 17", "0 to 2047"),
    ],
)
def test_mistakes_are_named_by_place(text: str, place: str, said: str) -> None:
    with pytest.raises(ts.UserError) as raised:
        isa.assemble(text)
    assert place in str(raised.value) and said in str(raised.value), raised.value


def test_a_deep_expression_ends_in_words() -> None:
    with pytest.raises(ts.UserError, match="too deep"):
        isa.assemble("li a0, " + "(" * 100_000)
    with pytest.raises(ts.UserError, match="too deep"):
        isa.assemble("li a0, " + "-" * 100_000 + "1")


@pytest.mark.parametrize(
    "text", [".float16 65520", ".float16 -70000", ".bfloat16 3.4e38", ".float 1e39", ".double 1e400"]
)
def test_a_float_that_its_directive_cannot_hold_is_an_error(text: str) -> None:
    """IEEE 754 rounds such a one to infinity, which nobody has written."""
    with pytest.raises(ts.UserError, match=f"out of the range of {text.split()[0]}"):
        ts.isa.assemble(f"f: {text}")
    for given in ("65504", "-65519", "inf", "nan"):
        ts.isa.assemble(f"f: .float16 {given}")
