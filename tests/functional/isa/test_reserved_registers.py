"""Registers that vector instructions may not have: what the assembler refuses is what clang's refuses."""

from __future__ import annotations

import importlib.util
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilesim as ts
import tilesim.isa as isa
from support.riscv_tools import TARGET
from tilesim import _core

PLAIN = {"rs1": "a1", "rs2": "a2", "(rs1)": "(a1)", "(rs1), rs2": "(a1), a2", "fs1": "fa1", "rd": "a0", "fd": "fa0"}
PLAIN |= {"simm5": "3", "zimm5": "3", "v0": "v0"}
FEW = ("v0", "v1", "v2", "v4", "v8")  # few, so that operands often meet


def vector_rows() -> list[dict[str, str]]:
    rows = [row for row in isa.instructions() if row["extension"][0] in "VZ" and row["name"][0] == "v"]
    return [row for row in rows if not row["name"].startswith("vset")]


def drawn(row: dict[str, str], draw: random.Random) -> str:
    texts = []
    for word in row["operands"].replace(" ", "").split(","):
        if word == "vm":
            texts += ["v0.t"] * draw.randrange(2)
        elif word in ("vd", "vs1", "vs2", "vs3"):
            texts.append(draw.choice(FEW) if draw.randrange(4) else f"v{draw.randrange(32)}")
        else:
            texts.append(PLAIN[word])
    return f"{row['name']} {', '.join(texts)}"


def refused(text: str) -> str:
    try:
        _core.isa_assemble(text)
    except ts.UserError as error:
        return str(error)
    return ""


def test_registers_are_refused_where_clang_refuses_them(tmp_path: Path) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: pip install 'tilesim[test]'")
    draw = random.Random(7)
    rows = vector_rows()
    lines = [drawn(row, draw) for row in rows for _ in range(24)]
    (tmp_path / "l.s").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "ziglang", "cc", *TARGET, "-c", "l.s", "-o", "l.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    theirs = {int(line) - 1 for line in re.findall(r"l\.s:(\d+):\d+: error", done.stderr)}
    ours = {index for index, line in enumerate(lines) if refused(line)}
    assert len(theirs) > 500 and len({lines[index].split()[0] for index in theirs}) > 350
    wrong = [f"{'we' if index in ours else 'clang'}: {lines[index]}" for index in sorted(theirs ^ ours)]
    assert not wrong, "\n".join(wrong[:30])


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("nop\n vmv2r.v v1, v2", "line 2, column 10", "multiples of 2"),
        ("vmv4r.v v4, v2", "line 1, column 13", "multiples of 4"),
        ("vl4re8.v v2, (a0)", "line 1, column 10", "multiples of 4"),
        ("vs8r.v v4, (a0)", "line 1, column 8", "multiples of 8"),
        ("vadd.vv v0, v1, v2, v0.t", "line 1, column 9", "v1 to v31"),
        ("vadc.vvm v0, v1, v2, v0", "line 1, column 10", "over its mask"),
        ("vrgather.vv v8, v8, v9", "line 1, column 13", "another register than vs2"),
        ("vrgather.vv v8, v9, v8", "line 1, column 13", "another register than vs1"),
        ("vslideup.vi v8, v8, 1", "line 1, column 13", "overlaps a source"),
        ("vwadd.vv v8, v8, v9", "line 1, column 10", "overlaps a source"),
        ("vwmacc.vv v8, v9, v8", "line 1, column 11", "overlaps a source"),
        ("vcompress.vm v8, v8, v9", "line 1, column 14", "overlaps a source"),
        ("vmsbf.m v8, v8", "line 1, column 9", "overlaps a source"),
        ("vneg.v v0, v2, v0.t", "line 1, column 8", "over its mask"),  # a pseudo-instruction
    ],
)
def test_place_and_words(text: str, place: str, said: str) -> None:
    told = refused(text)
    assert place in told and said in told, told


def test_an_instruction_of_one_s_own_has_the_same_rules() -> None:
    own = isa.define("my.v vd, vs2, vm", "custom-0", semantics=lambda x: x)
    isa.assemble("my.v v8, v8, v0.t", [own])
    with pytest.raises(ts.UserError, match="over its mask"):
        isa.assemble("my.v v0, v8, v0.t", [own])
    with pytest.raises(ts.UserError, match="overlaps a source"):
        isa.assemble("xl.flip v8, v8, a0")


def test_what_is_refused_always_traps() -> None:
    """Whatever SEW and LMUL: bits of what is refused are illegal at all of them."""
    draw = random.Random(3)
    tried = 0
    for row in draw.sample(vector_rows(), 200):
        for _ in range(6):
            text = drawn(row, draw)
            if not refused(text) or "(" in text:
                continue
            bits = bits_of(row, text)
            assert isa.disassemble(bits).startswith(f".word {bits:#x}  # {row['name']}"), text
            assert _core.isa_assemble(isa.disassemble(bits))[0] == bits.to_bytes(4, "little")
            sew, lmul = draw.choice((8, 16, 32, 64)), draw.choice(("mf2", "m1", "m2", "m4"))
            result = isa.run(isa.assemble(f"_start: vsetvli t0, x0, e{sew}, {lmul}, ta, ma\n.word {bits:#x}"))
            assert result.trap is not None and result.trap["cause"] == "illegal instruction", text
            assert result.trap["pc"] == 0x10004
            tried += 1
    assert tried > 60


def bits_of(row: dict[str, str], text: str) -> int:
    """The code of a line that is refused: with other registers by the assembler, these put in by hand."""
    words = row["operands"].replace(" ", "").split(",")
    texts = text.split(" ", 1)[1].split(", ")
    masked = texts[-1] == "v0.t"
    apart = {"vd": "v8", "vs2": "v16", "vs1": "v24"}
    plain = [apart.get(word, one) for word, one in zip(words, texts, strict=False)]
    bits = int.from_bytes(_core.isa_assemble(f"{row['name']} {', '.join(plain)}")[0], "little")
    for word, one in zip(words, texts, strict=False):
        at = {"vd": 7, "vs1": 15, "vs2": 20}.get(word)
        if at is not None:
            bits = bits & ~(31 << at) | int(one[1:]) << at
    assert bits >> 25 & 1 == 0 or not masked
    return bits
