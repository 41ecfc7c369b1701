"""`tilesim isa` where something goes wrong: exit codes, one message; `test_isa.py` has files and traps."""

from __future__ import annotations

import json
import os
import signal
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
        (["run", "GOOD", "--vlen", "0"], ["power of two"]),
        (["run", "GOOD", "--vlen", "192"], ["power of two", "192"]),
        (["run", "GOOD", "--vlen", "131072"], ["power of two", "65536", "131072"]),
        (["run", "GOOD", "--vlen", "-128"], ["-128"]),
        (["run", "GOOD", "--core", "sifive-x28"], ["sifive-x280"]),
        (["run", "GOOD", "--machine", "tpu-v9"], ["tpu-v"]),
        (["run", "GOOD", "--core", "generic", "--machine", "tpu-v3"], ["both a core and a machine"]),
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


@pytest.mark.parametrize("text", ["", "# a note\n", "_start:\n"])
def test_a_program_without_instructions(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.s").write_text(text)
    done = tilesim("isa", "asm", str(tmp_path / "p.s"), "-o", str(tmp_path / "p.elf"))
    assert done.returncode == 2 and "p.s" in done.stderr and "no instructions" in done.stderr, done
    assert not (tmp_path / "p.elf").exists()
