"""Standard streams of `tilesim isa run`: each by itself, bytes as bytes, and none that was closed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilesim.isa as isa
from tilesim.cli.main import app

# writes its bytes to output and errors, reads a byte; ends with one bit for each stream that answers EBADF
BYTES = bytes((0x80, 0xFF, 0x00, 0x0A, 0xC3))
PROGRAM = """_start: li s0, 0
li a0, 0
addi sp, sp, -16
mv a1, sp
li a2, 1
li a7, 63
li s1, 1
call count
li a7, 64
la a1, text
li a2, 5
li a0, 1
li s1, 2
call count
li a0, 2
li s1, 4
call count
mv a0, s0
li a7, 93
ecall
count: ecall
li t0, -9
bne a0, t0, 1f
or s0, s0, s1
1: ret
text: .byte 0x80, 0xff, 0, 10, 0xc3"""


@pytest.mark.parametrize("closed", [(), (0,), (1,), (2,), (0, 1, 2)])
def test_streams_that_are_closed(closed: tuple[int, ...], tmp_path: Path) -> None:
    """The program sees EBADF there and there alone; the other streams get its bytes."""
    (tmp_path / "p.elf").write_bytes(isa.assemble(PROGRAM))
    shell = " ".join(["<&-", ">&-", "2>&-"][one] for one in closed)
    command = f'exec "{sys.executable}" -m tilesim isa run p.elf --json told.json {shell}'
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, input=b"x", capture_output=True, timeout=120, check=False, env=os.environ
    )
    assert b"Traceback" not in done.stderr and b"Error" not in done.stderr, done.stderr
    bits = sum(1 << one for one in closed)
    assert f'"exit_status": {bits},' in (tmp_path / "told.json").read_text()
    assert done.returncode == (1 if bits else 0)
    assert done.stdout == (b"" if 1 in closed else BYTES)
    assert done.stderr.startswith(b"" if 2 in closed else BYTES)


def test_json_where_output_is_closed(tmp_path: Path) -> None:
    (tmp_path / "p.elf").write_bytes(isa.assemble(PROGRAM))
    command = f'exec "{sys.executable}" -m tilesim isa run p.elf --json - >&-'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 2 and b"standard output is closed" in done.stderr and b"Traceback" not in done.stderr


def test_streams_that_stand_for_others_get_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a test or in a notebook: what takes bytes gets them as they are, what takes text gets text."""
    (tmp_path / "p.elf").write_bytes(isa.assemble(PROGRAM))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    app(["isa", "run", str(tmp_path / "p.elf")], standalone_mode=False)
    assert raw.getvalue() == BYTES
    assert sys.stderr.getvalue() == BYTES.decode("utf-8", "replace")  # type: ignore[attr-defined]
