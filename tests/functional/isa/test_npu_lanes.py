"""Special functions of an NPU core, rows of lanes, floats of 8 bits. Against numpy, in 32 and 64 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim.isa as isa


def _each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda x: np.array([function(float(v)) for v in x])


def _gelu_tanh(x: Any) -> Any:
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / (1 + np.exp(-2 * u))  # (1 + tanh u) / 2 without its cancellation


#: by number: meaning in double precision, and the range that is drawn from
FUNCTIONS: list[tuple[str, Callable[[Any], Any], float, float]] = [
    ("exp", np.exp, -80, 80),
    ("exp2", np.exp2, -120, 120),
    ("expm1", np.expm1, -20, 80),
    ("log", np.log, 1e-6, 1e6),
    ("log2", np.log2, 1e-6, 1e6),
    ("log1p", np.log1p, -0.999, 1e3),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 1e-6, 1e6),
    ("cbrt", np.cbrt, -1e6, 1e6),
    ("sin", np.sin, -100, 100),
    ("cos", np.cos, -100, 100),
    ("tan", np.tan, -100, 100),
    ("asin", np.arcsin, -1, 1),
    ("acos", np.arccos, -1, 1),
    ("atan", np.arctan, -100, 100),
    ("sinh", np.sinh, -80, 80),
    ("cosh", np.cosh, -80, 80),
    ("tanh", np.tanh, -10, 10),
    ("erf", _each(math.erf), -4, 4),
    ("erfc", _each(math.erfc), -4, 9),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), -80, 80),
    ("gelu_erf", lambda x: x * _each(math.erfc)(-x / math.sqrt(2)) / 2, -5, 5),
    ("gelu_tanh", _gelu_tanh, -5, 5),
    ("silu", lambda x: x / (1 + np.exp(-x)), -80, 80),
    ("softplus", lambda x: np.log1p(np.exp(x)), -80, 80),
]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("number", range(24), ids=[row[0] for row in FUNCTIONS])
def test_special_functions(number: int, kind: Any) -> None:
    name, meaning, low, high = FUNCTIONS[number]
    rng = np.random.default_rng(number)
    x = np.concatenate([rng.uniform(low, high, 200), rng.uniform(low, high, 56) / 16])
    x = x[(x >= low) & (x <= high)].astype(kind)
    bits = 8 * x.dtype.itemsize
    text = f"""
f: vsetvli t0, a2, e{bits}, m8, ta, ma
 vle{bits}.v v8, (a0)
 fn v16, v8, {number}
 vse{bits}.v v16, (a1)
 slli t1, t0, {3 if bits == 64 else 2}
 add a0, a0, t1
 add a1, a1, t1
 sub a2, a2, t0
 bnez a2, f
 ret
"""
    y = np.zeros_like(x)
    assert isa.call(isa.assemble(text), "f", x, y, len(x), machine="edge-8").trap is None
    want = meaning(x.astype(np.float64))
    # in double precision this meaning is no better than what it is asked of
    allowed = 2 * np.spacing(np.abs(want).astype(np.float32)) if bits == 32 else 1e-13 * np.abs(want) + 1e-15
    if name.startswith("gelu"):  # x/2 times 1 plus a function that comes near -1
        allowed += 2 * 2.0**-24 * np.abs(x) if bits == 32 else 1e-13 * np.abs(x)
    assert (np.abs(y - want) <= allowed).all()


def lanes_text(line: str, bits: int, count: int = 28) -> str:
    """vl is smaller than the register: the rest of the destination stays."""
    group = f"e{bits}, m{bits // 32}"
    return f"""
f: li t1, 32
 vsetvli t0, t1, {group}, ta, ma
 vle{bits}.v v8, (a0)
 vle{bits}.v v10, (a1)
 li t1, {count}
 vsetvli t0, t1, {group}, ta, ma
 {line}
 li t1, 32
 vsetvli t0, t1, {group}, ta, ma
 vse{bits}.v v10, (a1)
 ret
"""


def moved(line: str, values: Any, count: int = 28) -> Any:
    """32 elements: 4 rows of 8 lanes."""
    out = np.full(32, 99, values.dtype)
    bits = 8 * values.dtype.itemsize
    result = isa.call(isa.assemble(lanes_text(line, bits, count)), "f", values, out, machine="edge-8")
    assert result.trap is None, result.trap
    assert (out[count:] == 99).all()
    return out[:count]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [32, 28, 8, 5])
def test_spread(count: int, kind: Any) -> None:
    x = np.random.default_rng(5).normal(size=32).astype(kind)
    np.testing.assert_array_equal(moved("xl.spread v10, v8", x, count), np.repeat(x[::8], 8)[:count])


@pytest.mark.parametrize("count", [32, 28, 8, 5])
@pytest.mark.parametrize("kind", [np.int32, np.float32, np.int64, np.float64])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("which", range(4))
def test_reduce(which: int, rows: bool, kind: Any, count: int) -> None:
    """Small whole numbers: sums and products are exact in any order."""
    integer = np.issubdtype(kind, np.integer)
    x = np.random.default_rng(6).integers(-3, 4, 32).astype(kind)
    found = moved(f"xl.reduce v10, v8, {which + 4 * integer + 8 * rows}", x, count)
    combine = (np.sum, np.prod, np.max, np.min)[which]
    lanes = np.arange(count) % 8 if rows else np.arange(count) // 8
    want = [combine(x[:count][lanes == lane]) for lane in lanes]
    np.testing.assert_array_equal(found, np.array(want, kind))


@pytest.mark.parametrize("count", [28, 1])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [False, True])
def test_sums_begin_at_zero_products_at_the_first_term(rows: bool, kind: Any, count: int) -> None:
    x = np.full(32, -0.0, kind)
    assert not np.signbit(moved(f"xl.reduce v10, v8, {8 * rows}", x, count)).any()
    assert np.signbit(moved(f"xl.reduce v10, v8, {2 + 8 * rows}", x, count)).all()
    x[1:] = 1
    assert np.signbit(moved(f"xl.reduce v10, v8, {1 + 8 * rows}", x, count)[0])


@pytest.mark.parametrize("count", [32, 28, 8, 5])
@pytest.mark.parametrize("by", [0, 1, 3, 7, 8, 9])
def test_lanes_move(by: int, count: int) -> None:
    """Rows of 8 lanes; lanes that are left stay as they were, 99 here."""
    x = np.random.default_rng(7).normal(size=32).astype(np.float32)
    row, lane = np.arange(count) // 8, np.arange(count) % 8
    for name, source in (("up", lane - by), ("down", lane + by)):
        index = row * 8 + source
        there = (source >= 0) & (source < 8) & (index < count)
        want = np.where(there, x[np.where(there, index, 0)], 99)
        np.testing.assert_array_equal(moved(f"li t2, {by}\n xl.{name} v10, v8, t2", x, count), want)
    index = row * 8 + by
    want = np.where((by < 8) & (index < count), x[np.minimum(index, 31)], 0)
    np.testing.assert_array_equal(moved(f"li t2, {by}\n xl.pick v10, v8, t2", x, count), want)
    index = np.arange(count) ^ by
    want = np.where(index < count, x[np.minimum(index, 31)], 0)
    np.testing.assert_array_equal(moved(f"li t2, {by}\n xl.flip v10, v8, t2", x, count), want)


FLOATS8 = {"float8_e4m3fn": 4, "float8_e5m2": 5, "float8_e4m3fnuz": 6, "float8_e5m2fnuz": 7, "float8_e8m0fnu": 8}


@pytest.mark.parametrize("name", FLOATS8)
def test_floats_of_8_bits(name: str) -> None:
    """Every value of a type as ml_dtypes has it; back, with halves between neighbours, both zeros, NaN, large ones."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(256, dtype=np.uint8)
    text = """f: vsetvli t0, a2, e32, m4, ta, ma
 vle8.v v8, (a0)
 xf.widen v12, v8, NUMBER
 vse32.v v12, (a1)
 slli t1, t0, 2
 add a1, a1, t1
 add a0, a0, t0
 sub a2, a2, t0
 bnez a2, f
 ret"""
    wide = np.zeros(256, np.float32)
    program = isa.assemble(text.replace("NUMBER", str(FLOATS8[name])))
    assert isa.call(program, "f", codes, wide, 256, machine="edge-8").trap is None
    np.testing.assert_array_equal(wide, codes.view(kind).astype(np.float32))
    finite = np.unique(wide[np.isfinite(wide)])
    between = (finite[1:].astype(np.float64) + finite[:-1]) / 2
    noise = np.random.default_rng(3).normal(size=500) * 10.0 ** np.random.default_rng(4).uniform(-6, 6, 500)
    odd = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45]
    values = np.concatenate([finite, between, np.nextafter(between, np.inf), noise, odd]).astype(np.float32)
    narrow = np.zeros(len(values), np.uint8)
    text = """f: vsetvli t0, a2, e32, m4, ta, ma
 vle32.v v8, (a0)
 xf.narrow v12, v8, NUMBER
 vse8.v v12, (a1)
 slli t1, t0, 2
 add a0, a0, t1
 add a1, a1, t0
 sub a2, a2, t0
 bnez a2, f
 ret"""
    program = isa.assemble(text.replace("NUMBER", str(FLOATS8[name])))
    assert isa.call(program, "f", values, narrow, len(values), machine="edge-8").trap is None
    with np.errstate(all="ignore"):
        want = values.astype(kind)
    np.testing.assert_array_equal(narrow.view(kind).astype(np.float32), want.astype(np.float32))
