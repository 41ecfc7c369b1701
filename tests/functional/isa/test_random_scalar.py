"""Random scalar instructions leave the same registers, flags and memory as qemu-user does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import tilesim.isa as isa
from support import riscv_random

QEMU = shutil.which("qemu-riscv64")
CPU = "rv64,zba=true,zbb=true,zbs=true,Zfh=true"
#: Seeds of the normal run, 6,000 drawn instructions each; with `-m slow` four times as many.
SEEDS = (1, 2, 3, 4)


def run_both(program: riscv_random.Program, folder: Path) -> tuple[bytes, bytes]:
    if QEMU is None:
        pytest.skip("qemu-riscv64 is not installed (Debian: qemu-user)")
    file = folder / "random.elf"
    file.write_bytes(program.file)
    file.chmod(0o755)
    theirs = subprocess.run([QEMU, "-cpu", CPU, str(file)], capture_output=True, timeout=300, check=True)
    ours = isa.run(file)
    assert ours.trap is None and ours.exit_status == 0
    return ours.output, theirs.stdout


def told(program: riscv_random.Program, found: list[tuple[int, str, int, int]]) -> str:
    lines = [f"{len(found)} values differ"]
    for group, name, ours, theirs in found[:8]:
        texts = [isa.disassemble(bits) for bits, _ in program.groups[group]] if group >= 0 else []
        lines.append(f"group {group}, {name}: {ours:#x}, qemu {theirs:#x}: {'; '.join(texts)}")
    return "\n".join(lines)


def check(seed: int, folder: Path, groups: int, only: set[str] | None = None) -> None:
    program = riscv_random.make(list(isa.instructions()), seed, groups, only=only)
    ours, theirs = run_both(program, folder)
    found = riscv_random.differences(program, ours, theirs)
    assert len(ours) == len(theirs) and not found, told(program, found)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_instructions_equal_qemu(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, groups=1000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 117))
def test_a_hundred_thousand_random_instructions_equal_qemu(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, groups=1000)


@pytest.mark.parametrize("part", ["f", "fcvt", "fm", "amo", "c."])
def test_every_sort_by_itself_equals_qemu(part: str, tmp_path: Path) -> None:
    names = {row["name"] for row in isa.instructions() if row["name"].startswith(part)}
    check(7, tmp_path, groups=600, only=names)


def test_a_difference_is_seen() -> None:
    program = riscv_random.make(list(isa.instructions()), 1, 20)
    ours = isa.run(program.file).output
    changed = bytearray(ours)
    changed[5 * riscv_random.RECORD + 8 * 3] ^= 1
    assert [(group, name) for group, name, _, _ in riscv_random.differences(program, ours, bytes(changed))] == [
        (5, "x4")
    ]
    assert riscv_random.differences(program, ours, ours) == []
