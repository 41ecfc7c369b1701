"""Random vector instructions leave the same registers, flags and memory as qemu-user does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import tilesim.isa as isa
from support import riscv_vector_random as rv

QEMU = shutil.which("qemu-riscv64")
VLENS = (128, 256, 512, 1024)
#: qemu 7.2 has no bfloat16, and ends with an assertion at vector .rtz conversions: test_vector_floats.py has them.
ABSENT = ("bf16", ".rtz")
#: Seeds of the normal run, 2,500 instructions with two states each for every VLEN; with `-m slow` twelve times as many.
SEEDS = (1,)


def rows() -> list[dict[str, object]]:
    every = rv.vector_rows(list(isa.instructions()))
    return [row for row in every if not any(part in str(row["name"]) for part in ABSENT)]


def run_both(program: rv.Program, folder: Path, ones: bool = False) -> tuple[bytes, bytes]:
    if QEMU is None:
        pytest.skip("qemu-riscv64 is not installed (Debian: qemu-user)")
    file = folder / "random.elf"
    file.write_bytes(program.file)
    file.chmod(0o755)
    policy = ",rvv_ta_all_1s=true,rvv_ma_all_1s=true" if ones else ""
    cpu = f"rv64,v=true,vext_spec=v1.0,vlen={program.vlen},Zfh=true{policy}"
    theirs = subprocess.run([QEMU, "-cpu", cpu, str(file)], capture_output=True, timeout=300, check=True)
    ours = isa.run(file, vlen=program.vlen, agnostic="ones" if ones else "undisturbed")
    assert ours.trap is None and ours.exit_status == 0
    return ours.output, theirs.stdout


def check(program: rv.Program, folder: Path, ones: bool = False) -> None:
    found = rv.differences(program, *run_both(program, folder, ones))
    assert not found, "\n".join([f"{len(found)} states differ", *map(str, found[:8])])


@pytest.mark.parametrize("vlen", VLENS)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_instructions_equal_qemu(seed: int, vlen: int, tmp_path: Path) -> None:
    check(rv.make(rows(), seed, vlen, 2500), tmp_path)


def test_every_instruction_equals_qemu(tmp_path: Path) -> None:
    table = rows()
    program = rv.make(table, 3, 256, 4 * len(table), every=True)
    assert {case.name for case in program.cases} == {row["name"] for row in table}
    check(program, tmp_path)


def test_agnostic_elements_are_the_ones_of_qemu(tmp_path: Path) -> None:
    """Tails and masked-off elements, of every instruction with four states; merges and carries leave none out."""
    # of these qemu 7.2 leaves tails (moves) or masked-off elements (slides) as they were
    table = [row for row in rows() if row["name"] not in ("vmv.s.x", "vfmv.s.f", "vslidedown.vi", "vslidedown.vx")]
    check(rv.make(table, 3, 256, 4 * len(table), every=True), tmp_path, ones=True)


@pytest.mark.slow
@pytest.mark.parametrize("vlen", VLENS)
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_hundred_thousand_random_instructions_equal_qemu(seed: int, vlen: int, tmp_path: Path) -> None:
    check(rv.make(rows(), seed, vlen, 3000), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["vfrec7.v", "vfrsqrt7.v", "vfncvt.rod.f.f.w", "vsmul.vv", "vnclip.wv", "vfwredusum.vs"]
)
def test_rare_values_equal_qemu(name: str, tmp_path: Path) -> None:
    check(rv.make([row for row in rows() if row["name"] == name], 5, 512, 4000), tmp_path)


def test_a_difference_is_seen() -> None:
    program = rv.make(rows(), 1, 128, 20)
    ours = isa.run(program.file, vlen=128).output
    changed = bytearray(ours)
    changed[8 * rv.SCALARS + 16 * 3] ^= 1
    (found,) = rv.differences(program, ours, bytes(changed))
    assert found.what == "v3 from byte 0 on" and found.case is program.cases[0]
    assert rv.differences(program, ours, ours) == []
