"""Reference kernels against numpy in float64, on random shapes and attributes.

Bounds follow from the rounding model: a sum of n products in precision u errs by at most gamma(n, u) * sum|a||b|, and
the result is rounded once more to its dtype. Integer-valued operands must agree exactly.
"""

from __future__ import annotations

import itertools
import math
import signal
import time

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

from tilesim import _core


def cases(*strategies):
    """hypothesis.given with a number of examples that keeps the whole file within half a minute."""
    limits = hypothesis.settings(deadline=None, max_examples=25)
    return lambda test: limits(hypothesis.given(*strategies)(test))


NUMPY = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "i8": np.int8,
    "u8": np.uint8,
    "i64": np.int64,
    "bool": np.bool_,
}
ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
TINY = {"f64": 1e-300, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}


def run(kind, *operands, results=1, numerics=None, **attributes):
    outputs = _core.evaluate_op(kind, list(operands), attributes, results, numerics or {})
    return outputs[0] if results == 1 else outputs


def gamma(n, u):
    return n * u / (1 - n * u)


def check(result, reference, dtype, slack=0.0):
    """result == reference up to one rounding to f32 (or f64), one to dtype, and `slack` (absolute)."""
    reference = np.asarray(reference, np.float64)
    assert result.shape == reference.shape
    assert result.dtype == NUMPY[dtype]
    wide = result.astype(np.float64)
    rounding = ROUNDOFF[dtype] + (ROUNDOFF["f32"] if dtype in ("f16", "bf16") else 0)
    bound = slack + 1.0001 * rounding * np.abs(reference) + TINY[dtype]
    same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
    assert np.all(same | (np.abs(wide - reference) <= bound)), np.max(np.abs(wide - reference) - bound)


def random(rng, shape, dtype, low=-1.0, high=1.0):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith("f") or dtype == "bf16":
        return rng.uniform(low, high, shape).astype(NUMPY[dtype])
    limits = np.iinfo(NUMPY[dtype])
    return rng.integers(max(limits.min, -100), min(limits.max, 100), shape, dtype=NUMPY[dtype])


seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 6), min_size=0, max_size=4)
floats = st.sampled_from(["f64", "f32", "f16", "bf16"])


# ---- products


@cases(seeds, st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(1, 2), floats, st.data())
def test_contract(seed, batch, a_free, b_free, contracted, dtype, data):
    rng = np.random.default_rng(seed)
    letters = iter("abcdefghij")
    groups = [[next(letters) for _ in range(n)] for n in (batch, a_free, b_free, contracted)]
    extent = {letter: int(rng.integers(0 if rng.random() < 0.05 else 1, 7)) for group in groups for letter in group}
    a_labels = data.draw(st.permutations(groups[0] + groups[1] + groups[3]))
    b_labels = data.draw(st.permutations(groups[0] + groups[2] + groups[3]))
    a = random(rng, [extent[i] for i in a_labels], dtype)
    b = random(rng, [extent[i] for i in b_labels], dtype)
    attributes = {
        "a_batch": [a_labels.index(i) for i in groups[0]],
        "b_batch": [b_labels.index(i) for i in groups[0]],
        "a_contract": [a_labels.index(i) for i in groups[3]],
        "b_contract": [b_labels.index(i) for i in groups[3]],
        "dtype": dtype,
    }
    result_labels = groups[0] + [i for i in a_labels if i in groups[1]] + [i for i in b_labels if i in groups[2]]
    equation = f"{''.join(a_labels)},{''.join(b_labels)}->{''.join(result_labels)}"
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    reference = np.einsum(equation, wide_a, wide_b)
    magnitude = np.einsum(equation, np.abs(wide_a), np.abs(wide_b))
    n = max(1, math.prod(extent[i] for i in groups[3]))
    # float64 is compared with float64: both sides err
    accumulator = 2 * ROUNDOFF["f64"] if dtype == "f64" else ROUNDOFF["f32"]
    check(run("contract", a, b, **attributes), reference, dtype, gamma(n, accumulator) * 1.01 * magnitude)


@cases(
    seeds,
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["f32", "bf16", "i8", "u8", "i32"]),
)
def test_integer_valued_products_are_exact(seed, m, n, k, dtype):
    rng = np.random.default_rng(seed)
    low = 0 if dtype == "u8" else -8
    a, b = (rng.integers(low, 9, s).astype(NUMPY[dtype]) for s in ((m, k), (k, n)))
    result = "f32" if dtype in ("f32", "bf16") else "i32"
    y = run("contract", a, b, a_batch=[], b_batch=[], a_contract=[1], b_contract=[0], dtype=result)
    assert np.array_equal(y, a.astype(np.int64) @ b.astype(np.int64))


@cases(seeds)
def test_products_follow_the_machine(seed):
    rng = np.random.default_rng(seed)
    a, b = random(rng, (5, 30), "f32"), random(rng, (30, 4), "f32")
    attributes = {"a_batch": [], "b_batch": [], "a_contract": [1], "b_contract": [0], "dtype": "f32"}
    rounded = [x.astype(ml_dtypes.bfloat16).astype(np.float64) for x in (a, b)]
    slack = gamma(30, ROUNDOFF["f32"]) * (np.abs(rounded[0]) @ np.abs(rounded[1]))
    y = run("contract", a, b, numerics={"multiply": "bf16"}, **attributes)
    check(y, rounded[0] @ rounded[1], "f32", slack)
    assert not np.array_equal(y, run("contract", a, b, **attributes))


# ---- elementwise

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


@cases(seeds, shapes, st.sampled_from(["f64", "f32", "bf16", "i32", "i8"]), st.booleans(), st.data())
def test_reduce(seed, shape, dtype, keep, data):
    rng = np.random.default_rng(seed)
    x = random(rng, shape, dtype)
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True)) if shape else []
    axes = tuple(dims)
    wide = x.astype(np.int64 if x.dtype.kind == "i" else np.float64)
    for combiner, function in {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}.items():
        y = run("reduce", x, dims=dims, combiner=combiner, keep_dims=keep)
        reference = function(wide, axis=axes, keepdims=keep)
        if x.dtype.kind == "i":
            assert np.array_equal(y, reference.astype(x.dtype))
        else:
            magnitude = np.sum(np.abs(wide), axis=axes, keepdims=keep) if combiner == "add" else np.abs(reference)
            check(y, reference, dtype, gamma(2 * max(1, x.size), ROUNDOFF["f64"]) * magnitude)


@cases(seeds, shapes.filter(bool), st.data())
def test_argmax_takes_the_first(seed, shape, data):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, shape).astype(np.float32)
    if data.draw(st.booleans()):
        x[rng.random(shape) < 0.1] = np.nan
    axis = data.draw(st.integers(0, len(shape) - 1))
    for name in ("argmax", "argmin"):
        y = run("reduce", x, dims=[axis], combiner=name)
        assert y.dtype == np.int64
        assert np.array_equal(y, getattr(np, name)(x, axis=axis))


def test_mean():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(run("reduce", x, dims=[1], combiner="mean"), x.mean(1))
    assert np.isnan(run("reduce", x[:, :0], dims=[1], combiner="mean")).all()


@cases(seeds, shapes.filter(bool), st.booleans(), st.booleans(), st.data())
def test_cumulative(seed, shape, reverse, exclusive, data):
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, shape).astype(np.float32)
    axis = data.draw(st.integers(0, len(shape) - 1))
    flipped = np.flip(x, axis) if reverse else x
    inclusive = np.cumsum(flipped, axis, dtype=np.float32)
    reference = inclusive - flipped if exclusive else inclusive
    reference = np.flip(reference, axis) if reverse else reference
    y = run("cumulative", x, dim=axis, combiner="add", reverse=reverse, exclusive=exclusive)
    assert np.array_equal(y, reference)
    if not exclusive and not reverse:
        assert np.array_equal(run("cumulative", x, dim=axis, combiner="maximum"), np.maximum.accumulate(x, axis))


@cases(
    seeds,
    st.integers(1, 3),
    st.sampled_from(["add", "maximum", "minimum", "multiply"]),
    st.sampled_from(["f32", "i32"]),
)
def test_window_reduce(seed, rank, combiner, dtype):
    rng = np.random.default_rng(seed)
    shape = rng.integers(4, 8, rank)
    window, strides = rng.integers(1, 4, rank), rng.integers(1, 3, rank)
    dilation = rng.integers(1, 3, rank)
    pads = rng.integers(0, 3, (rank, 2))
    dilation = np.where((window - 1) * dilation + 1 > shape + pads.sum(1), 1, dilation)
    x = rng.integers(-3, 4, shape).astype(NUMPY[dtype])
    neutral = {"add": 0, "multiply": 1, "maximum": -1e9, "minimum": 1e9}[combiner]
    padded = np.pad(x.astype(np.float64), pads, constant_values=neutral)
    out = (np.array(padded.shape) - ((window - 1) * dilation + 1)) // strides + 1
    function = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}[combiner]
    reference = np.empty(out)
    for index in itertools.product(*map(range, out)):
        steps = zip(index, strides, window, dilation, strict=True)
        part = tuple(slice(i * s, i * s + (w - 1) * d + 1, d) for i, s, w, d in steps)
        reference[index] = function(padded[part])
    y = run(
        "window_reduce",
        x,
        window=window.tolist(),
        strides=strides.tolist(),
        pads=pads.reshape(-1).tolist(),
        window_dilation=dilation.tolist(),
        combiner=combiner,
    )
    inside = np.abs(reference) < 1e8
    assert y.shape == reference.shape
    assert np.array_equal(y[inside], reference[inside])


# ---- movement


@cases(seeds, shapes, st.sampled_from(["f64", "bf16", "i8", "f32", "bool"]), st.data())
def test_movement(seed, shape, dtype, data):
    rng = np.random.default_rng(seed)
    x = random(rng, shape, dtype)
    rank = len(shape)
    permutation = data.draw(st.permutations(range(rank)))
    assert np.array_equal(run("transpose", x, permutation=permutation), x.transpose(permutation))
    assert np.array_equal(run("reshape", x, shape=[x.size]), x.reshape(-1))
    dims = data.draw(st.lists(st.integers(0, rank - 1), unique=True)) if rank else []
    assert np.array_equal(run("reverse", x, dims=dims), np.flip(x, dims) if dims else x)
    start = [int(rng.integers(0, n + 1)) for n in shape]
    limit = [int(rng.integers(s, n + 1)) for s, n in zip(start, shape, strict=True)]
    stride = [int(rng.integers(1, 3)) for _ in shape]
    part = tuple(slice(*bounds) for bounds in zip(start, limit, stride, strict=True))
    assert np.array_equal(run("slice", x, start=start, limit=limit, stride=stride), x[part])
    repeated = run("broadcast", x, shape=[2, *shape, 3], dims=list(range(1, rank + 1)))
    assert np.array_equal(repeated, np.broadcast_to(x[None, ..., None], (2, *shape, 3)))
    if rank:
        axis = data.draw(st.integers(0, rank - 1))
        other = random(rng, [3 if i == axis else n for i, n in enumerate(shape)], dtype)
        assert np.array_equal(run("concat", x, other, dim=axis), np.concatenate([x, other], axis))


def test_large_transposes_of_every_width():
    for dtype in (np.int8, np.float16, np.float32, np.float64):
        x = (np.arange(2 * 70 * 90 * 3) % 127).reshape(2, 70, 90, 3).astype(dtype)
        for permutation in itertools.permutations(range(4)):
            assert np.array_equal(run("transpose", x, permutation=list(permutation)), x.transpose(permutation))


@cases(seeds, st.integers(1, 3))
def test_pad(seed, rank):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 6, rank)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    interior = rng.integers(0, 3, rank)
    spread = shape + (shape - 1) * interior
    low, high = (rng.integers(-(spread // 2), 4) for _ in range(2))
    filled = np.full(spread, 7, np.float32)
    filled[tuple(slice(None, None, i + 1) for i in interior)] = x
    grown = np.pad(filled, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], constant_values=7)
    reference = grown[tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, grown.shape, strict=True))]
    attributes = {"low": low.tolist(), "high": high.tolist(), "interior": interior.tolist()}
    assert np.array_equal(run("pad", x, np.float32(7), mode="constant", **attributes), reference)
    pads = rng.integers(0, 2 * shape.max(), (rank, 2))
    for mode in ("edge", "reflect"):
        y = run("pad", x, low=pads[:, 0].tolist(), high=pads[:, 1].tolist(), interior=[0] * rank, mode=mode)
        assert np.array_equal(y, np.pad(x, pads, mode=mode))


@cases(seeds, st.integers(1, 3))
def test_dynamic_slices_are_clamped(seed, rank):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 6, rank)
    sizes = np.array([rng.integers(0, n + 1) for n in shape])
    x = rng.integers(-9, 9, shape).astype(np.int32)
    update = rng.integers(10, 20, sizes).astype(np.int32)
    starts = rng.integers(-3, 8, rank)
    clamped = np.clip(starts, 0, shape - sizes)
    part = tuple(slice(s, s + n) for s, n in zip(clamped, sizes, strict=True))
    scalars = [np.int32(s) for s in starts]
    assert np.array_equal(run("dynamic_slice", x, *scalars, sizes=sizes.tolist()), x[part])
    reference = x.copy()
    reference[part] = update
    assert np.array_equal(run("dynamic_update", x, update, *scalars), reference)


def test_iota_convert_bitcast():
    assert run("iota", shape=[2, 3], dtype="bf16", dim=1).astype(np.float32).tolist() == [[0, 1, 2]] * 2
    x = np.array([1.5, -1.5, 300], np.float32)
    assert run("convert", x, dtype="i8", overflow="saturate").tolist() == [1, -1, 127]
    assert np.array_equal(run("bitcast", x, dtype="u32"), x.view(np.uint32))


# ---- indexed


@cases(seeds, st.sampled_from(["clip", "fill"]))
def test_gather_rows_and_boxes(seed, mode):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 99, (5, 6, 4)).astype(np.float32)
    indices = rng.integers(-2, 7, (3, 2, 2))
    sizes = [1, int(rng.integers(1, 4)), 4]
    y = run(
        "gather",
        x,
        indices.astype(np.int32),
        offset_dims=[1, 2],
        collapsed_slice_dims=[0],
        start_index_map=[0, 1],
        index_vector_dim=1,
        slice_sizes=sizes,
        mode=mode,
    )
    assert y.shape == (3, sizes[1], 4, 2)
    limit = np.array([5 - 1, 6 - sizes[1]])
    for i, j in itertools.product(range(3), range(2)):
        start = indices[i, :, j]
        inside = np.all((start >= 0) & (start <= limit))
        a, b = np.clip(start, 0, limit)
        reference = x[a, b : b + sizes[1]] * (mode == "clip" or inside)
        assert np.array_equal(y[i, :, :, j], reference)


def test_gather_mode_error_names_the_index():
    attributes = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1}
    attributes["slice_sizes"] = [1, 4]
    with pytest.raises(Exception, match="out of range"):
        run("gather", np.zeros((3, 4), np.float32), np.array([[3]], np.int32), mode="error", **attributes)


def test_embedding():
    table = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    ids = np.array([[0, 3], [1, 1]], np.int64)
    assert np.array_equal(run("embedding", table, ids), table[ids])
    padded = run("embedding", table, ids, padding_index=1)
    assert np.array_equal(padded, np.where((ids == 1)[..., None], 0, table[ids]))
    with pytest.raises(Exception, match="out of range"):
        run("embedding", table, np.array([4]))


# ---- composites


def softmax(x, axis=-1):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.max(x, axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


@cases(seeds, shapes.filter(bool), floats, st.data())
def test_softmax(seed, shape, dtype, data):
    rng = np.random.default_rng(seed)
    x = random(rng, shape, dtype, -20, 20)
    axis = data.draw(st.integers(0, len(shape) - 1))
    wide = x.astype(np.float64)
    u = 40 * ROUNDOFF["f64"] * x.size
    reference = softmax(wide, axis)
    check(run("softmax", x, dim=axis), reference, dtype, u * reference)
    logs = wide - np.max(wide, axis, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(axis, keepdims=True))
    check(run("log_softmax", x, dim=axis), logs, dtype, 100 * ROUNDOFF["f64"] * (1 + np.abs(logs)))


@cases(seeds, floats, st.sampled_from(["layer", "rms", "group", "instance"]), st.booleans())
def test_normalize(seed, dtype, mode, affine):
    rng = np.random.default_rng(seed)
    x = random(rng, (2, 6, 3, 4), dtype, -2, 3)
    wide = x.astype(np.float64)
    if mode in ("layer", "rms"):
        dims, parameters = [2, 3], (3, 4)
        rows = wide.reshape(12, 12)
        extra = {"dims": dims}
    else:
        groups = 3 if mode == "group" else 6
        parameters = (6,)
        rows = wide.reshape(2 * groups, -1)
        extra = {"groups": groups} if mode == "group" else {}
    mean = rows.mean(1) if mode != "rms" else np.zeros(len(rows))
    rstd = 1 / np.sqrt(((rows - mean[:, None]) ** 2).mean(1) + 1e-3)
    reference = ((rows - mean[:, None]) * rstd[:, None]).reshape(x.shape)
    operands = [x]
    if affine:
        scale, bias = random(rng, parameters, dtype), random(rng, parameters, dtype)
        operands += [scale, bias]
        shape = parameters if mode in ("layer", "rms") else (6, 1, 1)
        reference = reference * scale.astype(np.float64).reshape(shape) + bias.astype(np.float64).reshape(shape)
    y, got_mean, got_rstd = run("normalize", *operands, results=3, mode=mode, epsilon=1e-3, **extra)
    check(y, reference, dtype, 1000 * ROUNDOFF["f64"])
    stored = {np.dtype(NUMPY[d]): d for d in ROUNDOFF}[got_mean.dtype]
    check(got_mean.reshape(-1), mean, stored, 100 * ROUNDOFF["f64"])
    check(got_rstd.reshape(-1), rstd, stored, 100 * ROUNDOFF["f64"])


@cases(seeds, floats, st.integers(0, 2))
def test_batch_norm(seed, dtype, feature):
    rng = np.random.default_rng(seed)
    x = random(rng, (3, 4, 5), dtype)
    n = x.shape[feature]
    scale, bias, mean = (random(rng, (n,), dtype) for _ in range(3))
    variance = random(rng, (n,), dtype, 0.5, 2)
    shape = [-1 if i == feature else 1 for i in range(3)]
    s, b, m, v, wide = (a.astype(np.float64) for a in (scale, bias, mean, variance, x))
    reference = (wide - m.reshape(shape)) / np.sqrt(v.reshape(shape) + 1e-5) * s.reshape(shape) + b.reshape(shape)
    y = run("batch_norm", x, scale, bias, mean, variance, feature_dim=feature, epsilon=1e-5)
    check(y, reference, dtype, 100 * ROUNDOFF["f64"])


def attention(q, k, v, mask=None, scale=None, causal=False, offset=None, window=0, cap=0.0, masked_row="zero"):
    """The definition, head by head, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    repeat = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeat, 1), np.repeat(v, repeat, 1)
    s, t = q.shape[2], k.shape[2]
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * (scale or 1 / math.sqrt(q.shape[3]))
    if cap:
        scores = cap * np.tanh(scores / cap)
    offset = t - s if offset is None else offset
    rows, columns = np.arange(s)[:, None], np.arange(t)[None, :]
    hidden = np.zeros((s, t), bool)
    if causal:
        hidden |= columns > rows + offset
    if window:
        hidden |= columns <= rows + offset - window
    scores = np.where(hidden, -np.inf, scores)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
    p = softmax(scores)
    dead = np.all(np.isneginf(scores), -1)
    p[dead] = 0 if masked_row == "zero" else np.nan
    return np.einsum("bhst,bhte->bhse", p, v)


@cases(seeds, floats, st.data())
def test_attention(seed, dtype, data):
    rng = np.random.default_rng(seed)
    b, g, repeat, s, t, d, e = (int(n) for n in rng.integers(1, 5, 7))
    s, t = s + 3, t + 4
    q, k, v = (random(rng, shape, dtype) for shape in ((b, g * repeat, s, d), (b, g, t, d), (b, g, t, e)))
    options = {}
    if data.draw(st.booleans()):
        options["causal"] = True
        if data.draw(st.booleans()):
            options["causal_offset"] = int(rng.integers(-2, 4))
        if data.draw(st.booleans()):
            options["window"] = int(rng.integers(1, 5))
    if data.draw(st.booleans()):
        options["soft_cap"] = 2.0
    if data.draw(st.booleans()):
        options["scale"] = 0.7
    options["masked_row"] = data.draw(st.sampled_from(["zero", "nan"]))
    operands = [q, k, v]
    kind = data.draw(st.sampled_from(["none", "bool", "float"]))
    mask = None
    if kind == "bool":
        mask = rng.random((b, 1, s, t)) < 0.6
    elif kind == "float":
        mask = random(rng, (s, t), dtype)
    if mask is not None:
        operands.append(mask)
    names = {"causal_offset": "offset", "soft_cap": "cap"}
    reference = attention(q, k, v, mask, **{names.get(key, key): value for key, value in options.items()})
    # scores err by gamma(d) each, which the exponential turns into a relative error of the weights
    slack = 20 * (d + t + 10) * ROUNDOFF["f64" if dtype == "f64" else "f32"]
    check(run("attention", *operands, **options), reference, dtype, slack)


# ---- against torch

CASES = [
    {"x": (2, 4, 9, 8), "w": (6, 4, 3, 3), "stride": 2, "padding": 1},
    {"x": (1, 6, 10, 10), "w": (6, 2, 3, 3), "groups": 3, "dilation": 2},
    {"x": (2, 8, 7, 7), "w": (8, 1, 5, 5), "groups": 8, "padding": 2},
    {"x": (2, 3, 20), "w": (5, 3, 4), "stride": 3, "padding": 2},
    {"x": (1, 2, 6, 5, 7), "w": (4, 2, 2, 3, 3), "stride": 2, "padding": 1},
]
LABELS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['x']}x{case['w']}")
def test_convolution_as_torch(case):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    options = dict(case)
    x, w = random(rng, options.pop("x"), "f64"), random(rng, options.pop("w"), "f64")
    bias = random(rng, w.shape[:1], "f64")
    rank = x.ndim - 2
    reference = getattr(torch.nn.functional, f"conv{rank}d")(*map(torch.from_numpy, (x, w, bias)), **options).numpy()
    labels, w_labels = LABELS[rank]
    y = run(
        "convolution",
        x,
        w,
        bias,
        x_labels=labels,
        w_labels=w_labels,
        y_labels=labels,
        strides=[options.get("stride", 1)] * rank,
        pads=[options.get("padding", 0)] * (2 * rank),
        window_dilation=[options.get("dilation", 1)] * rank,
        groups=options.get("groups", 1),
        dtype="f64",
    )
    check(y, reference, "f64", gamma(4 * w[0].size, ROUNDOFF["f64"]) * w[0].size)


def test_transposed_convolution_as_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x, w = random(rng, (2, 3, 5, 6), "f64"), random(rng, (3, 4, 3, 3), "f64")
    transposed = torch.nn.functional.conv_transpose2d
    reference = transposed(torch.from_numpy(x), torch.from_numpy(w), stride=2, padding=1).numpy()
    flipped = np.ascontiguousarray(w[:, :, ::-1, ::-1])
    y = run(
        "convolution",
        x,
        flipped,
        x_labels="NCHW",
        w_labels="IOHW",
        y_labels="NCHW",
        strides=[1, 1],
        pads=[1, 1, 1, 1],
        input_dilation=[2, 2],
        dtype="f64",
    )
    check(y, reference, "f64", gamma(60, ROUNDOFF["f64"]) * 30)


def test_pooling_and_attention_as_torch():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    rng = np.random.default_rng(2)
    x = random(rng, (2, 3, 9, 9), "f32")
    common = {"window": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [0, 0, 0, 0, 1, 1, 1, 1]}
    y = run("window_reduce", x, combiner="maximum", **common)
    assert np.array_equal(y, functional.max_pool2d(torch.from_numpy(x), 3, 2, 1).numpy())
    q, k, v = (random(rng, (2, 4, 6, 8), "f64") for _ in range(3))
    reference = functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), is_causal=True).numpy()
    check(run("attention", q, k, v, causal=True), reference, "f64", 1e-14)


def test_softmax_rows_without_a_maximum_as_torch():
    torch = pytest.importorskip("torch")
    x = np.array([[-np.inf, -np.inf], [np.inf, 0], [np.nan, 1], [-np.inf, 2]], np.float32)
    for kind in ("softmax", "log_softmax"):
        reference = getattr(torch, kind)(torch.from_numpy(x), 1).numpy()
        assert np.array_equal(run(kind, x, dim=1), reference, equal_nan=True)


# ---- errors and empty shapes


def test_shapes_without_elements():
    none = np.zeros((0, 3), np.float32)
    assert run("softmax", none, dim=1).shape == (0, 3)
    assert run("elementwise", none, np.float32(1), function="add").shape == (0, 3)
    assert run("transpose", none, permutation=[1, 0]).shape == (3, 0)
    assert run("reduce", none, dims=[0], combiner="add").tolist() == [0, 0, 0]


def test_complex_arithmetic_is_unsupported():
    x = np.ones(3, np.complex64)
    assert np.array_equal(run("reverse", x, dims=[0]), x)
    with pytest.raises(_core.Unsupported, match="c64"):
        run("elementwise", x, x, function="add")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_ctrl_c_stops_a_long_product():
    a = np.ones((4096, 4096), np.float32)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            run("contract", a, a, a_batch=[], b_batch=[], a_contract=[1], b_contract=[0], dtype="f32")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 1.0


def test_numerics_names_are_checked():
    with pytest.raises(_core.UserError, match="multiply"):
        run("softmax", np.zeros(3, np.float32), dim=0, numerics={"multipli": "bf16"})
