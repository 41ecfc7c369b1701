"""The C header: kernels that are compiled with it leave what numpy leaves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support import riscv_tools

#: macros of instructions by clang's VCIX intrinsics, and as `.insn`
WAYS = {"vcix": "-mcpu=generic_rv64+m+a+f+d+c+v+zfh+zvfh+zvfbfmin+xsfvcp", "insn": "-mcpu=generic_rv64+m+a+f+d+c+v"}

KERNELS = """
#include "tilesim_isa.h"

/* one tile: w of k x n, x of m x k, y of m x n, row by row; k and n are at most the array's rows and columns */
static void weights(const int8_t *w, size_t k, size_t n, size_t across) {
  uint64_t rows = ts_rows(), columns = ts_columns();
  vint8m1_t zeros = __riscv_vmv_v_x_i8m1(0, columns);
  for (size_t i = 0; i < rows; ++i)
    mx_weights_i8m1(i < k ? __riscv_vle8_v_i8m1_tu(zeros, w + i * across, n) : zeros, 0, columns);
}

void matmul(const int8_t *x, const int8_t *w, int32_t *y, size_t m, size_t n, size_t k) {
  uint64_t rows = ts_rows(), columns = ts_columns();
  for (size_t j = 0; j < n; j += columns)
    for (size_t p = 0; p < k; p += rows) {
      size_t wide = n - j < columns ? n - j : columns, deep = k - p < rows ? k - p : rows;
      weights(w + p * n + j, deep, wide, n);
      for (size_t i = 0; i < m; ++i) {
        mx_push_i8m1(__riscv_vle8_v_i8m1(x + i * k + p, deep), 0, deep);
        vint32m1_t sums = mx_pop_i32m1(0, columns);
        if (p != 0) sums = __riscv_vadd_vv_i32m1(sums, __riscv_vle32_v_i32m1(y + i * n + j, wide), wide);
        __riscv_vse32_v_i32m1(y + i * n + j, sums, wide);
      }
    }
}

void into_memory(const float *x, const float *w, float *y, size_t m) { /* m x rows by rows x columns, added to y */
  uint64_t rows = ts_rows(), columns = ts_columns();
  for (size_t i = 0; i < rows; ++i)
    mx_weights_f32m2(__riscv_vle32_v_f32m2(w + i * columns, columns), 0, columns);
  mx_add(0, y);
  for (size_t i = 0; i < m; ++i) mx_push_f32m2(__riscv_vle32_v_f32m2(x + i * rows, rows), 0, rows);
  mx_add(0, 0);
}

void softmax(const float *x, float *y, size_t n) {
  vfloat32m1_t most = __riscv_vfmv_v_f_f32m1(-__builtin_inff(), 1), sum = __riscv_vfmv_v_f_f32m1(0, 1);
  for (size_t i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m4(n - i);
    most = __riscv_vfredmax_vs_f32m4_f32m1(__riscv_vle32_v_f32m4(x + i, vl), most, vl);
  }
  float top = __riscv_vfmv_f_s_f32m1_f32(most);
  for (size_t i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m4(n - i);
    vfloat32m4_t e = fn_f32m4(__riscv_vfsub_vf_f32m4(__riscv_vle32_v_f32m4(x + i, vl), top, vl), TS_FN_EXP, vl);
    sum = __riscv_vfredusum_vs_f32m4_f32m1(e, sum, vl);
    __riscv_vse32_v_f32m4(y + i, e, vl);
  }
  float all = __riscv_vfmv_f_s_f32m1_f32(sum);
  for (size_t i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m4(n - i);
    __riscv_vse32_v_f32m4(y + i, __riscv_vfdiv_vf_f32m4(__riscv_vle32_v_f32m4(y + i, vl), all, vl), vl);
  }
}

void lanes(const float *x, float *sums, float *largest, int32_t *counted, size_t n) {
  vfloat32m1_t v = __riscv_vle32_v_f32m1(x, n);
  __riscv_vse32_v_f32m1(sums, xl_reduce_f32m1(v, 0, n), n);
  __riscv_vse32_v_f32m1(largest, xf_max_f32m1(v, xl_spread_f32m1(v, n), n), n);
  __riscv_vse32_v_i32m1(counted, xl_reduce_i32m1(__riscv_vfcvt_x_f_v_i32m1(v, n), 4, n), n);
}

void turn(const int32_t *x, int32_t *flipped, int32_t *picked, int32_t *moved, size_t n) {
  vint32m2_t v = __riscv_vle32_v_i32m2(x, n);
  __riscv_vse32_v_i32m2(flipped, xl_flip_i32m2(v, 3, n), n);
  __riscv_vse32_v_i32m2(picked, xl_pick_i32m2(v, 2, n), n);
  __riscv_vse32_v_i32m2(moved, xl_up_i32m2(__riscv_vmv_v_x_i32m2(-1, n), v, 3, n), n);
}

uint64_t asked(uint64_t *all) {
  uint64_t told[8] = {ts_scratchpad(), ts_scratchpad_bytes(), ts_lanes(), ts_arrays(), ts_rows(), ts_columns(),
                      ts_core(), ts_sequencer()};
  for (int i = 0; i < 8; ++i) all[i] = told[i];
  return TS_ARRAY_ROWS * 1000 + TS_ARRAY_COLUMNS;
}
"""


@pytest.fixture(scope="module", params=WAYS)
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("header")
    (folder / "tilesim_isa.h").write_text(isa.header(machine="edge-8"))
    (folder / "k.c").write_text(KERNELS)
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-fno-sanitize=all", "-ffreestanding")
    riscv_tools.clang(folder, WAYS[request.param], *flags, "-c", "k.c", "-o", "k.o")
    return (folder / "k.o").read_bytes()


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (5, 8, 8), (7, 13, 21), (3, 8, 17)])
def test_a_tiled_product(kernels: bytes, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m * n * k)
    x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    y = np.zeros((m, n), np.int32)
    result = isa.call(kernels, "matmul", x, w, y, m, n, k, machine="edge-8", timed=True)
    assert result.trap is None, result
    np.testing.assert_array_equal(y, x.astype(np.int32) @ w.astype(np.int32))
    assert result.cycles is not None and result.cycles >= m  # a row a cycle is the best that the array does


def test_sums_that_the_array_adds_to_memory(kernels: bytes) -> None:
    rng = np.random.default_rng(0)
    x, w, y = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((6, 8), (8, 8), (6, 8)))
    want = y + x @ w
    assert isa.call(kernels, "into_memory", x, w, y, 6, machine="edge-8").trap is None
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("n", [1, 7, 300])
def test_softmax(kernels: bytes, n: int) -> None:
    x = np.random.default_rng(n).normal(size=n).astype(np.float32) * 5
    y = np.zeros_like(x)
    assert isa.call(kernels, "softmax", x, y, n, machine="edge-8").trap is None
    exact = np.exp(x.astype(np.float64) - x.max())
    # a sum of n, a difference, an exponential and a quotient, each within its bound
    np.testing.assert_allclose(y, exact / exact.sum(), rtol=(n + 8) * 2.0**-24 + 2.0**-20)


def test_rows_of_lanes(kernels: bytes) -> None:
    lanes, n = 8, 20
    x = np.random.default_rng(3).integers(-50, 50, n).astype(np.float32)
    sums, largest, counted = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.int32)
    assert isa.call(kernels, "lanes", x, sums, largest, counted, n, machine="edge-8").trap is None
    for row in range(0, n, lanes):
        part = x[row : row + lanes]
        np.testing.assert_array_equal(sums[row : row + lanes], part.sum())
        np.testing.assert_array_equal(largest[row : row + lanes], np.maximum(part, part[0]))
        np.testing.assert_array_equal(counted[row : row + lanes], part.sum().astype(np.int32))


def test_order_within_rows_of_lanes(kernels: bytes) -> None:
    x = np.arange(100, 148, dtype=np.int32)
    flipped, picked, moved = (np.zeros_like(x) for _ in range(3))
    assert isa.call(kernels, "turn", x, flipped, picked, moved, x.size, machine="edge-8").trap is None
    rows = x.reshape(-1, 8)
    np.testing.assert_array_equal(flipped, x[np.arange(x.size) ^ 3])
    np.testing.assert_array_equal(picked.reshape(-1, 8), np.repeat(rows[:, 2:3], 8, axis=1))
    np.testing.assert_array_equal(moved.reshape(-1, 8)[:, 3:], rows[:, :5])
    assert (moved.reshape(-1, 8)[:, :3] == -1).all()


def test_what_software_asks(kernels: bytes) -> None:
    told = np.zeros(8, np.uint64)
    machine = ts.Machine.load("edge-8").to_dict()
    result = isa.call(kernels, "asked", told, machine="edge-8", returns="u64")
    core = machine["core"]
    assert result.value == core["array"]["rows"] * 1000 + core["array"]["columns"]
    assert told[0] == 0x8_0000_0000 and told[2] == core["vector"]["lanes"] and told[3] == core["array"]["count"]
    assert (told[4], told[5]) == (core["array"]["rows"], core["array"]["columns"])


OWN = """
#include "tilesim_isa.h"
void f(const float *x, float *y, size_t n) {
  for (size_t i = 0, vl; i < n; i += vl) {
    vl = __riscv_vsetvl_e32m2(n - i);
    __riscv_vse32_v_f32m2(y + i, my_vexp2_f32m2(__riscv_vle32_v_f32m2(x + i, vl), vl), vl);
  }
}
void g(const int32_t *a, int32_t *y, long by, size_t n) {
  vint32m1_t v = __riscv_vle32_v_i32m1(a, n), old = __riscv_vle32_v_i32m1(y, n);
  vbool32_t odd = __riscv_vmsne_vx_i32m1_b32(__riscv_vand_vx_i32m1(v, 1, n), 0, n);
  old = my_mix_i32m1(old, v, by, n);
  __riscv_vse32_v_i32m1(y, my_mix_i32m1_m(odd, old, v, by, n), n);
}
"""
SCALARS = """
#include "tilesim_isa.h"
long pack(long a, long b) { return (long)my_pack(a, b) + (long)my_shift(a, -3) + (long)my_add12(b, -2048); }
float scale(float old, float by) { return my_scale(old, by); }
"""


def own() -> list[isa.Instruction]:
    def mix(old: Any, a: Any, by: Any) -> Any:
        return old * 3 + a + a.dtype.type(by)

    return [
        isa.define("my.vexp2 vd, vs2", "custom-0", funct3=1, funct6=9, semantics=np.exp2, element="f32"),
        isa.define("my.mix vd+, vs2, rs1, vm", "custom-0", funct3=2, funct6=5, semantics=mix, element="i32"),
        isa.define("my.pack rd, rs1, rs2", "custom-0", funct7=3, semantics=lambda a, b: a * 10 + b),
        isa.define("my.shift rd, rs2, simm5", "custom-0", funct3=6, semantics=lambda a, b: a * 100 + b),
        isa.define("my.add12 rd, rs1, i12", "custom-0", funct3=4, semantics=lambda a, b: a + b),
        isa.define(
            "my.scale fd+, fs1", "custom-0", funct3=3, funct7=1, element="f32", semantics=lambda o, b: o + 2 * b
        ),
    ]


@pytest.fixture(scope="module")
def own_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "tilesim_isa.h").write_text(isa.header(instructions=own()))
    (folder / "own.c").write_text(OWN + SCALARS.replace('#include "tilesim_isa.h"', ""))
    (folder / "scalars.c").write_text(SCALARS)
    return folder


def check_scalars(elf: Path) -> None:
    core = isa.Core.load("generic").extend(*own())
    assert isa.call(elf, "pack", 4, 2, core=core, returns="i64").value == 42 + 397 - 2046
    assert isa.call(elf, "scale", np.float32(1.5), np.float32(0.25), core=core, returns="f32").value == 2.0


def test_instructions_of_ones_own_with_clang(own_kernels: Path) -> None:
    riscv_tools.clang(
        own_kernels, "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize=all", "-c", "own.c", "-o", "own.o"
    )
    core = isa.Core.load("generic").extend(*own())
    x = np.linspace(-3, 3, 101).astype(np.float32)
    y = np.zeros_like(x)
    assert isa.call(own_kernels / "own.o", "f", x, y, x.size, core=core).trap is None
    np.testing.assert_array_equal(y, np.exp2(x))
    a, old = np.arange(-4, 4, dtype=np.int32), np.arange(8, dtype=np.int32)
    once = old * 3 + a + 7
    want = np.where(a & 1, once * 3 + a + 7, once)
    made = old.copy()
    assert isa.call(own_kernels / "own.o", "g", a, made, 7, a.size, core=core).trap is None
    np.testing.assert_array_equal(made, want)
    check_scalars(own_kernels / "own.o")


def gcc(folder: Path, *arguments: str) -> None:
    compiler = shutil.which("riscv64-linux-gnu-gcc") or shutil.which("riscv64-unknown-elf-gcc")
    if compiler is None:
        pytest.skip("no gcc for RISC-V is installed (Debian: gcc-riscv64-linux-gnu)")
    done = subprocess.run([compiler, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_instructions_of_ones_own_with_gcc(own_kernels: Path) -> None:
    gcc(own_kernels, "-O1", "-Wall", "-Wextra", "-Werror", "-c", "scalars.c", "-o", "gcc.o")
    check_scalars(own_kernels / "gcc.o")


BY_NUMBER = """
#include "tilesim_isa.h"
void f(const float *x, float *y, size_t n) {
  __asm__ volatile(".option push\\n.option arch, +v\\nvsetvli t0, %1, e32, m1, ta, ma\\nvle32.v v8, (%0)\\n.option pop"
                   : : "r"(x), "r"(n) : "t0", "memory");
  fn_v(9, 8, TS_FN_TANH);
  __asm__ volatile(".option push\\n.option arch, +v\\nvse32.v v9, (%0)\\n.option pop" : : "r"(y) : "memory");
}
"""


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_registers_by_number(own_kernels: Path, compiler: str) -> None:
    (own_kernels / "numbers.c").write_text(BY_NUMBER)
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-c", "numbers.c", "-o", f"{compiler}.o")
    if compiler == "gcc":
        gcc(own_kernels, *flags)
    else:
        riscv_tools.clang(own_kernels, *flags, "-fno-sanitize=all")
    x = np.linspace(-2, 2, 30).astype(np.float32)
    y = np.zeros_like(x)
    assert isa.call(own_kernels / f"{compiler}.o", "f", x, y, x.size, machine="edge-8").trap is None
    np.testing.assert_allclose(y, np.tanh(x.astype(np.float64)), rtol=2.0**-21)


@pytest.mark.parametrize("language", ["c", "c++"])
def test_no_warnings(own_kernels: Path, language: str) -> None:
    (own_kernels / "empty.c").write_text('#include "tilesim_isa.h"\nextern int nothing;\n')
    flags = ("-x", language, "-Wall", "-Wextra", "-Werror", "-c", "empty.c", "-o", "empty.o")
    riscv_tools.clang(own_kernels, WAYS["vcix"], *flags)


def test_a_wrong_name_is_answered_by_functions_like_it(tmp_path: Path) -> None:
    """The nearest first; what other files may not call, and data, are no answers."""
    names = ["softmax", "soft_max_all", "layer_norm", *(f"__libc_{i}" for i in range(40))]
    code = "\n".join(f"int {name}(int x) {{ return x; }}" for name in names)
    code += '\nint softmap = 3;\n__attribute__((visibility("hidden"))) int softmas(int x) { return x; }'
    code += "\nstatic __attribute__((noinline, used)) int softmat(int x) { return x; }\n"
    (tmp_path / "k.c").write_text(code, encoding="utf-8")
    riscv_tools.clang(tmp_path, "-O1", "-c", "k.c", "-o", "k.o")
    for wrong, meant in (
        ("softma", "softmax"),
        ("sotfmax", "softmax"),
        ("SOFTMAX", "softmax"),
        ("layernorm", "layer_norm"),
    ):
        with pytest.raises(ts.UserError, match=f"Did you mean '{meant}'") as caught:
            isa.call(tmp_path / "k.o", wrong)
        listed = caught.value.allowed.split(", ")
        assert listed[0] == meant and len(listed) <= 6 and listed[-1] == "and 38 more"
    assert "softmas" not in str(caught.value) and "softmat" not in str(caught.value)
    with pytest.raises(ts.UserError) as caught:
        isa.call(tmp_path / "k.o", "qqq")
    assert caught.value.suggestion == "" and len(caught.value.allowed.split(", ")) <= 6
