"""What random programs leave out: jumps, words of zeros, traps with their source line, the form of the result."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import tilesim.isa as isa
from support import riscv_random, riscv_tools

from .test_random_scalar import SEEDS

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def value(body: str, *args: int) -> int:
    result = isa.call(isa.assemble(f"f: {body}"), "f", *args, returns="u64")
    assert result.trap is None, result
    return result.value


def test_random_programs_hold_every_instruction() -> None:
    rows = list(isa.instructions())
    drawn = set()
    for seed in SEEDS:
        for group in riscv_random.make(rows, seed, 1000).groups:
            drawn |= {isa.disassemble(bits).split()[0] for bits, _ in group}
    missing = {row["name"] for row in rows if row["extension"][:2] not in ("V", "Zv", "Xt")} - drawn
    assert missing == riscv_random._SKIPPED


def test_jumps_and_their_links() -> None:
    there = (
        "mv t0, ra\nla t1, over\njalr t2, 0(t1)\nli a0, 99\nover: la t3, over\naddi t3, t3, -4\nsub a0, t2, t3\njr t0"
    )
    assert value(there) == 0
    assert value("mv t0, ra\njal t2, over\nli a0, 99\nover: la t3, over\naddi t3, t3, -4\nsub a0, t2, t3\njr t0") == 0
    odd = "mv t0, ra\nla t1, over\naddi t1, t1, 1\njalr t2, 0(t1)\nli a0, 99\nover: mv ra, t0\nret"
    assert value(odd, 5) == 5  # the lowest bit of the target is dropped
    assert value("la t1, g\nmv t0, ra\nc.mv a5, t1\nc.jalr a5\nmv ra, t0\nret\ng: li a0, 7\nc.jr ra") == 7
    assert value("c.j g\nli a0, 9\ng: c.addi16sp sp, -64\nc.addi16sp sp, 64\nmv a0, sp\nsub a0, a0, sp\nret") == 0
    own = "mv t0, ra\nla ra, over\njalr ra, 0(ra)\nli a0, 9\nover: mv ra, t0\nret"  # source and link are one register
    assert value(own, 3) == 3


@pytest.mark.parametrize("seed", range(3))
def test_branches_reach_both_ways(seed: int) -> None:
    rng = random.Random(seed)
    tests = {
        "beq": lambda a, b: a == b,
        "bne": lambda a, b: a != b,
        "blt": lambda a, b: a < b,
        "bge": lambda a, b: a >= b,
    }
    for name, holds in tests.items():
        for _ in range(5):
            a, b = rng.randrange(-3, 4), rng.randrange(-3, 4)
            far = f"j start\nback: li a0, 1\nret\n.zero 3600\nstart: {name} a0, a1, back\nli a0, 0\nret"
            assert value(far, a, b) == holds(a, b)
            unsigned = name + ("u" if name in ("blt", "bge") else "")
            near = f"{unsigned} a0, a1, yes\nli a0, 0\nret\n.zero 3600\nyes: li a0, 1\nret"
            assert value(near, a, b) == holds(a % 2**64, b % 2**64)


def test_zeros_below_a_word() -> None:
    for number, zeros in ((0, 32), (1 << 33, 32), (1 << 31, 31), (0x60, 5), (2**64 - 1, 0)):
        assert value("ctzw a0, a0\nret", number) == zeros


def test_counters_count_instructions() -> None:
    assert value("rdinstret t0\nnop\nnop\nrdinstret t1\nsub a0, t1, t0\nret") == 3
    assert value("rdcycle t0\nrdcycle t1\nsub a0, t1, t0\nret") == 1


def test_a_trap_names_its_source_line(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text(
        "int fine(int *p) { return *p; }\nint bad(int *p) {\n  p += 1;\n  return p[1] * 3;\n}\n"
    )
    riscv_tools.clang(tmp_path, "-O0", "-g", "-fno-sanitize=all", "-nostdlib", "-Wl,-e,bad", "bad.c", "-o", "bad")
    trap = isa.call(tmp_path / "bad", "bad", 0x123450).trap
    assert trap is not None and trap["symbol"].startswith("bad+") and trap["line"] == "bad.c:4", trap
    assert trap["address"] == 0x123458 and trap["instruction"].startswith(("lw", "c.lw"))


def test_results_have_the_form_of_the_schema() -> None:
    schema = json.loads((CONFIGS / "schemas" / "isa_run.json").read_text())
    for text in ("li a7, 93\necall", ".word 0", "x: j x", "ld a0, 0(zero)"):
        result = isa.run(isa.assemble(text), max_instructions=100)
        jsonschema.validate(json.loads(json.dumps(result.to_dict())), schema)


def test_a_function_of_a_program_with_data(tmp_path: Path) -> None:
    text = "double gain = 3; int calls;\ndouble scale(double x, double *y, int n) {\n"
    text += "  ++calls; for (int i = 0; i < n; ++i) y[i] = x * y[i] * gain; return calls; }\nvoid _start(void) {}\n"
    (tmp_path / "s.c").write_text(text)
    riscv_tools.clang(tmp_path, "-O2", "-fno-vectorize", "-fno-sanitize=all", "-nostdlib", "s.c", "-o", "s")
    y = np.arange(5.0)
    assert isa.call(tmp_path / "s", "scale", 2.0, y, 5, returns="f64").value == 1.0
    assert y.tolist() == [0, 6, 12, 18, 24]
