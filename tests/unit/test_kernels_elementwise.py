"""Reference kernels of the elementwise functions against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from support.kernel_checks import NUMPY, ROUNDOFF, cases, check, floats, random, run, seeds

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "identity": lambda x: x,
    "negate": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_even": np.rint,
    "trunc": np.trunc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "reciprocal": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "remainder": np.fmod,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "atan2": np.arctan2,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "fma": lambda a, b, c: a * b + c,
}
POSITIVE = {"log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal", "divide", "remainder", "power"}
CANCELS = {"gelu_erf": 8, "gelu_tanh": 8, "expm1": 2, "fma": 2}


def broadcastable(rng, count):
    shape = [int(n) for n in rng.integers(1, 5, rng.integers(0, 4))]
    out = []
    for _ in range(count):
        own = [n if rng.random() < 0.7 else 1 for n in shape]
        out.append(own[int(rng.integers(0, len(own) + 1)) :] if own else own)
    return out


@pytest.mark.parametrize("function", FUNCTIONS)
@cases(seeds, floats)
def test_elementwise(function, seed, dtype):
    rng = np.random.default_rng(seed)
    arity = FUNCTIONS[function].__code__.co_argcount if hasattr(FUNCTIONS[function], "__code__") else 0
    arity = arity or getattr(FUNCTIONS[function], "nin", 1)
    low = 0.5 if function in POSITIVE else -3.0
    operands = [random(rng, shape, dtype, low, 3.0) for shape in broadcastable(rng, arity)]
    y = run("elementwise", *operands, function=function)
    compute = "f64" if dtype == "f64" else "f32"
    with np.errstate(all="ignore"):
        reference = FUNCTIONS[function](*(x.astype(np.float64) for x in operands))
    slack = 4 * ROUNDOFF[compute] * (np.abs(reference) + CANCELS.get(function, 0))
    check(y, reference, dtype, slack)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
@pytest.mark.parametrize(
    "function", ["add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_xor"]
)
@cases(seeds)
def test_integers_wrap(function, dtype, seed):
    rng = np.random.default_rng(seed)
    limits = np.iinfo(NUMPY[dtype])
    a, b = (rng.integers(limits.min, limits.max, s, NUMPY[dtype], endpoint=True) for s in ((3, 4), (4,)))
    with np.errstate(all="ignore"):
        assert np.array_equal(run("elementwise", a, b, function=function), getattr(np, function)(a, b))


@cases(seeds, st.sampled_from(["i8", "u8", "i32", "i64"]))
def test_integer_division(seed, dtype):
    rng = np.random.default_rng(seed)
    a, b = random(rng, (50,), dtype), random(rng, (50,), dtype)
    b[b == 0] = 1
    quotient = np.trunc(a.astype(np.float64) / b)
    assert np.array_equal(run("elementwise", a, b, function="divide"), quotient)
    assert np.array_equal(run("elementwise", a, b, function="remainder"), a - quotient * b)
    assert np.array_equal(run("elementwise", a, b, function="floor_divide"), a // b)


def test_unsigned_64_bit_values_keep_their_order():
    a, b = np.array([2**63 + 5, 7], np.uint64), np.array([3, 2**64 - 1], np.uint64)
    assert run("elementwise", a, b, function="maximum").tolist() == [2**63 + 5, 2**64 - 1]
    assert run("elementwise", a, b, function="less").tolist() == [False, True]
    assert run("elementwise", a, b, function="divide").tolist() == [(2**63 + 5) // 3, 0]
    assert run("reduce", a, dims=[0], combiner="maximum").item() == 2**63 + 5
    assert run("reduce", a, dims=[0], combiner="argmin").item() == 1


def test_division_by_zero():
    zero = np.zeros(2, np.int32)
    with pytest.raises(Exception, match="division by zero"):
        run("elementwise", zero, zero, function="divide")
    assert np.isnan(run("elementwise", zero.astype(np.float32), zero.astype(np.float32), function="divide")).all()


@pytest.mark.parametrize("function", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_comparisons(function):
    values = np.array([-np.inf, -1, 0, -0.0, 1, np.inf, np.nan])
    for dtype in ("f32", "bf16", "i32"):
        x = (values if dtype != "i32" else np.arange(7) - 3).astype(NUMPY[dtype])
        y = run("elementwise", x[:, None], x, function=function)
        assert y.dtype == np.bool_
        assert np.array_equal(y, getattr(np, function)(x[:, None].astype(np.float64), x.astype(np.float64)))


def test_nan_propagates():
    x = np.array([np.nan, 1, np.nan, 2], np.float32)
    y = np.array([1, np.nan, np.nan, 3], np.float32)
    for function in ("maximum", "minimum"):
        assert np.array_equal(run("elementwise", x, y, function=function), getattr(np, function)(x, y), equal_nan=True)
    assert np.isnan(run("elementwise", x, function="relu")[0])


def test_select_broadcasts():
    condition = np.array([[True], [False]])
    y = run("elementwise", condition, np.float32(1), np.arange(3, dtype=np.float32), function="select")
    assert np.array_equal(y, [[1, 1, 1], [0, 1, 2]])


def test_popcount_and_bitwise_not_know_their_width():
    assert run("elementwise", np.array([-1, 3], np.int8), function="popcount").tolist() == [8, 2]
    assert run("elementwise", np.array([0, 255], np.uint8), function="bitwise_not").tolist() == [255, 0]


# ---- reductions
