"""Vector floats by rational numbers, with those that qemu 7.2 lacks: half precision, bfloat16, conversions to zero."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

import tilesim.isa as isa
from support import exact_floats as ef
from support import riscv_vector_floats as vf
from support import riscv_vector_random as rv
from support.riscv_vector_shapes import float_widths


def rows(half: bool) -> list[dict[str, object]]:
    every = [row for row in rv.vector_rows(list(isa.instructions())) if vf.known(str(row["name"]))]
    names = [row for row in every if float_widths(str(row["name"])) is not None]
    return [row for row in names if half or "bf16" not in str(row["name"])]


def check(table: list[dict[str, object]], seed: int, cases: int, half: bool, vlen: int = 128) -> None:
    program = rv.make(table, seed, vlen, cases, half=half, every=True)
    assert {case.name for case in program.cases} == {row["name"] for row in table}
    result = isa.run(program.file, vlen=vlen)
    assert result.trap is None
    found = vf.differences(program, result.output)
    assert not found, "\n".join([f"{len(found)} states differ", *found[:8]])


@pytest.mark.parametrize("half", [False, True])
def test_floats_equal_rational_numbers(half: bool) -> None:
    check(rows(half), 1, 600, half)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 28))
@pytest.mark.parametrize("half", [False, True])
def test_many_floats_equal_rational_numbers(seed: int, half: bool) -> None:
    check(rows(half), seed, 4000, half, vlen=256)


@pytest.mark.parametrize("part", [".rtz", "bf16"])
def test_what_qemu_lacks_equals_rational_numbers(part: str) -> None:
    check([row for row in rows(True) if part in str(row["name"])], 3, 400, half=part == "bf16")


def _numpy(kind: object, bits: int, width: type) -> object:
    return np.array([bits], width).view(kind)[0]


@pytest.mark.parametrize(
    ("f", "kind"), [(ef.F16, np.float16), (ef.BF16, ml_dtypes.bfloat16)], ids=["float16", "bfloat16"]
)
def test_the_oracle_rounds_as_numpy_does(f: ef.Format, kind: type) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 1 << 16, (400, 2), np.uint16)
    with np.errstate(all="ignore"):
        for a, b in numbers.tolist():
            x, y = _numpy(kind, a, np.uint16), _numpy(kind, b, np.uint16)
            for ours, theirs in (
                (ef.add(f, a, b, 0)[0], x + y),
                (ef.multiply(f, a, b, 0)[0], x * y),
                (ef.divide(f, a, b, 0)[0], x / y),
            ):
                told = int(np.array([theirs]).view(np.uint16)[0])
                assert ours == told or (f.is_nan(ours) and f.is_nan(told)), (hex(a), hex(b))


def test_the_oracle_rounds_as_the_processor_does() -> None:
    rng = np.random.default_rng(2)
    for a, b in rng.integers(0, 1 << 32, (400, 2), np.uint64).tolist():
        with np.errstate(all="ignore"):
            x, y = (np.array([bits], np.uint32).view(np.float32)[0] for bits in (a, b))
            told = [int(np.array([v]).view(np.uint32)[0]) for v in (x + y, x * y, x / y, np.sqrt(x))]
        ours = [
            ef.add(ef.F32, a, b, 0),
            ef.multiply(ef.F32, a, b, 0),
            ef.divide(ef.F32, a, b, 0),
            ef.root(ef.F32, a, 0),
        ]
        for one, other in zip(ours, told, strict=True):
            assert one[0] == other or (ef.F32.is_nan(one[0]) and ef.F32.is_nan(other)), (hex(a), hex(b))


@pytest.mark.parametrize(("name", "power"), [("vfrec7.v", -1.0), ("vfrsqrt7.v", -0.5)])
@pytest.mark.parametrize(("sew", "kind"), [(16, np.float16), (32, np.float32), (64, np.float64)])
def test_estimates_have_seven_bits(name: str, power: float, sew: int, kind: type) -> None:
    text = f"""
estimate:
  vsetvli t0, a0, e{sew}, m8, ta, ma
  vle{sew}.v v8, (a1)
  {name} v8, v8
  vse{sew}.v v8, (a2)
  ret
"""
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(-9, 9, 128)).astype(kind)
    y = np.zeros(128, kind)
    isa.call(isa.assemble(text), "estimate", 128, x, y, vlen=1024)
    exact = x.astype(np.float64) ** power
    assert np.all(np.abs(y.astype(np.float64) / exact - 1) <= 2.0**-7)
    fraction = {16: 10, 32: 23, 64: 52}[sew]
    bits = y.view({16: np.uint16, 32: np.uint32, 64: np.uint64}[sew])
    normal = np.abs(y.astype(np.float64)) >= np.finfo(kind).tiny
    assert not np.any(bits[normal] & bits.dtype.type((1 << fraction - 7) - 1))


PRODUCTS = """
f:                        # x, y, out, frm
  fsrm a3
  vsetvli t0, zero, e32, m8, ta, ma
  vle32.v v8, (a0)
  vle32.v v16, (a1)
  vfmul.vv v24, v8, v16
  vse32.v v24, (a2)
  frflags a0
  ret
"""


@pytest.mark.parametrize("mode", range(5))
def test_products_around_half_the_smallest_number(mode: int) -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(1, 1 << 23, 256, np.uint32) | rng.integers(0, 2, 256, np.uint32) << 31
    y = np.uint32(127 - 22) << 23 | rng.integers(0, 1 << 23, 256, np.uint32)
    y -= rng.integers(0, 5, 256, np.uint32) << 23
    out = np.zeros(256, np.uint32)
    flags = isa.call(isa.assemble(PRODUCTS), "f", x, y, out, mode, vlen=1024, returns="u32").value
    told = [ef.multiply(ef.F32, a, b, mode) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert out.tolist() == [bits for bits, _ in told]
    assert flags == np.bitwise_or.reduce([found for _, found in told])
    assert len(set(out.tolist())) > 2


def test_a_wrong_flag_is_seen() -> None:
    program = rv.make([row for row in rows(True) if row["name"] == "vfadd.vv"], 1, 128, 3, half=True)
    output = bytearray(isa.run(program.file, vlen=128).output)
    assert vf.differences(program, bytes(output)) == []
    struct.pack_into("<Q", output, 32, struct.unpack_from("<Q", output, 32)[0] ^ 1)
    assert "fcsr" in vf.differences(program, bytes(output))[0]
