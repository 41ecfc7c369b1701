"""Reference kernels of the elementwise functions of floats against numpy; integers: `test_integer_functions.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.kernel_checks import ROUNDOFF, cases, check, floats, random, run, seeds

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "identity": lambda x: x, "negate": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor,
    "ceil": np.ceil, "round_even": np.rint, "trunc": np.trunc, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt, "reciprocal": lambda x: 1 / x, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": erf,
    "sigmoid": sigmoid, "relu": lambda x: np.maximum(x, 0), "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x), "softplus": lambda x: np.log1p(np.exp(x)), "add": np.add,
    "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "remainder": np.fmod, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high), "fma": lambda a, b, c: a * b + c,
}  # fmt: skip
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


def test_unsigned_64_bit_values_keep_their_order():
    a = np.array([2**63 + 5, 7], np.uint64)
    assert run("reduce", a, dims=[0], combiner="maximum").item() == 2**63 + 5
    assert run("reduce", a, dims=[0], combiner="argmin").item() == 1
