"""Kernels in C, as clang and gcc make them of loops: numpy's results at every level of optimisation and every VLEN."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim.isa as isa
from support import riscv_tools
from support.c_kernels import SOURCE, cases

LEVELS = ("-O0", "-O1", "-O2", "-O3")
OPTIONS = ("-ffp-contract=off", "-fno-sanitize=all", "-fno-builtin", "-fno-math-errno")


def by_clang(folder: Path, level: str) -> Path:
    (folder / "k.c").write_text(SOURCE, encoding="utf-8")
    riscv_tools.clang(folder, level, *OPTIONS, "-c", "k.c", "-o", "k.o")
    return folder / "k.o"


def by_gcc(folder: Path, level: str) -> Path:
    compiler = shutil.which("riscv64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("riscv64-linux-gnu-gcc is not installed (Debian: gcc-riscv64-linux-gnu)")
    (folder / "k.c").write_text(SOURCE, encoding="utf-8")
    command = [
        compiler, level, "-ffp-contract=off", "-fno-builtin", "-fno-math-errno", "-mcmodel=medany", "-c", "k.c",
        "-o", "k.o",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "k.o"


def results(elf: bytes, **options: Any) -> tuple[dict[str, list[bytes]], int]:
    """Bytes of all arrays after each function, each checked by numpy; how many vector instructions ran."""
    found: dict[str, list[bytes]] = {}
    vectors = 0
    for name, arguments, returns, check in cases():
        result = isa.call(elf, name, *arguments, **({"returns": returns} if returns else {}), **options)
        assert result.trap is None, (name, result.trap)
        check(arguments, result.value if returns else None)
        found[name] = [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]
        vectors += result.vector_instructions
    return found, vectors


@pytest.mark.singly
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("compiler", [by_clang, by_gcc])
def test_numpy_says_the_same(compiler: Any, level: str, tmp_path: Path) -> None:
    _, vectors = results(compiler(tmp_path, level).read_bytes())
    if compiler is by_clang and level in ("-O2", "-O3"):
        assert vectors > 1000  # loops are vectorised


def test_every_vector_length_and_policy_gives_the_same_bits(tmp_path: Path) -> None:
    """VLEN 128 to 65,536, tails and masked-off elements kept or overwritten with ones."""
    elf = by_clang(tmp_path, "-O3").read_bytes()
    wanted, most = results(elf, vlen=128)
    fewest = most
    for vlen in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536):
        found, vectors = results(elf, vlen=vlen)
        assert found == wanted, vlen
        fewest = min(fewest, vectors)
    assert fewest < most  # longer registers, fewer instructions
    for vlen in (128, 1024, 65536):
        assert results(elf, vlen=vlen, agnostic="ones")[0] == wanted, vlen
