"""Vector state: vtype, vl, groups, policies, loads and stores, at every length of registers."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim.isa as isa

SUM = """
f: # n, x, y: y += x
 vsetvli t0, a0, e{bits}, {lmul}, ta, ma
 vle{bits}.v v8, (a1)
 vle{bits}.v v16, (a2)
 vadd.vv v16, v8, v16
 vse{bits}.v v16, (a2)
 slli t1, t0, {shift}
 add a1, a1, t1
 add a2, a2, t1
 sub a0, a0, t0
 bnez a0, f
 ret
"""
LENGTHS = [1 << power for power in range(7, 17)]


@pytest.mark.parametrize("vlen", LENGTHS)
@pytest.mark.parametrize(("bits", "lmul"), [(8, "m8"), (16, "m4"), (32, "m1"), (64, "m2"), (8, "mf8"), (32, "mf2")])
def test_strips_of_any_length_give_the_same(vlen: int, bits: int, lmul: str) -> None:
    rng = np.random.default_rng(bits)
    kind = f"u{bits // 8}"
    x, y = (rng.integers(0, 1 << 8, 1003).astype(kind) << np.array(bits - 8, kind) for _ in range(2))
    want = x + y
    program = isa.assemble(SUM.format(bits=bits, lmul=lmul, shift=(bits // 8).bit_length() - 1))
    result = isa.call(program, "f", 1003, x, y, vlen=vlen)
    assert result.trap is None
    np.testing.assert_array_equal(y, want)
    group = float(lmul[1:]) if lmul[1] != "f" else 1 / float(lmul[2:])
    strips = -(-1003 // int(vlen * group // bits))
    assert (result.instructions, result.vector_instructions) == (10 * strips + 1, 4 * strips)
    assert result.element_operations == 4 * 1003


@pytest.mark.parametrize("vlen", LENGTHS)
@pytest.mark.parametrize("sew", [8, 16, 32, 64])
@pytest.mark.parametrize("lmul", [-3, -2, -1, 0, 1, 2, 3])
def test_vl_is_the_smaller_of_length_and_group(vlen: int, sew: int, lmul: int) -> None:
    name = f"mf{1 << -lmul}" if lmul < 0 else f"m{1 << lmul}"
    most = vlen * 2**lmul / sew
    legal = sew <= 64 * 2 ** min(lmul, 0)
    for asked in (0, 1, 5, 100, 2**20):
        program = isa.assemble(f"f: vsetvli a0, a0, e{sew}, {name}, tu, mu\ncsrr a1, vtype\nret")
        value = isa.call(program, "f", asked, vlen=vlen, returns="u64").value
        assert value == (min(asked, most) if legal else 0)
    everything = isa.assemble(f"f: vsetvli a0, zero, e{sew}, {name}, ta, ma\nret")
    assert isa.call(everything, "f", vlen=vlen, returns="u64").value == (most if legal else 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vadd.vv v1, v2, v3", "vill"),
        ("vsetivli t0, 1, e32, m2, ta, ma\nvadd.vv v2, v3, v4", "multiple"),
        ("vsetivli t0, 1, e32, m1, ta, ma\n.word 0x354057", "mask"),  # vadd.vx v0, v3, a0, v0.t
        ("vsetivli t0, 1, e32, m1, ta, ma\nvadd.vx v1, v0, a0, v0.t", "mask"),
        ("vsetivli t0, 1, e8, m8, ta, ma\nvle16.v v8, (sp)", "more than 8"),
        ("vsetivli t0, 1, e64, m1, ta, ma\ncsrwi vstart, 1\nvadd.vv v1, v2, v3", "vstart"),
    ],
)
def test_what_is_reserved_traps(text: str, said: str) -> None:
    result = isa.run(isa.assemble(f"_start: {text}"))
    assert result.trap is not None and result.trap["cause"] == "illegal instruction"
    assert said in result.trap["detail"], result.trap


def test_a_load_that_traps_tells_its_element() -> None:
    # three words lie below the end of the stack; a handler reads vstart
    text = """
_start: la t0, handler
 csrw mtvec, t0
 li s0, 0x4000000000
 addi s0, s0, -12
 vsetivli t0, 8, e32, m1, ta, ma
 vle32.v v1, (s0)
handler: csrr a0, vstart
 slli a0, a0, 1
 addi a0, a0, 1
 la t0, tohost
 sd a0, 0(t0)
 .balign 8
tohost: .dword 0
"""
    assert isa.run(isa.assemble(text), bare=True).exit_status == 3
