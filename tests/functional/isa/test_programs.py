"""C programs from stock compilers do here what they do under qemu-user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support import riscv_tools
from support.c_programs import LIBRARY
from support.command import tilesim
from support.riscv_tools import under_qemu


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
def test_a_program_with_its_library(level: str, tmp_path: Path) -> None:
    file = riscv_tools.linux_gcc(tmp_path, LIBRARY, level)
    given = b"one\ntwo words\n\nlast"
    theirs = under_qemu(file, "x", "a b", "", given=given)
    ours = isa.run(file, "x", "a b", "", input=given)
    assert ours.trap is None, ours
    assert (ours.exit_status, ours.output, ours.errors) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert theirs.returncode == 12 and b"last" in theirs.stdout


def test_two_runs_are_the_same_to_the_instruction(tmp_path: Path) -> None:
    text = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
int main(void) {
  unsigned char r[5]; struct timespec t;
  getrandom(r, 5, 0); clock_gettime(CLOCK_MONOTONIC, &t);
  printf("%d %d %d %ld %ld %p\\n", r[0], r[1], r[4], (long)t.tv_sec, (long)t.tv_nsec, malloc(10));
}
"""
    file = riscv_tools.linux_gcc(tmp_path, text, "-O1")
    first, second, other = isa.run(file), isa.run(file), isa.run(file, seed=1)
    assert first.to_dict() == second.to_dict() and first.output == second.output
    assert other.output != first.output


def test_files_below_the_root_alone(tmp_path: Path) -> None:
    text = """
#include <stdio.h>
int main(int n, char **names) {
  for (int i = 1; i < n; ++i) {
    FILE *f = fopen(names[i], "r"); char line[99] = "none";
    if (f) { fgets(line, 99, f); fclose(f); }
    puts(line);
  }
  FILE *f = fopen("/new.txt", "w"); if (f) fputs("made", f), fclose(f);
}
"""
    file = riscv_tools.linux_gcc(tmp_path, text, "-O1")
    root = tmp_path / "root"
    root.mkdir()
    (root / "in.txt").write_text("inside")
    (tmp_path / "out.txt").write_text("outside")
    (root / "link.txt").symlink_to(tmp_path / "out.txt")
    names = ("in.txt", "/in.txt", "../out.txt", "/etc/passwd", "link.txt")
    assert isa.run(file, *names, root=root).output.split() == [b"inside", b"inside", b"none", b"none", b"none"]
    assert (root / "new.txt").read_text() == "made"
    assert isa.run(file, *names).output.split() == [b"none"] * 5


KERNELS = """
#include <stddef.h>
#include <stdint.h>
static const float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
int64_t counter;
void axpy(size_t n, float a, const float *x, float *y) { for (size_t i = 0; i < n; ++i) y[i] += a * x[i]; }
double mixed(int8_t a, uint16_t b, double c, float d, int64_t e) { return a + b * c - d * (double)e; }
float pick(int i) { counter += 3; return table[i & 3] * (float)counter; }
long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
  return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + 9*i + 10*j;
}
uint8_t narrow(uint8_t x) { return x * 3; }
int32_t factorial(int32_t n) { return n < 2 ? 1 : n * factorial(n - 1); }
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "k.c").write_text(KERNELS)
    plain = ("-ffp-contract=off", "-fno-vectorize", "-fno-sanitize=all")
    riscv_tools.clang(folder, "-O1", *plain, "-c", "k.c", "-o", "k.o")
    return folder / "k.o"


def test_functions_on_arrays(kernels: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(1000).astype(np.float32), rng.standard_normal(1000).astype(np.float32)
    want = np.float32(2.5) * x + y
    result = isa.call(kernels, "axpy", 1000, np.float32(2.5), x, y)
    np.testing.assert_allclose(y, want, rtol=1e-6)
    assert result.trap is None and result.instructions > 4000
    strided = np.zeros((10, 3), np.float32)[:, 1]
    isa.call(kernels, "axpy", 10, np.float32(1), x[:10].copy(), strided)
    np.testing.assert_array_equal(strided, x[:10])


def test_values_by_register_and_stack(kernels: Path) -> None:
    assert isa.call(kernels, "mixed", -3, 7, 1.5, np.float32(0.25), 100, returns="f64").value == -3 + 7 * 1.5 - 25
    assert isa.call(kernels, "pick", 2, returns="f32").value == 12.0
    assert isa.call(kernels, "many", *range(1, 11), returns="i64").value == sum(n * n for n in range(1, 11))
    assert isa.call(kernels, "narrow", 200, returns="u8").value == 600 % 256
    assert isa.call(kernels, "factorial", 10, returns="i32").value == 3628800
    assert isa.call(kernels, "factorial", 17, returns="i32").value == np.array(355687428096000).astype(np.int32)


def test_a_read_only_array_stays(kernels: Path) -> None:
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    y.flags.writeable = False
    isa.call(kernels, "axpy", 4, np.float32(1), x, y)
    assert y.tolist() == [1, 1, 1, 1]


def test_unknown_symbols_and_arguments(kernels: Path) -> None:
    with pytest.raises(ts.UserError, match="axpy"):
        isa.call(kernels, "axpi", 1)
    with pytest.raises(ts.UserError, match="argument 1"):
        isa.call(kernels, "axpy", 1, "text")
    with pytest.raises(ts.UserError, match="returns"):
        isa.call(kernels, "axpy", returns="float")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = '_start: li a0, 1\nla a1, t\nli a2, 3\nli a7, 64\necall\nli a0, {}\nli a7, 93\necall\nt: .ascii "abc"'
    for status in (0, 5):
        (tmp_path / "p.s").write_text(program.format(status))
        assert tilesim("isa", "asm", "p.s", "-o", "p.elf").returncode == 0
        command = [sys.executable, "-m", "tilesim", "isa", "run", "p.elf", "--json", "r.json", "--", "-x"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
        assert (done.returncode, done.stdout) == (1 if status else 0, b"abc")
        assert f'"exit_status": {status}' in (tmp_path / "r.json").read_text()
    gone = tilesim("isa", "run", "none.elf")
    assert gone.returncode == 2 and "none.elf" in gone.stderr


def test_arguments_by_the_calling_convention() -> None:
    made = ts.isa.assemble("f: ret\ng: lw t0, 0(a1)\naddi t0, t0, 5\nsw t0, 0(a0)\nret")
    assert ts.isa.call(made, "f", np.uint32(0xFFFFFFFF), returns="i64").value == -1  # 32 bits have a sign in a register
    assert ts.isa.call(made, "f", np.uint32(7), returns="i64").value == 7
    whole = np.array([1, 2, 3, 4], np.int32)
    with pytest.raises(ts.UserError, match="share memory"):
        ts.isa.call(made, "g", whole[:2], whole[:3])
    assert whole.tolist() == [1, 2, 3, 4]
    ts.isa.call(made, "g", whole, whole)
    assert whole.tolist() == [6, 2, 3, 4]
    with pytest.raises(ts.UserError, match="byte order"):
        ts.isa.call(made, "g", np.zeros(4, ">i4"), whole)


def test_programs_that_time_themselves_read_cycles() -> None:
    """A hundred dependent divisions take what the core's file says of one, and a plain run counts instructions."""
    text = "f: li a1, 3\ncsrr t0, cycle\n" + "div a1, a1, a1\n" * 100 + "csrr t1, cycle\nsub a0, t1, t0\nret"
    made = ts.isa.assemble(text)
    assert ts.isa.call(made, "f", returns="i64").value == 101
    timed = ts.isa.call(made, "f", returns="i64", timed=True)
    one = ts.isa.assemble("f: li a1, 3\n" + "div a1, a1, a1\n" * 101 + "ret")
    two = ts.isa.assemble("f: li a1, 3\n" + "div a1, a1, a1\n" * 201 + "ret")
    each = (ts.isa.call(two, "f", timed=True).cycles - ts.isa.call(one, "f", timed=True).cycles) / 100
    assert each > 1 and 99 * each <= timed.value <= 101 * each
