"""Machine mode as the public unit tests use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tilesim.isa as isa

#: A folder with the public unit tests, as built from riscv-tests (isa/rv64ui-p-add and so on).
FOLDER = os.environ.get("TILESIM_RISCV_TESTS", "")
#: Of theirs: what a hart without translation, interrupts and debugging does.
SORTS = (
    "rv64ui-p", "rv64um-p", "rv64ua-p", "rv64uf-p", "rv64ud-p", "rv64uc-p", "rv64uzfh-p", "rv64uzba-p", "rv64uzbb-p",
    "rv64uzbs-p",
)  # fmt: skip

#: As the public tests' environment does: a handler in machine mode, user mode, an `ecall` with the outcome in gp.
PROGRAM = """
_start: la t0, handler
 csrw mtvec, t0
 csrr a0, mhartid
 bnez a0, fail
 la t0, body
 csrw mepc, t0
 li t0, 0x1800
 csrc mstatus, t0
 mret
handler: csrr t5, mcause
 li t6, 8
 beq t5, t6, out
 li t6, 2
 bne t5, t6, fail
 csrr t6, mtval
 la t4, bad
 lw t3, 0(t4)
 bne t3, t6, fail
 csrr t6, mepc
 addi t6, t6, 4
 csrw mepc, t6
 addi s1, s1, 1
 mret
body: li s1, 0
bad: csrr t0, mstatus
 li gp, {outcome}
 li t0, 1
 beq s1, t0, over
fail: li gp, 99
over: ecall
out: slli gp, gp, 1
 ori gp, gp, 1
 la t5, tohost
 sw gp, 0(t5)
 j out
 .balign 64
tohost: .dword 0
"""


@pytest.mark.parametrize("outcome", [0, 7])
def test_traps_modes_and_tohost(outcome: int) -> None:
    result = isa.run(isa.assemble(PROGRAM.format(outcome=outcome)), bare=True, max_instructions=1000)
    assert result.trap is None and result.exit_status == outcome, result


def test_a_handler_that_traps_itself_ends() -> None:
    text = "_start: la t0, h\ncsrw mtvec, t0\n.word 0\nnop\nh: .word 0\ntohost: .dword 0"
    result = isa.run(isa.assemble(text), bare=True, max_instructions=100000)
    assert result.trap is not None and result.trap["cause"] == "illegal instruction"


def files() -> list[Path]:
    return (
        sorted(p for p in Path(FOLDER).glob("rv64u*-p-*") if p.suffix == "" and p.name.startswith(SORTS))
        if FOLDER
        else []
    )


@pytest.mark.skipif(not FOLDER, reason="no public unit tests: TILESIM_RISCV_TESTS names a folder of riscv-tests/isa")
def test_public_unit_tests() -> None:
    assert files(), f"{FOLDER} holds no rv64u*-p-*"
    failed = {}
    for file in files():
        result = isa.run(file, bare=True, max_instructions=10_000_000)
        if result.exit_status != 0:
            failed[file.name] = repr(result)
    assert not failed, failed
