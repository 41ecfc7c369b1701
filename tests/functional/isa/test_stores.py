"""Timed runs know addresses: a vector load waits until an older store has written the bytes that it reads, and for
nothing else."""

from __future__ import annotations

import json
from pathlib import Path

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


SLOW = 30  # `vfdiv` of eight elements takes less


def spread(access: str) -> int:
    """Cycles by which a scalar access of bytes that older vector accesses touch ends later than one of others."""
    end = "addi t3, t2, 1| vmv.v.x v20, t3| vfdiv.vv v21, v20, v20"
    same = cycles(f"{access.replace('@', '0(a0)')}| {end}")
    apart = cycles(f"{access.replace('@', '0(a1)')}| {end}")
    return same - apart


@pytest.mark.parametrize(
    "access",
    [
        "vse32.v v8, (a0)| lw t2, @",
        "vse32.v v8, (a0)| ld t2, @",
        "vse32.v v8, (a0)| flw ft0, @| fmv.x.w t2, ft0",
        "vse32.v v8, (a0)| sw t1, @| addi t2, t1, 0",  # a younger write comes behind an older one
        "vle32.v v16, (a0), v0.t| vse32.v v8, (a0)| lbu t2, @",
    ],
)
def test_scalar_accesses_wait_for_vector_stores_of_their_bytes(access: str) -> None:
    assert 6 < spread(access) <= SLOW


def test_scalar_stores_wait_for_vector_loads_of_their_bytes() -> None:
    """The load waits for its mask, which a slow comparison makes."""
    end = "addi t3, t1, 1| vmv.v.x v20, t3| vfdiv.vv v21, v20, v20"
    body = "vmfeq.vv v0, v8, v8| vle32.v v16, (a0), v0.t| sw t1, 0({})| " + end
    assert 3 < cycles(body.format("a0")) - cycles(body.format("a1")) <= SLOW
    # reads do not wait for reads
    body = body.replace("sw t1", "lw t1")
    assert cycles(body.format("a0")) == cycles(body.format("a1"))


def test_vector_loads_wait_for_scalar_stores(tmp_path: Path) -> None:
    """A scalar store is 40 cycles under way: a load of its bytes comes behind it, one of others does not wait."""
    generic = json.loads((Path(__file__).parents[3] / "configs/cores/generic.json").read_text())
    generic["scalar"]["store"] = 40
    (tmp_path / "core.json").write_text(json.dumps(generic))
    core = isa.Core.load(tmp_path / "core.json")

    def took(base: str) -> int:
        text = f"""
_start: la      a0, data
        addi    a1, a0, 1024
        vsetivli zero, 8, e32, m1, ta, ma
        sw      a2, 0({base})
        vle32.v v8, (a0)
        vfdiv.vv v9, v8, v8
        vfdiv.vv v10, v9, v9
        vfdiv.vv v11, v10, v10
        li      a0, 0
        li      a7, 93
        ecall
        .balign 64
data:   .zero   4096
"""
        result = isa.run(isa.assemble(text), core=core, timed=True)
        assert result.exit_status == 0 and result.cycles is not None
        return result.cycles

    assert 30 <= took("a0") - took("a1") <= 40


def test_a_group_is_read_beat_by_beat() -> None:
    """A load of eight registers follows the store of them in steps: a beat later than one of other bytes, not eight."""
    groups = "li t0, 64| vsetvli t1, t0, e32, m8, ta, ma| vadd.vv v8, v8, v8"
    same = cycles(f"{groups}| vse32.v v8, (a0)| vle32.v v16, (a0)| vadd.vv v24, v16, v16")
    apart = cycles(f"{groups}| vse32.v v8, (a0)| vle32.v v16, (a1)| vadd.vv v24, v16, v16")
    assert apart <= same < apart + 8  # a beat is a register
