"""Object files without a C library, and programs without an entry: their functions may be called."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa

SOURCE = """
#include <string.h>
long copy(char *to, const char *from, long n) { return (char *)memcpy(to, from, n) - to; }
long move(char *a, long to, long from, long n) { return (char *)memmove(a + to, a + from, n) - a; }
void fill(char *to, int value, long n) { memset(to, value, n); }
int compare(const char *a, const char *b, long n) { return memcmp(a, b, n); }
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    compiler = shutil.which("riscv64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("riscv64-linux-gnu-gcc is not installed (Debian: gcc-riscv64-linux-gnu)")
    folder = tmp_path_factory.mktemp("object")
    (folder / "k.c").write_text(SOURCE, encoding="utf-8")
    command = [compiler, "-O2", "-fno-builtin", "-mcmodel=medany", "-c", "k.c", "-o", "k.o"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return (folder / "k.o").read_bytes()


@pytest.mark.parametrize("vlen", [128, 4096])
def test_bytes_are_copied_moved_set_and_compared_as_python_does(code: bytes, vlen: int) -> None:
    rng = random.Random(vlen)
    for size in (0, 1, 7, 127, 128, 129, 1000):
        data = np.frombuffer(rng.randbytes(3000), np.uint8).copy()
        wanted, to, start = data.copy(), rng.randrange(1500), rng.randrange(1500)
        wanted[to : to + size] = data[start : start + size].copy()
        moved = isa.call(code, "move", data, to, start, size, vlen=vlen, returns="i64")
        assert moved.trap is None and moved.value == to
        np.testing.assert_array_equal(data, wanted)
        other = np.zeros(1100, np.uint8)
        assert isa.call(code, "copy", other, data[:1100].copy(), size, vlen=vlen, returns="i64").value == 0
        assert bytes(other) == bytes(data[:size]) + bytes(1100 - size)
        isa.call(code, "fill", other, -3, size, vlen=vlen)
        assert bytes(other) == b"\xfd" * size + bytes(1100 - size)
        one, two = data[:1100].copy(), data[:1100].copy()
        at = rng.randrange(1100)
        two[at] ^= 0x80  # the sign of a char, which memcmp does not know
        a, b = bytes(one[:size]), bytes(two[:size])
        found = isa.call(code, "compare", one, two, size, vlen=vlen, returns="i32").value
        assert (found > 0) - (found < 0) == (a > b) - (a < b)


def test_what_is_added_is_timed_and_named(code: bytes) -> None:
    """Eight registers of 128 bits hold 128 bytes."""
    result = isa.call(code, "copy", np.zeros(4096, np.uint8), np.ones(4096, np.uint8), 4096, vlen=128, timed=True)
    rows = {row["function"]: row for row in result.to_dict()["functions"]}
    assert rows["memcpy"]["cycles"] > rows["copy"]["cycles"] > 0
    assert result.vector_instructions == 2 * 4096 // 128  # loads and stores of eight registers


def test_other_symbols_are_refused_by_name(tmp_path: Path) -> None:
    compiler = shutil.which("riscv64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("riscv64-linux-gnu-gcc is not installed (Debian: gcc-riscv64-linux-gnu)")
    (tmp_path / "k.c").write_text("int other(int); int f(int x) { return other(x); }", encoding="utf-8")
    subprocess.run([compiler, "-O2", "-c", "k.c", "-o", "k.o"], cwd=tmp_path, check=True, timeout=120)
    with pytest.raises(
        ts.UserError, match=r"undefined symbol in the object file \(got other; allowed: symbols of the file, memcpy"
    ):
        isa.call((tmp_path / "k.o").read_bytes(), "f", 1)


@pytest.mark.parametrize("entry", [0, 0x500000])
def test_a_function_is_called_without_an_entry(entry: int) -> None:
    data = bytearray(isa.assemble("double: add a0, a0, a0\nret"))
    struct.pack_into("<Q", data, 24, entry)
    assert isa.call(bytes(data), "double", 21, returns="i64").value == 42
    with pytest.raises(ts.UserError, match="no entry point"):
        isa.run(bytes(data))
