"""`tilesim isa` on what is no program, or goes wrong: exit codes 0, 1 and 2, one message, what the JSON says."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support.command import tilesim

GOOD = isa.assemble("_start: li a0, 0\nli a7, 93\necall")
EXIT = "\nli a0, 0\nli a7, 93\necall"


def patched(at: int, form: str, *values: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into(form, data, at, *values)
    return bytes(data)


def overlapping() -> bytes:
    head = bytearray(GOOD[:64])
    struct.pack_into("<H", head, 56, 2)
    parts = b"".join(struct.pack("<IIQQQQQQ", 1, 7, 4096, at, at, 64, 64, 4096) for at in (0x10000, 0x10020))
    return bytes(head) + parts + bytes(4096 - 64 - len(parts)) + GOOD[4096:4160].ljust(64, b"\0")


NO_PROGRAMS: dict[str, tuple[Callable[[], bytes], str]] = {
    "truncated head": (lambda: GOOD[:40], "cut off"),
    "truncated code": (lambda: GOOD[:4098], "cut off"),
    "32-bit": (lambda: patched(4, "B", 1), "64 bits"),
    "big-endian": (lambda: patched(5, "B", 2), "big-endian"),
    "dynamic": (lambda: patched(64, "<I", 3), "dynamically"),
    "x86": (lambda: patched(18, "<H", 62), "another processor"),
    "overlapping": (overlapping, "overlap"),
    "no entry": (lambda: patched(24, "<Q", 0), "begins"),
    "empty": (lambda: b"", "no ELF"),
}


@pytest.mark.parametrize("name", NO_PROGRAMS)
@pytest.mark.parametrize("command", ["run", "dis"])
def test_files_that_are_no_programs(name: str, command: str, tmp_path: Path) -> None:
    make, said = NO_PROGRAMS[name]
    (tmp_path / "p.elf").write_bytes(make())
    done = tilesim("isa", command, str(tmp_path / "p.elf"))
    if command == "dis" and name in ("overlapping", "no entry"):  # code can still be read
        assert done.returncode == 0
        return
    assert done.returncode == 2 and said in done.stderr, done
    assert "p.elf" in done.stderr or name == "overlapping"
    assert done.stdout == "" and "Traceback" not in done.stderr


#: Code, what the trap's cause is, the instruction, options.
TRAPS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "illegal instruction": (".word 0xffffffff", "illegal instruction", ".word 0xffffffff", ()),
    "bad load": ("ld a0, 8(zero)", "load from a bad address", "ld a0, 8(zero)", ()),
    "bad store": ("li t0, 0x7000000\nsd a0, 0(t0)", "store to a bad address", "sd a0, 0(t0)", ()),
    "misaligned vector": (
        "vsetivli t0, 4, e32, m1, ta, ma\naddi a0, sp, -65\nvle32.v v1, (a0)",
        "misaligned load",
        "vle32.v v1, (a0)",
        (),
    ),
    "stack overflow": ("f: addi sp, sp, -16\nsd ra, 0(sp)\ncall f", "store to a bad address", "sd ra, 0(sp)", ()),
    "endless": ("1: j 1b", "instruction limit", "", ("--max-instructions", "10000")),
    "unknown call": ("li a7, 220\necall", "unknown system call", "ecall", ()),
    "reserved group": (
        "vsetivli t0, 4, e32, m2, ta, ma\nvadd.vv v1, v2, v4",
        "illegal instruction",
        "vadd.vv v1, v2, v4",
        (),
    ),
}


@pytest.mark.parametrize("name", TRAPS)
def test_traps_end_with_one(name: str, tmp_path: Path) -> None:
    text, cause, instruction, options = TRAPS[name]
    (tmp_path / "p.elf").write_bytes(isa.assemble(f"_start: nop\nwhere: {text}"))
    told = tmp_path / "r.json"
    done = tilesim("isa", "run", str(tmp_path / "p.elf"), "--json", str(told), *options)
    assert done.returncode == 1 and cause in done.stderr, done
    data = json.loads(told.read_text(encoding="utf-8"))
    assert (data["schema"], data["version"], data["exit_status"]) == ("tilesim.isa_run", 1, None)
    trap = data["trap"]
    assert trap["cause"] == cause and trap["instruction"] == instruction
    assert isinstance(trap["pc"], int) and trap["symbol"].split("+")[0] in ("where", "f")
    assert "line" in trap and "address" in trap and data["instructions"] > 0


def test_codes_of_programs_that_end(tmp_path: Path) -> None:
    for status in (0, 1, 7, 255):
        (tmp_path / "p.elf").write_bytes(isa.assemble(f"_start: li a0, {status}\nli a7, 93\necall"))
        done = tilesim("isa", "run", str(tmp_path / "p.elf"), "--json", str(tmp_path / "r.json"))
        assert done.returncode == (1 if status else 0)
        data = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        assert (data["exit_status"], data["trap"], data["instructions"]) == (status, None, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "none.elf"], ["none.elf"]),
        (["run", "GOOD", "--vlen", "100"], ["power of two", "100"]),
        (["run", "GOOD", "--vlen", "64"], ["power of two", "64"]),
        (["run", "GOOD", "--vlen", "131072"], ["power of two", "65536", "131072"]),
        (["run", "GOOD", "--vlen", "-128"], ["-128"]),
        (["run", "GOOD", "--core", "sifive-x28"], ["sifive-x280"]),
        (["run", "GOOD", "--machine", "tpu-v9"], ["tpu-v"]),
        (["run", "GOOD", "--core", "generic", "--machine", "tpu-v3"], ["not both"]),
        (["run", "GOOD", "--max-instructions", "-1"], ["max-instructions"]),
        (["run", "GOOD", "--json", "/nowhere/r.json"], ["/nowhere/r.json"]),
        (["run", "GOOD", "--trace", "r.txt"], [".pftrace"]),
        (["dis", "12345678z"], ["12345678z", "hexadecimal"]),
        (["kernel", "mma bf16 bf16 b1 m128 n128 k256"], ["ko", "missing"]),
        (["kernel", "sort f32"], ["sort"]),
    ],
)
def test_mistakes_end_with_two(arguments: list[str], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "good.elf").write_bytes(GOOD)
    done = tilesim("isa", *(str(tmp_path / "good.elf") if word == "GOOD" else word for word in arguments))
    assert done.returncode == 2 and "Traceback" not in done.stderr, done
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nop\n  vaddd.vv v1, v2, v3", ["line 2, column 3", "vaddd.vv", "vadd.vv"]),
        ("addi a0, a1, 5000", ["line 1, column 14", "-2048 to 2047", "5000"]),
        ("nop\nvsetvli t0, a0, e32, m3, ta, ma", ["line 2, column 17", "vtype"]),
        ("slli a0, a0, 64", ["line 1, column 14", "0 to 63"]),
        ("vadd.vv v1, v32, v3", ["line 1, column 13", "v0 to v31"]),
        ("beq a0, a1, 5000", ["line 1, column 13", "-4096 to 4094"]),
    ],
)
def test_text_that_cannot_be_assembled(text: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "p.s").write_text(text, encoding="utf-8")
    done = tilesim("isa", "asm", str(tmp_path / "p.s"), "-o", str(tmp_path / "p.elf"))
    assert done.returncode == 2 and not (tmp_path / "p.elf").exists()
    for word in words:
        assert word in done.stderr, done.stderr


def test_ctrl_c_ends_an_endless_loop(tmp_path: Path) -> None:
    """The process is seen to run before it is interrupted; it ends as after Ctrl-C, without a traceback."""
    (tmp_path / "p.elf").write_bytes(
        isa.assemble(f'_start: li a0, 1\nla a1, t\nli a2, 3\nli a7, 64\necall\n1: j 1b{EXIT}\nt: .ascii "up\\n"')
    )
    command = [sys.executable, "-m", "tilesim", "isa", "run", "p.elf"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == b"up\n"
        started = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        try:
            code = child.wait(timeout=60)
        finally:
            child.kill()
        assert time.monotonic() - started < 30  # not for ever; how soon is the bench's to say
        assert code in (130, -signal.SIGINT) and b"Traceback" not in child.stderr.read()


def test_symbols_that_are_not_there() -> None:
    program = isa.assemble("softmax: ret")
    with pytest.raises(ts.UserError, match="softmax"):
        isa.call(program, "softmaks", 1)


def test_semantics_of_a_wrong_shape_or_type() -> None:
    def run(semantics: Callable[..., Any]) -> None:
        one = isa.define("my.f vd, vs2", "custom-0", funct3=1, funct6=9, semantics=semantics, element="f32")
        text = "f: vsetivli t0, 4, e32, m1, ta, ma\nvmv.v.i v2, 1\nmy.f v1, v2\nret"
        core = isa.Core.load("generic").extend(one)
        isa.call(isa.assemble(text, instructions=[one]), "f", core=core)

    run(lambda x: x + np.float32(1))
    for semantics, said in (
        (lambda x: x[:2], "shape"),
        (lambda x: np.stack([x, x]), "shape"),
        (lambda x: x.astype(np.float64), "f64|float64"),
        (lambda x: None, "my.f"),
        (lambda x: "text", "my.f"),
    ):
        with pytest.raises(ts.UserError, match=said) as raised:
            run(semantics)
        assert "my.f" in str(raised.value)


def test_encodings_in_use() -> None:
    with pytest.raises(ts.UserError, match=r"add|sub"):
        isa.define("my.f rd, rs1, rs2", 0x33, funct3=0, funct7=0, semantics=lambda x, y: x)
    one = isa.define("my.f vd, vs2", "custom-0", funct3=1, funct6=9, semantics=np.exp2, element="f32")
    two = isa.define("my.g vd, vs2", "custom-0", funct3=1, funct6=9, semantics=np.exp2, element="f32")
    with pytest.raises(ts.UserError, match=r"my\.f"):
        isa.Core.load("generic").extend(one).extend(two)
