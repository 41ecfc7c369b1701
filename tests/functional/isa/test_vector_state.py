"""Vector state beside results: any VLEN, agnostic elements, what is reserved, faults."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest

import tilesim.isa as isa
from support import riscv_vector_random as rv
from support.riscv_random import _i
from support.riscv_vector_shapes import legal, shape

VLENS = (128, 256, 512, 1024, 4096, 16384, 32768, 65536)

KERNELS = """
axpy:                     # n, a (bits), x, y
  fmv.w.x fa0, a1
more_axpy:
  vsetvli t0, a0, e32, m8, ta, ma
  vle32.v v8, (a2)
  vle32.v v16, (a3)
  vfmacc.vf v16, fa0, v8
  vse32.v v16, (a3)
  slli t1, t0, 2
  add a2, a2, t1
  add a3, a3, t1
  sub a0, a0, t0
  bnez a0, more_axpy
  ret
total:                    # n, x (i16) -> i32
  vsetvli t0, zero, e32, m1, ta, ma
  vmv.s.x v0, zero
more_total:
  vsetvli t0, a0, e16, m4, ta, ma
  vle16.v v8, (a1)
  vwredsum.vs v0, v8, v0
  slli t1, t0, 1
  add a1, a1, t1
  sub a0, a0, t0
  bnez a0, more_total
  vsetvli t0, zero, e32, m1, ta, ma
  vmv.x.s a0, v0
  ret
planes:                   # n, rgb, three planes
more_planes:
  vsetvli t0, a0, e8, m2, ta, ma
  vlseg3e8.v v8, (a1)
  vse8.v v8, (a2)
  vse8.v v10, (a3)
  vse8.v v12, (a4)
  slli t1, t0, 1
  add t1, t1, t0
  add a1, a1, t1
  add a2, a2, t0
  add a3, a3, t0
  add a4, a4, t0
  sub a0, a0, t0
  bnez a0, more_planes
  ret
positive:                 # n, x (i32), y -> how many
  mv a4, a2
more_positive:
  vsetvli t0, a0, e32, m4, ta, ma
  vle32.v v8, (a1)
  vmsgt.vx v0, v8, zero
  vcompress.vm v16, v8, v0
  vcpop.m t2, v0
  slli t1, t0, 2
  add a1, a1, t1
  sub a0, a0, t0
  vsetvli zero, t2, e32, m4, ta, ma
  vse32.v v16, (a4)
  slli t2, t2, 2
  add a4, a4, t2
  bnez a0, more_positive
  sub a0, a4, a2
  srli a0, a0, 2
  ret
"""


@pytest.mark.parametrize("vlen", VLENS)
def test_kernels_do_the_same_at_any_length(vlen: int) -> None:
    program, rng = isa.assemble(KERNELS), np.random.default_rng(1)
    n = 3001
    x, y = rng.standard_normal(n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    a = np.float32(0.3)
    expected = (x.astype(np.float64) * np.float64(a) + y.astype(np.float64)).astype(np.float32)
    isa.call(program, "axpy", n, int(a.view(np.uint32)), x, y, vlen=vlen)
    assert np.array_equal(
        y, expected
    )  # a product of singles is exact in double; the sum is rounded twice but rarely so
    numbers = rng.integers(-(1 << 15), 1 << 15, n, np.int16)
    assert isa.call(program, "total", n, numbers, vlen=vlen, returns="i32").value == int(numbers.sum(dtype=np.int64))
    picture = rng.integers(0, 256, (n, 3), np.uint8)
    parts = [np.zeros(n, np.uint8) for _ in range(3)]
    isa.call(program, "planes", n, picture, *parts, vlen=vlen)
    assert all(np.array_equal(part, picture[:, index]) for index, part in enumerate(parts))
    signed, kept = rng.integers(-9, 9, n).astype(np.int32), np.zeros(n, np.int32)
    count = isa.call(program, "positive", n, signed, kept, vlen=vlen, returns="i64").value
    assert count == (signed > 0).sum() and np.array_equal(kept[:count], signed[signed > 0])


AGNOSTIC = """
f:                        # old registers, mask, out
  vl1re8.v v8, (a0)
  vl1re8.v v9, (a0)
  vl1re8.v v10, (a0)
  vl1re8.v v11, (a0)
  vl1re8.v v0, (a1)
  vsetivli t0, 3, e32, m1, {policy}
  vadd.vv v8, v8, v8, v0.t
  vmseq.vv v9, v9, v9
  vsetivli t0, 3, e32, m1, {policy}
  vredsum.vs v10, v10, v10
  vslide1down.vx v11, v11, zero
  vs1r.v v8, (a2)
  addi a2, a2, 16
  vs1r.v v9, (a2)
  addi a2, a2, 16
  vs1r.v v10, (a2)
  addi a2, a2, 16
  vs1r.v v11, (a2)
  ret
"""


def after(policy: str, agnostic: str) -> np.ndarray:
    old, mask = np.array([1, 2, 3, 4], np.uint32), np.array([0b1101, 0, 0, 0], np.uint32)
    out = np.zeros((4, 4), np.uint32)
    isa.call(isa.assemble(AGNOSTIC.format(policy=policy)), "f", old, mask, out, vlen=128, agnostic=agnostic)
    return out


ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("policy", "tail", "inactive"),
    [("tu, mu", 4, 2), ("ta, mu", ONES, 2), ("tu, ma", 4, ONES), ("ta, ma", ONES, ONES)],
)
def test_agnostic_elements_are_ones_where_the_policy_says_so(policy: str, tail: int, inactive: int) -> None:
    out = after(policy, "ones")
    assert out[0].tolist() == [2, inactive, 6, tail]
    assert out[1].tolist() == [ONES, ONES, ONES, ONES]  # a mask's tail is always agnostic
    assert out[2].tolist() == [1 + 1 + 2 + 3, *([ONES] * 3 if tail == ONES else [2, 3, 4])]
    assert out[3].tolist() == [2, 3, 0, tail]


@pytest.mark.parametrize("policy", ["tu, mu", "ta, ma"])
def test_they_stay_otherwise(policy: str) -> None:
    out = after(policy, "undisturbed")
    assert out[0].tolist() == [2, 2, 6, 4]
    assert out[1].tolist() == [1 | 7, 2, 3, 4]
    assert out[2].tolist() == [7, 2, 3, 4]


def one_instruction(bits: int, vtype: int, vl: int) -> bytes:
    """vtype and vl are set, then the instruction, then exit(0)."""
    code = [0xC << 28 | (vtype & 0x3FF) << 20 | vl << 15 | 7 << 12 | 0x57, bits]
    code += [_i(0, 0, 0, 10, 0x13), _i(93, 0, 0, 17, 0x13), 0x73]
    return rv.elf([(rv.CODE, 5, struct.pack("<5I", *code))], rv.CODE)


def refused(rows: list[dict[str, Any]], count: int) -> list[tuple[str, int, int, int]]:
    """Instructions whose registers the specification reserves."""
    rng, found = random.Random(4), []
    while len(found) < count:
        row = rng.choice(rows)
        name, how = row["name"], shape(row["name"])
        sew, lmul = rng.choice((8, 16, 32, 64)), rng.randrange(-3, 4)
        if lmul < 0 and sew > 64 >> -lmul:
            continue
        bits = row["match"] | (rng.getrandbits(32) & ~row["mask"] & 0xFFFFFFFF)
        regs = {"vd": bits >> 7 & 31, "vs1": bits >> 15 & 31, "vs2": bits >> 20 & 31}
        masked = bits >> 25 & 1 == 0
        if not legal(how, sew, lmul, masked, regs):
            found.append((name, bits, (sew.bit_length() - 4) << 3 | lmul & 7, rng.randrange(4)))
    return found


def test_reserved_registers_trap() -> None:
    rows = [row for row in rv.vector_rows(list(isa.instructions())) if row["name"] not in rv.SPECIAL]
    for name, bits, vtype, vl in refused(rows, 800):
        trap = isa.run(one_instruction(bits, vtype, vl), vlen=128).trap
        assert trap is not None and trap["cause"] == "illegal instruction", (name, hex(bits), hex(vtype))
        assert trap["pc"] == rv.CODE + 4 and "no such" not in trap["detail"], (name, trap)


@pytest.mark.parametrize("name", ["vadd.vv", "vfadd.vv", "vle32.v", "vmand.mm", "vmv.x.s", "vmv2r.v", "vredsum.vs"])
def test_nothing_runs_before_vtype_is_set(name: str) -> None:
    row = next(row for row in isa.instructions() if row["name"] == name)
    trap = isa.run(one_instruction(row["match"] | 1 << 25, 0x3FF, 1), vlen=128).trap  # a reserved vtype: vill
    assert trap is not None and "vtype" in trap["detail"]


@pytest.mark.parametrize("name", ["vl1re8.v", "vs1r.v"])
def test_whole_registers_need_no_vtype(name: str) -> None:
    row = next(row for row in isa.instructions() if row["name"] == name)
    trap = isa.run(one_instruction(row["match"] | 2 << 15, 0x3FF, 1), vlen=128).trap  # at the stack pointer
    assert trap is None


@pytest.mark.parametrize(("name", "sew"), [("vfadd.vv", 8), ("vfwadd.vv", 64), ("vwadd.vv", 64), ("vsext.vf8", 32)])
def test_reserved_widths_trap(name: str, sew: int) -> None:
    row = next(row for row in isa.instructions() if row["name"] == name)
    bits = row["match"] | 1 << 25 | 8 << 7 | 4 << 20 | (0 if "vf8" in name else 4 << 15)
    trap = isa.run(one_instruction(bits, (sew.bit_length() - 4) << 3, 1), vlen=128).trap
    assert trap is not None and trap["cause"] == "illegal instruction"


def test_reserved_rounding_modes_trap() -> None:
    for name in ("vfadd.vv", "vfmin.vv", "vmfeq.vv", "vfsgnj.vv"):
        text = f"f:\n  vsetivli t0, 2, e32, m1, ta, ma\n  li a1, 5\n  fsrm a1\n  {name} v1, v2, v3\n  ret\n"
        trap = isa.call(isa.assemble(text), "f", vlen=128).trap
        assert trap is not None and "rounding" in trap["detail"], name
