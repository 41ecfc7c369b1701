"""Programs that are none, and programs that go wrong: named, never a crash."""

from __future__ import annotations

import _thread
import json
import random
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tilesim as ts
import tilesim.isa as isa
from support.command import tilesim

GOOD = isa.assemble("_start: li a0, 0\nli a7, 93\necall")


def patched(at: int, form: str, *values: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into(form, data, at, *values)
    return bytes(data)


def two_segments(first: int, second: int) -> bytes:
    """Two segments of 64 bytes at these addresses."""
    head = bytearray(GOOD[:64])
    struct.pack_into("<H", head, 56, 2)
    parts = b"".join(struct.pack("<IIQQQQQQ", 1, 7, 4096, at, at, 64, 64, 4096) for at in (first, second))
    return bytes(head) + parts + bytes(4096 - 64 - len(parts)) + GOOD[4096:4160].ljust(64, b"\0")


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "not an ELF"),
    "text": (lambda: b"hello, world", "not an ELF"),
    "cut in its head": (lambda: GOOD[:40], "truncated"),
    "cut in its code": (lambda: GOOD[:4098], "truncated"),
    "32 bits": (lambda: patched(4, "B", 1), "64-bit"),
    "big-endian": (lambda: patched(5, "B", 2), "big-endian"),
    "x86": (lambda: patched(18, "<H", 62), "another processor"),
    "core dump": (lambda: patched(16, "<H", 4), "not a program"),
    "no entry": (lambda: patched(24, "<Q", 0), "no entry point"),
    "entry outside": (lambda: patched(24, "<Q", 0x500000), "no entry point"),
    "dynamic": (lambda: patched(64, "<I", 3), "dynamically"),
    "nothing to load": (lambda: patched(64, "<I", 6), "no segments to load"),
    "too large": (lambda: patched(64 + 40, "<Q", 1 << 60), "impossible size"),
    "less memory than file": (lambda: patched(64 + 40, "<Q", 1), "impossible size"),
    "where the stack is": (lambda: two_segments(0x10000, 0x3F_FFFF_0000), "stack"),
    "overlapping": (lambda: two_segments(0x10000, 0x10020), "overlap"),
}


#: what no code can be read from either
UNREAD = ("empty", "cut in its head", "cut in its code", "32 bits", "big-endian", "x86", "dynamic")


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_programs(name: str, tmp_path: Path) -> None:
    make, said = FILES[name]
    with pytest.raises(ts.UserError, match=said):
        isa.run(make())
    (tmp_path / "p.elf").write_bytes(make())
    for command in ("run", "dis") if name in UNREAD else ("run",):
        done = tilesim("isa", command, str(tmp_path / "p.elf"))
        assert done.returncode == 2 and said in done.stderr and done.stdout == "", done
        assert name not in UNREAD or "p.elf" in done.stderr


@pytest.mark.parametrize("seed", range(8))
def test_damaged_files_end_in_words(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(150):
        data = bytearray(GOOD)
        for _ in range(rng.randrange(1, 6)):
            at = (
                rng.randrange(len(data))
                if rng.random() < 0.5
                else rng.choice((rng.randrange(176), rng.randrange(4096, len(data))))
            )
            data[at] = rng.choice((0, 255, 1, 128, rng.randrange(256)))
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            isa.run(bytes(data), max_instructions=1000)
        except ts.Error as error:
            assert str(error)


@pytest.mark.parametrize(
    ("text", "cause", "instruction", "address"),
    [
        (".word 0xffffffff", "illegal instruction", ".word 0xffffffff", None),
        (".half 0", "illegal instruction", "", None),
        ("ld a0, 8(zero)", "load from a bad address", "ld a0, 8(zero)", 8),
        ("li t0, 0x7000000\nsd a0, 0(t0)", "store to a bad address", "sd a0, 0(t0)", 0x7000000),
        ("li t0, 0x7000000\njr t0", "jump to a bad address", "", 0x7000000),
        ("li t0, 0x7000001\namoadd.w a0, a1, (t0)", "misaligned store", "amoadd.w a0, a1, (t0)", 0x7000001),
        ("f: addi sp, sp, -16\nsd ra, 0(sp)\ncall f", "store to a bad address", "sd ra, 0(sp)", None),
        ("li a7, 220\necall", "unknown system call", "ecall", None),
        ("ebreak", "breakpoint", "ebreak", None),
        ("c.ebreak", "breakpoint", "c.ebreak", None),
        ("csrw 0x7c0, a0", "illegal instruction", "csrrw zero, 0x7c0, a0", None),
        ("csrw cycle, a0", "illegal instruction", "csrrw zero, cycle, a0", None),
        ("csrwi frm, 5\nfadd.s fa0, fa1, fa2", "illegal instruction", "fadd.s fa0, fa1, fa2", None),
        ("vadd.vv v1, v2, v3", "illegal instruction", "vadd.vv v1, v2, v3", None),
        ("vsetivli t0, 4, e32, m2, ta, ma\nvadd.vv v1, v2, v4", "illegal instruction", "vadd.vv v1, v2, v4", None),
        (
            "vsetivli t0, 4, e32, m1, ta, ma\naddi a0, sp, -65\nvle32.v v1, (a0)",
            "misaligned load",
            "vle32.v v1, (a0)",
            None,
        ),
        ("mret", "illegal instruction", "mret", None),
        ("x: j x", "instruction limit", "", None),
    ],
)
def test_traps_name_cause_place_and_instruction(
    text: str, cause: str, instruction: str, address: int | None, tmp_path: Path
) -> None:
    program = isa.assemble(f"_start: nop\n{text}")
    result = isa.run(program, max_instructions=10_000_000)
    trap = result.trap
    assert trap is not None and result.exit_status is None
    assert trap["cause"] == cause and trap["instruction"] == instruction, trap
    assert trap["symbol"].split("+")[0] in ("_start", "f", "x", "")
    if address is not None:
        assert trap["address"] == address
    if "220" in text:
        assert "clone" in trap["detail"]
    if "sd ra" in text:
        assert "stack" in trap["detail"]
    (tmp_path / "p.elf").write_bytes(program)
    words = ("isa", "run", str(tmp_path / "p.elf"), "--json", str(tmp_path / "r.json"))
    done = tilesim(*words, "--max-instructions", "10000000")
    assert done.returncode == 1 and cause in done.stderr, done
    data = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert (data["schema"], data["version"], data["exit_status"]) == ("tilesim.isa_run", 1, None)
    assert data["trap"] == trap and data["instructions"] > 0


def test_an_endless_loop_answers_ctrl_c() -> None:
    endless = isa.assemble("x: j x")
    timer = threading.Timer(0.3, _thread.interrupt_main)
    start = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        isa.run(endless)
    assert time.perf_counter() - start < 60  # not for ever; how soon is bench/isa.py's to say


def test_cores_and_policies() -> None:
    with pytest.raises(ts.UserError, match="generic"):
        isa.run(GOOD, core="generik")
    with pytest.raises(ts.UserError, match="both a core and a machine"):
        isa.run(GOOD, core="generic", machine="tpu-v3")
    with pytest.raises(ts.UserError, match="undisturbed"):
        isa.run(GOOD, agnostic="zeros")
    assert isa.Core.from_machine("tpu-v3").vlen == 32768
    assert isa.run(GOOD, machine="tpu-v3").data["vlen"] == 32768
