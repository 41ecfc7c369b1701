"""`tilesim isa dis`: the code of a program and nothing else, as objdump finds it; raw bytes on request."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tilesim.isa as isa
from support.command import tilesim
from support.riscv_tools import clang
from tilesim import _core

SOURCE = """
const char words[] = "these are no instructions";
static long square(long x) { return x * x; }
long twice(long x) { return x + x; }
__attribute__((noinline)) long sum(const long *x, long n) {
  long s = 0; for (long i = 0; i < n; ++i) s += x[i]; return s;
}
void _start(void) { long x[3] = {1, 2, words[3]}; for (;;) x[1] = sum(x, 3) + square(x[0]) + twice(x[2]); }
"""
CODE = re.compile(r"^\s*([0-9a-f]+):\s+([0-9a-f]{4,8})\s+(\S.*)$")


def tool(name: str) -> str:
    found = shutil.which(f"riscv64-linux-gnu-{name}")
    if found is None:
        pytest.skip(f"riscv64-linux-gnu-{name} is not installed (Debian: binutils-riscv64-linux-gnu)")
    return found


def code_of(text: str) -> dict[int, str]:
    """Bits by address."""
    found = (CODE.match(line) for line in text.splitlines())
    return {int(one[1], 16): one[2].lstrip("0") for one in found if one}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("listing")
    (folder / "p.c").write_text(SOURCE, encoding="utf-8")
    clang(folder, "-O1", "-fno-sanitize=all", "-fno-stack-protector", "-c", "p.c", "-o", "p.o")
    subprocess.run([tool("ld"), "-static", "p.o", "-o", "p.elf"], cwd=folder, check=True, timeout=60)
    return folder / "p.elf"


def test_sections_with_code_alone(program: Path) -> None:
    """Addresses and bits are objdump's, symbols are labels, and every line assembles to its bits."""
    objdump = [tool("objdump"), "-d", "-M", "no-aliases", str(program)]
    theirs = subprocess.run(objdump, capture_output=True, text=True, check=True, timeout=60).stdout
    done = tilesim("isa", "dis", str(program))
    assert done.returncode == 0
    assert code_of(done.stdout) == code_of(theirs)
    labels = re.findall(r"^([0-9a-f]+) <(\w+)>:$", done.stdout, re.M)
    wanted = re.findall(r"^0*([0-9a-f]+) <(\w+)>:$", theirs, re.M)
    assert sorted(labels) == sorted(wanted) and {"_start", "sum", "twice"} <= {name for _, name in labels}
    for line in done.stdout.splitlines():
        if one := CODE.match(line):
            made = _core.isa_assemble(one[3].split("#")[0])[0]
            assert made == int(one[2], 16).to_bytes(len(one[2]) // 2, "little"), line


def test_jumps_name_where_they_go(tmp_path: Path) -> None:
    text = "_start: beqz a0, end\nj _start\nc.j 4\njal ra, end\nend: ret"
    (tmp_path / "p.elf").write_bytes(isa.assemble(text))
    lines = tilesim("isa", "dis", str(tmp_path / "p.elf")).stdout.splitlines()
    assert lines[0] == "10000 <_start>:"
    assert lines[1].endswith("beq a0, zero, 14  # 1000e <end>")
    assert lines[2].endswith("jal zero, -4  # 10000 <_start>")
    assert lines[3].endswith("c.j 4  # 1000c")
    assert lines[4].endswith("jal ra, 4  # 1000e <end>")
    assert lines[5] == "1000e <end>:"


def test_raw_bytes(tmp_path: Path) -> None:
    code, _ = _core.isa_assemble("add a0, a1, a2\nc.nop\n.byte 7")
    (tmp_path / "code.bin").write_bytes(code)
    done = tilesim("isa", "dis", "--raw", "--address", "4096", str(tmp_path / "code.bin"))
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()] == [
        ["1000:", "00c58533", "add a0, a1, a2"],
        ["1004:", "0001", "c.nop"],
        ["1006:", "07", ".byte 0x7"],
    ]
    assert tilesim("isa", "dis", str(tmp_path / "code.bin")).returncode == 2  # no ELF file
    assert tilesim("isa", "dis", "--raw", str(tmp_path / "none")).returncode == 2
