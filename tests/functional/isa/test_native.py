"""Instructions whose meaning is a function of a library: numpy says what they give."""

from __future__ import annotations

import ctypes
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa

SOURCE = r"""
#include <cmath>
#include <cstddef>
#include <cstdint>

extern "C" void vexp2(void *vd, const void *const *operands, size_t count) {
  const float *x = static_cast<const float *>(operands[0]);
  float *to = static_cast<float *>(vd);
  for (size_t i = 0; i < count; ++i) to[i] = std::exp2(x[i]);
}

// old vd + vs2 * rs1
extern "C" void mix(void *vd, const void *const *operands, size_t count) {
  const int32_t *old = static_cast<const int32_t *>(operands[0]), *x = static_cast<const int32_t *>(operands[1]);
  const int64_t by = *static_cast<const int64_t *>(operands[2]);
  for (size_t i = 0; i < count; ++i) static_cast<int32_t *>(vd)[i] = static_cast<int32_t>(old[i] + x[i] * by);
}

extern "C" void pack(void *rd, const void *const *operands, size_t) {
  const int64_t a = *static_cast<const int64_t *>(operands[0]), b = *static_cast<const int64_t *>(operands[1]);
  *static_cast<int64_t *>(rd) = 10 * a + b;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("c++ is not installed")
    folder = tmp_path_factory.mktemp("native")
    (folder / "own.cpp").write_text(SOURCE, encoding="utf-8")
    made = folder / "own.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, folder / "own.cpp"], check=True, timeout=60)
    return made


def test_a_function_of_a_network(library: Path) -> None:
    one = isa.define("my.vexp2 vd, vs2", "custom-0", semantics=f"{library}:vexp2", element="f32", cycles_per_register=2)
    machine = pickle.loads(pickle.dumps(isa.use("edge-8", "exp2", one)))
    b = ts.GraphBuilder("g")
    x = b.input("x", (9, 70))
    b.output(b.apply("exp2", x), "y")
    program = ts.compile(b.build(), machine)
    given = np.linspace(-4, 4, 630, dtype=np.float32).reshape(9, 70)
    given[3, 5] = np.nan
    found = ts.execute(program, [given], level="instruction")["y"]
    np.testing.assert_allclose(found, np.exp2(given), rtol=1e-6)
    assert found[3, 5].view(np.uint32) == 0x7FC00000  # as processors write it
    assert ts.verify(program, level="instruction").ok


def test_masks_scalars_and_the_old_destination(library: Path) -> None:
    one = isa.define("my.mix vd+, vs2, rs1, vm", "custom-0", semantics=f"{library}:mix", element="i32")
    code = isa.assemble(
        """
f:      vsetvli t0, a3, e32, m2, ta, mu
        vle32.v v8, (a0)
        vle32.v v16, (a1)
        vand.vi v0, v8, 1
        vmsne.vi v0, v0, 0
        my.mix  v16, v8, a2, v0.t
        vse32.v v16, (a1)
        ret
""",
        [one],
    )
    x, y = np.arange(13, dtype=np.int32), np.full(13, 7, np.int32)
    assert isa.call(code, "f", x, y, -3, x.size, core=isa.Core().extend(one)).trap is None
    np.testing.assert_array_equal(y, np.where(x % 2 == 1, 7 - 3 * x, 7))


def test_scalars_and_pointers(library: Path) -> None:
    pointer = ctypes.CDLL(str(library)).pack
    for semantics in (f"{library}:pack", pointer):
        one = isa.define("my.pack rd, rs1, rs2", "custom-0", semantics=semantics)
        code = isa.assemble("g: my.pack a0, a0, a1\nret", [one])
        assert isa.call(code, "g", 4, -2, core=isa.Core().extend(one), returns="i64").value == 38


def test_what_is_not_there(library: Path) -> None:
    for semantics, said in (
        (f"{library}:exp3", "unknown symbol"),
        ("nowhere.so:f", "cannot be loaded"),
        ("np.exp2", "does not name a library"),
        (":f", "does not name a library"),
    ):
        with pytest.raises(ts.UserError, match=said):
            isa.define("my.v vd, vs2", "custom-0", semantics=semantics, element="f32")
