"""Reference kernels of products, reductions, windows and movement against numpy, on random shapes."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

from support.kernel_checks import NUMPY, ROUNDOFF, cases, check, floats, gamma, random, run, seeds, shapes
from tilesim import _core


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
        "window_reduce", x, window=window.tolist(), strides=strides.tolist(), pads=pads.reshape(-1).tolist(),
        window_dilation=dilation.tolist(), combiner=combiner,
    )  # fmt: skip
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


# ---- indexed


@cases(seeds, st.sampled_from(["clip", "fill"]))
def test_gather_rows_and_boxes(seed, mode):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 99, (5, 6, 4)).astype(np.float32)
    indices = rng.integers(-2, 7, (3, 2, 2))
    sizes = [1, int(rng.integers(1, 4)), 4]
    y = run(
        "gather", x, indices.astype(np.int32), offset_dims=[1, 2], collapsed_slice_dims=[0], start_index_map=[0, 1],
        index_vector_dim=1, slice_sizes=sizes, mode=mode,
    )  # fmt: skip
    assert y.shape == (3, sizes[1], 4, 2)
    limit = np.array([5 - 1, 6 - sizes[1]])
    for i, j in itertools.product(range(3), range(2)):
        start = indices[i, :, j]
        inside = np.all((start >= 0) & (start <= limit))
        a, b = np.clip(start, 0, limit)
        reference = x[a, b : b + sizes[1]] * (mode == "clip" or inside)
        assert np.array_equal(y[i, :, :, j], reference)


def test_embedding():
    table = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    ids = np.array([[0, 3], [1, 1]], np.int64)
    assert np.array_equal(run("embedding", table, ids), table[ids])
    padded = run("embedding", table, ids, padding_index=1)
    assert np.array_equal(padded, np.where((ids == 1)[..., None], 0, table[ids]))
    with pytest.raises(Exception, match="out of range"):
        run("embedding", table, np.array([4]))


def test_complex_arithmetic_is_unsupported():
    x = np.ones(3, np.complex64)
    assert np.array_equal(run("reverse", x, dims=[0]), x)
    with pytest.raises(_core.Unsupported, match="c64"):
        run("elementwise", x, x, function="add")


def test_numerics_names_are_checked():
    with pytest.raises(_core.UserError, match="multiply"):
        run("softmax", np.zeros(3, np.float32), dim=0, numerics={"multipli": "bf16"})
