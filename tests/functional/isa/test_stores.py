"""Timed runs know addresses: a vector load waits until an older store has written the bytes that it reads, and for
nothing else."""

from __future__ import annotations

import pytest

import tilesim.isa as isa

REGISTER = 32  # bytes of core generic: 256 bits


def cycles(body: str) -> int:
    """Of lines between `|`, behind a slow division whose result v8 is; a0 and a1 are far apart, all masks are set."""
    text = f"""
_start: la      a0, data
        addi    a1, a0, 1024
        addi    a2, a0, {REGISTER}
        li      a3, 8
        vsetivli zero, 8, e32, m1, ta, ma
        vmset.m v0
        vid.v   v4
        vfdiv.vv v8, v8, v9
        {body}
        li      a0, 0
        li      a7, 93
        ecall
        .balign 64
data:   .zero   4096
""".replace("|", "\n")
    result = isa.run(isa.assemble(text), core="generic", timed=True)
    assert result.exit_status == 0 and result.cycles is not None
    return result.cycles


def after_store(load: str) -> int:
    """What follows the load is long, so that the run ends when the load lets it."""
    return cycles(f"vse32.v v8, (a0)| {load}| vfdiv.vv v20, v16, v16")


@pytest.mark.parametrize(
    ("load", "waits"),
    [
        ("vle32.v v16, (a0)", True),
        ("vle32.v v16, (a1)", False),
        ("vle32.v v16, (a2)", False),  # begins where the store ends
        ("addi a2, a2, -4| vle32.v v16, (a2)", True),  # one element in common
        ("vle32.v v16, (a0), v0.t", True),
        ("vlse32.v v16, (a0), a3", True),
        ("vlse32.v v16, (a1), a3", False),
        ("vlseg2e32.v v16, (a0)", True),
        ("vl1re32.v v16, (a0)", True),
        ("vl1re32.v v16, (a2)", False),
        ("li a3, -8| addi a2, a2, -4| vlse32.v v16, (a2), a3", True),  # downwards
    ],
)
def test_loads_wait_for_stores_of_their_bytes(load: str, waits: bool) -> None:
    # the same instructions behind a store that lies elsewhere
    apart = cycles(f"addi a4, a0, 2032| vse32.v v8, (a4)| {load}| vfdiv.vv v20, v16, v16")
    if waits:
        assert after_store(load) > apart + 8
    else:
        assert after_store(load) <= apart  # one scalar instruction less


def test_a_group_is_read_beat_by_beat() -> None:
    """A load of eight registers follows the store of them in steps: a beat later than one of other bytes, not eight."""
    groups = "li t0, 64| vsetvli t1, t0, e32, m8, ta, ma| vadd.vv v8, v8, v8"
    same = cycles(f"{groups}| vse32.v v8, (a0)| vle32.v v16, (a0)| vadd.vv v24, v16, v16")
    apart = cycles(f"{groups}| vse32.v v8, (a0)| vle32.v v16, (a1)| vadd.vv v24, v16, v16")
    assert apart <= same < apart + 8  # a beat is a register
