"""Compilers and assemblers of others for RISC-V; a test that lacks one is skipped, naming it."""

from __future__ import annotations

import importlib.util
import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = (
    "-target",
    "riscv64-freestanding-none",
    "-mcpu=generic_rv64+m+a+f+d+c+v+zba+zbb+zbs+zfh+zvfh+zvfbfmin+zvfbfwma+zihintpause",
)


def clang(folder: Path, *arguments: str) -> None:
    """zig's clang on RISC-V without a C library."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: pip install 'tilesim[test]'")
    command = [sys.executable, "-m", "ziglang", "cc", *TARGET, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def clang_bits(folder: Path, lines: list[str]) -> bytes:
    """Machine code of assembly lines, by clang."""
    from elftools.elf.elffile import ELFFile

    text = "\n".join([".option norelax", ".option exact", ".text", *lines])
    (folder / "lines.s").write_text(text + "\n", encoding="utf-8")
    clang(folder, "-c", "lines.s", "-o", "lines.o")
    elf = ELFFile(io.BytesIO((folder / "lines.o").read_bytes()))
    return bytes(elf.get_section_by_name(".text").data())


def linux_gcc(folder: Path, source: str, *options: str, name: str = "program") -> Path:
    """A static Linux program by Debian's cross compiler, with its C library."""
    compiler = shutil.which("riscv64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("riscv64-linux-gnu-gcc is not installed (Debian: gcc-riscv64-linux-gnu, libc6-dev-riscv64-cross)")
    (folder / f"{name}.c").write_text(source, encoding="utf-8")
    command = [compiler, "-static", *options, f"{name}.c", "-o", name, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / name


def linux_clang(folder: Path, source: str, *options: str, name: str = "program") -> Path:
    """A static Linux program by zig's clang with vectors, and musl, which its first use compiles."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: pip install 'tilesim[test]'")
    (folder / f"{name}.c").write_text(source, encoding="utf-8")
    target = ("-target", "riscv64-linux-musl", "-mcpu=generic_rv64+m+a+f+d+c+v", "-static")
    command = [sys.executable, "-m", "ziglang", "cc", *target, *options, f"{name}.c", "-o", name, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / name


def under_qemu(
    file: Path, *arguments: str, given: bytes = b"", vlen: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """What qemu-user makes of a program."""
    qemu = shutil.which("qemu-riscv64")
    if qemu is None:
        pytest.skip("qemu-riscv64 is not installed (Debian: qemu-user)")
    core = [] if vlen is None else ["-cpu", f"rv64,v=true,vlen={vlen},vext_spec=v1.0"]
    command = [qemu, *core, str(file), *arguments]
    return subprocess.run(command, input=given, capture_output=True, timeout=120, check=False)
